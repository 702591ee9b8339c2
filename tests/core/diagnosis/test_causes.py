"""From facts to causes: each kind, the order to mend, what is left out, and that nothing unseen becomes an all-clear."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from oncelog.core.diagnosis import causes as kinds
from oncelog.core.diagnosis.causes import causes, is_settled, needs_another_look, verdict, young_count
from oncelog.core.diagnosis.facts import (
    GROUP,
    TOPIC,
    Facts,
    GroupFacts,
    GroupLook,
    NotRead,
    OpenTransaction,
    Owner,
    PartitionFacts,
    QuotaFacts,
)
from oncelog.core.diagnosis.transactions import NEVER_MS
from oncelog.types import TopicPartition

WHERE = TopicPartition("orders", 3)
OFFSETS = TopicPartition("__consumer_offsets", 2)
OWNER = Owner("app", 1, "Ongoing", 40, 7, 60_000, 20_000, 40_000)
OPEN = OpenTransaction(WHERE, 40, 7, 5, 15_000, OWNER)
PARTITION = PartitionFacts(WHERE, 0, 5, 9, leader_id=1)
REST = GroupLook("Stable", "1", 1)
GROUP_FACTS = GroupFacts("billing", "Stable", "consumer", 1, (REST,))
FACTS = Facts(TOPIC, "orders", (PARTITION,), (OPEN,))


def kinds_of(facts: Facts, older_than_ms: int = 10_000) -> list[str]:
    return [cause.kind for cause in causes(facts, older_than_ms)]


def owned(**changes: Any) -> OpenTransaction:
    return dataclasses.replace(OPEN, owner=dataclasses.replace(OWNER, **changes))


def grouped(*partitions: PartitionFacts, open_: tuple[OpenTransaction, ...] = (), **changes: Any) -> Facts:
    return Facts(GROUP, "billing", partitions, open_, dataclasses.replace(GROUP_FACTS, **changes))


def test_nothing_holds_back() -> None:
    facts = grouped(dataclasses.replace(PARTITION, last_stable_offset=9, position=9, client_id="c"))
    assert causes(facts, 10_000) == ()
    assert verdict(facts, ()) == kinds.FREE
    assert not needs_another_look(facts)


@pytest.mark.parametrize(
    ("found", "kind"),
    [
        (OPEN, kinds.OPEN),
        (owned(timeout_ms=NEVER_MS), kinds.PREPARED),
        (dataclasses.replace(OPEN, hanging_reason="of its reason"), kinds.HANGING_TRANSACTION),
        (dataclasses.replace(OPEN, owner=None), kinds.HANGING_TRANSACTION),
    ],
    ids=["open", "prepared", "hanging", "without an owner"],
)
def test_a_transaction_that_holds_the_last_stable_offset(found: OpenTransaction, kind: str) -> None:
    facts = dataclasses.replace(FACTS, open=(found,))
    (cause,) = causes(facts, 10_000)
    assert (cause.kind, cause.partitions, cause.blocked) == (kind, (WHERE,), 4)
    assert verdict(facts, (cause,)) == kinds.HELD_BACK


def test_a_transaction_where_the_last_stable_offset_is_not_known_is_a_cause_all_the_same() -> None:
    unread = dataclasses.replace(PARTITION, last_stable_offset=None, high_watermark=None, error="KAFKA_STORAGE_ERROR")
    (cause,) = [
        each for each in causes(dataclasses.replace(FACTS, partitions=(unread,)), 10_000) if each.kind == kinds.OPEN
    ]
    assert (cause.partitions, cause.blocked) == ((WHERE,), 0)


def test_a_young_transaction_is_no_cause() -> None:
    """A healthy system always has open transactions; its coordinator knows best since when."""
    assert kinds_of(FACTS, 20_000) == []
    assert young_count(FACTS, 20_000) == 1
    assert kinds_of(FACTS, 19_999) == [kinds.OPEN]
    assert young_count(FACTS, 19_999) == 0
    assert kinds_of(dataclasses.replace(FACTS, open=(owned(duration_ms=0),)), 0) == [kinds.OPEN], "0 shows all"


def test_an_owner_that_may_be_hidden_is_not_called_ownerless() -> None:
    """An abort on the partition would tear apart what somebody else owns."""
    facts = dataclasses.replace(FACTS, open=(dataclasses.replace(OPEN, owner=None),), hidden=("you may not see it",))
    assert kinds_of(facts) == [kinds.UNKNOWN_OWNER]


def test_a_marker_is_stuck_only_if_it_was_so_all_the_time() -> None:
    facts = dataclasses.replace(FACTS, open=(owned(state="PrepareCommit"),))
    assert needs_another_look(facts)
    assert kinds_of(facts, 0) == []
    assert kinds_of(dataclasses.replace(facts, still_ending=frozenset({40}))) == [kinds.MARKER_STUCK]


def test_a_marker_for_a_partition_that_nobody_serves_is_stuck_at_the_first_look() -> None:
    """`oncelog watch --once` looks once: it showed the id as "ending", and no cause."""
    ending = dataclasses.replace(owned(state="PrepareAbort"), start_offset=None)
    offline = dataclasses.replace(PARTITION, is_offline=True, last_stable_offset=None, high_watermark=None)
    facts = dataclasses.replace(FACTS, open=(ending,), partitions=(offline,))
    assert kinds_of(facts) == [kinds.OFFLINE, kinds.MARKER_STUCK]
    assert young_count(facts, 10_000) == 0
    assert kinds_of(dataclasses.replace(facts, partitions=(PARTITION,))) == []


def test_one_transaction_is_one_cause_on_however_many_partitions() -> None:
    places = [TopicPartition("orders", number) for number in range(300)]
    facts = Facts(
        TOPIC,
        "orders",
        tuple(dataclasses.replace(PARTITION, where=at) for at in places),
        tuple(dataclasses.replace(OPEN, where=at) for at in places),
    )
    (cause,) = causes(facts, 10_000)
    assert (len(cause.partitions), cause.blocked, len(cause.open)) == (300, 1200, 300)


def test_what_only_its_coordinator_tells_is_the_same_transaction() -> None:
    """Its partition cannot be asked; and while markers are on their way the coordinator is one epoch ahead (KIP-890)."""
    away = TopicPartition("orders", 2)
    ending = owned(state="PrepareAbort", producer_epoch=8)
    told = dataclasses.replace(ending, where=away, producer_epoch=8, start_offset=None)
    partitions = (PartitionFacts(away, leader_id=1, error="NETWORK_EXCEPTION"), PARTITION)
    facts = dataclasses.replace(FACTS, partitions=partitions, open=(told, ending), still_ending=frozenset({40}))
    (cause,) = causes(facts, 0)
    assert ([each.where for each in cause.open], cause.blocked, cause.is_behind) == ([WHERE, away], 4, False)
    (alone,) = causes(dataclasses.replace(facts, open=(told,)), 0)
    assert (alone.kind, alone.blocked, alone.is_behind) == (kinds.MARKER_STUCK, 0, False)


def test_who_holds_comes_before_who_is_behind() -> None:
    """The second is hanging, which is worse; but the readers move on when the first has ended."""
    behind = dataclasses.replace(OPEN, producer_id=41, start_offset=7, owner=None)
    first, second = causes(dataclasses.replace(FACTS, open=(behind, OPEN)), 10_000)
    assert (first.kind, first.blocked, first.is_behind) == (kinds.OPEN, 4, False)
    assert (second.kind, second.blocked, second.is_behind) == (kinds.HANGING_TRANSACTION, 0, True)


def test_a_pending_offset_commit() -> None:
    """It lies on the group's partition of __consumer_offsets, where others commit, too: one of those that are open."""
    read = dataclasses.replace(PARTITION, last_stable_offset=9, position=9, client_id="c")
    there = dataclasses.replace(OPEN, where=OFFSETS)
    other = dataclasses.replace(there, producer_id=41, start_offset=9, owner=dataclasses.replace(OWNER, duration_ms=3))
    pending: dict[str, Any] = {"pending": frozenset({WHERE}), "offsets_partition": OFFSETS}
    (cause,) = causes(grouped(read, open_=(there, other), **pending), 10_000)
    assert (cause.kind, cause.partitions, cause.pending, cause.candidate_count) == (kinds.PENDING, (), (WHERE,), 2)
    (cause,) = causes(grouped(read, open_=(there, OPEN), **pending), 10_000)
    assert (cause.kind, cause.partitions, cause.pending) == (kinds.OPEN, (WHERE,), (WHERE,)), "both, in one"
    assert kinds_of(grouped(read, open_=(there,))) == [], "nothing of this group is pending"


@pytest.mark.parametrize(
    "seen", [{"is_offline": True}, {"error": "KAFKA_STORAGE_ERROR"}, {"error": "LEADER_NOT_AVAILABLE"}]
)
def test_an_offline_partition_comes_first(seen: dict[str, Any]) -> None:
    """Markers cannot be written there: what is open elsewhere may only wait for it."""
    other = dataclasses.replace(PARTITION, where=TopicPartition("orders", 4), **seen)
    facts = dataclasses.replace(FACTS, partitions=(PARTITION, other))
    assert kinds_of(facts) == [kinds.OFFLINE, kinds.OPEN]
    assert (
        kinds_of(dataclasses.replace(facts, partitions=(dataclasses.replace(other, is_offline=False, error="X"),)))
        == []
    )


def test_a_damaged_batch_at_the_position_is_a_cause_of_each_partition() -> None:
    seen = [dataclasses.replace(PARTITION, where=TopicPartition("orders", n), position=2, damaged_at=2) for n in (0, 1)]
    found = causes(grouped(*seen), 0)
    assert [(cause.kind, cause.partitions) for cause in found] == [
        (kinds.DAMAGED, (TopicPartition("orders", 0),)),
        (kinds.DAMAGED, (TopicPartition("orders", 1),)),
    ]


@pytest.mark.parametrize(("position", "is_out"), [(1, True), (2, False), (9, False), (10, True)])
def test_a_position_outside_of_the_log(position: int, is_out: bool) -> None:
    facts = grouped(PartitionFacts(WHERE, 2, 9, 9, position=position, client_id="c"))
    assert (kinds.OUT_OF_RANGE in kinds_of(facts)) is is_out


def test_positions_before_and_beyond_are_two_causes() -> None:
    facts = grouped(
        *(PartitionFacts(TopicPartition("orders", n), 2, 9, 9, position=at) for n, at in enumerate((1, 10, 0)))
    )
    assert [[at.partition for at in cause.partitions] for cause in causes(facts, 0)] == [[0, 2], [1]]


def test_no_members() -> None:
    empty: dict[str, Any] = {"member_count": 0, "state": "Empty", "looks": (GroupLook("Empty", "", 0),)}
    behind = dataclasses.replace(PARTITION, position=8)
    assert kinds_of(grouped(behind, **empty)) == [kinds.NO_MEMBERS]
    assert kinds_of(grouped(dataclasses.replace(behind, position=9), **empty)) == [], "it has read all there is"
    assert kinds_of(grouped(dataclasses.replace(behind, position=None), **empty)) == [kinds.NO_MEMBERS]
    assert kinds_of(grouped(behind)) == []
    assert kinds_of(grouped(behind, **empty, is_sparks=True)) == [], "it reads without joining"


def test_members_that_read_nothing() -> None:
    idle: dict[str, Any] = {"looks": (GroupLook("Stable", "1", 0),)}
    assert kinds_of(grouped(**idle)) == [kinds.NO_PARTITIONS]
    assert needs_another_look(grouped(**idle))
    assert kinds_of(grouped(protocol_type="connect", **idle)) == [], "workers share out something else"
    assert kinds_of(grouped(looks=(GroupLook("Stable", "1", 0), REST))) == []


@pytest.mark.parametrize(
    ("looks", "settled"),
    [
        (("Stable 1",), True),
        (("Stable 1", "Stable 1"), True),
        (("PreparingRebalance 1",), False),
        (("PreparingRebalance 1", "Stable 2"), False),
        (("PreparingRebalance 1", "Stable 2", "Stable 2"), False),
        (("PreparingRebalance 1", "Stable 2", "Stable 2", "Stable 2"), True),
        (("Stable 1", "Stable 2", "Stable 2"), False),
        (("Reconciling 1", "Stable 2", "Stable 2", "Stable 3"), False),
        (("Stable 2", "Stable 2", "Assigning 3"), False),
    ],
)
def test_a_rebalance_without_end(looks: tuple[str, ...], settled: bool) -> None:
    """At rest for a moment between two rebalances is no rest: a storm comes by that, too. One look a second."""
    words = [look.split() for look in looks]
    seen = tuple(GroupLook(state, number, 1, n * 1_000) for n, (state, number) in enumerate(words))
    assert is_settled(seen) is settled
    facts = grouped(looks=seen)
    assert kinds_of(facts) == ([] if settled else [kinds.REBALANCING])
    assert needs_another_look(facts) is not settled


def test_a_group_that_is_behind_is_looked_at_for_longer_than_a_moment() -> None:
    """One look that fell between two rebalances of a storm was an all-clear."""
    behind = PartitionFacts(WHERE, 0, 9, 9, position=5)
    looks = tuple(GroupLook("Stable", "1", 1, n * 500) for n in range(5))
    for count in range(1, 6):
        assert needs_another_look(grouped(behind, looks=looks[:count])) is (count < 5)
    assert not needs_another_look(grouped(dataclasses.replace(behind, position=9), looks=looks[:1]))
    assert not needs_another_look(grouped(behind, looks=(GroupLook("Empty", "", 0),), member_count=0))


def test_a_quota_is_a_cause_when_the_lag_takes_long_at_its_rate() -> None:
    def facts(bytes_per_second: float) -> Facts:
        return dataclasses.replace(
            grouped(), quotas=(QuotaFacts("c", (("client-id", "c"),), bytes_per_second, 60_000),)
        )

    assert kinds_of(facts(1_000)) == []
    assert kinds_of(facts(999)) == [kinds.QUOTA]
    assert kinds_of(facts(0)) == [kinds.QUOTA]


def test_what_could_not_be_read_is_no_all_clear() -> None:
    late = Facts(TOPIC, "orders", not_read=(NotRead("orders-0", "REQUEST_TIMED_OUT", "it did not answer"),))
    assert (kinds_of(late), verdict(late, causes(late, 0))) == ([], kinds.UNKNOWN)
    denied = Facts(None, "orders", not_read=(NotRead("x", "GROUP_AUTHORIZATION_FAILED", "no", ("group", "x")),))
    assert (kinds_of(denied), verdict(denied, causes(denied, 0))) == ([kinds.RIGHTS], kinds.UNKNOWN)


def test_all_causes_at_once_in_the_order_to_mend() -> None:
    offline = dataclasses.replace(PARTITION, where=TopicPartition("orders", 4), is_offline=True)
    beyond = PartitionFacts(TopicPartition("orders", 5), 0, 1, 1, position=7)
    quota = QuotaFacts("c", (("client-id", "c"),), 1.0, 60_001)
    facts = grouped(offline, PARTITION, beyond, open_=(OPEN,), member_count=0, looks=(GroupLook("Empty", "", 0),))
    denied = NotRead("topic x", "TOPIC_AUTHORIZATION_FAILED", "no", ("topic", "x"))
    found = kinds_of(dataclasses.replace(facts, quotas=(quota,), not_read=(denied,)))
    assert found == [kinds.RIGHTS, kinds.OFFLINE, kinds.OPEN, kinds.OUT_OF_RANGE, kinds.NO_MEMBERS, kinds.QUOTA]
    assert set(found) <= set(kinds.KINDS)
