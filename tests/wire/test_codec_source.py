"""Varints and the bounds of arrays."""

from __future__ import annotations

import pytest
from evidence.world.message_values import MESSAGE_VERSIONS
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedMessage
from oncelog.wire.api import APIS
from oncelog.wire.codec_source import put_uvarint, read_length, read_uvarint, skip_tags, wire_size_bytes_min
from oncelog.wire.messages.fetch import FetchRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.schema import Sized, Struct, decode_message, encode_message


@pytest.mark.parametrize(
    ("number", "data"),
    [(0, "00"), (1, "01"), (127, "7f"), (128, "8001"), (300, "ac02"), (4096, "8020"), (0x7FFFFFFF, "ffffffff07")],
)
def test_varints(number: int, data: str) -> None:
    assert put_uvarint(number).hex() == data
    assert read_uvarint(memoryview(bytes.fromhex(data)), 0) == (number, len(data) // 2)


@given(st.integers(0, 0x7FFFFFFF))
def test_varints_survive(number: int) -> None:
    data = put_uvarint(number)
    assert read_uvarint(memoryview(b"x" + data), 1) == (number, 1 + len(data))


def test_the_upper_half_of_uint32_is_negative_as_in_java() -> None:
    assert read_uvarint(memoryview(bytes.fromhex("ffffffff0f")), 0) == (-1, 5)


@given(st.integers(0, 0xFFFFFFFF))
def test_one_is_taken_from_a_length_in_32_bits(number: int) -> None:
    """As Java does: 2^31 is more than any frame holds, and what is above it is null."""
    data = bytes([*(number >> shift & 127 | 128 for shift in (0, 7, 14, 21)), number >> 28])
    assert read_length(memoryview(data), 0) == (number if number <= 1 << 31 else number - (1 << 32), 5)


TWO_TO_31 = bytes.fromhex("8080808008")
ABOVE = bytes.fromhex("ffffffff0f")


@pytest.mark.parametrize(
    ("cls", "version", "before", "after"),
    [
        (MetadataRequest, 12, b"", bytes(3)),
        (FindCoordinatorRequest, 4, b"\0", b"\0"),
        (InitProducerIdRequest, 4, b"", bytes(15)),
        (FetchRequest, 12, bytes(21), b"\1\1\0"),
    ],
)
def test_no_kind_of_length_beyond_int32_is_taken_for_null(cls, version, before, after) -> None:
    """Metadata would answer all topics."""
    with pytest.raises(MalformedMessage):
        decode_message(cls, version, before + TWO_TO_31 + after)


def test_a_length_above_is_null_where_null_may_be() -> None:
    assert decode_message(MetadataRequest, 12, ABOVE + bytes(3)).topics is None
    with pytest.raises(MalformedMessage):
        decode_message(FindCoordinatorRequest, 4, b"\0" + ABOVE + b"\0")


@pytest.mark.parametrize("count", [TWO_TO_31, ABOVE, b"\0"])
def test_a_negative_count_of_tagged_fields_is_none(count: bytes) -> None:
    """Of structs that know tags and of those that know none; and it adds nothing to the budget of items."""
    decode_message(MetadataRequest, 12, b"\1\0\0" + count)
    fetch = encode_message(FetchRequest(), 12)
    decode_message(FetchRequest, 12, fetch[:-1] + count)
    with pytest.raises(MalformedMessage):
        decode_message(FetchRequest, 12, fetch[:-1] + b"\1\0" + count, items_max=0)


def test_a_varint_has_at_most_five_bytes() -> None:
    with pytest.raises(MalformedMessage, match="longer than five bytes"):
        read_uvarint(memoryview(b"\x80" * 9), 0)
    with pytest.raises(OverflowError):
        put_uvarint(1 << 31)


def test_skipping_tags_stays_within_the_frame() -> None:
    assert skip_tags(memoryview(bytes.fromhex("010502aabbff")), 0, 6) == 5
    with pytest.raises(MalformedMessage):
        skip_tags(memoryview(bytes.fromhex("010509aabb")), 0, 5)


def test_no_array_item_is_smaller_than_its_bound() -> None:
    """Otherwise a legal array would be refused as longer than its frame."""
    seen = set()
    for cls, version in MESSAGE_VERSIONS:
        for inner in structs_of(cls):
            seen.add(inner)
            if not wire_has_required_nulls(inner, version):
                flexible = version >= cls.FLEXIBLE
                assert wire_size_bytes_min(inner, version, flexible=flexible) >= 1
    assert len(seen) > 2 * len(APIS) * 0.5


def structs_of(cls: type[Struct]) -> list[type[Struct]]:
    found = []
    for field in cls.FIELDS:
        inner = field.wire.item if isinstance(field.wire, Sized) else field.wire
        if isinstance(inner, type):
            found += [inner, *structs_of(inner)]
    return found


def wire_has_required_nulls(cls: type[Struct], version: int) -> bool:
    return any(field.default is None and not field.nullable_in(version) for field in cls.FIELDS)


def test_default_messages_have_the_least_size() -> None:
    checked = 0
    for cls, version in MESSAGE_VERSIONS:
        if any(field.default is not None and field.nullable_in(version) for field in cls.FIELDS):
            continue  # an empty list takes as much as null in flexible versions only
        size_bytes_min = wire_size_bytes_min(cls, version, flexible=version >= cls.FLEXIBLE)
        assert size_bytes_min <= max(1, len(encode_message(cls(), version)))
        checked += 1
    assert checked > 300
