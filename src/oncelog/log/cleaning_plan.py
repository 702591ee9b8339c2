"""Which part of a log may be cleaned, whether that is worth it, and which segments become one (Apache Kafka's rules).

The dirty part begins where the last cleaning ended. Nothing is cleaned from the first undecided offset on, in the active
segment, within min.compaction.lag.ms, or above the stored recovery point (below it, recovery accepts the gaps).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from oncelog.lazy_dataclass import dataclass
from oncelog.log.config import INT32_MAX
from oncelog.log.segment import Segment

INT64_MAX = 2**63 - 1
# Ours: a group's old files are renamed in one step of the loop, so a group of very many tiny segments is cut here.
GROUP_SEGMENTS_MAX = 64


@dataclass(frozen=True, slots=True)
class CompactionRules:
    """A topic's min.cleanable.dirty.ratio, min.compaction.lag.ms, max.compaction.lag.ms and delete.retention.ms."""

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = INT64_MAX
    delete_retention_ms: int = 86_400_000


class CleaningPlan(NamedTuple):
    """What could be cleaned: [first_dirty_offset, end_offset), whole segments. `is_overdue`: max.compaction.lag.ms."""

    first_dirty_offset: int
    end_offset: int
    clean_size_bytes: int
    dirty_size_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        """The dirty share of all that would be read; 0 where there is nothing."""
        total = self.clean_size_bytes + self.dirty_size_bytes
        return self.dirty_size_bytes / total if total else 0.0

    def is_due(self, rules: CompactionRules) -> bool:
        """Whether it should be done now."""
        if self.dirty_size_bytes == 0:
            return False
        return self.is_overdue or self.dirty_ratio > rules.min_cleanable_dirty_ratio


def plan_cleaning(
    segments: Sequence[Segment],
    rules: CompactionRules,
    *,
    cleaned_offset: int | None,
    log_start_offset: int,
    last_stable_offset: int,
    recovery_point: int,
    now_ms: int,
) -> CleaningPlan:
    """Look at a log. `cleaned_offset` is its cleaner checkpoint; one outside the log counts as none."""
    active = segments[-1]
    first_dirty_offset = log_start_offset if cleaned_offset is None else cleaned_offset
    if not log_start_offset <= first_dirty_offset <= active.end_offset:
        first_dirty_offset = log_start_offset
    dirty = [segment for segment in segments[:-1] if segment.end_offset > first_dirty_offset]
    bound = min(last_stable_offset, active.base_offset, recovery_point)
    if rules.min_compaction_lag_ms > 0:
        young_ms = now_ms - rules.min_compaction_lag_ms
        young = next((segment for segment in dirty if segment.largest_timestamp > young_ms), active)
        bound = min(bound, young.base_offset)
    cleanable = [segment for segment in dirty if segment.end_offset <= bound]
    end_offset = cleanable[-1].end_offset if cleanable else first_dirty_offset
    is_overdue = False
    if rules.max_compaction_lag_ms < INT64_MAX:
        first = [segment.first_timestamp for segment in dirty if segment.size_bytes]
        is_overdue = min((when for when in first if when > 0), default=INT64_MAX) < now_ms - rules.max_compaction_lag_ms
    clean = sum(segment.size_bytes for segment in segments[:-1] if segment.end_offset <= first_dirty_offset)
    return CleaningPlan(
        first_dirty_offset, end_offset, clean, sum(segment.size_bytes for segment in cleanable), is_overdue
    )


@dataclass(frozen=True, slots=True)
class Source:
    """A segment to be cleaned, as it was when that was planned; nothing is appended to it any more."""

    base_offset: int
    end_offset: int
    size_bytes: int
    log_path: str
    index_path: str
    time_index_path: str


def sources_of(segments: Sequence[Segment], end_offset: int) -> tuple[Source, ...]:
    """The segments of a log up to `end_offset`, where a segment ends."""
    return tuple(
        Source(
            segment.base_offset,
            segment.end_offset,
            segment.size_bytes,
            segment.log_path,
            segment.index_path,
            segment.time_index_path,
        )
        for segment in segments
        if segment.end_offset <= end_offset
    )


def group_sources(
    sources: Sequence[Source],
    index_size_of: Callable[[Source], int],
    *,
    segment_size_bytes: int,
    index_size_bytes: int,
) -> list[list[Source]]:
    """Neighbours that fit into one segment even if nothing goes, by size of log and index and range of offsets."""
    groups: list[list[Source]] = []
    size = index_size = base_offset = 0
    for source in sources:
        source_index_size = index_size_of(source)
        if (
            groups
            and len(groups[-1]) < GROUP_SEGMENTS_MAX
            and size + source.size_bytes <= segment_size_bytes
            and index_size + source_index_size <= index_size_bytes
            and source.end_offset - 1 - base_offset <= INT32_MAX
        ):
            groups[-1].append(source)
        else:
            groups.append([source])
            size, index_size, base_offset = 0, 0, source.base_offset
        size, index_size = size + source.size_bytes, index_size + source_index_size
    return groups
