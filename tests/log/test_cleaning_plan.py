"""What may be cleaned, when it is due, and which segments become one."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from oncelog.log.cleaning_plan import (
    GROUP_SEGMENTS_MAX,
    CleaningPlan,
    CompactionRules,
    Source,
    group_sources,
    plan_cleaning,
)

NOW_MS = 1_700_000_000_000


@dataclass
class Sized:
    base_offset: int
    end_offset: int
    size_bytes: int = 100
    largest_timestamp: int = NOW_MS - 10_000
    first_timestamp: int = NOW_MS - 20_000


FOUR = [Sized(10 * index, 10 * index + 10) for index in range(4)]  # the last one is active


LAX = CompactionRules()


def plan(segments=FOUR, rules=LAX, **changed) -> CleaningPlan:
    known = {
        "cleaned_offset": None,
        "log_start_offset": 0,
        "last_stable_offset": 40,
        "recovery_point": 40,
        "now_ms": NOW_MS,
    }
    return plan_cleaning(segments, rules, **(known | changed))


def test_everything_but_the_active_segment_is_dirty_at_first():
    assert plan() == CleaningPlan(0, 30, 0, 300, False)
    assert plan().dirty_ratio == 1.0
    assert plan(FOUR[:1]).dirty_size_bytes == 0


@pytest.mark.parametrize(
    ("changed", "end_offset"),
    [({"last_stable_offset": 29}, 20), ({"recovery_point": 10}, 10), ({"last_stable_offset": 5}, 0)],
)
def test_whole_segments_below_every_bound(changed, end_offset):
    assert plan(**changed).end_offset == end_offset


@pytest.mark.parametrize(("cleaned_offset", "first"), [(10, 10), (15, 15), (41, 0), (40, 40)])
def test_the_dirty_part_begins_at_the_checkpoint_unless_that_lies_outside(cleaned_offset, first):
    assert plan(cleaned_offset=cleaned_offset).first_dirty_offset == first
    assert plan(cleaned_offset=3, log_start_offset=12).first_dirty_offset == 12


def test_the_ratio_decides():
    found = plan(cleaned_offset=20)
    assert (found.clean_size_bytes, found.dirty_size_bytes) == (200, 100)
    assert found.is_due(CompactionRules(min_cleanable_dirty_ratio=0.33))
    assert not found.is_due(CompactionRules(min_cleanable_dirty_ratio=0.34))


def test_lags():
    young = [*FOUR[:1], Sized(10, 20, largest_timestamp=NOW_MS - 1000), *FOUR[2:]]
    assert plan(young, CompactionRules(min_compaction_lag_ms=1001)).end_offset == 10
    assert plan(young, CompactionRules(min_compaction_lag_ms=1000)).end_offset == 30
    lazy = CompactionRules(min_cleanable_dirty_ratio=1.0, max_compaction_lag_ms=20_000)
    assert not plan(rules=lazy).is_overdue
    assert plan(rules=lazy, now_ms=NOW_MS + 1).is_due(lazy)
    assert not plan(rules=lazy, now_ms=NOW_MS + 1, last_stable_offset=5).is_due(lazy), "nothing may be cleaned"


def sources(*sizes: int, span: int = 10) -> list[Source]:
    return [Source(index * span, (index + 1) * span, size, "", "", "") for index, size in enumerate(sizes)]


def grouped(found: list[Source], index_size: int = 0, **changed: int) -> list[int]:
    bounds = {"segment_size_bytes": 100, "index_size_bytes": 1000} | changed
    return [len(group) for group in group_sources(found, lambda source: index_size, **bounds)]


def test_neighbours_are_put_together_while_they_fit():
    assert grouped(sources(40, 60, 1, 99, 100, 150, 0, 0)) == [2, 2, 1, 1, 2]
    assert grouped(sources(1, 1, 1, 1), index_size=400) == [2, 2]


def test_offsets_of_a_group_fit_into_its_indexes():
    """Relative offsets have 31 bits (KAFKA-6264)."""
    assert grouped(sources(1, 1, 1, span=2**30)) == [2, 1]
    assert grouped(sources(1, 1, span=2**31 + 1)) == [1, 1]


def test_a_group_of_very_many_tiny_segments_is_cut():
    assert grouped(sources(*[0] * (GROUP_SEGMENTS_MAX + 1))) == [GROUP_SEGMENTS_MAX, 1]


@pytest.mark.parametrize(("ratio", "is_due"), [(0.49, True), (0.5, False), (0.51, False)])
def test_a_share_as_large_as_the_bound_is_not_due_yet(ratio, is_due):
    """LogCleanerManager of Apache Kafka compares `cleanableRatio > minCleanableRatio`."""
    half = CleaningPlan(10, 20, 100, 100, False)
    assert half.dirty_ratio == 0.5
    assert half.is_due(CompactionRules(min_cleanable_dirty_ratio=ratio)) is is_due
    assert CleaningPlan(10, 20, 100, 100, True).is_due(CompactionRules(min_cleanable_dirty_ratio=ratio))


def test_where_all_of_a_log_must_be_dirty_only_its_lag_makes_it_due():
    assert not CleaningPlan(0, 30, 0, 300, False).is_due(CompactionRules(min_cleanable_dirty_ratio=1.0))
    assert CleaningPlan(0, 30, 0, 300, True).is_due(CompactionRules(min_cleanable_dirty_ratio=1.0))
    assert not CleaningPlan(0, 0, 0, 0, True).is_due(CompactionRules(min_cleanable_dirty_ratio=0.0))
