"""Fetches ahead, bounded: a partition has what one fetch brought, and the next comes or waits behind it.

A broker has two lanes, so that a Fetch that waits at the broker does not delay partitions that were emptied or moved to
meanwhile. What read_committed hides is decided by `core/consumer/aborted_filter` as data arrives; records are decoded
when they are taken (supply.py).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Iterable

from oncelog.client.cluster.cluster import VERSION_MAX, Cluster
from oncelog.client.config import ConsumerConfig
from oncelog.client.consumer.corrupt import corrupt
from oncelog.client.consumer.deserializing import decoder_of
from oncelog.client.consumer.position_check import PositionCheck
from oncelog.client.consumer.positions import Chunk, Position, Positions
from oncelog.client.consumer.read_replica import named_by, node_to_ask
from oncelog.client.consumer.reset import reset_timestamp
from oncelog.client.consumer.supply import Supply
from oncelog.client.consumer.transaction_buffer import Spill, bound
from oncelog.core.consumer.aborted_filter import AbortedFilter
from oncelog.core.consumer.fetch_session import ClientFetchSession, SessionPartition, Wanted
from oncelog.errors import (
    CorruptBatch,
    ErrorCode,
    IllegalState,
    KafkaError,
    OffsetOutOfRange,
    error_for,
)
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition
from oncelog.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)
from oncelog.wire.record_batch import RecordBatch, batches
from oncelog.wire.schema import ZERO_UUID

log = logging.getLogger("oncelog.client")

LANES = ("fetch", "fetch too")
_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INCONSISTENT_TOPIC_ID,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)

_ASK_AGAIN = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(frozen=True, slots=True)
class _Fetch:
    """A request, and what it was made of."""

    asked: dict[TopicPartition, Position]
    versions: dict[TopicPartition, int]
    ids: dict[TopicPartition, bytes] | None
    session: ClientFetchSession
    request: FetchRequest
    version_max: int


@dataclass(frozen=True, slots=True)
class _Sent:
    """A request on its way."""

    fetch: _Fetch
    answer: asyncio.Future[FetchResponse]
    version: int


class Fetcher(Supply):
    """Keeps assigned partitions supplied."""

    def __init__(
        self, cluster: Cluster, config: ConsumerConfig, positions: Positions, new_spill: Callable[[], Spill]
    ) -> None:
        self._cluster, self._config, self._positions = cluster, config, positions
        self._new_spill, self.decode = new_spill, decoder_of(config)
        self._woken = asyncio.Event()
        self._busy: set[tuple[Node, str]] = set()
        self._sessions: dict[tuple[Node, str], ClientFetchSession] = {}
        self._check = PositionCheck(cluster, config)
        self._leaderless: set[TopicPartition] = set()
        self._next_first = 0
        self.fetched_bytes = 0
        self.arrived = asyncio.Event()
        self.error: Exception | None = None

    def wake(self) -> None:
        """Positions, the assignment or what is prefetched changed."""
        self._woken.set()

    def metadata_came(self) -> None:
        """Partitions whose leader was not known need not wait out their back-off."""
        for topic_partition in self._leaderless & self._positions.by_partition.keys():
            self._positions.of(topic_partition).not_before_ms = 0.0
        self._leaderless.clear()
        self._check.keep(self._positions.by_partition.keys())
        known = set(self._cluster.view.nodes.values())
        for key in [each for each in self._sessions if each[0] not in known and each not in self._busy]:
            del self._sessions[key]
        self.wake()
        self.arrived.set()

    async def run(self) -> None:
        """Fetch what is wanted, for ever."""
        while True:
            self._woken.clear()
            now_ms = self._cluster.now_ms()
            self._start_fetches(now_ms)
            timer = self._positions.next_timer(now_ms)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(None if timer is None else max(timer - now_ms, 1) / 1000):
                    await self._woken.wait()

    def _start_fetches(self, now_ms: float) -> None:
        by_node: dict[Node, list[TopicPartition]] = {}
        unchecked: dict[Node, dict[TopicPartition, Position]] = {}
        view = self._cluster.view
        for topic_partition in self._positions.fetchable(now_ms, self._config.fetch_max_bytes):
            leader = view.leader_of(topic_partition)
            if leader is None or leader.leader_id not in view.nodes:
                self._cluster.refresh_soon((topic_partition.topic,))
                self._leaderless.add(topic_partition)
                self._positions.of(topic_partition).not_before_ms = now_ms + self._config.retry_backoff_ms
            elif self._positions.is_of_a_former_topic(topic_partition, view.topics[topic_partition.topic].topic_id):
                self.arrived.set()
            elif self._check.is_needed(topic_partition, self._positions.of(topic_partition), leader):
                if not self._positions.of(topic_partition).is_supplied:  # else what is here is handed out first
                    asked = unchecked.setdefault(view.nodes[leader.leader_id], {})
                    asked[topic_partition] = self._positions.of(topic_partition)
            else:
                position = self._positions.of(topic_partition)
                node_id, holds = node_to_ask(leader, position.read_replica, view.nodes, now_ms)
                if position.read_replica is not None and not holds:
                    if position.read_replica.node_id not in view.nodes:
                        self._cluster.refresh_soon((topic_partition.topic,))
                    position.read_replica = None
                by_node.setdefault(view.nodes[node_id], []).append(topic_partition)
        for node, asked in unchecked.items():
            for position in asked.values():
                position.is_fetching = True
            self._cluster.tasks.start(self._check_positions(node, asked), name=f"oncelog-check-{node.node_id}")
        for node, wanted in by_node.items():
            lane = next((lane for lane in LANES if (node, lane) not in self._busy), None)
            if lane is not None:
                self._busy.add((node, lane))
                for topic_partition in wanted:
                    self._positions.of(topic_partition).is_fetching = True
                asked = {tp: self._positions.of(tp) for tp in self._rotated(wanted)}
                sent = self._send_at_once(node, lane, asked)
                self._cluster.tasks.start(self._fetch(node, lane, asked, sent), name=f"oncelog-fetch-{node.node_id}")

    async def _check_positions(self, node: Node, asked: dict[TopicPartition, Position]) -> None:
        try:
            await self._check.check(node, asked)
        except KafkaError as error:
            self._failed(asked, error)
        finally:
            for position in asked.values():
                position.is_fetching = False
            self.wake()
            self.arrived.set()

    def _rotated(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """A broker fills its answer from the front: nobody is in front always."""
        self._next_first += 1
        first = self._next_first % len(partitions)
        return partitions[first:] + partitions[:first]

    def _new_request(self, node: Node, lane: str, asked: dict[TopicPartition, Position]) -> _Fetch:
        versions = {tp: position.version for tp, position in asked.items()}
        ids = self._topic_ids(asked)
        session = self._sessions.setdefault((node, lane), ClientFetchSession())
        return _Fetch(asked, versions, ids, session, self._request(session, asked, ids), VERSION_MAX if ids else 12)

    def _send_at_once(self, node: Node, lane: str, asked: dict[TopicPartition, Position]) -> _Sent | None:
        """Where the connection is open the request leaves now: the broker works while the application does."""
        connection = self._cluster.ready_connection(node, lane)
        if connection is None:
            return None
        fetch = self._new_request(node, lane, asked)
        try:
            answer, version = connection.start_request(
                fetch.request, version_max=fetch.version_max, timeout_ms=self._timeout_ms
            )
        except KafkaError:
            fetch.session.unanswered()
            return None  # the other way will say why
        answer.add_done_callback(_seen)
        return _Sent(fetch, answer, version)

    def _topic_ids(self, asked: dict[TopicPartition, Position]) -> dict[TopicPartition, bytes] | None:
        """Of the topics that the positions are places in: the view may know others under their names by now. None where a
        broker gives no ids."""
        known = self._cluster.view.topic_ids({tp.topic for tp, position in asked.items() if position.topic_id is None})
        return None if known is None else {tp: each.topic_id or known[tp.topic] for tp, each in asked.items()}

    @property
    def _timeout_ms(self) -> int:
        return self._config.request_timeout_ms + self._config.fetch_max_wait_ms

    async def _fetch(
        self, node: Node, lane: str, looked_at: dict[TopicPartition, Position], sent: _Sent | None
    ) -> None:
        try:
            if sent is not None:
                await self._receive(node, sent.fetch, _answered(sent))
                return
            # Between the look and this step a position may have been reset, or its partition given away.
            asked = {tp: position for tp, position in looked_at.items() if position.offset is not None}
            if asked:
                fetch = self._new_request(node, lane, asked)
                answered = self._cluster.request_with_version(
                    node, fetch.request, version_max=fetch.version_max, timeout_ms=self._timeout_ms, lane=lane
                )
                await self._receive(node, fetch, answered)
        finally:
            self._busy.discard((node, lane))
            for position in looked_at.values():
                position.is_fetching = False
            self.wake()
            self.arrived.set()

    async def _receive(self, node: Node, fetch: _Fetch, answered: Awaitable[tuple[FetchResponse, int]]) -> None:
        asked, ids, session = fetch.asked, fetch.ids, fetch.session
        try:
            response, version = await answered
        except KafkaError as error:
            session.unanswered()
            self._failed(asked, error)
        else:
            session.answered(response.session_id, is_error=bool(response.error_code))
            names = {topic_id: tp.topic for tp, topic_id in ids.items()} if ids and version >= 13 else {}
            if response.error_code in _ASK_AGAIN:
                log.debug("the fetch session with %s is over", node)
            elif response.error_code:
                self._failed(asked, error_for(response.error_code, f"Fetch from {node.host}:{node.port}"))
            else:
                self._take_response(node, asked, fetch.versions, response, names)

    def _request(
        self,
        session: ClientFetchSession,
        asked: dict[TopicPartition, Position],
        ids: dict[TopicPartition, bytes] | None,
    ) -> FetchRequest:
        wanted: dict[SessionPartition, Wanted] = {}
        for tp, position in asked.items():
            assert position.fetch_offset is not None
            leader = self._cluster.view.leader_of(tp)
            wanted[SessionPartition(tp.topic, ids[tp] if ids else ZERO_UUID, tp.partition)] = Wanted(
                position.fetch_offset, self._config.max_partition_fetch_bytes, leader.leader_epoch if leader else -1
            )
        part = session.request(wanted)
        topics: dict[tuple[str, bytes], list[FetchPartition]] = {}
        for each, how in part.named.items():
            topics.setdefault((each.topic, each.topic_id), []).append(
                FetchPartition(
                    partition=each.partition,
                    current_leader_epoch=how.leader_epoch,
                    fetch_offset=how.fetch_offset,
                    partition_max_bytes=how.size_bytes_max,
                )
            )
        forgotten: dict[tuple[str, bytes], list[int]] = {}
        for each in part.forgotten:
            forgotten.setdefault((each.topic, each.topic_id), []).append(each.partition)
        return FetchRequest(
            max_wait_ms=self._config.fetch_max_wait_ms,
            min_bytes=self._config.fetch_min_bytes,
            max_bytes=self._config.fetch_max_bytes,
            # Transaction order looks beyond the last stable offset; it decides itself what is committed.
            isolation_level=1 if self._config.is_read_committed and self._config.order == "offset" else 0,
            session_id=part.session_id,
            session_epoch=part.session_epoch,
            topics=[
                FetchTopic(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in topics.items()
            ],
            forgotten_topics_data=[
                ForgottenTopic(topic=name, topic_id=topic_id, partitions=partitions)
                for (name, topic_id), partitions in forgotten.items()
            ],
            rack_id=self._config.client_rack,
        )

    def _failed(self, asked: Iterable[TopicPartition], error: KafkaError) -> None:
        if not error.retriable:
            self.error = error
        log.debug("Fetch: %s", error)
        now_ms = self._cluster.now_ms()
        for topic_partition in asked:
            position = self._positions.by_partition.get(topic_partition)
            if position is not None:
                position.not_before_ms = now_ms + self._config.retry_backoff_ms
                position.read_replica = None
        self._cluster.refresh_soon()

    # -- what came

    def _take_response(
        self,
        node: Node,
        asked: dict[TopicPartition, Position],
        versions: dict[TopicPartition, int],
        response: FetchResponse,
        names: dict[bytes, str],
    ) -> None:
        for topic in response.responses:
            name = topic.topic or names.get(bytes(topic.topic_id), "")
            for data in topic.partitions:
                topic_partition = TopicPartition(name, data.partition_index)
                position = self._positions.by_partition.get(topic_partition)
                # A position that jumped meanwhile, or was given away and came back, does not want this any more.
                if position is None or asked.get(topic_partition) is not position:
                    continue
                if position.version == versions[topic_partition]:
                    self._take_partition(node, topic_partition, position, data)

    def _take_partition(
        self, node: Node, topic_partition: TopicPartition, position: Position, data: PartitionData
    ) -> None:
        if data.error_code:
            self._partition_failed(topic_partition, position, data.error_code)
            return
        now_ms, lease_ms = self._cluster.now_ms(), self._config.metadata_max_age_ms
        leader, preferred = self._cluster.view.leader_of(topic_partition), data.preferred_read_replica
        named = named_by(leader, node.node_id, preferred, now_ms=now_ms, lease_ms=lease_ms)
        if named is not None:
            position.read_replica = named
        position.high_watermark, position.last_stable_offset = data.high_watermark, data.last_stable_offset
        if data.records is None or not len(data.records):
            return
        self.fetched_bytes += len(data.records)
        if position.order is not None:
            self._take_in_order(topic_partition, position, data.records)
            return
        aborted = AbortedFilter(data.aborted_transactions or ()) if self._config.is_read_committed else None
        found: list[tuple[RecordBatch, bool]] = []
        try:
            for batch in batches(data.records):
                is_visible = aborted.is_visible(batch) if aborted is not None else not batch.is_control
                if self._config.check_crcs and not is_visible:  # it says how far to step, and nobody decodes it
                    batch.check_crc()
                found.append((batch, is_visible))
        except CorruptBatch as error:
            # What is in front of it comes first, and it is met again.
            if not found and not self._put_off(position):
                self.error = corrupt(topic_partition, position.offset, error)
        if found:
            position.chunks.append(Chunk(found, len(data.records)))

    def _take_in_order(
        self, topic_partition: TopicPartition, position: Position, data: bytes | bytearray | memoryview
    ) -> None:
        assert position.order is not None
        try:
            for batch in batches(data):
                if self._config.check_crcs and (batch.is_control or batch.is_transactional):
                    batch.check_crc()  # whose it is, and whether it is a marker, decides what is never handed out
                position.order.take(batch)
                position.leader_epoch = batch.partition_leader_epoch
            position.offset = position.order.next_offset
            bound(
                [each.order for each in self._positions.by_partition.values() if each.order is not None],
                memory_bytes_max=self._config.transaction_order_memory_bytes,
                disk_bytes_max=self._config.transaction_order_disk_bytes,
                new_spill=self._new_spill,
            )
        except CorruptBatch as error:
            position.offset = position.order.next_offset  # what is in front of it comes first, and it is met again
            if not self._put_off(position):
                self.error = corrupt(topic_partition, position.offset, error)
        except (IllegalState, OSError) as error:
            self.error = error

    def _partition_failed(self, topic_partition: TopicPartition, position: Position, error_code: int) -> None:
        now_ms = self._cluster.now_ms()
        replica, position.read_replica = position.read_replica, None
        if error_code == ErrorCode.OFFSET_OUT_OF_RANGE and replica is not None:
            # A follower may be behind the leader: only the leader knows whether the log has the offset.
            position.not_before_ms = now_ms + self._config.retry_backoff_ms
            log.debug(
                "replica %d has not offset %s of %s: asking the leader",
                replica.node_id,
                position.offset,
                topic_partition,
            )
            return
        if error_code not in _MOVED and self._put_off(position):
            return
        if error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            reset_to = reset_timestamp(self._cluster, self._config)
            if reset_to is None:
                self.error = OffsetOutOfRange(f"offset {position.offset} of {topic_partition} is not in the log")
            else:
                log.warning("%s: offset %s is not in the log, resetting", topic_partition, position.offset)
                position.jump(None, reset_to=reset_to)
            return
        text = f"Fetch of {topic_partition} at offset {position.offset}"
        error = self._cluster.refusal(error_code, text, topic_partition.topic)
        position.not_before_ms = now_ms + self._config.retry_backoff_ms
        if error_code in _MOVED:
            self._cluster.refresh_soon((topic_partition.topic,))
        elif error_code == ErrorCode.CORRUPT_MESSAGE:  # damage does not pass by itself
            self.error = error = corrupt(topic_partition, position.offset)
        elif not error.retriable:
            self.error = error
        log.debug("%s", error)

    def _put_off(self, position: Position) -> bool:
        """Whether records in front of what failed wait to be handed out: they come first, then it is asked for again."""
        if position.is_supplied:
            position.not_before_ms = self._cluster.now_ms() + self._config.retry_backoff_ms
        return position.is_supplied

    # -- for the consumer

    def raise_error(self) -> None:
        """Raise what a fetch met that does not pass by itself; once."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    def _go_on(self) -> None:
        """Something was handed out: what follows is asked for at once, before the application works on it."""
        if self._cluster.is_closed:
            return  # stopped beside a poll: that one still gets what is here
        self._start_fetches(self._cluster.now_ms())
        self.wake()


async def _answered(sent: _Sent) -> tuple[FetchResponse, int]:
    return await sent.answer, sent.version


def _seen(answer: asyncio.Future[FetchResponse]) -> None:
    """Mark the exception retrieved: who waits for the answer may be cancelled before it begins to wait."""
    if not answer.cancelled():
        answer.exception()
