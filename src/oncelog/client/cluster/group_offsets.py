"""OffsetCommit and OffsetFetch for one group: what its consumer and the admin both need."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from oncelog.client.backoff import Deadline
from oncelog.client.cluster.cluster import Cluster
from oncelog.errors import ErrorCode, KafkaError
from oncelog.types import CoordinatorKey, GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)

log = logging.getLogger("oncelog.client")

FIND_AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT)
BY_NAME_VERSION_MAX = 9  # from 10 on topics go by id


def group_key(group_id: str) -> CoordinatorKey:
    """The coordinator key of a group."""
    return CoordinatorKey(0, group_id)


def group_error(cluster: Cluster, group_id: str, error_code: int, text: str, *, topic: str | None = None) -> KafkaError:
    """The error of a group's coordinator (about a topic, perhaps); one that says that it moved makes the client look for it
    again."""
    if error_code in FIND_AGAIN:
        cluster.forget_coordinator(group_key(group_id))
    name = topic if topic is not None and error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else group_id
    return cluster.refusal(error_code, f"group {group_id!r}: {text}", name)


async def commit_offsets(
    cluster: Cluster,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    timeout_ms: int | None = None,
    passes_over_deleted: bool = False,
) -> None:
    """Store positions. Raises IllegalGeneration, UnknownMemberId, RebalanceInProgress ... where the group moved on.

    `passes_over_deleted`: partitions that do not exist (any more) are not waited for; a rebalance would stand.
    """
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, partition), position in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    message = OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
    )

    async def attempt(_: Deadline) -> None:
        response = await cluster.ask_coordinator(group_key(group.group_id), message, version_max=BY_NAME_VERSION_MAX)
        for topic in response.topics:
            for each in topic.partitions:
                if passes_over_deleted and each.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    log.debug("%s-%d is not there any more", topic.name, each.partition_index)
                elif each.error_code:
                    text = f"the position in {topic.name}-{each.partition_index} was not committed"
                    raise group_error(cluster, group.group_id, each.error_code, text, topic=topic.name)

    if offsets:
        await cluster.retry(f"commit offsets of group {group.group_id!r}", attempt, timeout_ms=timeout_ms)


async def fetch_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    timeout_ms: int | None = None,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Committed positions; None asks for all. Partitions without one are left out.

    `require_stable` waits while an open transaction may still change one of them (KIP-447).
    """
    message = _request(group_id, partitions, require_stable=require_stable)

    async def attempt(_: Deadline) -> dict[TopicPartition, OffsetAndMetadata]:
        key = group_key(group_id)
        response = await cluster.ask_coordinator(key, message, version_min=8, version_max=BY_NAME_VERSION_MAX)
        return _positions(cluster, response.groups[0])

    return await cluster.retry(f"committed offsets of group {group_id!r}", attempt, timeout_ms=timeout_ms)


async def fetch_pending(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Of these partitions, those with a pending transactional commit: the coordinator calls them unstable now."""
    message = _request(group_id, partitions, require_stable=True)

    async def attempt(_: Deadline) -> set[TopicPartition]:
        key = group_key(group_id)
        response = await cluster.ask_coordinator(key, message, version_min=8, version_max=BY_NAME_VERSION_MAX)
        group = response.groups[0]
        pending = {
            TopicPartition(topic.name, each.partition_index)
            for topic in group.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        }
        if not pending and group.error_code:
            raise group_error(cluster, group_id, group.error_code, "its positions cannot be read")
        return pending

    return await cluster.retry(f"pending offsets of group {group_id!r}", attempt)


def _request(group_id: str, partitions: Iterable[TopicPartition] | None, *, require_stable: bool) -> OffsetFetchRequest:
    """Of these partitions; None: of all that have a position."""
    topics: dict[str, list[int]] | None = None
    if partitions is not None:
        topics = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
    named = (
        None if topics is None else [OffsetFetchRequestTopics(name=n, partition_indexes=i) for n, i in topics.items()]
    )
    group = OffsetFetchRequestGroup(group_id=group_id, topics=named)
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def _positions(cluster: Cluster, group: OffsetFetchResponseGroup) -> dict[TopicPartition, OffsetAndMetadata]:
    if group.error_code:
        raise group_error(cluster, group.group_id, group.error_code, "its positions cannot be read")
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in group.topics:
        for each in topic.partitions:
            topic_partition = TopicPartition(topic.name, each.partition_index)
            if each.error_code:
                text = f"the position in {topic_partition} cannot be read"
                raise group_error(cluster, group.group_id, each.error_code, text, topic=topic.name)
            if each.committed_offset >= 0:
                found[topic_partition] = OffsetAndMetadata(
                    each.committed_offset, each.metadata or "", each.committed_leader_epoch
                )
    return found
