"""One life of a transactional client: a producer and a consumer in one process, which reads and writes until it is killed.

How an error is classified decides everything: `ok` is an acknowledged commit; `fail` certainly has no effect (the abort was
acknowledged, or a commit was never asked for); everything else is `info`, and ends the life.
"""

from __future__ import annotations

import random
from typing import Any

from evidence.simulator.cluster import COMPACTED, COMPACTED_KEYS, KEYS, Cluster
from evidence.simulator.history import History, Outcome, Transaction
from evidence.simulator.knobs import options_of
from evidence.simulator.lives import client_settings
from evidence.world.loop import Process
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.delivery import Delivery
from oncelog.client.producer.producer import Producer
from oncelog.errors import KafkaError, RequestTimedOut
from oncelog.types import TopicPartition

COMMIT_ATTEMPTS = 4
COMPACTED_KEY_COUNT = 6
LIFE_ENDS = (KafkaError, TimeoutError)


class ClientLife:
    """Slot `slot` of the workload. `open` is the transaction under way: whoever sees the death must end it."""

    def __init__(
        self, cluster: Cluster, history: History, process: Process, slot: int, transactional_id: str, operations: int
    ) -> None:
        self.cluster, self.history, self.process = cluster, history, process
        self.number = history.new_process()
        self.slot, self.transactional_id = slot, transactional_id
        self.group = f"group-{slot}"
        self.operations_left = operations
        self.open: Transaction | None = None
        self.working_producer: Producer | None = None
        self.random = random.Random(f"life {cluster.seed} {process.name}")
        self.must_end = False
        # Some programs have no other way with an error than to end.
        self.aborts_what_failed = random.Random(f"aborts {cluster.seed} {process.name}").random() < 0.7

    # what clients are configured with

    def settings(self) -> dict[str, Any]:
        """Keys of every client."""
        return client_settings(self.cluster, self.process, self.random)

    def producer(self, **more: Any) -> Producer:
        """A producer of this life."""
        return Producer(
            **{
                **self.settings(),
                "transactional_id": self.transactional_id,
                "linger_ms": self.random.choice((0, 0, 5)),
                "delivery_timeout_ms": 8_000,
                "max_block_ms": 10_000,
                "compression_type": self.random.choice(("none", "none", "lz4", "gzip")),
                **options_of(self.cluster.options.knobs, "client", "producer"),
                **more,
            }
        )

    def consumer(self) -> Consumer:
        """A read_committed consumer that keeps its position in its group."""
        return Consumer(
            **{
                **self.settings(),
                "group_id": self.group,
                "enable_auto_commit": False,
                "isolation_level": "read_committed",
                "auto_offset_reset": "earliest",
                "fetch_max_wait_ms": 200,
                **options_of(self.cluster.options.knobs, "client", "consumer"),
            }
        )

    # the life

    async def run(self) -> None:
        """Work until the operations are done, the life must end, or an error makes it."""
        timeout_ms = self.cluster.options.transaction_timeout_ms
        producer, consumer = self.producer(transaction_timeout_ms=timeout_ms), self.consumer()
        self.working_producer = producer
        try:
            await consumer.start()
            consumer.assign(KEYS + (COMPACTED_KEYS if self.cluster.options.has_compacted_topic else ()))
            self.history.assigned(self.number, list(KEYS))
            await producer.start()
            while self.operations_left > 0 and not self.must_end:
                await self.pause()
                self.operations_left -= 1
                if not await self._operation(producer, consumer):
                    break
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} gives up: {error!r}")
        if self.random.random() < 0.3:
            await self._stop(producer, consumer)

    async def _stop(self, producer: Producer, consumer: Consumer) -> None:
        try:
            await producer.stop(timeout_ms=1000)
            await consumer.stop()
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} stops badly: {error!r}")

    async def pause(self) -> None:
        """Think."""
        import asyncio

        await asyncio.sleep(self.random.expovariate(1 / self.cluster.options.think_mean))

    async def _operation(self, producer: Producer, consumer: Consumer) -> bool:
        """One transaction; whether the life may go on."""
        self.open = transaction = self.history.begin(self.number)
        # Behind a transaction in which nothing was sent the epoch is the same: what was asked of that one may reach this one.
        if isinstance(producer, Producer):  # nobody ends those of older clients
            transaction.operator_commits = producer._manager.identity in self.history.operator_commits
        first_polled: dict[TopicPartition, int] = {}
        try:
            outcome = await self._attempt(transaction, producer, consumer, first_polled)
        except LIFE_ENDS as error:
            self.cluster.note(f"{self.process.name} #{self.number}: {error!r}")
            outcome, goes_on = await self._after_error(transaction, producer, error)
        else:
            goes_on = True
        self.finish(outcome)
        if outcome is not Outcome.OK:
            for key, offset in first_polled.items():
                consumer.seek(key, offset)
        return goes_on

    async def _attempt(
        self,
        transaction: Transaction,
        producer: Producer,
        consumer: Consumer,
        first_polled: dict[TopicPartition, int],
    ) -> Outcome:
        sent: list[tuple[list[Any], Delivery]] = []
        producer.begin_transaction()
        for _ in range(self.random.randint(1, 4)):
            if self.random.random() < 0.65:
                await self.send(transaction, producer, sent)
            else:
                await self._poll(transaction, consumer, first_polled)
        if transaction.offsets and self.random.random() < 0.6:
            transaction.group = self.group
            await producer.send_offsets_to_transaction(transaction.offsets, consumer.group_metadata())
        else:
            transaction.offsets = {}
        if self.random.random() < 0.15:
            await producer.abort_transaction()
            return Outcome.FAIL
        transaction.commit_attempted = True
        await self._commit(producer)
        await self.note_offsets(sent)
        return Outcome.OK

    async def send(self, transaction: Transaction, producer: Producer, sent: list[tuple[list[Any], Delivery]]) -> None:
        """Send one value; now and then wait for its offset at once."""
        if self.cluster.options.has_compacted_topic and self.random.random() < 0.6:
            await self._send_keyed(transaction, producer, sent)
            return
        key = self.random.choice(KEYS)
        value = self.history.new_value(key)
        where = transaction.send(key, value)
        data = b"%d %s" % (value, b"x" * self.random.choice((0, 10, 700)))
        delivery = await producer.send(key.topic, data, partition=key.partition)
        if self.random.random() < 0.4:
            where[0] = _offset((await delivery).offset)
        else:
            sent.append((where, delivery))

    async def _send_keyed(
        self, transaction: Transaction, producer: Producer, sent: list[tuple[list[Any], Delivery]]
    ) -> None:
        """To the compacted topic: one of a few keys, now and then without a value; its number is in a header."""
        partition = self.random.choice(COMPACTED_KEYS)
        number = self.history.new_value(partition)
        where = transaction.send(partition, number)
        value = None if self.random.random() < 0.2 else b"x" * self.random.choice((0, 10, 300))
        key = b"k%d" % self.random.randrange(COMPACTED_KEY_COUNT)
        headers = (("number", b"%d" % number),)
        sent.append((where, await producer.send(COMPACTED, value, key, headers, partition=partition.partition)))

    async def note_offsets(self, sent: list[tuple[list[Any], Delivery]]) -> None:
        """After the commit every record has its offset."""
        for where, delivery in sent:
            where[0] = _offset((await delivery).offset)

    async def _poll(
        self, transaction: Transaction, consumer: Consumer, first_polled: dict[TopicPartition, int]
    ) -> None:
        found: dict[str, list[list[int]]] = {}
        for record in await consumer.poll(self.random.choice((20, 100, 300))):
            key = record.topic_partition
            if key.topic == COMPACTED:
                self.cluster.compacted_reads.append((f"#{self.number}", key, record.offset, record.key))
            else:
                found.setdefault(str(key), []).append([record.offset, value_of(record.value)])
            first_polled.setdefault(key, record.offset)
            transaction.offsets[key] = record.offset + 1
        transaction.poll(found)

    async def _commit(self, producer: Producer) -> None:
        for attempt in range(COMMIT_ATTEMPTS):
            try:
                await producer.commit_transaction()
            except RequestTimedOut:
                if attempt == COMMIT_ATTEMPTS - 1:
                    raise
            else:
                return

    async def _after_error(
        self, transaction: Transaction, producer: Producer, error: Exception
    ) -> tuple[Outcome, bool]:
        may_abort = isinstance(error, KafkaError) and not error.fatal
        if transaction.commit_attempted and not (may_abort and isinstance(error, KafkaError) and error.abortable):
            return Outcome.INFO, False
        # What is abortable is not committed, and will not be, whether we abort it or die.
        transaction.commit_attempted = False
        if may_abort and self.aborts_what_failed:
            try:
                await producer.abort_transaction()
            except LIFE_ENDS as failure:
                self.cluster.note(f"{self.process.name} #{self.number} abort: {failure!r}")
                return Outcome.FAIL, False
            return Outcome.FAIL, True
        return Outcome.FAIL, False

    def finish(self, outcome: Outcome) -> None:
        """The transaction under way ended like this."""
        if self.open is not None:
            self.history.end(self.open, outcome)
            self.open = None

    def died(self) -> None:
        """The process was killed: what was not asked to commit never will."""
        if self.open is not None:
            self.finish(Outcome.INFO if self.open.commit_attempted else Outcome.FAIL)


def _offset(offset: int) -> int | None:
    return offset if offset >= 0 else None


def value_of(data: bytes | None) -> int:
    """The value of a record."""
    assert data is not None
    number, _, filling = bytes(data).partition(b" ")
    return int(number) if number.isdigit() and not filling.strip(b"x") else -1  # never sent: the checkers say so
