"""The long way of a record: what it waits for may not come."""

import asyncio

import pytest
from evidence.world.client import ScriptedBroker, producer, run

from oncelog import errors


def test_a_topic_that_nobody_leads_is_as_good_as_not_known():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.partitions_for("t")
            broker.leader_id = -1
            await p._cluster.refresh(("t",))
            p._cluster.view.topics.pop("t")
            await p._cluster.refresh(("t",))
            with pytest.raises(errors.WouldBlock, match="not known yet"):
                p.send_nowait("t", b"0")

    run(work)


def test_who_waits_for_a_topic_is_told_that_the_producer_was_stopped():
    async def work():
        async with producer(ScriptedBroker()) as p:
            waiting = asyncio.create_task(p.send("nosuch", b"0"))
            await asyncio.sleep(0.1)
            await p.stop()
            with pytest.raises(errors.IllegalState, match="is not running any more: it was stopped"):
                await waiting

    run(work)
