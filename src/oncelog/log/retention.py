"""Which segments retention no longer asks for: Apache Kafka's rules for retention.ms and retention.bytes.

A segment's age is that of its largest timestamp, so one with a timestamp in the future stays until that time has come and
retention.ms has passed; where its records have no timestamps, the file's. None goes by time because of what its index alone says:
first its largest timestamp is proven from its batches. Only oldest segments go, and only below the
high watermark: an open transaction does not keep its records (it is how a hanging one ends at last).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from oncelog.log.config import LogConfig

NO_TIMESTAMP = -1


class RetainedSegment(Protocol):
    """What retention looks at."""

    size_bytes: int
    end_offset: int

    @property
    def is_proven(self) -> bool:
        """Whether that timestamp is known from the batches themselves."""
        ...

    @property
    def largest_timestamp(self) -> int:
        """In ms, -1 where there is none."""
        ...


def count_past_retention(
    segments: Sequence[RetainedSegment],
    config: LogConfig,
    high_watermark: int,
    now_ms: int,
    modified_ms: Callable[[int], int],
    *,
    proven_only: bool = True,
) -> int:
    """How many of the oldest segments may go. It can be all of them: then the active one is rolled first.

    `modified_ms(index)` says when a segment's file was last written. Without `proven_only` also those that must be proven first.
    """
    surplus = sum(segment.size_bytes for segment in segments) - config.retention_bytes
    last = len(segments) - 1
    for index, segment in enumerate(segments):
        if segment.end_offset > high_watermark or (index == last and segment.size_bytes == 0):
            return index
        surplus -= segment.size_bytes
        if config.retention_bytes >= 0 and surplus >= 0:
            continue
        if config.retention_ms < 0 or now_ms - _written_ms(segment, index, modified_ms) <= config.retention_ms:
            return index
        if proven_only and not segment.is_proven:
            return index
    return len(segments)


def _written_ms(segment: RetainedSegment, index: int, modified_ms: Callable[[int], int]) -> int:
    timestamp = segment.largest_timestamp
    return timestamp if timestamp > NO_TIMESTAMP else modified_ms(index)
