"""WriteTxnMarkers: end transactions in this node's partitions; answered once every marker is synced.

It comes from coordinators, and from operators (KIP-664), who may name the offset at which the transaction must start.
"""

from __future__ import annotations

from functools import partial

from oncelog.broker.coordinators.marker_writer import Marker
from oncelog.broker.node import Node
from oncelog.broker.requests.request import Later, Request
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

NO_START_OFFSET = -1


class _Markers:
    """One request; counts the markers that are not committed yet.

    The answer is by producer id, as in Kafka: the topics of all its markers together, and of a partition that two of
    them name what became of the last. A marker without partitions is not in it.
    """

    def __init__(self, node: Node, request: Request) -> None:
        self._writer = node.marker_writer
        self._results: dict[int, dict[TopicPartition, WritableTxnMarkerPartitionResult]] = {}
        self.later = Later()
        self._uncommitted = 1
        message: WriteTxnMarkersRequest = request.message
        for marker in message.markers:
            self._write(marker)
        self._one_done()

    def _write(self, marker: WritableTxnMarker) -> None:
        results: dict[TopicPartition, WritableTxnMarkerPartitionResult] = {}
        for topic in marker.topics:
            starts = topic.txn_start_offsets
            for position, index in enumerate(topic.partition_indexes):
                partition = TopicPartition(topic.name, index)
                if partition in results:
                    continue  # named twice, written once
                result = results[partition] = WritableTxnMarkerPartitionResult(partition_index=index)
                start = starts[position] if position < len(starts) else NO_START_OFFSET
                said = Marker(
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.coordinator_epoch,
                    marker.transaction_result,
                    marker.transaction_version,
                    None if start == NO_START_OFFSET else start,
                )
                self._uncommitted += 1
                self._writer.write(said, partition, partial(self._committed, result))
        if results:
            self._results.setdefault(marker.producer_id, {}).update(results)

    def _committed(self, result: WritableTxnMarkerPartitionResult, code: ErrorCode) -> None:
        result.error_code = code
        self._one_done()

    def _one_done(self) -> None:
        self._uncommitted -= 1
        if self._uncommitted == 0:
            self.later.give(self._response())

    def _response(self) -> WriteTxnMarkersResponse:
        answered = []
        for producer_id, results in self._results.items():
            by_topic: dict[str, list[WritableTxnMarkerPartitionResult]] = {}
            for partition, result in results.items():
                by_topic.setdefault(partition.topic, []).append(result)
            topics = [WritableTxnMarkerTopicResult(name=name, partitions=found) for name, found in by_topic.items()]
            answered.append(WritableTxnMarkerResult(producer_id=producer_id, topics=topics))
        return WriteTxnMarkersResponse(markers=answered)


def handle(node: Node, request: Request) -> Later:
    """Append every marker now; one result per partition once all are committed."""
    return _Markers(node, request).later
