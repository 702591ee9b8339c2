"""How far the copy of one partition is, as it is stored at the destination in the transaction of the records themselves.

It is a committed position of the migration's own group: the offset is the source's next one, the rest is its metadata,
for which brokers have room of 4096 bytes. So points between both sides are thinned: dense near the end, where groups read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from oncelog.lazy_dataclass import dataclass

METADATA_BYTES_MAX = 4096
POINTS_MAX = 32
MOVED_MAX = 200
VERSION = 1
GROUP_PREFIX = "__oncelog-migration-"


class Point(NamedTuple):
    """The same place on both sides: `record_count` records lie before it, from where the copy began."""

    source_offset: int
    record_count: int
    destination_offset: int


@dataclass(frozen=True, slots=True)
class Progress:
    """One partition. `first_offset`: where the source began when the copy did; `moved`: `group_mark` of each group that has
    its position at the destination."""

    source_id: str
    destination_id: str
    first_offset: int
    source_offset: int
    count: int = 0
    points: tuple[Point, ...] = ()
    is_switched: bool = False
    moved: tuple[str, ...] = ()

    def advanced(self, source_offset: int, record_count: int) -> Progress:
        """After so many more records, which lie before this offset of the source."""
        assert source_offset >= self.source_offset, "a copy goes forward only"
        assert record_count >= 0
        return replace(self, source_offset=source_offset, count=self.count + record_count)

    def with_point(self, destination_offset: int) -> Progress:
        """The end of the destination, seen when all that was copied stands there."""
        point = Point(self.source_offset, self.count, destination_offset)
        kept = tuple(each for each in self.points if each.source_offset < point.source_offset)
        return replace(self, points=thinned((*kept, point)))

    def around(self, source_offset: int) -> tuple[Point, Point]:
        """The last known place that is not behind this offset, and the first that is not before it (else the last)."""
        low = high = Point(self.first_offset, 0, 0)
        for point in self.points:
            if point.source_offset <= source_offset:
                low = point
            high = point
            if point.source_offset >= source_offset:
                break
        return low, high

    def metadata(self) -> str:
        """As text for the commit. Raises ValueError where there is no room."""
        flat = [number for point in self.points for number in point]
        fields = [VERSION, self.source_id, self.destination_id, self.first_offset, self.count, flat]
        text = json.dumps([*fields, int(self.is_switched), "".join(self.moved)], separators=(",", ":"))
        if len(text) > METADATA_BYTES_MAX:
            raise ValueError(f"the state of a partition needs {len(text)} bytes, {METADATA_BYTES_MAX} can be stored")
        return text


def progress_of(source_offset: int, metadata: str) -> Progress:
    """What `metadata` wrote. Raises ValueError."""
    try:
        version, source_id, destination_id, first, count, flat, switched, moved = json.loads(metadata)
        if version != VERSION:
            raise ValueError(f"version {version}")
        points = tuple(Point(*flat[at : at + 3]) for at in range(0, len(flat), 3))
        marks = tuple(moved[at : at + 8] for at in range(0, len(moved), 8))
        return Progress(source_id, destination_id, first, source_offset, count, points, bool(switched), marks)
    except (TypeError, ValueError) as error:
        raise ValueError(f"not the state of a migration: {metadata[:60]!r}") from error


def thinned(points: Iterable[Point]) -> tuple[Point, ...]:
    """At most POINTS_MAX of them, the last among them: of neighbours that are close for their distance to the end one goes."""
    kept = list(points)
    while len(kept) > POINTS_MAX:
        end = kept[-1].record_count + 1
        gaps = [
            (
                (kept[i + 1].record_count - kept[i - 1].record_count if i else kept[1].record_count)
                / (end - kept[i].record_count),
                -i,
            )
            for i in range(len(kept) - 1)
        ]
        del kept[-min(gaps)[1]]
    return tuple(kept)


def is_of_migration(name: str) -> bool:
    """Whether a group or a transactional id of this name is a migration's."""
    return name.startswith(GROUP_PREFIX)


def group_mark(group_id: str) -> str:
    """Eight hexadecimal digits that stand for a group."""
    return hashlib.sha256(group_id.encode()).hexdigest()[:8]


def pause_ms(size_bytes: int, elapsed_ms: float, bytes_per_second: int | None) -> float:
    """How long to wait so that so many bytes took as long as the limit says."""
    return max(size_bytes * 1000 / bytes_per_second - elapsed_ms, 0.0) if bytes_per_second else 0.0
