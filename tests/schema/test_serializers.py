"""Serializers and deserializers, by themselves, with clients, and against Confluent's own."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pydantic
import pytest
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from evidence.world.protobuf_messages import inner_message
from google.protobuf import descriptor_pb2

from oncelog import Broker, Consumer, Producer
from oncelog.client.records import ConsumerRecord
from oncelog.errors import ConfigurationError, IllegalState, InvalidArgument, RecordDeserialization, SchemaRegistryError
from oncelog.schema import (
    AsyncSchemaRegistry,
    AvroCodec,
    Deserializer,
    JsonCodec,
    ProtobufCodec,
    Reference,
    Schema,
    SchemaRegistry,
    Serializer,
    record_name_strategy,
    topic_record_name_strategy,
)
from tests.schema.registry_for_tests import RegistryForTests

URL = "http://registry.test"
AVRO = '{"type":"record","name":"Order","namespace":"shop","fields":[{"name":"n","type":"long"},{"name":"what","type":"string"}]}'
JSON = '{"title": "Order", "type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}'


@dataclass
class Order:
    n: int
    what: str


class Model(pydantic.BaseModel):
    n: int
    what: str


def registry(answers: RegistryForTests) -> SchemaRegistry:
    return SchemaRegistry(URL, transport=answers.transport, retries=0)


@pytest.mark.parametrize("kind", [Order, Model])
def test_dataclasses_and_models_come_back(kind: Any) -> None:
    answers = RegistryForTests()
    serializer = Serializer(registry(answers), AvroCodec(AVRO))
    content = serializer.serialize("orders", kind(n=7, what="x"))
    assert content == b"\0\0\0\0\1\x0e\2x"
    deserializer: Deserializer[Any] = Deserializer(registry(answers), AvroCodec(AVRO), into=kind)
    assert deserializer(content) == kind(n=7, what="x")
    assert (serializer.serialize("orders", None), deserializer(None)) == (None, None)


@pytest.mark.parametrize(
    ("strategy", "subject"), [(record_name_strategy, "shop.Order"), (topic_record_name_strategy, "orders-shop.Order")]
)
def test_a_subject_is_named_by_its_strategy(strategy: Any, subject: str) -> None:
    answers = RegistryForTests()
    Serializer(registry(answers), AvroCodec(AVRO), subject_name_strategy=strategy).serialize(
        "orders", {"n": 1, "what": ""}
    )
    assert list(answers.subjects) == [subject]


def test_without_registering_the_schema_must_be_there() -> None:
    answers = RegistryForTests()
    serializer = Serializer[dict](registry(answers), AvroCodec(AVRO), auto_register_schemas=False, is_key=True)
    with pytest.raises(SchemaRegistryError, match="'orders-key': Schema not found"):
        serializer.serialize("orders", {"n": 1, "what": ""})
    answers.put("orders-key", AVRO)
    assert serializer.serialize("orders", {"n": 1, "what": ""}) == b"\0\0\0\0\1\2\0"


def test_the_latest_version_is_written() -> None:
    answers = RegistryForTests()
    answers.put("orders-value", '"string"')
    answers.put("orders-value", AVRO)
    with pytest.raises(ConfigurationError, match="auto_register_schemas=False"):
        Serializer(registry(answers), AvroCodec(), use_latest_version=True)
    serializer = Serializer[dict](registry(answers), AvroCodec(), use_latest_version=True, auto_register_schemas=False)
    assert serializer.serialize("orders", {"n": 1, "what": ""}) == b"\0\0\0\0\2\2\0"


def test_a_value_that_does_not_fit_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="the value for topic 'orders' does not fit the schema"):
        Serializer[dict](registry(RegistryForTests()), AvroCodec(AVRO)).serialize("orders", {"n": "x"})


def test_another_kind_or_message_is_refused() -> None:
    answers = RegistryForTests()
    first = Serializer[Any](registry(answers), ProtobufCodec(descriptor_pb2.FileDescriptorSet))
    content = first.serialize("t", descriptor_pb2.FileDescriptorSet())
    with pytest.raises(ValueError, match="was written as PROTOBUF, not AVRO"):
        Deserializer[Any](registry(answers), AvroCodec())(content)
    with pytest.raises(ValueError, match=r"is message \(0,\) of its file, not \(1,\)"):
        Deserializer[Any](registry(answers), ProtobufCodec(descriptor_pb2.FileDescriptorProto))(content)


def test_a_header_says_the_schema_too() -> None:
    answers = RegistryForTests()
    answers.put("s", AVRO)
    guid = b"\1" + bytes(15) + b"\1"
    found = Deserializer[Any](registry(answers), AvroCodec()).deserialize(b"\x0e\2x", [("__value_schema_id", guid)])
    assert found == {"n": 7, "what": "x"}


def test_an_async_registry_is_asked_before() -> None:
    answers = RegistryForTests()

    async def main() -> None:
        async with AsyncSchemaRegistry(URL, transport=answers.transport) as asked:
            serializer = Serializer[Order](asked, AvroCodec(AVRO))
            with pytest.raises(IllegalState, match=r"await serializer\.prepare"):
                serializer.serialize("orders", Order(1, ""))
            await serializer.prepare("orders")
            assert serializer.for_topic("orders")(Order(1, "")) == b"\0\0\0\0\1\2\0"
            with pytest.raises(IllegalState, match="for_topic"):
                serializer(Order(1, ""))
            with pytest.raises(ValueError, match=r"await deserializer\.read"):
                Deserializer[Any](asked, AvroCodec())(b"\0\0\0\0\1\2\0")

    asyncio.run(main())


def test_records_go_through_a_broker_and_a_bad_one_fails_alone() -> None:
    answers = RegistryForTests()

    async def main() -> None:
        async with Broker() as broker, AsyncSchemaRegistry(URL, transport=answers.transport) as asked:
            serializer = Serializer[Order](asked, AvroCodec(AVRO))
            await serializer.prepare("orders")
            servers = broker.bootstrap_servers
            async with Producer(bootstrap_servers=servers, value_serializer=serializer) as producer:
                await producer.send_and_wait("orders", Order(1, "first"), partition=0)
            async with Producer(bootstrap_servers=servers) as producer:
                await producer.send_and_wait("orders", b"no schema", partition=0)
            async with Producer(bootstrap_servers=servers, value_serializer=serializer) as producer:
                await producer.send_and_wait("orders", Order(3, "third"), partition=0)
            deserializer = Deserializer(asked, AvroCodec(AVRO), into=Order)
            await by_read(servers, deserializer)
            await by_consumer(servers, deserializer)

    async def by_read(servers: str, deserializer: Deserializer[Order]) -> None:
        records: list[ConsumerRecord] = []
        async with Consumer("orders", bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
            while len(records) < 3:
                records += await consumer.poll(timeout_ms=10_000)
        assert await deserializer.read(records[0]) == Order(1, "first")
        with pytest.raises(RecordDeserialization, match="orders-0 at offset 1: the value cannot be read") as caught:
            await deserializer.read(records[1])
        assert (caught.value.topic_partition, caught.value.offset) == (("orders", 0), 1)
        assert await deserializer.read(records[2]) == Order(3, "third")

    async def by_consumer(servers: str, deserializer: Deserializer[Order]) -> None:
        options: dict[str, Any] = {"auto_offset_reset": "earliest", "value_deserializer": deserializer}
        async with Consumer("orders", bootstrap_servers=servers, **options) as consumer:
            first = await anext(consumer)
            assert first.value == Order(1, "first")
            with pytest.raises(RecordDeserialization) as caught:
                await anext(consumer)
            assert caught.value.offset == 1
            consumer.seek(first.topic_partition, 2)
            assert (await anext(consumer)).value == Order(3, "third")

    asyncio.run(main())


def test_a_record_of_an_unknown_schema_fails_alone() -> None:
    """The consumer raised for ever, and did not say which record."""
    answers = RegistryForTests()

    async def main() -> None:
        with registry(answers) as asked:
            schema_id = asked.register("orders-value", Schema(AVRO))
            good = AvroCodec(AVRO).encode({"n": 1, "what": "x"}, Schema(AVRO), {})
            async with Broker() as broker:
                servers = broker.bootstrap_servers
                async with Producer(bootstrap_servers=servers) as producer:
                    for number in (99, schema_id):
                        await producer.send_and_wait("orders", b"\0" + number.to_bytes(4, "big") + good, partition=0)
                deserializer = Deserializer(asked, AvroCodec(AVRO), into=Order)
                options: dict[str, Any] = {"auto_offset_reset": "earliest", "value_deserializer": deserializer}
                async with Consumer("orders", bootstrap_servers=servers, **options) as consumer:
                    with pytest.raises(
                        RecordDeserialization, match=r"orders-0 at offset 0: .* Schema not found"
                    ) as told:
                        await anext(consumer)
                    consumer.seek(told.value.topic_partition, told.value.offset + 1)
                    assert (await anext(consumer)).value == Order(1, "x")

    asyncio.run(main())


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda r, c: Serializer(URL, c), "registry must be a SchemaRegistry or an AsyncSchemaRegistry, not 'http"),
        (lambda r, c: Deserializer(URL, c), "registry must be a SchemaRegistry or an AsyncSchemaRegistry, not 'http"),
        (lambda r, c: Serializer(r, AvroCodec), r"codec must be an AvroCodec.*AvroCodec\(SCHEMA\) makes one"),
        (lambda r, c: Deserializer(r, AVRO), "codec must be an AvroCodec"),
        (lambda r, c: Serializer(r, c, is_key="no"), "is_key must be True or False"),
        (lambda r, c: Serializer(r, c, auto_register_schemas="no"), "auto_register_schemas must be True or False"),
        (lambda r, c: Serializer(r, c, subject_name_strategy="record"), "subject_name_strategy must be a function"),
        (lambda r, c: Serializer(r, c, subject_name_strategy=None), "subject_name_strategy must be a function"),
        (lambda r, c: Serializer(r, c, convert=5), "convert must be a function"),
        (lambda r, c: Deserializer(r, c, into=42), "into must be a function"),
        (lambda r, c: Serializer(r, c).for_topic(None), "topic must be text"),
        (lambda r, c: Serializer(r, c).serialize("", {"n": 1}), "topic must be a topic's name"),
        (lambda r, c: asyncio.run(Serializer(r, c).prepare(None)), "topic must be text"),
    ],
)
def test_what_is_wrong_is_told_where_it_is_given(make: Any, text: str) -> None:
    """It showed at the first record, as that record's fault: `oncelog.process` made dead letters of all."""
    answers = RegistryForTests()
    with pytest.raises(InvalidArgument, match=text):
        make(registry(answers), AvroCodec(AVRO))
    assert answers.asked == []


def test_confluents_serializers_and_ours_read_one_another() -> None:
    theirs = SchemaRegistryClient.new_client({"url": "mock://"})
    context = SerializationContext("orders", MessageField.VALUE)
    message = inner_message()(n=7)
    protobuf = ProtobufCodec(type(message))
    cases: list[tuple[Any, Any, Any, Any]] = [
        (AvroCodec(AVRO), AvroSerializer(theirs, AVRO), AvroDeserializer(theirs), {"n": 7, "what": "x"}),
        (
            JsonCodec(JSON),
            JSONSerializer(JSON, theirs),
            JSONDeserializer(None, schema_registry_client=theirs),
            {"n": 7},
        ),
        (
            protobuf,
            ProtobufSerializer(type(message), theirs, {"use.deprecated.format": False}),
            ProtobufDeserializer(type(message), {"use.deprecated.format": False}, theirs),
            message,
        ),
    ]
    for codec, serialize, deserialize, value in cases:
        content = serialize(value, context)
        schema_id = int.from_bytes(content[1:5], "big")
        answers = RegistryForTests()
        text = theirs.get_schema(schema_id)
        assert isinstance(text, TheirSchema)
        while len(answers.by_id) < schema_id - 1:
            answers.put("other", f'"{len(answers.by_id)}"')
        assert answers.put("orders-value", text.schema_str, codec.KIND) == schema_id
        assert Deserializer[Any](registry(answers), codec)(content) == value
        serializer = Serializer[Any](registry(answers), codec, auto_register_schemas=False, use_latest_version=True)
        ours = serializer.serialize("orders", value)
        assert ours == content
        assert deserialize(ours, context) == value


def test_a_readers_own_references_are_looked_up() -> None:
    answers = RegistryForTests()
    order = '{"type":"record","name":"Order","fields":[%s]}'
    n, what = '{"name":"n","type":"long"}', '{"name":"what","type":"string","default":"?"}'
    answers.put("order-value", order % n)
    answers.put("order-value", order % f"{n},{what}")
    box = '{"type":"record","name":"Box","fields":[{"name":"o","type":"Order"}]}'
    old, new = (Schema(box, "AVRO", (Reference("Order", "order-value", version),)) for version in (1, 2))
    content = Serializer[Any](registry(answers), AvroCodec(old)).serialize("t", {"o": {"n": 7}})
    for _ in range(2):
        assert Deserializer[Any](registry(answers), AvroCodec(new))(content) == {"o": {"n": 7, "what": "?"}}
    with pytest.raises(InvalidArgument, match="reads bytes, not str"):
        Deserializer[Any](registry(answers), AvroCodec())("text")  # type: ignore[arg-type]


def test_primitive_values_are_written_under_their_schema() -> None:
    answers = RegistryForTests()
    assert Serializer[str](registry(answers), AvroCodec('"string"')).serialize("t", "x") == b"\0\0\0\0\1\2x"
    with pytest.raises(ConfigurationError, match="the schema has no name"):
        Serializer[str](registry(answers), AvroCodec('"string"'), subject_name_strategy=record_name_strategy).serialize(
            "t", "x"
        )
