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
    """One request; counts the markers that are not committed yet."""

    def __init__(self, node: Node, request: Request) -> None:
        self._writer = node.marker_writer
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
            starts = topic.txn_start_offsets
            for position, index in enumerate(topic.partition_indexes):
                result = WritableTxnMarkerPartitionResult(partition_index=index)
                results.partitions.append(result)
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
                self._writer.write(said, TopicPartition(topic.name, index), partial(self._committed, result))

    def _committed(self, result: WritableTxnMarkerPartitionResult, code: ErrorCode) -> None:
        result.error_code = code
        self._settled()

    def _settled(self) -> None:
        self._uncommitted -= 1
        if self._uncommitted == 0:
            self.later.give(self.response)


def handle(node: Node, request: Request) -> Later:
    """Append every marker now; one result per partition once all are committed."""
    return _Markers(node, request).later
