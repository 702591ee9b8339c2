"""The clients as a user's type checker sees them: `make lint` runs mypy --strict and pyright (strict) on this file.

Nothing here is run. Only public names are imported; each value that a user gets is asserted to have a type of its own.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, assert_type

import pyarrow as pa
from opentelemetry.trace import Span

from oncelog import (
    Admin,
    Broker,
    Consumer,
    ConsumerInterceptor,
    ConsumerMetrics,
    ConsumerRecord,
    Delivery,
    OffsetAndMetadata,
    PreparedTxnState,
    ProcessMetrics,
    Processor,
    Producer,
    ProducerInterceptor,
    ProducerMetrics,
    ProducerOptions,
    ProducerRecord,
    RebalanceListener,
    RecordMetadata,
    TopicPartition,
    errors,
    process,
    sync,
)
from oncelog.opentelemetry import Tracing
from oncelog.sync import SentRecord
from oncelog.testing import (
    FaultyProxy,
    TestBroker,
    assert_committed_once,
    assert_no_open_transactions,
    committed_records,
    open_transactions,
)


async def producing(state: PreparedTxnState, consumer: Consumer) -> None:
    async with Producer(bootstrap_servers="x", transactional_id="x", value_serializer=str.encode) as producer:
        assert_type(producer, Producer)
        async with producer.transaction() as same:
            assert_type(same, Producer)
            delivery = await producer.send("t", "value", key=b"k", headers={"h": b"v"}, partition=0, timestamp_ms=0)
            assert_type(delivery, Delivery)
            assert_type(await delivery, RecordMetadata)
            assert_type((await delivery).offset, int)
            assert_type(delivery.result().topic_partition, TopicPartition)
            delivery.add_done_callback(lambda done: print(done.metadata.offset, done.error))
            assert_type(await producer.send_many("t", [(b"k", b"v")]), list[Delivery])
            offsets = {TopicPartition("t", 0): OffsetAndMetadata(1)}
            await producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
        assert_type(await producer.send_and_wait("t", b"v", headers=[("h", None)]), RecordMetadata)
        producer.begin_transaction()
        assert_type(await producer.prepare_transaction(), PreparedTxnState)
        await producer.complete_transaction(state)
        assert_type(await producer.detach_transaction(), PreparedTxnState)
        assert_type(producer.purge(in_queue=True, in_flight=False), int)
        assert_type(producer.metrics(), ProducerMetrics)
        assert_type(producer.metrics().as_dict(), dict[str, Any])
        assert_type(producer.metrics().brokers[0].latency_max_ms, float)
        assert_type(await producer.partitions_for("t"), list[int])
        await producer.flush()
    assert_type(Producer.from_config({"bootstrap.servers": "x"}), Producer)


async def columns(producer: Producer, consumer: Consumer) -> None:
    """pyarrow has no types of its own: this takes pyarrow-stubs."""
    assert_type(await consumer.poll_arrow(max_records=1000), pa.RecordBatch)
    await producer.send_arrow("t", pa.record_batch({"value": pa.array([b"x"], pa.binary())}), partition=0)


class Listener(RebalanceListener):
    async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        print([each.topic for each in assigned])


async def consuming() -> None:
    here = TopicPartition("t", 0)
    async with Consumer("t", group_id="g", isolation_level="read_committed", order="transaction") as consumer:
        consumer.subscribe(["t"], listener=Listener())
        consumer.subscribe(pattern="t.*", listener=PlainListener())
        async for record in consumer:
            assert_type(record, ConsumerRecord)
            assert_type(record.offset, int)
            assert_type(record.headers, tuple[tuple[str, bytes | None], ...])
        assert_type(await consumer.poll(1000, max_records=10), list[ConsumerRecord])
        consumer.seek(here, OffsetAndMetadata(1))
        assert_type(await consumer.seek_to_timestamp(0, here), dict[TopicPartition, int])
        consumer.wakeup()
        consumer.pause(here)
        assert_type(await consumer.position(here), int)
        assert_type(consumer.assignment(), set[TopicPartition])
        assert_type(consumer.current_positions(), dict[TopicPartition, OffsetAndMetadata])
        assert_type(await consumer.committed([here]), dict[TopicPartition, OffsetAndMetadata])
        assert_type(await consumer.end_offsets([here]), dict[TopicPartition, int])
        assert_type((await consumer.lag())[here].readable, int)
        assert_type(await consumer.at_end(), bool)
        assert_type(consumer.metrics(), ConsumerMetrics)
        assert_type(consumer.metrics().partitions[0].readable_lag, int | None)
        await consumer.commit({here: 1})
    assert_type(Consumer.from_config({"group.id": "g"}, "t"), Consumer)


class PlainListener(RebalanceListener):
    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        print([each.topic for each in revoked])


class Upper(ProducerInterceptor):
    def on_send(self, record: ProducerRecord) -> ProducerRecord:
        return record._replace(topic=record.topic.upper())

    def on_acknowledgement(self, metadata: RecordMetadata, error: errors.KafkaError | None) -> None:
        print(metadata.offset, error.retriable if error is not None else "")


class Quiet(ConsumerInterceptor):
    def on_consume(self, records: list[ConsumerRecord]) -> list[ConsumerRecord]:
        return records[:1]

    def on_commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        print(offsets)


def told(found: ProducerMetrics) -> None:
    print(found.retry_count)


def options() -> None:
    partitioner: Callable[[bytes | None, int], int | None] = lambda key, count: len(key or b"") % count  # noqa: E731
    Producer(interceptor_classes=[Upper()], stats_cb=told, statistics_interval_ms=1000, partitioner=partitioner)
    Consumer("t", interceptor_classes=[Quiet])


async def administration() -> None:
    async with Admin(bootstrap_servers="x") as admin:
        assert_type(await admin.create_topics({"t": 3}), dict[str, bytes])
        for name, topic in (await admin.list_topics()).items():
            print(name, topic.partitions[0].leader_id)
        for group in await admin.list_groups():
            assert_type(group.group_id, str)
        for listing in await admin.list_transactions():
            assert_type(listing.transactional_id, str)
        for described in (await admin.describe_transactions(["x"])).values():
            assert_type(described.producer_id, int)
        for hanging in await admin.find_hanging_transactions():
            assert_type(hanging.topic_partition, TopicPartition)
        assert_type(await admin.list_consumer_group_offsets("g"), dict[TopicPartition, OffsetAndMetadata])
        await admin.fence_producers(["x"])


def blocking() -> None:
    with sync.Producer(transactional_id="x") as producer, producer.transaction() as same:
        assert_type(same, sync.Producer)
        sent = same.send("t", b"v")
        assert_type(sent, SentRecord)
        assert_type(sent.result(1000), RecordMetadata)
        sent.add_done_callback(lambda done: print(done.result().offset))
        assert_type(producer.send_and_wait("t", b"v"), RecordMetadata)
        assert_type(producer.purge(in_flight=False), int)
        assert_type(producer.metrics(), ProducerMetrics)
        assert_type(producer.prepare_transaction(), PreparedTxnState)
        producer.complete_transaction(PreparedTxnState("1:2"))
    with sync.Consumer("t", group_id="g") as consumer:
        for record in consumer:
            assert_type(record, ConsumerRecord)
        assert_type(consumer.poll(timeout_ms=10), list[ConsumerRecord])
        assert_type(consumer.position(TopicPartition("t", 0)), int)
        assert_type(consumer.metrics(), ConsumerMetrics)
        consumer.commit()
    with sync.Admin() as admin:
        assert_type(admin.create_topics({"t": 1}), dict[str, bytes])
        assert_type(admin.list_consumer_group_offsets("g"), dict[TopicPartition, OffsetAndMetadata])


def mistakes(error: errors.KafkaError) -> str:
    match error:
        case errors.ProducerFenced():
            return "over"
        case errors.PurgedInFlight() | errors.TransactionAbortable():
            return "abort"
        case _:
            assert_type(error.code, errors.ErrorCode)
            return "again" if error.retriable else "?"


def total(record: ConsumerRecord) -> tuple[str, int]:
    return record.topic, record.offset


def told_of_work(found: ProcessMetrics) -> None:
    print(found.readable_lag)


OPTIONS: ProducerOptions = {"bootstrap_servers": "x:1", "linger_ms": 5}


async def processing(config: dict[str, Any]) -> None:
    assert_type(
        await process(
            "t", group_id="g", into="u", transform=total, linger_ms=5, max_poll_records=10, stats_cb=told_of_work
        ),
        ProcessMetrics,
    )
    assert_type(await process(["t"], **config), ProcessMetrics)
    processor = Processor("t", group_id="g", transform=total, bootstrap_servers=["x:1"], ssl_cafile="ca.pem")
    assert_type(processor.metrics(), ProcessMetrics)
    assert_type(sync.process("t", group_id="g", transform=total, until_end=True), ProcessMetrics)
    assert_type(sync.Processor("t", group_id="g", transform=total).run(), ProcessMetrics)
    Producer(**config)
    Producer(**OPTIONS)
    Consumer("t", **config)


async def planted_mistakes() -> None:
    """Each must be a red line: `warn_unused_ignores` and reportUnnecessaryTypeIgnoreComment look whether it is."""
    await process("t", group_id="g", transfrom=total)  # type: ignore[call-arg]
    await process("t", group_id=7, transform=total)  # type: ignore[arg-type]
    await process("t", transform=total)  # type: ignore[call-arg]
    await process("t", group_id="g", transform=total, acks="all")  # type: ignore[call-arg]
    await process("t", group_id="g", transform=total, concurrency="4")  # type: ignore[arg-type]
    await process("t", group_id="g", transform=total, bootstrap_server="x:1")  # type: ignore[call-arg]
    Processor("t", group_id="g", transform=total, linger="5")  # type: ignore[call-arg]
    Processor("t", group_id="g", transform=total, linger_ms="5")  # type: ignore[arg-type]
    sync.process("t", group_id="g", transform=total, stats_cb=told)  # type: ignore[arg-type]
    sync.process("t", group_id="g", transfrom=total)  # type: ignore[call-arg]
    sync.Processor("t", group_id="g", until_end=1)  # type: ignore[arg-type]
    Producer(linger=1)  # type: ignore[call-arg]
    Producer(group_id="g")  # type: ignore[call-arg]
    Consumer("t", max_poll_records="10")  # type: ignore[arg-type]
    Consumer("t", transactional_id="x")  # type: ignore[call-arg]
    Admin(acks="all")  # type: ignore[call-arg]
    sync.Producer(acks=None)  # type: ignore[arg-type]
    sync.Consumer("t", offset_reset="earliest")  # type: ignore[call-arg]
    sync.Admin(bootstrap_servers=9092)  # type: ignore[arg-type]


async def brokers() -> None:
    async with Broker(data_dir="x", config={"num.partitions": "1"}) as broker:
        assert_type(broker.bootstrap_servers, str)


async def tracing(tracing: Tracing, record: ConsumerRecord) -> None:
    Consumer("t", tracing=tracing)
    sync.Producer(tracing=tracing)
    with tracing.processing(record, group_id="g") as span:
        assert_type(span, Span)
    await process("t", group_id="g", transform=print, tracing=tracing)


def testing(oncelog_broker: TestBroker, oncelog_faults: FaultyProxy) -> None:
    oncelog_broker.advance(60_000)
    oncelog_broker.restart()
    assert_type(oncelog_broker.is_running, bool)
    assert_committed_once(oncelog_broker, "t", ["k", b"k"], only=True)
    assert_no_open_transactions(oncelog_faults)
    assert_type(committed_records("x", "t"), list[ConsumerRecord])
    assert_type(open_transactions(oncelog_broker)[0].partitions, tuple[TopicPartition, ...])
    assert_type(oncelog_broker.bootstrap_servers, str)
    assert_type(oncelog_faults.bootstrap_servers, str)
