"""Checks of the requests about groups' offsets: commit, fetch, delete."""

from __future__ import annotations

from typing import Any

from oncelog.core.access.passage import Caller, Passage
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
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
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

E = ErrorCode
GROUP_DENIED, TOPIC_DENIED = E.GROUP_AUTHORIZATION_FAILED, E.TOPIC_AUTHORIZATION_FAILED
GROUPS_SINCE_VERSION = 8


def check_offset_commit(caller: Caller, message: OffsetCommitRequest, _version: int) -> Passage | None:
    """The group to read, each topic to read."""
    if not caller.may_on_group(Operation.READ, message.group_id):
        return Passage(reply=_not_committed(message.topics, GROUP_DENIED))
    passed, refused = caller.split(
        message.topics, Operation.READ, lambda each: caller.topic_name(each.name, each.topic_id)
    )
    if not refused:
        return None
    answered = _not_committed(refused, TOPIC_DENIED)
    if not passed:
        return Passage(reply=answered)

    def complete(reply: OffsetCommitResponse) -> OffsetCommitResponse:
        return reply.replace(topics=[*reply.topics, *answered.topics])

    return Passage(message.replace(topics=passed), complete=complete)


def _not_committed(topics: list[OffsetCommitRequestTopic], code: ErrorCode) -> OffsetCommitResponse:
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def check_offset_fetch(caller: Caller, message: OffsetFetchRequest, version: int) -> Passage | None:
    """Each group to describe, each topic to describe; of all topics only those."""
    return _check_several(caller, message) if version >= GROUPS_SINCE_VERSION else _check_one(caller, message, version)


def _check_one(caller: Caller, message: OffsetFetchRequest, version: int) -> Passage | None:
    if not caller.may_on_group(Operation.DESCRIBE, message.group_id):
        # v1 has no error of its own: every partition carries it.
        topics = [_unknown_offsets(each, GROUP_DENIED) for each in message.topics or [] if version < 2]
        return Passage(reply=OffsetFetchResponse(error_code=GROUP_DENIED, topics=topics))
    passed, refused = caller.split(message.topics or [], Operation.DESCRIBE, lambda each: each.name)

    def complete(reply: OffsetFetchResponse) -> OffsetFetchResponse:
        shown, _ = caller.split(reply.topics, Operation.DESCRIBE, lambda each: each.name)
        return reply.replace(topics=[*shown, *(_unknown_offsets(each, TOPIC_DENIED) for each in refused)])

    return Passage(message if message.topics is None else message.replace(topics=passed), complete=complete)


def _unknown_offsets(topic: Any, code: ErrorCode) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(partition_index=index, committed_offset=-1, error_code=code)
            for index in topic.partition_indexes
        ],
    )


def _check_several(caller: Caller, message: OffsetFetchRequest) -> Passage:
    passed = []
    denied: list[OffsetFetchResponseGroup] = []
    refused_topics: dict[str, list[OffsetFetchResponseTopics]] = {}
    for group in message.groups:
        if not caller.may_on_group(Operation.DESCRIBE, group.group_id):
            denied.append(OffsetFetchResponseGroup(group_id=group.group_id, error_code=GROUP_DENIED))
            continue
        if group.topics is None:
            passed.append(group)
            continue
        may, may_not = caller.split(
            group.topics, Operation.DESCRIBE, lambda each: caller.topic_name(each.name, each.topic_id)
        )
        passed.append(group.replace(topics=may))
        refused_topics[group.group_id] = [_unknown_offsets_by_id(each) for each in may_not]

    def complete(reply: OffsetFetchResponse) -> OffsetFetchResponse:
        for group in reply.groups:
            shown, _ = caller.split(
                group.topics, Operation.DESCRIBE, lambda each: caller.topic_name(each.name, each.topic_id)
            )
            group.topics = [*shown, *(refused_topics.get(group.group_id, []) if not group.error_code else [])]
        return reply.replace(groups=[*reply.groups, *denied])

    return Passage(message.replace(groups=passed), complete=complete)


def _unknown_offsets_by_id(topic: Any) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1, error_code=TOPIC_DENIED)
            for index in topic.partition_indexes
        ],
    )


def check_offset_delete(caller: Caller, message: OffsetDeleteRequest, _version: int) -> Passage | None:
    """The group to delete, each topic to read."""
    if not caller.may_on_group(Operation.DELETE, message.group_id):
        return Passage(reply=OffsetDeleteResponse(error_code=GROUP_DENIED))
    passed, refused = caller.split(message.topics, Operation.READ, lambda each: each.name)
    if not refused:
        return None
    answers = [
        OffsetDeleteResponseTopic(
            name=topic.name,
            partitions=[
                OffsetDeleteResponsePartition(partition_index=part.partition_index, error_code=TOPIC_DENIED)
                for part in topic.partitions
            ],
        )
        for topic in refused
    ]

    def complete(reply: OffsetDeleteResponse) -> OffsetDeleteResponse:
        return reply.replace(topics=[*reply.topics, *answers]) if not reply.error_code else reply

    return Passage(message.replace(topics=passed), complete=complete)
