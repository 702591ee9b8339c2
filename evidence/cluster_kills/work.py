"""Writers in transactions, members that copy what they write exactly once, and what each of them was told.

Whoever gets an error makes a new client, as an application would that is started again.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from oncelog import Consumer, OffsetAndMetadata, Producer, TopicPartition
from oncelog.errors import KafkaError
from oncelog.host.host import Host

IN, OUT, GROUP = "in", "out", "copy"
PARTITIONS = 6
WRITERS, MEMBERS = 6, 2
RECORDS_MAX = 40
PAUSE_S_MAX = 0.5
ABORTED_SHARE = 0.1
TRANSACTION_TIMEOUT_MS = 30_000
COMMITTED, ABORTED, UNKNOWN = "committed", "aborted", "unknown"


@dataclass
class Ledger:
    """What writers know of their transactions: (writer, number) -> how many records it had, and its outcome."""

    sizes: dict[tuple[int, int], int] = field(default_factory=dict)
    outcomes: dict[tuple[int, int], str] = field(default_factory=dict)
    errors: Counter[str] = field(default_factory=Counter)


class _Unwanted(Exception):
    """Why a transaction is aborted."""


class Work:
    """`run` goes on until `is_over` is set; the copying members then go on until they are cancelled."""

    def __init__(
        self, bootstrap_servers: str, seed: int, host_of: Callable[[str], Host | None] = lambda _client: None
    ) -> None:
        self._servers, self._random, self._host_of = bootstrap_servers, random.Random(seed), host_of
        self.ledger, self.is_over = Ledger(), asyncio.Event()

    async def write(self, writer: int) -> None:
        """One writer."""
        number = 0
        while not self.is_over.is_set():
            try:
                async with self._producer(f"writer-{writer}") as producer:
                    while not self.is_over.is_set():
                        number += 1
                        await self._transaction(producer, writer, number)
            except KafkaError as error:
                self.ledger.errors[type(error).__name__] += 1
                await asyncio.sleep(PAUSE_S_MAX)

    def _producer(self, transactional_id: str) -> Producer:
        return Producer(
            bootstrap_servers=self._servers,
            transactional_id=transactional_id,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            host=self._host_of(transactional_id),
        )

    async def _transaction(self, producer: Producer, writer: int, number: int) -> None:
        draw, ledger, which = self._random, self.ledger, (writer, number)
        ledger.sizes[which] = draw.randrange(1, RECORDS_MAX)
        ledger.outcomes[which] = UNKNOWN
        is_kept = draw.random() > ABORTED_SHARE
        try:
            async with producer.transaction():
                for index in range(ledger.sizes[which]):
                    await producer.send(IN, b"%d:%d:%d" % (writer, number, index), key=b"%d" % writer)
                if not is_kept:
                    raise _Unwanted
            ledger.outcomes[which] = COMMITTED
        except _Unwanted:
            ledger.outcomes[which] = ABORTED
        await asyncio.sleep(draw.uniform(0, PAUSE_S_MAX))

    async def copy(self, member: int) -> None:
        """One member of the group that copies."""
        while True:
            try:
                await self._copy(member)
            except KafkaError as error:
                self.ledger.errors[f"copy {type(error).__name__}"] += 1
                await asyncio.sleep(PAUSE_S_MAX)

    async def _copy(self, member: int) -> None:
        async with (
            Consumer(
                IN,
                bootstrap_servers=self._servers,
                group_id=GROUP,
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                isolation_level="read_committed",
                host=self._host_of(f"copy-{member}"),
            ) as consumer,
            self._producer(f"copy-{member}") as producer,
        ):
            while True:
                records = await consumer.poll(timeout_ms=500, max_records=200)
                if not records:
                    continue
                positions: dict[TopicPartition, OffsetAndMetadata | int] = {}
                async with producer.transaction():
                    for record in records:
                        await producer.send(OUT, record.value, key=record.key)
                        positions[TopicPartition(record.topic, record.partition)] = record.offset + 1
                    await producer.send_offsets_to_transaction(positions, consumer.group_metadata())
