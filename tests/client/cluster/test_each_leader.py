"""Asking leaders, one of which says nothing: it is waited for once, and named."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import broker_and_client, one_more_that_stands_still, run

from oncelog import Admin, TopicPartition
from oncelog.client.cluster.each_leader import ask_leaders
from oncelog.errors import LeaderNotAvailable, RequestTimedOut

AT, OTHER = TopicPartition("x", 0), TopicPartition("x", 1)
SILENT = "broker 2 does not answer: no connection to 127.0.0.1:"


@pytest.mark.parametrize(("error", "count"), [(RequestTimedOut("no word"), 1), (LeaderNotAvailable("moves"), 3)])
def test_who_says_nothing_is_asked_once_and_who_moves_again(tmp_path, error, count):
    async def work():
        async with (
            broker_and_client(tmp_path) as (broker, _),
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            await admin.create_topics({"x": 2})
            asked, unreadable = [], {}

            async def ask(node, partitions):
                asked.append(node)
                raise error

            assert await ask_leaders(admin._cluster, "ask", [AT, OTHER], ask, unreadable=unreadable) == {}
            assert len(asked) == count
            assert set(unreadable) == {AT, OTHER}
            told = "broker 1 does not answer: no word" if count == 1 else "moves"
            assert {each.message for each in unreadable.values()} == {told}

    run(work())


def test_who_says_nothing_for_the_whole_time_is_named(tmp_path):
    async def work():
        async with (
            broker_and_client(tmp_path) as (broker, _),
            Admin(bootstrap_servers=broker.bootstrap_servers) as admin,
        ):
            await admin.create_topics({"x": 1})
            unreadable = {}

            async def ask(node, partitions):
                await asyncio.Event().wait()

            await ask_leaders(admin._cluster, "ask", [AT], ask, unreadable=unreadable, timeout_ms=300)
            assert unreadable[AT].message == "broker 1 does not answer: ask: not done within 300 ms"

    run(work())


def test_a_broker_that_stands_still_is_waited_for_no_longer_than_a_connection(tmp_path):
    async def work():
        async with broker_and_client(tmp_path) as (broker, _):
            servers = {"bootstrap_servers": broker.bootstrap_servers}
            async with Admin(**servers) as admin:
                await admin.create_topics(["x"])
            with one_more_that_stands_still():
                async with Admin(**servers, socket_connection_setup_timeout_ms=500) as admin:
                    unreadable = {}
                    await admin.describe_producers([AT], broker_id=2, unreadable=unreadable)
                    assert unreadable[AT].message.startswith(SILENT)
                    assert unreadable[AT].message.endswith("within 500 ms"), "not the whole time"
                    with pytest.raises(RequestTimedOut, match=r"no connection to .* within 500 ms$"):
                        await admin.describe_configs([("broker", "2")])
                    with pytest.raises(RequestTimedOut, match=r"no connection to .* within 500 ms$"):
                        await admin.describe_log_dirs()

    run(work())
