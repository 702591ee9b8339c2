"""Sends the markers of decided transactions to the partitions' leaders, over the wire, and reports their answers.

One request in flight per leader; what is decided meanwhile goes into the next one. A marker never gives up: lost
connections and refusals are sent again until the topic is gone. On one node the only leader is this broker itself, over
a connection of its own, so that a held request can never be in a marker's way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping

from oncelog.broker.peer import Peer, PeerLost
from oncelog.core.cluster_metadata import ClusterMetadata
from oncelog.core.decision import MarkersToWrite
from oncelog.core.marker_results import MarkerResult
from oncelog.errors import ErrorCode
from oncelog.host.tasks import Tasks
from oncelog.types import TopicPartition
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.describe_producers import DescribeProducersRequest, TopicRequest
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

_log = logging.getLogger("oncelog.markers")

RETRY_DELAY_S = 0.05
REQUEST_MARKER_COUNT_MAX = 1000

Written = Callable[[MarkersToWrite, Mapping[TopicPartition, MarkerResult]], None]


class MarkerSender:
    """The queue of markers for one leader; `written` hears the results."""

    def __init__(self, peer: Peer, metadata: ClusterMetadata, written: Written, tasks: Tasks) -> None:
        self._peer = peer
        self._metadata = metadata
        self._written = written
        self._tasks = tasks
        self._queue: list[MarkersToWrite] = []
        self._wake = asyncio.Event()

    def __len__(self) -> int:
        return len(self._queue)

    def send(self, markers: MarkersToWrite) -> None:
        """Queue markers. Those without partitions are complete at once."""
        if not markers.partitions:
            self._written(markers, {})
            return
        self._queue.append(markers)
        self._wake.set()

    def send_later(self, markers: Iterable[MarkersToWrite]) -> None:
        """Queue markers that were refused, after a pause."""
        if not self._tasks.is_closed:
            self._tasks.start(self._again(tuple(markers)))

    async def _again(self, markers: tuple[MarkersToWrite, ...]) -> None:
        await asyncio.sleep(RETRY_DELAY_S)
        for each in markers:
            self.send(each)

    async def run(self) -> None:
        """For ever: send what is queued."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._send_some()

    async def _send_some(self) -> None:
        batch, rest = _one_per_producer(self._queue)
        self._queue = rest
        known = [(markers, self._known(markers)) for markers in batch]
        gone = {markers.transactional_id: markers.partitions - partitions for markers, partitions in known}
        to_send = [(markers, partitions) for markers, partitions in known if partitions]
        results: dict[int, dict[TopicPartition, MarkerResult]] = {}
        if to_send:
            request = WriteTxnMarkersRequest(markers=[_marker(*each) for each in to_send])
            try:
                response: WriteTxnMarkersResponse = await self._peer.call(ApiKey.WRITE_TXN_MARKERS, request)
            except PeerLost as error:
                _log.warning("markers of %d transactions could not be sent, trying again: %s", len(to_send), error)
                await asyncio.sleep(RETRY_DELAY_S)
                self._queue = batch + self._queue
                return
            results = await self._results(response)
        for markers, _ in known:
            # A partition whose topic is gone counts as written: there is nobody left to read it.
            outcome = dict.fromkeys(gone[markers.transactional_id], MarkerResult())
            outcome |= results.get(markers.producer_id, {})
            self._written(markers, outcome)

    def _known(self, markers: MarkersToWrite) -> frozenset[TopicPartition]:
        topics = self._metadata.topics
        return frozenset(
            each
            for each in markers.partitions
            if each.topic in topics and each.partition < topics[each.topic].partition_count
        )

    async def _results(self, response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, MarkerResult]]:
        results: dict[int, dict[TopicPartition, MarkerResult]] = {}
        for marker in response.markers:
            found = results.setdefault(marker.producer_id, {})
            for topic in marker.topics:
                for partition in topic.partitions:
                    name = TopicPartition(topic.name, partition.partition_index)
                    found[name] = await self._result(marker.producer_id, name, ErrorCode(partition.error_code))
        return results

    async def _result(self, producer_id: int, name: TopicPartition, code: ErrorCode) -> MarkerResult:
        if code is not ErrorCode.TRANSACTION_COORDINATOR_FENCED:
            if code is not ErrorCode.NONE:
                _log.warning("marker of producer %d on %s: %s", producer_id, name, code.name)
            return MarkerResult(code)
        # An operator's marker left a higher coordinator epoch there: learn it, and send with that one.
        asked = DescribeProducersRequest(topics=[TopicRequest(name=name.topic, partition_indexes=[name.partition])])
        try:
            response = await self._peer.call(ApiKey.DESCRIBE_PRODUCERS, asked)
        except PeerLost:
            return MarkerResult(code)
        epochs = [
            producer.coordinator_epoch
            for topic in response.topics
            for partition in topic.partitions
            for producer in partition.active_producers
            if producer.producer_id == producer_id
        ]
        return MarkerResult(code, max(epochs, default=-1))


def _one_per_producer(queue: list[MarkersToWrite]) -> tuple[list[MarkersToWrite], list[MarkersToWrite]]:
    # A response names its markers by producer id only, so a request holds one marker of each.
    batch: dict[int, MarkersToWrite] = {}
    rest = []
    for markers in queue:
        if markers.producer_id in batch or len(batch) >= REQUEST_MARKER_COUNT_MAX:
            rest.append(markers)
        else:
            batch[markers.producer_id] = markers
    return list(batch.values()), rest


def _marker(markers: MarkersToWrite, partitions: frozenset[TopicPartition]) -> WritableTxnMarker:
    by_topic: dict[str, list[int]] = {}
    for name in sorted(partitions):
        by_topic.setdefault(name.topic, []).append(name.partition)
    return WritableTxnMarker(
        producer_id=markers.producer_id,
        producer_epoch=markers.producer_epoch,
        transaction_result=markers.commit,
        topics=[WritableTxnMarkerTopic(name=topic, partition_indexes=indexes) for topic, indexes in by_topic.items()],
        coordinator_epoch=markers.coordinator_epoch,
        transaction_version=markers.transaction_version,
    )
