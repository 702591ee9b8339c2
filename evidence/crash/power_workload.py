"""The scripted workload: eight clients side by side, each writing down what it asked for and was told.

Two protocols of transactions, records outside transactions, positions inside them, a fenced instance, a two-phase
transaction that is decided elsewhere, and one that is left open. A refusal ends a client's script: the ledger stays true.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from evidence.crash.ledger import Ledger, Stage, Transaction
from evidence.world.direct import Client, ConnectionClosed, DirectNetwork
from evidence.world.requests import Identity, Refused, Session

PARTITIONS = [("t", 0), ("t", 1), ("u", 0)]
TOPICS = {"t": 2, "u": 1}
GROUPS = ("readers", "writers")
CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": 2,
    "offsets.topic.num.partitions": 1,
    "transaction.two.phase.commit.enable": True,
}


class Script:
    """What the scripts share: the ledger, and sequences that no two batches of an identity repeat."""

    def __init__(self, network: DirectNetwork, ledger: Ledger) -> None:
        self._network = network
        self.ledger = ledger
        self.refusals: list[Refused] = []
        self.closed_count = 0
        self._sequences: dict[tuple[Identity, str, int], int] = {}
        self._value = 0

    def values(self, name: str, count: int = 1) -> list[str]:
        self._value += 1
        return [f"{name}:{self._value}.{index}" for index in range(count)]

    def sequence(self, identity: Identity, topic: str, partition: int, count: int) -> int:
        key = (identity, topic, partition)
        first = self._sequences.get(key, 0)
        self._sequences[key] = first + count
        return first

    async def session(self) -> Session:
        return Session(await Client.connect(self._network))

    async def init(self, session: Session, name: str, **fields: Any) -> Identity:
        def heard(reply: Any) -> None:
            self.given(name, (reply.producer_id, reply.producer_epoch))

        reply = await session.init(name, heard, **fields)
        return reply.producer_id, reply.producer_epoch

    def given(self, name: str, identity: Identity) -> None:
        """An identity was acknowledged: it is the newest, and its id is nobody else's."""
        owner = self.ledger.producer_ids.setdefault(identity[0], name)
        assert owner == name, f"producer id {identity[0]} was given to {owner} and to {name}"
        self.ledger.identities[name] = identity

    def begin(self, name: str, identity: Identity, version: int, *, commits: bool) -> Transaction:
        transaction = Transaction(name, identity, version, commits)
        self.ledger.transactions.append(transaction)
        return transaction

    async def produce(
        self, session: Session, transaction: Transaction, topic: str, partition: int, count: int = 1
    ) -> None:
        values = self.values(transaction.transactional_id, count)
        transaction.values += [(f"{topic}-{partition}", value) for value in values]
        if transaction.version < 2:
            await session.add_partition(transaction.transactional_id, transaction.identity, topic, partition)

        def heard(offset: int) -> None:
            transaction.has_acknowledged = True
            self.acknowledged(topic, partition, offset, values)

        await session.produce(
            topic,
            partition,
            values,
            identity=transaction.identity,
            sequence=self.sequence(transaction.identity, topic, partition, count),
            name=transaction.transactional_id,
            version=12 if transaction.version >= 2 else 11,
            heard=heard,
        )

    def acknowledged(self, topic: str, partition: int, offset: int, values: list[str]) -> None:
        for index, value in enumerate(values):
            self.ledger.records[f"{topic}-{partition}", offset + index] = value

    async def offsets(self, session: Session, transaction: Transaction, group: str, position: int) -> None:
        transaction.offsets[group, "t-0"] = position

        def heard(_: Any) -> None:
            transaction.acknowledged_offsets[group, "t-0"] = position

        version = 5 if transaction.version >= 2 else 3
        await session.commit_offset(
            transaction.transactional_id, transaction.identity, group, position, version=version, heard=heard
        )

    async def end(self, session: Session, transaction: Transaction) -> Identity:
        """The identity to go on with."""
        transaction.stage = Stage.ASKED

        def heard(reply: Any) -> None:
            transaction.stage = Stage.ENDED
            if transaction.version >= 2:
                self.given(transaction.transactional_id, (reply.producer_id, reply.producer_epoch))

        reply = await session.end(
            transaction.transactional_id,
            transaction.identity,
            commit=transaction.commits,
            version=5 if transaction.version >= 2 else 3,
            heard=heard,
        )
        return (reply.producer_id, reply.producer_epoch) if transaction.version >= 2 else transaction.identity

    async def guarded(self, work: Callable[[], Awaitable[None]]) -> None:
        try:
            await work()
        except Refused as error:
            self.refusals.append(error)
        except ConnectionClosed:
            self.closed_count += 1

    # the scripts

    async def transactional(self, name: str, version: int) -> None:
        """Commit, abort, commit, and one more left open, over two partitions each."""
        session = await self.session()
        identity = await self.init(session, name)
        for commits in (True, False, True):
            transaction = self.begin(name, identity, version, commits=commits)
            await self.produce(session, transaction, "t", 0, 2)
            await self.produce(session, transaction, "t", 1)
            identity = await self.end(session, transaction)
        transaction = self.begin(name, identity, version, commits=True)
        await self.produce(session, transaction, "u", 0)

    async def positions(self, name: str, version: int, group: str) -> None:
        """Positions of a group, committed, aborted, committed."""
        session = await self.session()
        identity = await self.init(session, name)
        for position, commits in ((3, True), (5, False), (9, True)):
            transaction = self.begin(name, identity, version, commits=commits)
            await self.produce(session, transaction, "u", 0)
            await self.offsets(session, transaction, group, position)
            identity = await self.end(session, transaction)

    async def plain(self) -> None:
        """Records without a producer id."""
        session = await self.session()
        for index in range(5):
            topic, partition = PARTITIONS[index % 3]
            values = self.values("plain", 2)
            await session.produce(
                topic,
                partition,
                values,
                heard=lambda offset, at=(topic, partition), values=values: self.acknowledged(*at, offset, values),
            )

    async def idempotent(self) -> None:
        """Records of an idempotent producer; the last acknowledged batch may be sent again."""
        session = await self.session()
        reply = await session.init(None, lambda reply: self.given("idempotent", (reply.producer_id, 0)))
        identity = (reply.producer_id, reply.producer_epoch)
        for _ in range(6):
            (value,) = self.values("idempotent")
            sequence = self.sequence(identity, "t", 1, 1)

            def heard(offset: int, value: str = value, sequence: int = sequence) -> None:
                self.acknowledged("t", 1, offset, [value])
                self.ledger.idempotent["t-1"] = (identity, value, sequence, offset)

            await session.produce("t", 1, [value], identity=identity, sequence=sequence, heard=heard)

    async def fenced(self) -> None:
        """An instance with an open transaction, and its successor."""
        session = await self.session()
        identity = await self.init(session, "fenced")
        transaction = self.begin("fenced", identity, 2, commits=True)
        await self.produce(session, transaction, "t", 0)
        await self.produce(session, transaction, "u", 0)
        successor = await self.session()

        def heard(reply: Any) -> None:
            transaction.is_fenced = True
            self.given("fenced", (reply.producer_id, reply.producer_epoch))

        reply = await successor.init("fenced", heard)
        second = self.begin("fenced", (reply.producer_id, reply.producer_epoch), 2, commits=True)
        await self.produce(successor, second, "t", 0)
        await self.end(successor, second)

    async def two_phase(self) -> None:
        """Prepared transactions, decided elsewhere: one committed, one that is still waiting for it."""
        session = await self.session()
        identity = await self.init(session, "two", enable_2pc=True)
        for is_ended in (True, False):
            transaction = self.begin("two", identity, 2, commits=True)
            await self.produce(session, transaction, "t", 1)
            await self.produce(session, transaction, "u", 0)
            transaction.is_two_phase = True  # from here on the decision is in a database
            if is_ended:
                identity = await self.end(session, transaction)

    async def topics(self) -> None:
        session = await self.session()
        for name, count in TOPICS.items():
            await session.create_topic(name, count, lambda _, name=name: self.ledger.topics.append(name))

    async def run(self, checkpoint: Callable[[], None]) -> None:
        """Everything, side by side."""
        scripts: list[Callable[[], Awaitable[None]]] = [
            lambda: self.transactional("a", 2),
            lambda: self.transactional("b", 1),
            lambda: self.positions("c", 2, "readers"),
            lambda: self.positions("d", 1, "writers"),
            self.plain,
            self.idempotent,
            self.fenced,
            self.two_phase,
        ]
        await self.side_by_side(scripts, checkpoint)

    async def run_small(self) -> None:
        """Two clients: transactions with positions, and records outside them."""
        await self.side_by_side([lambda: self.positions("c", 2, "readers"), self.plain], lambda: None)

    async def side_by_side(self, scripts: list[Callable[[], Awaitable[None]]], checkpoint: Callable[[], None]) -> None:
        """The topics first; at the end wait, within reason, for the markers."""
        await self.guarded(self.topics)
        if len(self.ledger.topics) < len(TOPICS):
            return
        async with asyncio.TaskGroup() as group:
            for script in scripts:
                group.create_task(self.guarded(script))
            await asyncio.sleep(0.1)
            checkpoint()
        session = await self.session()
        for name in sorted(self.ledger.identities):
            for _ in range(50):
                if not (await session.state(name)).startswith("Prepare"):
                    break
                await asyncio.sleep(0.02)
