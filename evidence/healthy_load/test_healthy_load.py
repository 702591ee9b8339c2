"""A few seconds of it: nothing is found in health, and what is wrong is."""

from __future__ import annotations

import asyncio

import pytest
from bench.servers import Server, oncelog

from evidence.healthy_load.__main__ import ask, watched
from oncelog import Admin, Consumer, Producer


async def leave_behind(server: Server) -> None:
    """A group that stands at the first of two records, without a member."""
    async with Admin(bootstrap_servers=server.bootstrap) as admin:
        await admin.create_topics({"left": 1})
    async with Producer(bootstrap_servers=server.bootstrap) as producer:
        for value in (b"1", b"2"):
            await producer.send("left", value)
    more = {"group_id": "gone", "auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with Consumer("left", bootstrap_servers=server.bootstrap, **more) as consumer:
        while not await consumer.poll(max_records=1):
            pass
        await consumer.commit()


def test_health_raises_no_alarm_and_a_group_that_was_left_does(capsys: pytest.CaptureFixture[str]) -> None:
    with oncelog() as server:
        outcome = asyncio.run(watched(server, 5.0, 7, 0.1))
        assert outcome.alarms == []
        assert sum(outcome.asked.values()) > 3
        assert outcome.counts["committed"] > 0
        assert outcome.counts["read"] > 0
        asyncio.run(leave_behind(server))
        (alarm,) = asyncio.run(ask(server, "gone", "group"))
    assert '"kind": "no members"' in alarm
    assert capsys.readouterr().err == ""
