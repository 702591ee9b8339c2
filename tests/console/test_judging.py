"""What seems to hang is called so only when it does some seconds later, too; what is ending for long is told."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from oncelog import Admin
from oncelog.cli.command import Settings
from oncelog.console.judging import HANGING_SEEN_MS, Judge, Judgement, facts_of_lane
from oncelog.core.diagnosis.facts import OpenTransaction, Owner, PartitionFacts
from oncelog.core.diagnosis.transactions import ENDING, HANGING, IN_PROGRESS
from oncelog.core.lanes.lane import Lane
from oncelog.core.lanes.view import UNKNOWN_KIND
from oncelog.types import TopicPartition
from tests.cli.world import Cli

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
    assert (facts.damaged_at, facts.error, facts.leader_id) == (40, None, -1)


async def judged(cli: Cli, facts: Sequence[PartitionFacts], judge: Judge, now_ms: int) -> Judgement:
    async with Admin(bootstrap_servers=cli.bootstrap_servers) as admin:
        return await judge.look(admin, await admin.list_topics(include_internal=True), facts, now_ms)


def test_what_is_open_where_nobody_answers_is_told_by_its_coordinator(damaged: Cli) -> None:
    """A marker that was stuck at an offline partition, and what was open there, stood on no page."""
    lost = PartitionFacts(TopicPartition("lost", 0), leader_id=1, is_offline=True, error="KAFKA_STORAGE_ERROR")
    judge = Judge(Settings())
    asyncio.run(judged(damaged, [lost], judge, 0))
    found = asyncio.run(judged(damaged, [lost], judge, 20_000))
    assert sorted(each.owner.transactional_id for each in found.open if each.owner) == ["both", "lost-holder"]
    told = {cause["transactional_id"]: cause["kind"] for cause in found.causes}
    assert told[None] == "offline partition"
    assert told["both"] == "marker stuck"


def test_damage_hides_no_transaction(damaged: Cli) -> None:
    """Its leader knows what is open, though the lane cannot be read on; nobody "stands" anywhere on a page of lanes."""
    lane = Lane(TopicPartition("flip", 0), 2, 0)
    lane.error, lane.last_stable_offset, lane.high_watermark = "CORRUPT_MESSAGE", 4, 5
    found = asyncio.run(judged(damaged, [facts_of_lane(lane, {})], Judge(Settings()), 0))
    assert [each.owner.transactional_id for each in found.open if each.owner] == ["flip-holder"]
    (cause,) = [each for each in found.causes if each["kind"] == "damaged partition"]
    assert cause["what"] == "damaged partition: flip-0 cannot be read at offset 2"
    assert "offline partition" not in {each["kind"] for each in found.causes}
