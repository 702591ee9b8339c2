"""From look to look: since when something is held back, what is usual, what rings."""

from __future__ import annotations

from oncelog.core.diagnosis.facts import OpenTransaction, Owner, PartitionFacts
from oncelog.core.diagnosis.watching import (
    ACTIVE,
    OFFLINE,
    STOPPED,
    USUAL_IDS_MAX,
    WAITING,
    Picture,
    WatchedPartition,
    Watching,
)
from oncelog.types import TopicPartition

P, Q = TopicPartition("p", 0), TopicPartition("q", 0)


def owner(name: str = "app", *, duration_ms: int | None = 1_000, state: str = "Ongoing") -> Owner:
    return Owner(name, 1, state, 7, 0, 60_000, duration_ms, None)


def held(age_ms: int, *, at: TopicPartition = P, start: int = 5, state: str = "Ongoing") -> OpenTransaction:
    return OpenTransaction(at, 7, 0, start, 0, owner(duration_ms=age_ms, state=state))


def facts(stable: int | None, end: int | None, at: TopicPartition = P) -> PartitionFacts:
    return PartitionFacts(at, 0, stable, end, leader_id=1)


def look(
    watching: Watching, now_ms: int, stable: int | None, end: int | None, *opened: OpenTransaction
) -> WatchedPartition:
    return picture(watching, now_ms, stable, end, *opened).partitions[0]


def picture(watching: Watching, now_ms: int, stable: int | None, end: int | None, *opened: OpenTransaction) -> Picture:
    return watching.looked([P], [facts(stable, end)], opened, [], now_ms)


def test_at_the_first_look_a_partition_is_held_for_as_long_as_its_holder_is_open() -> None:
    seen = look(Watching(30_000), 100_000, 5, 9, held(4_000))
    assert (seen.word, seen.blocked_ms) == (WAITING, 4_000)
    assert look(Watching(30_000), 100_000, 5, 9, held(10_000)).word == STOPPED
    assert look(Watching(30_000), 100_000, 9, 9).word == ACTIVE


def test_an_offset_that_moved_since_the_last_look_is_held_since_then_at_most() -> None:
    watching = Watching(30_000)
    assert look(watching, 100_000, 5, 9, held(50_000)).blocked_ms == 50_000
    assert look(watching, 102_000, 6, 9, held(52_000, start=6)).blocked_ms == 2_000
    assert look(watching, 104_000, 6, 12, held(54_000, start=6)).blocked_ms == 4_000
    assert look(watching, 106_000, 12, 12).blocked_ms == 0
    assert look(watching, 108_000, 12, 13, held(500, start=12)).blocked_ms == 500


def test_rates_are_of_the_last_minute() -> None:
    watching = Watching(30_000)
    assert look(watching, 0, 0, 0).last_stable_offset_rate is None
    for second in range(2, 202, 2):
        seen = look(watching, second * 1_000, min(second, 100) * 10, second * 10, held(1))
    assert seen.high_watermark_rate == 10
    assert seen.last_stable_offset_rate == 0, "it has stood for a hundred seconds"


def test_what_cannot_be_asked_keeps_its_time() -> None:
    watching = Watching(30_000)
    look(watching, 0, 5, 9, held(20_000))
    away = look(watching, 5_000, None, None)
    assert (away.word, away.blocked_ms) == (OFFLINE, 25_000)
    back = look(watching, 8_000, 5, 9, held(28_000))
    assert (back.word, back.blocked_ms) == (STOPPED, 28_000)


def test_each_thing_rings_once_and_is_over_once() -> None:
    watching = Watching(30_000)
    assert not picture(watching, 0, 5, 9, held(29_000)).alerts
    rings = picture(watching, 2_000, 5, 9, held(31_000))
    assert [each.where for each in rings.rung] == [each.where for each in rings.alerts] == [P]
    later = picture(watching, 4_000, 5, 9, held(33_000))
    assert (len(later.alerts), later.rung, later.over) == (1, (), ())
    over = picture(watching, 6_000, 9, 9)
    assert (over.alerts, [each.where for each in over.over]) == ((), [P])
    assert not picture(watching, 8_000, 9, 9).over


def test_what_an_id_usually_takes_is_no_standstill() -> None:
    watching = Watching(600_000)
    now_ms = 0
    for _ in range(3):
        watching.looked([P], [], [], [owner(duration_ms=20_000)], now_ms := now_ms + 20_000)
        watching.looked([P], [], [], [], now_ms := now_ms + 2_000)
    assert look(watching, now_ms + 50_000, 5, 9, held(50_000)).word == WAITING
    assert look(watching, now_ms + 60_000, 5, 9, held(60_000)).word == STOPPED


def test_nothing_grows_with_ids_or_topics_that_are_gone() -> None:
    watching = Watching(0)
    for number in range(USUAL_IDS_MAX + 10):
        watching.looked([], [], [], [owner(str(number))], number)
    assert len(watching._usual) == USUAL_IDS_MAX
    watching.looked([P, Q], [facts(5, 9), facts(5, 9, Q)], [], [], 10_000)
    left = watching.looked([Q], [facts(5, 9, Q)], [], [], 20_000)
    assert [each.where for each in left.partitions] == [Q]
    assert watching._partitions.keys() == watching._ringing.keys() == {Q}


def test_markers_that_do_not_come_are_late_after_ten_seconds() -> None:
    watching = Watching(30_000)
    assert not picture(watching, 0, 5, 9, held(0, state="PrepareCommit")).still_ending
    assert not picture(watching, 9_000, 5, 9, held(9_000, state="PrepareCommit")).still_ending
    assert picture(watching, 10_000, 5, 9, held(10_000, state="PrepareCommit")).still_ending == {7}


def test_the_first_of_several_holds_and_what_was_not_asked_stays() -> None:
    watching = Watching(30_000)
    seen = watching.looked([P, Q], [facts(5, 9), facts(1, 1, Q)], [held(5_000, start=7), held(3_000)], None, 0)
    assert seen.blocked[0].holder == held(3_000)
    again = watching.looked([P, Q], [facts(1, 1, Q)], [], None, 2_000)
    assert [each.word for each in again.partitions] == [WAITING, ACTIVE]
    assert (again.verdict, watching.held) == (WAITING, [P])
