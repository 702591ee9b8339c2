"""The head of small binary files."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptIndex
from oncelog.log.counted_file import HEAD_SIZE_BYTES, count_of, with_head


@given(st.integers(0, 2**31 - 1), st.binary(max_size=40))
def test_what_is_written_is_read(count: int, entries: bytes) -> None:
    data = with_head(count, entries)
    assert (count_of(data, "file"), data[HEAD_SIZE_BYTES:]) == (count, entries)


@given(st.data())
def test_damage_is_seen(data: st.DataObject) -> None:
    good = with_head(3, b"entries")
    bit = data.draw(st.integers(0, len(good) * 8 - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    for damaged in (bytes(bad), good[: bit // 8], good + b"\0"):
        with pytest.raises(
            CorruptIndex, match=r"^file: (only \d+ bytes|version -?\d+ is unknown|checksum does not fit)$"
        ):
            count_of(damaged, "file")
