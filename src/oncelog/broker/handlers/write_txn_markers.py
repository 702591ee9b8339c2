"""WriteTxnMarkers: end transactions in this node's partitions; answered once every marker is synced.

It comes from coordinators, and from operators (KIP-664), who may name the offset at which the transaction must start.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from oncelog.broker.coordinator_shell import CoordinatorFailed
from oncelog.broker.request import Later, Request
from oncelog.core.topic_configs import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.core.verdict import Refuse
from oncelog.errors import ErrorCode, StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from oncelog.wire.record_batch import RecordBatch, build_end_txn_marker

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

NO_START_OFFSET = -1


class _Markers:
    """One request; counts the markers that are not committed yet."""

    def __init__(self, broker: Broker, request: Request) -> None:
        self.broker = broker
        self.now_ms = broker.host.clock.now_ms()
        self.response = WriteTxnMarkersResponse()
        self.later = Later()
        self._uncommitted = 1
        message: WriteTxnMarkersRequest = request.message
        for marker in message.markers:
            self._write(marker)
        self._settled()

    def _write(self, marker: WritableTxnMarker) -> None:
        answered = WritableTxnMarkerResult(producer_id=marker.producer_id)
        self.response.markers.append(answered)
        for topic in marker.topics:
            results = WritableTxnMarkerTopicResult(name=topic.name)
            answered.topics.append(results)
            for position, index in enumerate(topic.partition_indexes):
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                results.partitions.append(result)
                starts = topic.txn_start_offsets
                start = starts[position] if position < len(starts) else NO_START_OFFSET
                result.error_code = self._append(marker, TopicPartition(topic.name, index), start, result)

    def _append(
        self, marker: WritableTxnMarker, name: TopicPartition, start: int, result: WritableTxnMarkerPartitionResult
    ) -> ErrorCode:
        if name.topic == TRANSACTION_STATE_TOPIC:
            # observed C25: Apache Kafka writes it, and its coordinator then fails to load what follows.
            return ErrorCode.INVALID_REQUEST
        try:
            partition = self.broker.partitions.get(name)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        if partition is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        if partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        verdict = partition.rules.check_marker(
            marker.producer_id,
            marker.producer_epoch,
            marker.coordinator_epoch,
            marker.transaction_version,
            None if start == NO_START_OFFSET else start,
            commit=marker.transaction_result,
        )
        if isinstance(verdict, Refuse):
            return verdict.error_code
        batch = RecordBatch(
            build_end_txn_marker(
                commit=marker.transaction_result,
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=self.now_ms,
            )
        )
        try:
            end_offset = partition.append(batch, now_ms=self.now_ms, transaction_version=marker.transaction_version)
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        self._uncommitted += 1
        partition.when_committed(end_offset, lambda code: self._committed(marker, name, result, code))
        return ErrorCode.NONE

    def _committed(
        self,
        marker: WritableTxnMarker,
        name: TopicPartition,
        result: WritableTxnMarkerPartitionResult,
        code: ErrorCode,
    ) -> None:
        result.error_code = code
        if code is ErrorCode.NONE and name.topic == CONSUMER_OFFSETS_TOPIC:
            # KAFKA-17507: the answer waits until readers of the group's offsets see the outcome.
            try:
                self.broker.groups.marker_committed(
                    name.partition, marker.producer_id, marker.producer_epoch, marker.transaction_result
                )
            except CoordinatorFailed:
                result.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        self._settled()

    def _settled(self) -> None:
        self._uncommitted -= 1
        if self._uncommitted == 0:
            self.later.give(self.response)


def handle(broker: Broker, request: Request) -> Later:
    """Append every marker now; one result per partition once all are committed."""
    return _Markers(broker, request).later
