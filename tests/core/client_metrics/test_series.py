"""What is shown of what clients pushed, and that it is bounded."""

from __future__ import annotations

from oncelog.core.client_metrics.series import TEXT_LENGTH_MAX, SeriesTable, push_of
from oncelog.core.client_metrics.subscriptions import ClientInstance
from oncelog.wire.metrics_data import DataPoint, MetricKind

A, B = (ClientInstance(bytes(15) + bytes([n]), f"c{n}", "s", "1", "10.0.0.1", 4000) for n in (1, 2))
G, C, D = MetricKind.GAUGE, MetricKind.CUMULATIVE, MetricKind.DELTA


def push(table, client, points):
    return table.take(client, push_of(points))


def shown(table):
    return {(each.client_id, each.metric, each.attributes): (each.is_counter, each.value) for each in table.now()}


def test_a_push_replaces_the_one_before_but_for_deltas():
    table = SeriesTable(lambda: 10)
    where = (("topic", "t"), ("partition", "0"))
    assert push(table, A, [DataPoint("g", 1, G, where), DataPoint("c", 5, C), DataPoint("d", 3, D)]) == 0
    assert push(table, A, [DataPoint("c", 6, C), DataPoint("d", 4, D)]) == 0
    assert shown(table) == {("c1", "c", ""): (True, 6), ("c1", "d", ""): (True, 7)}
    push(table, A, [DataPoint("g", 1.5, G, where)])
    assert shown(table) == {("c1", "g", "partition=0,topic=t"): (False, 1.5), ("c1", "d", ""): (True, 7)}
    assert len(table) == 2


def test_deltas_of_one_push_are_added_and_fill_the_room():
    table = SeriesTable(lambda: 2)
    assert push(table, A, [DataPoint("d", 1, D), DataPoint("d", 2, D)]) == 0
    assert push(table, A, [DataPoint("d", 4, D), DataPoint("e", 1, D), DataPoint("f", 1, D)]) == 1
    assert shown(table) == {("c1", "d", ""): (True, 7), ("c1", "e", ""): (True, 1)}


def test_a_push_rests_after_each_number():
    rests = []
    assert len(push_of([DataPoint("a", 1), DataPoint("", 1)], rests.append).numbers) == 1
    assert rests == [0, 0]


def test_clients_stand_beside_each_other_and_go():
    table = SeriesTable(lambda: 10)
    push(table, A, [DataPoint("g", 1)])
    push(table, B, [DataPoint("g", 2)])
    table.forget(A.instance_id)
    table.forget(A.instance_id)
    assert shown(table) == {("c2", "g", ""): (False, 2)}
    assert len(table) == 1


def test_what_is_shown_is_what_was_there_when_it_was_asked_for():
    table = SeriesTable(lambda: 10)
    push(table, A, [DataPoint("d", 1, D)])
    now = table.now()
    push(table, A, [DataPoint("d", 1, D)])
    table.forget(A.instance_id)
    assert [each.value for each in now] == [1]


def test_bounds():
    table = SeriesTable(lambda: 3)
    assert push(table, A, [DataPoint("a", 1), DataPoint("b", 1), DataPoint("a", 2)]) == 0
    assert push(table, B, [DataPoint("a", 1), DataPoint("b", 1)]) == 1
    assert push(table, A, [DataPoint("a", 3), DataPoint("c", 1)]) == 0  # in the place of its own
    assert len(table) == 3
    long = DataPoint("n", 1, G, (("x", "y" * TEXT_LENGTH_MAX),))
    assert push(table, A, [long, DataPoint("", 1)]) == 2
    assert shown(table) == {("c2", "a", ""): (False, 1)}
