"""Sends the markers of decided transactions to the partitions' leaders, and reports their answers.

A marker never gives up: lost connections and refusals are sent again, less and less often, until the topic is gone. On
one node the only leader is this broker itself: its `MarkerWriter` is called, or it is asked over the wire, with one
request in flight and a connection of its own, so that a held request can never be in a marker's way.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from oncelog.broker.coordinators.marker_writer import Marker, MarkerWriter
from oncelog.broker.network.peer import Peer, PeerLost
from oncelog.broker.requests.local_peer import LocalPeer
from oncelog.core.decision import MarkersToWrite
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.transactions.completion import SETTLED, MarkerResult
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
RETRY_DELAY_S_MAX = 1.0
REQUEST_MARKER_COUNT_MAX = 1000

Written = Callable[[MarkersToWrite, Mapping[TopicPartition, MarkerResult]], None]
_RESULTS = {ErrorCode.NONE: MarkerResult()}
Results = dict[int, dict[TopicPartition, MarkerResult]]  # by producer id


def _nobody(markers: MarkersToWrite, _results: Mapping[TopicPartition, MarkerResult]) -> None:
    raise AssertionError(f"nobody hears what became of the markers of {markers.transactional_id}")


class MarkerSender:
    """The queue of markers for one leader; with `writer` that leader is this broker.

    Whoever decides about markers sets `written`, and hears the results.
    """

    def __init__(
        self,
        peer: Peer | LocalPeer,
        metadata: ClusterMetadata,
        tasks: Tasks,
        *,
        writer: MarkerWriter | None = None,
    ) -> None:
        self._peer = peer
        self._writer = writer
        self._metadata = metadata
        self.written: Written = _nobody
        self._tasks = tasks
        self._queue: list[MarkersToWrite] = []
        self._wake = asyncio.Event()
        self._under_way = 0  # given to the writer, and not committed, or on their way to the leader
        self._refused = 0  # in the pause before they are sent again
        self._attempts: dict[str, int] = {}  # refusals in a row of a transactional id's markers
        self._refusing: dict[TopicPartition, ErrorCode] = {}  # what was said of it in the log
        self._lost_count = 0  # times in a row that the leader could not be asked

    def __len__(self) -> int:
        return len(self._queue) + self._under_way + self._refused

    @property
    def is_local(self) -> bool:
        """Whether markers are appended by this broker itself, in `send`."""
        return self._writer is not None

    def send(self, markers: MarkersToWrite) -> None:
        """Queue markers. Those without partitions are complete at once."""
        if not markers.partitions:
            self.written(markers, {})
        elif self._writer is not None:
            self._write(self._writer, markers)
        else:
            self._queue.append(markers)
            self._wake.set()

    def send_later(self, markers: Iterable[MarkersToWrite]) -> None:
        """Queue markers that were refused, after a pause that doubles with every refusal."""
        if not self._tasks.is_closed:
            again = tuple(markers)
            self._refused += len(again)
            self._tasks.start(self._again(again))

    async def _again(self, markers: tuple[MarkersToWrite, ...]) -> None:
        attempts = 0
        for transactional_id in {each.transactional_id for each in markers}:
            attempts = max(attempts, self._attempts.get(transactional_id, 0))
            self._attempts[transactional_id] = attempts + 1
        await asyncio.sleep(_pause_s(attempts))
        self._refused -= len(markers)
        for each in markers:
            self.send(each)

    async def run(self) -> None:
        """For ever: send what is queued."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._queue:
                await self._send_some()

    # to this broker itself

    def _write(self, writer: MarkerWriter, markers: MarkersToWrite) -> None:
        known = self._known(markers)
        if not known:
            self._report(markers, known, {})
            return
        marker = Marker(
            markers.producer_id,
            markers.producer_epoch,
            markers.coordinator_epoch,
            markers.commit,
            markers.transaction_version,
        )
        codes: dict[TopicPartition, ErrorCode] = {}

        def settled(name: TopicPartition, code: ErrorCode) -> None:
            codes[name] = code
            if len(codes) == len(known):
                # In a step of its own: the same commit first answers who waits for the outcome.
                asyncio.get_running_loop().call_soon(self._written_here, markers, known, codes)

        self._under_way += 1
        for name in known if len(known) == 1 else sorted(known):
            writer.write(marker, name, partial(settled, name))

    def _written_here(
        self, markers: MarkersToWrite, known: frozenset[TopicPartition], codes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        self._under_way -= 1
        if ErrorCode.TRANSACTION_COORDINATOR_FENCED in codes.values():
            self._tasks.start(self._report_fenced(markers, known, codes))
        else:
            self._report(
                markers, known, {name: _RESULTS.get(code) or MarkerResult(code) for name, code in codes.items()}
            )

    async def _report_fenced(
        self, markers: MarkersToWrite, known: frozenset[TopicPartition], codes: Mapping[TopicPartition, ErrorCode]
    ) -> None:
        results = {name: await self._result(markers.producer_id, name, code) for name, code in codes.items()}
        self._report(markers, known, results)

    # over the wire

    async def _send_some(self) -> None:
        batch, self._queue = _one_per_producer(self._queue)
        self._under_way += len(batch)
        try:
            sent = [(markers, self._known(markers)) for markers in batch]
            results = await self._answered([(markers, partitions) for markers, partitions in sent if partitions])
        finally:
            self._under_way -= len(batch)
        if results is None:
            self._queue = batch + self._queue
            return
        for markers, partitions in sent:
            self._report(markers, partitions, results.get(markers.producer_id, {}))

    async def _answered(self, to_send: list[tuple[MarkersToWrite, frozenset[TopicPartition]]]) -> Results | None:
        """What the leader says of these; None, after a pause, where it could not be asked."""
        if not to_send:
            return {}
        request = WriteTxnMarkersRequest(markers=[_marker(*each) for each in to_send])
        try:
            response: WriteTxnMarkersResponse = await self._peer.call(ApiKey.WRITE_TXN_MARKERS, request)
        except PeerLost as error:
            if not self._lost_count:
                _log.warning("markers of %d transactions could not be sent, trying again: %s", len(to_send), error)
            await asyncio.sleep(_pause_s(self._lost_count))
            self._lost_count += 1
            return None
        if self._lost_count:
            _log.info("markers are sent again, after %d attempts", self._lost_count)
            self._lost_count = 0
        return await self._results(response)

    # what came of it

    def _report(
        self,
        markers: MarkersToWrite,
        known: frozenset[TopicPartition],
        results: Mapping[TopicPartition, MarkerResult],
    ) -> None:
        for name, result in results.items():
            if result.error_code is not ErrorCode.NONE or name in self._refusing:
                self._note(markers, name, result.error_code)
        if all(result.error_code in SETTLED for result in results.values()):
            self._attempts.pop(markers.transactional_id, None)
        if len(known) < len(markers.partitions):
            # A partition whose topic is gone counts as written: there is nobody left to read it.
            results = dict.fromkeys(markers.partitions - known, MarkerResult()) | dict(results)
        self.written(markers, results)

    def _note(self, markers: MarkersToWrite, name: TopicPartition, code: ErrorCode) -> None:
        before = self._refusing.pop(name, ErrorCode.NONE)
        if name.topic not in self._metadata.topics:
            return  # deleted meanwhile: that is no refusal
        if code not in SETTLED:
            self._refusing[name] = code
        if code is before:
            return
        if code is ErrorCode.NONE:
            _log.info("%s takes markers again", name)
        else:
            _log.warning("marker of producer %d on %s: %s", markers.producer_id, name, code.name)

    def _known(self, markers: MarkersToWrite) -> frozenset[TopicPartition]:
        topics = self._metadata.topics
        return frozenset(
            each
            for each in markers.partitions
            if each.topic in topics and each.partition < topics[each.topic].partition_count
        )

    async def _results(self, response: WriteTxnMarkersResponse) -> Results:
        return {
            producer_id: {name: await self._result(producer_id, name, code) for name, code in codes.items()}
            for producer_id, codes in _codes(response).items()
        }

    async def _result(self, producer_id: int, name: TopicPartition, code: ErrorCode) -> MarkerResult:
        if code is not ErrorCode.TRANSACTION_COORDINATOR_FENCED:
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


def _pause_s(attempts: int) -> float:
    return min(RETRY_DELAY_S * (1 << min(attempts, 10)), RETRY_DELAY_S_MAX)


def _codes(response: WriteTxnMarkersResponse) -> dict[int, dict[TopicPartition, ErrorCode]]:
    codes: dict[int, dict[TopicPartition, ErrorCode]] = {}
    for marker in response.markers:
        found = codes.setdefault(marker.producer_id, {})
        for topic in marker.topics:
            for partition in topic.partitions:
                found[TopicPartition(topic.name, partition.partition_index)] = ErrorCode(partition.error_code)
    return codes


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
