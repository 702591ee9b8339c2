"""What lasts is told from what is a moment's by the looks before, without waiting for more of them."""

from __future__ import annotations

from oncelog.core.diagnosis.causes import NO_PARTITIONS, REBALANCING
from oncelog.core.diagnosis.facts import GROUP, Facts, GroupFacts, GroupLook
from oncelog.core.diagnosis.group_memory import LOOKS_MAX, GroupMemory, lasting_causes


def kinds_at(memory: GroupMemory, now_ms: int, state: str, fingerprint: str, assigned_count: int = 1) -> list[str]:
    """The causes that a page shows at that moment, with what it saw before."""
    count = 0 if state == "Empty" else 1
    seen = GroupFacts("g", state, "consumer", count, (GroupLook(state, fingerprint, assigned_count, now_ms),))
    facts = Facts(GROUP, "g", group=memory.seen(seen))
    return [each.kind for each in lasting_causes(facts, 10_000)]


def test_a_rebalance_is_a_cause_when_it_lasts() -> None:
    memory = GroupMemory()
    assert kinds_at(memory, 0, "Stable", "1") == []
    assert kinds_at(memory, 5_000, "PreparingRebalance", "1") == []
    assert kinds_at(memory, 9_999, "Stable", "2") == []
    assert kinds_at(memory, 14_999, "PreparingRebalance", "2") == []
    assert kinds_at(memory, 15_000, "Stable", "3") == [REBALANCING]
    assert kinds_at(memory, 20_000, "Stable", "3") == []
    assert kinds_at(memory, 25_000, "PreparingRebalance", "3") == [], "that is another one"


def test_a_group_whose_members_learn_at_heartbeats_may_take_longer() -> None:
    """KIP-848: its rebalance takes two heartbeats in health."""
    memory = GroupMemory()
    found = []
    for now_ms in (0, 5_000, 14_999, 15_000):
        looks = (GroupLook("Reconciling", "2", 1, now_ms),)
        seen = GroupFacts("g", "Reconciling", "consumer", 1, looks, settling_ms=15_000)
        facts = Facts(GROUP, "g", group=memory.seen(seen))
        found.append([each.kind for each in lasting_causes(facts, 10_000)])
    assert found == [[], [], [], [REBALANCING]]


def test_a_storm_is_seen_where_every_look_falls_between_two_rebalances() -> None:
    memory = GroupMemory()
    found = [kinds_at(memory, n * 5_000, "Stable", str(n)) for n in range(4)]
    assert found == [[], [], [], [REBALANCING]]


def test_what_nobody_watched_is_not_known_to_have_lasted() -> None:
    """A page that was opened again called a young rebalance one of ten minutes."""
    memory = GroupMemory()
    assert kinds_at(memory, 0, "PreparingRebalance", "1") == []
    assert memory.is_watching("g")
    assert kinds_at(memory, 600_000, "PreparingRebalance", "7") == []
    assert kinds_at(memory, 605_000, "PreparingRebalance", "7") == []
    assert kinds_at(memory, 610_000, "PreparingRebalance", "7") == [REBALANCING]
    assert kinds_at(memory, 900_000, "Stable", "9") == []
    assert not memory.is_watching("g")
    assert not memory.is_watching("nobody")


def test_members_without_partitions_are_a_cause_when_it_lasts_and_an_empty_group_is_none() -> None:
    memory = GroupMemory()
    for now_ms in (0, 30_000, 60_000):
        assert kinds_at(memory, now_ms, "Empty", "", 0) == []
    assert kinds_at(memory, 61_000, "PreparingRebalance", "1", 0) == []
    assert kinds_at(memory, 62_000, "Stable", "1", 0) == []
    assert kinds_at(memory, 64_000, "Stable", "1", 0) == []
    assert kinds_at(memory, 75_000, "Stable", "1", 0) == [NO_PARTITIONS]
    assert kinds_at(memory, 76_000, "Stable", "2", 1) == [], "now it shares out"


def test_nothing_grows_and_since_when_is_kept() -> None:
    memory = GroupMemory()
    for n in range(3 * LOOKS_MAX):
        group = GroupFacts("g", "Assigning", "consumer", 1, (GroupLook("Assigning", str(n), 0, n * 1_000),))
        seen = memory.seen(group)
    assert (len(seen.looks), seen.watched_ms) == (LOOKS_MAX, (3 * LOOKS_MAX - 1) * 1_000)
    memory.keep(["other"])
    assert memory._seen == {}
