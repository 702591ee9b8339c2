"""Serializers in the wire format of Confluent's Schema Registry, and its client; `pip install '.[schema]'`."""

from oncelog.schema.codecs import AvroCodec, JsonCodec, ProtobufCodec
from oncelog.schema.registry import AsyncSchemaRegistry, Reference, Schema, SchemaRegistry
from oncelog.schema.serializers import (
    Deserializer,
    Serializer,
    record_name_strategy,
    topic_name_strategy,
    topic_record_name_strategy,
)

__all__ = [
    "AsyncSchemaRegistry",
    "AvroCodec",
    "Deserializer",
    "JsonCodec",
    "ProtobufCodec",
    "Reference",
    "Schema",
    "SchemaRegistry",
    "Serializer",
    "record_name_strategy",
    "topic_name_strategy",
    "topic_record_name_strategy",
]
