"""Fetch sessions (KIP-227): what a session remembers, what a reply names, who is evicted."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.leader.fetch_session import FetchContext, FetchSessions, PartitionKey, PartitionToFetch
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode

A, B, C = (PartitionKey("orders", index) for index in range(3))


def wanted(key: PartitionKey, fetch_offset: int = 0) -> PartitionToFetch:
    return PartitionToFetch(key, fetch_offset, 1_000)


def new_sessions(slots_max: int = 10) -> FetchSessions:
    return FetchSessions(slots_max=slots_max, new_session_id=itertools.count(1).__next__)


def fetch(
    sessions: FetchSessions,
    session_id: int = 0,
    session_epoch: int = 0,
    *keys: PartitionKey,
    forgotten: tuple[PartitionKey, ...] = (),
    uses_topic_ids: bool = False,
    now_ms: int = 0,
) -> FetchContext | Refuse:
    return sessions.open(
        session_id, session_epoch, map(wanted, keys), forgotten, uses_topic_ids=uses_topic_ids, now_ms=now_ms
    )


def opened(verdict: FetchContext | Refuse) -> FetchContext:
    assert isinstance(verdict, FetchContext), verdict
    return verdict


def names(context: FetchContext) -> list[PartitionKey]:
    return [partition.key for partition in context.partitions]


def answers(
    context: FetchContext,
    key: PartitionKey,
    *,
    high_watermark: int = 5,
    last_stable_offset: int = 5,
    log_start_offset: int = 0,
    error_code: ErrorCode = ErrorCode.NONE,
    has_records: bool = False,
) -> bool:
    return context.must_answer(
        key,
        error_code=error_code,
        high_watermark=high_watermark,
        last_stable_offset=last_stable_offset,
        log_start_offset=log_start_offset,
        has_records=has_records,
    )


def test_a_full_fetch_opens_a_session_and_names_everything():
    sessions = new_sessions()
    context = opened(fetch(sessions, 0, 0, A, B))
    assert context.session_id == 1
    assert names(context) == [A, B]
    assert answers(context, A)
    assert answers(context, B)
    assert (len(sessions), sessions.partition_count) == (1, 2)


def test_a_fetch_without_session_leaves_nothing_behind():
    sessions = new_sessions()
    context = opened(fetch(sessions, 0, -1, A))
    assert context.session_id == 0
    assert answers(context, A)
    assert len(sessions) == 0


def test_an_incremental_fetch_adds_changes_and_forgets():
    sessions = new_sessions()
    fetch(sessions, 0, 0, A, B)
    context = sessions.open(1, 1, [wanted(A, 9), wanted(C)], [B], uses_topic_ids=False, now_ms=0)
    assert [(partition.key, partition.fetch_offset) for partition in opened(context).partitions] == [(A, 9), (C, 0)]
    assert names(opened(fetch(sessions, 1, 2))) == [A, C]


@pytest.mark.parametrize(
    ("change", "is_named"),
    [
        ({}, False),
        ({"high_watermark": 6}, True),
        ({"last_stable_offset": 4}, True),
        ({"log_start_offset": 1}, True),
        ({"has_records": True}, True),
        ({"error_code": ErrorCode.OFFSET_OUT_OF_RANGE, "high_watermark": -1}, True),
    ],
)
def test_an_incremental_reply_names_what_changed(change, is_named):
    sessions = new_sessions()
    answers(opened(fetch(sessions, 0, 0, A)), A)
    assert answers(opened(fetch(sessions, 1, 1)), A, **change) is is_named
    assert answers(opened(fetch(sessions, 1, 2)), A, **{**change, "has_records": False}) is ("error_code" in change)


def test_after_an_error_the_offsets_are_told_again():
    sessions = new_sessions()
    answers(opened(fetch(sessions, 0, 0, A)), A)
    answers(opened(fetch(sessions, 1, 1)), A, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
    assert answers(opened(fetch(sessions, 1, 2)), A)
    assert not answers(opened(fetch(sessions, 1, 3)), A)


def test_a_new_partition_is_always_answered_first_time():
    sessions = new_sessions()
    answers(opened(fetch(sessions, 0, 0, A)), A)
    assert answers(opened(fetch(sessions, 1, 1, B)), B)


def test_partitions_that_got_records_queue_up_behind_the_others():
    sessions = new_sessions()
    context = opened(fetch(sessions, 0, 0, A, B, C))
    answers(context, A, has_records=True)
    answers(context, B)
    assert names(opened(fetch(sessions, 1, 1))) == [B, C, A]


def test_epochs_must_follow_one_another():
    sessions = new_sessions()
    fetch(sessions, 0, 0, A)
    for session_epoch in (2, 7):
        refused = fetch(sessions, 1, session_epoch)
        assert isinstance(refused, Refuse)
        assert refused.error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    opened(fetch(sessions, 1, 1))
    assert isinstance(fetch(sessions, 1, 1), Refuse)  # the same request again
    opened(fetch(sessions, 1, 2))


def test_the_epoch_wraps_to_one():
    sessions = new_sessions()
    fetch(sessions, 0, 0, A)
    sessions._sessions[1].expected_session_epoch = 2**31 - 1
    opened(fetch(sessions, 1, 2**31 - 1))
    opened(fetch(sessions, 1, 1))


def test_unknown_sessions_and_topic_ids():
    sessions = new_sessions()
    refused = fetch(sessions, 99, 1)
    assert isinstance(refused, Refuse)
    assert refused.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND
    fetch(sessions, 0, 0, A)
    refused = fetch(sessions, 1, 1, uses_topic_ids=True)
    assert isinstance(refused, Refuse)
    assert refused.error_code is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_a_full_fetch_closes_the_session_it_names():
    sessions = new_sessions()
    fetch(sessions, 0, 0, A)
    assert opened(fetch(sessions, 1, 0, A)).session_id == 2
    assert len(sessions) == 1
    fetch(sessions, 2, -1, A)
    assert len(sessions) == 0


def test_a_session_ends_when_its_last_partition_is_forgotten():
    sessions = new_sessions()
    fetch(sessions, 0, 0, A)
    context = opened(fetch(sessions, 1, 1, forgotten=(A,)))
    assert (context.session_id, context.partitions) == (0, ())
    assert len(sessions) == 0


def test_a_full_cache_goes_on_without_session():
    sessions = new_sessions(slots_max=1)
    fetch(sessions, 0, 0, A)
    context = opened(fetch(sessions, 0, 0, A, B, now_ms=120_000))
    assert context.session_id == 0
    assert answers(context, A)
    opened(fetch(sessions, 1, 1, now_ms=120_000))


def test_the_session_idle_longest_is_evicted_after_two_minutes():
    sessions = new_sessions(slots_max=2)
    fetch(sessions, 0, 0, A, now_ms=0)
    fetch(sessions, 0, 0, A, now_ms=0)
    fetch(sessions, 1, 1, now_ms=100_000)
    assert opened(fetch(sessions, 0, 0, A, now_ms=120_001)).session_id == 3
    assert isinstance(fetch(sessions, 2, 1, now_ms=120_001), Refuse)
    opened(fetch(sessions, 1, 2, now_ms=120_001))
    assert sessions.evicted_count == 1


def test_a_larger_session_takes_the_place_of_a_smaller_old_one():
    sessions = new_sessions(slots_max=1)
    fetch(sessions, 0, 0, A, now_ms=0)
    fetch(sessions, 1, 1, now_ms=120_001)
    assert opened(fetch(sessions, 0, 0, A, now_ms=120_001)).session_id == 0
    assert opened(fetch(sessions, 0, 0, A, B, now_ms=120_001)).session_id == 2
    assert len(sessions) == 1


def test_session_ids_are_never_used_twice_at_a_time():
    ids = iter([5, 0, 5, 6])
    sessions = FetchSessions(new_session_id=lambda: next(ids))
    assert opened(fetch(sessions, 0, 0, A)).session_id == 5
    assert opened(fetch(sessions, 0, 0, A)).session_id == 6


@given(st.lists(st.tuples(st.sets(st.sampled_from([A, B, C])), st.sets(st.sampled_from([A, B, C])), st.integers(0, 3))))
def test_client_and_session_agree_about_partitions_and_offsets(rounds):
    """A client that keeps the rules always knows the newest high watermark of all its partitions."""
    sessions = new_sessions()
    mine, known, session_epoch = {A}, {}, 1
    context = opened(fetch(sessions, 0, 0, A))
    for high_watermark in itertools.chain([0], (each[2] for each in rounds)):
        for key in names(context):
            if answers(context, key, high_watermark=high_watermark):
                known[key] = high_watermark
        assert all(known[key] == high_watermark for key in mine)
        if session_epoch > len(rounds):
            break
        added, forgotten, _ = rounds[session_epoch - 1]
        forgotten -= added
        mine = (mine | added) - forgotten
        context = opened(fetch(sessions, 1, session_epoch, *sorted(added), forgotten=tuple(forgotten)))
        assert set(names(context)) == mine
        session_epoch += 1
        if not mine:
            break


def test_a_reply_that_was_held_back_told_nothing() -> None:
    sessions = new_sessions()
    first = opened(fetch(sessions, 0, 0, A))
    assert answers(first, A)
    assert not answers(opened(fetch(sessions, first.session_id, 1)), A)
    assert answers(opened(fetch(sessions, first.session_id, 2)), A, high_watermark=6)
    assert sessions.reply_held_back(first.session_id, 3) == first.session_id
    assert answers(opened(fetch(sessions, first.session_id, 3)), A, high_watermark=6)
    assert sessions.reply_held_back(first.session_id, 0) == 0
    assert sessions.reply_held_back(0, -1) == 0
    assert (len(sessions), sessions.partition_count) == (0, 0)
