"""The offset index against a linear scan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptIndex
from oncelog.log.offset_index import OffsetIndex

BASE = 1000


@st.composite
def indexes(draw: st.DrawFn) -> OffsetIndex:
    index = OffsetIndex(BASE)
    offset, position = BASE, 0
    for _ in range(draw(st.integers(0, 12))):
        offset += draw(st.integers(1, 5))
        position += draw(st.integers(1, 100))
        index.add(offset, position)
    return index


@given(indexes(), st.integers(BASE - 3, BASE + 70), st.integers(0, 1300))
def test_lookups_agree_with_a_linear_scan(index: OffsetIndex, offset: int, position: int) -> None:
    entries = [(o + BASE, p) for o, p in zip(index.offsets, index.positions, strict=True)]
    assert index.entry_before(offset) == max((e for e in entries if e[0] <= offset), default=(BASE, 0))
    assert index.entry_at_most(position) == max((e for e in entries if e[1] <= position), default=(BASE, 0))
    assert index.upper_bound_offset(position) == min((o for o, p in entries if p >= position), default=None)


@given(indexes(), st.integers(BASE - 3, BASE + 70))
def test_truncate_keeps_what_lies_below(index: OffsetIndex, end_offset: int) -> None:
    below = [o for o in index.offsets if o + BASE < end_offset]
    count = len(index)
    assert index.truncate(end_offset) == count - len(below)
    assert list(index.offsets) == below
    assert len(index.positions) == len(below)


@given(indexes(), st.integers(0, 3))
def test_bytes_come_back_even_behind_preallocated_zeros(index: OffsetIndex, zero_entries: int) -> None:
    data = index.to_bytes() + bytes(8 * zero_entries)
    again = OffsetIndex.from_bytes(BASE, data, log_size_bytes=10_000)
    assert again.to_bytes() == index.to_bytes()
    assert again.flushed_count == len(index)


def test_an_entry_is_relative_offset_and_position_big_endian() -> None:
    index = OffsetIndex(BASE)
    index.add(BASE + 258, 4097)
    assert index.to_bytes() == bytes.fromhex("00000102 00001001")


@pytest.mark.parametrize(
    "data",
    [
        bytes(7),
        bytes.fromhex("00000001 00000000"),  # position 0 is never indexed
        bytes.fromhex("ffffffff 00000010"),
        bytes.fromhex("00000001 00000064"),  # beyond the log
        bytes.fromhex("00000002 00000010 00000002 00000020"),
        bytes.fromhex("00000002 00000010 00000003 00000010"),
        bytes.fromhex("00000000 00000000 00000003 00000010"),
    ],
)
def test_what_cannot_belong_to_the_log_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        OffsetIndex.from_bytes(BASE, data, log_size_bytes=100)
