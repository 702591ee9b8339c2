"""Writes end-of-transaction markers to this node's partitions: for WriteTxnMarkers, and for this node's own coordinators.

It holds no rule: `core/leader/markers.py` says whether a marker may be appended.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.coordinators.groups import Groups
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.leader.verdict import Refuse
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.clock import Clock
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch, build_end_txn_marker


class Marker(NamedTuple):
    """What a marker says. `start_offset`: where the transaction must start, of an operator's abort (KIP-664)."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    transaction_version: int
    start_offset: int | None = None


class MarkerWriter:
    """Appends markers; `then` hears NONE when one is committed, or why it is not."""

    def __init__(self, partitions: Partitions, groups: Groups, clock: Clock) -> None:
        self._partitions = partitions
        self._groups = groups
        self._clock = clock

    def write(self, marker: Marker, name: TopicPartition, then: Callable[[ErrorCode], None]) -> None:
        """Append `marker` to a partition of this node; `then` may be called before this returns, when it is refused."""
        code = self._append(marker, name, then)
        if code is not ErrorCode.NONE:
            then(code)

    def _append(self, marker: Marker, name: TopicPartition, then: Callable[[ErrorCode], None]) -> ErrorCode:
        if name.topic == TRANSACTION_STATE_TOPIC:
            # docs/kafka-notes.md C25: Apache Kafka writes it, and its coordinator then fails to load what follows.
            return ErrorCode.INVALID_REQUEST
        try:
            partition = self._partitions.get(name)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is None:
            return self._partitions.led.why_not(name)
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        producer_id, producer_epoch, coordinator_epoch, commit, transaction_version, start_offset = marker
        verdict = partition.rules.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version, start_offset, commit=commit
        )
        if isinstance(verdict, Refuse):
            return verdict.error_code
        now_ms = self._clock.now_ms()
        batch = RecordBatch(
            build_end_txn_marker(
                commit=commit,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                coordinator_epoch=coordinator_epoch,
                timestamp_ms=now_ms,
            )
        )
        try:
            end_offset = partition.append(batch, now_ms=now_ms, transaction_version=transaction_version)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if name.topic == CONSUMER_OFFSETS_TOPIC:
            partition.when_committed(end_offset, lambda code: then(self._offsets_committed(marker, name, code)))
        else:
            partition.when_committed(end_offset, then)
        return ErrorCode.NONE

    def _offsets_committed(self, marker: Marker, name: TopicPartition, code: ErrorCode) -> ErrorCode:
        """KAFKA-17507: the answer waits until readers of the group's offsets see the outcome."""
        if code is not ErrorCode.NONE:
            return code
        try:
            self._groups.marker_committed(name.partition, marker.producer_id, marker.producer_epoch, marker.commit)
        except CoordinatorFailed:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        return ErrorCode.NONE
