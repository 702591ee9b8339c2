"""One seed from beginning to end: a workload under faults, then everything is healed, and what must hold is checked.

`run_seed(seed, profile)` gives a Verdict. The same seed gives the same trace, whatever the process's hash seed.
"""

from __future__ import annotations

import asyncio
import gc
import hashlib
import logging
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from evidence.simulator.archive import Archive, archiving
from evidence.simulator.checkers.anomalies import check_history
from evidence.simulator.checkers.cleaning import check_cleaning, check_compacted_reads, fates_of
from evidence.simulator.checkers.coverage import transitions_of
from evidence.simulator.checkers.exactly_once import check_exactly_once, check_same_reads
from evidence.simulator.checkers.group_offsets import check_group_offsets
from evidence.simulator.checkers.groups import check_copies, check_processed, check_stored
from evidence.simulator.checkers.log_oracle import check_logs
from evidence.simulator.checkers.raw_log import RawLogs, read_logs, uncleaned
from evidence.simulator.checkers.recovery import check_recovery, state_of
from evidence.simulator.checkers.shares import check_given
from evidence.simulator.client_calls import watching_calls
from evidence.simulator.client_life import value_of
from evidence.simulator.cluster import (
    ADDRESS,
    COMPACTED,
    COMPACTED_KEYS,
    COPIES,
    COPIES_KEYS,
    DATA,
    KEYS,
    SWEEP_MS,
    TOPICS,
    Cluster,
    Finding,
    TraceHandler,
)
from evidence.simulator.faults import DAY_MS, FaultOptions, draw
from evidence.simulator.group_life import GroupWork
from evidence.simulator.history import History, Outcome
from evidence.simulator.injector import Injector
from evidence.simulator.knobs import Drawn, turned
from evidence.simulator.logins import give_back
from evidence.simulator.open_requests import watching
from evidence.simulator.operators import Operator
from evidence.simulator.share_life import ShareWork, watching_releases
from evidence.simulator.strangers.crowd import Crowd, check_nothing_kept, prepare
from evidence.simulator.workload import Workload
from evidence.world.disk import Disk
from evidence.world.doors import WALL_CLOCK_START_MS, sim_host
from evidence.world.files import PowerCut
from evidence.world.loop import PROCESS, Process, SimLoop, run_simulated
from oncelog.broker.broker import Broker
from oncelog.client.consumer.consumer import Consumer
from oncelog.core.decision import Decision
from oncelog.core.metadata.refusal import Refusal
from oncelog.core.metadata.topics import create_topic
from oncelog.core.placement import coordinator_partition
from oncelog.errors import KafkaError
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionRecord
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig

END_SECONDS = 40.0  # longer than any client waits for anything
QUIET_SECONDS = 20.0  # beyond the transaction timeout and the sweep
LOOKS_MAX = 10  # at what has come to rest, before it is compared
LEFTOVER_SECONDS = 3.0  # Complete records are synced within a second
READ_SECONDS = 30.0
READERS = 2


@dataclass
class Verdict:
    """What came out of one seed."""

    seed: int | str
    profile: str
    findings: list[Finding]
    trace: list[str]
    trace_hash: str
    history: list[str]
    fault_counts: dict[str, int] = field(default_factory=dict)
    outcomes: dict[str, int] = field(default_factory=dict)
    virtual_seconds: float = 0.0
    transitions: dict[str, int] = field(default_factory=dict)
    error_counts: dict[int, int] = field(default_factory=dict)
    strange_request_count: int = 0
    events: list[str] = field(default_factory=list)  # every single fault that happened
    knobs: Drawn = ()  # that were turned
    changes: str = ""  # to what the seed draws (`shrink.py`)

    @property
    def event_count(self) -> int:
        """How much happened: faults, transactions of clients, requests of strangers; and what was turned."""
        return len(self.events) + sum(self.outcomes.values()) + self.strange_request_count + len(self.knobs)

    @property
    def repeat(self) -> str:
        """The line that runs it again."""
        return f"make sim SEED={self.seed} PROFILE={self.profile}" + (f" WITH='{self.changes}'" if self.changes else "")


def run_seed(seed: int, profile: str = "default", *, options: FaultOptions | None = None) -> Verdict:
    """Run one seed, with its own faults or with `options`."""
    chosen = options or draw(seed, profile)
    simulation: list[_Simulation] = []

    archive = Archive()

    async def main(loop: SimLoop) -> None:
        simulation.append(_Simulation(loop, seed, chosen, archive))
        await simulation[0].run()

    with _no_collector(), _quiet_logs(), archiving(archive), turned(chosen.knobs):
        run_simulated(f"{profile} {seed}", main)
        return simulation.pop().verdict(seed, profile)


@contextmanager
def _no_collector() -> Iterator[None]:
    # A collection runs finalizers at a moment that depends on everything else in the process.
    was_enabled = gc.isenabled()
    gc.disable()
    with warnings.catch_warnings():
        # A handler that a kill keeps from its first step leaves the coroutine that it was to await.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        try:
            yield
        finally:
            gc.collect()
            if was_enabled:
                gc.enable()


@contextmanager
def _quiet_logs() -> Iterator[None]:
    logger = logging.getLogger("oncelog")
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    silent = logging.NullHandler()
    logger.addHandler(silent)
    try:
        yield
    finally:
        logger.removeHandler(silent)
        logger.setLevel(level)
        logger.propagate = propagate


class _Simulation:
    def __init__(self, loop: SimLoop, seed: int, options: FaultOptions, archive: Archive) -> None:
        self.loop, self.options, self.archive = loop, options, archive
        self.cluster = Cluster(loop, f"{options.profile} {seed}", options)
        self.history = History(loop)
        self.workload = Workload(self.cluster, self.history)
        self.group_work = GroupWork(self.cluster, archive)
        self.share_work = ShareWork(self.cluster, archive)
        self.copies: dict[str, list[str]] = {}  # reader -> what it read of the copies
        self.transitions = Counter[str]()
        self.injector = Injector(self.cluster)
        self.operator = Operator(self.cluster, self.workload)
        self.crowd = Crowd(self.cluster)
        self.misdirected_count = 0
        self.cluster.note(f"seed {seed}, {options.profile}: {options.describe()}")

    async def run(self) -> None:
        logger, handler = logging.getLogger("oncelog"), TraceHandler(self.cluster)
        logger.addHandler(handler)
        try:
            with (
                watching(self.cluster.requests),
                watching_calls(self.cluster.calls),
                watching_releases(self.share_work),
            ):
                await self._run()
        finally:
            logger.removeHandler(handler)

    async def _run(self) -> None:
        cluster = self.cluster
        assert await cluster.start_broker()
        await self._prepare()
        watching = self.loop.create_task(cluster.watch())
        await self.crowd.before_all()
        self.workload.start()
        self.group_work.start()
        self.share_work.start()
        self.crowd.start()
        self.injector.start()
        self.operator.start()
        await self.workload.finished(self.options.seconds)
        self.crowd.leave()
        self.operator.leave()
        await self.injector.heal()
        await self.workload.end(END_SECONDS)
        await self.workload.recover_two_phase()
        await self.group_work.drained()
        await self.share_work.drained()
        if cluster.is_serving:
            await self._quiet()
            await self._judge()
        watching.cancel()
        self._internal_errors()

    async def _prepare(self) -> None:
        """The topics exist; in the profile of epochs the transactional ids have been used almost up."""
        process = self.cluster.broker_process
        assert process is not None
        await process.start(self._prepare_inside())

    async def _prepare_inside(self) -> None:
        broker = self.cluster.broker
        assert broker is not None
        for topic in TOPICS:
            await broker.topics.create_automatically(topic)
        if self.options.groups:
            await broker.topics.create_automatically(COPIES)
        if self.options.has_compacted_topic:
            await self._create_compacted(broker)
        if self.options.session_ms:
            await give_back(broker)
        if self.options.strangers:
            await prepare(broker, self.options.strangers)
        if self.options.first_epoch >= 0:
            for slot in range(self.options.clients + self.options.two_phase_clients):
                await self._prime(f"client-{slot}")

    async def _create_compacted(self, broker: Broker) -> None:
        configs = [CreatableTopicConfig(name="cleanup.policy", value="compact")]
        asked = CreatableTopic(name=COMPACTED, num_partitions=-1, replication_factor=-1, configs=configs)
        async with broker.store.changing() as metadata:
            outcome = create_topic(metadata, asked, broker.topics.defaults(COMPACTED))
            assert not isinstance(outcome, Refusal), outcome
            await broker.store.append(outcome.records)

    async def _prime(self, transactional_id: str) -> None:
        """As if the id had been used some thirty thousand times."""
        broker = self.cluster.broker
        assert broker is not None
        await broker.producer_id_blocks.ensure()
        holder = await broker.transactions.coordinator_of(transactional_id)
        producer_id = broker.producer_id_blocks.ids.take()
        assert producer_id is not None
        record = TransactionRecord(
            transactional_id,
            producer_id,
            self.options.first_epoch,
            self.options.transaction_timeout_ms,
            last_update_ms=WALL_CLOCK_START_MS,
        )
        await holder.perform(Decision(records=(record,)))
        assert coordinator_partition(transactional_id, 2) == holder.machine.partition_index

    def _host(self, process: Process) -> object:
        return sim_host(process, self.cluster.network, Disk(0), f"{self.cluster.seed}")

    # the second phase: everything is healed

    async def _quiet(self) -> None:
        """L2: within timeout and sweep every transaction is decided, and nothing holds readers back."""
        await self._decided()
        await asyncio.sleep(LEFTOVER_SECONDS)
        await self._decided()  # what a client had sent before it died may have come late, and begun a transaction

    async def _decided(self) -> None:
        waited = self.options.transaction_timeout_ms / 1000 + SWEEP_MS / 1000 + QUIET_SECONDS
        ends = self.loop.time() + waited
        while self.loop.time() < ends and self._open():  # noqa: ASYNC110
            await asyncio.sleep(0.25)
        for text in self._open():
            self.cluster.found("hanging", f"{text} after {waited:g} quiet seconds")

    def _open(self) -> list[str]:
        broker = self.cluster.broker
        if broker is None:
            return ["the broker is gone"]
        found = []
        for partition in broker.partitions:
            rules = partition.rules
            if rules.last_stable_offset != rules.high_watermark or rules.high_watermark != rules.log_end_offset:
                found.append(
                    f"{partition.name}: last stable offset {rules.last_stable_offset}, "
                    f"high watermark {rules.high_watermark}, log end {rules.log_end_offset}"
                )
            if partition.is_offline:
                found.append(f"{partition.name} is offline")
        for holder in broker.transactions.loaded():
            for name, transaction in sorted(holder.machine.table.transactions.items()):
                if transaction.state.name in ("ONGOING", "PREPARE_COMMIT", "PREPARE_ABORT"):
                    found.append(f"{name} is {transaction.state.name}")
        return found

    async def _judge(self) -> None:
        cluster, broker = self.cluster, self.cluster.broker
        assert broker is not None
        cluster.note("--- judged")
        read = await self._read("reader-1")
        committed = self._committed_offsets()
        for _ in range(LOOKS_MAX):
            await self._decided()  # a group's timer may have written in the meantime, and waits for its sync
            async with broker.log_cleaner._lock:  # a swap under way is two logs at once
                pass
            if not self._open():
                break
        live = state_of(broker)
        cluster.probe()
        logs = read_logs(cluster.disk, DATA)
        whole = uncleaned(logs, self.archive)
        self._found("log", check_logs(whole, is_final=True))
        self._check_cleaning(logs, whole)
        self._found("refusals", check_nothing_kept(cluster.disk))
        self.transitions.update(transitions_of(whole.coordinator))
        self.misdirected_count = cluster.disk.misdirected_count
        waits_for_sync = cluster.options.flush_policy == "fsync"
        synced = cluster.disk.copy_of_synced(cluster.seed) if waits_for_sync else cluster.disk
        cluster.end_broker()
        cluster.disk = synced
        if not await cluster.start_broker(synced):
            cluster.found("recovery", "the broker does not start on what was synced")
            return
        assert cluster.broker is not None
        self._found("recovery", check_recovery(live, state_of(cluster.broker)))
        self._found("recovery", check_same_reads(read, await self._read("reader-2")))
        self._check_compacted_reads(whole, read)
        self._check_groups(read, committed)
        for name, given in self.share_work.given.items():
            self._found("shares", check_given(name, given, read, KEYS))
        self._found("exactly_once", check_exactly_once(self.history.transactions, read))
        self._found("group_offsets", check_group_offsets(self.history.transactions, committed))
        self._found("history", check_history(self.history.lines))

    def _check_cleaning(self, logs: RawLogs, whole: RawLogs) -> None:
        compacted = {COMPACTED} if self.options.has_compacted_topic else set()
        may_go = self.options.delete_retention_ms < DAY_MS
        self._found("cleaning", check_cleaning(logs, whole, compacted=compacted, tombstones_may_go=may_go))

    def _check_compacted_reads(self, whole: RawLogs, read: dict[str, list[tuple[int, int]]]) -> None:
        """What was committed to the compacted topic is judged by what was appended: of older values nothing is left."""
        readers = {"reader-1", "reader-2"}
        self._found("cleaning", check_compacted_reads(self.cluster.compacted_reads, whole, whole_readers=readers))
        for name in COMPACTED_KEYS:
            numbered = [
                (r.offset, int(r.headers[0][1] or b"")) for r in fates_of(whole.partitions.get(name, [])).visible
            ]
            read[str(name)] = numbered
            transaction = self.history.begin(self.history.new_process())
            transaction.poll({str(name): [list(pair) for pair in numbered]} if numbered else {})
            self.history.end(transaction, Outcome.OK)

    def _check_groups(
        self, read: dict[str, list[tuple[int, int]]], committed: dict[str, dict[TopicPartition, int]]
    ) -> None:
        work = self.group_work
        for name, group in work.groups.items():
            if work.is_ordered(name):
                self._found("groups", check_stored(name, work.stored[name], committed.get(name, {})))
            if group.mode == "copy":
                for reader in ("reader-1", "reader-2"):
                    self._found("groups", check_copies(name, self.copies.get(reader, []), read, KEYS))
            else:
                self._found("groups", check_processed(name, work.processed[name], read, KEYS))

    def _found(self, checker: str, texts: Iterator[str]) -> None:
        for text in texts:
            self.cluster.found(checker, text)

    def _committed_offsets(self) -> dict[str, dict[TopicPartition, int]]:
        broker = self.cluster.broker
        assert broker is not None
        return {
            group_id: {name: commit.offset for name, commit in group.machine.offsets.of_group(group_id).items()}
            for group in broker.groups.loaded()
            for group_id in group.machine.offsets.groups()
        }

    async def _read(self, name: str) -> dict[str, list[tuple[int, int]]]:
        """Everything a read_committed reader gets, written to the history as well."""
        process = Process(self.loop, name)
        read: dict[str, list[tuple[int, int]]] = {str(key): [] for key in KEYS}
        try:
            async with asyncio.timeout(READ_SECONDS):
                await process.start(self._read_all(process, read))
        except (KafkaError, TimeoutError) as error:
            self.cluster.found("liveness", f"{name} could not read everything: {error!r}")
        return read

    async def _read_all(self, process: Process, read: dict[str, list[tuple[int, int]]]) -> None:
        number = self.history.new_process()
        async with Consumer(
            host=self._host(process),  # type: ignore[arg-type]
            bootstrap_servers=ADDRESS,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
            enable_metrics_push=False,
        ) as consumer:
            wanted = KEYS + (COMPACTED_KEYS if self.options.has_compacted_topic else ())
            wanted += COPIES_KEYS if self.options.groups else ()
            consumer.assign(wanted)
            self.history.assigned(number, list(KEYS))
            ends = await consumer.end_offsets(wanted)
            while any([await consumer.position(key) < ends[key] for key in wanted]):
                transaction = self.history.begin(number)
                records: dict[str, list[list[int]]] = {}
                for record in await consumer.poll(1000):
                    if record.topic == COMPACTED:
                        where = record.topic_partition
                        self.cluster.compacted_reads.append((process.name, where, record.offset, record.key))
                        continue
                    if record.topic == COPIES:
                        self.copies.setdefault(process.name, []).append(record.value.decode())
                        continue
                    key, value = str(record.topic_partition), value_of(record.value)
                    records.setdefault(key, []).append([record.offset, value])
                    read[key].append((record.offset, value))
                transaction.poll(records)
                self.history.end(transaction, Outcome.OK)

    # the end

    def _internal_errors(self) -> None:
        """No task of a living process dies of an error nobody expects."""
        for context in self.loop.errors:
            error, handle = context.get("exception"), context.get("handle")
            owner = handle._context.get(PROCESS) if handle is not None else None
            if isinstance(error, PowerCut) or (owner is not None and owner.is_dead):
                continue
            self.cluster.found("internal", f"{context.get('message')}: {error!r}")

    def _further_counts(self) -> dict[str, int]:
        if self.cluster.broker is not None:
            self.cluster.take_figures(self.cluster.broker)
        found = {
            "cleaning": self.cluster.cleaning_count,
            "misdirected unsynced write": self.misdirected_count + self.cluster.disk.misdirected_count,
            "clock drift": int(self.options.clock_drift != 0),
        }
        return {kind: count for kind, count in found.items() if count}

    def verdict(self, seed: int, profile: str) -> Verdict:
        cluster = self.cluster
        digest = hashlib.sha256()
        for line in [*cluster.trace, *self.history.lines]:
            digest.update(line.encode())
        for path, content in cluster.disk.snapshot(DATA).items():
            digest.update(path.encode() + content)
        further = self._further_counts()
        outcomes: dict[str, int] = {}
        for transaction in self.history.transactions:
            name = transaction.outcome.value if transaction.outcome else "open"
            outcomes[name] = outcomes.get(name, 0) + 1
        return Verdict(
            seed,
            profile,
            cluster.findings,
            cluster.trace,
            digest.hexdigest()[:16],
            self.history.lines,
            {**cluster.fault_counts, **cluster.network.counts, **further},
            outcomes,
            self.loop.time(),
            dict(self.transitions),
            dict(cluster.error_counts),
            cluster.strange_request_count,
            cluster.events,
            self.options.knobs,
        )
