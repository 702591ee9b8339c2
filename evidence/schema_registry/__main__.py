"""Each kind of schema: registered by us and by Confluent's client, written by one and read by the other, over a real registry.

`python -m evidence.schema_registry --url http://127.0.0.1:8080/apis/ccompat/v7` (Apicurio's address; Confluent's has no path).
"""

from __future__ import annotations

import argparse
import secrets
import sys
from typing import Any

from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

from evidence.world.protobuf_messages import inner_message
from oncelog.errors import SchemaRegistryError
from oncelog.schema import (
    AvroCodec,
    Deserializer,
    JsonCodec,
    ProtobufCodec,
    Reference,
    Schema,
    SchemaRegistry,
    Serializer,
)

AVRO = '{"type":"record","name":"Order","fields":[{"name":"n","type":"long"}]}'
INCOMPATIBLE = '{"type":"record","name":"Order","fields":[{"name":"n","type":"long"},{"name":"more","type":"string"}]}'
JSON = '{"title": "Order", "type": "object", "properties": {"n": {"type": "integer"}}}'


def both_ways(registry: SchemaRegistry, url: str, suffix: str) -> list[str]:
    theirs = SchemaRegistryClient({"url": url})
    message, options = inner_message(), {"use.deprecated.format": False}
    reads_json = JSONDeserializer(None, schema_registry_client=theirs)
    cases: list[tuple[Any, Any, Any, Any]] = [
        (AvroCodec(AVRO), AvroSerializer(theirs, AVRO), AvroDeserializer(theirs), {"n": 7}),
        (JsonCodec(JSON), JSONSerializer(JSON, theirs), reads_json, {"n": 7}),
        (
            ProtobufCodec(message),
            ProtobufSerializer(message, theirs, options),
            ProtobufDeserializer(message, options, theirs),
            message(n=7),
        ),
    ]
    wrong = []
    for codec, serialize, deserialize, value in cases:
        for order in ("ours first", "theirs first"):
            topic = f"{codec.KIND.lower()}-{order.split()[0]}-{suffix}"
            context, serializer = SerializationContext(topic, MessageField.VALUE), Serializer[Any](registry, codec)
            if order == "ours first":
                ours, written = serializer.serialize(topic, value), serialize(value, context)
            else:
                written, ours = serialize(value, context), serializer.serialize(topic, value)
            read = Deserializer[Any](registry, codec)(written), deserialize(ours, context)
            print(f"{codec.KIND:9} {order:12} same bytes: {ours == written}  read: {read == (value, value)}")
            if read != (value, value):
                wrong.append(f"{codec.KIND}, {order}: {read}")
    return wrong


def other_answers(registry: SchemaRegistry, suffix: str) -> list[str]:
    wrong = []
    subject = f"order-{suffix}"
    registry.register(subject, Schema(AVRO))
    box = Schema(
        '{"type":"record","name":"Box","fields":[{"name":"o","type":"Order"}]}',
        "AVRO",
        (Reference("Order", subject, 1),),
    )
    content = Serializer[Any](registry, AvroCodec(box)).serialize(f"box-{suffix}", {"o": {"n": 1}})
    if Deserializer[Any](registry, AvroCodec())(content) != {"o": {"n": 1}}:
        wrong.append("a schema with a reference")
    set_compatibility(registry, subject)
    for what, ask in (
        ("incompatible", lambda: registry.register(subject, Schema(INCOMPATIBLE))),
        ("unknown id", lambda: registry.schema(2_000_000_000)),
        ("unknown subject", lambda: registry.latest(f"none-{suffix}")),
    ):
        try:
            ask()
            wrong.append(f"{what}: no error")
        except SchemaRegistryError as error:
            print(f"{what}: {error}")
    return wrong


def set_compatibility(registry: SchemaRegistry, subject: str) -> None:
    import httpx

    address = f"{registry.url}/config/{subject}"
    httpx.put(address, json={"compatibility": "BACKWARD"}, timeout=10).raise_for_status()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--url", required=True, help="the registry's address")
    url = parser.parse_args().url
    suffix = secrets.token_hex(4)
    with SchemaRegistry(url) as registry:
        wrong = both_ways(registry, url, suffix) + other_answers(registry, suffix)
    print(f"schema registry: 10 checks, {len(wrong)} wrong" + "".join(f"\n  {each}" for each in wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
