"""Who ends an open transaction, if anybody."""

from __future__ import annotations

import dataclasses

import pytest

from oncelog.core.diagnosis.facts import OpenTransaction, Owner
from oncelog.core.diagnosis.transactions import (
    ENDING,
    HANGING,
    IN_PROGRESS,
    NEVER_MS,
    TWO_PHASE,
    may_be_committed,
    transaction_verdict,
)
from oncelog.types import TopicPartition

OWNER = Owner("app", 1, "Ongoing", 40, 7, 60_000, 20_000, 40_000)
OPEN = OpenTransaction(TopicPartition("orders", 3), 40, 7, 5, 15_000, OWNER)


@pytest.mark.parametrize(
    ("state", "timeout_ms", "expected"),
    [
        ("Ongoing", 60_000, IN_PROGRESS),
        ("Ongoing", NEVER_MS, TWO_PHASE),
        ("PrepareCommit", 60_000, ENDING),
        ("PrepareAbort", NEVER_MS, ENDING),
    ],
)
def test_whom_its_coordinator_waits_for(state: str, timeout_ms: int, expected: str) -> None:
    owner = dataclasses.replace(OWNER, state=state, timeout_ms=timeout_ms)
    assert transaction_verdict(dataclasses.replace(OPEN, owner=owner)) == expected


def test_what_nobody_owns_hangs() -> None:
    assert transaction_verdict(dataclasses.replace(OPEN, owner=None)) == HANGING
    assert transaction_verdict(dataclasses.replace(OPEN, hanging_reason="not included")) == HANGING


def test_age_is_the_coordinators_and_a_hanging_ones_its_last_records() -> None:
    assert OPEN.age_ms == 20_000
    assert dataclasses.replace(OPEN, hanging_reason="not included").age_ms == 15_000
    assert dataclasses.replace(OPEN, owner=dataclasses.replace(OWNER, duration_ms=None)).age_ms == 15_000


@pytest.mark.parametrize(
    ("state", "producer_epoch", "expected"),
    [
        ("CompleteCommit", 8, True),
        ("CompleteCommit", 7, True),
        ("PrepareCommit", 8, True),
        ("CompleteCommit", 9, False),
        ("CompleteAbort", 8, False),
        ("Empty", 8, False),
    ],
)
def test_what_hangs_may_be_a_commits_part_whose_marker_was_lost(
    state: str, producer_epoch: int, expected: bool
) -> None:
    """Seen on Apache Kafka 4.3: decided while a partition had no leader (docs/kafka-notes.md R4)."""
    owner = dataclasses.replace(OWNER, state=state, producer_epoch=producer_epoch)
    hanging = dataclasses.replace(OPEN, owner=owner, hanging_reason="not included")
    assert may_be_committed(hanging) is expected
    assert not may_be_committed(dataclasses.replace(hanging, owner=None))
    assert not may_be_committed(dataclasses.replace(OPEN, owner=owner, hanging_reason=None)), (
        "it has an owner that ends it"
    )
