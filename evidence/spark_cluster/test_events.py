"""The judge of `make spark-cluster-kills` sees what it is to see; the kills themselves need a cluster and minutes."""

from __future__ import annotations

import collections

from evidence.spark_cluster.events import (
    ANSWERED_MS,
    BEGIN_MS,
    KEYS,
    PARTITIONS,
    STEP_MS,
    Difference,
    answers,
    difference,
    events,
    windows,
)


def test_every_number_is_there_and_some_are_there_twice() -> None:
    made = events(1000, seed=1)
    counted = collections.Counter(event.number for event in made)
    assert set(counted) == set(range(1000 + PARTITIONS))
    assert 50 < sum(n - 1 for n in counted.values()) < 200
    for partition in range(PARTITIONS):
        times = [event.timestamp_ms for event in made if event.partition == partition]
        assert times == sorted(times), "in the order of their times"
    assert {event.partition for event in made} == set(range(PARTITIONS))
    assert all(event.partition == event.number % KEYS % PARTITIONS for event in made if event.number < 1000)


def test_every_number_has_one_answer_near_its_time() -> None:
    made = [each for each in answers(1000, seed=1) if each.number < 1000]
    assert sorted(each.number for each in made) == list(range(1000))
    assert [each.number for each in made] != list(range(1000)), "not in the order of the events"
    assert all(abs(each.timestamp_ms - BEGIN_MS - each.number * STEP_MS) <= ANSWERED_MS for each in made)


def test_windows_hold_every_number_once() -> None:
    rows = [tuple(int(each) for each in row.split(":")) for row in windows(3000)]
    assert sum(events for _, _, events, _ in rows) == 3000
    assert sum(total for _, _, _, total in rows) == 3000 * 2999 // 2


def test_what_is_twice_missing_or_wrong_is_counted() -> None:
    expected = collections.Counter("abc")
    assert difference(collections.Counter("abc"), expected).is_exact
    assert difference(collections.Counter("abbb"), expected) == Difference(2, 1, 0)
    found = difference(collections.Counter("abd"), expected)
    assert str(found) == "0 duplicates, 1 losses, 1 wrong"
    assert not found.is_exact
