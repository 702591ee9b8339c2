"""What a client counted, as typed snapshots: `metrics()`, and `stats_cb` every `statistics_interval_ms`.

Counts are sums since the client was made; a rate is the difference of two snapshots. Counting costs a few additions per
request or batch, never per record; a snapshot is made of what is in memory and asks no broker.
"""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

from oncelog.client.consumer.positions import Position
from oncelog.client.traffic import BrokerMetrics
from oncelog.core.producer.batch import Acknowledged, ProducerBatch
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class _Snapshot:
    def as_dict(self) -> dict[str, Any]:
        """Plain dicts and lists, ready for `json.dumps`."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True)
class ProducerMetrics(_Snapshot):
    """A producer's counts. `incomplete_record_count`: buffered or on their way; `retry_count`: batches sent again."""

    client_id: str
    transaction_state: str
    incomplete_record_count: int
    buffered_bytes: int
    requests_in_flight_count: int
    acknowledged_record_count: int
    acknowledged_batch_count: int
    acknowledged_bytes: int
    failed_record_count: int
    retry_count: int
    committed_transaction_count: int
    aborted_transaction_count: int
    brokers: tuple[BrokerMetrics, ...]


@dataclass(frozen=True, slots=True)
class PartitionMetrics:
    """An assigned partition. None or -1: not known yet. `readable_lag`: offsets to the last stable offset
    (read_uncommitted: to the high watermark), control and aborted records among them, as of the last fetch."""

    topic: str
    partition: int
    position: int | None
    high_watermark: int
    last_stable_offset: int
    readable_lag: int | None
    is_paused: bool
    read_replica: int | None


@dataclass(frozen=True, slots=True)
class ConsumerMetrics(_Snapshot):
    """A consumer's counts. Records that `read_committed` hides are fetched, not delivered."""

    client_id: str
    group_id: str | None
    delivered_record_count: int
    fetched_bytes: int
    rebalance_count: int
    partitions: tuple[PartitionMetrics, ...]
    brokers: tuple[BrokerMetrics, ...]


@dataclass(frozen=True, slots=True)
class ProcessMetrics(_Snapshot):
    """What `oncelog.process` counted. Records count when their transaction is committed; a dead letter is consumed as well.

    `retry_count`: calls of the transform that failed and are made again. `given_up_record_count`: read, and left to the
    next owner of their partition. `readable_lag`: offsets to the last stable offset, of the assigned partitions whose lag
    is known. `last_error`: of brokers or group, the last one that was overcome, or that it ended of.
    """

    group_id: str
    transactional_id: str
    phase: str
    consumed_record_count: int
    produced_record_count: int
    dead_letter_count: int
    committed_transaction_count: int
    aborted_transaction_count: int
    retry_count: int
    rewind_count: int
    producer_renewal_count: int
    given_up_record_count: int
    rebalance_count: int
    assigned_partition_count: int
    in_hand_record_count: int
    in_hand_bytes: int
    readable_lag: int | None
    last_error: str | None


class SendCounts:
    """What became of a producer's batches and transactions."""

    def __init__(self) -> None:
        self.acknowledged_record_count = self.acknowledged_batch_count = self.acknowledged_bytes = 0
        self.failed_record_count = self.retry_count = 0
        self.committed_transaction_count = self.aborted_transaction_count = 0

    def ended(self, batch: ProducerBatch, outcome: object) -> None:
        """A batch is about to end so."""
        if batch.outcome is not None:
            return
        if isinstance(outcome, Acknowledged):
            self.acknowledged_record_count += batch.record_count
            self.acknowledged_batch_count += 1
            self.acknowledged_bytes += len(batch.encoded or b"")
        else:
            self.failed_record_count += batch.record_count


def partition_metrics(
    positions: Mapping[TopicPartition, Position], *, is_read_committed: bool
) -> Iterable[PartitionMetrics]:
    """A snapshot of each assigned partition."""
    for (topic, partition), each in positions.items():
        end_offset = each.last_stable_offset if is_read_committed else each.high_watermark
        reached = each.reached
        yield PartitionMetrics(
            topic,
            partition,
            reached,
            each.high_watermark,
            each.last_stable_offset,
            max(end_offset - reached, 0) if reached is not None and end_offset >= 0 else None,
            each.is_paused,
            each.read_replica.node_id if each.read_replica is not None else None,
        )


class _Reporting(Protocol):
    @property
    def stats_cb(self) -> Any: ...

    @property
    def statistics_interval_ms(self) -> int: ...


def start_reports(tasks: Tasks, config: _Reporting, snapshot: Callable[[], _Snapshot]) -> None:
    """Have `stats_cb` called, where there is one."""
    if config.statistics_interval_ms and config.stats_cb is not None:
        reports = report(config.statistics_interval_ms, snapshot, config.stats_cb)
        tasks.start(reports, name="oncelog-statistics")


async def report(interval_ms: int, snapshot: Callable[[], _Snapshot], callback: Callable[[Any], None]) -> None:
    """Call back with a snapshot every `interval_ms`, for ever. What it raises is the event loop's to tell."""
    loop = asyncio.get_running_loop()
    while True:
        await asyncio.sleep(interval_ms / 1000)
        loop.call_soon(callback, snapshot())
