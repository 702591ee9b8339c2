"""A consumer's own side of KIP-848: what it tells, and what answers mean."""

from __future__ import annotations

import pytest

from oncelog.core.consumer.membership import ASKED_SOON, SAYS_ALL_EVERY, ConsumerMembership, Heard, MemberIdentity
from oncelog.errors import ErrorCode
from oncelog.wire.messages.consumer_group_heartbeat import (
    Assignment,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)

T, U = b"t" * 16, b"u" * 16


def member(**identity):
    made = ConsumerMembership(MemberIdentity("g", "m", 9_000, **identity))
    made.subscribe(("t", "s"), None)
    return made


def answer(member_epoch, assigned=None, error_code=0):
    assignment = None
    if assigned is not None:
        assignment = Assignment(
            topic_partitions=[TopicPartitions(topic_id=t, partitions=list(ps)) for t, ps in assigned.items()]
        )
    return ConsumerGroupHeartbeatResponse(
        error_code=error_code, member_epoch=member_epoch, heartbeat_interval_ms=5_000, assignment=assignment
    )


def said(request):
    owned = request.topic_partitions
    return {
        "epoch": request.member_epoch,
        "timeout": request.rebalance_timeout_ms,
        "topics": request.subscribed_topic_names,
        "pattern": request.subscribed_topic_regex,
        "owned": None if owned is None else {each.topic_id: each.partitions for each in owned},
    }


def joined(**identity):
    made = member(**identity)
    made.request()
    assert made.heard(answer(2, {T: [0, 1]})) is Heard.ASSIGNED
    return made


def test_who_came_and_was_given_nothing_asks_soon_and_not_for_ever():
    """A broker resolves a pattern, or gathers members, behind its answer: each waited for the interval of five seconds."""
    made = member()
    made.subscribe((), "t.*")
    made.request()
    assert not made.must_ask_soon, "it has no answer yet"
    count = 0
    made.heard(answer(1))
    while made.must_ask_soon:
        made.request()
        made.heard(answer(1, {}))
        count += 1
    assert count == ASKED_SOON
    made.subscribe(("t",), None)
    made.request()
    made.heard(answer(2))
    assert made.must_ask_soon
    made.request()
    made.heard(answer(3, {T: [0]}))
    assert not made.must_ask_soon


def test_a_join_says_everything_and_owns_nothing():
    made = member(instance_id="i", rack_id="r", server_assignor="range")
    request = made.request()
    assert said(request) == {"epoch": 0, "timeout": 9_000, "topics": ["s", "t"], "pattern": None, "owned": {}}
    assert (request.group_id, request.member_id, request.instance_id) == ("g", "m", "i")
    assert (request.rack_id, request.server_assignor) == ("r", "range")


def test_what_did_not_change_is_not_said_again():
    made = joined()
    assert made.heartbeat_interval_ms == 5_000
    assert said(made.request()) == {"epoch": 2, "timeout": -1, "topics": None, "pattern": None, "owned": None}


def test_now_and_then_everything_is_said_again_and_an_assignment_that_got_lost_is_heard():
    made = joined()
    made.own({T: frozenset({0, 1})})
    requests = []
    for _ in range(2 * SAYS_ALL_EVERY):
        requests.append(made.request())
        made.heard(answer(2))
    everything = [i for i, each in enumerate(requests, 1) if each.rebalance_timeout_ms == 9_000]
    assert everything == [SAYS_ALL_EVERY, 2 * SAYS_ALL_EVERY]
    assert said(requests[-1]) == {
        "epoch": 2,
        "timeout": 9_000,
        "topics": ["s", "t"],
        "pattern": None,
        "owned": {T: [0, 1]},
    }
    made.request()
    assert made.heard(answer(2, {T: [0], U: [3]})) is Heard.ASSIGNED
    assert made.must_reconcile


def test_the_count_begins_anew_with_each_heartbeat_that_says_everything():
    made = joined()
    for _ in range(SAYS_ALL_EVERY - 1):
        assert made.request().rebalance_timeout_ms == -1
        made.heard(answer(2))
    made.unanswered()
    assert made.request().rebalance_timeout_ms == 9_000
    made.heard(answer(2))
    assert made.request().rebalance_timeout_ms == -1


def test_what_the_application_took_over_is_news():
    made = joined()
    assert made.must_reconcile
    assert not made.has_news
    made.own({T: frozenset({0, 1})})
    assert made.has_news
    assert not made.must_reconcile
    assert said(made.request())["owned"] == {T: [0, 1]}
    made.heard(answer(2))
    assert not made.has_news


@pytest.mark.parametrize("kept", [{}, {T: [0]}])
def test_what_is_taken_away_before_the_application_had_it_is_confirmed_at_once(kept):
    """A topic was deleted while its members took it over: the broker waited 50 seconds for a word of them."""
    made = joined()
    assert not made.has_news
    made.request()
    made.heard(answer(2, kept))
    assert made.has_news
    assert said(made.request())["owned"] == {}
    made.heard(answer(3))
    assert not made.has_news
    assert said(made.request())["owned"] is None


def test_what_the_application_gives_back_is_said_when_it_has():
    made = joined()
    made.own({T: frozenset([0, 1])})
    made.request()
    made.heard(answer(2))
    made.request()
    made.heard(answer(2, {}))
    assert not made.has_news
    made.own({})
    assert said(made.request())["owned"] == {}


def test_another_subscription_is_news():
    made = joined()
    made.subscribe(("u",), None)
    assert made.has_news
    assert said(made.request())["topics"] == ["u"]
    made.heard(answer(3))
    made.subscribe((), "u.*")
    assert (said(made.request())["topics"], said(made.request())["pattern"]) == ([], "u.*")
    made.heard(answer(4))
    made.subscribe(("u",), None)
    assert said(made.request())["pattern"] == ""


def test_after_an_answer_that_never_came_everything_is_said():
    made = joined()
    made.own({T: frozenset({0})})
    made.request()
    made.unanswered()
    assert said(made.request()) == {
        "epoch": 2,
        "timeout": 9_000,
        "topics": ["s", "t"],
        "pattern": None,
        "owned": {T: [0]},
    }


@pytest.mark.parametrize("code", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_who_is_put_out_joins_again_only_when_the_application_has_let_go(code):
    made = joined()
    made.own({T: frozenset({0})})
    made.request()
    assert made.heard(answer(0, error_code=code)) is Heard.FENCED
    assert made.is_fenced
    assert not made.has_news
    with pytest.raises(AssertionError):
        made.request()
    made.let_go()
    assert said(made.request())["epoch"] == 0


def test_who_owned_nothing_joins_at_once():
    made = joined()
    made.request()
    made.heard(answer(0, error_code=ErrorCode.FENCED_MEMBER_EPOCH))
    assert not made.is_fenced
    assert made.has_news


@pytest.mark.parametrize(
    ("code", "heard"),
    [
        (ErrorCode.NOT_COORDINATOR, Heard.LATER),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Heard.LATER),
        (ErrorCode.UNRELEASED_INSTANCE_ID, Heard.REFUSED),
        (ErrorCode.FENCED_INSTANCE_ID, Heard.REFUSED),
        (ErrorCode.GROUP_MAX_SIZE_REACHED, Heard.REFUSED),
        (ErrorCode.INVALID_REGULAR_EXPRESSION, Heard.REFUSED),
    ],
)
def test_other_errors_keep_the_member(code, heard):
    made = joined()
    made.request()
    assert made.heard(answer(0, error_code=code)) is heard
    assert (made.member_epoch, said(made.request())["timeout"]) == (2, 9_000)


def test_leaving_tells_whether_it_may_be_back():
    assert member().leave_request().member_epoch == -1
    static = joined(instance_id="i")
    assert static.leave_request().member_epoch == -2
    static.left()
    assert not static.is_joined


def test_who_asked_to_be_let_in_may_be_a_member_until_it_leaves():
    """Kafka's coordinator takes a member in before its answer is here: one that leaves meanwhile has to say so."""
    made = member()
    assert not made.may_be_member
    made.request()
    assert not made.may_be_member
    assert made.goes_out()
    assert made.may_be_member
    made.unanswered()
    assert made.may_be_member
    made.left()
    assert not made.may_be_member


def test_a_request_of_one_that_left_does_not_go_out():
    made = member()
    made.request()
    made.left()
    assert not made.goes_out()
    assert not made.may_be_member


@pytest.mark.parametrize(
    ("code", "may_be"), [(ErrorCode.UNKNOWN_MEMBER_ID, False), (ErrorCode.FENCED_MEMBER_EPOCH, True)]
)
def test_whom_the_broker_does_not_know_need_not_leave(code, may_be):
    made = member()
    made.request()
    assert made.goes_out()
    made.heard(answer(2, {T: [0]}))
    made.request()
    assert made.goes_out()
    assert made.heard(answer(0, error_code=code)) is Heard.FENCED
    assert made.may_be_member is may_be


def test_an_empty_assignment_is_an_assignment():
    made = joined()
    made.own({T: frozenset({0, 1})})
    made.request()
    assert made.heard(answer(3, {U: []})) is Heard.ASSIGNED
    assert made.assigned == {}
    assert made.must_reconcile


def test_an_answer_to_one_that_left_says_nothing():
    made = joined()
    made.own({T: frozenset({0, 1})})
    made.request()
    made.left()
    made.let_go()
    assert made.heard(answer(3, {T: [0, 1]})) is Heard.LATE
    assert (made.is_joined, made.assigned, made.must_reconcile) == (False, {}, False)
    assert said(made.request())["epoch"] == 0


def test_an_answer_that_was_given_up_says_nothing():
    """The request timed out; whatever comes of it later, the next one says everything and is answered anew."""
    made = joined()
    made.request()
    made.unanswered()
    assert made.heard(answer(3, {U: [5]})) is Heard.LATE
    assert made.heard(answer(0, error_code=ErrorCode.UNKNOWN_MEMBER_ID)) is Heard.LATE
    assert (made.member_epoch, made.assigned, made.is_fenced) == (2, {T: frozenset({0, 1})}, False)
    assert said(made.request())["topics"] == ["s", "t"]


def test_an_older_epoch_takes_nothing_back():
    made = joined()
    made.own({T: frozenset({0, 1})})
    made.request()
    assert made.heard(answer(1, {U: [5]})) is Heard.LATE
    assert (made.member_epoch, made.assigned) == (2, {T: frozenset({0, 1})})
    assert said(made.request())["topics"] == ["s", "t"], "it asks for the whole assignment"


def lost_join(**identity):
    made = member(**identity)
    made.request()
    assert made.goes_out()
    made.unanswered()
    assert said(made.request())["epoch"] == 0
    return made


UNRELEASED = ErrorCode.UNRELEASED_INSTANCE_ID


def test_a_static_member_whose_join_was_not_answered_gives_its_name_back_and_joins_anew():
    made = lost_join(instance_id="i")
    assert made.heard(answer(0, error_code=UNRELEASED)) is Heard.LATER
    request = made.request()
    assert (request.member_epoch, request.instance_id, request.member_id) == (-2, "i", "m")
    assert made.heard(answer(-2)) is Heard.LATER
    assert not made.is_joined
    assert said(made.request()) == {"epoch": 0, "timeout": 9_000, "topics": ["s", "t"], "pattern": None, "owned": {}}
    assert made.heard(answer(3, {T: [0]})) is Heard.ASSIGNED
    assert made.is_joined


@pytest.mark.parametrize("code", [ErrorCode.FENCED_INSTANCE_ID, ErrorCode.UNKNOWN_MEMBER_ID, 0])
def test_the_name_of_another_one_is_refused_after_one_try(code):
    made = lost_join(instance_id="i")
    made.heard(answer(0, error_code=UNRELEASED))
    made.request()
    assert made.heard(answer(0, error_code=code)) is Heard.LATER
    made.request()
    assert made.heard(answer(0, error_code=UNRELEASED)) is Heard.REFUSED


@pytest.mark.parametrize("passing", ["unanswered", ErrorCode.NOT_COORDINATOR])
def test_a_name_is_given_back_until_somebody_has_heard_it(passing):
    made = lost_join(instance_id="i")
    made.heard(answer(0, error_code=UNRELEASED))
    made.request()
    if passing == "unanswered":
        made.unanswered()
    else:
        assert made.heard(answer(0, error_code=passing)) is Heard.LATER
    assert made.request().member_epoch == -2


def test_a_name_that_is_owned_is_refused_where_every_join_was_answered():
    made = member(instance_id="i")
    made.request()
    made.goes_out()
    assert made.heard(answer(0, error_code=ErrorCode.NOT_COORDINATOR)) is Heard.LATER
    made.request()
    assert made.heard(answer(0, error_code=UNRELEASED)) is Heard.REFUSED


def test_a_join_that_never_left_was_not_heard_by_anybody():
    made = member(instance_id="i")
    made.request()
    made.unanswered()
    made.request()
    assert made.heard(answer(0, error_code=UNRELEASED)) is Heard.REFUSED
