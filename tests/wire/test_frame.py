"""Frames under any chunking, headers byte by byte."""

from __future__ import annotations

import io
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedFrame, MalformedMessage, UnsupportedVersion
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import (
    OWN_MEMORY_FACTOR,
    OWN_MEMORY_SIZE_BYTES_MIN,
    FrameReader,
    FrameTooLarge,
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    response_correlation_id,
)
from oncelog.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.wire.messages.offset_delete import OffsetDeleteRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.schema import InvalidField


def framed(*payloads: bytes) -> bytes:
    return b"".join(len(payload).to_bytes(4, "big") + payload for payload in payloads)


@given(st.lists(st.binary(min_size=1, max_size=40), max_size=8), st.data())
def test_chunking_does_not_matter(payloads: list[bytes], data: st.DataObject) -> None:
    stream, reader, frames = framed(*payloads), FrameReader(40), []
    pos = 0
    while pos < len(stream):
        size = data.draw(st.integers(1, len(stream) - pos))
        frames += reader.receive(stream[pos : pos + size])
        pos += size
    assert frames == payloads


def test_every_byte_alone() -> None:
    reader = FrameReader(100)
    frames = [frame for byte in framed(b"one", b"two") for frame in reader.receive(bytes([byte]))]
    assert frames == [b"one", b"two"]


def test_whole_frames_are_not_copied() -> None:
    data = framed(b"one", b"two") + b"\0"
    first, second = FrameReader(100).receive(data)
    assert first.obj is second.obj is data


def test_the_beginning_of_a_frame_is_not_copied_where_it_is_much_of_what_came() -> None:
    frame = framed(b"x" * 96)
    much, little = framed(b"y" * 40) + frame[:40], framed(b"y" * 40) + frame[:8]
    for data, is_kept in ((much, True), (little, False)):
        reader, before = FrameReader(100), sys.getrefcount(data)
        reader.receive(data)
        assert (sys.getrefcount(data) > before) is is_kept, "a few bytes keep nothing else in memory"
        begun = len(data) - 44
        assert reader.receive(frame[begun:]) == [b"x" * 96]
        assert sys.getrefcount(data) == before, "and much only until the frame is whole"


def test_nothing_comes_of_nothing() -> None:
    reader = FrameReader(100)
    assert reader.receive(b"") == []
    assert reader.receive(framed(b"abc")[:5]) == []
    assert reader.receive(b"") == []
    assert reader.receive(b"bc") == [b"abc"]


@pytest.mark.parametrize("size_bytes", [0, -1, 11, -(1 << 31), (1 << 31) - 1])
def test_impossible_sizes_end_the_connection(size_bytes: int) -> None:
    reader = FrameReader(10)
    header = size_bytes.to_bytes(4, "big", signed=True)
    assert reader.receive(header[:3]) == []
    with pytest.raises(MalformedFrame, match=f"a frame of {size_bytes} bytes is not between 1 and 10"):
        reader.receive(header[3:])
    for more in (b"x", b"", framed(b"abc")):
        with pytest.raises(MalformedFrame):
            reader.receive(more)


def test_the_largest_frame_passes() -> None:
    assert FrameReader(10).receive(framed(b"x" * 10)) == [b"x" * 10]


def test_a_good_frame_before_a_bad_size_is_not_delivered() -> None:
    with pytest.raises(MalformedFrame):
        FrameReader(10).receive(framed(b"good") + b"\0\0\0\0")


def request_bytes(version: int, client_id: str | None) -> bytes:
    return b"".join(encode_request(ApiKey.END_TXN, version, 7, client_id, EndTxnRequest(transactional_id="t")))


def test_request_headers() -> None:
    assert request_bytes(0, "me")[:16] == bytes.fromhex("0000001a 001a 0000 00000007 0002 6d65")
    assert request_bytes(0, None)[4:14] == bytes.fromhex("001a 0000 00000007 ffff")
    assert request_bytes(0, "")[4:14] == bytes.fromhex("001a 0000 00000007 0000")
    assert request_bytes(3, "me")[4:19] == bytes.fromhex("001a 0003 00000007 0002 6d65 00 0274")


@pytest.mark.parametrize("client_id", [None, "", "me", "日本"])
@pytest.mark.parametrize("version", range(6))
def test_requests_survive(version: int, client_id: str | None) -> None:
    (frame,) = FrameReader().receive(request_bytes(version, client_id))
    header, pos = decode_request_header(frame)
    assert header == RequestHeader(ApiKey.END_TXN, version, 7, client_id)
    assert decode_request(header, frame, pos) == EndTxnRequest(transactional_id="t")


def test_bytes_after_a_request_are_ignored() -> None:
    frame = memoryview(request_bytes(3, "me")[4:] + b"more")
    header, pos = decode_request_header(frame)
    assert decode_request(header, frame, pos) == EndTxnRequest(transactional_id="t")


def test_unknown_tags_in_headers_are_passed_over() -> None:
    data = request_bytes(3, "me")
    frame = memoryview(data[4:16] + bytes.fromhex("010501aa") + data[17:])
    header, pos = decode_request_header(frame)
    assert decode_request(header, frame, pos) == EndTxnRequest(transactional_id="t")


@pytest.mark.parametrize("version", [0, 3])
def test_truncated_requests_are_malformed(version: int) -> None:
    data = request_bytes(version, "me")[4:]
    for size in range(len(data)):
        frame = memoryview(data[:size])
        with pytest.raises(MalformedMessage):
            decode_request(*_header_first(frame))


def _header_first(frame: memoryview) -> tuple[RequestHeader, memoryview, int]:
    header, pos = decode_request_header(frame)
    return header, frame, pos


def test_headers_of_unknown_apis_can_be_read() -> None:
    """So that the broker can say what it refuses."""
    frame = memoryview(bytes.fromhex("03e7 0063 00000001 0001 61"))
    header, pos = decode_request_header(frame)
    assert header == RequestHeader(999, 99, 1, "a")
    with pytest.raises(UnsupportedVersion, match="no API with key 999"):
        decode_request(header, frame, pos)


def test_headers_of_unknown_api_versions_can_be_read() -> None:
    frame = memoryview(bytes.fromhex("0012 7fff 00000001 0001 61 00 0261 0262 00"))
    assert decode_request_header(frame) == (RequestHeader(18, 32767, 1, "a"), 12)
    before_tags = memoryview(bytes.fromhex("0012 ffff 00000001 fffe"))
    assert decode_request_header(before_tags) == (RequestHeader(18, -1, 1, None), 10)


def test_client_ids_that_do_not_fit() -> None:
    with pytest.raises(MalformedMessage, match="client id of 32767 bytes"):
        decode_request_header(memoryview(bytes.fromhex("0012 0000 00000001 7fff 61")))
    with pytest.raises(MalformedMessage, match="client id of 2 bytes"):
        decode_request_header(memoryview(bytes.fromhex("0012 0000 00000001 0002 61")))
    with pytest.raises(InvalidField, match="client id"):
        request_bytes(0, "x" * 32768)


@pytest.mark.parametrize("version", [2, 3])
def test_responses_survive(version: int) -> None:
    data = b"".join(encode_response(ApiKey.END_TXN, version, 9, EndTxnResponse(error_code=51)))
    (frame,) = FrameReader().receive(data)
    assert response_correlation_id(frame) == 9
    assert decode_response(ApiKey.END_TXN, version, frame) == (9, EndTxnResponse(error_code=51))
    for size in range(len(frame)):
        with pytest.raises(MalformedMessage):
            decode_response(ApiKey.END_TXN, version, frame[:size])


def test_api_versions_responses_keep_the_first_header() -> None:
    """KIP-511: the client does not know yet whether the broker can say version 1."""
    data = b"".join(encode_response(ApiKey.API_VERSIONS, 3, 1, ApiVersionsResponse(error_code=35)))
    assert data[4:11] == bytes.fromhex("00000001 0023 01")
    request = b"".join(encode_request(ApiKey.API_VERSIONS, 3, 1, "c", ApiVersionsRequest()))
    assert request[14:16].hex() == "6300"


def test_record_bytes_are_passed_on() -> None:
    batch = bytearray(70_000)
    data = [TopicProduceData(name="t", partition_data=[PartitionProduceData(records=batch)])]
    parts = encode_request(ApiKey.PRODUCE, 9, 1, None, ProduceRequest(topic_data=data))
    assert any(isinstance(part, memoryview) and part.obj is batch for part in parts)
    assert int.from_bytes(bytes(parts[0])[:4], "big") == sum(map(len, parts)) - 4


def test_short_responses_have_no_correlation_id() -> None:
    with pytest.raises(MalformedMessage, match="no correlation id"):
        response_correlation_id(memoryview(b"abc"))


def test_a_message_must_fit_its_api() -> None:
    with pytest.raises(AssertionError, match="EndTxnResponse is not a request of EndTxn"):
        encode_request(ApiKey.END_TXN, 0, 1, None, EndTxnResponse())
    with pytest.raises(AssertionError, match="EndTxnRequest is not a response of EndTxn"):
        encode_response(ApiKey.END_TXN, 0, 1, EndTxnRequest())


@pytest.mark.parametrize(("version", "header"), [(2, "v1"), (3, "v2")])
def test_request_headers_are_kios(version: int, header: str) -> None:
    serial = pytest.importorskip("kio.serial")
    module = __import__(f"kio.schema.request_header.{header}.header", fromlist=["RequestHeader"])
    frame = request_bytes(version, "me")[4:]
    theirs, size_bytes = serial.entity_reader(module.RequestHeader)(frame, 0)
    _, pos = decode_request_header(memoryview(frame))
    assert (theirs.request_api_key, theirs.request_api_version, theirs.correlation_id) == (26, version, 7)
    assert (theirs.client_id, size_bytes) == ("me", pos)
    buffer = io.BytesIO()
    serial.entity_writer(module.RequestHeader)(buffer, theirs)
    assert buffer.getvalue() == frame[:pos]


def test_offset_delete_never_has_tags() -> None:
    data = b"".join(encode_request(ApiKey.OFFSET_DELETE, 0, 1, None, OffsetDeleteRequest(group_id="g")))
    assert data[14:] == bytes.fromhex("0001 67 00000000")
    assert APIS[ApiKey.OFFSET_DELETE].request_header_version(0) == 1


def test_the_first_frame_may_have_a_smaller_limit() -> None:
    reader = FrameReader(1000, first_size_bytes_max=10)
    assert reader.is_first
    assert [bytes(frame) for frame in reader.receive(struct.pack(">i", 10) + b"x" * 10)] == [b"x" * 10]
    assert not reader.is_first
    assert len(reader.receive(struct.pack(">i", 1000) + b"x" * 1000)[0]) == 1000
    with pytest.raises(FrameTooLarge):
        reader.receive(struct.pack(">i", 1001))
    with pytest.raises(FrameTooLarge):
        FrameReader(1000, first_size_bytes_max=10).receive(struct.pack(">i", 11))
    with pytest.raises(MalformedFrame) as caught:
        FrameReader(1000).receive(struct.pack(">i", -1))
    assert not isinstance(caught.value, FrameTooLarge)


PRODUCE, OTHER = b"\0\0", b"\0\1"
large_or_small = st.tuples(
    st.sampled_from((PRODUCE, OTHER)),
    st.sampled_from((6, 40, OWN_MEMORY_SIZE_BYTES_MIN - 1, OWN_MEMORY_SIZE_BYTES_MIN, 90_000)),
)


def received(reader: FrameReader, data: bytes) -> list[memoryview]:
    """As a transport does that asks for `room`."""
    room = reader.room()
    if room is None:
        return reader.receive(data)
    count = min(len(room), len(data))
    room[:count] = data[:count]
    frames = reader.filled(count)
    return frames + received(reader, data[count:]) if count < len(data) else frames


@given(st.lists(large_or_small, max_size=5), st.data())
def test_large_produce_requests_come_into_memory_of_their_own(
    kinds: list[tuple[bytes, int]], data: st.DataObject
) -> None:
    payloads = [key + bytes([index]) * (size - 2) for index, (key, size) in enumerate(kinds)]
    stream, reader, frames = framed(*payloads), FrameReader(90_000, has_own_memory=True), []
    pos = whole = 0
    while pos < len(stream):
        size = min(data.draw(st.sampled_from((1, 5, 6, 4_000, 16_384, 100_000))), len(stream) - pos)
        frames += received(reader, stream[pos : pos + size])
        pos += size
        whole = sum(len(frame) + 4 for frame in frames)
        assert reader.partial_size_bytes in (pos - whole, pos - whole - 4), "what came, its size counted or not"
        room = reader.room()
        assert reader.has_room is (room is not None)
        if room is not None:
            assert 0 < len(room) <= reader.partial_size_bytes * (OWN_MEMORY_FACTOR - 1), "a size alone is not believed"
    assert frames == payloads
    assert not reader.has_room
    assert all(frame.readonly or (frame[:2] == PRODUCE and len(frame) >= OWN_MEMORY_SIZE_BYTES_MIN) for frame in frames)


def test_a_large_produce_request_is_its_receivers_own() -> None:
    payload, reader = PRODUCE + b"x" * 99_998, FrameReader(has_own_memory=True)
    stream = framed(payload, payload)
    assert received(reader, stream[:16_384]) == []
    first, second = received(reader, stream[16_384:])
    assert (first, second) == (payload, payload)
    assert not first.readonly
    first[:] = bytes(100_000)
    assert second == payload, "what one does with its frame is nobody else's"
    assert FrameReader().receive(stream)[0].readonly, "without own memory nothing is given away"


def test_strangers_get_no_memory_of_their_own_before_they_are_known() -> None:
    payload, reader = PRODUCE + b"x" * 99_998, FrameReader(100_000, first_size_bytes_max=100_000)
    assert reader.receive(framed(payload)[:50_000]) == []
    assert reader.room() is None
    assert reader.receive(framed(payload)[50_000:]) == [payload]
    reader.allow(200_000)
    assert reader.receive(framed(payload)[:50_000]) == []
    assert reader.has_room


def test_the_first_frame_counts_as_come_in_memory_of_its_own_too() -> None:
    reader = FrameReader(200_000, first_size_bytes_max=100_000, has_own_memory=True)
    assert len(reader.receive(framed(PRODUCE + b"x" * 99_998)[:60_000]) + received(reader, b"x" * 40_004)) == 1
    assert not reader.is_first
