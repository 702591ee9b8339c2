"""The aborted-transaction index: every small history, against the plainest oracle (KIP-98)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import combinations
from types import SimpleNamespace
from typing import Any

import pytest
from evidence.world.naive_log import naive_aborted

from oncelog.errors import CorruptIndex
from oncelog.log.partition_log import PartitionLog
from oncelog.log.transaction_index import aborted_from_bytes, aborted_to_bytes, collect_aborted
from oncelog.types import AbortedTransaction

LENGTH = 7 + int(os.environ.get("ONCELOG_LONG", "0") != "0")
PRODUCERS = 3


def histories(length: int) -> Iterator[list[AbortedTransaction]]:
    """The indexes of all histories: at each offset one of three producers writes, commits or aborts.

    Producers are interchangeable, so a new one is always the lowest that has not written yet.
    """

    def go(offset: int, used: int, opened: dict[int, int], entries: list[AbortedTransaction]) -> Iterator[None]:
        if offset == length:
            yield None
            return
        for producer_id in range(min(used + 1, PRODUCERS)):
            if producer_id in opened:
                first = opened.pop(producer_id)
                yield from go(offset + 1, used, opened, entries)
                entries.append(AbortedTransaction(producer_id, first, offset, min([*opened.values(), offset + 1])))
                yield from go(offset + 1, used, opened, entries)
                entries.pop()
                opened[producer_id] = first
                yield from go(offset + 1, used, opened, entries)
            else:
                opened[producer_id] = offset
                yield from go(offset + 1, max(used, producer_id + 1), opened, entries)
                del opened[producer_id]

    entries: list[AbortedTransaction] = []
    seen = set()
    for _ in go(0, 0, {}, entries):
        key = tuple(entries)
        if key not in seen:
            seen.add(key)
            yield list(entries)


def log_of(entries: list[AbortedTransaction], bounds: tuple[int, ...]) -> PartitionLog:
    log = PartitionLog.__new__(PartitionLog)
    bases = [0, *bounds]
    ends = [*bounds, 1 << 40]
    segments: list[Any] = [
        SimpleNamespace(base_offset=base, aborted=[e for e in entries if base <= e.last_offset < end])
        for base, end in zip(bases, ends, strict=True)
    ]
    log.segments = segments
    return log


def kafka(log: PartitionLog, fetch_offset: int, upper_bound_offset: int) -> list[AbortedTransaction]:
    """Kafka's scan word by word: from the segment of the fetch offset, all entries, until one's LSO reaches the bound."""
    found = []
    first = max(i for i, segment in enumerate(log.segments) if segment.base_offset <= fetch_offset)
    for segment in log.segments[first:]:
        for entry in segment.aborted:
            if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound_offset:
                found.append(entry)
            if entry.last_stable_offset >= upper_bound_offset:
                return found
    return found


def test_every_small_history_fetch_and_segmentation() -> None:
    splits = [(), *((a,) for a in range(1, LENGTH)), *combinations(range(2, LENGTH, 2), 2)]
    checked = 0
    for entries in histories(LENGTH):
        for bounds in splits:
            log = log_of(entries, bounds)
            for fetch_offset in range(LENGTH):
                for upper_bound_offset in range(fetch_offset + 1, LENGTH + 2):
                    found = log.aborted_between(fetch_offset, upper_bound_offset)
                    # Only what overlaps is listed, in marker order, so "nothing is missing" makes it exact.
                    assert found == naive_aborted(entries, fetch_offset, upper_bound_offset)
                    assert found == kafka(log, fetch_offset, upper_bound_offset)
                    checked += 1
    assert checked > 50_000


# The example of KIP-98's design of this index. It counts the LSO inclusively; the file holds Kafka's exclusive form.
EXAMPLE = [AbortedTransaction(2, 2, 5, 6), AbortedTransaction(1, 6, 9, 7)]


def test_the_two_fetches_of_the_seed() -> None:
    assert collect_aborted(EXAMPLE, 0, 5) == ([EXAMPLE[0]], True)
    assert collect_aborted(EXAMPLE[:1], 0, 6) == ([EXAMPLE[0]], True), "an LSO at the bound ends the scan"
    assert collect_aborted(EXAMPLE, 5, 9) == (EXAMPLE, False)


def test_a_fetch_at_the_marker_lists_it_and_one_past_it_does_not() -> None:
    """kafka-notes F3."""
    assert collect_aborted(EXAMPLE, 5, 6)[0] == [EXAMPLE[0]]
    assert collect_aborted(EXAMPLE, 6, 7)[0] == [EXAMPLE[1]]


def test_the_list_comes_in_marker_order() -> None:
    """kafka-notes F2: not by first offset."""
    entries = [AbortedTransaction(1, 4, 6, 2), AbortedTransaction(2, 2, 8, 9)]
    assert collect_aborted(entries, 0, 10)[0] == entries


def test_an_entry_has_34_bytes() -> None:
    data = aborted_to_bytes(AbortedTransaction(1, 2, 3, 4))
    assert data.hex() == "0000" + "".join(f"{i:016x}" for i in (1, 2, 3, 4))
    assert aborted_from_bytes(data, 0) == [AbortedTransaction(1, 2, 3, 4)]


@pytest.mark.parametrize(
    "data",
    [
        bytes(33),
        b"\0\1" + bytes(32),
        aborted_to_bytes(EXAMPLE[1]) + aborted_to_bytes(EXAMPLE[0]),
        aborted_to_bytes(EXAMPLE[1]) * 2,
        aborted_to_bytes(AbortedTransaction(1, 9, 8, 9)),
        aborted_to_bytes(AbortedTransaction(1, 0, 1, 2)),  # a marker below the segment
        bytes(34),
    ],
)
def test_a_broken_file_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptIndex):
        aborted_from_bytes(data, 2)
