"""Fetch: what the session asks for, read below each partition's bound; it waits while there is too little.

Record bytes go from the log to the socket as they are. The request's total bound may be exceeded by one batch, the first
that there is, so a reader is never stuck before a large one (docs/kafka-notes.md F5).
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from oncelog.broker.node import Node
from oncelog.broker.partitions.index_mending import MendingDue
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.purgatory import ParkedFetch
from oncelog.broker.partitions.unwritten_partition import UnwrittenPartition
from oncelog.broker.requests.request import Request
from oncelog.core.leader.fetch_session import FetchContext, PartitionKey, PartitionToFetch
from oncelog.core.leader.partition import IsolationLevel, Readable
from oncelog.core.leader.verdict import Refuse
from oncelog.errors import DamagedLog, ErrorCode, StorageError
from oncelog.log.log_read import LogRead
from oncelog.types import TopicPartition
from oncelog.wire.access_rules import Operation
from oncelog.wire.messages.fetch import (
    SESSIONS_SINCE_VERSION,
    AbortedTransaction,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)

TOPIC_IDS_SINCE_VERSION = 13
E = ErrorCode
Found = LocalPartition | UnwrittenPartition


class _Fetch:
    """One Fetch request and the partitions of its session."""

    def __init__(self, node: Node, request: Request, context: FetchContext) -> None:
        self.node = node
        self._request = request
        self.version = request.api_version
        self.message: FetchRequest = request.message
        self.context = context
        self.isolation_level = IsolationLevel(self.message.isolation_level)
        self.unmended: set[TopicPartition] = set()  # offline with indexes that are wrong
        self.uses_topic_ids = self.version >= TOPIC_IDS_SINCE_VERSION
        # Asked for each partition and every time: a session outlives the rules it began under.
        self.caller = node.authorization.caller_of(request) if node.authorization is not None else None
        # Who says that it is a replica needs a replica's right, and has no other way to read (Kafka's KafkaApis).
        self.is_false_replica = (
            self.caller is not None
            and max(self.message.replica_id, self.message.replica_state.replica_id) >= 0
            and not self.caller.may_on_cluster(Operation.CLUSTER_ACTION)
        )

    def find(self, wanted: PartitionToFetch) -> Found | ErrorCode:
        key = wanted.key.topic
        metadata = self.node.metadata
        topic = metadata.topics_by_id.get(key) if isinstance(key, bytes) else metadata.topics.get(str(key))
        if topic is None:
            return E.UNKNOWN_TOPIC_ID if self.uses_topic_ids else E.UNKNOWN_TOPIC_OR_PARTITION
        if self.is_false_replica:
            return E.TOPIC_AUTHORIZATION_FAILED
        if self.caller is not None and not self.caller.may_on_topic(Operation.READ, topic.name):
            return E.TOPIC_AUTHORIZATION_FAILED
        name = TopicPartition(topic.name, wanted.key.partition)
        try:
            partition = self.node.partitions.find(name)
        except StorageError:
            return E.KAFKA_STORAGE_ERROR
        if partition is None:
            return self.node.partitions.led.why_not(name)
        return partition  # also when its disk refused a write: what was committed before is still to be read

    def is_enough(self) -> bool:
        """Whether an answer now would be worth it: min_bytes, or an error to tell."""
        size_bytes = 0
        for wanted in self.context.partitions:
            partition = self.find(wanted)
            if isinstance(partition, ErrorCode):
                return True
            bound = partition.rules.check_fetch(
                wanted.fetch_offset, self.isolation_level, current_leader_epoch=wanted.current_leader_epoch
            )
            if isinstance(bound, Refuse):
                return True
            if wanted.fetch_offset < bound.end_offset:
                size_bytes += self._available(partition, wanted, bound)
                if size_bytes >= self.message.min_bytes:
                    return True
        return False

    def _available(self, partition: Found, wanted: PartitionToFetch, bound: Readable) -> int:
        if self.message.min_bytes <= 1:
            return 1
        assert isinstance(partition, LocalPartition)  # there is something to read
        try:
            read, _ = self._look(partition, wanted, bound, wanted.partition_bytes_max, at_least_one=True)
        except (StorageError, MendingDue):
            return self.message.min_bytes  # an error to tell, or more to wait for than bytes
        return len(read.data) if read is not None else 0

    def _look(
        self,
        partition: LocalPartition,
        wanted: PartitionToFetch,
        bound: Readable,
        bytes_max: int,
        *,
        at_least_one: bool,
    ) -> tuple[LogRead | None, list[AbortedTransaction]]:
        """What there is, and which of it the reader leaves out. Raises DamagedLog, StorageError, MendingDue."""
        log, offset = partition.log, wanted.fetch_offset
        read = self.node.partitions.index_mending.at_once(
            partition, lambda: log.read(offset, bytes_max, bound.end_offset, at_least_one=at_least_one)
        )
        if read is None or self.isolation_level is IsolationLevel.READ_UNCOMMITTED:
            return read, []
        return read, [
            AbortedTransaction(producer_id=entry.producer_id, first_offset=entry.first_offset)
            for entry in log.aborted_between(offset, read.upper_bound_offset)
        ]

    def partitions(self) -> list[Found]:
        found = (self.find(wanted) for wanted in self.context.partitions)
        return [partition for partition in found if not isinstance(partition, ErrorCode)]

    def response(self) -> FetchResponse:
        """Read everything now. Raises MendingDue, before anything is noted of what was read."""
        left = min(self.message.max_bytes, self.node.fetch_bytes_max())
        has_any = False
        read: list[tuple[PartitionToFetch, PartitionData]] = []
        for wanted in self.context.partitions:
            data = self._read(wanted, left, at_least_one=not has_any)
            size_bytes = len(data.records or b"")
            has_any = has_any or size_bytes > 0
            left = max(left - size_bytes, 0)
            read.append((wanted, data))
        topics: dict[object, FetchableTopicResponse] = {}
        for wanted, data in read:
            if self._must_answer(wanted, data):
                self._topic(topics, wanted.key.topic).partitions.append(data)
        if self.caller is not None and self.caller.denials is not None:
            assert self.node.authorization is not None
            self.node.authorization.note_denied_fetch(self._request, self.caller)
        return FetchResponse(session_id=self.context.session_id, responses=list(topics.values()))

    def _must_answer(self, wanted: PartitionToFetch, data: PartitionData) -> bool:
        return self.context.must_answer(
            wanted.key,
            error_code=ErrorCode(data.error_code),
            high_watermark=data.high_watermark,
            last_stable_offset=data.last_stable_offset,
            log_start_offset=data.log_start_offset,
            has_records=bool(data.records),
        )

    def _topic(self, topics: dict[object, FetchableTopicResponse], key: object) -> FetchableTopicResponse:
        if key not in topics:
            topics[key] = self._named(key)
        return topics[key]

    def _named(self, key: object) -> FetchableTopicResponse:
        if not isinstance(key, bytes):
            return FetchableTopicResponse(topic=str(key))
        topic = self.node.metadata.topics_by_id.get(key)  # its name is not sent: what is, is counted by it
        return FetchableTopicResponse(topic_id=key, topic="" if topic is None else topic.name)

    def _read(self, wanted: PartitionToFetch, left: int, *, at_least_one: bool) -> PartitionData:
        partition = self.find(wanted)
        if isinstance(partition, ErrorCode):
            return _refused(wanted, partition, aborted=[])
        bound = partition.rules.check_fetch(
            wanted.fetch_offset, self.isolation_level, current_leader_epoch=wanted.current_leader_epoch
        )
        if isinstance(bound, Refuse):
            return _refused(wanted, bound.error_code, aborted=None)
        is_committed = self.isolation_level is IsolationLevel.READ_COMMITTED
        data = PartitionData(
            partition_index=wanted.key.partition,
            high_watermark=bound.high_watermark,
            last_stable_offset=bound.last_stable_offset,
            log_start_offset=bound.log_start_offset,
            aborted_transactions=[] if is_committed else None,
            records=b"",
        )
        if wanted.fetch_offset >= bound.end_offset or (left <= 0 and not at_least_one):
            return data
        assert isinstance(partition, LocalPartition)  # there is something to read
        if partition.name in self.unmended:
            return _refused(wanted, E.KAFKA_STORAGE_ERROR, aborted=None)
        try:
            bytes_max = min(wanted.partition_bytes_max, left)
            read, aborted = self._look(partition, wanted, bound, bytes_max, at_least_one=at_least_one)
        except DamagedLog as error:
            # CORRUPT_MESSAGE is what a client tells its user, with the offset; KAFKA_STORAGE_ERROR it retries in silence,
            # and so the UNKNOWN_SERVER_ERROR that Apache Kafka has for a transaction index that it cannot read.
            partition.damaged_at(wanted.fetch_offset, str(error))
            return _refused(wanted, E.CORRUPT_MESSAGE, aborted=None)
        except StorageError as error:
            partition.go_offline(str(error))
            return _refused(wanted, E.KAFKA_STORAGE_ERROR, aborted=None)
        if read is not None:
            data.records = read.data
            if is_committed:
                data.aborted_transactions = aborted
        return data


def handle(node: Node, request: Request) -> FetchResponse | Coroutine[Any, Any, FetchResponse]:
    """Answer at once where there is enough, or nothing may be waited for; else wait."""
    message: FetchRequest = request.message
    if message.isolation_level not in (0, 1):
        return FetchResponse(error_code=E.INVALID_REQUEST)
    context = _open_session(node, request)
    if isinstance(context, Refuse):
        return FetchResponse(error_code=context.error_code, session_id=0)
    fetch = _Fetch(node, request, context)
    if message.max_wait_ms <= 0 or message.min_bytes <= 0 or not context.partitions or fetch.is_enough():
        try:
            return fetch.response()
        except MendingDue as due:
            return _answer_mended(fetch, due)
    return _answer_later(fetch, message.max_wait_ms / 1000)


async def _answer_later(fetch: _Fetch, timeout_s: float) -> FetchResponse:
    await ParkedFetch(fetch.partitions(), fetch.is_enough).wait(timeout_s)
    try:
        return fetch.response()
    except MendingDue as due:
        return await _answer_mended(fetch, due)


async def _answer_mended(fetch: _Fetch, due: MendingDue) -> FetchResponse:
    return await fetch.node.partitions.index_mending.when_mended(due, fetch.response, fetch.unmended.add)


def _open_session(node: Node, request: Request) -> FetchContext | Refuse:
    message: FetchRequest = request.message
    by_id = request.api_version >= TOPIC_IDS_SINCE_VERSION
    has_sessions = request.api_version >= SESSIONS_SINCE_VERSION
    wanted = [
        PartitionToFetch(
            PartitionKey(topic.topic_id if by_id else topic.topic, each.partition),
            each.fetch_offset,
            each.partition_max_bytes,
            each.current_leader_epoch,
            each.last_fetched_epoch,
            each.log_start_offset,
        )
        for topic in message.topics
        for each in topic.partitions
    ]
    forgotten = [
        PartitionKey(topic.topic_id if by_id else topic.topic, index)
        for topic in message.forgotten_topics_data
        for index in topic.partitions
    ]
    context = node.fetch_sessions.open(
        message.session_id if has_sessions else 0,
        message.session_epoch if has_sessions else -1,
        wanted,
        forgotten,
        uses_topic_ids=by_id,
        now_ms=node.clock.now_ms(),
    )
    if wanted and node.fetch_sessions.limit_hit:
        node.metrics.limit_hit(node.fetch_sessions.limit_hit)
    return context


def _refused(
    wanted: PartitionToFetch, error_code: ErrorCode, *, aborted: list[AbortedTransaction] | None
) -> PartitionData:
    return PartitionData(
        partition_index=wanted.key.partition,
        error_code=error_code,
        high_watermark=-1,
        aborted_transactions=aborted,
        records=b"",
    )
