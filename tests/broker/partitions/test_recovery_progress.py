"""A long recovery says that it goes on and how far it is; a short one says nothing."""

from __future__ import annotations

import itertools
import logging

import pytest
from evidence.world.broker import run

from oncelog.broker.partitions import recovery_progress
from oncelog.broker.partitions.recovery_progress import PAUSE_MS, QUIET_MS, RecoveryProgress
from tests.broker.partitions.journal_world import JournalWorld


def said(
    partition_count: int, *, each_ms: float, put_back_ms: float = 0, sync_ms: float = 0
) -> list[tuple[float, str]]:
    """Every line, and when, of a recovery in which each partition takes so long."""
    now_ms = put_back_ms
    progress = RecoveryProgress(partition_count, begun_ms=0, opening_ms=now_ms)
    lines = []
    for _ in range(partition_count):
        now_ms += each_ms
        lines.append((now_ms, progress.opened(now_ms)))
    now_ms += sync_ms
    lines.append((now_ms, progress.ended(now_ms)))
    return [(when, line) for when, line in lines if line]


def test_many_partitions_are_said_soon_then_how_far_it_is_then_how_long_it_took() -> None:
    assert said(1000, each_ms=12) == [
        (600, "recovering 1,000 partitions after an unclean stop"),
        (3600, "recovered 300 of 1,000 partitions, 3.6 s"),
        (6600, "recovered 550 of 1,000 partitions, 6.6 s"),
        (9600, "recovered 800 of 1,000 partitions, 9.6 s"),
        (12_000, "recovered 1,000 partitions in 12.0 s"),
    ]


def test_what_is_soon_over_says_nothing() -> None:
    assert said(0, each_ms=0, put_back_ms=10 * QUIET_MS) == []
    assert said(1, each_ms=QUIET_MS - 1) == []
    assert said(1000, each_ms=1.9) == []
    assert said(20, each_ms=50, put_back_ms=900) == [], "the journal's time says nothing of what a partition takes"


def test_what_was_not_expected_to_take_long_is_said_when_it_does() -> None:
    assert said(10, each_ms=250) == [
        (2000, "recovering 10 partitions after an unclean stop"),
        (2500, "recovered 10 partitions in 2.5 s"),
    ]
    assert said(3, each_ms=10, sync_ms=2 * QUIET_MS) == [(4030, "recovered 3 partitions in 4.0 s")]


def test_two_lines_are_never_close_to_one_another_but_at_the_end() -> None:
    times = [when for when, _ in said(20_000, each_ms=3)]
    assert all(later - earlier >= PAUSE_MS for earlier, later in itertools.pairwise(times[:-1]))


@pytest.mark.parametrize("quiet_ms", [0, 1_000_000])
def test_a_start_after_a_crash_says_it_in_the_log(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, quiet_ms: int
) -> None:
    """And one after a clean stop, which recovers nothing, does not."""
    monkeypatch.setattr(recovery_progress, "QUIET_MS", quiet_ms)
    caplog.set_level(logging.INFO, "oncelog.partitions")

    async def work() -> None:
        world = JournalWorld()
        await world.start()
        for topic in "abc":
            world.append(topic)
        await world.flusher.commit()
        await world.kill()
        said = [each.getMessage() for each in caplog.records if each.levelno == logging.INFO]
        if quiet_ms:
            assert said == []
        else:
            assert said[0] == "recovering 3 partitions after an unclean stop"
            assert said[1].startswith("recovered 3 partitions in ")
        caplog.clear()
        await world.stop()
        await world.start()
        assert caplog.records == []

    run(work())
