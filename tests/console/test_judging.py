"""What seems to hang is called so only when it does some seconds later, too; what is ending for long is told."""

from __future__ import annotations

from oncelog.cli.command import Settings
from oncelog.console.judging import HANGING_SEEN_MS, Judge, facts_of_lane
from oncelog.core.diagnosis.facts import OpenTransaction, Owner
from oncelog.core.diagnosis.transactions import ENDING, HANGING, IN_PROGRESS
from oncelog.core.lanes.lane import Lane
from oncelog.core.lanes.view import UNKNOWN_KIND
from oncelog.types import TopicPartition

AT = TopicPartition("orders", 0)
LOST = OpenTransaction(AT, 7, 0, 5, 100, None, "no transactional id has this producer id")


def owned(state: str) -> OpenTransaction:
    return OpenTransaction(AT, 7, 0, 5, 100, Owner("app", 1, state, 7, 0, 60_000, 100, 59_900))


def test_hanging_takes_two_looks() -> None:
    judge = Judge(Settings())
    assert judge._kind(LOST, False, 0) == UNKNOWN_KIND
    assert judge._kind(LOST, False, HANGING_SEEN_MS - 1) == UNKNOWN_KIND
    assert judge._kind(LOST, False, HANGING_SEEN_MS) == HANGING


def test_an_owner_who_may_be_hidden_is_not_called_missing() -> None:
    judge = Judge(Settings())
    assert judge._kind(LOST, True, 0) == UNKNOWN_KIND
    assert judge._kind(LOST, True, 10 * HANGING_SEEN_MS) == UNKNOWN_KIND


def test_a_new_verdict_begins_anew() -> None:
    judge = Judge(Settings())
    judge._kind(LOST, False, 0)
    assert judge._kind(owned("Ongoing"), False, 1_000) == IN_PROGRESS
    assert judge._kind(LOST, False, HANGING_SEEN_MS) == UNKNOWN_KIND
    assert judge._kind(owned("PrepareCommit"), False, 10_000) == ENDING
    assert judge._age_ms(owned("PrepareCommit"), 22_000) == 12_000


def test_what_is_gone_is_forgotten() -> None:
    judge = Judge(Settings())
    judge._kind(LOST, False, 0)
    judge._forget(set())
    assert judge._since == {}


def test_a_damaged_lane_says_where() -> None:
    lane = Lane(AT, 40, 0)
    lane.error = "CORRUPT_MESSAGE"
    facts = facts_of_lane(lane, {})
    assert (facts.damaged_at, facts.error, facts.leader_id) == (40, "CORRUPT_MESSAGE", -1)
