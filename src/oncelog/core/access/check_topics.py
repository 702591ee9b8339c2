"""Checks of the requests about topics: metadata and its pages, creation, deletion, partitions."""

from __future__ import annotations

from oncelog.core.access.passage import Caller, Passage
from oncelog.core.metadata.acl import CLUSTER_NAME
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation, ResourceType
from oncelog.wire.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopicResult,
)
from oncelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from oncelog.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from oncelog.wire.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponseTopic,
    TopicRequest,
)
from oncelog.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)

DENIED = ErrorCode.TOPIC_AUTHORIZATION_FAILED
MESSAGE = "Topic authorization failed."
NO_OPERATIONS = -(1 << 31)


def check_metadata(caller: Caller, message: MetadataRequest, version: int) -> Passage:
    """Topics that may not be described are refused where they are named, and not there where all are asked for."""
    asks_for_all = message.topics is None or (version == 0 and not message.topics)
    passed: list[MetadataRequestTopic] = []
    answers: list[MetadataResponseTopic] = []
    for asked in message.topics or []:
        name = caller.topic_name(asked.name, asked.topic_id)
        if name is None or (caller.may_on_topic(Operation.DESCRIBE, name) and _may_be_made(caller, message, name)):
            passed.append(asked)
        else:
            by_id = not asked.name
            answers.append(
                MetadataResponseTopic(name=None if by_id else name, topic_id=asked.topic_id, error_code=DENIED)
            )
            if by_id and version < 12:
                answers[-1].name = ""

    def complete(reply: MetadataResponse) -> MetadataResponse:
        if asks_for_all:
            reply.topics = [each for each in reply.topics if caller.may_on_topic(Operation.DESCRIBE, each.name or "")]
        elif not passed:
            reply.topics = []  # version 0 takes an empty list for all topics
        reply.topics = [*reply.topics, *answers]
        if message.include_topic_authorized_operations:
            for topic in reply.topics:
                if topic.error_code == ErrorCode.NONE and topic.name:
                    topic.topic_authorized_operations = caller.operations(ResourceType.TOPIC, topic.name)
        if message.include_cluster_authorized_operations:
            reply.cluster_authorized_operations = cluster_operations(caller)
        return reply

    return Passage(message if asks_for_all else message.replace(topics=passed), complete=complete)


def _may_be_made(caller: Caller, message: MetadataRequest, name: str) -> bool:
    if name in caller.metadata.topics or not (message.allow_auto_topic_creation and caller.may_create):
        return True
    return caller.may_on_cluster(Operation.CREATE) or caller.may_on_topic(Operation.CREATE, name)


def cluster_operations(caller: Caller) -> int:
    """What the caller may do to the cluster; nothing is told to who may not describe it."""
    return caller.operations(ResourceType.CLUSTER, CLUSTER_NAME) if caller.may_on_cluster(Operation.DESCRIBE) else 0


def check_describe_topic_partitions(
    caller: Caller, message: DescribeTopicPartitionsRequest, _version: int
) -> Passage | None:
    """As metadata: what may not be described is refused where it is named, and not there otherwise."""
    is_named = bool(message.topics)
    asked = message.topics or [TopicRequest(name=name) for name in caller.metadata.topics]
    passed, refused = caller.split(asked, Operation.DESCRIBE, lambda each: each.name)
    answers = [DescribeTopicPartitionsResponseTopic(name=each.name, error_code=DENIED) for each in refused if is_named]
    if not passed:
        return Passage(reply=DescribeTopicPartitionsResponse(topics=answers, next_cursor=None))

    def complete(reply: DescribeTopicPartitionsResponse) -> DescribeTopicPartitionsResponse:
        for topic in reply.topics:
            if topic.error_code == ErrorCode.NONE:
                topic.topic_authorized_operations = caller.operations(ResourceType.TOPIC, topic.name or "")
        reply.topics = [*reply.topics, *answers]
        return reply

    return Passage(message.replace(topics=passed), complete=complete)


def check_create_topics(caller: Caller, message: CreateTopicsRequest, _version: int) -> Passage | None:
    """The right to create is the cluster's or the topic's; configs are shown to who may describe them."""
    may_all = caller.may_on_cluster(Operation.CREATE)
    passed = [each for each in message.topics if may_all or caller.may_on_topic(Operation.CREATE, each.name)]
    names = {each.name: None for each in message.topics if each not in passed}
    answers = [CreatableTopicResult(name=name, error_code=DENIED, error_message=MESSAGE) for name in names]
    if not passed:
        return Passage(reply=CreateTopicsResponse(topics=answers))

    def complete(reply: CreateTopicsResponse) -> CreateTopicsResponse:
        for topic in reply.topics:
            may_see = caller.may_on_topic(Operation.DESCRIBE_CONFIGS, topic.name)
            if topic.error_code == ErrorCode.NONE and not may_see:
                topic.topic_config_error_code = DENIED
                topic.num_partitions = topic.replication_factor = -1
                topic.configs = None
        reply.topics = [*reply.topics, *answers]
        return reply

    return Passage(message.replace(topics=passed), complete=complete)


def check_create_partitions(caller: Caller, message: CreatePartitionsRequest, _version: int) -> Passage | None:
    """Each topic needs the right to alter it."""
    passed, refused = caller.split(message.topics, Operation.ALTER, lambda each: each.name)
    answers = [
        CreatePartitionsTopicResult(name=each.name, error_code=DENIED, error_message=MESSAGE) for each in refused
    ]
    if not refused:
        return None

    def complete(reply: CreatePartitionsResponse) -> CreatePartitionsResponse:
        return reply.replace(results=[*reply.results, *answers])

    return Passage(message.replace(topics=passed), complete=complete)


def check_delete_topics(caller: Caller, message: DeleteTopicsRequest, version: int) -> Passage | None:
    """The right to delete is the cluster's or the topic's; an id whose topic may not be described keeps its name."""
    if caller.may_on_cluster(Operation.DELETE):
        return None
    states = message.topics if version >= 6 else [DeleteTopicState(name=name) for name in message.topic_names]
    passed: list[DeleteTopicState] = []
    answers: list[DeletableTopicResult] = []
    for state in states:
        name = caller.topic_name(state.name, state.topic_id)
        if name is None or caller.may_on_topic(Operation.DELETE, name):
            passed.append(state)
            continue
        is_shown = state.name is not None or caller.may_on_topic(Operation.DESCRIBE, name)
        answers.append(
            DeletableTopicResult(
                name=name if is_shown else None, topic_id=state.topic_id, error_code=DENIED, error_message=MESSAGE
            )
        )
    if not answers:
        return None

    def complete(reply: DeleteTopicsResponse) -> DeleteTopicsResponse:
        return reply.replace(responses=[*reply.responses, *answers])

    return Passage(
        message.replace(topics=passed, topic_names=[each.name for each in passed if each.name is not None]),
        complete=complete,
    )
