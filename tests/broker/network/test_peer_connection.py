"""Who comes by the socket between processes is a broker, whatever the bounds for clients are."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from evidence.world.broker import Client, ConnectionClosed, _Protocol, broker_and_client, run

from oncelog.host.network import LOCAL, RealNetwork
from oncelog.wire.messages.api_versions import ApiVersionsRequest


def test_it_is_let_in_where_no_client_is(tmp_path: Path) -> None:
    async def work() -> None:
        with tempfile.TemporaryDirectory(prefix="o-") as sockets:
            async with broker_and_client(tmp_path, max_connections=1) as (broker, client):
                await client.call(ApiVersionsRequest(), 0)
                await broker.server.listen_to_peers(f"{LOCAL}{sockets}/1")
                _, protocol = await RealNetwork().connect(f"{LOCAL}{sockets}/1", 0, _Protocol)
                assert isinstance(protocol, _Protocol)
                assert (await Client(protocol).call(ApiVersionsRequest(), 0)).error_code == 0
                assert [each.is_of_broker for each in broker.server._connections] == [False, True]
                with pytest.raises(ConnectionClosed):
                    await (await Client.connect(broker)).call(ApiVersionsRequest(), 0)
                protocol.transport.close()

    run(work())
