"""How it was at a moment that is over: who was open, where the last stable offset stood, what cannot be known."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.lanes.lane import ABORTED, COMMITTED, OPEN
from oncelog.core.lanes.past import FOREVER, PastLane, PastView, Window
from oncelog.core.lanes.view import ACTIVE, STOPPED, WAITING
from oncelog.wire.record_batch import RecordBatch
from tests.core.lanes.test_lane import AT, data, marker

S = 1000
LATE = 1 << 40


def past(
    *batches: RecordBatch, moment: int, end: int, begin: int = 0, from_ms: int = 0, at_ms: int | None = None
) -> PastLane:
    """Its times are those of the markers behind its offsets, unless said otherwise."""

    def time_of(offset: int) -> int:
        return min(
            (each.max_timestamp for each in batches if each.is_control and each.base_offset >= offset), default=LATE
        )

    at_ms = time_of(moment) if at_ms is None else at_ms
    lane = PastLane(AT, begin, Window(from_ms, at_ms, max(at_ms, time_of(end))), moment, end)
    for each in batches:
        lane.take(each)
    lane.is_read_to_end = True
    return lane


def view(lane: PastLane, at_s: int, to_s: int = 100) -> PastView:
    return PastView(at_s * S, to_s * S, (lane,), to_ms=to_s * S)


def freeze() -> PastLane:
    """7 wrote at 10 s and was aborted at 60 s; 8 committed at 21 s, behind it; the moment is 30 s."""
    lane = past(
        *(data(0, 7, 10 * S), data(1, 8, 20 * S), marker(2, 8, 21 * S), data(3, 9, 40 * S), marker(4, 9, 41 * S)),
        marker(5, 7, 60 * S, commit=False),
        moment=3,
        end=6,
    )
    lane.finish()
    return lane


def test_who_held_readers_back_then_and_what_became_of_it() -> None:
    lane = freeze()
    assert (lane.last_stable_offset, lane.high_watermark, lane.blocked) == (0, 3, 3)
    (found,) = view(lane, 30).open()
    assert (found.producer_id, found.holds, found.begin_ms) == (7, (lane,), 10 * S)
    assert view(lane, 30).word(lane) == STOPPED
    assert view(lane, 30).became(found) == "aborted at 00:01:00, 30s later"
    assert view(lane, 30).verdict() == (
        "1970-01-01 00:00:30 UTC: stopped: 1 of 1 partition, oldest by producer 7 for 20s"
    )
    assert [each.producer_id for each in lane.held(100 * S)] == [7]
    assert [(each.producer_id, each.outcome) for each in lane.done] == [(8, COMMITTED), (9, COMMITTED)]
    assert view(lane, 30).since_ms == 0


def test_before_and_behind_it_nobody_was_stopped() -> None:
    for moment in (0, 6):
        lane = past(data(0, 7, 10 * S), marker(1, 7, 60 * S), moment=moment, end=6)
        lane.finish()
        assert (lane.blocked, view(lane, 5).word(lane)) == (0, ACTIVE)


def test_who_began_behind_the_moment_is_not_open_then() -> None:
    lane = past(data(0, 7, 10), marker(1, 7, 20), data(2, 7, 40, producer_epoch=1), moment=2, end=9)
    lane.finish()
    assert (lane.open, [each.first_offset for each in lane.later]) == ({}, [2])


def test_behind_the_window_only_what_it_ended_is_kept() -> None:
    lane = past(
        *(data(0, 7, 10), data(1, 8, 30), marker(2, 8, 31), data(3, 9, 40), data(4, 7, 50), marker(5, 9, 51)),
        *(data(6, -1, 52), marker(7, 7, 60)),
        moment=1,
        end=2,
    )
    lane.finish()
    assert [(each.producer_id, each.outcome) for each in [*lane.open.values(), *lane.done]] == [
        (7, COMMITTED),
        (8, COMMITTED),
    ]
    assert lane.open[7].record_count == 2, "it went on behind the window"
    assert not lane.plain
    assert lane.next_offset == 8


def test_a_marker_without_data_claims_nothing() -> None:
    """It began before what was read, or it wrote nothing here."""
    lane = past(data(10, 8, 10 * S), marker(11, 8, 11 * S), marker(12, 7, 50 * S), moment=12, end=20, begin=10)
    lane.finish()
    assert (lane.open, lane.blocked) == ({}, 0)
    assert [each.producer_id for each in lane.unsure_then] == [7]
    assert lane.held(100 * S) == []
    again = past(*(marker(n, 7, n) for n in (10, 11, 12)), moment=13, end=13, begin=10)
    assert len(again.done) == 1, "of its second marker it is known that it ended what wrote nothing"
    assert not past(marker(0, 7, 1), moment=9, end=9).done, "nothing lies before a log's first offset"


def test_what_was_aborted_began_where_the_leader_says() -> None:
    lane = past(moment=12, end=20, begin=10, from_ms=5 * S, at_ms=30 * S)
    lane.began_before(7, -1, 4, None, 0)
    lane.take(marker(15, 7, 50 * S, commit=False, producer_epoch=3))
    lane.finish()
    (span,) = lane.open.values()
    assert (span.first_offset, span.producer_epoch, span.outcome) == (4, 3, ABORTED)
    assert (lane.last_stable_offset, lane.blocked) == (4, 8)
    assert [view(lane, at).word(lane) for at in (9, 30)] == [WAITING, STOPPED], "how long before 5 s, nobody knows"
    assert lane.held(60 * S) == [span]


def test_a_first_batch_in_the_middle_of_its_sequence_may_not_be_the_first() -> None:
    first = data(10, 7, 10)
    first.base_sequence = 4
    again = data(12, 7, 12)
    again.base_sequence = 5
    lane = past(first, marker(11, 7, 11), again, marker(13, 7, 13), data(14, 8, 14), moment=20, end=20, begin=10)
    assert [each.is_begin_known for each in [*lane.done, *lane.open.values()]] == [False, True, True]


def test_of_two_that_hold_one_behind_the_other_both_are_told_and_none_that_was_inside() -> None:
    lane = past(
        *(data(0, 1, 0), data(1, 2, 5 * S), data(2, 3, 6 * S), marker(3, 3, 20 * S), marker(4, 1, 30 * S)),
        *(marker(5, 2, 50 * S), data(6, 4, 51 * S), data(7, 5, 99 * S)),
        moment=3,
        end=8,
    )
    lane.finish()
    assert [each.producer_id for each in lane.held(100 * S)] == [1, 2, 4]
    lane.open_now = {4: 6}
    four, five = lane.later
    assert (lane.became(four), lane.became(five)) == ("open to this day", "open as far as was read")


def test_what_was_deleted_is_told() -> None:
    lane = past(data(10, -1, 40 * S), moment=10, end=11, begin=10)
    lane.finish()
    lane.was_deleted(30 * S)
    assert lane.error == "OFFSET_OUT_OF_RANGE"
    assert lane.error_text == (
        "what lay before offset 10 was deleted; the first that is left is of 1970-01-01 00:00:40 UTC"
    )
    part = past(data(10, -1, 40 * S), moment=11, end=11, begin=10)
    part.was_deleted(50 * S)
    assert (part.error, part.complete_from_ms) == (None, 40 * S)


def ahead(*more: RecordBatch, at_ms: int = 30 * S) -> PastLane:
    """9's clock is an hour ahead: by the records' times every moment of that hour lies at offset 1."""
    late = 3_600 * S
    log = (data(0, 7, 10 * S), data(1, 9, late), marker(2, 9, 11 * S), data(3, 8, 20 * S), marker(4, 8, 21 * S), *more)
    return past(*log, moment=1, end=1, at_ms=at_ms)


def test_a_clock_that_is_ahead_does_not_move_the_moment() -> None:
    """What came before it would have been said not to be there yet, or to be open."""
    lane = ahead(data(5, 8, 31 * S), marker(6, 8, 32 * S), marker(7, 7, 60 * S))
    assert lane.clock_off == (11 * S, 9, 3_589 * S)
    lane.finish()
    assert (lane.at_offset, lane.last_stable_offset, lane.blocked) == (5, 0, 5)
    assert [(each.producer_id, each.marker_offset) for each in lane.open_then] == [(7, 7)]
    assert [each.producer_id for each in lane.done] == [9, 8, 8]
    assert lane.unsure_then == []


def test_a_moment_that_was_not_found_is_not_told() -> None:
    lane = ahead(marker(5, 5, 22 * S))
    lane.is_read_to_end = False
    lane.finish()
    assert (lane.error, lane.high_watermark) == ("REQUEST_TIMED_OUT", None)
    assert "times that are not those they came at" in lane.error_text
    whole = ahead(marker(5, 5, 22 * S))
    whole.finish()
    assert (whole.error, whole.at_offset, list(whole.open)) == (None, 6, [7]), "it is behind everything"
    slow = past(data(0, 7, 1), moment=9, end=9)
    slow.is_read_to_end = False
    slow.finish()
    assert slow.error_text == "reading up to that moment took too long: ask again"


def test_a_clock_that_is_behind_does_not_move_the_moment() -> None:
    """By the records' times it lies at offset 4; a marker before that was written after it."""
    log = (data(0, 7, 5 * S), marker(1, 6, 9 * S), data(2, 8, 2 * S), marker(3, 7, 40 * S), data(4, 8, 31 * S))
    lane = past(*log, moment=4, end=9, at_ms=30 * S)
    lane.finish()
    assert (lane.at_offset, [each.producer_id for each in lane.open_then]) == (3, [7, 8])
    assert lane.clock_off == (40 * S, 8, -9 * S)


@given(
    st.lists(st.tuples(st.integers(0, 3), st.sampled_from(["data", "commit", "abort", "plain"])), max_size=40),
    st.integers(0, 40),
    st.integers(0, 40),
)
def test_what_is_said_of_a_moment_is_what_was_true_then(steps: list[tuple[int, str]], moment: int, behind: int) -> None:
    """Against a reader that saw the log when it ended there: the same transactions are open, at the same first offsets."""
    lane = PastLane(AT, 0, Window(0, moment, moment + behind), moment, moment + behind)
    lane.is_read_to_end = True
    begun: dict[int, int] = {}
    then: dict[int, int] = {}
    for offset, (producer_id, kind) in enumerate(steps):
        if offset == moment:
            then = dict(begun)
        if kind in ("data", "plain"):
            lane.take(data(offset, producer_id if kind == "data" else -1, offset))
            if kind == "data":
                begun.setdefault(producer_id, offset)
        else:
            lane.take(marker(offset, producer_id, offset, commit=kind == "commit"))
            begun.pop(producer_id, None)
    lane.finish()
    expected = then if moment < len(steps) else begun
    assert {each.producer_id: each.first_offset for each in lane.open.values()} == expected
    assert lane.last_stable_offset == min([moment, len(steps), *expected.values()])
    for span in lane.open.values():
        assert (span.outcome == OPEN) is (begun.get(span.producer_id) == span.first_offset)
        assert (span.marker_offset or FOREVER) >= moment
