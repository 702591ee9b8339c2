"""A connection from this broker to a broker."""

from __future__ import annotations

import asyncio

from evidence.world.broker import broker_and_client, run

from oncelog.broker.network.peer import Peer
from oncelog.host.host import real_host
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from oncelog.wire.messages.list_groups import ListGroupsRequest, ListGroupsResponse


def test_requests_that_wait_together_have_each_its_own_answer(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            host, port = broker.bootstrap_servers.split(":")
            peer = Peer(real_host().network, lambda: (host, int(port)), client_id="test", timeout_ms=60_000)
            answers = await asyncio.gather(
                peer.call(ApiKey.LIST_GROUPS, ListGroupsRequest()),
                peer.call(ApiKey.FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=["g"])),
            )
            peer.close()
        assert [type(each) for each in answers] == [ListGroupsResponse, FindCoordinatorResponse]

    run(work())
