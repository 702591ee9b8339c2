"""Dual writes in the simulated world: `run_seed` gives what must not be.

The writer is the real one, the broker too; the network, the disk and the database fail, clients are killed and paused, and
several instances of one transactional id run beside one another. Then everything is healed, a last instance of each id
recovers, and rows and committed records must be the same.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from evidence.dual_writes.simulated_database import DatabaseGone, SimAdapter, SimDatabase, draw
from evidence.simulator import faults
from evidence.simulator.client_life import value_of
from evidence.simulator.cluster import ADDRESS, KEYS, TOPICS, Cluster, TraceHandler
from evidence.simulator.injector import Injector
from evidence.simulator.knobs import turned
from evidence.simulator.simulation import _no_collector, _quiet_logs
from evidence.world.disk import Disk
from evidence.world.doors import sim_host
from evidence.world.loop import Process, SimLoop, run_simulated
from oncelog.client.consumer.consumer import Consumer
from oncelog.errors import IllegalState, InstanceFenced, KafkaError, OutcomeUnknown
from oncelog.recipes.dual_writer import DualWriter

WRITES = 25  # of each transactional id
LIVES_AT_ONCE = 3
END_SECONDS = 60.0
RECOVERY_ATTEMPTS = 4
FAILS = (KafkaError, DatabaseGone, InstanceFenced, OutcomeUnknown, IllegalState, TimeoutError)


@dataclass
class Verdict:
    """What came out of one seed."""

    seed: int
    findings: list[str]
    trace: list[str]
    trace_hash: str
    counts: Counter[str] = field(default_factory=Counter)


def run_seed(seed: int) -> Verdict:
    """Run one seed."""
    made: list[_Simulation] = []

    async def main(loop: SimLoop) -> None:
        made.append(_Simulation(loop, seed))
        await made[0].run()

    with _no_collector(), _quiet_logs(), turned(faults.draw(seed, "two-phase").knobs):
        run_simulated(f"dual-writes {seed}", main)
    return made[0].verdict()


class _Simulation:
    def __init__(self, loop: SimLoop, seed: int) -> None:
        self.loop, self.seed = loop, seed
        self.random = random.Random(f"dual writes {seed}")
        options = faults.draw(seed, "two-phase")
        options.clients, options.two_phase_clients = 0, self.random.randint(1, 2)
        options.client_pause_every = self.random.choice((0.0, 1.0, 3.0))
        options.seconds = 30.0
        self.options = options
        self.cluster = Cluster(loop, f"dual writes {seed}", options)
        self.database = SimDatabase(loop, seed, draw(seed), self.cluster.note)
        self.injector = Injector(self.cluster)
        self.values = 0
        self.left = {self.id_of(slot): WRITES for slot in range(options.two_phase_clients)}
        self.owner: dict[int, str] = {}  # value -> transactional id
        self.claims: dict[int, str] = {}  # value -> committed | rolled back
        self.counts: Counter[str] = Counter()
        self.cluster.note(f"seed {seed}: {options.describe()}; database {self.database.faults}")

    @staticmethod
    def id_of(slot: int) -> str:
        return f"dual-{slot}"

    async def run(self) -> None:
        import logging

        logger, handler = logging.getLogger("oncelog"), TraceHandler(self.cluster)
        logger.addHandler(handler)
        try:
            await self._run()
        finally:
            logger.removeHandler(handler)

    async def _run(self) -> None:
        cluster = self.cluster
        assert await cluster.start_broker()
        process, broker = cluster.broker_process, cluster.broker
        assert process is not None
        assert broker is not None
        for topic in TOPICS:
            await process.start(broker.topics.create_automatically(topic))
        restarting = self.loop.create_task(self.database.restart_now_and_then())
        self.injector.start()
        slots = [self.loop.create_task(self._slot(name)) for name in self.left]
        await asyncio.wait(slots, timeout=self.options.seconds)
        await self.injector.heal()
        restarting.cancel()
        self.database.heal()
        for slot in slots:
            slot.cancel()
        await asyncio.gather(*slots, return_exceptions=True)
        for process in list(cluster.clients.values()):
            self._kill(process)
        if not cluster.is_serving:
            return
        for name in self.left:
            await self._recover(name)
        await self._judge()

    def _kill(self, process: Process) -> None:
        process.kill()
        self.cluster.network.cut_process(process)
        self.cluster.clients.pop(process.name, None)

    # instances

    async def _slot(self, name: str) -> None:
        """Instances of one id: the next one comes when one is dead, or beside it."""
        number, alive = 0, dict[asyncio.Task[Any], Process]()
        while self.left[name] > 0:
            if not alive or (len(alive) < LIVES_AT_ONCE and self.random.random() < 0.25):
                number += 1
                process = Process(self.loop, f"{name}.{number}")
                self.cluster.clients[process.name] = process
                alive[process.start(self._life(name, process))] = process
            died = [process.died for process in alive.values()]
            await asyncio.wait(
                (*alive, *died), timeout=self.random.choice((0.2, 1.0, 3.0)), return_when="FIRST_COMPLETED"
            )
            for task, process in list(alive.items()):
                if process.is_dead or task.done():
                    self._kill(process)
                    del alive[task]
                    if task.done():
                        task.result()

    def _writer(self, name: str, process: Process) -> DualWriter[list[int]]:
        host = sim_host(process, self.cluster.network, Disk(0), self.cluster.seed)
        return DualWriter(
            SimAdapter(self.database, process),
            transactional_id=name,
            recovery_timeout_ms=self.random.choice((0, 500, 8000)),
            host=host,
            bootstrap_servers=ADDRESS,
            request_timeout_ms=self.options.request_timeout_ms,
            default_api_timeout_ms=20_000,
            delivery_timeout_ms=8_000,
            max_block_ms=10_000,
        )

    async def _life(self, name: str, process: Process) -> None:
        writer = self._writer(name, process)
        try:
            await writer.start()
            while self.left[name] > 0:
                await asyncio.sleep(self.random.expovariate(1 / self.options.think_mean))
                self.left[name] -= 1
                try:
                    await self._write(name, writer)
                except InstanceFenced:
                    raise
                except FAILS as error:
                    if self.random.random() < 0.2:
                        raise
                    self.cluster.note(f"{process.name} goes on after {error!r}")
        except InstanceFenced:
            self.counts["fenced"] += 1
        except FAILS as error:
            self.cluster.note(f"{process.name} gives up: {error!r}")

    async def _write(self, name: str, writer: DualWriter[list[int]]) -> None:
        values: list[int] = []
        try:
            async with writer.transaction() as tx:
                for _ in range(self.random.randint(1, 3)):
                    self.values += 1
                    values.append(self.values)
                    self.owner[self.values] = name
                    key = self.random.choice(KEYS)
                    tx.database.append(self.values)
                    await tx.send(key.topic, b"%d %s" % (self.values, b"x" * 50), partition=key.partition)
                await asyncio.sleep(self.random.choice((0.0, 0.0, 0.05, 2.0 * self.random.random())))
                if self.random.random() < 0.1:
                    raise DatabaseGone("changed their mind")
        except OutcomeUnknown:
            self.counts["unknown"] += 1
            raise
        except FAILS:
            self.counts["rolled back"] += 1
            self.claims |= dict.fromkeys(values, "rolled back")
            raise
        self.counts["committed"] += 1
        self.claims |= dict.fromkeys(values, "committed")

    # the end

    async def _recover(self, name: str) -> None:
        for attempt in range(RECOVERY_ATTEMPTS):
            process = Process(self.loop, f"{name}.last{attempt}")
            work = process.start(self._recover_once(name, process))
            await asyncio.wait((work,), timeout=END_SECONDS)
            error = work.exception() if work.done() else TimeoutError()
            self._kill(process)
            if error is None:
                return
            self.cluster.note(f"{process.name}: {error!r}")
        self.cluster.found("liveness", f"{name} cannot recover")

    async def _recover_once(self, name: str, process: Process) -> None:
        writer = self._writer(name, process)
        await writer.start()
        await writer.stop()

    async def _judge(self) -> None:
        await asyncio.sleep(5.0)  # markers
        read: Counter[int] = Counter()
        process = Process(self.loop, "reader")
        try:
            async with asyncio.timeout(60):
                await process.start(self._read(process, read))
        except (KafkaError, TimeoutError) as error:
            self.cluster.found("liveness", f"the reader: {error!r}")
        rows = Counter(value for _, value in self.database.written)
        for value in sorted(rows.keys() | read.keys()):
            if rows[value] != 1 or read[value] != 1:
                text = f"value {value} of {self.owner.get(value)}: {rows[value]} rows, {read[value]} records"
                self.cluster.found("divergence", text)
        for value, claim in self.claims.items():
            if (claim == "committed") != (value in rows):
                self.cluster.found("claim", f"value {value} was called {claim}: {rows[value]} rows")

    async def _read(self, process: Process, read: Counter[int]) -> None:
        async with Consumer(
            host=sim_host(process, self.cluster.network, Disk(0), f"{self.seed}"),
            bootstrap_servers=ADDRESS,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=200,
        ) as consumer:
            consumer.assign(KEYS)
            ends = await consumer.end_offsets(KEYS)
            while any([await consumer.position(key) < ends[key] for key in KEYS]):
                read.update(value_of(record.value) for record in await consumer.poll(1000))

    def verdict(self) -> Verdict:
        digest = hashlib.sha256()
        for line in [*self.cluster.trace, *map(str, self.database.written)]:
            digest.update(line.encode())
        counts = Counter(self.counts)
        counts.update(self.cluster.fault_counts)
        counts.update(self.database.counts)
        findings = [str(finding) for finding in self.cluster.findings]
        return Verdict(self.seed, findings, self.cluster.trace, digest.hexdigest()[:16], counts)
