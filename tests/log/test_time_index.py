"""The time index against a linear scan."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptIndex
from oncelog.log.time_index import NO_TIMESTAMP, TimeIndex

BASE = 50


@given(st.lists(st.integers(-1, 30), max_size=20), st.integers(-1, 32))
def test_nothing_below_the_offset_is_as_late(timestamps: list[int], timestamp: int) -> None:
    """Batch i has offset BASE + i; every batch is offered with the largest timestamp so far, as a segment does."""
    index = TimeIndex(BASE)
    largest, offset_of_largest = NO_TIMESTAMP, BASE
    for i, each in enumerate(timestamps):
        if each > largest:
            largest, offset_of_largest = each, BASE + i
        index.maybe_add(largest, offset_of_largest)
    found = index.offset_before(timestamp)
    assert all(each < timestamp for each in timestamps[: found - BASE])
    assert list(index.timestamps) == sorted(set(index.timestamps))
    assert index.last[0] == max(timestamps, default=NO_TIMESTAMP)
    assert TimeIndex.from_bytes(BASE, index.to_bytes()).to_bytes() == index.to_bytes()


@given(st.integers(0, 5))
def test_truncate_and_preallocated_zeros(zero_entries: int) -> None:
    index = TimeIndex(BASE)
    for i in range(1, 6):
        index.maybe_add(i * 10, BASE + i)
    index = TimeIndex.from_bytes(BASE, index.to_bytes() + bytes(12 * zero_entries))
    assert len(index) == 5
    assert index.truncate(BASE + 3) == 3
    assert index.last == (20, BASE + 2)
    assert index.flushed_count == 2


def test_an_entry_is_timestamp_and_relative_offset() -> None:
    index = TimeIndex(BASE)
    index.maybe_add(258, BASE + 3)
    assert index.to_bytes() == bytes.fromhex("0000000000000102 00000003")


@pytest.mark.parametrize(
    "entries", [[(5, 3), (5, 4)], [(5, 3), (4, 4)], [(5, 3), (6, 2)], [(-1, 0)], [(5, 3), (7, -1)], [(-9, 3)]]
)
def test_entries_that_do_not_ascend_are_refused(entries: list[tuple[int, int]]) -> None:
    data = b"".join(t.to_bytes(8, "big", signed=True) + o.to_bytes(4, "big", signed=True) for t, o in entries)
    with pytest.raises(CorruptIndex):
        TimeIndex.from_bytes(BASE, data)
    with pytest.raises(CorruptIndex):
        TimeIndex.from_bytes(BASE, b"\0" * 11)
