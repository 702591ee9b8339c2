"""The journal's bytes: what was written is read again, and anything else is nothing, never another entry."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.log.journal_entries import (
    ENTRY_HEADER_BYTES,
    ENTRY_MAGIC,
    SEGMENT_HEADER_BYTES,
    UNKNOWN_BOOT,
    SegmentHeader,
    UnknownJournal,
    begins_entry,
    entries_behind,
    entry_from_bytes,
    entry_to_bytes,
    pack_piece,
    segment_header_from_bytes,
    segment_header_to_bytes,
    sixteen_bytes_of,
)
from oncelog.wire.crc32c import crc32c

INT64_MAX = 2**63 - 1
uint64s = st.integers(0, 2**64 - 1)
offsets = st.integers(0, INT64_MAX)
sixteens = st.binary(min_size=16, max_size=16)
headers = st.builds(SegmentHeader, sixteens, sixteens, uint64s, uint64s, uint64s)
pieces = st.tuples(
    sixteens, st.integers(0, 2**31 - 1), offsets, offsets, offsets, st.binary(max_size=90), st.integers(0, 9)
)


def written(drawn, *, generation=7, sequence=3, synced_sequence=2, needed_from=1):
    """An entry of drawn pieces: (topic id, partition, base offset, position, end offset, kept, bytes not kept)."""
    parts = []
    for *place, kept, more in drawn:
        parts += [pack_piece(*place, len(kept) + more, len(kept)), kept]
    return entry_to_bytes(
        parts,
        len(drawn),
        generation=generation,
        sequence=sequence,
        synced_sequence=synced_sequence,
        needed_from=needed_from,
    )


ONE = (b"t" * 16, 2, 100, 4711, 123, b"the batch", 5)


@given(headers)
def test_a_header_is_read_as_it_was_written(header):
    data = segment_header_to_bytes(header)
    assert len(data) == SEGMENT_HEADER_BYTES
    assert segment_header_from_bytes(data + b"entries") == header


@given(headers, st.integers(0, 8 * 70 - 1))
def test_a_header_with_a_bit_flipped_or_cut_short_is_none(header, bit):
    data = bytearray(segment_header_to_bytes(header))
    assert segment_header_from_bytes(data[: bit // 8]) is None
    data[bit // 8] ^= 1 << bit % 8
    assert segment_header_from_bytes(data) is None


def test_a_header_of_a_newer_format_is_refused_and_not_taken_for_a_torn_one():
    data = bytearray(segment_header_to_bytes(SegmentHeader(b"d" * 16, UNKNOWN_BOOT, 1, 1, 1)))
    size_bytes = len(bytes(data).rstrip(b"\0")) - 4
    struct.pack_into(">H", data, 8, 2)
    assert segment_header_from_bytes(data) is None, "its checksum does not fit"
    size_bytes = 8 + 2 + 32 + 24
    struct.pack_into(">I", data, size_bytes, crc32c(bytes(data[:size_bytes])))
    with pytest.raises(UnknownJournal, match="format 2; this version reads 1"):
        segment_header_from_bytes(data)


@given(st.lists(pieces, max_size=4), st.binary(max_size=20), uint64s, uint64s, uint64s, uint64s)
def test_an_entry_is_read_as_it_was_written(drawn, before, generation, sequence, synced_sequence, needed_from):
    numbers = {"sequence": sequence, "synced_sequence": synced_sequence, "needed_from": needed_from}
    data = before + written(drawn, generation=generation, **numbers)
    entry = entry_from_bytes(data + b"\0" * 30, len(before), generation)
    assert entry is not None
    assert (entry.sequence, entry.synced_sequence, entry.needed_from) == (sequence, synced_sequence, needed_from)
    assert entry.end_position == len(data)
    assert [(*piece[:5], piece.size_bytes - len(piece.kept), bytes(piece.kept)) for piece in entry.pieces] == [
        (*place, more, kept) for *place, kept, more in drawn
    ]
    assert entry_from_bytes(data, len(before), generation ^ 1) is None, "another generation's is nothing"
    assert begins_entry(data, len(before), generation, sequence)
    assert not begins_entry(data, len(before), generation, sequence + 1)
    assert not begins_entry(data, len(before), generation ^ 1, sequence)


@given(st.lists(pieces, max_size=3), st.data())
def test_every_truncation_and_every_bit_flip_is_none(drawn, data):
    whole = written(drawn)
    cut = data.draw(st.integers(0, len(whole) - 1))
    assert entry_from_bytes(whole[:cut], 0, 7) is None
    bit = data.draw(st.integers(0, 8 * len(whole) - 1))
    damaged = bytearray(whole)
    damaged[bit // 8] ^= 1 << bit % 8
    assert entry_from_bytes(damaged + bytes(100), 0, 7) is None


def test_every_truncation_and_every_bit_flip_of_one_entry():
    whole = written([ONE])
    for cut in range(len(whole)):
        assert entry_from_bytes(whole[:cut], 0, 7) is None
        assert begins_entry(whole[:cut], 0, 7, 3) == (cut >= ENTRY_HEADER_BYTES)
    for bit in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[bit // 8] ^= 1 << bit % 8
        assert entry_from_bytes(damaged, 0, 7) is None


@given(st.binary(max_size=200), st.integers(0, 210))
def test_bytes_that_are_no_journal_are_none(data, position):
    assert entry_from_bytes(ENTRY_MAGIC + data, position, 0) is None
    assert segment_header_from_bytes(b"oncelogJ" + data) is None
    begins_entry(ENTRY_MAGIC + data, position, 0, 0)


def test_entries_behind_finds_what_is_newer_and_whole():
    newer, older, others = (
        written([ONE], sequence=9),
        written([ONE], sequence=3),
        written([ONE], generation=8, sequence=9),
    )
    torn = newer[:-1] + b"?"
    data = b"xx" + ENTRY_MAGIC + torn + older + others + b"JEN" + newer + newer[:20]
    assert [entry.sequence for _, entry in entries_behind(data, 0, 7, 3)] == [9]
    assert list(entries_behind(data, 0, 7, 9)) == []
    behind = [(place, entry.sequence) for place, entry in entries_behind(newer + newer, 1, 7, 3)]
    assert behind == [(len(newer), 9)], "only behind the position"


def test_a_name_stands_as_sixteen_bytes_and_none_as_zeros():
    assert sixteen_bytes_of("") == UNKNOWN_BOOT == bytes(16)
    assert len(sixteen_bytes_of("a")) == 16
    assert len({sixteen_bytes_of(each) for each in ("", "a", "b", "ab")}) == 4
