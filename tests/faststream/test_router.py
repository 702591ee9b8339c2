"""Handlers that are declared before there is a broker."""

from __future__ import annotations

import pytest
from faststream import Depends
from faststream._internal.broker.router import BrokerRouter
from faststream.exceptions import RejectMessage, SetupError

from oncelog.faststream import OncelogPublisher, OncelogRoute, OncelogRouter
from oncelog.faststream.config import OncelogBrokerConfig
from tests.faststream.world import QUICK, fill, new_broker, run, running, values


async def double(number: int) -> int:
    return number * 2


def test_its_prefix_is_before_all_that_it_declares():
    router = OncelogRouter(prefix="shop.")

    @router.subscriber("in", group_id="g", dead_letter_topic="dead", **QUICK)
    @router.publisher("out")
    async def handle(number: int) -> int:
        if number == 2:
            raise RejectMessage
        return number

    async def work(bootstrap):
        await fill(bootstrap, b"1", b"2", topic="shop.in")
        broker = new_broker(bootstrap)
        broker.include_router(router)
        async with running(broker):
            assert await values(bootstrap, "shop.out", 1) == [b"1"]
            assert await values(bootstrap, "shop.dead", 1) == [b"2"]

    run(work)
    run(work)  # another broker takes it over


def test_routes_need_no_decorators():
    route = OncelogRoute(double, "in", group_id="g", publishers=[OncelogPublisher("out", key="k")], **QUICK)
    seen = []

    async def work(bootstrap):
        await fill(bootstrap, b"3")
        inner = OncelogRouter(handlers=[route], dependencies=[Depends(lambda: seen.append(1))])
        broker = new_broker(bootstrap, routers=[OncelogRouter(routers=[inner])])
        async with running(broker):
            assert await values(bootstrap, "out", 1) == [b"6"]

    run(work)
    assert seen == [1]


def test_another_brokers_router_is_refused():
    other = BrokerRouter(config=OncelogBrokerConfig(), handlers=(), routers=())
    with pytest.raises(SetupError, match="takes an OncelogRouter, not a BrokerRouter"):
        new_broker("127.0.0.1:1").include_router(other)
