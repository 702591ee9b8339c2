"""The long way of a record into the buffer, which knows every case: serializers, interceptors, topics that are not known yet,
a full buffer, wrong arguments, rows of Arrow. `appending.py` is the short one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from oncelog.client import arguments
from oncelog.client.backoff import Deadline
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.view import TopicView
from oncelog.client.config import ProducerConfig
from oncelog.client.delivery import Delivery
from oncelog.client.interceptors import ProducerInterceptor, ProducerRecord, as_sent, call_each
from oncelog.client.producer.appending import Appender
from oncelog.client.producer.arguments import (
    as_bytes,
    checked_timestamp,
    header_pairs,
    of_topic,
    too_large,
)
from oncelog.client.producer.sender import Sender
from oncelog.client.producer.tracing import ProducerTracing
from oncelog.core.producer.accumulator import RecordAccumulator
from oncelog.core.producer.batch import ProducedRecord, record_size_bytes
from oncelog.core.producer.partitioner import StickyPartitioner
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.errors import (
    IllegalState,
    InvalidPartitions,
    InvalidTopic,
    KafkaError,
    RecordTooLarge,
    RequestTimedOut,
    UnknownTopicOrPartition,
    WouldBlock,
)
from oncelog.types import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog.client.producer.arrow_sending import ArrowSource

JAVAS = "murmur2_random"
STOPPED = "this producer is not running any more: it was stopped, make a new one"
START_FAILED = "this producer is not running: its start failed, make a new one"


class Sending:
    """Judges, serializes, waits, and puts records into the accumulator."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        manager: TransactionManager,
        accumulator: RecordAccumulator,
        sender: Sender,
        sticky: StickyPartitioner,
        appender: Appender,
        interceptors: tuple[ProducerInterceptor, ...],
        tracing: ProducerTracing,
        *,
        now_ms: Callable[[], int],
        check_may_send: Callable[[], None],
        is_stopping: Callable[[], bool],
    ) -> None:
        self._cluster, self._config, self._manager = cluster, config, manager
        self._accumulator, self._sender, self._sticky = accumulator, sender, sticky
        self._appender, self._interceptors, self._tracing = appender, interceptors, tracing
        self._now_ms, self._check_may_send, self._is_stopping = now_ms, check_may_send, is_stopping
        self._waiting: dict[
            str, list[asyncio.Future[Exception | None]]
        ] = {}  # by topic that a send asks for: the sends behind it

    async def send(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: int | None
    ) -> Delivery:
        """`Producer.send`, whatever it takes."""
        if not self._tracing.is_on:
            return await self._send(topic, value, key, headers, partition, timestamp_ms)
        headers, trace = self._tracing.begin_send(topic, value, key, headers, partition)
        try:
            delivery = await self._send(topic, value, key, headers, partition, timestamp_ms)
        except BaseException as error:
            trace.ended(None, error)
            raise
        self._tracing.follow(trace, delivery)
        return delivery

    async def _send(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: int | None
    ) -> Delivery:
        topic, partition, record, size_bytes = self._checked(topic, value, key, headers, partition, timestamp_ms)
        view, deadline = self._known(topic), None
        if view is None or (partition is not None and _number(partition) not in view.partitions):
            deadline = self._deadline(topic)
            view = view or await self._topic_in_turn(topic, deadline)
            if partition is not None and _number(partition) not in view.partitions:
                view = await self._asked_anew(topic, deadline)
        topic_partition = TopicPartition(topic, self._choose_partition(view, record[1], partition, size_bytes))
        if not self._accumulator.has_room(size_bytes):
            await self._wait_for_room(size_bytes, deadline or self._deadline(topic))
        self._check_may_send()
        return self._taken(topic_partition, record, size_bytes)

    def send_nowait(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: int | None
    ) -> Delivery:
        """`Producer.send_nowait`, whatever it takes."""
        if not self._tracing.is_on:
            return self._send_nowait(topic, value, key, headers, partition, timestamp_ms)
        headers, trace = self._tracing.begin_send(topic, value, key, headers, partition)
        try:
            delivery = self._send_nowait(topic, value, key, headers, partition, timestamp_ms)
        except BaseException as error:
            trace.ended(None, error)
            raise
        self._tracing.follow(trace, delivery)
        return delivery

    def _send_nowait(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: int | None
    ) -> Delivery:
        topic, partition, record, size_bytes = self._checked(topic, value, key, headers, partition, timestamp_ms)
        view = self._known(topic)
        if topic == "":
            raise InvalidTopic("the name of a topic is not empty")
        if view is None:
            raise WouldBlock(
                f"topic {arguments.text('topic', topic)!r} is not known yet: `await producer.send(...)` waits for it"
            )
        topic_partition = TopicPartition(topic, self._choose_partition(view, record[1], partition, size_bytes))
        if not self._accumulator.has_room(size_bytes):
            raise WouldBlock(f"no room for {size_bytes} bytes in buffer_memory={self._config.buffer_memory} now")
        return self._taken(topic_partition, record, size_bytes)

    def _checked(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: int | None, timestamp_ms: Any
    ) -> tuple[Any, int | None, ProducedRecord, int]:
        """Topic, partition, record and its `record_size_bytes`: one that may be sent, serialized."""
        self._check_may_send()
        if self._interceptors:
            record_to_send = ProducerRecord(topic, value, key, headers, partition, timestamp_ms)
            topic, value, key, headers, partition, timestamp_ms = as_sent(self._interceptors, record_to_send)
        key = as_bytes("key", key, of_topic(self._config.key_serializer, topic))
        value = as_bytes("value", value, of_topic(self._config.value_serializer, topic))
        pairs = header_pairs(headers) if headers is not None else ()
        timestamp_ms = self._now_ms() if timestamp_ms is None else checked_timestamp(timestamp_ms)
        size_bytes = record_size_bytes(key, value, pairs)
        if size_bytes > self._config.max_request_size:
            raise self._missing(too_large("a record", size_bytes, self._config.max_request_size))
        return topic, partition, (timestamp_ms, key, value, pairs), size_bytes

    def _missing(self, error: RecordTooLarge) -> RecordTooLarge:
        """A transaction without that record is not whole: it can only be aborted, as with Kafka's KafkaProducer.doSend."""
        if self._manager.state is TransactionState.IN_TRANSACTION:
            self._manager.abortable_error(error)
            self._sender.wake()
        return error

    def _known(self, topic: Any) -> TopicView | None:
        view = self._cluster.view.topics.get(topic) if isinstance(topic, str) else None
        return view if view is not None and view.can_be_written else None

    def _taken(self, topic_partition: TopicPartition, record: ProducedRecord, size_bytes: int) -> Delivery:
        delivery = self._appender.put(topic_partition, record, size_bytes)
        if self._interceptors:
            delivery.look_on(self._acknowledged)
        return delivery

    def _deadline(self, topic: Any) -> Deadline:
        """Of all that a record waits for."""
        return Deadline(self._config.max_block_ms, f"metadata of topic {topic!r}")

    async def _topic_in_turn(self, topic: str, deadline: Deadline) -> TopicView:
        """As `topic`. Of the sends that wait for a topic one asks, and they go on in the order in which they began; where each
        asked again after a time of its own, the records of the first burst to a new topic were stored in any order."""
        arguments.text("topic", topic)
        view = None
        while view is None:
            waiting = self._waiting.get(topic)
            if waiting is None:
                return await self._ask_for(topic, deadline)
            waiting.append(turn := asyncio.get_running_loop().create_future())
            try:
                async with asyncio.timeout(deadline.left_ms / 1000):
                    failed = await turn
            except TimeoutError:
                raise deadline.passed() from None
            if failed is not None:
                raise failed
            view = self._known(topic)
        return view

    async def _ask_for(self, topic: str, deadline: Deadline) -> TopicView:
        waiting: list[asyncio.Future[Exception | None]] = []
        self._waiting[topic] = waiting
        failed: Exception | None = None
        try:
            return await self.topic(topic, timeout_ms=deadline.left_ms)
        except (KafkaError, IllegalState) as error:
            failed = error
            raise
        finally:  # cancelled, it leaves it to the next one to ask
            del self._waiting[topic]
            self._appender.owes_turn |= bool(waiting)  # who begins now goes behind them
            for turn in waiting:
                if not turn.done():
                    turn.set_result(failed)

    async def topic(self, topic: str, *, may_create: bool = True, timeout_ms: int | None = None) -> TopicView:
        """What is known of a topic, waited for at most `timeout_ms` (default: max_block_ms)."""
        arguments.text("topic", topic)
        limit_ms = self._config.max_block_ms if timeout_ms is None else timeout_ms
        try:
            return await self._cluster.topic(topic, timeout_ms=limit_ms, may_create=may_create)
        except (KafkaError, IllegalState) as error:
            if self._is_stopping():
                raise IllegalState(STOPPED) from error
            if isinstance(error, UnknownTopicOrPartition):
                self._cluster.topics.untrack(topic)
            raise

    async def _asked_anew(self, topic: str, deadline: Deadline) -> TopicView:
        """The topic as the brokers know it now: partitions may have been added since we asked."""
        try:
            async with asyncio.timeout(deadline.left_ms / 1000):
                await self._cluster.refresh((topic,))
        except TimeoutError:
            raise deadline.passed() from None
        return await self.topic(topic, timeout_ms=deadline.left_ms)

    def _acknowledged(self, delivery: Delivery) -> None:
        call_each([partial(each.on_acknowledgement, *delivery.seen()) for each in self._interceptors])

    def _choose_partition(self, view: TopicView, key: bytes | None, partition: int | None, size_bytes: int) -> int:
        if partition is not None:
            number = _number(partition)
            if number not in view.partitions:
                raise InvalidPartitions(f"topic {view.name!r} has no partition {number}")
            return number
        chosen = self._config.choose_partition(key, len(view.partitions))
        if chosen is not None:
            chosen = arguments.whole("what the partitioner chose", chosen)
            if chosen not in view.partitions:
                raise InvalidPartitions(f"the partitioner chose {chosen} of topic {view.name!r}, which it has not")
            return chosen
        return self._sticky.partition(view.name, view.led_partitions, size_bytes)

    async def _wait_for_room(self, size_bytes: int, deadline: Deadline) -> None:
        try:
            async with asyncio.timeout(deadline.left_ms / 1000):
                await self._sender.room_for(size_bytes)
        except TimeoutError as error:
            memory, limit = self._config.buffer_memory, self._config.max_block_ms
            raise RequestTimedOut(
                f"no room for {size_bytes} bytes in buffer_memory={memory} within max_block_ms={limit}"
            ) from error

    async def send_arrow(self, topic: str | None, batch: pa.RecordBatch, partition: int | None) -> None:
        """`Producer.send_arrow`."""
        try:
            await self._send_arrow(topic, batch, partition)
        except RecordTooLarge as error:
            self._missing(error)
            raise

    async def _send_arrow(self, topic: str | None, batch: pa.RecordBatch, partition: int | None) -> None:
        from oncelog.client.producer.arrow_sending import (
            by_topic,
            check_sizes,
            checked_batch,
            highest_partition,
            partitioned_rows,
            sections,
        )

        self._check_may_send()
        checked_batch(batch)
        check_sizes(batch, self._config.max_request_size)
        if partition is not None:
            partition = arguments.whole("partition", partition)
        now_ms = self._now_ms()
        for name, part in by_topic(batch, topic):
            deadline = self._deadline(name)
            view = await self.topic(name)
            if (highest_partition(part) if partition is None else partition) >= len(view.partitions):
                view = await self._asked_anew(name, deadline)
            keyless = self._sticky.partition(name, view.led_partitions, part.nbytes)
            rule = None if self._config.partitioner == JAVAS else self._config.choose_partition
            for index, rows in partitioned_rows(part, len(view.partitions), partition, keyless, rule):
                topic_partition = TopicPartition(name, self._choose_partition(view, None, index, 0))
                for source in sections(part, rows, now_ms, self._config):
                    await self._buffer_section(topic_partition, source)

    async def _buffer_section(self, topic_partition: TopicPartition, source: ArrowSource) -> None:
        if not self._accumulator.has_room(source.size_bytes):
            await self._wait_for_room(source.size_bytes, self._deadline(topic_partition.topic))
        self._check_may_send()
        if self._manager.is_transactional:
            self._manager.add_partition(topic_partition)
        self._accumulator.append_encoded(
            topic_partition, source, source.record_count, source.size_bytes, self._cluster.now_ms()
        )
        self._sender.wake()
        await asyncio.sleep(0)


def _number(partition: Any) -> int:
    number: int = partition if partition.__class__ is int else arguments.whole("partition", partition)
    return number
