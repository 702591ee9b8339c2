"""The window of a share partition: the KIP's examples, and drawn histories against a model of single records."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.share.runs import RecordState
from oncelog.core.share.settings import ShareSettings
from oncelog.core.share.window import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    BatchSpan,
    Change,
    RefusedAcknowledgement,
    StateBatch,
    Window,
)
from oncelog.errors import ErrorCode

PLAIN = ShareSettings()
A = RecordState.AVAILABLE
ACQUIRED, ACKED, ARCHIVED = RecordState.ACQUIRED, RecordState.ACKNOWLEDGED, RecordState.ARCHIVED


def spans(first, count, size, aborted=()):
    return [BatchSpan(base, base + size - 1, base in aborted) for base in range(first, first + count * size, size)]


def acquire(window, member="m", *, batches=None, records_max=500, batch_size=500, settings=PLAIN, now_ms=0, **options):
    batches = spans(0, 10, 10) if batches is None else batches
    left = [each for each in batches if each.last_offset >= window.next_offset]
    found = window.acquire(
        member,
        window.next_offset,
        left,
        settings,
        records_max=records_max,
        batch_size=batch_size,
        now_ms=now_ms,
        **options,
    )
    return [tuple(each) for each in found]


def said(window, member, first, last, *types, settings=PLAIN, now_ms=0):
    return window.acknowledge(member, [Acknowledgement(first, last, types)], settings, now_ms)


def shown(window):
    return [(run.first, run.last, run.state, run.delivery_count) for run in window]


def test_the_life_of_ten_records():
    window = Window(0)
    assert acquire(window, batches=spans(0, 1, 10)) == [(0, 9, 1)]
    change = said(window, "m", 0, 3, ACCEPT)
    assert change == Change(0, 4, (StateBatch(0, 3, ACKED, 1),)), "with the start offset before it, as Kafka stores it"
    assert (window.start_offset, window.complete_count) == (4, 0)
    said(window, "m", 4, 5, RELEASE, REJECT)
    assert shown(window) == [(4, 4, A, 1), (5, 5, ARCHIVED, 1), (6, 9, ACQUIRED, 1)]
    assert acquire(window, "n", batches=spans(0, 1, 10)) == [(4, 4, 2)]
    assert window.release("m", PLAIN) == Change(4, 1, (StateBatch(6, 9, A, 1),))
    said(window, "n", 4, 4, ACCEPT)
    assert (window.start_offset, window.next_offset, window.end_offset) == (6, 6, 10)


def test_whole_batches_come_and_exactly_so_many_only_on_request():
    window = Window(0)
    assert acquire(window, records_max=15) == [(0, 19, 1)], "the second batch whole"
    assert acquire(window, records_max=15, is_exact=True) == [(20, 34, 1)]
    assert acquire(window, records_max=25, batch_size=10) == [(35, 49, 1), (50, 59, 1)], "cut at batches"


def test_there_are_no_more_locks_than_that():
    settings = replace(PLAIN, locks_max=100)
    window = Window(0)
    assert acquire(window, batches=spans(0, 15, 10), settings=settings) == [(0, 99, 1)]
    assert not window.can_acquire(settings)
    assert acquire(window, batches=spans(0, 15, 10), settings=settings) == []
    said(window, "m", 50, 59, RELEASE)
    assert window.can_acquire(settings), "what came back may be given again"
    assert acquire(window, "n", batches=spans(0, 15, 10), settings=settings) == [(50, 59, 2)]
    said(window, "m", 0, 9, ACCEPT)
    assert acquire(window, "n", batches=spans(0, 15, 10), settings=settings) == [(100, 109, 1)]


def test_who_has_not_got_a_record_says_nothing_of_it():
    window = Window(0)
    acquire(window, batches=spans(0, 1, 10))
    for member, first, last, types, code in (
        ("n", 3, 3, (ACCEPT,), ErrorCode.INVALID_RECORD_STATE),
        ("m", 10, 10, (ACCEPT,), ErrorCode.INVALID_REQUEST),
        ("m", 9, 10, (ACCEPT,), ErrorCode.INVALID_REQUEST),
    ):
        refused = said(window, member, first, last, *types)
        assert isinstance(refused, RefusedAcknowledgement)
        assert refused.error_code is code
    twice = [Acknowledgement(0, 1, (ACCEPT,)), Acknowledgement(1, 2, (ACCEPT,))]
    assert isinstance(window.acknowledge("m", twice, PLAIN, 0), RefusedAcknowledgement)
    assert shown(window) == [(0, 9, ACQUIRED, 1)], "nothing of a refused request is taken"
    said(window, "m", 0, 9, ACCEPT)
    assert said(window, "m", 0, 9, ACCEPT) == Change(10, 0, ()), "a repeated one below the start passes"


def test_a_lock_ends_unless_it_is_renewed():
    window = Window(0)
    acquire(window, batches=spans(0, 2, 10), now_ms=1_000)
    assert window.next_deadline_ms == 31_000
    assert said(window, "m", 0, 9, RENEW, now_ms=5_000) == Change(0, 0, ())
    assert window.expire(30_999, PLAIN) is None
    assert window.expire(31_000, PLAIN) == Change(0, 0, (StateBatch(10, 19, A, 1),))
    assert window.next_deadline_ms == 35_000


def test_a_record_comes_so_often_and_no_more():
    settings = replace(PLAIN, delivery_count_limit=2)
    window = Window(0)
    acquire(window, batches=spans(0, 1, 1), settings=settings)
    window.release("m", settings)
    assert acquire(window, batches=spans(0, 1, 1), settings=settings) == [(0, 0, 2)]
    assert window.release("m", settings) == Change(0, 1, (StateBatch(0, 0, ARCHIVED, 2),))
    assert (window.start_offset, window.next_offset) == (1, 1)


def test_records_that_nobody_takes_come_in_ever_smaller_company():
    window = Window(0)
    sizes = []
    for _ in range(5):
        (first, last, _), *others = acquire(window, batches=spans(0, 1, 100))
        assert not others
        sizes.append(last - first + 1)
        window.release("m", PLAIN)
    assert sizes == [100, 100, 100, 50, 1]


def test_aborted_batches_and_holes_are_for_nobody():
    window = Window(0)
    batches = [BatchSpan(2, 4), BatchSpan(5, 6, is_aborted=True), BatchSpan(9, 9)]
    assert acquire(window, batches=batches) == [(2, 4, 1), (9, 9, 1)]
    assert shown(window) == [(2, 4, ACQUIRED, 1), (5, 8, ARCHIVED, 0), (9, 9, ACQUIRED, 1)]
    assert window.start_offset == 2
    only_aborted = Window(0)
    assert acquire(only_aborted, batches=spans(0, 3, 10, aborted=(0, 10, 20))) == []
    assert (only_aborted.start_offset, only_aborted.next_offset) == (30, 30)


def test_deleted_records_are_done_with():
    window = Window(0)
    acquire(window, batches=spans(0, 1, 10))
    window.move_start(4)
    assert shown(window) == [(4, 9, ACQUIRED, 1)]
    assert said(window, "m", 0, 3, ACCEPT) == Change(4, 0, ())
    window.move_start(20)
    assert (shown(window), window.start_offset, window.end_offset) == ([], 20, 20)


def test_what_was_stored_is_where_it_begins():
    stored = [StateBatch(3, 5, ACKED, 1), StateBatch(8, 8, A, 2), StateBatch(0, 1, ACKED, 1)]
    window = Window(0, stored)
    assert shown(window) == [(2, 2, A, 0), (3, 5, ACKED, 1), (6, 7, A, 0), (8, 8, A, 2)]
    assert (window.start_offset, window.end_offset) == (2, 9)


class Model:
    """Single records, and what of them is stored."""

    def __init__(self):
        self.state, self.count, self.owner = {}, {}, {}
        self.stored = {}


steps = st.lists(
    st.one_of(
        st.tuples(st.just("acquire"), st.sampled_from("mn"), st.integers(1, 12), st.booleans()),
        st.tuples(
            st.just("say"),
            st.sampled_from("mn"),
            st.integers(0, 39),
            st.integers(0, 6),
            st.sampled_from((GAP, ACCEPT, RELEASE, REJECT)),
        ),
        st.tuples(st.just("release"), st.sampled_from("mn")),
        st.tuples(st.just("crash")),
    ),
    max_size=40,
)


@given(steps, st.sets(st.sampled_from(range(0, 40, 4))))
def test_drawn_histories(history, aborted):
    """No two members have a record; what is acknowledged stays so, also after a crash; no record comes more often than it may;
    what nobody acknowledged is never lost."""
    settings = replace(PLAIN, delivery_count_limit=3)
    batches = spans(0, 10, 4, aborted)
    window, stored, start_offset = Window(0), {}, 0
    owner, done, deliveries = {}, set(), dict.fromkeys(range(40), 0)

    def take(change):
        nonlocal start_offset
        for each in change.batches:
            for offset in range(each.first_offset, each.last_offset + 1):
                stored[offset] = StateBatch(offset, offset, each.state, each.delivery_count)
        assert change.start_offset >= start_offset
        start_offset = change.start_offset

    for step in history:
        if step[0] == "acquire":
            for first, last, count in acquire(
                window, step[1], batches=batches, records_max=step[2], settings=settings, is_exact=step[3]
            ):
                for offset in range(first, last + 1):
                    assert offset not in owner
                    assert offset not in done
                    assert offset - offset % 4 not in aborted
                    owner[offset] = step[1]
                    assert 1 <= count <= 3
                    deliveries[offset] = count
        elif step[0] == "say":
            _, member, first, more, kind = step
            last = min(first + more, 39)
            outcome = said(window, member, first, last, kind, settings=settings)
            if isinstance(outcome, Change):
                take(outcome)
                for offset in range(first, last + 1):
                    if owner.pop(offset, None) is not None and (kind != RELEASE or deliveries[offset] == 3):
                        done.add(offset)
            else:
                wrong = [o for o in range(first, last + 1) if owner.get(o) != member and o >= window.start_offset]
                assert wrong
        elif step[0] == "release":
            change = window.release(step[1], settings)
            if change is not None:
                take(change)
            for offset in [each for each, who in owner.items() if who == step[1]]:
                del owner[offset]
                if deliveries[offset] == 3:
                    done.add(offset)
        else:
            window = Window(start_offset, stored.values())
            owner.clear()
    for offset in done:
        states = {run.state for run in window if run.first <= offset <= run.last}
        assert offset < window.start_offset or states <= {ACKED, ARCHIVED}
    for offset in range(window.start_offset):
        assert offset in done or offset - offset % 4 in aborted, "lost"
