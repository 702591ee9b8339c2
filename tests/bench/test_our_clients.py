"""Rows of our clients: which brokers are compared, and what a latency is told of."""

from __future__ import annotations

import threading
import time

import pytest
from bench.costs import Measured, Spent
from bench.our_clients import SYNCED, WITHOUT_DISK, Ages, _latency_row, _pairs, _tell_dues
from bench.pairs import KAFKA, OURS, percentile


def test_transactions_are_compared_without_and_with_the_others_disk():
    measured = {name: [Measured(figure, 500, 300)] for name, figure in ((OURS, 200), (KAFKA, 100), (SYNCED, 50))}
    first, second = _pairs("transactions/s", "txn", measured)
    assert (first.name, first.ratio, first.other_name) == ("transactions/s (ours synced)", 2.0, KAFKA)
    assert (second.name, second.ratio, second.other_name) == ("transactions/s (both synced)", 4.0, SYNCED)
    assert (second.cpu.per, second.cpu.broker_us, second.cpu.other_client_us) == ("txn", 500, 300)


def test_without_apache_kafka_ours_is_told_alone():
    [alone] = _pairs("transactions/s", "txn", {OURS: [Measured(200, 500, 300)]})
    assert (alone.oncelog, alone.other, alone.cpu.other_broker_us) == (200, None, None)


def ages(*ms):
    return Ages(sorted(ms), Spent(1.0, len(ms) / 1e3, len(ms) / 1e4))


def test_a_latency_is_the_median_of_the_rounds_percentiles():
    measured = {OURS: [ages(1, 2, 3, 9), ages(2, 3, 4, 7), ages(5, 6, 7, 8)], KAFKA: [ages(6, 6, 6, 6)]}
    half = _latency_row(measured, 200, "p50", 0.5, OURS)
    assert (half.oncelog, half.other, half.ratio) == (4, 6, 1.5)
    most = _latency_row(measured, 200, "p99", 0.99, OURS)
    assert (most.oncelog, most.note) == (8, "median of 3, n=4 each")
    assert most.cpu.broker_us == pytest.approx(1000)
    assert most.cpu.client_us == pytest.approx(100)
    measured[WITHOUT_DISK] = measured[OURS]
    assert "flush.policy=os" in _latency_row(measured, 200, "p50", 0.5, WITHOUT_DISK).name


@pytest.mark.parametrize(("share", "expected"), [(0.0, 1), (0.5, 3), (0.99, 4), (1.0, 4)])
def test_a_percentile_has_its_share_below_it(share, expected):
    assert percentile([1, 2, 3, 4], share) == expected
    assert percentile([], share) is None


def test_every_time_is_told_once_in_order_and_not_before_it_has_come():
    dues = [time.perf_counter() + i / 2_000 for i in range(40)]
    told = []

    def tell(come):
        assert come
        assert come[-1] <= time.perf_counter()
        told.extend(come)

    _tell_dues(dues, tell, threading.Event())
    assert told == dues


def test_nothing_is_told_after_the_stop():
    stop, told = threading.Event(), []
    stop.set()
    _tell_dues([0.0], told.append, stop)
    assert told == []
