"""How much a reader under a quota has left to read, from what partitions keep."""

from __future__ import annotations

from typing import Any

from oncelog.cli.why.quotas import QuotaReading
from oncelog.core.diagnosis.facts import PartitionFacts
from oncelog.types import TopicPartition


def lagging(number: int, leader_id: int, position: int) -> PartitionFacts:
    return PartitionFacts(TopicPartition("t", number), 0, 100, 100, position, "reader", leader_id)


def test_the_lag_in_bytes_is_that_of_the_broker_that_has_most_of_it() -> None:
    """Each broker lets the reader have its quota: the longest takes longest."""
    nobody: Any = None
    reading = QuotaReading(nobody, _sizes={TopicPartition("t", number): 1_000 for number in range(3)})
    assert reading._lag_bytes([lagging(0, 1, 50), lagging(1, 1, 90), lagging(2, 2, 80)]) == 600
    assert reading._lag_bytes([lagging(2, 2, 80)]) == 200
    assert reading._lag_bytes([]) == 0
