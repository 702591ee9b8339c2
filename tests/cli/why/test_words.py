"""How causes are told: one line each, no name begins a line, and no printed command loses what was prepared or decided."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest

from oncelog.cli.command import Settings
from oncelog.cli.why.words import Told, row, told
from oncelog.core.diagnosis.causes import causes
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
OWNER = Owner("app", 1, "Ongoing", 40, 7, 60_000, 20_000, 40_000)
OPEN = OpenTransaction(WHERE, 40, 7, 5, 15_000, OWNER)
PARTITION = PartitionFacts(WHERE, 0, 5, 9, leader_id=1)
EMPTY = GroupFacts("billing", "Empty", "consumer", 0, (GroupLook("Empty", "", 0),))
SETTINGS = Settings(bootstrap_servers="h:1", command_config="c.properties")
START = "oncelog -b h:1 --command-config c.properties "


def first(facts: Facts) -> Told:
    return told(SETTINGS, facts, causes(facts, 0)[0])


def transaction(open_: OpenTransaction = OPEN, **owner: Any) -> Told:
    if owner:
        open_ = dataclasses.replace(open_, owner=dataclasses.replace(OWNER, **owner))
    return first(Facts(TOPIC, "orders", (PARTITION,), (open_,), still_ending=frozenset({40})))


@pytest.mark.parametrize("name", ["app\n  do    delete everything", "app\x1b[2J", "app\r"])
def test_a_name_begins_no_line_and_steers_no_terminal(name: str) -> None:
    lines = transaction(transactional_id=name).text.split("\n")
    assert [line[:7].strip() for line in lines[1:]] == ["by", "id", "why", "do", ""]
    assert all(line.isprintable() for line in lines)


def test_what_only_its_coordinator_tells() -> None:
    found = transaction(dataclasses.replace(OPEN, start_offset=None))
    assert found.headline == "open transaction app is open on orders-3, as its coordinator says"
    assert found.lines[0] == ("by", "producer 40:7, open on orders-3")


def test_a_command_goes_to_the_same_brokers() -> None:
    found = transaction()
    assert found.headline == "open transaction app holds back 4 offsets of orders-3"
    assert found.command == START + "transactions force-terminate --transactional-id app"


def test_a_spark_query_is_asked_to_complete_what_it_decided() -> None:
    """Ended by force it would lose a decided batch."""
    names = ("oncelog-spark.q-1.17.0.abcdef12.9", f"oncelog-spark.q-1.abcdef12.{'0' * 32}.9")
    for timeout_ms, name in itertools.product((60_000, NEVER_MS), names):
        found = transaction(transactional_id=name, timeout_ms=timeout_ms)
        assert found.command == START + "recover --prefix oncelog-spark --query q-1 --dry-run"
        assert "force-terminate" not in found.text


def test_a_hanging_transaction_of_several_partitions_is_one_command() -> None:
    places = [dataclasses.replace(OPEN, where=TopicPartition("orders", n), owner=None) for n in range(2)]
    partitions = tuple(dataclasses.replace(PARTITION, where=each.where) for each in places)
    found = first(Facts(TOPIC, "orders", partitions, tuple(places)))
    assert found.headline == "hanging transaction of producer 40:7 holds back 8 offsets of 2 partitions"
    assert found.command == START + "transactions find-hanging --topic orders --max-transaction-timeout 0s"
    assert (
        "abort --topic orders --partition 3 --start-offset 5"
        in transaction(dataclasses.replace(OPEN, owner=None)).command
    )


def test_what_may_have_been_committed_is_only_looked_at() -> None:
    owner = dataclasses.replace(OWNER, state="CompleteCommit", producer_epoch=8, duration_ms=None)
    found = transaction(dataclasses.replace(OPEN, owner=owner, hanging_reason="not included"))
    assert "last transaction was committed" in found.why
    assert found.command.endswith("transactions abort --topic orders --partition 3 --start-offset 5 --dry-run")


def test_a_transaction_without_a_visible_owner_is_left_alone() -> None:
    nobody = dataclasses.replace(OPEN, owner=None)
    found = first(Facts(TOPIC, "orders", (PARTITION,), (nobody,), hidden=("a coordinator is away",)))
    assert found.headline == "unknown owner (producer 40:7) holds back 4 offsets of orders-3"
    assert "a coordinator is away" in found.why
    assert found.command == START + "transactions list --producer-id 40"


@pytest.mark.parametrize(("state", "outcome"), [("PrepareCommit", "committed"), ("PrepareAbort", "aborted")])
def test_a_marker_that_is_stuck(state: str, outcome: str) -> None:
    found = transaction(state=state)
    assert found.why.startswith(f"{outcome} already")
    assert found.command == START + "transactions describe app"


def test_an_offline_partition_with_and_without_a_leader() -> None:
    failed = first(Facts(TOPIC, "orders", (dataclasses.replace(PARTITION, is_offline=True),)))
    assert "read the log of broker 1" in failed.advice
    assert "takes nothing more" in failed.headline
    away = first(Facts(TOPIC, "orders", (PartitionFacts(WHERE, is_offline=True),)))
    assert "no broker leads it" in away.why
    assert "gives nothing" in away.headline
    assert away.command == START + "topics describe orders -o wide"


def test_positions_of_several_topics_are_moved_by_one_command() -> None:
    seen = tuple(PartitionFacts(TopicPartition(t, n), 2, 9, 9, position=0) for t, n in (("b", 1), ("a", 0), ("b", 0)))
    found = first(Facts(GROUP, "billing", seen, group=EMPTY))
    assert found.headline.endswith("before the first record, 2, and 2 more like it")
    move = "groups reset-offsets billing --topic a:0 --topic b:0,1 --to-earliest --dry-run"
    assert found.command == START + move


def test_no_members_with_and_without_access_rules() -> None:
    facts = Facts(GROUP, "billing", (dataclasses.replace(PARTITION, position=8),), group=EMPTY)
    assert first(facts).headline == "no members: nobody reads for billing, and 1 offset of 1 partition wait"
    assert first(facts).command == START + "groups describe billing --members --watch"
    assert first(dataclasses.replace(facts, name="-b")).command == START + "groups describe --members --watch -- -b"
    assert first(dataclasses.replace(facts, is_guarded=True)).command == START + "acls list --group billing --matching"
    unknown = Facts(GROUP, "billing", (PARTITION,), group=EMPTY)
    assert "where it begins in 1 partition is not stored" in first(unknown).headline


def test_who_is_late_in_a_rebalance_is_named() -> None:
    late = tuple(f"c{n} on h ({n})" for n in range(5))
    looks = (GroupLook("Reconciling", "1", 1),) * 2
    group = dataclasses.replace(EMPTY, member_count=5, looks=looks, late_members=late, watched_ms=10_000)
    found = first(Facts(GROUP, "billing", group=group))
    assert ("late", "c0 on h (0), c1 on h (1), c2 on h (2) and 2 more") in found.lines
    assert found.headline == "rebalancing: billing has not come to rest for 10s or longer"
    assert found.why == "5 members: all wait for one that does not poll within max.poll.interval.ms"


def test_members_that_come_and_go_are_no_member_that_is_late() -> None:
    """ "It has shared out nothing for 10s" was said of a group that had shared out five times."""
    looks = tuple(GroupLook("Stable", str(n), 1, n * 500) for n in range(5))
    found = first(Facts(GROUP, "billing", group=dataclasses.replace(EMPTY, member_count=2, looks=looks)))
    assert found.lines == (("seen", "Stable in 5 looks, its members changed between 4 of them"),)
    assert "they come and go" in found.why
    assert "stop the one that comes and goes" in found.advice


def test_a_quota_that_lets_nothing_pass() -> None:
    facts = Facts(GROUP, "billing", group=None, quotas=(QuotaFacts("c", (("client-id", None),), 0.0, 10),))
    assert first(facts).lines == (("lag", "about 10 bytes on one broker: for ever at that rate"),)
    assert first(facts).command == START + "quotas list --client-id default"


def test_rights_name_the_group_first() -> None:
    missing = (
        NotRead("transactional id x", "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "no", ("transactional-id", "x")),
        NotRead("group x", "GROUP_AUTHORIZATION_FAILED", "no", ("group", "x")),
    )
    found = first(Facts(None, "x", not_read=missing))
    assert found.headline == "rights: you may not look at group x, transactional id x"
    assert found.command == START + "acls list --group x --matching"
    cluster = first(Facts(None, "x", not_read=(NotRead("y", "CLUSTER_AUTHORIZATION_FAILED", "no", ("cluster", "k")),)))
    assert cluster.command == START + "acls list --cluster"


def test_a_cause_for_machines_has_every_key() -> None:
    facts = Facts(TOPIC, "orders", (PARTITION,), (OPEN,))
    (cause,) = causes(facts, 0)
    found = row(cause, told(SETTINGS, facts, cause))
    assert (found["kind"], found["verdict"], found["age_ms"], found["remaining_ms"]) == (
        "open transaction",
        "in progress",
        20_000,
        40_000,
    )
    other = Facts(TOPIC, "orders", (dataclasses.replace(PARTITION, is_offline=True),))
    (cause,) = causes(other, 0)
    assert row(cause, told(SETTINGS, other, cause)).keys() == found.keys()


def test_several_offline_partitions_take_nothing_more_and_both_ways_on_are_named() -> None:
    """Whether the disk failed or the files are damaged only the broker's log knows; a restart mends no damage."""
    where = [TopicPartition("orders", number) for number in range(3)]
    facts = tuple(PartitionFacts(at, 0, 5, 9, leader_id=1, is_offline=True) for at in where)
    said = first(Facts(TOPIC, "orders", facts))
    assert said.headline == "offline partition: 3 partitions take nothing more"
    assert (
        "free or mend its disk, then restart it; where a batch is damaged, restore its files from a copy" in said.advice
    )
    assert "docs/runbook.md" in said.advice
