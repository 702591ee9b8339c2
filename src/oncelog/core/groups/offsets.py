"""Offsets of groups: who may commit, fetch and delete them, and when they expire.

Plain and transactional commits differ in one check (docs/kafka-notes.md G1-G3, G8): a transactional commit
that names no member is accepted in any state, and one during a rebalance is not sent away, because the transaction's
own fencing protects it (KIP-447). Topic ids and unknown topics are the shell's: it fills in names, and takes out what
it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncelog.core.decision import Decision
from oncelog.core.groups.classic.group import NO_MEMBER_ID, Group, GroupState
from oncelog.core.groups.committed_offsets import CommittedOffsets
from oncelog.core.groups.config import GroupConfig
from oncelog.core.groups.consumer import queries as consumer_group_queries
from oncelog.core.groups.consumer.group import ConsumerGroup, Topics
from oncelog.core.groups.streams import queries as streams_group_queries
from oncelog.core.groups.streams.group import StreamsGroup
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.log_records.consumer_offsets import NO_TIMESTAMP, OffsetCommit, OffsetDeleted
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

TIMESTAMP_MS_MAX = 2**63 - 1
FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND = 9
FIRST_FETCH_VERSION_WITH_GROUPS = 8
NO_COMMITTED_OFFSET = -1
MODERN = (ConsumerGroup, StreamsGroup)

# Groups for whose members the broker shares out.
Modern = ConsumerGroup | StreamsGroup


def check_commit(
    group: Group | None,
    generation_id: int,
    member_id: str,
    group_instance_id: str | None,
    *,
    is_transactional: bool,
    unknown_group: ErrorCode = ErrorCode.ILLEGAL_GENERATION,
) -> ErrorCode:
    """Whether this member, or this user without a group, may commit offsets now."""
    if group is None:
        # A generation speaks of a group that was lost; without one this is a user who only keeps offsets here.
        return unknown_group if generation_id >= 0 else ErrorCode.NONE
    if group.state is GroupState.DEAD:
        return ErrorCode.COORDINATOR_NOT_AVAILABLE
    if generation_id < 0 and group.state is GroupState.EMPTY:
        return ErrorCode.NONE
    if generation_id >= 0 or member_id != NO_MEMBER_ID or group_instance_id is not None:
        error_code = group.check_generation(member_id, group_instance_id, generation_id)
        if error_code != ErrorCode.NONE:
            return error_code
    elif not is_transactional:
        return ErrorCode.UNKNOWN_MEMBER_ID
    if not is_transactional and group.state is GroupState.COMPLETING_REBALANCE:
        return ErrorCode.REBALANCE_IN_PROGRESS
    return ErrorCode.NONE


class OffsetRequests:
    """Answers OffsetCommit, TxnOffsetCommit, OffsetFetch and OffsetDelete."""

    def __init__(
        self,
        config: GroupConfig,
        offsets: CommittedOffsets,
        modern: Callable[[str], Modern | None],
        topics: Topics,
        keeps_none: Callable[[str], bool] = lambda _: False,
    ) -> None:
        """`modern`: the group of a name whose members the broker shares out for; `keeps_none`: whether a group of this name
        keeps no offsets (KIP-932: its records are acknowledged one by one)."""
        self._config = config
        self._offsets = offsets
        self._modern = modern
        self._topics = topics
        self._keeps_none = keeps_none

    # -- commits ---------------------------------------------------------------------------------------------------

    def commit(self, group: Group | None, request: OffsetCommitRequest, version: int, now_ms: int) -> Decision:
        """OffsetCommit v2-10."""
        modern = self._modern(request.group_id)
        if self._keeps_none(request.group_id):
            error_code = ErrorCode.GROUP_ID_NOT_FOUND
        elif modern is not None:
            error_code = self._check_member(
                modern,
                request.member_id,
                request.group_instance_id,
                request.generation_id_or_member_epoch,
                [(each.name, p.partition_index) for each in request.topics for p in each.partitions],
                is_transactional=False,
                version=version,
            )
        else:
            is_new = version >= FIRST_COMMIT_VERSION_WITH_GROUP_ID_NOT_FOUND
            error_code = check_commit(
                group,
                request.generation_id_or_member_epoch,
                request.member_id,
                request.group_instance_id,
                is_transactional=False,
                unknown_group=ErrorCode.GROUP_ID_NOT_FOUND if is_new else ErrorCode.ILLEGAL_GENERATION,
            )
        # Versions 2-4 may ask for a retention of their own.
        # Where Kafka's sum overflows, the offset expires at once.
        retention_ms = min(request.retention_time_ms, TIMESTAMP_MS_MAX - now_ms)
        expire_ms = NO_TIMESTAMP if retention_ms < 0 else now_ms + retention_ms
        records: list[OffsetCommit] = []
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                partition_error = self._check_metadata(error_code, each.committed_metadata)
                partitions.append(
                    OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=partition_error)
                )
                if partition_error == ErrorCode.NONE:
                    records.append(
                        OffsetCommit(
                            group_id=request.group_id,
                            topic=topic.name,
                            partition=each.partition_index,
                            offset=each.committed_offset,
                            leader_epoch=each.committed_leader_epoch,
                            metadata=each.committed_metadata or "",
                            commit_timestamp_ms=now_ms,
                            expire_timestamp_ms=expire_ms,
                            topic_id=topic.topic_id,
                        )
                    )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=partitions))
        return Decision(records=tuple(records), reply=OffsetCommitResponse(topics=topics))

    def txn_commit(self, group: Group | None, request: TxnOffsetCommitRequest, now_ms: int) -> Decision:
        """TxnOffsetCommit v0-5 of a verified transaction; the records go into one transactional batch."""
        error_code = self._check_transactional(group, request)
        records: list[OffsetCommit] = []
        topics = []
        for topic in request.topics:
            partitions = []
            for each in topic.partitions:
                partition_error = self._check_metadata(error_code, each.committed_metadata)
                partitions.append(
                    TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=partition_error)
                )
                if partition_error == ErrorCode.NONE:
                    records.append(
                        OffsetCommit(
                            group_id=request.group_id,
                            topic=topic.name,
                            partition=each.partition_index,
                            offset=each.committed_offset,
                            leader_epoch=each.committed_leader_epoch,
                            metadata=each.committed_metadata or "",
                            commit_timestamp_ms=now_ms,
                            producer_id=request.producer_id,
                            producer_epoch=request.producer_epoch,
                        )
                    )
            topics.append(TxnOffsetCommitResponseTopic(name=topic.name, partitions=partitions))
        return Decision(records=tuple(records), reply=TxnOffsetCommitResponse(topics=topics))

    def _check_transactional(self, group: Group | None, request: TxnOffsetCommitRequest) -> ErrorCode:
        if not request.group_id:
            return ErrorCode.INVALID_GROUP_ID
        if self._keeps_none(request.group_id):
            return ErrorCode.GROUP_ID_NOT_FOUND
        modern = self._modern(request.group_id)
        if modern is None:
            return check_commit(
                group, request.generation_id, request.member_id, request.group_instance_id, is_transactional=True
            )
        error_code = self._check_member(
            modern,
            request.member_id,
            request.group_instance_id,
            request.generation_id,
            [(each.name, p.partition_index) for each in request.topics for p in each.partitions],
            is_transactional=True,
            version=0,
        )
        # What a transactional producer understands (Kafka: `OffsetMetadataManager`).
        return ErrorCode.ILLEGAL_GENERATION if error_code == ErrorCode.STALE_MEMBER_EPOCH else error_code

    def _check_member(
        self,
        group: Modern,
        member_id: str,
        instance_id: str | None,
        member_epoch: int,
        asked: list[tuple[str, int]],
        *,
        is_transactional: bool,
        version: int,
    ) -> ErrorCode:
        """Whether this member may commit these partitions; one that it may not refuses all."""
        if isinstance(group, StreamsGroup):
            error_code, of_topic = streams_group_queries.check_commit(
                group, member_id, instance_id, member_epoch, is_transactional=is_transactional, version=version
            )
            return error_code if of_topic is None else _worst(of_topic(name, index) for name, index in asked)
        error_code, check = consumer_group_queries.check_commit(
            group, member_id, instance_id, member_epoch, is_transactional=is_transactional, version=version
        )
        return error_code if check is None else _worst(check(self._topic_id(name), index) for name, index in asked)

    def _topic_id(self, name: str) -> bytes:
        topic = self._topics.topics.get(name)
        return bytes(16) if topic is None else topic.topic_id

    def _check_metadata(self, error_code: ErrorCode, metadata: str | None) -> ErrorCode:
        if error_code == ErrorCode.NONE and len(metadata or "") > self._config.offset_metadata_max_bytes:
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        return error_code

    # -- fetch -----------------------------------------------------------------------------------------------------

    def fetch(self, request: OffsetFetchRequest, version: int) -> OffsetFetchResponse:
        """OffsetFetch v1-10; a group without offsets answers -1 everywhere, and no error."""
        if version >= FIRST_FETCH_VERSION_WITH_GROUPS:
            groups = [self._fetch_group(each, request.require_stable) for each in request.groups]
            return OffsetFetchResponse(groups=groups)
        if request.topics is None:
            wanted = None
        else:
            wanted = [
                OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes)
                for each in request.topics
            ]
        group = self._fetch_group(
            OffsetFetchRequestGroup(group_id=request.group_id, topics=wanted), request.require_stable
        )
        return OffsetFetchResponse(topics=[_old_topic(each) for each in group.topics])

    def _fetch_group(self, wanted: OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup:
        modern = self._modern(wanted.group_id)
        if modern is not None:
            error_code = _check_fetch(modern, wanted.member_id, wanted.member_epoch)
            if error_code != ErrorCode.NONE:
                return OffsetFetchResponseGroup(group_id=wanted.group_id, error_code=error_code)
        topics = wanted.topics
        if topics is None:
            # "All topics" means those with a committed offset; one that is only pending is absent (kafka-notes G6).
            by_topic: dict[str, list[int]] = {}
            for topic_partition in sorted(self._offsets.of_group(wanted.group_id)):
                by_topic.setdefault(topic_partition.topic, []).append(topic_partition.partition)
            topics = [
                OffsetFetchRequestTopics(name=topic, partition_indexes=partitions)
                for topic, partitions in by_topic.items()
            ]
        found = [
            OffsetFetchResponseTopics(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    self._fetch_partition(wanted.group_id, TopicPartition(topic.name, index), require_stable)
                    for index in topic.partition_indexes
                ],
            )
            for topic in topics
        ]
        return OffsetFetchResponseGroup(group_id=wanted.group_id, topics=found)

    def _fetch_partition(
        self, group_id: str, topic_partition: TopicPartition, require_stable: bool
    ) -> OffsetFetchResponsePartitions:
        error_code = ErrorCode.NONE
        record = self._offsets.get(group_id, topic_partition)
        if require_stable and self._offsets.is_unstable(group_id, topic_partition):
            record, error_code = None, ErrorCode.UNSTABLE_OFFSET_COMMIT
        if record is None:
            return OffsetFetchResponsePartitions(
                partition_index=topic_partition.partition,
                committed_offset=NO_COMMITTED_OFFSET,
                committed_leader_epoch=-1,
                metadata="",
                error_code=error_code,
            )
        return OffsetFetchResponsePartitions(
            partition_index=topic_partition.partition,
            committed_offset=record.offset,
            committed_leader_epoch=record.leader_epoch,
            metadata=record.metadata,
            error_code=error_code,
        )

    # -- deletion --------------------------------------------------------------------------------------------------

    def delete(self, group: Group | None, request: OffsetDeleteRequest) -> Decision:
        """OffsetDelete v0: not under the feet of a member that reads the topic (KIP-496)."""
        modern = self._modern(request.group_id)
        if modern is None:
            error_code = _check_delete(group) if request.group_id else ErrorCode.INVALID_GROUP_ID
            if error_code != ErrorCode.NONE:
                return Decision(reply=OffsetDeleteResponse(error_code=error_code))
        records: list[OffsetDeleted] = []
        topics = []
        existing = self._offsets.all_partitions(request.group_id)
        for topic in request.topics:
            is_read = _is_read(modern or group, topic.name)
            partition_error = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC if is_read else ErrorCode.NONE
            indexes = [each.partition_index for each in topic.partitions]
            partitions = [
                OffsetDeleteResponsePartition(partition_index=index, error_code=partition_error) for index in indexes
            ]
            topics.append(OffsetDeleteResponseTopic(name=topic.name, partitions=partitions))
            if not is_read:
                records += [
                    OffsetDeleted(request.group_id, topic.name, index)
                    for index in dict.fromkeys(indexes)
                    if TopicPartition(topic.name, index) in existing
                ]
        return Decision(records=tuple(records), reply=OffsetDeleteResponse(topics=topics))

    def deletions_of_group(self, group_id: str) -> list[OffsetDeleted]:
        """Tombstones for all that the log holds of a group, pending offsets included (kafka-notes G5)."""
        return [
            OffsetDeleted(group_id, each.topic, each.partition)
            for each in sorted(self._offsets.all_partitions(group_id))
        ]

    # -- expiry ----------------------------------------------------------------------------------------------------

    def expired(self, group: Group | Modern, now_ms: int) -> list[OffsetDeleted]:
        """KIP-211: offsets expire a retention after the group became empty, or, where it has no members by nature or
        nobody reads the topic, a retention after their commit. What a transaction may still change stays."""
        starts_ms = self._retention_start(group)
        if starts_ms is None:
            return []
        expired = []
        for topic_partition, record in self._offsets.of_group(group.group_id).items():
            if self._offsets.is_unstable(group.group_id, topic_partition):
                continue
            if self._offsets.is_on_its_way(group.group_id, topic_partition):
                continue
            start_ms = starts_ms(record)
            if start_ms is None:
                continue
            if record.expire_timestamp_ms != NO_TIMESTAMP:
                is_over = now_ms >= record.expire_timestamp_ms
            else:
                is_over = now_ms - start_ms >= self._config.offsets_retention_ms
            if is_over:
                expired.append(OffsetDeleted(group.group_id, topic_partition.topic, topic_partition.partition))
        return expired

    @staticmethod
    def _retention_start(group: Group | Modern) -> Callable[[OffsetCommit], int | None] | None:
        """From when an offset's retention counts; None (of the function, or for an offset): it does not expire now."""
        if isinstance(group, MODERN):
            read = group.subscribed_topics()
            return lambda record: None if record.topic in read else record.commit_timestamp_ms
        if group.protocol_type is None:
            return lambda record: record.commit_timestamp_ms
        empty_since_ms = group.state_timestamp_ms
        if group.state is GroupState.EMPTY:
            return lambda record: record.commit_timestamp_ms if empty_since_ms is None else empty_since_ms
        if group.state is GroupState.STABLE and group.uses_consumer_protocol:
            topics = group.subscribed_topics()
            if topics is not None:
                return lambda record: None if record.topic in topics else record.commit_timestamp_ms
        return None


def _worst(error_codes: Iterable[ErrorCode]) -> ErrorCode:
    return next((each for each in error_codes if each != ErrorCode.NONE), ErrorCode.NONE)


def _is_read(group: Group | Modern | None, topic: str) -> bool:
    if isinstance(group, MODERN):
        return topic in group.subscribed_topics()
    return group is not None and group.state is not GroupState.EMPTY and group.is_subscribed_to(topic)


def _check_fetch(group: Modern, member_id: str | None, member_epoch: int) -> ErrorCode:
    if isinstance(group, StreamsGroup):
        return streams_group_queries.check_fetch(group, member_id, member_epoch)
    return consumer_group_queries.check_fetch(group, member_id, member_epoch)


def _check_delete(group: Group | None) -> ErrorCode:
    if group is None or group.state is GroupState.DEAD:
        return ErrorCode.GROUP_ID_NOT_FOUND
    if group.state is not GroupState.EMPTY and not group.uses_consumer_protocol:
        return ErrorCode.NON_EMPTY_GROUP
    return ErrorCode.NONE


def _old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    partitions = [
        OffsetFetchResponsePartition(
            partition_index=each.partition_index,
            committed_offset=each.committed_offset,
            committed_leader_epoch=each.committed_leader_epoch,
            metadata=each.metadata,
            error_code=each.error_code,
        )
        for each in topic.partitions
    ]
    return OffsetFetchResponseTopic(name=topic.name, partitions=partitions)
