"""ShareFetch: take what a member acknowledges, then give it more; it waits while there is nothing for it (KIP-932).

Acknowledgements are stored before anything is acquired, and what is acquired is answered at once: a request that ends early has
taken nothing that its member does not know of, but what a connection loses, and that is released with the connection.
"""

from __future__ import annotations

from collections.abc import Coroutine
from dataclasses import field
from typing import Any

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.handlers.share.acknowledging import Acknowledged, acknowledge_all
from oncelog.broker.node import Node
from oncelog.broker.partitions.index_mending import MendingDue
from oncelog.broker.partitions.purgatory import ParkedFetch
from oncelog.broker.requests.request import Request
from oncelog.broker.share.share_partition import Delivery, SharePartition, Wish
from oncelog.core.metadata.features import SHARE_VERSION, level_of
from oncelog.core.share.sessions import FINAL_EPOCH, INITIAL_EPOCH, MemberKey, RefusedSession, ShareSession, Wanted
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition
from oncelog.wire.access_rules import Operation
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.messages.share_fetch import (
    AcquiredRecords,
    PartitionData,
    ShareFetchableTopicResponse,
    ShareFetchRequest,
    ShareFetchResponse,
)

RECORD_LIMIT = 1  # of ShareAcquireMode (KIP-1206)
E = ErrorCode


def handle(node: Node, request: Request) -> ShareFetchResponse | Coroutine[Any, Any, ShareFetchResponse]:
    """Open, follow or end a session; then acknowledge, then acquire."""
    message: ShareFetchRequest = request.message
    if level_of(node.metadata.features, SHARE_VERSION) < 1:
        return ShareFetchResponse(error_code=E.UNSUPPORTED_VERSION)
    if not message.group_id or not message.member_id or not _is_consistent(message):
        return ShareFetchResponse(error_code=E.INVALID_REQUEST)
    if message.share_session_epoch == FINAL_EPOCH:
        return _end(node, request)
    session = _session(node, request)
    if isinstance(session, RefusedSession):
        if session.error_code is E.SHARE_SESSION_LIMIT_REACHED:
            node.metrics.limit_hit("group.share.max.share.sessions")
        return ShareFetchResponse(error_code=session.error_code)
    return _Fetch(node, request, session).answer()


async def _end(node: Node, request: Request) -> ShareFetchResponse:
    with node.share_partitions.ending(_key(request.message)) as session:
        if isinstance(session, RefusedSession):
            return ShareFetchResponse(error_code=session.error_code)
        return await _Fetch(node, request, session).answer()


def _key(message: ShareFetchRequest) -> MemberKey:
    assert message.group_id is not None
    assert message.member_id is not None
    return MemberKey(message.group_id, message.member_id)


def _is_consistent(message: ShareFetchRequest) -> bool:
    """Who opens a session has nothing to acknowledge yet; who renews asks for nothing else (KIP-1222)."""
    if message.share_session_epoch == INITIAL_EPOCH:
        return not any(part.acknowledgement_batches for topic in message.topics for part in topic.partitions)
    sizes = (message.max_wait_ms, message.min_bytes, message.max_bytes, message.max_records)
    return not message.is_renew_ack or not any(sizes)


def _session(node: Node, request: Request) -> ShareSession | RefusedSession:
    message: ShareFetchRequest = request.message
    key, sessions = _key(message), node.share_partitions.sessions
    wanted = [
        Wanted(bytes(topic.topic_id), part.partition_index) for topic in message.topics for part in topic.partitions
    ]
    if message.share_session_epoch == INITIAL_EPOCH:
        return sessions.open(key, request.connection.connection_id, wanted)
    forgotten = [
        Wanted(bytes(topic.topic_id), index) for topic in message.forgotten_topics_data for index in topic.partitions
    ]
    return sessions.follow(key, message.share_session_epoch, wanted, forgotten)


@dataclass(slots=True)
class _Found:
    """The share partitions of a session that can be read, and why others cannot."""

    shares: dict[Wanted, SharePartition] = field(default_factory=dict)
    faults: dict[Wanted, ErrorCode] = field(default_factory=dict)


class _Fetch:
    """One ShareFetch of a session."""

    def __init__(self, node: Node, request: Request, session: ShareSession) -> None:
        self._node = node
        self._request = request
        self._message: ShareFetchRequest = request.message
        self._session = session
        self._caller = node.authorization.caller_of(request) if node.authorization is not None else None
        self._wish = Wish(
            session.key.member_id,
            self._message.max_records,
            self._message.batch_size,
            self._message.share_acquire_mode == RECORD_LIMIT,
        )

    async def answer(self) -> ShareFetchResponse:
        message = self._message
        batches = {
            Wanted(bytes(topic.topic_id), part.partition_index): part.acknowledgement_batches
            for topic in message.topics
            for part in topic.partitions
        }
        acknowledged = await acknowledge_all(
            self._node, self._request, self._session, batches, is_renewal=message.is_renew_ack
        )
        if message.share_session_epoch == FINAL_EPOCH or message.is_renew_ack:
            return self._response({}, acknowledged, ())
        found = await self._find()
        is_news = any(
            wanted in batches for wanted in found.faults
        )  # what is told again and again waits as everything does
        if not is_news and message.max_wait_ms > 0 and not self._is_enough(found):
            await self._wait(found)
        try:
            read = self._read(found)
        except MendingDue as due:
            mending = self._node.partitions.index_mending
            read = await mending.when_mended(due, lambda: self._read(found), lambda _: None)
        return self._response(read, acknowledged, batches)

    # -- waiting ---------------------------------------------------------------------------------------------------

    async def _find(self) -> _Found:
        found = _Found()
        for wanted in self._session.partitions:
            fault = self._fault(wanted)
            if fault is E.NONE:
                try:
                    key = ShareKey(self._session.key.group_id, *wanted)
                    found.shares[wanted] = await self._node.share_partitions.open(key)
                except CoordinatorFailed as failed:
                    fault = failed.error_code
            if fault is not E.NONE:
                found.faults[wanted] = fault
        return found

    def _fault(self, wanted: Wanted) -> ErrorCode:
        topic = self._node.metadata.topics_by_id.get(wanted.topic_id)
        if topic is None:
            return E.UNKNOWN_TOPIC_ID
        if self._caller is not None and not self._caller.may_on_topic(Operation.READ, topic.name):
            return E.TOPIC_AUTHORIZATION_FAILED
        if self._node.metadata.topic_of(TopicPartition(topic.name, wanted.partition)) is None:
            return E.UNKNOWN_TOPIC_OR_PARTITION
        return E.NONE

    def _is_enough(self, found: _Found) -> bool:
        """Whether an answer now would be worth it: records, or an error to tell."""
        if self._node.share_partitions.is_closing:
            return True
        left = self._message.min_bytes
        for share in found.shares.values():
            if share.fault() is not E.NONE:
                return True
            size_bytes = share.available_bytes(left)
            left -= size_bytes
            if size_bytes and left <= 0:
                return True
        return False

    async def _wait(self, found: _Found) -> None:
        await ParkedFetch(found.shares.values(), lambda: self._is_enough(found)).wait(self._message.max_wait_ms / 1000)

    # -- reading ---------------------------------------------------------------------------------------------------

    def _read(self, found: _Found) -> dict[Wanted, Delivery | ErrorCode]:
        """What each partition has for the member; those it had records of last come last. Raises MendingDue where a
        segment must be read whole before there is anything."""
        is_closing = self._node.share_partitions.is_closing
        if is_closing or self._message.max_records <= 0 or self._message.max_bytes <= 0:
            return dict(found.faults)
        read: dict[Wanted, Delivery | ErrorCode] = dict(found.faults)
        left = min(self._message.max_bytes, self._node.fetch_bytes_max())
        records_left = self._message.max_records
        for wanted in tuple(self._session.partitions):
            share = found.shares.get(wanted)
            if share is None or left <= 0 or records_left <= 0:
                continue
            try:
                read[wanted] = delivery = share.acquire(self._limited(records_left), left)
            except MendingDue:
                if records_left == self._message.max_records:
                    raise
                continue  # it is among the first of the next answer
            if isinstance(delivery, Delivery) and delivery.acquired:
                left -= len(delivery.records)
                records_left -= sum(each.last_offset - each.first_offset + 1 for each in delivery.acquired)
                self._session.answered(wanted)
                topic = self._node.metadata.topics_by_id[wanted.topic_id]
                self._node.metrics.topic(topic.name).bytes_out += len(delivery.records)
        return read

    def _limited(self, records_max: int) -> Wish:
        return Wish(self._wish.member_id, records_max, self._wish.batch_size, self._wish.is_exact)

    def _response(
        self,
        read: dict[Wanted, Delivery | ErrorCode],
        acknowledged: Acknowledged,
        asked: Any,
    ) -> ShareFetchResponse:
        topics: dict[bytes, ShareFetchableTopicResponse] = {}
        is_first = self._message.share_session_epoch == INITIAL_EPOCH
        for wanted in dict.fromkeys((*acknowledged, *asked, *read, *(self._session.partitions if is_first else ()))):
            data = PartitionData(partition_index=wanted.partition, records=b"")
            delivery = read.get(wanted, Delivery())
            if isinstance(delivery, ErrorCode):
                data.error_code = delivery
            else:
                data.records = delivery.records
                data.acquired_records = [
                    AcquiredRecords(first_offset=each[0], last_offset=each[1], delivery_count=each[2])
                    for each in delivery.acquired
                ]
            outcome = acknowledged.get(wanted)
            if outcome is not None:
                data.acknowledge_error_code, data.acknowledge_error_message = (
                    outcome.error_code,
                    outcome.message or None,
                )
            is_told = outcome is not None or data.error_code or data.acquired_records or wanted in asked
            if is_told:
                topic = topics.setdefault(wanted.topic_id, ShareFetchableTopicResponse(topic_id=wanted.topic_id))
                topic.partitions.append(data)
        lock_duration_ms = self._node.share_partitions.settings(self._session.key.group_id).lock_duration_ms
        return ShareFetchResponse(acquisition_lock_timeout_ms=lock_duration_ms, responses=list(topics.values()))
