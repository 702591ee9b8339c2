"""OffsetCommit and OffsetFetch for one group: what its consumer and the admin both need."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from oncelog.client.backoff import Deadline
from oncelog.client.cluster.cluster import VERSION_MAX, Cluster
from oncelog.errors import ErrorCode, KafkaError, UnknownTopicId
from oncelog.types import CoordinatorKey, GroupMetadata, OffsetAndMetadata, TopicPartition
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
)
from oncelog.wire.schema import ZERO_UUID, Struct

log = logging.getLogger("oncelog.client")

FIND_AGAIN = (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR, ErrorCode.REQUEST_TIMED_OUT)
BY_NAME_VERSION_MAX = 9  # from 10 on topics go by id
_NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def group_key(group_id: str) -> CoordinatorKey:
    """The coordinator key of a group."""
    return CoordinatorKey(0, group_id)


def group_error(
    cluster: Cluster,
    group_id: str,
    error_code: int,
    text: str,
    *,
    topic: str | None = None,
    request: type[Struct] | None = None,
) -> KafkaError:
    """The error of a group's coordinator (about a topic, perhaps); one that says that it moved makes the client look for it
    again."""
    if error_code in FIND_AGAIN:
        cluster.forget_coordinator(group_key(group_id))
    name = topic if topic is not None and error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED else group_id
    return cluster.refusal(error_code, f"group {group_id!r}: {text}", name, request)


async def commit_offsets(
    cluster: Cluster,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    *,
    timeout_ms: int | None = None,
    by_topic_id: bool = False,
    passes_over_deleted: bool = False,
) -> None:
    """Store positions. Raises IllegalGeneration, UnknownMemberId, RebalanceInProgress ... where the group moved on.

    `by_topic_id`: each in the topic that it is a place in (where a position does not say, in the one that has the name now),
    not in another one that was made under its name since; raises UnknownTopicId for such, when the others are stored.
    `passes_over_deleted`: partitions that do not exist (any more) are not waited for; a rebalance would stand.
    """
    known: dict[TopicPartition, bytes] = {}
    if by_topic_id:
        known = {tp: found for tp, at in offsets.items() if (found := at.topic_id or _known_id(cluster, tp.topic))}
    messages = [
        (_commit_request(group, {tp: offsets[tp] for tp in offsets if (tp in known) is is_by_id}, known), version_max)
        for is_by_id, version_max in ((True, VERSION_MAX), (False, BY_NAME_VERSION_MAX))
    ]
    of_former_topics: set[TopicPartition] = set()

    async def attempt(_: Deadline) -> None:
        for message, version_max in messages:
            if message.topics:
                response = await cluster.ask_coordinator(group_key(group.group_id), message, version_max=version_max)
                names = {topic.topic_id: topic.name for topic in message.topics}
                await _check_stored(response, names)

    async def _check_stored(response: OffsetCommitResponse, names: Mapping[bytes, str]) -> None:
        for topic in response.topics:
            topic_id = bytes(topic.topic_id)
            name = topic.name or names.get(topic_id, "")
            for each in topic.partitions:
                topic_partition = TopicPartition(name, each.partition_index)
                if passes_over_deleted and each.error_code in _NOT_THERE:
                    log.debug("%s is not there any more", topic_partition)
                elif each.error_code == ErrorCode.UNKNOWN_TOPIC_ID and await _is_another(cluster, name, topic_id):
                    of_former_topics.add(topic_partition)
                elif each.error_code:
                    text = f"the position in {topic_partition} was not committed"
                    raise group_error(
                        cluster, group.group_id, each.error_code, text, topic=name, request=OffsetCommitRequest
                    )

    if offsets:
        await cluster.retry(f"commit offsets of group {group.group_id!r}", attempt, timeout_ms=timeout_ms)
    if of_former_topics:
        names = ", ".join(map(str, sorted(of_former_topics)))
        text = f"group {group.group_id!r}: positions were not committed, the topic was deleted and made again: {names}"
        raise UnknownTopicId(text)


def _known_id(cluster: Cluster, topic: str) -> bytes | None:
    return (cluster.view.topic_ids((topic,)) or {}).get(topic)


async def _is_another(cluster: Cluster, topic: str, topic_id: bytes) -> bool:
    """Whether the topic of this name is another one. Raises UnknownTopicOrPartition where there is none."""
    await cluster.refresh((topic,))
    now = _known_id(cluster, topic)
    if now is None:
        raise cluster.refusal(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"topic {topic!r} is not there any more", topic)
    return now != topic_id


def _commit_request(
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    topic_ids: Mapping[TopicPartition, bytes],
) -> OffsetCommitRequest:
    topics: dict[tuple[str, bytes], list[OffsetCommitRequestPartition]] = {}
    for topic_partition, position in offsets.items():
        topics.setdefault((topic_partition.topic, topic_ids.get(topic_partition, ZERO_UUID)), []).append(
            OffsetCommitRequestPartition(
                partition_index=topic_partition.partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group.group_id,
        generation_id_or_member_epoch=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[
            OffsetCommitRequestTopic(name=name, topic_id=topic_id, partitions=partitions)
            for (name, topic_id), partitions in topics.items()
        ],
    )


async def fetch_committed(
    cluster: Cluster,
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    timeout_ms: int | None = None,
    by_topic_id: bool = False,
) -> dict[TopicPartition, OffsetAndMetadata]:
    """Committed positions; None asks for all. Partitions without one are left out.

    `require_stable` waits while an open transaction may still change one of them (KIP-447). `by_topic_id`: each says in which
    topic it is, where the cluster's view knows that.
    """
    wanted = None if partitions is None else list(partitions)
    looked_for: set[str] = set()

    async def attempt(_: Deadline) -> dict[TopicPartition, OffsetAndMetadata]:
        known: dict[str, bytes] = {}
        if by_topic_id and wanted is not None:
            names = {tp.topic for tp in wanted}
            if any(_known_id(cluster, name) is None for name in names - looked_for):
                looked_for.update(names)
                await cluster.refresh(names)
            known = {name: topic_id for name in names if (topic_id := _known_id(cluster, name))}
        found: dict[TopicPartition, OffsetAndMetadata] = {}
        if wanted is None or any(tp.topic not in known for tp in wanted):
            rest = None if wanted is None else [tp for tp in wanted if tp.topic not in known]
            message = _request(group_id, rest, require_stable=require_stable)
            found |= _positions(cluster, await _asked(cluster, group_id, message, BY_NAME_VERSION_MAX), {})
        if known:
            by_id = [tp for tp in wanted or () if tp.topic in known]
            message = _request(group_id, by_id, require_stable=require_stable, topic_ids=known)
            found |= _positions(cluster, await _asked(cluster, group_id, message, VERSION_MAX), known)
        return found

    return await cluster.retry(f"committed offsets of group {group_id!r}", attempt, timeout_ms=timeout_ms)


async def _asked(
    cluster: Cluster, group_id: str, message: OffsetFetchRequest, version_max: int
) -> OffsetFetchResponseGroup:
    response = await cluster.ask_coordinator(group_key(group_id), message, version_min=8, version_max=version_max)
    group: OffsetFetchResponseGroup = response.groups[0]
    return group


async def fetch_pending(cluster: Cluster, group_id: str, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
    """Of these partitions, those with a pending transactional commit: the coordinator calls them unstable now."""
    message = _request(group_id, partitions, require_stable=True)

    async def attempt(_: Deadline) -> set[TopicPartition]:
        group = await _asked(cluster, group_id, message, BY_NAME_VERSION_MAX)
        pending = {
            TopicPartition(topic.name, each.partition_index)
            for topic in group.topics
            for each in topic.partitions
            if each.error_code == ErrorCode.UNSTABLE_OFFSET_COMMIT
        }
        if not pending and group.error_code:
            raise _unread(cluster, group_id, group.error_code, "its positions cannot be read")
        return pending

    return await cluster.retry(f"pending offsets of group {group_id!r}", attempt)


def _unread(cluster: Cluster, group_id: str, error_code: int, text: str, topic: str | None = None) -> KafkaError:
    return group_error(cluster, group_id, error_code, text, topic=topic, request=OffsetFetchRequest)


def _request(
    group_id: str,
    partitions: Iterable[TopicPartition] | None,
    *,
    require_stable: bool,
    topic_ids: Mapping[str, bytes] = MappingProxyType({}),
) -> OffsetFetchRequest:
    """Of these partitions; None: of all that have a position."""
    named: list[OffsetFetchRequestTopics] | None = None
    if partitions is not None:
        topics: dict[str, list[int]] = {}
        for topic, partition in partitions:
            topics.setdefault(topic, []).append(partition)
        named = [
            OffsetFetchRequestTopics(name=name, topic_id=topic_ids.get(name, ZERO_UUID), partition_indexes=indexes)
            for name, indexes in topics.items()
        ]
    group = OffsetFetchRequestGroup(group_id=group_id, topics=named)
    return OffsetFetchRequest(groups=[group], require_stable=require_stable)


def _positions(
    cluster: Cluster, group: OffsetFetchResponseGroup, topic_ids: Mapping[str, bytes]
) -> dict[TopicPartition, OffsetAndMetadata]:
    if group.error_code:
        raise _unread(cluster, group.group_id, group.error_code, "its positions cannot be read")
    names = {topic_id: name for name, topic_id in topic_ids.items()}
    found: dict[TopicPartition, OffsetAndMetadata] = {}
    for topic in group.topics:
        name = topic.name or names.get(bytes(topic.topic_id), "")
        for each in topic.partitions:
            topic_partition = TopicPartition(name, each.partition_index)
            if each.error_code:
                if each.error_code == ErrorCode.UNKNOWN_TOPIC_ID:  # deleted, or its coordinator has not heard of it yet
                    cluster.refresh_soon((name,))
                text = f"the position in {topic_partition} cannot be read"
                raise _unread(cluster, group.group_id, each.error_code, text, name)
            if each.committed_offset >= 0:
                found[topic_partition] = OffsetAndMetadata(
                    each.committed_offset,
                    each.metadata or "",
                    each.committed_leader_epoch,
                    bytes(topic.topic_id) if topic.topic_id != ZERO_UUID else None,
                )
    return found
