"""Which offsets a read covers: pure arithmetic over offset maps, so that every rule is tested without Spark.

An offset map is {topic: {partition: offset}}; a range is [start, end). Rules: every range ends at or before the last
stable offset, a partition that appears later starts at its log start, and an offset belongs to a topic by its id: a topic
that was made again under the same name is another one. What Spark stores: stream_offset.py.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import field
from itertools import pairwise

from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.options import EARLIEST, LATEST, Offsets, Times

GO_ON = "(failOnDataLoss=false goes on with what is there)"


class DataLoss(RuntimeError):
    """Records between where a reader stood and what the log has now are gone (option failOnDataLoss)."""


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Records [start, end) of one partition."""

    topic: str
    partition: int
    start: int
    end: int

    @property
    def size(self) -> int:
        return self.end - self.start


@dataclass(frozen=True)
class Bounds:
    """Where the log's partitions begin and end (the last stable offset for a read_committed reader), and the topics' ids."""

    earliest: Offsets
    latest: Offsets
    topic_ids: Mapping[str, str] = field(default_factory=dict)


def resolve(wanted: int | Offsets, bounds: Bounds, name: str) -> Offsets:
    """Starting or ending offsets as numbers. Raises ConfigurationError where the option names other partitions."""
    if wanted == EARLIEST:
        return copy_of(bounds.earliest)
    if wanted == LATEST:
        return copy_of(bounds.latest)
    assert isinstance(wanted, dict)
    _check_partitions(wanted, bounds, name)
    special = {EARLIEST: bounds.earliest, LATEST: bounds.latest}
    return {
        topic: {p: special[offset][topic][p] if offset in special else offset for p, offset in partitions.items()}
        for topic, partitions in wanted.items()
    }


def _check_partitions(wanted: Offsets, bounds: Bounds, name: str) -> None:
    have = {(t, p) for t, partitions in bounds.latest.items() for p in partitions}
    named = {(t, p) for t, partitions in wanted.items() for p in partitions}
    if have != named:
        missing, extra = sorted(have - named), sorted(named - have)
        told = [
            f"{what} {', '.join(f'{t}-{p}' for t, p in each)}"
            for what, each in (("missing", missing), ("too many", extra))
            if each
        ]
        raise ConfigurationError(f"{name} names other partitions than are read: {'; '.join(told)}")


def times_of(times: Times, bounds: Bounds, name: str) -> Offsets:
    """The time (ms) of each partition. Raises ConfigurationError where the option names other partitions."""
    if isinstance(times.ms, int):
        return {topic: dict.fromkeys(partitions, times.ms) for topic, partitions in bounds.latest.items()}
    _check_partitions(times.ms, bounds, name)
    return copy_of(times.ms)


def found_at(times_ms: Offsets, found: Offsets, bounds: Bounds, name: str, *, or_latest: bool) -> Offsets:
    """Offsets by time; where no record is that late the end, or ConfigurationError."""
    offsets: Offsets = {}
    for topic, partitions in times_ms.items():
        for partition, ms in partitions.items():
            offset = found.get(topic, {}).get(partition)
            if offset is None and not or_latest:
                raise ConfigurationError(
                    f"{name}: {topic}-{partition} has no record at or after {ms} ms "
                    "(startingOffsetsByTimestampStrategy=latest begins at its end)"
                )
            offsets.setdefault(topic, {})[partition] = bounds.latest[topic][partition] if offset is None else offset
    return offsets


def copy_of(offsets: Mapping[str, Mapping[int, int]]) -> Offsets:
    """A map of its own."""
    return {topic: dict(partitions) for topic, partitions in offsets.items()}


def with_new_partitions(start: Offsets, bounds: Bounds) -> Offsets:
    """`start`, with partitions that it does not know at their log start."""
    complete = copy_of(start)
    for topic, partitions in bounds.earliest.items():
        for partition, offset in partitions.items():
            complete.setdefault(topic, {}).setdefault(partition, offset)
    return complete


def limited_end(start: Offsets, latest: Offsets, records_max: int | None) -> Offsets:
    """Where a micro-batch ends: at `latest`, or so that about `records_max` offsets are shared out by backlog.

    As in Spark's Kafka source a share is rounded down, but a partition with a backlog moves by at least one.
    """
    backlog = {
        (t, p): end - start.get(t, {}).get(p, end) for t, partitions in latest.items() for p, end in partitions.items()
    }
    total = sum(size for size in backlog.values() if size > 0)
    if records_max is None or total <= records_max:
        return {t: {p: max(end, start.get(t, {}).get(p, end)) for p, end in ps.items()} for t, ps in latest.items()}
    limited: Offsets = {}
    for (topic, partition), size in backlog.items():
        begin = start.get(topic, {}).get(partition, latest[topic][partition])
        share = records_max * max(size, 0) / total
        step = math.ceil(share) if share < 1 else math.floor(share)
        limited.setdefault(topic, {})[partition] = begin + min(step, max(size, 0))
    return limited


def made_anew(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Topics that have another id now: deleted, and made again under the same name."""
    return sorted(t for t, topic_id in before.items() if topic_id and now.get(t) and now[t] != topic_id)


def without(offsets: Offsets, topics: Collection[str]) -> Offsets:
    """`offsets` of the other topics."""
    return {topic: partitions for topic, partitions in offsets.items() if topic not in topics}


def with_others(end: Offsets, start: Offsets) -> Offsets:
    """`end`, and of what is not read now where it was: who reads it again goes on there."""
    merged = copy_of(start)
    for topic, partitions in end.items():
        merged.setdefault(topic, {}).update(partitions)
    return merged


def beyond(end: Offsets, latest: Offsets) -> list[tuple[str, int, int, int]]:
    """Ends that lie behind the log's: (topic, partition, wanted end, the log's end), 0 where it has no such partition."""
    found = []
    for topic, partitions in sorted(end.items()):
        for partition, offset in sorted(partitions.items()):
            log_end = latest.get(topic, {}).get(partition, 0)
            if offset > log_end:
                found.append((topic, partition, offset, log_end))
    return found


def not_beyond(end: Offsets, latest: Offsets) -> Offsets:
    """`end`, nowhere behind the log's."""
    return {t: {p: min(offset, latest.get(t, {}).get(p, 0)) for p, offset in ps.items()} for t, ps in end.items()}


def moved(start: Offsets, end: Offsets) -> Offsets:
    """Of `end` the partitions that are elsewhere than at `start`."""
    found: Offsets = {}
    for topic, partitions in end.items():
        for partition, offset in partitions.items():
            if start.get(topic, {}).get(partition) != offset:
                found.setdefault(topic, {})[partition] = offset
    return found


def ranges(start: Offsets, end: Offsets, log_start: Offsets, *, fail_on_data_loss: bool) -> list[OffsetRange]:
    """The ranges to read, one for a partition with something in it.

    Raises:
        DataLoss: a start lies before the log's start, or an end before its start (the topic was made anew).
    """
    found = []
    for topic, partitions in sorted(end.items()):
        for partition, end_offset in sorted(partitions.items()):
            first = log_start.get(topic, {}).get(partition, 0)
            begin = start.get(topic, {}).get(partition, first)
            if begin == end_offset:
                continue
            if (begin < first or end_offset < begin) and fail_on_data_loss:
                raise DataLoss(
                    f"{topic}-{partition}: records from {begin} are wanted up to {end_offset}, the log starts at {first}: "
                    f"they were deleted, or the topic was made anew {GO_ON}"
                )
            begin = max(begin, first)
            if end_offset > begin:
                found.append(OffsetRange(topic, partition, begin, end_offset))
    return found


def not_reversed(start: Offsets, end: Offsets, latest: Offsets) -> Offsets:
    """The end of a batch read, moved to a start behind it where only the last stable offset (`latest`) ends the read.

    Raises:
        ConfigurationError: the options end a partition before its start.
    """
    ends: Offsets = {}
    for topic, partitions in end.items():
        for partition, offset in partitions.items():
            begin = start.get(topic, {}).get(partition, offset)
            if offset < begin and offset < latest[topic][partition]:
                raise ConfigurationError(
                    f"{topic}-{partition}: the read begins at offset {begin} and ends before, at {offset}: look at the "
                    "options that begin with 'starting' and 'ending'"
                )
            ends.setdefault(topic, {})[partition] = max(begin, offset)
    return ends


def backlog(start: Offsets, end: Offsets) -> int:
    """How many offsets lie between."""
    return sum(max(o - start.get(t, {}).get(p, o), 0) for t, ps in end.items() for p, o in ps.items())


def split(whole: list[OffsetRange], count_min: int | None, size_max: int | None = None) -> list[OffsetRange]:
    """Ranges of at most `size_max`, and at least `count_min` of them, by cutting large ones evenly (each fetch brings its own
    aborted transactions)."""
    pieces = whole if size_max is None else [part for r in whole for part in _cut(r, math.ceil(r.size / size_max))]
    if count_min is None or len(pieces) >= count_min:
        return pieces
    total = sum(r.size for r in pieces)
    return [part for r in pieces for part in _cut(r, max(1, min(r.size, round(count_min * r.size / total))))]


def _cut(r: OffsetRange, count: int) -> list[OffsetRange]:
    cuts = [r.start + r.size * i // count for i in range(count + 1)]
    return [OffsetRange(r.topic, r.partition, a, b) for a, b in pairwise(cuts)]
