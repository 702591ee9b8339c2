"""Whole refusals: every request can be refused in every version, in the place where its clients look."""

from __future__ import annotations

import pytest

from oncelog.core.groups.errors import coordinator_error, refused
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS
from oncelog.wire.messages.delete_groups import DeleteGroupsRequest
from oncelog.wire.messages.describe_groups import DescribeGroupsRequest
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.join_group import JoinGroupRequest
from oncelog.wire.messages.leave_group import LeaveGroupRequest
from oncelog.wire.messages.list_groups import ListGroupsRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.offset_delete import OffsetDeleteRequest
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopic
from oncelog.wire.messages.sync_group import SyncGroupRequest
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.schema import Struct, encode_message

E = ErrorCode
COMMIT = OffsetCommitRequest(
    topics=[OffsetCommitRequestTopic(name="t", partitions=[OffsetCommitRequestPartition(partition_index=3)])]
)
TXN_COMMIT = TxnOffsetCommitRequest(
    topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[TxnOffsetCommitRequestPartition(partition_index=3)])]
)
FETCH = OffsetFetchRequest(
    group_id="g",
    topics=[OffsetFetchRequestTopic(name="t", partition_indexes=[3])],
    groups=[OffsetFetchRequestGroup(group_id="g")],
)
REQUESTS = [
    JoinGroupRequest(member_id="m"),
    SyncGroupRequest(),
    HeartbeatRequest(),
    LeaveGroupRequest(),
    COMMIT,
    TXN_COMMIT,
    FETCH,
    OffsetDeleteRequest(),
    DescribeGroupsRequest(groups=["g"]),
    ListGroupsRequest(),
    DeleteGroupsRequest(groups_names=["g"]),
]


def error_codes(struct: object) -> set[int]:
    """All error codes of a response."""
    if isinstance(struct, list):
        return set().union(*map(error_codes, struct))
    if not isinstance(struct, Struct):
        return set()
    found = {int(value) for name, value in vars(struct).items() if name == "error_code"}
    return found.union(*(error_codes(value) for value in vars(struct).values()))


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda request: type(request).__name__)
def test_a_refusal_fits_every_version(request_):
    api = APIS[type(request_).KEY]
    for version in range(api.min_version, api.max_version + 1):
        response = refused(request_, version, E.GROUP_AUTHORIZATION_FAILED)
        assert isinstance(response, api.response)
        assert E.GROUP_AUTHORIZATION_FAILED in error_codes(response)
        assert encode_message(response, version)


def test_a_heartbeat_survives_a_coordinator_that_loads():
    assert refused(HeartbeatRequest(), 4, E.COORDINATOR_LOAD_IN_PROGRESS).error_code == E.NONE
    assert refused(HeartbeatRequest(), 4, E.NOT_COORDINATOR).error_code == E.NOT_COORDINATOR


@pytest.mark.parametrize(("version", "error_code"), [(0, 15), (1, 15), (2, 14), (5, 14)])
def test_old_producers_are_not_told_that_a_coordinator_loads(version, error_code):
    """KAFKA-7296."""
    assert error_codes(refused(TXN_COMMIT, version, E.COORDINATOR_LOAD_IN_PROGRESS)) == {error_code}


@pytest.mark.parametrize(
    ("of_the_log", "told"),
    [(13, 14), (3, 15), (19, 15), (7, 15), (6, 16), (56, 16), (10, -1), (18, -1), (4, -1), (48, 48), (0, 0)],
)
def test_errors_of_the_log_are_translated(of_the_log, told):
    """kafka-facts 5.8."""
    assert coordinator_error(ErrorCode(of_the_log)) == told
