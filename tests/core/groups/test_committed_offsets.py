"""The offset tables against a naive model, and against a replay of every prefix of what they were given."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.groups.committed_offsets import CommittedOffsets
from oncelog.types import TopicPartition
from oncelog.wire.log_records.consumer_offsets import OffsetCommit, OffsetDeleted

PARTITIONS = [TopicPartition("t", index) for index in range(3)]

plain = st.builds(OffsetCommit, st.just("g"), st.just("t"), st.integers(0, 2), st.integers(0, 99))
transactional = st.builds(
    OffsetCommit,
    st.just("g"),
    st.just("t"),
    st.integers(0, 2),
    st.integers(100, 199),
    producer_id=st.integers(1, 2),
    producer_epoch=st.just(0),
)
deleted = st.builds(OffsetDeleted, st.just("g"), st.just("t"), st.integers(0, 2))
marker = st.tuples(st.integers(1, 2), st.booleans())
logs = st.lists(plain | transactional | deleted | marker, max_size=30)


def fed(entries: list[Any], *, appends: bool = False) -> CommittedOffsets:
    offsets = CommittedOffsets()
    for entry in entries:
        if isinstance(entry, tuple):
            offsets.apply_marker(entry[0], 0, commit=entry[1])
        else:
            if appends:
                offsets.appended(entry)
            offsets.apply(entry)
    return offsets


def seen(offsets: CommittedOffsets) -> Any:
    found = {each: offsets.get("g", each) for each in PARTITIONS}
    return {each: record and record.offset for each, record in found.items()}, {
        each for each in PARTITIONS if offsets.is_unstable("g", each)
    }


def naive(entries: list[Any]) -> Any:
    """For each partition, the last deciding entry of the log: quadratic and obvious."""
    values, unstable = {}, set()
    for partition in PARTITIONS:
        value, at = None, -1
        for index, entry in enumerate(entries):
            if isinstance(entry, tuple) or entry.partition != partition.partition:
                continue
            if isinstance(entry, OffsetDeleted):
                value, at = None, index
            elif not entry.is_transactional:
                value, at = entry.offset, index
        for index, entry in enumerate(entries):
            if not isinstance(entry, OffsetCommit) or not entry.is_transactional:
                continue
            if entry.partition != partition.partition:
                continue
            rest = entries[index + 1 :]
            end = next((i for i, e in enumerate(rest) if isinstance(e, tuple) and e[0] == entry.producer_id), len(rest))
            is_deleted = any(isinstance(e, OffsetDeleted) and e.partition == entry.partition for e in rest[:end])
            if is_deleted:
                continue
            if end == len(rest):
                unstable.add(partition)
            elif rest[end][1] and index > at and not _deleted_after(rest[end:], entry.partition):
                value, at = entry.offset, index
        values[partition] = value
    return values, unstable


def _deleted_after(rest: list[Any], partition: int) -> bool:
    return any(isinstance(each, OffsetDeleted) and each.partition == partition for each in rest)


@given(logs)
def test_readers_see_what_the_log_says(entries):
    assert seen(fed(entries)) == naive(entries)


@given(logs)
def test_appends_that_were_resolved_leave_no_trace(entries):
    live = fed(entries, appends=True)
    assert seen(live) == seen(fed(entries))
    assert live.has_any("g") == fed(entries).has_any("g")


@given(st.lists(plain | transactional, min_size=1, max_size=6))
def test_what_is_on_its_way_is_covered_by_a_deletion(records):
    offsets = CommittedOffsets()
    for record in records:
        offsets.appended(record)
    partitions = {TopicPartition("t", each.partition) for each in records}
    assert offsets.all_partitions("g") == partitions
    assert all(offsets.is_on_its_way("g", each) for each in partitions)
    for record in records:
        offsets.resolved(record)
    assert offsets.all_partitions("g") == set()
    assert not offsets.has_any("g")
