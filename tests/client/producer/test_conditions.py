"""What a broker knows of a commit whose answer was lost: asked of a real one."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

from oncelog import Broker, Producer
from oncelog.client.producer.conditions import has_ended


def test_a_transaction_has_ended_where_its_epoch_is_over_or_its_id_was_forgotten():
    """A coordinator forgets only an id that is in no transaction."""

    async def work():
        async with (
            Broker(config={"transaction.state.log.num.partitions": "1"}) as broker,
            Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="p") as p,
        ):
            async with p.transaction():
                await (await p.send("t", b"x", partition=0))
                open_identity = p._manager.identity
                connection = await p._sender._cluster.connection(p._manager.coordinator)

                async def ended(transactional_id, identity):
                    manager = SimpleNamespace(transactional_id=transactional_id, identity=identity)
                    return await has_ended(connection, manager, timeout_ms=5000)

                assert not await ended("p", open_identity)
                assert await ended("never-seen", open_identity)
            assert await ended("p", open_identity)

    asyncio.run(work())
