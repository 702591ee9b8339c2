"""A commit leaves right behind its records: what a client sees of it through faults that are drawn, on a real broker."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest
from evidence.world.broker import eventually

from oncelog import Admin, Broker, Consumer, Producer
from oncelog.core.metadata import features
from oncelog.errors import (
    ErrorCode,
    IllegalState,
    InvalidProducerEpoch,
    KafkaError,
    RequestTimedOut,
    TransactionAbortable,
)
from oncelog.testing import FaultyProxy
from oncelog.types import PreparedTxnState

CONFIG = {"transaction.state.log.num.partitions": "1", "offsets.topic.num.partitions": "1", "num.partitions": "2"}
TIMEOUT_CHECKS = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
TRANSACTIONS = 6
CODES = {
    "Produce": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.MESSAGE_TOO_LARGE),
    "EndTxn": (ErrorCode.CONCURRENT_TRANSACTIONS, ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS),
}


def producer(bootstrap, **config):
    config = {"transactional_id": "p", "retry_backoff_ms": 1, "retry_backoff_max_ms": 5, "linger_ms": 0, **config}
    return Producer(bootstrap_servers=bootstrap, **config)


async def visible(bootstrap):
    """All that read_committed shows, in the end: whoever was open is fenced before."""
    async with producer(bootstrap) as last, last.transaction():
        await last.send("t", b"end", partition=0)
        await last.send("t", b"end", partition=1)
    found = []
    consumer = Consumer(
        "t", bootstrap_servers=bootstrap, auto_offset_reset="earliest", isolation_level="read_committed"
    )
    async with consumer:
        while found.count(b"end") < 2:
            found += [record.value for record in await consumer.poll(1000)]
    return sorted(value for value in found if value != b"end")


def draw_fault(rng, proxy):
    api = rng.choice(("Produce", "EndTxn"))
    kind = rng.choice(("refuse", "misreport", "drop", "drop", "duplicate", "delay"))
    if kind == "refuse" or (kind, api) == ("misreport", "Produce"):
        getattr(proxy, kind)(api, rng.choice(CODES[api]))
    elif kind == "drop":
        proxy.drop(api, after=rng.random() < 0.5)
    elif kind == "delay":
        proxy.delay(api, rng.choice((0.001, 0.02)))
    elif kind == "duplicate":
        proxy.duplicate(api)


@pytest.mark.parametrize("seed", range(12))
def test_a_commit_that_succeeds_has_all_and_one_that_fails_nothing(seed):
    async def work():
        rng = random.Random(seed)
        expected, unknown = [], []
        async with asyncio.timeout(60), Broker(config=CONFIG) as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
            for attempt in range(10):
                try:
                    async with producer(proxy.bootstrap_servers) as p:
                        await transactions(rng, proxy, p, expected, unknown, attempt)
                        break
                except KafkaError:  # this producer is over: another one fences it
                    proxy.clear()
            found = await visible(broker.bootstrap_servers)
            expected += [value for values in unknown if values[0] in found for value in values]
            assert found == sorted(expected)

    asyncio.run(work())


async def transactions(rng, proxy, p, expected, unknown, attempt):
    for number in range(TRANSACTIONS):
        values = [b"%d-%d-%d" % (attempt, number, n) for n in range(rng.randrange(1, 5))]
        p.begin_transaction()
        for _ in range(rng.randrange(3)):
            draw_fault(rng, proxy)
        deliveries = []
        for value in values:
            deliveries.append(await p.send("t", value, partition=rng.randrange(2)))
            if rng.random() < 0.3:
                await asyncio.sleep(0.002)
        try:
            await p.commit_transaction()
        except KafkaError:
            unknown.append(values)  # all or nothing, where the abort fails as well
            await p.abort_transaction()
            unknown.remove(values)
        else:
            expected += values
            assert all(each.done() for each in deliveries)
            await asyncio.gather(*deliveries)


def test_records_and_commit_leave_together_and_are_answered_with_their_offsets():
    async def work():
        async with Broker(config=CONFIG) as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
            async with producer(proxy.bootstrap_servers, linger_ms=1000) as p:
                for number in range(3):
                    async with p.transaction():
                        deliveries = [await p.send("t", b"x", partition=n % 2) for n in range(4)]
                    assert [(await each).offset for each in deliveries] == [3 * number + n for n in (0, 0, 1, 1)]
                    assert not p._manager.conditional.is_undecided
            assert (proxy.seen["Produce"], proxy.seen["EndTxn"]) == (3, 3), "none was sent twice"

    asyncio.run(work())


@pytest.mark.parametrize("journal", ["on", "off"])
def test_where_the_broker_cannot_the_commit_comes_after_the_records(journal):
    async def work():
        async with Broker(config={**CONFIG, "journal": journal}) as broker, producer(broker.bootstrap_servers) as p:
            for _ in range(5):
                async with p.transaction():
                    await p.send("t", b"x", partition=0)
            assert p._manager.conditional.is_worth_it is (journal == "on")
            assert await visible(broker.bootstrap_servers) == [b"x"] * 5

    asyncio.run(work())


def test_a_cancelled_commit_goes_on_and_is_heard():
    async def work():
        async with Broker(config=CONFIG) as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
            async with producer(proxy.bootstrap_servers) as p:
                proxy.delay("EndTxn", 0.2)
                p.begin_transaction()
                delivery = await p.send("t", b"x", partition=0)
                commit = asyncio.create_task(p.commit_transaction())
                await asyncio.sleep(0.05)
                commit.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await commit
                with pytest.raises(IllegalState):
                    p.begin_transaction()
                assert p.purge() == 0, "the commit behind them decides"
                await p.commit_transaction()
                await delivery
            assert await visible(broker.bootstrap_servers) == [b"x"]

    asyncio.run(work())


def test_a_delivery_ends_in_time_whatever_the_commit_waits_for():
    async def work():
        async with Broker(config=CONFIG) as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
            config = {"delivery_timeout_ms": 300, "request_timeout_ms": 200, "max_block_ms": 1500}
            async with producer(proxy.bootstrap_servers, **config) as p:
                p.begin_transaction()
                await (await p.send("t", b"first", partition=0))
                proxy.drop("Produce", after=True)
                proxy.drop("EndTxn", after=True, count=1000)
                delivery = await p.send("t", b"x", partition=0)
                commit = asyncio.create_task(p.commit_transaction())
                with pytest.raises(RequestTimedOut, match="delivery_timeout_ms=300"):
                    await asyncio.wait_for(asyncio.shield(_of(delivery)), 5)
                assert not commit.done()
                with pytest.raises(RequestTimedOut, match="commit_transaction not done"):
                    await commit
                proxy.clear()
                await p.commit_transaction()  # it was committed, with the record that nobody heard of
            assert await visible(broker.bootstrap_servers) == [b"first", b"x"]

    async def _of(delivery):
        return await delivery

    asyncio.run(work())


@pytest.mark.parametrize("is_done", [True, False])
def test_an_older_broker_in_the_place_of_the_one_before_is_not_given_the_condition(is_done):
    """It would not look at it: it is asked what became of the transaction first."""

    async def work():
        async with Broker(config=CONFIG) as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
            async with producer(proxy.bootstrap_servers) as p:
                async with p.transaction():
                    await p.send("t", b"0", partition=0)
                proxy.drop("Produce", after=is_done)
                proxy.drop("EndTxn", after=True)
                async with p.transaction():
                    delivery = await p.send("t", b"1", partition=0)
                    proxy.report_feature("oncelog.conditional.commit", 0)  # of the next connections
                assert (await delivery).offset == (-1 if is_done else 2)
                async with p.transaction():
                    await p.send("t", b"2", partition=0)
                assert proxy.seen["DescribeTransactions"] == 1
            assert await visible(broker.bootstrap_servers) == [b"0", b"1", b"2"]

    asyncio.run(work())


def test_a_lost_commit_is_not_asked_for_again_before_a_pause_is_over():
    """The broker asked for one (KIP-219), or a session begins again: no request leaves meanwhile."""

    async def work():
        async with Broker(config=CONFIG) as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
            async with producer(proxy.bootstrap_servers) as p:
                async with p.transaction():
                    await p.send("t", b"1", partition=0)
                proxy.refuse("EndTxn", ErrorCode.NOT_COORDINATOR)
                request_behind = p._sender._again_behind
                held = asyncio.Event()

                async def while_held(request, node):
                    connection = await p._sender._cluster.connection(node)
                    connection.hold_requests()
                    asyncio.get_running_loop().call_soon(held.set)
                    return await request_behind(request, node)

                p._sender._again_behind = while_held
                p.begin_transaction()
                await p.send("t", b"2", partition=0)
                commit = asyncio.create_task(p.commit_transaction())
                await held.wait()
                async with Producer(bootstrap_servers=proxy.bootstrap_servers) as other:
                    await (await other.send("other", b"", partition=0))  # time for it to arrive, had it been sent
                assert proxy.seen["EndTxn"] == 2
                node = p._manager.coordinator
                (await p._sender._cluster.connection(node)).release_requests()
                await commit
                assert proxy.seen["EndTxn"] == 3
            assert await visible(broker.bootstrap_servers) == [b"1", b"2"]

    asyncio.run(work())


def test_what_only_the_directory_says_of_it_does_not_count(monkeypatch):
    """An older broker on a newer directory reports levels that it knows nothing of as finalized."""
    supported = {name: levels for name, levels in features.SUPPORTED.items() if name != features.CONDITIONAL_COMMIT}
    monkeypatch.setattr(features, "SUPPORTED", supported)

    async def work():
        async with Broker(config=CONFIG) as broker, FaultyProxy(broker.bootstrap_servers) as proxy:
            proxy.report_feature("oncelog.conditional.commit", 1)
            async with producer(proxy.bootstrap_servers) as p:
                for number in range(2):
                    if number:
                        proxy.refuse("Produce", ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    async with p.transaction():
                        delivery = await p.send("t", b"%d" % number, partition=0)
                    assert (await delivery).offset == 2 * number
                    assert not p._manager.conditional.batches
            assert proxy.seen["EndTxn"] == 2
            assert await visible(broker.bootstrap_servers) == [b"0", b"1"]

    asyncio.run(work())


def test_a_transaction_that_an_operator_has_committed_lacks_what_is_sent_afterwards():
    """The plain commit of somebody else says nothing of the last records: they are told what became of them."""

    async def work():
        async with Broker(config=CONFIG) as broker, Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            async with producer(broker.bootstrap_servers) as p:
                p.begin_transaction()
                await (await p.send("t", b"1", partition=0))
                open_ = (await admin.describe_transactions(["p"]))["p"]
                state = PreparedTxnState.of(open_.producer_id, open_.producer_epoch)
                await admin.end_transaction("p", state, True)
                delivery = await p.send("t", b"2", partition=0)
                for waits in (p.commit_transaction, lambda: delivery):
                    with pytest.raises(InvalidProducerEpoch):
                        await waits()
            assert await visible(broker.bootstrap_servers) == [b"1"]

    asyncio.run(work())


def test_a_transaction_that_the_broker_aborted_in_time_can_be_aborted_and_the_next_one_goes_on():
    async def work():
        async with Broker(config={**CONFIG, TIMEOUT_CHECKS: "50"}) as broker:
            admin = Admin(bootstrap_servers=broker.bootstrap_servers)
            async with admin, producer(broker.bootstrap_servers, transaction_timeout_ms=100) as p:
                p.begin_transaction()
                await (await p.send("t", b"1", partition=0))

                async def is_aborted():
                    return (await admin.describe_transactions(["p"]))["p"].state == "CompleteAbort"

                await eventually(is_aborted)
                await p.send("t", b"2", partition=0)
                with pytest.raises(InvalidProducerEpoch):
                    await p.commit_transaction()
                await p.abort_transaction()
                async with p.transaction():
                    await p.send("t", b"3", partition=0)
            assert await visible(broker.bootstrap_servers) == [b"3"]

    asyncio.run(work())


class Stall:
    """A network on the way to a broker; what a connection sends from some bytes on lies in it until `end`, also when the client
    has given that connection up."""

    def __init__(self, until: bytes) -> None:
        self.until, self.holds, self.over = until, False, asyncio.Event()
        self.port = 0

    async def serve(self, reader, writer):
        to_client, to_broker = await asyncio.open_connection("127.0.0.1", self.port)
        answers = asyncio.create_task(self.pass_on(to_client, writer))
        while data := await reader.read(1 << 16):
            if self.holds and self.until in data:
                await self.over.wait()
            to_broker.write(data)
        to_broker.close()
        await answers

    async def pass_on(self, reader, writer):
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
        writer.close()


def test_a_commit_that_arrives_after_it_was_given_up_is_not_done():
    """It was answered "not attempted" when it was asked for again, and then a record failed: the producer is told to abort."""

    async def work():
        stall = Stall(until=b"held")
        server = await asyncio.start_server(stall.serve, "127.0.0.1", 0)
        told = f"PLAINTEXT://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, Broker(config={**CONFIG, "advertised.listeners": told}) as broker:
            stall.port = broker.addresses[0].port
            timeouts = {"request_timeout_ms": 200, "delivery_timeout_ms": 600}
            async with producer(told.removeprefix("PLAINTEXT://"), **timeouts) as p:
                async with p.transaction():
                    await p.send("t", b"first", partition=0)
                stall.holds = True
                p.begin_transaction()
                await p.send("t", b"held", partition=0)
                with pytest.raises(TransactionAbortable, match="delivery_timeout_ms=600"):
                    await p.commit_transaction()
                stall.holds = False
                stall.over.set()
                other = producer(told.removeprefix("PLAINTEXT://"), transactional_id="other")
                async with other, other.transaction():  # time for what was held to arrive
                    await other.send("t", b"other", partition=1)
                await p.abort_transaction()
                async with p.transaction():
                    await p.send("t", b"last", partition=0)
            assert await visible(told.removeprefix("PLAINTEXT://")) == [b"first", b"last", b"other"]

    asyncio.run(work())
