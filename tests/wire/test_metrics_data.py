"""MetricsData: what we write we read, what protobuf's own library wrote we read the same, and nonsense is refused."""

from __future__ import annotations

import re

import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedMessage
from oncelog.wire.metrics_data import (
    ATTRIBUTES_MAX,
    DataPoint,
    MetricKind,
    TooMuchTelemetry,
    decode_metrics,
    encode_metrics,
)

F = descriptor_pb2.FieldDescriptorProto
# OpenTelemetry's messages (opentelemetry-proto 1.x), the fields that clients write: name, number, type.
MESSAGES: dict[str, str] = {
    "AnyValue": "string_value=1:string bool_value=2:bool int_value=3:int64 double_value=4:double",
    "KeyValue": "key=1:string value=2:AnyValue",
    "Resource": "attributes=1:KeyValue* dropped_attributes_count=2:uint32",
    "NumberDataPoint": "attributes=7:KeyValue* start_time_unix_nano=2:fixed64 time_unix_nano=3:fixed64 as_double=4:double "
    "as_int=6:sfixed64 flags=8:uint32",
    "Gauge": "data_points=1:NumberDataPoint*",
    "Sum": "data_points=1:NumberDataPoint* aggregation_temporality=2:int32 is_monotonic=3:bool",
    "Metric": "name=1:string description=2:string unit=3:string gauge=5:Gauge sum=7:Sum histogram=9:Gauge",
    "ScopeMetrics": "metrics=2:Metric* schema_url=3:string",
    "ResourceMetrics": "resource=1:Resource scope_metrics=2:ScopeMetrics*",
    "MetricsData": "resource_metrics=1:ResourceMetrics*",
}
ONE_OF = ("string_value", "bool_value", "int_value", "double_value", "as_double", "as_int")


def protobufs_messages():
    """protobuf's own classes of these messages."""
    file = descriptor_pb2.FileDescriptorProto(name="m.proto", package="m", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field, number, kind, star in re.findall(r"(\w+)=(\d+):(\w+)(\*?)", fields):
            made = message.field.add(name=field, number=int(number))
            made.label = F.LABEL_REPEATED if star else F.LABEL_OPTIONAL
            if kind in MESSAGES:
                made.type, made.type_name = F.TYPE_MESSAGE, f".m.{kind}"
            else:
                made.type = F.Type.Value(f"TYPE_{kind.upper()}")
            if field in ONE_OF:
                if not message.oneof_decl:
                    message.oneof_decl.add(name="value")
                made.oneof_index = 0
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"m.{name}")) for name in MESSAGES}


THEIRS = protobufs_messages()
TEXTS = st.text(max_size=20)
POINTS = st.lists(
    st.builds(
        DataPoint,
        TEXTS,
        st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False),
        st.sampled_from(MetricKind),
        st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple),
    ),
    max_size=8,
)


def decode(data, *, points_max=1_000, fields_max=10_000):
    return decode_metrics(data, points_max=points_max, fields_max=fields_max)


@given(points=POINTS, resource=st.lists(st.tuples(TEXTS, TEXTS), max_size=3).map(tuple))
def test_what_is_written_is_read_by_us_and_by_protobuf(points, resource):
    data = encode_metrics(points, resource, 5, 7)
    expected = [DataPoint(p.name, p.value, p.kind, resource + p.attributes) for p in points]
    assert decode(data) == expected
    theirs = THEIRS["MetricsData"].FromString(data)
    found = []
    for metric in theirs.resource_metrics[0].scope_metrics[0].metrics:
        holder = metric.sum if metric.HasField("sum") else metric.gauge
        (number,) = holder.data_points
        kind = MetricKind.GAUGE
        if metric.HasField("sum"):
            assert metric.sum.is_monotonic
            kind = MetricKind.DELTA if metric.sum.aggregation_temporality == 1 else MetricKind.CUMULATIVE
        assert (number.start_time_unix_nano, number.time_unix_nano) == (5_000_000, 7_000_000)
        attributes = tuple((each.key, each.value.string_value) for each in number.attributes)
        found.append(DataPoint(metric.name, getattr(number, number.WhichOneof("value")), kind, resource + attributes))
    assert found == expected


def test_what_protobuf_writes_with_more_in_it_is_read():
    data = THEIRS["MetricsData"]()
    each = data.resource_metrics.add()
    each.resource.attributes.add(key="n").value.int_value = -3
    each.resource.attributes.add(key="d").value.double_value = 0.5
    each.resource.attributes.add(key="b").value.bool_value = True
    each.resource.dropped_attributes_count = 9
    scope = each.scope_metrics.add(schema_url="https://example.org")
    scope.metrics.add(name="h", description="x", unit="ms").histogram.data_points.add(as_int=1)
    metric = scope.metrics.add(name="up.down")
    metric.sum.aggregation_temporality = 2
    metric.sum.data_points.add(as_double=2.5, flags=1)
    metric.sum.data_points.add()  # without a value
    where = (("n", "-3"), ("d", "0.5"), ("b", "true"))
    assert decode(data.SerializeToString()) == [DataPoint("up.down", 2.5, MetricKind.GAUGE, where)]


@given(data=st.binary(max_size=60))
def test_any_bytes_give_numbers_or_are_malformed(data):
    try:
        decode(data)
    except MalformedMessage:
        return


@given(points=POINTS.filter(bool), cut=st.integers(1, 500))
def test_what_is_cut_short_is_malformed_or_nothing(points, cut):
    data = encode_metrics(points, (), 0, 0)
    with pytest.raises(MalformedMessage):
        decode(data[: -min(cut, len(data) - 1)])


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"\x0b", "wire type 3"),
        (b"\x00\x00", "without a number"),
        (b"\x0a\x05\x0a", "passes the end"),
        (b"\x09\x00", "passes the end"),
        (b"\x80" * 10 + b"\x01", "too long"),
        (b"\x80", "cut short"),
        (b"\x0a\x07\x12\x05\x12\x03\x0a\x01\xff", "no UTF-8"),
    ],
)
def test_malformed(data, says):
    with pytest.raises(MalformedMessage, match=says):
        decode(data)


def test_bounds():
    points = [DataPoint("n", index) for index in range(10)]
    data = encode_metrics(points, (), 0, 0)
    assert len(decode(data, points_max=10)) == 10
    with pytest.raises(TooMuchTelemetry, match="more than 9 numbers"):
        decode(data, points_max=9)
    with pytest.raises(TooMuchTelemetry, match="more than 20 fields"):
        decode(data, fields_max=20)
    many = tuple((f"k{index}", "") for index in range(ATTRIBUTES_MAX + 1))
    for resource, attributes in ((many, ()), ((), many)):
        with pytest.raises(TooMuchTelemetry, match="attributes"):
            decode(encode_metrics([DataPoint("n", 1, MetricKind.GAUGE, attributes)], resource, 0, 0))


def test_attributes_are_counted_as_they_come():
    """A resource in many pieces, of one attribute each: adding them all up took seconds before they were counted."""
    pieces = b"\x0a\x02\x0a\x00" * (ATTRIBUTES_MAX + 1) + b"\x07"
    size = bytes((len(pieces) & 0x7F | 0x80, len(pieces) >> 7))
    data = b"\x0a" + size + pieces
    with pytest.raises(TooMuchTelemetry, match="attributes"):
        decode_metrics(data, points_max=1, fields_max=1_000)


def test_reading_rests():
    rests = []
    decode_metrics(b"\x10\x00" * 1_000, points_max=1, fields_max=1_024, pace=rests.append)
    assert rests == [0] * 7
