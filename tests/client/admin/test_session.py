"""What an admin client asks in several steps, of a slow broker in virtual time: all of it takes default_api_timeout_ms."""

from __future__ import annotations

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run

from oncelog import Admin
from oncelog.errors import RequestTimedOut
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.create_topics import CreatableTopicResult, CreateTopicsResponse
from oncelog.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsResponse
from oncelog.wire.messages.describe_configs import DescribeConfigsResponse, DescribeConfigsResult
from oncelog.wire.messages.describe_transactions import DescribeTransactionsResponse
from oncelog.wire.messages.list_groups import ListGroupsResponse
from oncelog.wire.messages.list_transactions import ListTransactionsResponse

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
