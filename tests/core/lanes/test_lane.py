"""Batches in, spans out: pairing by producer id in log order, what began before the reading, bounds, joined spans."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.lanes import lane as lane_module
from oncelog.core.lanes.lane import ABORTED, COMMITTED, OPEN, Lane, Span, merged, usual_ms
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch, build_batch, build_end_txn_marker, set_offsets

AT = TopicPartition("orders", 0)


def data(offset: int, producer_id: int, at_ms: int, count: int = 1, producer_epoch: int = 0) -> RecordBatch:
    is_transactional = producer_id >= 0
    more: dict[str, Any] = {"producer_id": producer_id, "producer_epoch": producer_epoch, "base_sequence": 0}
    records = [(at_ms, None, b"x", ()) for _ in range(count)]
    batch = build_batch(records, is_transactional=is_transactional, **(more if is_transactional else {}))
    set_offsets(batch, offset, 0)
    return RecordBatch(batch)


def marker(offset: int, producer_id: int, at_ms: int, *, commit: bool = True, producer_epoch: int = 1) -> RecordBatch:
    batch = build_end_txn_marker(
        producer_id=producer_id, producer_epoch=producer_epoch, commit=commit, coordinator_epoch=0, timestamp_ms=at_ms
    )
    set_offsets(batch, offset, 0)
    return RecordBatch(batch)


def read(*batches: RecordBatch, begin: int = 0) -> Lane:
    lane = Lane(AT, begin, 0)
    for number, each in enumerate(batches):
        lane.take(each, number + 1)
    return lane


def test_a_marker_ends_the_transaction_of_its_producer_whatever_its_epoch() -> None:
    """KIP-890: the marker carries the producer epoch + 1."""
    lane = read(data(0, 7, 100, 3), data(3, 8, 110), data(4, 7, 120), marker(5, 7, 130, producer_epoch=1))
    (span,) = lane.done
    assert (span.producer_id, span.producer_epoch, span.marker_epoch) == (7, 0, 1)
    assert (span.first_offset, span.last_offset, span.marker_offset, span.record_count) == (0, 4, 5, 4)
    assert (span.begin_ms, span.end_ms, span.outcome, span.is_whole) == (100, 130, COMMITTED, True)
    assert list(lane.open) == [8]
    assert lane.open[8].outcome == OPEN
    assert (span.version, lane.open[8].version) == (4, 2)


def test_two_transactions_of_one_producer_are_two_spans() -> None:
    lane = read(data(0, 7, 1), marker(1, 7, 2, commit=False), data(2, 7, 3, producer_epoch=1), marker(3, 7, 4))
    assert [(each.first_offset, each.outcome) for each in lane.done] == [(0, ABORTED), (2, COMMITTED)]


def test_a_marker_without_data_ended_what_began_before() -> None:
    (span,) = read(marker(10, 7, 50), begin=10).done
    assert (span.first_offset, span.begin_ms, span.is_whole, span.end_ms) == (None, None, False, 50)


def test_what_a_leader_had_open_before_begins_there() -> None:
    lane = read(data(10, 7, 500), begin=10)
    lane.began_before(7, 0, 4, 40, 45)
    lane.began_before(9, 3, 2, None, 20)
    lane.began_before(5, 0, 12, 600, 600)  # will be read: it is none of what was before
    assert (lane.open[7].first_offset, lane.open[7].begin_ms, lane.open[7].is_whole) == (4, 40, False)
    assert (lane.open[9].first_offset, lane.open[9].begin_ms) == (2, None)
    assert 5 not in lane.open


def test_a_batch_that_was_taken_is_passed_over() -> None:
    """A Fetch from the middle of a batch gets the whole batch."""
    lane = read(data(0, 7, 100, 3), data(0, 7, 100, 3))
    assert lane.open[7].record_count == 3


def test_plain_records_are_no_transactions() -> None:
    lane = read(data(0, -1, 100, 2))
    assert not lane.open
    assert list(lane.plain) == [(1, 0, 100, 2)]


def test_the_holder_begins_first_and_holds_only_where_something_waits() -> None:
    lane = read(data(0, 7, 1), data(1, 8, 2))
    lane.last_stable_offset, lane.high_watermark = 0, 2
    assert lane.blocked == 2
    assert lane.holder is lane.open[7]
    lane.last_stable_offset = 2
    assert lane.holder is None


def test_memory_is_bounded_and_what_was_let_go_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lane_module, "SPANS_MAX", 2)
    lane = read(*(each for n in range(4) for each in (data(2 * n, 7, 10 * n), marker(2 * n + 1, 7, 10 * n + 5))))
    assert [each.first_offset for each in lane.done] == [4, 6]
    assert lane.complete_from_ms == 15
    lane.forget_before(30)
    assert [each.first_offset for each in lane.done] == [6]


def test_a_position_has_the_time_of_what_lies_there() -> None:
    lane = read(data(5, 7, 100), data(6, 7, 200), begin=5)
    assert [lane.time_of(offset) for offset in (4, 5, 6, 99)] == [None, 100, 200, 200]
    assert Lane(AT, 0, 0).time_of(0) is None


def test_a_time_has_the_offset_of_what_was_written_then() -> None:
    lane = read(data(5, 7, 100), data(6, 7, 200), data(7, -1, 300), begin=5)
    assert [lane.offset_at(at) for at in (0, 100, 101, 300, 301)] == [5, 5, 6, 7, None]
    assert Lane(AT, 0, 0).offset_at(0) is None


def test_a_transaction_did_not_begin_before_the_marker_that_lies_before_it() -> None:
    """Records with the time of an event of last year: each transaction had lasted a year, and a real stop was as usual."""
    late = 1_000_000
    lane = read(data(0, 8, late), marker(1, 8, late), data(2, 7, 5), marker(3, 7, late + 40), data(4, 7, 6))
    assert [(each.begin_ms, each.end_ms) for each in lane.done] == [(late, late), (late, late + 40)]
    assert lane.open[7].begin_ms == late + 40
    assert usual_ms([lane], 7) == 40
    ahead = read(data(0, 7, 2 * late), marker(1, 7, late), data(2, 8, late - 4_000))
    assert [(each.begin_ms, each.end_ms) for each in ahead.done] == [(late, late)]
    assert ahead.open[8].begin_ms == late - 4_000, "a little is left as it is told"


def test_times_far_from_their_arrival_are_noticed() -> None:
    lane, arrived_ms = read(), 1_000_000
    for batch in (data(0, 7, arrived_ms - 4_000), marker(1, 7, 5), data(2, -1, -1)):
        lane.compare_clocks(batch, arrived_ms)
    assert lane.clock_off is None, "a little late; a marker has the broker's time; no time at all"
    lane.compare_clocks(data(3, 7, arrived_ms + 90_000), arrived_ms)
    assert lane.clock_off == (arrived_ms, 7, 90_000)


def test_what_was_deleted_leaves_nothing_open() -> None:
    lane = read(data(0, 7, 100))
    lane.skip_to(50, 900)
    assert (lane.next_offset, lane.open, lane.complete_from_ms) == (50, {}, 900)


def test_joined_spans_keep_the_worst_outcome_and_their_number() -> None:
    lane = read(
        *(data(0, 7, 0), marker(1, 7, 10), data(2, 7, 12), marker(3, 7, 20, commit=False)),
        *(data(4, 8, 21), marker(5, 8, 22), data(6, 7, 500), marker(7, 7, 510)),
    )
    found = merged(lane.done, 5)
    assert [(each.producer_id, each.count, each.outcome, each.begin_ms, each.end_ms) for each in found] == [
        (7, 2, ABORTED, 0, 20),
        (8, 1, COMMITTED, 21, 22),
        (7, 1, COMMITTED, 500, 510),
    ]
    assert [each.count for each in lane.done] == [1] * 4, "the lane keeps its own"
    assert usual_ms([lane], 7) == 10
    assert usual_ms([lane], 99) is None


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["data", "commit", "abort", "plain"])), max_size=40))
def test_spans_tile_the_log(steps: list[tuple[int, str]]) -> None:
    """Every transactional record is in one span; a span ends where its producer's next marker is, as a reader sees it."""
    lane, offset = Lane(AT, 0, 0), 0
    expected: list[tuple[int, int, str]] = []
    begun: dict[int, tuple[int, int]] = {}
    for producer_id, kind in steps:
        if kind in ("data", "plain"):
            lane.take(data(offset, producer_id if kind == "data" else -1, offset, 2))
            if kind == "data":
                first, count = begun.get(producer_id, (offset, 0))
                begun[producer_id] = (first, count + 2)
            offset += 2
        else:
            lane.take(marker(offset, producer_id, offset, commit=kind == "commit"))
            if producer_id in begun:
                first, count = begun.pop(producer_id)
                expected.append((first, count, COMMITTED if kind == "commit" else ABORTED))
            offset += 1
    whole = [(each.first_offset, each.record_count, each.outcome) for each in lane.done if each.is_whole]
    assert whole == expected
    assert {p: (s.first_offset, s.record_count) for p, s in lane.open.items()} == begun
    assert sum(each.count for each in merged(lane.done, 3)) == len(lane.done)


def test_a_copy_of_a_span_has_all_its_parts() -> None:
    """`merged` copies by the slots' names."""
    assert set(Span.__slots__) == set(Span.__dataclass_fields__)
