"""What a read_committed reader is shown: KIP-98, every small interleaving, kafka-notes F2-F3."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from evidence.world.partition_leader import data_batch, marker_batch
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.leader.partition import Partition
from oncelog.types import AbortedTransaction
from oncelog.wire.record_batch import RecordBatch
from tests.core.consumer.visible_batches import visible_batches

DATA, COMMIT, ABORT = "data", "commit", "abort"
INTERLEAVING_COUNT = 28_114  # all of up to seven batches: a generator that loses some is noticed
Log = tuple[tuple[int, str], ...]  # (producer id, what); the position is the offset


@cache
def batch_at(offset: int, producer_id: int, what: str) -> RecordBatch:
    if what == DATA:
        return data_batch(producer_id, 0, offset, base_offset=offset)
    return marker_batch(producer_id, 0, commit=what == COMMIT, base_offset=offset)


def interleavings(length: int) -> Iterator[Log]:
    """Every log of up to three producers; a marker comes with an open transaction, or repeats the last marker."""

    def grow(log: Log, state: dict[int, str]) -> Iterator[Log]:
        if len(log) == length:
            yield log
            return
        for producer_id in range(1, min(len(state) + 1, 3) + 1):
            last = state.get(producer_id)
            for what in (DATA, COMMIT, ABORT):
                if what == DATA or last in (DATA, what):
                    yield from grow((*log, (producer_id, what)), {**state, producer_id: what})

    yield from grow((), {})


def committed_offsets(log: Log, end_offset: int) -> list[int]:
    """The definition: data whose producer's next marker is a COMMIT."""
    return [
        offset
        for offset, (producer_id, what) in enumerate(log[:end_offset])
        if what == DATA
        and next((later for other, later in log[offset:] if other == producer_id and later != DATA), None) == COMMIT
    ]


def aborted_between(index: list[AbortedTransaction], fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
    """The seed's scan: in marker order, up to the first entry whose last stable offset covers the fetched range."""
    found = []
    for entry in index:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound:
            break
    return found


def leader_of(log: Log) -> tuple[Partition, list[AbortedTransaction]]:
    partition = Partition()
    batches = (batch_at(offset, *entry) for offset, entry in enumerate(log))
    index = [entry for batch in batches if (entry := partition.replay(batch)) is not None]
    partition.recovered(log_start_offset=0, log_end_offset=len(log))
    return partition, index


def check_every_fetch(log: Log) -> None:
    partition, index = leader_of(log)
    stable = partition.last_stable_offset
    committed = committed_offsets(log, stable)
    for fetch_offset in range(stable):
        for end_offset in range(fetch_offset + 1, stable + 1):
            aborted = aborted_between(index, fetch_offset, end_offset)
            fetched = [batch_at(offset, *log[offset]) for offset in range(fetch_offset, end_offset)]
            seen = [batch.base_offset for batch in visible_batches(fetched, aborted)]
            assert seen == [offset for offset in committed if fetch_offset <= offset < end_offset], (log, aborted)
            overlapping = [
                entry for entry in index if entry.first_offset < end_offset and entry.last_offset >= fetch_offset
            ]
            assert aborted == overlapping, (log, fetch_offset, end_offset)


def test_every_small_interleaving_and_every_fetch_of_it():
    """The view is the definition's; the stop rule of the scan leaves no overlapping transaction out."""
    count = 0
    for length in range(1, 8):
        for log in interleavings(length):
            check_every_fetch(log)
            count += 1
    assert count == INTERLEAVING_COUNT


@given(st.lists(st.tuples(st.integers(1, 4), st.sampled_from([DATA, DATA, COMMIT, ABORT])), max_size=25))
def test_longer_logs_of_four_producers(steps: list[tuple[int, str]]):
    log: list[tuple[int, str]] = []
    state: dict[int, str] = {}
    for producer_id, what in steps:
        if what == DATA or state.get(producer_id) in (DATA, what):
            log.append((producer_id, what))
            state[producer_id] = what
    check_every_fetch(tuple(log))


def test_batches_of_several_records_and_plain_batches_between():
    plain = data_batch(-1, -1, -1, 2, transactional=False, base_offset=3)
    same_producer_plain = data_batch(1, 0, 9, transactional=False, base_offset=7)
    log = [
        data_batch(1, 0, 0, 3, base_offset=0),
        plain,
        data_batch(1, 0, 3, 1, base_offset=5),
        marker_batch(1, 0, commit=False, base_offset=6),
        same_producer_plain,
    ]
    assert list(visible_batches(log, [AbortedTransaction(1, 0, 6, 7)])) == [plain, same_producer_plain]
    assert list(visible_batches(log[2:], [AbortedTransaction(1, 0, 6, 7)])) == [same_producer_plain]


def test_a_fetch_that_begins_inside_the_first_batch_of_an_aborted_transaction():
    log = [data_batch(1, 0, 0, 5, base_offset=10), marker_batch(1, 0, commit=False, base_offset=15)]
    assert list(visible_batches(log, [AbortedTransaction(1, 10, 15, 16)])) == []


def test_a_plain_batch_of_an_aborted_producer_is_visible():
    plain = data_batch(1, 0, 1, transactional=False, base_offset=1)
    log = [data_batch(1, 0, 0, base_offset=0), plain, marker_batch(1, 0, commit=False, base_offset=2)]
    assert list(visible_batches(log, [AbortedTransaction(1, 0, 2, 3)])) == [plain]


def test_the_list_may_name_transactions_beyond_the_fetched_range():
    """kafka-notes F2: without offset index entries the upper bound is the log end."""
    first = data_batch(1, 0, 0, base_offset=0)
    assert list(visible_batches([first], [AbortedTransaction(1, 50, 60, 61)])) == [first]


def test_read_uncommitted_sees_all_but_markers():
    log = [data_batch(1, 0, 0, base_offset=0), marker_batch(1, 0, commit=False, base_offset=1)]
    assert list(visible_batches(log, None)) == log[:1]


def test_abort_abort_commit_of_one_transaction_shows_nothing():
    """kafka-notes M4: a log that Kafka has written; the first marker decides."""
    log = [
        data_batch(1, 0, 0, base_offset=0),
        marker_batch(1, 1, commit=False, base_offset=1),
        marker_batch(1, 1, commit=False, base_offset=2),
        marker_batch(1, 1, commit=True, base_offset=3),
        data_batch(1, 1, 0, base_offset=4),
        marker_batch(1, 2, commit=True, base_offset=5),
    ]
    assert [batch.base_offset for batch in visible_batches(log, [AbortedTransaction(1, 0, 1, 2)])] == [4]
