"""Markers and decisions as rows of fixed size, in buckets by producer id: what is too much for memory goes to disk, and one
bucket is judged at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from struct import Struct
from typing import Protocol

import numpy as np

from oncelog.core.reconciliation.coordinator_log import Decision, Known
from oncelog.core.reconciliation.ended import NOTHING_GONE, Place, Unheard, judge_producer
from oncelog.core.reconciliation.findings import Finding
from oncelog.core.reconciliation.partition_replay import Ended, Open

BUCKET_COUNT = 64
_ENDED = Struct("<iqhhqqqq?i")
_DECISION = Struct("<qh??iiqiq")
ENDED = np.dtype(
    [
        ("place", "<i4"),
        ("producer_id", "<i8"),
        ("data_epoch", "<i2"),
        ("marker_epoch", "<i2"),
        ("first_offset", "<i8"),
        ("last_offset", "<i8"),
        ("marker_offset", "<i8"),
        ("marker_timestamp", "<i8"),
        ("commit", "?"),
        ("coordinator_epoch", "<i4"),
    ]
)
DECISION = np.dtype(
    [
        ("producer_id", "<i8"),
        ("producer_epoch", "<i2"),
        ("is_bumped", "?"),
        ("commit", "?"),
        ("topic", "<i4"),
        ("partition", "<i4"),
        ("prepared_ms", "<i8"),
        ("log_partition", "<i4"),
        ("offset", "<i8"),
    ]
)
assert (ENDED.itemsize, DECISION.itemsize) == (_ENDED.size, _DECISION.size)


class Rows(Protocol):
    """Where rows go: `host.spill.BucketFiles`, or memory."""

    def append(self, bucket: int, data: bytes) -> None:
        """Add to a bucket."""
        ...


def bucket_of(producer_id: int) -> int:
    """The bucket of a producer id."""
    return producer_id % BUCKET_COUNT


def put_ended(rows: Rows, place: int, ended: Ended) -> None:
    """Add a marker; `place` is the number of its log."""
    rows.append(ended.producer_id % BUCKET_COUNT, _ENDED.pack(place, *ended))


def put_decision(rows: Rows, topic: int, decision: Decision) -> None:
    """Add a decision; `topic` is the number of its topic's name."""
    row = _DECISION.pack(*decision[:4], topic, *decision[5:])
    rows.append(decision.producer_id % BUCKET_COUNT, row)


def judge_bucket(
    ended: bytes,
    decided: bytes,
    known: Sequence[Known],
    places: Sequence[Place],
    topics: Sequence[str],
    opened: Mapping[int, Sequence[tuple[Place, Open]]],
    *,
    is_whole: bool,
    clock_skew_ms: int,
    unheard: Unheard = NOTHING_GONE,
) -> Iterator[Finding]:
    """Findings about the producers of one bucket; `known` holds those of it that a coordinator knows, `opened`
    the transactions without a marker."""
    by_id = {each.producer_id: each for each in known}
    markers, decisions = np.frombuffer(ended, dtype=ENDED), np.frombuffer(decided, dtype=DECISION)
    markers = markers[np.argsort(markers["producer_id"], kind="stable")]
    decisions = decisions[np.argsort(decisions["producer_id"], kind="stable")]
    ids = set(np.unique(markers["producer_id"]).tolist()) | opened.keys()
    for producer_id in sorted(ids):
        begin, end = np.searchsorted(markers["producer_id"], [producer_id, producer_id + 1])
        low, high = np.searchsorted(decisions["producer_id"], [producer_id, producer_id + 1])
        yield from judge_producer(
            [(places[row[0]], Ended._make(row[1:])) for row in markers[begin:end].tolist()],
            [Decision._make((*row[:4], topics[row[4]], *row[5:])) for row in decisions[low:high].tolist()],
            by_id.get(producer_id),
            opened=opened.get(producer_id, ()),
            is_whole=is_whole,
            clock_skew_ms=clock_skew_ms,
            unheard=unheard,
        )
