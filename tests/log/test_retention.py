"""Retention by size and time, on segments that are numbers only."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from oncelog.log.config import LogConfig
from oncelog.log.retention import count_past_retention

NOW_MS = 1_700_000_000_000


@dataclass
class Sized:
    size_bytes: int
    end_offset: int
    largest_timestamp: int = NOW_MS
    is_proven: bool = True


def count(segments: list[Sized], *, retention_ms: int = -1, retention_bytes: int = -1, **changed: int) -> int:
    known = {"high_watermark": segments[-1].end_offset, "now_ms": NOW_MS} | changed
    return count_past_retention(
        segments,
        LogConfig(retention_ms=retention_ms, retention_bytes=retention_bytes),
        modified_ms=lambda index: NOW_MS - 1000 * index,
        **known,
    )


FOUR = [Sized(100, 10), Sized(100, 20), Sized(100, 30), Sized(50, 40)]


@pytest.mark.parametrize(("retention_bytes", "expected"), [(350, 0), (300, 0), (250, 1), (249, 1), (150, 2), (0, 4)])
def test_by_size_as_long_as_what_is_left_is_enough(retention_bytes: int, expected: int) -> None:
    assert count(FOUR, retention_bytes=retention_bytes) == expected


def test_by_time_of_the_largest_timestamp() -> None:
    aged = [Sized(1, 10, NOW_MS - 3001), Sized(1, 20, NOW_MS - 3000), Sized(1, 30, NOW_MS - 9000)]
    assert count(aged, retention_ms=3000) == 1, "exactly retention.ms is kept, and what is behind it"
    assert count(aged, retention_ms=2999) == 3
    assert count(aged) == 0


def test_a_timestamp_in_the_future_holds_its_segment_and_all_later_ones() -> None:
    aged = [Sized(1, 10, NOW_MS + 86_400_000), Sized(1, 20, NOW_MS - 9000)]
    assert count(aged, retention_ms=1000) == 0
    assert count(aged, retention_ms=1000, now_ms=NOW_MS + 86_401_001) == 2


def test_without_timestamps_the_files_age_counts() -> None:
    """`modified_ms` says one second more for each segment."""
    aged = [Sized(1, 10 * index, -1) for index in range(1, 5)]
    assert count(aged, retention_ms=1999) == 0
    assert count(list(aged), retention_ms=-1) == 0
    assert count([Sized(1, 10, NOW_MS - 9000), *aged], retention_ms=999) == 5
    assert count([Sized(1, 10, NOW_MS - 9000), *aged], retention_ms=1000) == 1


def test_nothing_above_the_high_watermark_goes() -> None:
    assert count(FOUR, retention_bytes=0, high_watermark=29) == 2
    assert count(FOUR, retention_ms=0, now_ms=NOW_MS + 1, high_watermark=30) == 3


def test_an_empty_active_segment_stays() -> None:
    assert count([*FOUR, Sized(0, 40, -1)], retention_ms=0, now_ms=NOW_MS + 1) == 4


def test_size_and_time_together() -> None:
    aged = [Sized(100, 10, NOW_MS), Sized(100, 20, NOW_MS - 9000), Sized(100, 30, NOW_MS)]
    assert count(aged, retention_bytes=200, retention_ms=1000) == 2, "the first for its size, the second for its age"


def test_what_its_index_alone_calls_too_old_waits_for_a_proof() -> None:
    aged = [Sized(1, 10, NOW_MS - 9000), Sized(1, 20, NOW_MS - 9000, is_proven=False), Sized(1, 30, NOW_MS - 9000)]
    assert (count(aged, retention_ms=1000), count(aged, retention_ms=1000, proven_only=False)) == (1, 3)
    assert count(aged, retention_bytes=0) == 3, "by size no time is asked for"
