"""A transactional writer on a compacted topic that knows what it was promised, over kills of the broker.

Its keys are its own, so what a reader must find of them is a table that only it changes. What was under way at a kill is
in doubt: the whole of it happened or nothing.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evidence.world.broker import Client, ConnectionClosed, _Protocol
from oncelog.errors import ErrorCode
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import Codec, build_batch

E = ErrorCode
TOPIC = "compacted"
KEYS = 15
CODECS = (Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)
LATER = {E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}

Table = dict[bytes, bytes | None]  # None: a tombstone
CUT = (ConnectionClosed, ConnectionError, OSError)


async def connect(port: int) -> Client:
    """Raises OSError."""
    _, protocol = await asyncio.get_running_loop().create_connection(_Protocol, "127.0.0.1", port)
    return Client(protocol)


async def call(client: Client, message: Any, version: int, code_of: Callable[[Any], int]) -> Any:
    """The reply, once it is not "later" any more. Raises one of CUT, AssertionError on any other error."""
    for _ in range(2000):
        reply = await client.call(message, version)
        code = E(code_of(reply))
        if code is E.NONE:
            return reply
        assert code in LATER, f"{type(message).__name__} v{version}: {code.name}"
        await asyncio.sleep(0.01)
    raise AssertionError(f"{type(message).__name__}: {code.name} for ever")


@dataclass
class Writer:
    """`is_new` uses the protocol of transaction.version 2; without a name it writes outside transactions."""

    number: int
    is_new: bool
    is_transactional: bool
    random: random.Random
    table: Table = field(default_factory=dict)
    in_doubt: Table | None = None
    producer: tuple[int, int] = (-1, -1)
    sequence: int = 0
    committed: int = 0
    aborted: int = 0
    value: int = 0

    @property
    def name(self) -> str:
        """The transactional id."""
        return f"writer-{self.number}"

    async def init(self, client: Client) -> None:
        """Begin anew: what an earlier life left open is ended."""
        name = self.name if self.is_transactional else None
        request = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000)
        reply = await call(client, request, 5 if self.is_new else 4, lambda reply: reply.error_code)
        self.producer, self.sequence = (reply.producer_id, reply.producer_epoch), 0

    def rows(self) -> list[tuple[bytes, bytes | None]]:
        """Some keys, written anew or deleted."""
        chosen = []
        for _ in range(self.random.randrange(1, 6)):
            self.value += 1
            key = b"%d/%d" % (self.number, self.random.randrange(KEYS))
            value = b"%d:" % self.value + b"v" * self.random.randrange(200)
            chosen.append((key, None if self.random.random() < 0.15 else value))
        return chosen

    async def work(self, client: Client) -> None:
        """One transaction, or one batch outside of any. Raises one of CUT; then `in_doubt` says what may have happened."""
        if not self.is_transactional:
            rows = self.rows()
            self.in_doubt = self.table | dict(rows)
            await self.produce(client, rows)
            self.table, self.in_doubt = self.in_doubt, None
            return
        if not self.is_new:
            await self.add_partition(client)
        written: Table = {}
        for _ in range(self.random.randrange(1, 4)):
            rows = self.rows()
            await self.produce(client, rows)
            written |= dict(rows)
        commit = self.random.random() < 0.65
        if commit:
            self.in_doubt = self.table | written
        await self.end(client, commit=commit)
        if commit:
            assert self.in_doubt is not None
            self.table, self.in_doubt = self.in_doubt, None
        self.committed += commit
        self.aborted += not commit

    async def produce(self, client: Client, rows: list[tuple[bytes, bytes | None]]) -> None:
        """One batch, in any codec."""
        batch = build_batch(
            [(time.time_ns() // 1_000_000, key, value, ()) for key, value in rows],
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            base_sequence=self.sequence,
            is_transactional=self.is_transactional,
            codec=self.random.choice(CODECS),
        )
        self.sequence += len(rows)
        data = TopicProduceData(name=TOPIC, partition_data=[PartitionProduceData(index=0, records=batch)])
        name = self.name if self.is_transactional else None
        request = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=[data])
        await call(
            client, request, 12 if self.is_new else 11, lambda r: r.responses[0].partition_responses[0].error_code
        )

    async def add_partition(self, client: Client) -> None:
        """What the old protocol asks for before the first batch of a transaction."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer[0],
            v3_and_below_producer_epoch=self.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=TOPIC, partitions=[0])],
        )
        await call(
            client,
            request,
            3,
            lambda r: r.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code,
        )

    async def end(self, client: Client, *, commit: bool) -> None:
        """The end of the transaction."""
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer[0],
            producer_epoch=self.producer[1],
            committed=commit,
        )
        reply = await call(client, request, 5 if self.is_new else 3, lambda r: r.error_code)
        if self.is_new:
            self.producer, self.sequence = (reply.producer_id, reply.producer_epoch), 0

    def settle(self, seen: Table) -> str | None:
        """What a reader found of this writer's keys: what is wrong with it. Nothing is in doubt afterwards."""
        found = {key: value for key, value in seen.items() if key.startswith(b"%d/" % self.number)}
        for possible in (self.table, self.in_doubt):
            if possible is not None and found == {key: v for key, v in possible.items() if v is not None}:
                self.table, self.in_doubt = possible, None
                return None
        expected = {key: value for key, value in self.table.items() if value is not None}
        wrong = {key for key in found.keys() | expected.keys() if found.get(key) != expected.get(key)}
        return f"{self.name}: {sorted(wrong)[:3]} differ, {'in doubt' if self.in_doubt else 'nothing in doubt'}"
