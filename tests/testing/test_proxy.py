"""A client behind the proxy: what it sees of each fault, and what the broker has in the end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from oncelog import Broker, Consumer, Producer, sync
from oncelog.errors import (
    ConfigurationError,
    ErrorCode,
    IllegalState,
    InvalidArgument,
    InvalidTxnState,
    RecordTooLarge,
)
from oncelog.testing import FaultyProxy

BROKER_CONFIG = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1"}


def run(scenario: Callable[[FaultyProxy], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(30),
            Broker(config=BROKER_CONFIG) as broker,
            FaultyProxy(broker.bootstrap_servers) as proxy,
        ):
            await scenario(proxy)

    asyncio.run(main())


def producer(proxy: FaultyProxy, transactional_id: str | None = "p", **config: object) -> Producer:
    return Producer(
        bootstrap_servers=proxy.bootstrap_servers, transactional_id=transactional_id, retry_backoff_ms=1, **config
    )


async def committed(proxy: FaultyProxy, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with Consumer(
        "t", bootstrap_servers=proxy.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        while len(found) < count:
            found += [record.value for record in await consumer.poll(1000)]
    return found


async def commit(client: Producer, value: bytes) -> None:
    async with client.transaction():
        await client.send("t", value)


def test_everything_goes_through_the_proxy():
    async def scenario(proxy: FaultyProxy) -> None:
        async with producer(proxy) as client:
            await commit(client, b"1")
        assert await committed(proxy, 1) == [b"1"]
        assert {"InitProducerId", "Produce", "EndTxn", "Fetch"} <= set(proxy.seen)

    run(scenario)


def test_a_refused_request_is_tried_again():
    async def scenario(proxy: FaultyProxy) -> None:
        proxy.refuse("EndTxn", ErrorCode.CONCURRENT_TRANSACTIONS, count=2)
        async with producer(proxy) as client:
            await commit(client, b"1")
        assert proxy.seen["EndTxn"] == 3
        assert proxy.pending_count == 0

    run(scenario)


def test_a_refused_request_has_not_reached_the_broker():
    async def scenario(proxy: FaultyProxy) -> None:
        proxy.refuse("EndTxn", ErrorCode.INVALID_TXN_STATE)
        async with producer(proxy) as client:
            with pytest.raises(InvalidTxnState):
                await commit(client, b"lost")
        async with producer(proxy) as client:
            await commit(client, b"kept")
        assert await committed(proxy, 1) == [b"kept"]

    run(scenario)


def test_a_misreported_request_has_been_done():
    async def scenario(proxy: FaultyProxy) -> None:
        proxy.misreport("EndTxn", ErrorCode.INVALID_TXN_STATE)
        async with producer(proxy) as client:
            with pytest.raises(InvalidTxnState):
                await commit(client, b"done")
        assert await committed(proxy, 1) == [b"done"]

    run(scenario)


@pytest.mark.parametrize("api", ["Produce", "EndTxn"])
@pytest.mark.parametrize("after", [False, True])
def test_a_lost_request_or_answer_changes_nothing(api, after):
    async def scenario(proxy: FaultyProxy) -> None:
        async with producer(proxy) as client:
            proxy.drop(api, after=after)
            await commit(client, b"1")
            await commit(client, b"2")
        assert await committed(proxy, 2) == [b"1", b"2"]
        # A commit goes behind its records: where only their answer was lost they need not be sent again.
        assert proxy.seen[api] >= (2 if (api, after) == ("Produce", True) else 3)

    run(scenario)


def test_a_batch_that_comes_twice_is_stored_once():
    async def scenario(proxy: FaultyProxy) -> None:
        async with producer(proxy, None) as client:
            proxy.duplicate("Produce")
            offsets = [(await client.send_and_wait("t", b"%d" % n)).offset for n in range(3)]
        assert offsets == [0, 1, 2]
        assert await committed(proxy, 3) == [b"0", b"1", b"2"]

    run(scenario)


def test_a_delayed_request_comes_later():
    async def scenario(proxy: FaultyProxy) -> None:
        async with producer(proxy, None) as client:
            await client.send_and_wait("t", b"0")
            proxy.delay("Produce", 0.2)
            begun = asyncio.get_running_loop().time()
            await client.send_and_wait("t", b"1")
            assert asyncio.get_running_loop().time() - begun >= 0.2

    run(scenario)


def test_a_request_without_an_answer_is_passed():
    async def scenario(proxy: FaultyProxy) -> None:
        async with producer(proxy, None, acks=0, enable_idempotence=False) as client:
            for n in range(3):
                await client.send_and_wait("t", b"%d" % n)
            assert await committed(proxy, 3) == [b"0", b"1", b"2"]

    run(scenario)


def test_another_feature_level_is_reported():
    async def scenario(proxy: FaultyProxy) -> None:
        proxy.report_feature("transaction.version", 1)
        async with producer(proxy) as client:
            await commit(client, b"1")
        assert proxy.seen["AddPartitionsToTxn"] == 1

    run(scenario)


def test_the_fixture(oncelog_faults: FaultyProxy) -> None:
    oncelog_faults.refuse("Produce", ErrorCode.MESSAGE_TOO_LARGE)
    with sync.Producer(bootstrap_servers=oncelog_faults.bootstrap_servers) as client:
        with pytest.raises(RecordTooLarge):
            client.send("faults", b"1").result()
        assert client.send("faults", b"2").result().offset == 0


def test_a_connection_that_comes_as_the_proxy_stops_is_closed():
    """Its task was cancelled before the first step, or never begun; its transport stayed open."""

    async def main() -> None:
        closed: list[bool] = []

        class Writer:
            def close(self) -> None:
                closed.append(True)

        async with FaultyProxy("127.0.0.1:1") as proxy:
            proxy._accepted(asyncio.StreamReader(), Writer(), ("127.0.0.1", 1))  # type: ignore[arg-type]
        assert closed == [True] * 2  # its task's, and its own
        proxy._accepted(asyncio.StreamReader(), Writer(), ("127.0.0.1", 1))  # type: ignore[arg-type]
        assert len(closed) == 3

    asyncio.run(main())


def test_wrong_arguments_of_a_proxy_are_told_where_they_are_given():
    for address in (None, 5, "", "nowhere", "h:0", "h:99999"):
        with pytest.raises((ConfigurationError, InvalidArgument)):
            FaultyProxy(address)
    proxy = FaultyProxy("127.0.0.1:9")
    with pytest.raises(IllegalState, match="not started"):
        _ = proxy.bootstrap_servers
    wrong = (None, 1), ("transaction_version", 1), ("transaction.version", "1"), ("transaction.version", 10**9)
    for name, level in wrong:
        with pytest.raises(InvalidArgument):
            proxy.report_feature(name, level)


def test_cleared_levels_are_the_brokers_again():
    proxy = FaultyProxy("127.0.0.1:9")
    proxy.report_feature("transaction.version", 1)
    proxy.clear()
    assert proxy._features == {}
