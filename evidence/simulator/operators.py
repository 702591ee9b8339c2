"""An operator who ends transactions that are open, amid everything else: commit, abort, or the id's next InitProducerId.

He names producer id and epoch, as `oncelog transactions complete --state` does, so his request reaches that transaction
or none (KIP-890), however late it comes; behind one in which nothing was sent the next one has the same epoch, and is meant
as well. He has not seen what its producer sends next: a commit of his may take a part of it.
What must hold all the same: a commit that was acknowledged to its producer is whole; an abort of his is no commit to anybody.
"""

from __future__ import annotations

import asyncio
import itertools
import random

from evidence.simulator.client_life import ClientLife
from evidence.simulator.cluster import Cluster
from evidence.simulator.history import Transaction
from evidence.simulator.raw_client import RawProducer
from evidence.simulator.workload import Workload
from evidence.world.loop import Process
from oncelog.core.producer.states import TransactionState
from oncelog.errors import KafkaError
from oncelog.types import ProducerIdAndEpoch

OPEN = (TransactionState.IN_TRANSACTION, TransactionState.COMMITTING_TRANSACTION)
DEEDS = ("commit", "commit", "abort", "terminate")
LOOKS_EVERY_SECONDS = 0.003  # more often than a transaction takes


class Operator:
    """Works until `leave`."""

    def __init__(self, cluster: Cluster, workload: Workload) -> None:
        self.cluster, self.workload = cluster, workload
        self.process = Process(cluster.loop, "operator")
        self._work: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, where there is one."""
        if self.cluster.options.operator_every > 0:
            self._work = self.process.start(self._run())

    def leave(self) -> None:
        """What he has asked for may still come."""
        if self._work is not None:
            self._work.cancel()

    async def _run(self) -> None:
        intervals = random.Random(f"operator {self.cluster.seed}")
        for number in itertools.count():
            await asyncio.sleep(intervals.expovariate(1 / self.cluster.options.operator_every))
            if self.cluster.happens("operator"):
                await self._act(random.Random(f"operator {number} {self.cluster.seed}"))

    async def _act(self, rng: random.Random) -> None:
        deed = rng.choice(DEEDS)
        for _ in range(rng.choice((1, 100, 300))):  # he waits for one; or is content where there is none
            open_ones = list(self._open())
            if open_ones:
                break
            await asyncio.sleep(LOOKS_EVERY_SECONDS)
        else:
            return
        transactional_id, identity, transaction = rng.choice(open_ones)
        if deed == "commit":  # before it can have ended
            transaction.operator_commits = True
            self.workload.history.operator_commits.add(identity)
        await asyncio.sleep(rng.choice((0.0, 0.0, rng.expovariate(200))))  # anywhere in it, or when it is over
        self.cluster.count(f"operator's {deed}")
        self.cluster.note(f"the operator wants {deed} of {transactional_id} {identity}")
        try:
            error_code = await self._asked(
                RawProducer(self.cluster, self.process, transactional_id, True), deed, identity
            )
        except KafkaError as error:
            self.cluster.note(f"the operator does not hear: {error!r}")
        else:
            self.cluster.note(f"the operator is told {error_code}")

    async def _asked(self, producer: RawProducer, deed: str, identity: ProducerIdAndEpoch) -> str:
        if deed == "terminate":
            return (await producer.init()).name
        return (await producer.end(deed == "commit", identity)).name

    def _open(self) -> list[tuple[str, ProducerIdAndEpoch, Transaction]]:
        """What lives that speak the new protocol, and have nobody else who decides for them, have open."""
        found = []
        for life in self.workload.lives:
            if type(life) is not ClientLife or life.open is None or life.working_producer is None:
                continue
            manager = life.working_producer._manager
            if manager.state in OPEN and manager.identity.producer_id >= 0:
                found.append((life.transactional_id, manager.identity, life.open))
        return found
