"""What an admin client asks in several steps, of a slow broker in virtual time: all of it takes default_api_timeout_ms."""

from __future__ import annotations

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run

from oncelog import Admin
from oncelog.client.admin.session import ends_where_coordinators_are_offline
from oncelog.errors import CoordinatorNotAvailable, ErrorCode, RequestTimedOut
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from oncelog.wire.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from oncelog.wire.messages.describe_transactions import DescribeTransactionsResponse
from oncelog.wire.messages.list_groups import ListGroupsResponse
from oncelog.wire.messages.list_transactions import ListTransactionsResponse
from oncelog.wire.messages.metadata import MetadataResponsePartition

CALLS = {
    "list_groups": lambda admin: admin.list_groups(),
    "list_groups, who is silent": lambda admin: admin.list_groups(unreachable={}),
    "list_transactions": lambda admin: admin.list_transactions(),
    "delete_groups": lambda admin: admin.delete_groups(["g"]),
    "describe_transactions": lambda admin: admin.describe_transactions(["x"]),
    "force_terminate_transaction": lambda admin: admin.force_terminate_transaction("x"),
    "create_topics": lambda admin: admin.create_topics(["other"]),
    "describe_configs": lambda admin: admin.describe_configs([("topic", "t"), ("topic", "u")]),
}


class SlowBroker(ScriptedBroker):
    """Knows some more answers."""

    def _list_groups(self, _, code):
        return ListGroupsResponse(error_code=code)

    def _list_transactions(self, _, code):
        return ListTransactionsResponse(error_code=code)

    def _delete_groups(self, message, code):
        return DeleteGroupsResponse(results=[DeletableGroupResult(group_id=g) for g in message.groups_names])

    def _describe_transactions(self, message, code):
        return DescribeTransactionsResponse()

    def _create_topics(self, message, code):
        return CreateTopicsResponse(topics=[CreatableTopicResult(name=t.name, error_code=code) for t in message.topics])

    def _describe_configs(self, message, code):
        found = [
            DescribeConfigsResult(resource_type=r.resource_type, resource_name=r.resource_name, error_code=code)
            for r in message.resources
        ]
        return DescribeConfigsResponse(results=found)


@pytest.mark.parametrize("call", CALLS)
def test_the_steps_of_a_call_share_its_time(call):
    async def work(loop):
        broker = SlowBroker()
        async with Admin(host=broker.host(), bootstrap_servers=BOOTSTRAP, default_api_timeout_ms=4000) as admin:
            broker.delay_s.update(dict.fromkeys(ApiKey, 1.7))
            began = loop.time()
            with pytest.raises(RequestTimedOut, match="not done within 4000 ms"):
                await CALLS[call](admin)
            assert loop.time() - began == pytest.approx(4, abs=0.1)

    run(work)


class LeaderlessBroker(SlowBroker):
    """Nobody leads the groups' partitions, or their leader's disk failed (`is_damaged`)."""

    is_damaged = False

    def _find_coordinator(self, message, code):
        return super()._find_coordinator(message, code or ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _metadata(self, message, code):
        found = super()._metadata(message, code)
        for topic in found.topics:
            if topic.name == "__consumer_offsets":
                leader_id, offline = (1, [1]) if self.is_damaged else (-1, [])
                where = {"partition_index": 0, "leader_id": leader_id, "leader_epoch": 0, "offline_replicas": offline}
                topic.error_code, topic.partitions = 0, [MetadataResponsePartition(**where)]
        return found


@pytest.mark.parametrize(
    ("is_damaged", "patience_ms", "seconds"), [(True, 5000, 0), (False, 5000, 5), (True, None, 30), (False, None, 30)]
)
def test_a_coordinator_that_is_offline_is_waited_for_as_long_as_is_wanted(is_damaged, patience_ms, seconds):
    async def work(loop):
        broker = LeaderlessBroker()
        broker.is_damaged = is_damaged
        async with Admin(host=broker.host(), bootstrap_servers=BOOTSTRAP, default_api_timeout_ms=30_000) as admin:
            if patience_ms is not None:
                ends_where_coordinators_are_offline(admin, leaderless_patience_ms=patience_ms)
            began = loop.time()
            with pytest.raises(RequestTimedOut if patience_ms is None else CoordinatorNotAvailable) as raised:
                await admin.describe_groups(["g"])
            assert loop.time() - began == pytest.approx(seconds, abs=1.5)
            if patience_ms is not None:
                is_away = "COORDINATOR_NOT_AVAILABLE: the coordinator of 'g' is not available"
                assert str(raised.value) == f"{is_away}: __consumer_offsets-0 is offline"
                assert not raised.value.retriable

    run(work)
