"""Brokers that share one cluster's work, each a process with a disk of its own, under faults: `run_seed` gives what must not be.

The brokers and the clients are the real ones. Processes are killed, paused and stopped, the power goes for all, the network
between them delays, cuts and blocks. Writers write in transactions, members copy what they write exactly once. Then everything is
healed, comes to rest within a bound of virtual time, and what is there is judged beside what the writers were told.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evidence.cluster_kills.problems import problems
from evidence.cluster_kills.work import COMMITTED, IN, OUT, Work
from evidence.simulator.simulation import _no_collector, _quiet_logs
from evidence.world.disk import Disk
from evidence.world.doors import sim_host
from evidence.world.files import Keep, PowerCut
from evidence.world.loop import Process, SimLoop, run_simulated
from evidence.world.network import NetworkFaults, SimNetwork
from oncelog import Admin, Consumer, TopicPartition
from oncelog.broker.broker import Broker
from oncelog.broker.processes import Processes
from oncelog.errors import KafkaError, StorageError
from oncelog.host.host import Host

PARTITIONS = 4
FAULT_SECONDS = 25.0
REST_SECONDS_MAX = 240.0
FIRST_PORT = 9092
CREATED, DELETED, UNKNOWN = "created", "deleted", "unknown"
LEFT_STATES = ["Ongoing", "PrepareCommit", "PrepareAbort"]


@dataclass
class Verdict:
    """What came out of one seed."""

    seed: int
    findings: list[str] = field(default_factory=list)
    trace: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    record_count: int = 0

    @property
    def trace_hash(self) -> str:
        """The same seed has the same."""
        return hashlib.sha256("\n".join(self.trace).encode()).hexdigest()[:16]


def run_seed(seed: int) -> Verdict:
    """Run one seed."""
    verdict = Verdict(seed)

    async def main(loop: SimLoop) -> None:
        world = _World(loop, verdict)
        logger, handler = logging.getLogger("oncelog"), _Noted(world.note)
        logger.addHandler(handler)
        try:
            await world.run()
        finally:
            logger.removeHandler(handler)

    with _no_collector(), _quiet_logs():
        run_simulated(f"processes {seed}", main)
    return verdict


class _Noted(logging.Handler):
    def __init__(self, note: Callable[[str], None]) -> None:
        super().__init__(logging.INFO)
        self._note = note

    def emit(self, record: logging.LogRecord) -> None:
        self._note(f"{record.levelname} {record.name}: {record.getMessage()}")


@dataclass
class _Machine:
    """One process of the cluster, through its lives; its disk outlives them."""

    index: int
    disk: Disk
    process: Process | None = None
    broker: Broker | None = None
    life: int = 0

    @property
    def is_up(self) -> bool:
        return self.broker is not None and self.process is not None and not self.process.is_dead


class _World:
    def __init__(self, loop: SimLoop, verdict: Verdict) -> None:
        self.loop, self.verdict = loop, verdict
        self.random = draw = random.Random(f"processes {verdict.seed}")
        self.count = draw.randint(2, 4)
        self.has_journal, has_shortcut = draw.random() < 0.7, draw.random() < 0.5
        self.sync_delay = draw.choice((0.0005, 0.002, 0.02))
        faults = NetworkFaults(delay_mean=draw.choice((0.0003, 0.001, 0.01)))
        if draw.random() < 0.5:
            faults.cut = draw.choice((0.001, 0.01))
        if draw.random() < 0.5:
            faults.slow, faults.slow_delay = 0.01, draw.choice((0.5, 3.0))
        if draw.random() < 0.5:
            faults.late, faults.late_delay = 0.01, draw.choice((0.5, 3.0))
        if draw.random() < 0.5:
            faults.split = 0.3
        self.network = SimNetwork(loop, verdict.seed, faults)
        self.network.has_shortcut = has_shortcut
        self.fault_every = draw.choice((0.7, 2.0, 5.0))
        self.machines = [_Machine(index, Disk(f"{verdict.seed} {index}")) for index in range(self.count)]
        self.is_healed = False
        self.clients: dict[str, Process] = {}
        self.starting: dict[int, asyncio.Task[None]] = {}
        self.topics: dict[str, str] = {}  # the operator's
        self.note(f"seed {verdict.seed}: {self.count} processes, journal {self.has_journal}, {faults}")

    def note(self, text: str) -> None:
        self.verdict.trace.append(f"{self.loop.time():9.4f} {text}")

    def found(self, text: str) -> None:
        self.verdict.findings.append(text)
        self.note(f"FOUND {text}")

    @property
    def bootstrap(self) -> str:
        return ",".join(f"broker:{FIRST_PORT + index}" for index in range(self.count))

    # brokers

    def _config(self, index: int) -> dict[str, Any]:
        return {
            "node.id": 1 + index,
            "num.partitions": PARTITIONS,
            "transaction.state.log.num.partitions": 3,
            "offsets.topic.num.partitions": 3,
            "journal": "on" if self.has_journal else "off",
            "log.flush.offset.checkpoint.interval.ms": 1500,
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 1000,
            "metadata.log.max.record.bytes.between.snapshots": 2000,
            "oncelog.insecure.listeners": True,
        }

    async def start(self, machine: _Machine) -> None:
        """A new life, until it is ready or has failed."""
        machine.life += 1
        index, seed = machine.index, f"{self.verdict.seed} {machine.index} {machine.life}"
        process = Process(self.loop, f"broker-{index}.{machine.life}")
        process.name = f"broker-{index}"
        host = sim_host(process, self.network, machine.disk, seed, self.sync_delay)
        processes = Processes(index, self.count, "sockets")
        broker = Broker(
            "data", self._config(index), host=host, listen=f"broker:{FIRST_PORT + index}", processes=processes
        )
        machine.process = process
        done: asyncio.Future[BaseException | None] = self.loop.create_future()

        async def begin() -> None:
            error: BaseException | None = None
            try:
                await broker.start()
            except (KafkaError, StorageError, PowerCut, AssertionError) as failure:
                error = failure
            if not done.done():
                done.set_result(error)

        process.start(begin())
        await asyncio.wait((done, process.died), return_when=asyncio.FIRST_COMPLETED)
        if not done.done() or process.is_dead:
            self.note(f"process {index} died while it started")
            return
        error = done.result()
        if error is None:
            machine.broker = broker
            self.note(f"process {index} started, life {machine.life}")
            return
        self.note(f"process {index} did not start: {error!r}")
        if isinstance(error, AssertionError):
            self.found(f"start of process {index}: {error!r}")
        self.end(machine)

    def end(self, machine: _Machine, keep: Keep | None = None) -> None:
        """SIGKILL, or with `keep` the power."""
        process, machine.broker = machine.process, None
        if process is not None:
            process.kill()
            self.network.cut_process(process)
        if keep is None:
            machine.disk.kill()
        else:
            machine.disk.crash(keep)

    async def look_after(self) -> None:
        """For ever: start again what ended, as the first process does."""
        while True:
            for machine in self.machines:
                index = machine.index
                is_starting = index in self.starting and not self.starting[index].done()
                if not machine.is_up and not is_starting:
                    self.starting[index] = self.loop.create_task(self._start_again(machine))
            await asyncio.sleep(0.1)

    async def _start_again(self, machine: _Machine) -> None:
        await asyncio.sleep(0.05 if self.is_healed else self.random.choice((0.05, 0.5, 3.0)))
        if not machine.is_up:
            await self.start(machine)

    # faults

    async def torment(self) -> None:
        """Until it is cancelled: one fault after the other."""
        kinds = (self._kill, self._kill, self._kill, self._pause, self._stop, self._power_cut, self._block)
        while True:
            await asyncio.sleep(self.random.expovariate(1 / self.fault_every))
            machine, kind = self.random.choice(self.machines), self.random.choice(kinds)
            name = kind.__name__.lstrip("_")
            if machine.is_up:
                self.verdict.faults[name] += 1
                self.note(f"{name} process {machine.index}")
                await kind(machine)

    async def _kill(self, machine: _Machine) -> None:
        self.end(machine)

    async def _pause(self, machine: _Machine) -> None:
        process = machine.process
        assert process is not None
        process.pause()
        try:
            await asyncio.sleep(self.random.choice((0.5, 3.0, 12.0)))
        finally:
            process.resume()

    async def _stop(self, machine: _Machine) -> None:
        broker, process = machine.broker, machine.process
        assert broker is not None
        assert process is not None
        stopped = process.start(broker.stop())
        try:
            await asyncio.wait((stopped, process.died), return_when=asyncio.FIRST_COMPLETED)
            if stopped.done() and not stopped.cancelled() and stopped.exception() is not None:
                self.found(f"stop of process {machine.index}: {stopped.exception()!r}")
        finally:
            self.end(machine)  # also where the faults end meanwhile

    async def _power_cut(self, _machine: _Machine) -> None:
        keep = self.random.choice(list(Keep))
        for machine in self.machines:
            self.end(machine, keep)

    async def _block(self, machine: _Machine) -> None:
        other, seconds = self.random.choice(self.machines), self.random.choice((0.5, 3.0))
        self.network.block(f"broker-{machine.index}", f"broker-{other.index}", seconds)

    # clients

    def host_of(self, client: str) -> Host:
        """Whose connections are this client's."""
        if client not in self.clients:
            self.clients[client] = Process(self.loop, client)
        return sim_host(self.clients[client], self.network, Disk(0), f"{self.verdict.seed} {client}")

    def _begin(self, client: str, work: Any) -> asyncio.Task[Any]:
        self.host_of(client)
        task: asyncio.Task[Any] = self.clients[client].start(work)
        return task

    async def run(self) -> None:
        """From beginning to end."""
        await asyncio.gather(*(self.start(machine) for machine in self.machines))
        looking = self.loop.create_task(self.look_after())
        work = Work(self.bootstrap, self.verdict.seed, self.host_of)
        await self._create_topics()
        copying = [self._begin(f"copy-{member}", work.copy(member)) for member in range(2)]
        writing = [self._begin(f"writer-{writer}", work.write(writer)) for writer in range(self.random.randint(2, 5))]
        operating = self._begin("operator", self._operate())
        tormenting = self.loop.create_task(self.torment())
        await asyncio.sleep(FAULT_SECONDS)
        tormenting.cancel()
        await asyncio.gather(tormenting, return_exceptions=True)
        self._heal()
        work.is_over.set()
        _, late = await asyncio.wait(writing, timeout=REST_SECONDS_MAX)
        if late:
            self.found(f"{len(late)} writers did not end within {REST_SECONDS_MAX:.0f} s")
        written, copied = await self._rest()
        _, late = await asyncio.wait((operating,), timeout=REST_SECONDS_MAX)
        if late:
            self.found(f"the operator's last question was not answered within {REST_SECONDS_MAX:.0f} s")
        await self._compare_metadata()
        for task in (*copying, operating, looking):
            task.cancel()
        await asyncio.gather(*copying, operating, looking, return_exceptions=True)
        self.verdict.findings += problems(work.ledger, written, copied)
        self.verdict.outcomes.update(work.ledger.outcomes.values())
        self.verdict.record_count = sum(map(len, written))
        self.verdict.findings += [f"nobody handled {context}" for context in self.loop.errors]
        if COMMITTED not in self.verdict.outcomes:
            self.found("no transaction was committed")

    async def _operate(self) -> None:
        """Topics come and go, by whichever process is asked; what was told of each is remembered."""
        async with Admin(bootstrap_servers=self.bootstrap, host=self.host_of("operator")) as admin:
            for number in itertools.count():
                if self.is_healed:
                    return
                await asyncio.sleep(self.random.uniform(0.1, 1.0))
                there = [name for name, state in self.topics.items() if state == CREATED]
                name = self.random.choice(there) if there and self.random.random() < 0.4 else f"x{number}"
                is_new = name not in self.topics
                self.topics[name] = UNKNOWN
                try:
                    if is_new and self.random.random() < 0.5:
                        await self._make_in_any_process(name)
                    elif is_new:
                        await admin.create_topics({name: self.random.randint(1, 3)})
                    else:
                        await admin.delete_topics([name])
                    self.topics[name] = CREATED if is_new else DELETED
                except (KafkaError, StorageError) as error:
                    self.note(f"{name} is unknown: {error!r}")

    async def _make_in_any_process(self, name: str) -> None:
        """As a client's first Produce does; admin clients ask the controller. Raises StorageError."""
        machine = self.random.choice(self.machines)
        if machine.broker is None or machine.process is None or machine.process.is_dead:
            raise StorageError("the process is away")
        making = machine.process.start(machine.broker.topics.create_automatically(name))
        await asyncio.wait((making, machine.process.died), return_when=asyncio.FIRST_COMPLETED)
        if not making.done() or making.cancelled() or await making is None:
            raise StorageError("the process has died")

    async def _compare_metadata(self) -> None:
        """Every process knows the same, and what the operator was told."""
        ends, found = self.loop.time() + REST_SECONDS_MAX, list[set[str]]()
        while self.loop.time() < ends:
            await asyncio.sleep(1.0)
            brokers = [machine.broker for machine in self.machines if machine.is_up]
            found = [set(broker.metadata.topics) for broker in brokers if broker is not None]
            if len(found) == self.count and all(each == found[0] for each in found):
                break
        else:
            self.found(f"processes know different topics: {[sorted(each ^ found[0]) for each in found]}")
        for name, state in self.topics.items():
            if state != UNKNOWN and found and (name in found[0]) != (state == CREATED):
                self.found(f"topic {name} was told to be {state}")
        self.verdict.faults["topics changed"] += sum(state != UNKNOWN for state in self.topics.values())

    def _heal(self) -> None:
        self.is_healed = True
        self.note("everything is healed")
        self.network.faults = NetworkFaults()
        self.network.blocked.clear()
        for machine in self.machines:
            if machine.process is not None:
                machine.process.resume()

    async def _create_topics(self) -> None:
        async def create() -> None:
            async with Admin(bootstrap_servers=self.bootstrap, host=self.host_of("admin")) as admin:
                for topic in (IN, OUT):
                    while topic not in await admin.list_topics():
                        try:
                            await admin.create_topics({topic: PARTITIONS})
                        except KafkaError as error:
                            self.note(f"{topic} is not made yet: {error!r}")
                            await asyncio.sleep(0.2)

        await self._begin("admin", create())

    async def _rest(self) -> tuple[list[list[bytes]], list[list[bytes]]]:
        """What committed records there are, once nothing is open and all is copied; whatever there is after a while."""
        ends, why = self.loop.time() + REST_SECONDS_MAX, "it was never looked at"
        topics: tuple[list[list[bytes]], list[list[bytes]]] = ([], [])
        while self.loop.time() < ends:
            await asyncio.sleep(1.0)
            try:
                why, topics = await self._begin("judge", self._look())
            except KafkaError as error:
                why = repr(error)
            if not why:
                return topics
        self.found(f"it does not come to rest within {REST_SECONDS_MAX:.0f} s: {why}")
        return topics

    async def _look(self) -> tuple[str, tuple[list[list[bytes]], list[list[bytes]]]]:
        host = self.host_of("judge")
        async with Admin(bootstrap_servers=self.bootstrap, host=host) as admin:
            left = await admin.list_transactions(states=LEFT_STATES)
        topics = [await self._committed(host, topic) for topic in (IN, OUT)]
        counts = [sum(map(len, each)) for each in topics]
        why = f"open: {left[0].transactional_id}" if left else ""
        if not why and counts[0] != counts[1]:
            why = f"{counts[0]} records in {IN}, {counts[1]} in {OUT}"
        return why, (topics[0], topics[1])

    async def _committed(self, host: Host, topic: str) -> list[list[bytes]]:
        names = [TopicPartition(topic, index) for index in range(PARTITIONS)]
        found: list[list[bytes]] = [[] for _ in names]
        settings: dict[str, Any] = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
        async with Consumer(bootstrap_servers=self.bootstrap, host=host, **settings) as consumer:
            consumer.assign(names)
            ends = await consumer.end_offsets(names)
            while any([await consumer.position(name) < ends[name] for name in names]):
                for record in await consumer.poll(timeout_ms=500):
                    found[record.partition].append(record.value or b"")
        return found
