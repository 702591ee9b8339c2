"""Serializers, deserializers, partitioners and delivery callbacks, against a real broker."""

from __future__ import annotations

import asyncio
import json
import pickle
import struct
import zlib
from collections.abc import Iterator
from uuid import uuid4
from zlib import crc32

import pyarrow as pa
import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from oncelog import Consumer, Producer, sync
from oncelog.core.producer.partitioner import PARTITIONERS, partition_for_key
from oncelog.errors import ConfigurationError, InvalidPartitions, RecordDeserialization, SchemaRegistryError
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker(config={"num.partitions": 6}) as broker:
        yield broker


def to_json(value: object) -> bytes | None:
    return None if value is None else json.dumps(value).encode()


def options(broker: TestBroker, **more: object) -> dict[str, object]:
    earliest = {"auto_offset_reset": "earliest", "isolation_level": "read_committed"}
    return {"bootstrap_servers": broker.bootstrap_servers, **earliest, **more}


@pytest.mark.parametrize("order", ["offset", "transaction"])
def test_a_record_that_cannot_be_read_is_named_and_nothing_before_it_is_lost(broker: TestBroker, order: str) -> None:
    topic, here = f"json-{order}", TopicPartition(f"json-{order}", 3)
    with sync.Producer(
        bootstrap_servers=broker.bootstrap_servers, value_serializer=to_json, key_serializer=str.encode
    ) as p:
        p.send(topic, {"n": 1}, "a", partition=3).result()
        with pytest.raises(TypeError):
            p.send(topic, object(), "b")
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as p:
        p.send(topic, b"{", b"b", partition=3).result()
        p.send(topic, None, b"c", partition=3).result()
    made = options(broker, order=order, value_deserializer=json.loads, key_deserializer=bytes.decode)
    with sync.Consumer(**made) as c:
        c.assign([here])
        assert [(r.key, r.value) for r in c.poll(10_000)] == [("a", {"n": 1})]
        for _ in range(2):
            with pytest.raises(RecordDeserialization, match="seek to 2") as raised:
                c.poll(10_000)
            assert (raised.value.topic_partition, raised.value.offset) == (here, 1)
        c.seek(here, raised.value.offset + 1)
        assert [(r.key, r.value) for r in c.poll(10_000)] == [("c", None)]


def read(consumer: sync.Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += [record.value for record in consumer.poll(10_000)]
    return found


class Unwilling:
    """A deserializer that raises `error` at the value b"2" as long as there is one."""

    def __init__(self, error: Exception) -> None:
        self.error: Exception | None = error

    def __call__(self, content: bytes) -> bytes:
        if content == b"2" and self.error is not None:
            raise self.error
        return content


@pytest.mark.parametrize("order", ["offset", "transaction"])
def test_what_a_registry_that_is_down_raises_loses_nothing(broker: TestBroker, order: str) -> None:
    topic = f"registry-{order}"
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as p:
        p.send_many(topic, [(None, b"%d" % n) for n in range(4)], partition=3)
    registry = Unwilling(SchemaRegistryError("the registry is down"))
    with sync.Consumer(**options(broker, value_deserializer=registry, order=order)) as c:
        c.assign([TopicPartition(topic, 3)])
        assert [r.value for r in c.poll(10_000)] == [b"0", b"1"]
        for _ in range(2):
            with pytest.raises(SchemaRegistryError):
                c.poll(10_000)
        registry.error = None
        assert read(c, 2) == [b"2", b"3"]


def test_records_lent_to_the_callers_thread_are_not_lost_either(broker: TestBroker) -> None:
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as p:
        p.send_many("lent", [(None, b"%d" % n) for n in range(5)], partition=3)
    unwilling = Unwilling(LookupError("an own error"))
    with sync.Consumer(**options(broker, value_deserializer=unwilling)) as c:
        c.assign([TopicPartition("lent", 3)])
        assert [r.value for r in c.poll(10_000, max_records=1)] == [b"0"]
        assert [r.value for r in c.poll(10_000)] == [b"1"]
        with pytest.raises(LookupError) as raised:
            c.poll(10_000)
        assert raised.value.__notes__ == [
            "raised by value_deserializer for lent-3 at offset 2; seek to 3 to pass over it"
        ]
        unwilling.error = None
        assert read(c, 3) == [b"2", b"3", b"4"]


@pytest.mark.parametrize(
    "deserializer", [lambda content: struct.unpack(">q", content), pickle.loads, zlib.decompress, Timestamp.FromString]
)
def test_what_common_libraries_raise_is_said_of_the_record(broker: TestBroker, deserializer: object) -> None:
    topic = f"libraries-{uuid4()}"
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as p:
        p.send(topic, b"\xff", partition=3)
    with sync.Consumer(**options(broker, value_deserializer=deserializer)) as c:
        c.assign([TopicPartition(topic, 3)])
        with pytest.raises(RecordDeserialization, match="seek to 1"):
            c.poll(10_000)


def test_java_class_names_say_nothing(caplog: pytest.LogCaptureFixture) -> None:
    named = "org.apache.kafka.common.serialization.StringSerializer"
    Producer.from_config({"bootstrap.servers": "h:1", "key.serializer": named})
    assert "key_serializer has no meaning" in caplog.text
    with pytest.raises(ConfigurationError, match="expected a function"):
        Consumer(value_deserializer=5)


def test_named_partitioners() -> None:
    keys = [b"%d" % n for n in range(50)]
    assert [PARTITIONERS["murmur2_random"](key, 7) for key in keys] == [partition_for_key(key, 7) for key in keys]
    assert [PARTITIONERS["consistent_random"](key, 7) for key in keys] == [crc32(key) % 7 for key in keys]
    assert [PARTITIONERS[name](None, 7) for name in ("murmur2_random", "consistent_random", "random")] == [None] * 3
    assert PARTITIONERS["consistent_random"](b"", 7) is None
    assert PARTITIONERS["consistent"](None, 7) == PARTITIONERS["consistent"](b"", 7) == crc32(b"") % 7
    assert PARTITIONERS["murmur2"](None, 7) == partition_for_key(b"", 7)
    with pytest.raises(ConfigurationError, match="consistent_random"):
        Producer(partitioner="best")


@pytest.mark.parametrize("partitioner", ["consistent_random", "murmur2_random"])
def test_records_and_arrow_rows_go_where_librdkafka_sends_them(broker: TestBroker, partitioner: str) -> None:
    from confluent_kafka import Producer as Librdkafka

    keys, topic = [b"key-%d" % n for n in range(40)], f"as-librdkafka-{partitioner}"
    theirs: dict[bytes, int] = {}
    other = Librdkafka({"bootstrap.servers": broker.bootstrap_servers, "partitioner": partitioner})
    for key in keys:
        other.produce(topic, b"x", key, on_delivery=lambda _, m: theirs.__setitem__(m.key(), m.partition()))
    other.flush(30)
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, partitioner=partitioner) as p:
        ours = {key: p.send(topic, b"y", key).result().partition for key in keys}
        p.send_arrow(topic, pa.RecordBatch.from_pydict({"key": keys, "value": [b"arrow"] * len(keys)}))
        p.flush()
    assert ours == theirs
    with sync.Consumer(topic, **options(broker)) as c:
        found = []
        while len(found) < 3 * len(keys):
            found += c.poll(10_000)
    assert {r.key: r.partition for r in found if r.value == b"arrow"} == theirs


def test_a_function_as_partitioner(broker: TestBroker) -> None:
    chosen = {b"far": 5, b"nowhere": 6}
    with sync.Producer(
        bootstrap_servers=broker.bootstrap_servers, partitioner=lambda key, _count: chosen.get(key)
    ) as p:
        assert p.send("by-function", b"x", b"far").result().partition == 5
        assert 0 <= p.send("by-function", b"x").result().partition < 6
        with pytest.raises(InvalidPartitions, match="chose 6"):
            p.send("by-function", b"x", b"nowhere")


def test_callbacks_come_after_the_outcome_in_order(broker: TestBroker) -> None:
    async def work() -> list[int]:
        seen: list[int] = []
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as p:
            for n in range(20):
                delivery = await p.send("called-back", b"%d" % n, partition=0)
                delivery.add_done_callback(lambda d: seen.append(d.result().offset))
            await p.flush()
            delivery.add_done_callback(lambda d: seen.append(-d.result().offset))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        return seen

    assert asyncio.run(work()) == [*range(20), -19]
