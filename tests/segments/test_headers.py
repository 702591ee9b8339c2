"""Segments as columns: what is read, what is passed over, and why."""

from __future__ import annotations

import struct

import pytest

from oncelog.segments.headers import Batches, Problem, read_headers
from oncelog.segments.source import BytesFile
from oncelog.wire.crc32c import crc32c
from oncelog.wire.record_batch import build_batch, set_offsets


def segment(count: int = 5, size_bytes: int = 30) -> list[bytearray]:
    made = []
    for number in range(count):
        batch = build_batch(
            [(1, b"k", bytes(size_bytes), ())] * 2, producer_id=number, producer_epoch=1, base_sequence=0
        )
        set_offsets(batch, number * 2, 3)
        made.append(batch)
    return made


def read(batches: list[bytearray], chunk_bytes: int = 1 << 20) -> tuple[list[int], list[tuple[int, str]]]:
    """Offsets of good batches, and (position, text) of problems."""
    data = b"".join(batches)
    offsets, problems = [], []
    for item in read_headers(BytesFile(data), len(data), chunk_bytes=chunk_bytes):
        if isinstance(item, Problem):
            problems.append((item.position, item.text))
            continue
        assert isinstance(item, Batches)
        for row in range(len(item)):
            if row in item.problems:
                problems.append((int(item.position[row]), item.problems[row]))
            else:
                offsets.append(int(item.base_offset[row]))
                assert bytes(item.bytes_of(row))[:8] == struct.pack(">q", offsets[-1])
    return offsets, problems


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 200, 10])
def test_all_of_a_good_one(chunk_bytes: int) -> None:
    assert read(segment(), chunk_bytes) == ([0, 2, 4, 6, 8], [])


@pytest.mark.parametrize("chunk_bytes", [1 << 20, 200])
def test_a_flipped_bit_costs_one_batch(chunk_bytes: int) -> None:
    batches = segment()
    batches[2][70] ^= 1
    offsets, problems = read(batches, chunk_bytes)
    assert offsets == [0, 2, 6, 8]
    assert [text for _, text in problems] == ["its checksum does not fit"]


@pytest.mark.parametrize("base_offset", [1, 4])
def test_behind_a_failed_checksum_only_a_later_batch_is_believed(base_offset: int) -> None:
    """The length may be wrong as well: what then seems to follow lies somewhere inside."""
    batches = segment()
    batches[2][70] ^= 1
    set_offsets(batches[3], base_offset, 3)
    offsets, problems = read(batches)
    assert (offsets[:2], offsets[-1]) == ([0, 2], 8)
    assert 1 not in offsets
    assert problems == [(sum(map(len, batches[:2])), "its checksum does not fit")]


@pytest.mark.parametrize("length", [-5, 3, 1000, 2**31 - 1])
def test_a_broken_length_costs_one_batch(length: int) -> None:
    batches = segment()
    struct.pack_into(">i", batches[2], 8, length)
    offsets, problems = read(batches)
    assert offsets == [0, 2, 6, 8]
    assert [position for position, _ in problems] == [sum(map(len, batches[:2]))]


def test_zeros_cut_bytes_and_a_torn_end() -> None:
    zeroed = segment()
    zeroed[1][:] = bytes(len(zeroed[1]))
    assert read(zeroed)[0] == [0, 4, 6, 8]
    cut = segment()
    del cut[3][50:]
    assert read(cut)[0] == [0, 2, 4, 8]
    torn = segment()
    del torn[-1][40:]
    offsets, problems = read(torn)
    assert offsets == [0, 2, 4, 6]
    assert problems == [(sum(map(len, torn[:4])), "40 bytes are no batch")]


def test_a_newer_format_and_an_unknown_codec_say_so() -> None:
    batches = segment()
    batches[1][16] = 3
    batches[3][22] |= 6
    struct.pack_into(">I", batches[3], 17, crc32c(batches[3][21:]))
    offsets, problems = read(batches)
    assert offsets == [0, 4, 8]
    assert ["newer" in problems[0][1], "codec 6" in problems[1][1]] == [True, True]


def test_nonsense_is_one_problem() -> None:
    offsets, problems = read([bytearray(b"\x02nonsense" * 500)])
    assert (offsets, len(problems)) == ([], 1)
