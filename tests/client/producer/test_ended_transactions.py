"""A record that is too large ends its transaction, also where the application catches the error; other refusals do not."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run

from oncelog import Broker, Producer, TopicPartition, errors, sync
from oncelog.wire.api import ApiKey

LARGE = bytes(5000)


def producer(broker, **config):
    options = {"linger_ms": 0, "max_request_size": 1000, **config}
    return Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, transactional_id="x", **options)


async def send_many(p):
    await p.send_many("t", [(None, b"ok"), (None, LARGE), (None, b"after")])


async def send_nowait(p):
    await p.partitions_for("t")
    p.send_nowait("t", LARGE)


async def send_arrow_of_rows(p):
    await p.send_arrow("t", pa.record_batch({"value": pa.array([b"ok", LARGE])}))


async def send_arrow_with_headers(p):
    headers = pa.array([[("h", LARGE)]], pa.map_(pa.string(), pa.binary()))
    await p.send_arrow("t", pa.record_batch({"value": pa.array([b"ok"]), "headers": headers}))


WAYS = {
    "send": lambda p: p.send("t", LARGE),
    "send_and_wait": lambda p: p.send_and_wait("t", LARGE),
    "send_nowait": send_nowait,
    "send_many": send_many,
    "send_arrow": send_arrow_of_rows,
    "send_arrow, headers": send_arrow_with_headers,
}


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("way", WAYS)
def test_a_record_that_is_too_large_ends_the_transaction(way, level):
    """Who caught it could commit: a transaction without that record was called whole."""

    async def work():
        broker = ScriptedBroker(level=level)
        async with producer(broker) as p:
            p.begin_transaction()
            await p.send_and_wait("t", b"good", partition=0)
            with pytest.raises(errors.RecordTooLarge):
                await WAYS[way](p)
            for call in (lambda: p.send("t", b"next"), p.commit_transaction, p.flush):
                with pytest.raises(errors.RecordTooLarge, match="larger than max_request_size=1000"):
                    await call()
            await p.abort_transaction()
            async with p.transaction():
                await p.send("t", b"again", partition=0)
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False, True]

    run(work)


def test_a_block_that_caught_it_is_aborted():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            with pytest.raises(errors.RecordTooLarge):
                async with p.transaction():
                    await p.send_and_wait("t", b"good")
                    with pytest.raises(errors.RecordTooLarge):
                        await p.send("t", LARGE)
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False]

    run(work)


def test_what_waits_in_the_buffer_fails_with_the_same_error_at_once():
    async def work(loop):
        async with producer(ScriptedBroker(), linger_ms=60_000) as p:
            p.begin_transaction()
            waiting = await p.send("t", b"good", partition=0)
            with pytest.raises(errors.RecordTooLarge):
                await p.send("t", LARGE)
            with pytest.raises(errors.RecordTooLarge):
                await waiting
            assert loop.time() < 1

    run(work)


def test_wrong_arguments_and_no_room_end_nothing():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, buffer_memory=1000, linger_ms=1000) as p:
            p.begin_transaction()
            with pytest.raises(errors.WouldBlock, match="not known yet"):
                p.send_nowait("t", b"0")
            with pytest.raises(errors.InvalidArgument):
                await p.send("t", "text")
            with pytest.raises(errors.InvalidPartitions):
                await p.send("t", b"0", partition=9)
            with pytest.raises(errors.InvalidArgument):
                await p.send_many("t", [(None, b"1"), b"2"])
            with pytest.raises(errors.InvalidArgument):
                await p.send_arrow("t", pa.table({"value": [b"1"]}))
            await p.send("t", bytes(700), partition=0)
            with pytest.raises(errors.WouldBlock, match="no room"):
                p.send_nowait("t", bytes(700), partition=0)
            await p.commit_transaction()
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [True]

    run(work)


def test_without_transactions_the_others_are_sent():
    async def work():
        broker = ScriptedBroker()
        config = {"bootstrap_servers": BOOTSTRAP, "max_request_size": 1000, "linger_ms": 0}
        async with Producer(host=broker.host(), **config) as p:
            with pytest.raises(errors.RecordTooLarge):
                await p.send("t", LARGE)
            await p.send_and_wait("t", b"good")
            await p.flush()

    run(work)


def test_the_client_without_async_does_the_same():
    async def main():
        async with Broker() as broker:
            await asyncio.to_thread(work, broker.bootstrap_servers)

    def work(bootstrap_servers):
        with sync.Producer(bootstrap_servers=bootstrap_servers, transactional_id="x", max_request_size=1000) as p:
            for way in (lambda: p.send("t", LARGE), lambda: p.send_many("t", [(None, LARGE)])):
                with pytest.raises(errors.RecordTooLarge), p.transaction():
                    p.send("t", b"good")
                    with pytest.raises(errors.RecordTooLarge):
                        way()
            with p.transaction():
                p.send("t", b"good")

    asyncio.run(main())


# -- one task at a time


def test_another_task_is_told_who_is_committing():
    """It was told that the call had timed out or was cancelled, which it had not."""

    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.END_TXN] = 0.1
        async with producer(broker) as p, asyncio.TaskGroup() as tasks:
            for end, doing in ((p.commit_transaction, "committing"), (p.abort_transaction, "aborting")):
                p.begin_transaction()
                await p.send_and_wait("t", b"1", partition=0)
                ending = tasks.create_task(end())
                await asyncio.sleep(0.01)
                says = f"another task or thread is {doing} this producer's transaction; .* one transaction at a time"
                with pytest.raises(errors.IllegalState, match=f"^begin_transaction: {says}"):
                    p.begin_transaction()
                with pytest.raises(errors.IllegalState, match=f"^send: {says}"):
                    await p.send("t", b"2")
                await ending

    run(work)


def test_what_timed_out_is_still_told_so():
    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.END_TXN] = 5
        async with producer(broker, max_block_ms=1000) as p:
            p.begin_transaction()
            await p.send_and_wait("t", b"1", partition=0)
            with pytest.raises(errors.RequestTimedOut):
                await p.commit_transaction()
            with pytest.raises(errors.IllegalState, match="commit_transaction timed out or was cancelled before"):
                p.begin_transaction()

    run(work)


# -- offsets of what does not exist


def test_offsets_of_an_unknown_partition_time_out_with_the_brokers_word():
    """It said only that it waited for TXN_OFFSET_COMMIT."""

    async def main():
        async with (
            Broker() as broker,
            Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x", max_block_ms=1000) as p,
        ):
            p.begin_transaction()
            says = r"last error: UNKNOWN_TOPIC_OR_PARTITION: offsets of group 'g' for nosuch-3 could not be made part"
            with pytest.raises(errors.RequestTimedOut, match=says):
                await p.send_offsets_to_transaction({TopicPartition("nosuch", 3): 1}, "g")
            with pytest.raises(errors.RequestTimedOut, match=says):
                await p.commit_transaction()

    asyncio.run(main())


# -- a start that failed


@pytest.mark.parametrize("is_cancelled", [False, True])
def test_after_a_failed_start_one_makes_a_new_one(is_cancelled):
    async def work():
        p = Producer(bootstrap_servers="127.0.0.1:1", max_block_ms=500, default_api_timeout_ms=500)
        if is_cancelled:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await p.start()
        else:
            with pytest.raises(errors.KafkaError):
                await p.start()
        with pytest.raises(errors.IllegalState, match="its start failed, make a new one"):
            await p.start()
        with pytest.raises(errors.IllegalState, match="its start failed, make a new one"):
            await p.send("t", b"1")

    asyncio.run(work())
