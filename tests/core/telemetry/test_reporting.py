"""When a client asks and pushes, what an error changes, and sums as deltas."""

from __future__ import annotations

import pytest

from oncelog.core.telemetry.reporting import INTERVAL_MS_DEFAULT, Ledger, Reporting, subscription_of
from oncelog.errors import ErrorCode as E
from oncelog.wire.compression import Codec
from oncelog.wire.metrics_data import DataPoint, MetricKind

ID = bytes(range(16))


def subscription(metrics=("a.",), interval_ms=1_000, codecs=(4, 2)):
    return subscription_of(5, interval_ms, metrics, codecs, 100, is_delta=False)


def subscribed(now_ms=0.0, jitter=0.5, **more):
    reporting = Reporting()
    reporting.subscribed(ID, subscription(**more), now_ms, jitter)
    return reporting


def test_it_asks_at_once_and_pushes_after_a_jittered_interval_and_then_every_one():
    reporting = Reporting()
    assert (reporting.wait_ms(0), reporting.to_push) == (0, None)
    reporting.subscribed(ID, subscription(), 10, 0.5)
    assert (reporting.wait_ms(10), reporting.wait_ms(600)) == (500, 0)
    assert reporting.to_push is reporting.subscription
    reporting.pushed(600)
    assert reporting.wait_ms(600) == 1_000


def test_where_nothing_is_wanted_it_asks_again():
    reporting = subscribed(metrics=())
    assert (reporting.wait_ms(0), reporting.to_push) == (1_000, None)


@pytest.mark.parametrize(
    ("error", "wait_ms"),
    [
        (E.UNKNOWN_SUBSCRIPTION_ID, 0),
        (E.UNSUPPORTED_COMPRESSION_TYPE, 0),
        (E.TELEMETRY_TOO_LARGE, 1_000),
        (E.THROTTLING_QUOTA_EXCEEDED, 1_000),
    ],
)
def test_errors_after_which_it_asks_again(error, wait_ms):
    reporting = subscribed()
    reporting.refused(error, 700)
    assert (reporting.wait_ms(700), reporting.to_push, reporting.is_over) == (wait_ms, None, False)
    assert reporting.instance_id == ID


@pytest.mark.parametrize(
    "error", [E.INVALID_REQUEST, E.INVALID_RECORD, E.UNSUPPORTED_VERSION, E.UNKNOWN_SERVER_ERROR, 999]
)
def test_errors_after_which_there_is_no_use(error):
    reporting = subscribed()
    reporting.refused(error, 0)
    assert reporting.is_over


def test_without_an_answer_or_a_subscription_it_waits_for_minutes():
    reporting = Reporting()
    reporting.failed(5)
    assert reporting.wait_ms(5) == INTERVAL_MS_DEFAULT
    reporting.refused(E.THROTTLING_QUOTA_EXCEEDED, 7)
    assert reporting.wait_ms(7) == INTERVAL_MS_DEFAULT


def test_what_a_broker_says_is_made_fit():
    assert subscription(interval_ms=0).interval_ms == INTERVAL_MS_DEFAULT
    assert [subscription(codecs=each).codec for each in ((9, 1), (), (9,))] == [Codec.GZIP, Codec.NONE, Codec.NONE]


@pytest.mark.parametrize(
    ("metrics", "found"),
    [(("*",), ["a.b", "b"]), (("",), ["a.b", "b"]), (("a.",), ["a.b"]), (("a.b", "b"), ["a.b", "b"]), ((), [])],
)
def test_prefixes(metrics, found):
    points = [DataPoint("a.b", 1), DataPoint("b", 1)]
    assert [point.name for point in subscription(metrics=metrics).wanted(points)] == found


def test_deltas_to_what_was_taken():
    ledger = Ledger()
    one = [DataPoint("s", 5, MetricKind.CUMULATIVE, (("n", "1"),)), DataPoint("g", 7)]
    two = [DataPoint("s", 9, MetricKind.CUMULATIVE, (("n", "1"),)), DataPoint("g", 8)]
    assert [(p.value, p.kind) for p in ledger.deltas(one)] == [(5, MetricKind.DELTA), (7, MetricKind.GAUGE)]
    assert [p.value for p in ledger.deltas(two)] == [9, 8]  # the first push was not taken
    ledger.told(one)
    assert [p.value for p in ledger.deltas(two)] == [4, 8]
