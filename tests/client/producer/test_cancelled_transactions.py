"""Calls that are cancelled leave no transaction open: the end that was begun is finished by who comes next."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, NO_ANSWER, ScriptedBroker, run

from oncelog import Admin, Broker, Producer, TopicPartition, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from oncelog.wire.messages.end_txn import EndTxnResponse
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)

E = ErrorCode
STEPS = [step / 1000 for step in range(26)]  # of a transaction of 20 ms: every await is met


class Slow(ScriptedBroker):
    """Each answer takes some ms; what is open is known."""

    def __init__(self):
        super().__init__()
        self.open = False
        self.delay_s |= {ApiKey.PRODUCE: 0.005, ApiKey.END_TXN: 0.005, ApiKey.ADD_OFFSETS_TO_TXN: 0.005}

    def _produce(self, message, code):
        self.open = True
        return super()._produce(message, code)

    def _add_offsets_to_txn(self, message, code):
        self.open = True
        return AddOffsetsToTxnResponse(error_code=code)

    def _txn_offset_commit(self, message, code):
        self.open = True
        partitions = [TxnOffsetCommitResponsePartition(partition_index=0, error_code=code)]
        return TxnOffsetCommitResponse(topics=[TxnOffsetCommitResponseTopic(name="t", partitions=partitions)])

    def _end_txn(self, message, code):
        if not code:
            self.open = False
        return super()._end_txn(message, code)


def producer(broker, **config):
    return Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, transactional_id="x", **{"linger_ms": 0, **config})


async def one_transaction(p, value=b"v"):
    async with p.transaction():
        await p.send("t", value, partition=0)
        await p.flush()


async def cancelled(work, after_s):
    """Whether it was, and did not end before."""
    task = asyncio.ensure_future(work)
    await asyncio.sleep(after_s)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError:
        return True
    return False


@pytest.mark.parametrize("after_s", STEPS)
def test_stop_leaves_nothing_open(after_s):
    async def work():
        broker = Slow()
        async with producer(broker) as p:
            await cancelled(one_transaction(p), after_s)
        assert not broker.open

    run(work)


@pytest.mark.parametrize("after_s", STEPS)
def test_the_next_transaction_works(after_s):
    async def work():
        broker = Slow()
        async with producer(broker) as p:
            await cancelled(one_transaction(p, b"1"), after_s)
            await one_transaction(p, b"2")
            assert not broker.open
            ends = [each.committed for each in broker.requests(ApiKey.END_TXN)]
            assert ends[-1] is True
            assert len(ends) <= 2

    run(work)


def test_an_abort_that_takes_longer_than_max_block_ms_is_waited_for_by_the_next_transaction():
    """It was IllegalState for ever, although the error before was an abortable one: "begin again"."""

    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.END_TXN] = 5
        async with producer(broker, max_block_ms=2_000) as p:
            with pytest.raises(ZeroDivisionError):
                async with p.transaction():
                    await p.send("t", b"1", partition=0)
                    raise ZeroDivisionError
            with pytest.raises(errors.RequestTimedOut, match="abort_transaction not done within max_block_ms=2000"):
                await one_transaction(p)
            broker.delay_s.clear()
            await one_transaction(p)
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False, True]

    run(work)


def test_a_commit_that_is_cancelled_is_finished_by_stop():
    async def work():
        broker = Slow()
        p = producer(broker)
        await p.start()
        p.begin_transaction()
        await p.send("t", b"v", partition=0)
        assert await cancelled(p.commit_transaction(), 0.002), "before its records are stored"
        with pytest.raises(
            errors.IllegalState, match=r"commit_transaction timed out or was cancelled before; it must be"
        ):
            p.begin_transaction()
        await p.stop()
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [True]
        assert not broker.open

    run(work)


def test_a_commit_that_is_cancelled_may_be_called_again():
    async def work():
        broker = Slow()
        async with producer(broker) as p:
            p.begin_transaction()
            await p.send("t", b"v", partition=0)
            assert await cancelled(p.commit_transaction(), 0.002)
            await p.commit_transaction()
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [True]
            await one_transaction(p)

    run(work)


def test_offsets_that_are_cancelled_do_not_keep_it_from_being_aborted():
    """They are answered before the abort is asked for, so none of them comes into the next transaction."""

    async def work():
        broker = Slow()
        async with producer(broker) as p:

            async def copy():
                async with p.transaction():
                    await p.send_offsets_to_transaction({TopicPartition("t", 0): 5}, "g")

            assert await cancelled(copy(), 0.004)
            assert broker.requests(ApiKey.TXN_OFFSET_COMMIT), "it was on its way"
            assert not broker.open
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False]
            await one_transaction(p)

    run(work)


def test_what_became_of_it_is_said_by_the_next_transaction():
    async def work():
        broker = Slow()
        async with producer(broker) as p:
            asked = asyncio.Event()

            def refuse(message):
                asked.set()
                return EndTxnResponse(error_code=E.TRANSACTION_ABORTABLE)

            broker.script(ApiKey.END_TXN, refuse)
            task = asyncio.ensure_future(one_transaction(p))
            await asked.wait()
            assert await cancelled(task, 0)
            with pytest.raises(errors.TransactionAbortable):
                await one_transaction(p)
            assert not broker.open, "aborted"
            await one_transaction(p)
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [True, False, True]

    run(work)


def test_stop_does_not_wait_for_ever():
    async def work(loop):
        broker = Slow()
        async with producer(broker) as p:
            broker.script(ApiKey.END_TXN, *[NO_ANSWER] * 100)
            assert await cancelled(one_transaction(p), 0.009)
            began = loop.time()
            await p.stop(timeout_ms=2000)
            assert loop.time() - began < 2.5

    run(work)


def test_with_a_broker_nothing_is_left_open():
    """A transaction is cancelled at its first await, at its second ... until it ends; readers wait for none of them."""

    async def at_await(count, work):
        """Run `work` in steps; cancel it at its `count`-th. Whether it came so far."""
        task = asyncio.ensure_future(work)
        for _ in range(count):
            if task.done():
                break
            await asyncio.sleep(0)
        came_so_far = not task.done()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return came_so_far

    async def work():
        async with asyncio.timeout(120), Broker() as broker:
            count, goes_on = 0, True
            while goes_on:
                async with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="x", linger_ms=0) as p:
                    await p.partitions_for("t") if count else await one_transaction(p)
                    goes_on = await at_await(count, one_transaction(p))
                    await one_transaction(p)
                    goes_on = await at_await(count, one_transaction(p)) and goes_on
                async with Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
                    found = await admin.list_transactions()
                assert "Ongoing" not in {each.state for each in found}
                count = count * 2 + 1

    asyncio.run(work())
