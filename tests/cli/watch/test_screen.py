"""A look in words."""

from __future__ import annotations

import dataclasses

from oncelog.cli.command import Settings
from oncelog.cli.watch.looks import Seen
from oncelog.cli.watch.screen import SHOWN_MAX, alert_lines, headline, screen, verdict
from oncelog.core.diagnosis.facts import TOPIC, Facts, NotRead, OpenTransaction, Owner, PartitionFacts
from oncelog.core.diagnosis.watching import Watching
from oncelog.types import TopicPartition


def seen_with(count: int, age_ms: int = 42_000) -> Seen:
    """So many partitions, held back by one transaction."""
    where = [TopicPartition("orders", number) for number in range(count)]
    owner = Owner("ledger-7", 1, "Ongoing", 5, 0, 60_000, age_ms, 60_000 - age_ms)
    opened = tuple(OpenTransaction(at, 5, 0, 3, 10, owner) for at in where)
    facts = [PartitionFacts(at, 0, 3, 9, leader_id=1) for at in where]
    picture = Watching(30_000).looked(where, facts, opened, [owner], 100_000)
    told = Facts(TOPIC, "what is watched", tuple(facts), opened)
    return Seen(1_795_351_731_482, picture, told, (owner,), 1, {"ledger-7": count}, (), ())


def test_the_first_line_says_it_all() -> None:
    assert headline(seen_with(3)) == "stopped: 3 of 3 partitions, the longest for 42s by ledger-7"
    seen = seen_with(1)
    missing = dataclasses.replace(seen.facts, not_read=(NotRead("orders-9", "X", "gone"),))
    assert headline(dataclasses.replace(seen, facts=missing)).endswith("ledger-7; not everything could be read")
    assert headline(seen_with(0)) == "active: 0 of 0 partitions"


def test_what_could_not_be_read_is_no_all_clear() -> None:
    """A topic that is not there, or that one may not see: nothing was found, because nothing was looked at."""
    seen = seen_with(0)
    assert verdict(seen) == "active"
    gone = (NotRead("topic nope", "UNKNOWN_TOPIC_OR_PARTITION", "there is no such topic, or you may not see it"),)
    blind = dataclasses.replace(seen, facts=dataclasses.replace(seen.facts, not_read=gone))
    assert verdict(blind) == "unknown"
    assert (
        headline(blind)
        == "unknown: nothing held back in what could be read, 0 partitions; not everything could be read"
    )
    held = dataclasses.replace(seen_with(1), facts=dataclasses.replace(seen_with(1).facts, not_read=gone))
    assert verdict(held) == "stopped"  # what was found counts all the same


def test_one_transaction_is_one_alert_and_one_cause_however_many_partitions_it_holds() -> None:
    seen = seen_with(40)
    (line,) = alert_lines(Settings(), seen, 10_000)
    assert line == (
        "alert: orders-0, orders-1, orders-2, orders-3, orders-4 and 35 more held back for 42s by ledger-7: "
        "oncelog transactions force-terminate --transactional-id ledger-7"
    )
    text = screen(Settings(), seen, 10_000)
    assert text.count("force-terminate") == 1
    assert f"and {40 - SHOWN_MAX} more" in text
    assert len(text.splitlines()) < 40


def test_what_came_free_is_said() -> None:
    watching, where = Watching(1_000), [TopicPartition("orders", 0)]
    watching.looked(where, [PartitionFacts(where[0], 0, 3, 9)], [], [], 0)
    watching.looked(where, [PartitionFacts(where[0], 0, 3, 9)], [], [], 2_000)
    picture = watching.looked(where, [PartitionFacts(where[0], 0, 9, 9)], [], [], 4_000)
    seen = dataclasses.replace(seen_with(0), picture=picture)
    assert alert_lines(Settings(), seen, 10_000) == ["over: orders-0 is held back no longer"]
