"""What tests of limits share: which limits they meet, and the requests that meet them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from evidence.world.broker import Client, ConnectionClosed

from oncelog.errors import ErrorCode
from oncelog.wire.messages.api_versions import ApiVersionsRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

E = ErrorCode
shown: set[str] = set()


def shows(*keys: str) -> Callable[[Any], Any]:
    """Say which limits a test meets."""
    shown.update(keys)
    return lambda test: test


async def is_served(broker: Any) -> bool:
    other = await Client.connect(broker)
    answered = (await other.call(ApiVersionsRequest(), 0)).error_code == E.NONE
    other.close()
    return answered


async def is_closed(client: Client) -> bool:
    with pytest.raises(ConnectionClosed):
        await client.frame()
    return True


def join_request(group_id: str, **fields: Any) -> JoinGroupRequest:
    protocols = [JoinGroupRequestProtocol(name="range", metadata=b"")]
    values = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 10_000} | fields
    return JoinGroupRequest(group_id=group_id, protocol_type="consumer", protocols=protocols, **values)


def commit_request(group_id: str, metadata: str = "") -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata=metadata)
    topics = [OffsetCommitRequestTopic(name="t", partitions=[partition])]
    return OffsetCommitRequest(group_id=group_id, generation_id_or_member_epoch=-1, member_id="", topics=topics)


async def committed(client: Client, request: OffsetCommitRequest) -> ErrorCode:
    return E((await client.call(request, 8)).topics[0].partitions[0].error_code)
