"""Encoding and decoding: null, tags, bounds, errors that name the field. Bytes are compared literally."""

from __future__ import annotations

import struct
from random import Random
from typing import Any

import pytest
from evidence.world.message_values import MESSAGE_VERSIONS, message_of
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import MalformedMessage, UnsupportedVersion
from oncelog.wire import schema
from oncelog.wire.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.wire.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest
from oncelog.wire.messages.write_txn_markers import WritableTxnMarker, WritableTxnMarkerTopic, WriteTxnMarkersRequest
from oncelog.wire.schema import (
    EMPTY,
    ZERO_UUID,
    Bool,
    Bytes,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    InvalidField,
    Records,
    String,
    Struct,
    TooManyItems,
    Uint16,
    Uuid,
    decode_message,
    decode_source,
    decoder,
    encode_message,
    encode_parts,
    encode_source,
    encoder,
    field,
)


class Inner(Struct):
    number: Int16 = 7
    name: String | None = None


class Everything(Struct, versions=(0, 2), flexible=1):
    flag: Bool = False
    tiny: Int8 = 0
    port: Uint16 = 0
    ratio: Float64 = 0.0
    identity: Uuid = ZERO_UUID
    text: String = ""
    blob: Bytes | None = b""
    batch: Records | None = None
    inner: Inner | None = None
    numbers: list[Int64] = EMPTY
    names: list[String] | None = EMPTY
    identities: list[Uuid] = EMPTY
    inners: list[Inner] | None = field(nullable_since=1, default=None)
    late: Int32 = field(since=2, default=-1)
    comment: String | None = field(since=2, ignorable=True, default=None)
    seventh: Int32 = field(since=1, tag=7, default=5)
    second: Inner = field(since=1, tag=2, default=Inner())
    third: list[Int32] | None = field(since=1, tag=3, default=None)


FULL: dict[str, Any] = {
    "flag": True,
    "tiny": -2,
    "port": 65535,
    "ratio": 1.5,
    "identity": bytes(range(16)),
    "text": "é",
    "blob": b"\1\2",
    "batch": b"\3",
    "inner": Inner(number=1, name="n"),
    "numbers": [1, -1],
    "names": ["a", ""],
    "identities": [bytes(16)],
    "inners": [Inner()],
}
FIXED_PART = "01 fe ffff 3ff8000000000000 000102030405060708090a0b0c0d0e0f "


def test_every_wire_type_before_flexible_versions() -> None:
    data = encode_message(Everything(**FULL), 0)
    assert data == bytes.fromhex(
        FIXED_PART + "0002 c3a9  00000002 0102  00000001 03  01 0001 0001 6e"
        "00000002 0000000000000001 ffffffffffffffff  00000002 0001 61 0000"
        "00000001 00000000000000000000000000000000  00000001 0007 ffff"
    )
    assert decode_message(Everything, 0, data) == Everything(**FULL)


def test_every_wire_type_in_flexible_versions() -> None:
    message = Everything(**FULL, late=9, comment="c")
    data = encode_message(message, 2)
    assert data == bytes.fromhex(
        FIXED_PART + "03 c3a9  03 0102  02 03  01 0001 02 6e 00"
        "03 0000000000000001 ffffffffffffffff  03 02 61 01"
        "02 00000000000000000000000000000000  02 0007 00 00  00000009  02 63  00"
    )
    assert decode_message(Everything, 2, data) == message


def test_null_is_minus_one_before_flexible_versions_and_zero_after() -> None:
    nulls = Everything(blob=None, batch=None, inner=None, names=None, inners=[])
    classic, compact = encode_message(nulls, 0), encode_message(nulls, 1)
    assert classic[28:] == bytes.fromhex("0000 ffffffff ffffffff ff 00000000 ffffffff 00000000 00000000")
    assert compact[28:] == bytes.fromhex("01 00 00 ff 01 00 01 01 00")
    assert decode_message(Everything, 0, classic) == decode_message(Everything, 1, compact) == nulls


def test_null_is_refused_where_a_version_does_not_know_it() -> None:
    with pytest.raises(InvalidField, match=r"MetadataRequest\.topics version 0: None is not allowed"):
        encode_message(MetadataRequest(topics=None), 0)
    with pytest.raises(MalformedMessage, match=r"MetadataRequest\.topics is null or negative"):
        decode_message(MetadataRequest, 0, bytes.fromhex("ffffffff"))
    assert decode_message(MetadataRequest, 1, bytes.fromhex("ffffffff")).topics is None


@pytest.mark.parametrize("length", [-1, -2, -(1 << 31)])
def test_any_negative_length_is_null(length: int) -> None:
    """Observed of Apache Kafka 4.3: -2 is as good a null as -1."""
    assert decode_message(MetadataRequest, 1, struct.pack(">i", length)).topics is None
    assert decode_message(InitProducerIdRequest, 0, struct.pack(">hi", max(length, -32768), 9)) == (
        InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=9)
    )


def test_tagged_fields_are_written_in_tag_order_and_only_where_they_differ() -> None:
    plain = encode_message(Everything(inners=[]), 1)
    tagged = encode_message(Everything(inners=[], second=Inner(number=1), third=[2], seventh=3), 1)
    assert plain[-1:] == b"\0"
    assert tagged == plain[:-1] + bytes.fromhex("03  02 04 0001 00 00  03 05 02 00000002  07 04 00000003")
    assert encode_message(Everything(inners=[], second=Inner(), third=None, seventh=5), 1) == plain
    assert decode_message(Everything, 1, tagged).third == [2]


def test_an_empty_list_differs_from_a_default_of_null() -> None:
    data = encode_message(Everything(inners=[], third=[]), 1)
    assert data[-4:].hex() == "01030101"
    assert decode_message(Everything, 1, data).third == []


@pytest.mark.parametrize(
    "tags", ["01 05 02 aabb", "02 05 00 05 00", "02 8104 01 ff 01 00"], ids=["one", "twice", "unordered"]
)
def test_unknown_tagged_fields_are_passed_over(tags: str) -> None:
    known = EndTxnRequest(transactional_id="t", producer_id=1, producer_epoch=2, committed=True)
    data = encode_message(known, 3)
    assert decode_message(EndTxnRequest, 3, data[:-1] + bytes.fromhex(tags)) == known
    everything = encode_message(Everything(inners=[]), 1)
    assert decode_message(Everything, 1, everything[:-1] + bytes.fromhex(tags)) == Everything(inners=[])


@pytest.mark.parametrize(
    "tags",
    [
        "01",
        "01 05",
        "01 05 01",
        "02 05 00",
        "01 07 03 000000",
        "01 07 05 00000003 00",
        "01 07 03 00000003",
        "01 05 ffffffff0f",
        "ffffffff07",
        "01 05 808080808001",
    ],
)
def test_broken_tagged_fields_are_malformed(tags: str) -> None:
    data = encode_message(Everything(inners=[]), 1)
    with pytest.raises(MalformedMessage):
        decode_message(Everything, 1, data[:-1] + bytes.fromhex(tags))


def test_our_own_tag_of_marker_requests() -> None:
    """KIP-664's start offset is a tag of ours: Apache Kafka passes over it, and without it the bytes are Kafka's."""
    request = marker_request(WritableTxnMarkerTopic(name="t", partition_indexes=[0], txn_start_offsets=[5]))
    plain = marker_request(WritableTxnMarkerTopic(name="t", partition_indexes=[0]))
    data = encode_message(request, 2)
    assert decode_message(WriteTxnMarkersRequest, 2, data) == request
    assert data.replace(bytes.fromhex("01 904e 09 02 0000000000000005"), b"\0") == encode_message(plain, 2)


def marker_request(topic: WritableTxnMarkerTopic) -> WriteTxnMarkersRequest:
    return WriteTxnMarkersRequest(markers=[WritableTxnMarker(producer_id=1, topics=[topic])])


def test_tagged_fields_need_a_flexible_version() -> None:
    with pytest.raises(UnsupportedVersion, match="cannot carry eighth=1"):
        encode_message(TagsTooEarly(eighth=1), 0)
    assert decode_message(TagsTooEarly, 0, encode_message(TagsTooEarly(), 0)) == TagsTooEarly()


class TagsTooEarly(Struct, versions=(0, 1), flexible=1):
    eighth: Int32 = field(tag=8, default=0)


def test_nullable_structs_have_a_byte_of_their_own() -> None:
    """KIP-893."""
    without = encode_message(ConsumerGroupHeartbeatResponse(), 0)
    with_assignment = encode_message(ConsumerGroupHeartbeatResponse(assignment=Assignment()), 0)
    assert without[-2:].hex() == "ff00"
    assert with_assignment[-4:].hex() == "01010000"
    assert decode_message(ConsumerGroupHeartbeatResponse, 0, with_assignment).assignment == Assignment()


def test_strings_that_are_not_utf8_are_replaced() -> None:
    data = encode_message(EndTxnRequest(transactional_id="ab"), 3).replace(b"ab", b"\xffb")
    assert decode_message(EndTxnRequest, 3, data).transactional_id == "\ufffdb"


def test_records_are_views_and_bytes_are_copies() -> None:
    batch = bytes(range(200))
    request = ProduceRequest(
        topic_data=[TopicProduceData(name="t", partition_data=[PartitionProduceData(records=memoryview(batch))])]
    )
    parts: list[Any] = []
    encode_parts(request, 9, parts)
    assert any(isinstance(part, memoryview) and part.obj is batch for part in parts)
    frame = memoryview(b"".join(parts))
    records = decode_message(ProduceRequest, 9, frame).topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records.obj is frame.obj
    assert records == batch
    token = decode_message(SaslAuthenticateRequest, 2, encode_message(SaslAuthenticateRequest(auth_bytes=b"k"), 2))
    assert type(token.auth_bytes) is bytes


def test_lengths_are_counted_in_bytes() -> None:
    wide = memoryview(bytearray(16)).cast("q")
    topic = TopicProduceData(partition_data=[PartitionProduceData(records=wide)])
    data = encode_message(ProduceRequest(topic_data=[topic]), 3)
    records = decode_message(ProduceRequest, 3, data).topic_data[0].partition_data[0].records
    assert records == bytes(16)


def test_a_cut_value_at_the_very_end_is_malformed() -> None:
    """Slices never fail, so running off the end would go unnoticed here."""
    with pytest.raises(MalformedMessage, match=r"mechanism of length 5 .* does not fit into 1 remaining"):
        decode_message(SaslHandshakeRequest, 0, bytes.fromhex("0005 61"), trailing="ignore")
    with pytest.raises(MalformedMessage, match="auth_bytes"):
        decode_message(SaslAuthenticateRequest, 0, bytes.fromhex("00000002 61"), trailing="ignore")


def test_trailing_bytes_are_refused_unless_ignored() -> None:
    data = encode_message(EndTxnResponse(error_code=3), 0) + b"\0"
    with pytest.raises(MalformedMessage, match="1 bytes too many"):
        decode_message(EndTxnResponse, 0, data)
    assert decode_message(EndTxnResponse, 0, data, trailing="ignore").error_code == 3


@pytest.mark.parametrize(
    ("version", "data"),
    [
        (1, "7fffffff"),  # more topics than bytes
        (1, "00000002000161"),
        (1, "00000001ffff"),  # a null name before version 10
        (1, "000000017fff61"),
        (9, "ffffffff07"),
        (9, "ffffffffff01"),  # a varint of six bytes
        (9, "808080808000"),
        (9, "02ffffffff0f0001000000"),
        (9, ""),
    ],
)
def test_impossible_lengths_are_malformed(version: int, data: str) -> None:
    with pytest.raises(MalformedMessage, match=f"MetadataRequest version {version}"):
        decode_message(MetadataRequest, version, bytes.fromhex(data))


def test_a_varint_may_be_longer_than_it_need_be() -> None:
    data = encode_message(one_topic("t"), 9)
    assert data[:1] == b"\2"
    assert decode_message(MetadataRequest, 9, bytes.fromhex("8280808000") + data[1:]) == one_topic("t")


def test_strings_above_32767_bytes_are_refused_in_both_directions() -> None:
    longest = "é" * 16383 + "x"
    assert decode_message(MetadataRequest, 9, encode_message(one_topic(longest), 9)) == one_topic(longest)
    for version in (8, 9):
        with pytest.raises(InvalidField, match=rf"topics\[0\]\.name version {version}: .*longer than 32767"):
            encode_message(one_topic(longest + "x"), version)
    data = encode_message(one_topic(longest), 9).replace(b"\x80\x80\x02", b"\x81\x80\x02")
    with pytest.raises(MalformedMessage, match="length 32768"):
        decode_message(MetadataRequest, 9, data + b"\0")


def one_topic(name: str) -> MetadataRequest:
    return MetadataRequest(topics=[MetadataRequestTopic(name=name)])


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"transactional_id": None}, r"EndTxnRequest\.transactional_id version 3: None is not allowed"),
        ({"transactional_id": b"t"}, r"EndTxnRequest\.transactional_id version 3: b't' is not a string"),
        ({"transactional_id": "\ud800"}, r"EndTxnRequest\.transactional_id version 3: .* not valid Unicode"),
        (
            {"producer_id": 1 << 63},
            r"EndTxnRequest\.producer_id version 3: 9223372036854775808 does not fit into 64 bits",
        ),
        ({"producer_epoch": -32769}, r"EndTxnRequest\.producer_epoch version 3: -32769 does not fit into 16 bits"),
        ({"producer_id": "1"}, r"EndTxnRequest\.producer_id version 3: '1' is not an integer"),
    ],
)
def test_a_wrong_value_is_named(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidField, match=complaint):
        encode_message(EndTxnRequest(**values), 3)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"identity": b"short"}, r"Everything\.identity version 2: b'short' is not a UUID"),
        ({"identities": [b"x"]}, r"Everything\.identities version 2: .* has an item that is not a UUID"),
        ({"port": -1}, r"Everything\.port version 2: -1 does not fit into 16 bits"),
        ({"ratio": "1"}, r"Everything\.ratio version 2: '1' is not a number"),
        ({"blob": "text"}, r"Everything\.blob version 2: 'text' is not bytes"),
        ({"inner": 1}, r"Everything\.inner version 2: 1 is not a Inner"),
        ({"inners": [Inner(number=99999)]}, r"Everything\.inners\[0\]\.number version 2: 99999 does not fit"),
        ({"inner": Inner(name=3)}, r"Everything\.inner\.name version 2: 3 is not a string"),  # type: ignore[arg-type]
        ({"numbers": None}, r"Everything\.numbers version 2: None is not allowed"),
        ({"numbers": 5}, r"Everything\.numbers version 2: 5 is not a list"),
        ({"numbers": [1.5]}, r"Everything\.numbers version 2: .* has an item that is not an integer"),
        ({"second": None}, r"Everything\.second version 2: None is not allowed"),
    ],
)
def test_a_wrong_value_is_named_whatever_its_type(values: dict[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidField, match=complaint):
        encode_message(Everything(**values), 2)


def test_a_field_that_the_version_does_not_carry_is_refused_unless_ignorable() -> None:
    with pytest.raises(UnsupportedVersion, match="Everything version 1 cannot carry late=3"):
        encode_message(Everything(late=3), 1)
    with pytest.raises(UnsupportedVersion, match="cannot carry second=Inner"):
        encode_message(Everything(inners=[], second=Inner(number=0)), 0)
    with pytest.raises(UnsupportedVersion, match="cannot carry third="):
        encode_message(Everything(inners=[], third=[]), 0)
    with pytest.raises(UnsupportedVersion, match="enable_2pc=True"):
        encode_message(InitProducerIdRequest(enable_2pc=True), 5)
    assert encode_message(Everything(comment="lost"), 1) == encode_message(Everything(), 1)


def test_versions_that_do_not_exist() -> None:
    with pytest.raises(UnsupportedVersion, match="EndTxnRequest has no version 6, only 0 to 5"):
        encode_message(EndTxnRequest(), 6)
    with pytest.raises(MalformedMessage, match="no version -1"):
        decode_message(EndTxnRequest, -1, b"")


def test_absent_fields_have_their_defaults() -> None:
    decoded = decode_message(EndTxnResponse, 4, encode_message(EndTxnResponse(), 4))
    assert (decoded.producer_id, decoded.producer_epoch) == (-1, -1)
    first, second = (decode_message(FetchResponse, 4, bytes(8)) for _ in range(2))
    first.node_endpoints.append(1)  # type: ignore[arg-type]
    assert second.node_endpoints == []


def test_tags_inside_arrays_survive() -> None:
    partition = PartitionData(
        current_leader=LeaderIdAndEpoch(leader_id=1, leader_epoch=2),
        diverging_epoch=EpochEndOffset(leader_epoch=3, end_offset=4),
    )
    response = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition, PartitionData()])])
    assert decode_message(FetchResponse, 12, encode_message(response, 12)) == response


@pytest.mark.parametrize("seed", range(2))
def test_truncation_at_any_byte_is_malformed(seed: int) -> None:
    for cls, version in MESSAGE_VERSIONS:
        data = encode_message(message_of(cls, version, Random(seed)), version)
        for size in range(0, len(data), 1 if len(data) < 300 else 3):
            with pytest.raises(MalformedMessage):
                decode_message(cls, version, data[:size], trailing="ignore")


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(MESSAGE_VERSIONS), st.binary(max_size=80))
def test_any_bytes_are_a_message_or_malformed(message: tuple[type[Struct], int], data: bytes) -> None:
    decode_or_malformed(*message, data)


@settings(max_examples=400, deadline=None)
@given(st.sampled_from(MESSAGE_VERSIONS), st.randoms(use_true_random=False))
def test_changed_bytes_are_a_message_or_malformed(message: tuple[type[Struct], int], random: Random) -> None:
    data = bytearray(encode_message(message_of(*message, random), message[1]))
    for _ in range(min(3, len(data))):
        data[random.randrange(len(data))] = random.choice((0, 1, 2, 127, 128, 255))
    decode_or_malformed(*message, bytes(data))


def decode_or_malformed(cls: type[Struct], version: int, data: bytes) -> None:
    try:
        decoded = decode_message(cls, version, data, trailing="ignore")
    except MalformedMessage:
        return
    again = encode_message(decoded, version)  # compared as bytes: a float may be NaN
    assert encode_message(decode_message(cls, version, again), version) == again


def test_a_claimed_count_costs_nothing() -> None:
    """A count is compared with the bytes that are there before anything is made from it."""
    data = bytes.fromhex("00000000 7ffffff0") + bytes(1000)
    with pytest.raises(MalformedMessage, match="does not fit into 1000 remaining bytes"):
        decode_message(FetchResponse, 4, data)


def test_sources_can_be_read() -> None:
    encoder, decoder = encode_source(EndTxnResponse, 5)[0], decode_source(EndTxnResponse, 5)[0]
    assert encoder.count("\n") == 2  # one call packs everything
    assert "message.throttle_time_ms, message.error_code, message.producer_id, message.producer_epoch" in decoder


@pytest.mark.parametrize("made", [encoder, decoder])
def test_each_direction_is_compiled_once(made: Any) -> None:
    assert made(EndTxnResponse, 5) is made(EndTxnResponse, 5)
    with pytest.raises(UnsupportedVersion, match="EndTxnResponse has no version 99"):
        made(EndTxnResponse, 99)


def test_a_direction_that_nobody_needs_is_not_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    class Asked(Struct, versions=(0, 0)):
        number: Int32 = 0

    written: list[str] = []
    real = schema.run_source
    monkeypatch.setattr(schema, "run_source", lambda title, *rest: written.append(title) or real(title, *rest))
    for _ in range(2):
        decode_message(Asked, 0, bytes(4))
    assert written == ["<decode Asked v0>"]
    encode_message(Asked(), 0)
    assert written == ["<decode Asked v0>", "<encode Asked v0>"]


class NoFields(Struct, versions=(0, 1), flexible=1):
    pass


class HoldsNothing(Struct, versions=(0, 1), flexible=1):
    nothings: list[NoFields] = EMPTY


def test_structs_without_fields() -> None:
    assert encode_message(NoFields(), 0) == b""
    assert encode_message(NoFields(), 1) == b"\0"
    message = HoldsNothing(nothings=[NoFields(), NoFields()])
    assert decode_message(HoldsNothing, 1, encode_message(message, 1)) == message


def test_items_of_all_arrays_share_one_budget():
    """An object takes a hundred times its bytes: a count that fits into the frame may still be too much (KAFKA-14063)."""
    topics = [MetadataRequestTopic(name="") for _ in range(300)]
    data = encode_message(MetadataRequest(topics=topics), 9)
    assert len(decode_message(MetadataRequest, 9, data, items_max=300).topics) == 300
    with pytest.raises(TooManyItems, match=r"MetadataRequest version 9: .*topics"):
        decode_message(MetadataRequest, 9, data, items_max=299)
    nested = [OffsetFetchRequestTopics(name="t", partition_indexes=list(range(10))) for _ in range(10)]
    groups = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=nested)])
    data = encode_message(groups, 8)
    assert decode_message(OffsetFetchRequest, 8, data, items_max=1 + 10 + 100) == groups
    with pytest.raises(TooManyItems):
        decode_message(OffsetFetchRequest, 8, data, items_max=1 + 10 + 99)


def test_tagged_fields_of_a_struct_are_few():
    data = encode_message(MetadataRequest(topics=[]), 9)
    unknown = b"".join(bytes((tag, 0)) for tag in range(1, 127))
    assert decode_message(MetadataRequest, 9, data[:-1] + b"\x7e" + unknown) == MetadataRequest(topics=[])
    with pytest.raises(MalformedMessage):
        decode_message(MetadataRequest, 9, data[:-1] + b"\x80\x01" + bytes((1, 0)) * 128)
    with pytest.raises(TooManyItems):
        decode_message(MetadataRequest, 9, data[:-1] + b"\x7e" + unknown, items_max=100)
