"""Payloads, and what is said of those that are none."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2

from oncelog.errors import ConfigurationError
from oncelog.schema.codecs import AvroCodec, JsonCodec, ProtobufCodec
from oncelog.schema.registry import Reference, Schema

NEW = '{"type":"record","name":"Order","fields":[{"name":"n","type":"long"},{"name":"what","type":"string","default":"?"}]}'
OLD = '{"type":"record","name":"Order","fields":[{"name":"n","type":"long"},{"name":"gone","type":"int"}]}'


def test_a_readers_schema_resolves_the_writers() -> None:
    payload = AvroCodec(OLD).encode({"n": 7, "gone": 1}, Schema(OLD), {})
    assert payload == b"\x0e\2"
    assert AvroCodec(NEW).decode(payload, Schema(OLD), {}) == {"n": 7, "what": "?"}
    assert AvroCodec().decode(payload, Schema(OLD), {}) == {"n": 7, "gone": 1}


def test_an_avro_schema_names_another() -> None:
    outer = Schema('{"type":"record","name":"Box","fields":[{"name":"o","type":"Order"}]}')
    payload = AvroCodec().encode({"o": {"n": 1, "gone": 2}}, outer, {"Order": Schema(OLD)})
    assert AvroCodec().decode(payload, outer, {"Order": Schema(OLD)}) == {"o": {"n": 1, "gone": 2}}


def test_an_avro_record_has_its_namespace_in_its_name() -> None:
    assert AvroCodec('{"type":"enum","name":"E","namespace":"a.b","symbols":[]}').record_name == "a.b.E"


@pytest.mark.parametrize("payload", [b"", b"\x0e", b"\xff" * 12])
def test_avro_bytes_that_are_none_are_refused(payload: bytes) -> None:
    with pytest.raises(ValueError, match="does not decode under its schema"):
        AvroCodec(NEW).decode(payload, Schema(NEW), {})


def test_schemas_that_are_none_are_refused_at_once() -> None:
    for make in (lambda: AvroCodec("{"), lambda: AvroCodec('{"type":"recor"}'), lambda: JsonCodec({"type": 7})):
        with pytest.raises(ConfigurationError, match="the schema cannot be read"):
            make()
    with pytest.raises(ConfigurationError, match="is no generated class"):
        ProtobufCodec(dict)


def test_json_is_checked_both_ways_and_says_where() -> None:
    codec = JsonCodec({"type": "object", "properties": {"n": {"type": "integer"}}, "title": "Order"})
    assert codec.schema is not None
    assert codec.record_name == "Order"
    assert codec.encode({"n": 1}, codec.schema, {}) == b'{"n":1}'
    with pytest.raises(ValueError, match=r"at \$.n: 'x' is not of type 'integer'"):
        codec.encode({"n": "x"}, codec.schema, {})
    with pytest.raises(ValueError, match="does not fit the schema"):
        codec.decode(b'{"n": "x"}', codec.schema, {})
    with pytest.raises(ValueError, match="is not JSON"):
        codec.decode(b"{", codec.schema, {})


def test_a_json_schema_names_another_and_asks_no_network_for_one_that_is_not_there() -> None:
    schema = Schema('{"properties": {"n": {"$ref": "number.json"}}}', "JSON")
    named = {"number.json": Schema('{"type": "integer"}', "JSON")}
    assert JsonCodec().decode(b'{"n": 1}', schema, named) == {"n": 1}
    with pytest.raises(ValueError, match="'x' is not of type"):
        JsonCodec().decode(b'{"n": "x"}', schema, named)
    with pytest.raises(ValueError, match=r"number\.json"):
        JsonCodec().decode(b'{"n": 1}', schema, {})


def test_a_protobuf_message_is_found_by_its_place_in_the_file() -> None:
    assert ProtobufCodec(timestamp_pb2.Timestamp).indexes == (0,)
    nested = ProtobufCodec(descriptor_pb2.DescriptorProto.ExtensionRange)
    assert nested.indexes == (2, 0)
    assert nested.record_name == "google.protobuf.DescriptorProto.ExtensionRange"


def test_protobuf_takes_its_own_message_only() -> None:
    codec = ProtobufCodec(timestamp_pb2.Timestamp)
    payload = codec.encode(timestamp_pb2.Timestamp(seconds=7), codec.schema, {})
    assert payload == b"\x08\x07"
    assert codec.decode(payload, codec.schema, {}).seconds == 7
    with pytest.raises(ValueError, match="is a dict, not a google"):
        codec.encode({}, codec.schema, {})
    with pytest.raises(ValueError, match="is no google"):
        codec.decode(b"\xff", codec.schema, {})


@pytest.mark.parametrize("schema", ['"string"', '["null", "string"]', ["null", "string"]])
def test_an_avro_schema_need_not_be_a_records(schema: Any) -> None:
    codec = AvroCodec(schema)
    assert codec.record_name == ""
    assert codec.schema is not None
    assert codec.decode(codec.encode("x", codec.schema, {}), codec.schema, {}) == "x"


def test_a_schema_may_be_given_as_what_json_gives() -> None:
    assert AvroCodec(json.loads(NEW)).record_name == "Order"
    assert JsonCodec("true").record_name == ""
    for make in (AvroCodec, JsonCodec):
        with pytest.raises(ConfigurationError, match="a schema is text, a dict, or a Schema, not int"):
            make(5)
        with pytest.raises(ConfigurationError, match="cannot be read"):
            make({"type": object()})
    with pytest.raises(ConfigurationError, match="this is a schema of JSON"):
        AvroCodec(Schema("true", "JSON"))


def test_names_mean_what_their_side_means_by_them() -> None:
    """Reader and writer name the same record, each in its own version."""
    box = '{"type":"record","name":"Box","fields":[{"name":"o","type":"Order"}]}'
    reference = (Reference("Order", "order-value", 1),)
    writer, reader = Schema(box, "AVRO", reference), Schema(box, "AVRO", (Reference("Order", "order-value", 2),))
    payload = AvroCodec().encode({"o": {"n": 1, "gone": 2}}, writer, {"Order": Schema(OLD)})
    found = AvroCodec(reader).decode(payload, writer, {"Order": Schema(OLD)}, {"Order": Schema(NEW)})
    assert found == {"o": {"n": 1, "what": "?"}}
    codec = AvroCodec()
    again = [codec.decode(payload, writer, {"Order": Schema(OLD)}) for _ in range(2)]
    assert again == [{"o": {"n": 1, "gone": 2}}] * 2
    with pytest.raises(
        ValueError, match="does not decode"
    ):  # the same text, another meaning: not what was parsed before
        codec.decode(b"\2", writer, {"Order": Schema(NEW)})


def test_json_is_read_by_the_readers_schema() -> None:
    writers = Schema("{}", "JSON")
    with pytest.raises(ValueError, match="'x' is not of type 'integer'"):
        JsonCodec({"type": "integer"}).decode(b'"x"', writers, {})
    assert JsonCodec().decode(b'"x"', writers, {}) == "x"


def test_a_json_schema_that_names_itself_for_ever_is_refused() -> None:
    codec = JsonCodec({"$ref": "#"})
    assert codec.schema is not None
    with pytest.raises(ValueError, match="cannot be compared with the schema"):
        codec.encode("x", codec.schema, {})
