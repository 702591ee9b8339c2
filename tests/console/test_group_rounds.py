"""All groups, some at a time: everybody's turn comes, those first that are moving, and nothing is kept of who is gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from oncelog import Admin
from oncelog.cli.command import Settings
from oncelog.cli.why.looking import Looking
from oncelog.client.admin.groups import GroupDescription, GroupListing
from oncelog.client.cluster.offset_lookup import FoundOffset
from oncelog.client.cluster.view import PartitionView, TopicView
from oncelog.console import group_rounds
from oncelog.console.group_judging import GroupJudge
from oncelog.console.group_rounds import GROUPS_MAX, GroupRounds, GroupsFound
from oncelog.errors import GroupAuthorization
from oncelog.types import OffsetAndMetadata, TopicPartition

ORDERS = {"orders": TopicView("orders", bytes(16), False, 0, {n: PartitionView(n, 1, 0) for n in range(4)})}


class Groups:
    """Groups by name, with their states; all of them have read nothing of orders, whose partitions have ten records each."""

    def __init__(self, *names: str, **states: str) -> None:
        self.states = dict.fromkeys(names, "Empty") | states
        self.hidden: set[str] = set()
        self.asked: list[str] = []
        self.offsets_asked = 0

    async def list_groups(self) -> list[GroupListing]:
        return [GroupListing(name, "consumer", state, "classic", 0) for name, state in self.states.items()]

    async def list_consumer_group_offsets(self, name: str) -> Mapping[TopicPartition, OffsetAndMetadata]:
        self.asked.append(name)
        if name in self.hidden:
            raise GroupAuthorization("no")
        return {
            TopicPartition(topic, n): OffsetAndMetadata(0) for topic, n in (("orders", 0), ("orders", 1), ("gone", 0))
        }

    async def describe_groups(self, names: Iterable[str]) -> dict[str, GroupDescription]:
        return {each: GroupDescription(each, self.states[each], "consumer", "", 1, ()) for each in names}

    async def list_offsets(self, wanted: Mapping[TopicPartition, Any], **_: Any) -> dict[TopicPartition, FoundOffset]:
        self.offsets_asked += len(wanted)
        assert {at.topic for at in wanted} == {"orders"}, "what there is no more is not asked for"
        return {at: FoundOffset(0 if when == "earliest" else 10, -1) for at, when in wanted.items()}

    async def describe_acls(self, *_: Any) -> list[Any]:
        return []


class Rounds:
    """Looks on, a second later each time."""

    def __init__(self, groups: Groups) -> None:
        self.groups, self.rounds, self.now_ms = groups, GroupRounds(GroupJudge(Settings())), 0

    def look(self) -> GroupsFound:
        self.groups.asked.clear()
        self.now_ms += 10_000
        looking = Looking(cast("Admin", self.groups), ORDERS)
        return asyncio.run(self.rounds.look(looking, self.now_ms))


def test_everybodys_turn_comes_and_what_was_found_is_kept() -> None:
    names = [f"group-{n:03}" for n in range(2 * GROUPS_MAX + 10)]
    rounds = Rounds(Groups(*names))
    seen, counts = list[str](), list[int]()
    for _ in range(3):
        found = rounds.look()
        assert len(rounds.groups.asked) <= GROUPS_MAX
        seen += rounds.groups.asked
        counts.append(found.looked_at)
    assert (set(seen), counts) == (set(names), [50, 100, 110])
    assert (found.count, found.standing, len(found.causes)) == (110, 110, 110)
    assert {each["kind"] for each in found.causes} == {"no members"}
    assert found.causes[0]["partitions"] == ["orders-0", "orders-1"]


def test_who_is_moving_is_looked_at_each_time_and_starves_nobody() -> None:
    names = [f"group-{n:03}" for n in range(3 * GROUPS_MAX)]
    rounds = Rounds(Groups(*names, storm="PreparingRebalance"))
    for _ in range(2):
        rounds.look()
        assert rounds.groups.asked[0] == "storm"
    assert [each["kind"] for each in rounds.look().causes if each["group"] == "storm"] == ["rebalancing"]
    rounds = Rounds(Groups(*names[:30], **{f"storm-{n:03}": "Assigning" for n in range(GROUPS_MAX)}))
    rounds.look()
    assert sum(each.startswith("storm") for each in rounds.groups.asked) == GROUPS_MAX // 2
    assert rounds.look().looked_at == GROUPS_MAX + 30


def test_nothing_is_kept_of_who_is_gone() -> None:
    rounds = Rounds(Groups("a", "b"))
    assert rounds.look().standing == 2
    del rounds.groups.states["a"]
    found = rounds.look()
    assert ([each["group"] for each in found.causes], found.looked_at) == (["b"], 1)


def test_who_may_not_be_seen_is_said_and_no_more_when_it_may() -> None:
    rounds = Rounds(Groups("a", "b"))
    rounds.groups.hidden = {"a"}
    found = rounds.look()
    assert ([each.what for each in found.not_read], found.standing, found.looked_at) == (["group a"], 1, 2)
    rounds.groups.hidden = set()
    assert (rounds.look().not_read, rounds.look().standing) == ((), 2)


def test_one_look_asks_for_so_many_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_rounds, "PARTITIONS_MAX", 4)
    rounds = Rounds(Groups("a", "b", "c"))
    assert rounds.look().looked_at == 2
    assert rounds.groups.offsets_asked == 3 * 2, "three bounds of two partitions"
    assert rounds.look().looked_at == 3
    assert rounds.groups.asked[0] == "c"
