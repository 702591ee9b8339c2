"""One simulated cluster: a broker on one disk, a network, client processes, and a trace of all that happened.

The broker's process can be killed at any moment, with or without the power; it is started again on what the disk kept.
"""

from __future__ import annotations

import asyncio
import logging
import random
import traceback
from collections import Counter
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, replace
from threading import get_ident
from typing import Any

from evidence.simulator.client_calls import ClientCalls
from evidence.simulator.faults import FaultOptions
from evidence.simulator.knobs import options_of
from evidence.simulator.logins import keys_of
from evidence.simulator.open_requests import Bounds, OpenRequests
from evidence.world.disk import DelayedSyncer, Disk
from evidence.world.doors import SlowWorker, sim_host
from evidence.world.files import Keep, PowerCut
from evidence.world.loop import PROCESS, Process, SimLoop
from evidence.world.network import SimNetwork
from oncelog.broker.broker import Broker
from oncelog.broker.partitions.journal_flusher import JournalFlusher
from oncelog.core.access.authorizer import STANDARD_AUTHORIZER
from oncelog.core.metadata.features import TRANSACTION_VERSION
from oncelog.errors import KafkaError, StorageError
from oncelog.log import journal
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord

ADDRESS = "broker:9092"
DATA = "data"
TOPICS = ("a", "b")
PARTITIONS = 2
KEYS = tuple(TopicPartition(topic, partition) for topic in TOPICS for partition in range(PARTITIONS))
COMPACTED = "c"
COMPACTED_KEYS = tuple(TopicPartition(COMPACTED, partition) for partition in range(PARTITIONS))
COPIES = "copies"
COPIES_KEYS = tuple(TopicPartition(COPIES, partition) for partition in range(PARTITIONS))
SWEEP_MS = 1000
NOTES_MAX = 3


@dataclass(frozen=True)
class Finding:
    """Something that must not be: which checker says so, and what it saw."""

    checker: str
    text: str

    def __str__(self) -> str:
        return f"{self.checker}: {self.text}"


@dataclass
class Watermarks:
    """What a probe saw of one partition, last."""

    log_start: int = 0
    last_stable: int = 0
    high: int = 0


def broker_config(options: FaultOptions) -> dict[str, Any]:
    """Small numbers, so that little time meets many boundaries."""
    return {
        "num.partitions": PARTITIONS,
        "transaction.state.log.num.partitions": 2,
        "offsets.topic.num.partitions": 2,
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": SWEEP_MS,
        "journal": "on" if options.has_journal else "off",
        "flush.policy": options.flush_policy,
        "oncelog.journal.max.bytes": 16 * journal.SEGMENT_SIZE_BYTES,
        "log.flush.offset.checkpoint.interval.ms": 1500,
        "log.index.interval.bytes": 200,
        **({"log.roll.ms": options.log_roll_ms} if options.log_roll_ms > 0 else {}),
        "group.min.session.timeout.ms": 500,
        "group.consumer.session.timeout.ms": 2000,
        "group.consumer.min.session.timeout.ms": 1000,
        "group.consumer.heartbeat.interval.ms": 300,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.assignment.interval.ms": 100,
        "group.share.session.timeout.ms": 2000,
        "group.share.min.session.timeout.ms": 1000,
        "group.share.heartbeat.interval.ms": 300,
        "group.share.min.heartbeat.interval.ms": 100,
        "group.share.assignment.interval.ms": 100,
        "group.share.record.lock.duration.ms": 1500,
        "group.share.min.record.lock.duration.ms": 1000,
        "group.share.delivery.count.limit": 25,
        "group.share.max.delivery.count.limit": 25,
        "share.coordinator.state.topic.num.partitions": 2,
        "share.coordinator.snapshot.update.records.per.snapshot": 5,
        "log.cleaner.enable": options.has_cleaner,
        "log.cleaner.backoff.ms": 150,
        "log.cleaner.min.cleanable.ratio": 0.01,
        "log.cleaner.delete.retention.ms": options.delete_retention_ms,
        "transaction.two.phase.commit.enable": options.two_phase_clients > 0,
        "authorizer.class.name": STANDARD_AUTHORIZER if "denied" in options.strangers else "",
        "allow.everyone.if.no.acl.found": True,
        "oncelog.insecure.listeners": True,  # the network is the simulator's own
        **keys_of(options),
    }


@dataclass
class Cluster:
    """`generation` counts the broker's lives. `findings` is filled by whoever sees something wrong on the way."""

    loop: SimLoop
    seed: int | str
    options: FaultOptions
    trace: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    fault_counts: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    broker: Broker | None = None
    broker_process: Process | None = None
    clients: dict[str, Process] = field(default_factory=dict)
    is_stopping: bool = False
    clock_offset_ms: int = 0  # of the broker's machine: it outlives processes
    clock_offset_max_ms: int = 0
    clock_drift: float = 0.0
    compacted_reads: list[tuple[str, TopicPartition, int, bytes | None]] = field(default_factory=list)
    cleaning_count: int = 0
    strange_request_count: int = 0
    error_counts: Counter[int] = field(default_factory=Counter)
    events: list[str] = field(default_factory=list)  # every single fault that happened, by a name of its own
    _event_counts: Counter[str] = field(default_factory=Counter)
    _noted: str = ""
    _repeated: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(f"cluster {self.seed}")
        self.network = SimNetwork(self.loop, self.seed, self.options.network)
        self.network.has_shortcut = self.options.has_shortcut
        self.network.happens = self.happens
        self._skipped = frozenset(self.options.skipped)
        self.disk = Disk(self.seed)
        self.disk.on_power_cut = self._power_went
        self.disk.misdirected_share = self.options.misdirected_share
        self.clock_drift = self.options.clock_drift
        self.watermarks: dict[TopicPartition, Watermarks] = {}
        self._keep_after_crash = Keep.RANDOM
        self.requests = OpenRequests(self.found, self._bounds, self._is_under_way)
        self.network.requests, self.loop.time_moves = self.requests, self.requests.time_moves
        self.calls = ClientCalls(self.loop, self.found)
        self._syncer: DelayedSyncer | None = None

    # what happened

    def note(self, text: str) -> None:
        """One line of the trace; what repeats itself is noted three times."""
        self._repeated = self._repeated + 1 if text == self._noted else 0
        self._noted = text
        if self._repeated >= NOTES_MAX:
            return
        self.trace.append(f"{self.loop.time():9.4f} {text}")

    def count(self, kind: str) -> None:
        """One more fault of a kind."""
        self.fault_counts[kind] = self.fault_counts.get(kind, 0) + 1

    def happens(self, kind: str) -> bool:
        """Whether the next fault of a kind is to happen: a smaller run leaves single ones out (`shrink.py`)."""
        name = f"{kind}.{self._event_counts[kind]}"
        self._event_counts[kind] += 1
        if name in self._skipped:
            return False
        self.events.append(name)
        return True

    def found(self, checker: str, text: str) -> None:
        """Something that must not be."""
        self.findings.append(Finding(checker, text))
        self.note(f"FOUND {checker}: {text}")

    # the broker

    @property
    def is_serving(self) -> bool:
        """Whether the broker has started and lives."""
        return self.broker is not None and self.broker_process is not None and not self.broker_process.is_dead

    async def start_broker(self, disk: Disk | None = None) -> bool:
        """Start a new process on the disk; False where it did not come up."""
        disk = disk or self.disk
        self.generation += 1
        process = Process(self.loop, f"broker.{self.generation}")
        process.name = "broker"  # the network knows hosts, not lives
        process.clock_offset_ms, process.clock_drift = self.clock_offset_ms, self.clock_drift
        seed = f"{self.seed} {self.generation}"
        worker = SlowWorker(seed) if self.options.has_cleaner else None
        host = sim_host(process, self.network, disk, seed, self.options.sync_delay, worker=worker)
        assert isinstance(host.syncer, DelayedSyncer)
        self._syncer = host.syncer
        broker = Broker(DATA, broker_config(self.options), host=host, listen=ADDRESS)
        # Not through the rules of the configuration: a segment of 64 KiB is a boundary met often, though nobody may want it.
        configuration = broker.configuration
        configuration.current = configuration.static = replace(
            configuration.static, **options_of(self.options.knobs, "broker")
        )
        self.broker_process = process
        started: asyncio.Future[BaseException | None] = self.loop.create_future()

        async def start() -> None:
            error: BaseException | None = None
            try:
                await broker.start()
                await self._set_transaction_version(broker)
            except (KafkaError, StorageError, PowerCut, AssertionError) as failure:
                error = failure
            if not started.done():
                started.set_result(error)

        process.start(start())
        await asyncio.wait((started, process.died), return_when=asyncio.FIRST_COMPLETED)
        if process.is_dead:
            self.note("broker died while it started")
            return False
        error = started.result()
        if error is not None:
            self.note(f"broker did not start: {error!r}")
            if isinstance(error, AssertionError):
                self.found("internal", f"start: {error!r}")
            self.end_broker()
            return False
        self.broker = broker
        self.note(f"broker started, life {self.generation}")
        self.probe()
        return True

    async def _set_transaction_version(self, broker: Broker) -> None:
        level = self.options.transaction_version
        if broker.metadata.features.get(TRANSACTION_VERSION) != level:
            async with broker.store.changing() as metadata:
                record = FeatureLevelRecord(
                    name=TRANSACTION_VERSION, level=level, features_epoch=metadata.features_epoch + 1
                )
                await broker.store.append([record])

    async def in_broker(self, work: Callable[[Broker], Coroutine[Any, Any, None]]) -> bool:
        """Have the broker's process do it; whether it was done."""
        broker, process = self.broker, self.broker_process
        if broker is None or process is None or process.is_dead:
            return False

        async def tried() -> bool:
            try:
                await work(broker)
            except (KafkaError, StorageError) as error:
                self.note(f"not done: {error!r}")
                return False
            return True

        task = process.start(tried())
        await asyncio.wait((task, process.died), return_when=asyncio.FIRST_COMPLETED)
        return task.done() and not task.cancelled() and task.result()

    def _power_went(self) -> None:
        self.note("the power went in the middle of a disk operation")
        if self.broker_process is not None:
            self.broker_process.kill()

    def end_broker(self, keep: Keep | None = None) -> None:
        """Kill the process; `keep` None leaves the page cache, else the power goes as well."""
        if self.broker is not None:
            self.probe()
            self.take_figures(self.broker)
        process, self.broker = self.broker_process, None
        self.is_stopping = False
        if process is not None:
            process.kill()
            self.network.cut_process(process)
        if self.options.flush_policy != "fsync":  # nobody was promised that it outlives more than its process
            self.disk.kill()
            self.disk.heal()
            return
        is_untold = self.disk.has_untold_failure or (self._syncer is not None and self._syncer.has_untold_failure)
        if keep is not None or self.disk.is_off or is_untold:
            # After a failed sync of a partition's names of which nothing says so (the disk refused the marker, or the process was
            # killed before) the machine is switched off and on (docs/simulator.md, "What is not simulated").
            self.disk.crash(keep or Keep.RANDOM)
        else:
            self.disk.kill()
            self.disk.heal()

    def set_broker_clock(self, offset_ms: int) -> None:
        """Let the clock of the broker's machine jump."""
        self.clock_offset_ms = offset_ms
        self.clock_offset_max_ms = max(self.clock_offset_max_ms, offset_ms)
        if self.broker_process is not None:
            self.broker_process.clock_offset_ms = offset_ms

    def end_drift(self) -> None:
        """Clocks run as they should again, from where they are."""
        ahead_ms = int(self.loop.time() * 1000 * self.clock_drift)
        self.clock_drift = 0.0
        for process in [self.broker_process, *self.clients.values()]:
            if process is not None:
                process.clock_offset_ms += int(self.loop.time() * 1000 * process.clock_drift)
                process.clock_drift = 0.0
        self.set_broker_clock(max(self.clock_offset_max_ms, self.clock_offset_ms) + max(ahead_ms, 0))

    async def stop_broker(self) -> None:
        """An orderly stop."""
        broker, process = self.broker, self.broker_process
        assert broker is not None
        assert process is not None
        self.is_stopping = True
        stopped = process.start(broker.stop())
        await asyncio.wait((stopped, process.died), return_when=asyncio.FIRST_COMPLETED)
        self.end_broker()

    # liveness

    def _is_under_way(self) -> bool | None:
        """Whether something goes on in the broker that will end by itself; None where no broker runs."""
        process, pause_seconds = self.broker_process, self.disk.sync_pause_seconds
        if self.broker is None or process is None or process.is_dead or process.is_paused or self.is_stopping:
            return None
        if pause_seconds:
            self.requests.slow_until(self.loop.time() + 2 * pause_seconds)
        assert self._syncer is not None
        return self._syncer.under_way_count > 0 or process.messages_to_itself > 0 or self._makes_room()

    def _makes_room(self) -> bool:
        """Whether commits wait until the worker has stored recovery points, since the journal is nearly full."""
        assert self.broker is not None
        flusher, worker = self.broker.flusher, self.broker.host.worker
        is_waiting = isinstance(flusher, JournalFlusher) and flusher.is_making_room
        return is_waiting and isinstance(worker, SlowWorker) and worker.under_way_count > 0

    def _bounds(self) -> Bounds:
        assert self.broker is not None
        config = self.broker.config
        return Bounds(
            self.options.sync_delay,
            config.add_partitions_to_txn_retry_backoff_max_ms,
            config.group_initial_rebalance_delay_ms,
        )

    # looking in

    def take_figures(self, broker: Broker) -> None:
        """What a life of the broker counted, before it is forgotten."""
        self.cleaning_count += int(broker.metrics.count("log_cleanings"))
        for counts in broker.metrics._errors.values():
            self.error_counts.update(counts)

    def probe(self) -> None:
        """S1: log start <= last stable offset <= high watermark <= log end, and none of them goes back, ever."""
        broker = self.broker
        if broker is None:
            return
        for partition in broker.partitions:
            rules, name = partition.rules, partition.name
            if partition.is_offline:
                continue
            start, stable, high, end = (
                rules.log_start_offset,
                rules.last_stable_offset,
                rules.high_watermark,
                rules.log_end_offset,
            )
            if not start <= stable <= high <= end:
                self.found("watermarks", f"{name}: start {start}, last stable {stable}, high {high}, end {end}")
            before = self.watermarks.setdefault(name, Watermarks())
            if start < before.log_start or stable < before.last_stable or high < before.high:
                self.found(
                    "watermarks",
                    f"{name}: went back from start {before.log_start}, last stable {before.last_stable}, "
                    f"high {before.high} to {start}, {stable}, {high}",
                )
            opened = [each.first_offset for each in rules.open_transactions()]
            if opened and stable > max(min(opened), start):
                self.found("watermarks", f"{name}: last stable {stable} is past the open transaction at {min(opened)}")
            self.watermarks[name] = Watermarks(start, stable, high)

    async def watch(self) -> None:
        """For ever: probe every few milliseconds."""
        while True:
            await asyncio.sleep(self.random.uniform(0.005, 0.06))
            self.calls.look()
            if self.is_serving:
                self.probe()


class TraceHandler(logging.Handler):
    """Warnings of this simulation's broker and clients, in the trace; not those of a real broker in another thread."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(logging.WARNING)
        self._cluster, self._thread = cluster, get_ident()
        self.addFilter(lambda record: record.thread == self._thread)

    def emit(self, record: logging.LogRecord) -> None:
        process = PROCESS.get()
        if process is not None and process.is_dead:
            return
        error = record.exc_info[1] if record.exc_info else None
        if isinstance(error, PowerCut):
            return
        text = f"{record.name}: {record.getMessage()}"
        if error is not None and not isinstance(error, StorageError):
            where = traceback.extract_tb(error.__traceback__)[-1]
            self._cluster.found("internal", f"{text} ({error!r} at {where.filename.rpartition('/')[2]}:{where.lineno})")
        else:
            self._cluster.note(text)
