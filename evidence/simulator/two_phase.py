"""Clients of the two-phase commit (KIP-939), and the database that decides.

The recipe is the design's: an instance first raises the row's version, which defeats any writer still in flight; then it
reads the stored state and completes what is kept; and it stores its own decision on condition of that version.
"""

from __future__ import annotations

import asyncio
from typing import Any

from evidence.simulator.client_life import COMMIT_ATTEMPTS, LIFE_ENDS, ClientLife
from evidence.simulator.history import Outcome, Transaction
from oncelog.client.delivery import Delivery
from oncelog.client.producer.producer import Producer
from oncelog.errors import RequestTimedOut
from oncelog.types import PreparedTxnState


class Database:
    """A row per client: a version, and the state of the last committed transaction."""

    def __init__(self) -> None:
        self._rows: dict[int, tuple[int, PreparedTxnState]] = {}

    def take_over(self, slot: int) -> tuple[int, PreparedTxnState]:
        """A new instance: its version, and what was decided before it."""
        version, state = self._rows.get(slot, (0, PreparedTxnState()))
        self._rows[slot] = (version + 1, state)
        return self._rows[slot]

    def decide(self, slot: int, version: int, state: PreparedTxnState) -> bool:
        """Commit the row; False where a newer instance is there."""
        if self._rows[slot][0] != version:
            return False
        self._rows[slot] = (version, state)
        return True

    def state(self, slot: int) -> PreparedTxnState:
        """The last decision."""
        return self._rows[slot][1]


class TwoPhaseLife(ClientLife):
    """A life that begins by completing what the one before it left prepared."""

    def __init__(self, database: Database, *args: Any) -> None:
        super().__init__(*args)
        self.database = database
        self.only_recovers = False

    async def run(self) -> None:
        """Recover, then work."""
        try:
            version, state = self.database.take_over(self.slot)
            producer = self.producer(transaction_two_phase_commit_enable=True)
            await producer.start()
            if producer.prepared_state != PreparedTxnState():
                self.cluster.note(f"{self.process.name} kept {producer.prepared_state}, decided was {state}")
                await self._complete(producer, state)
            while self.operations_left > 0 and not self.must_end and not self.only_recovers:
                await self.pause()
                self.operations_left -= 1
                if not await self._prepared_operation(producer, version):
                    return
            self.recovered = True
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} gives up: {error!r}")

    recovered = False

    async def _prepared_operation(self, producer: Producer, version: int) -> bool:
        self.open = transaction = self.history.begin(self.number)
        try:
            await self._prepare_and_decide(transaction, producer, version)
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} #{self.number}: {error!r}")
            self.died()
            return False
        self.finish(Outcome.OK if transaction.is_decided else Outcome.FAIL)
        return True

    async def _prepare_and_decide(self, transaction: Transaction, producer: Producer, version: int) -> None:
        sent: list[tuple[list[Any], Delivery]] = []
        producer.begin_transaction()
        for _ in range(self.random.randint(1, 3)):
            await self.send(transaction, producer, sent)
        state = await producer.prepare_transaction()
        await asyncio.sleep(self.random.choice((0.0, 0.05, 5.0 * self.random.random())))
        if self.random.random() < 0.8:
            transaction.is_decided = self.database.decide(self.slot, version, state)
            assert transaction.is_decided, "the newer instance is only started when this one is dead"
        await self._complete(producer, self.database.state(self.slot))
        await self.note_offsets(sent) if transaction.is_decided else None

    async def _complete(self, producer: Producer, state: PreparedTxnState) -> None:
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                await producer.complete_transaction(state)
            except RequestTimedOut:
                if attempt == COMMIT_ATTEMPTS - 1:
                    raise
            else:
                return

    def died(self) -> None:
        """The database's word is the outcome; the next life carries it out."""
        if self.open is not None:
            self.finish(Outcome.OK if self.open.is_decided else Outcome.FAIL)
