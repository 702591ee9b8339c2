"""Whole refusals: the answer to a group request when one error code is all there is to say.

The shell uses them for what it decides itself (authorization, a coordinator that loads or is elsewhere, an append that
failed). Kafka's clients act on different codes than the log knows, so `coordinator_error` translates first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.core.groups.classic.rebalance import join_error, sync_error
from oncelog.errors import ErrorCode
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse
from oncelog.wire.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse
from oncelog.wire.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from oncelog.wire.messages.join_group import JoinGroupRequest
from oncelog.wire.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from oncelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)
from oncelog.wire.messages.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
from oncelog.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponseTopic,
)
from oncelog.wire.messages.sync_group import SyncGroupRequest
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

_OF_THE_LOG = {
    ErrorCode.NETWORK_EXCEPTION: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.INVALID_FETCH_SIZE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def coordinator_error(error_code: ErrorCode) -> ErrorCode:
    """What a client of the coordinator is told when the coordinator's partition answers this (kafka-facts 5.8)."""
    return _OF_THE_LOG.get(error_code, error_code)


def refused(request: Any, version: int, error_code: ErrorCode) -> Any:
    """The response of the request's kind and version in which everything has this error."""
    return _REFUSALS[type(request)](request, version, error_code)


def _offset_commit(request: OffsetCommitRequest, _version: int, error_code: ErrorCode) -> OffsetCommitResponse:
    topics = [
        OffsetCommitResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            partitions=[
                OffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error_code)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return OffsetCommitResponse(topics=topics)


def _txn_offset_commit(request: TxnOffsetCommitRequest, version: int, error_code: ErrorCode) -> TxnOffsetCommitResponse:
    # KAFKA-7296: producers of versions 0 and 1 take "loading" for fatal.
    if version < 2 and error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
        error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    topics = [
        TxnOffsetCommitResponseTopic(
            name=topic.name,
            partitions=[
                TxnOffsetCommitResponsePartition(partition_index=each.partition_index, error_code=error_code)
                for each in topic.partitions
            ],
        )
        for topic in request.topics
    ]
    return TxnOffsetCommitResponse(topics=topics)


def _offset_fetch(request: OffsetFetchRequest, version: int, error_code: ErrorCode) -> OffsetFetchResponse:
    if version >= 8:
        groups = [OffsetFetchResponseGroup(group_id=each.group_id, error_code=error_code) for each in request.groups]
        return OffsetFetchResponse(groups=groups)
    if version >= 2:
        return OffsetFetchResponse(error_code=error_code)
    # Version 1 has no place for it but the partitions.
    topics = [
        OffsetFetchResponseTopic(
            name=topic.name,
            partitions=[
                OffsetFetchResponsePartition(
                    partition_index=index, committed_offset=-1, metadata="", error_code=error_code
                )
                for index in topic.partition_indexes
            ],
        )
        for topic in request.topics or []
    ]
    return OffsetFetchResponse(topics=topics)


def _describe(request: DescribeGroupsRequest, _version: int, error_code: ErrorCode) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=each, error_code=error_code) for each in request.groups]
    )


def _delete(request: DeleteGroupsRequest, _version: int, error_code: ErrorCode) -> DeleteGroupsResponse:
    results = [DeletableGroupResult(group_id=each, error_code=error_code) for each in request.groups_names]
    return DeleteGroupsResponse(results=results)


def _heartbeat(_request: HeartbeatRequest, _version: int, error_code: ErrorCode) -> HeartbeatResponse:
    # A coordinator that loads cannot tell who is a member: no member shall leave because of it.
    is_loading = error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return HeartbeatResponse(error_code=ErrorCode.NONE if is_loading else error_code)


_REFUSALS: dict[type, Callable[[Any, int, ErrorCode], Any]] = {
    JoinGroupRequest: lambda request, _version, error_code: join_error(error_code, request.member_id),
    SyncGroupRequest: lambda _request, _version, error_code: sync_error(error_code),
    HeartbeatRequest: _heartbeat,
    LeaveGroupRequest: lambda _request, _version, error_code: LeaveGroupResponse(error_code=error_code),
    OffsetCommitRequest: _offset_commit,
    TxnOffsetCommitRequest: _txn_offset_commit,
    OffsetFetchRequest: _offset_fetch,
    OffsetDeleteRequest: lambda _request, _version, error_code: OffsetDeleteResponse(error_code=error_code),
    DescribeGroupsRequest: _describe,
    ListGroupsRequest: lambda _request, _version, error_code: ListGroupsResponse(error_code=error_code),
    DeleteGroupsRequest: _delete,
}
