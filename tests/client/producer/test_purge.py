"""`Producer.purge`: what is given up, how it is told, what becomes of sequences and of the transaction."""

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, NO_ANSWER, ScriptedBroker, run

from oncelog import Producer, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey

E = ErrorCode


def producer(broker, **config):
    return Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, **{"linger_ms": 0, **config})


async def until(true):
    while not true():  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.001)


async def sent_and_held(broker, p, *values, partition=0):
    """Send, and wait until the broker has them; its answers take ten seconds."""
    broker.delay_s[ApiKey.PRODUCE] = 10
    before = len(broker.produced())
    deliveries = [await p.send("t", value, partition=partition) for value in values]
    await until(lambda: sum(len(v) for *_, v in broker.produced()[before:]) == len(values))
    return deliveries


def stored(broker, partition=0):
    return [record.value for batch in broker.log["t", partition] for record in batch.records()]


def test_what_was_never_sent_is_given_up_and_told():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, linger_ms=60_000) as p:
            delivery = await p.send("t", b"v", partition=0)
            told = []
            delivery.add_done_callback(lambda done: told.append(done.done()))
            assert p.purge() == 1
            with pytest.raises(errors.PurgedInQueue, match="1 records for t-0 were purged before they were sent"):
                await delivery
            await asyncio.sleep(0.1)
            assert told == [True]
            assert p.purge() == 0
            await p.flush()
        assert broker.requests(ApiKey.PRODUCE) == []

    run(work)


def test_each_kind_is_left_alone_where_only_the_other_is_meant():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, linger_ms=60_000, batch_size=100) as p:
            full = b"x" * 90
            (in_flight,) = await sent_and_held(broker, p, full)
            waiting = await p.send("t", b"w", partition=1)
            assert p.purge(in_queue=False) == 1
            assert (in_flight.done(), waiting.done()) == (True, False)
            broker.delay_s.clear()
            (second,) = await sent_and_held(broker, p, full)
            assert p.purge(in_flight=False) == 1
            assert (second.done(), waiting.done()) == (False, True)
            assert (await second).partition == 0

    run(work)


def test_an_idempotent_producer_goes_on_under_another_epoch():
    """The purged batch is stored, as it happens: its sequence is never given to another."""

    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            (purged,) = await sent_and_held(broker, p, b"1")
            p.purge()
            with pytest.raises(errors.PurgedInFlight):
                await purged
            broker.delay_s.clear()
            later = await p.send_and_wait("t", b"2", partition=0)
        assert later.offset == 2
        assert stored(broker) == [b"0", b"1", b"2"]
        assert [(producer_epoch, sequence) for _, producer_epoch, sequence, _ in broker.produced()] == [
            (0, 0),
            (0, 1),
            (1, 0),
        ]

    run(work)


def test_an_answer_that_comes_too_late_changes_nothing():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            broker.script(ApiKey.PRODUCE, E.NOT_ENOUGH_REPLICAS, E.INVALID_RECORD)
            held = [*await sent_and_held(broker, p, b"0"), *await sent_and_held(broker, p, b"1", partition=1)]
            assert p.purge() == 2
            later = await p.send("t", b"2", partition=0)
            await later
            for delivery in held:
                with pytest.raises(errors.PurgedInFlight):
                    delivery.result()
        assert [values for *_, values in broker.produced()] == [[b"0"], [b"1"], [b"2"]]  # and no retry

    run(work)


def test_what_waits_for_another_attempt_was_on_its_way():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, *[E.NOT_ENOUGH_REPLICAS] * 50)
        async with producer(broker, retry_backoff_ms=1000) as p:
            delivery = await p.send("t", b"v", partition=0)
            await until(lambda: broker.requests(ApiKey.PRODUCE))
            await asyncio.sleep(0.5)
            assert p.purge(in_flight=False) == 0
            assert p.purge(in_queue=False) == 1
            with pytest.raises(errors.PurgedInFlight):
                await delivery
            await asyncio.sleep(5)
        assert len(broker.requests(ApiKey.PRODUCE)) == 1

    run(work)


def test_without_idempotence_the_next_batch_waits_for_the_answer():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, enable_idempotence=False) as p:
            await sent_and_held(broker, p, b"0")
            p.purge()
            await p.send_and_wait("t", b"1", partition=0)
        assert stored(broker) == [b"0", b"1"]

    run(work)


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("is_in_flight", [False, True])
def test_a_transaction_can_only_be_aborted(level, is_in_flight):
    async def work():
        broker = ScriptedBroker(level=level)
        async with producer(broker, transactional_id="x", linger_ms=0 if is_in_flight else 60_000) as p:
            p.begin_transaction()
            if is_in_flight:
                await sent_and_held(broker, p, b"lost")
            else:
                await p.send("t", b"lost", partition=0)
            assert p.purge() == 1
            with pytest.raises(errors.PurgedLocally):
                await p.send("t", b"no", partition=0)
            with pytest.raises(errors.PurgedLocally) as found:
                await p.commit_transaction()
            assert (found.value.abortable, found.value.retriable, found.value.fatal) == (True, False, False)
            await p.abort_transaction()
            broker.delay_s.clear()
            async with p.transaction():
                await p.send("t", b"kept", partition=0)
        produced = broker.produced()
        assert produced[-1][3] == [b"kept"]
        assert produced[-1][2] == 0
        if is_in_flight:
            assert (
                produced[-1][1] > produced[0][1] if level == 2 else len(broker.requests(ApiKey.INIT_PRODUCER_ID)) == 2
            )
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False, True]

    run(work)


def test_the_abort_waits_for_what_is_on_its_way():
    """EndTxn must not overtake a batch: with the old protocol it would come into the next transaction."""

    async def work(loop):
        broker = ScriptedBroker(level=1)
        async with producer(broker, transactional_id="x") as p:
            p.begin_transaction()
            await sent_and_held(broker, p, b"lost")
            answered_s = loop.time() + 9
            p.purge()
            await p.abort_transaction()
            assert loop.time() > answered_s
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False]

    run(work)


def test_the_abort_does_not_wait_for_ever():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, NO_ANSWER)
        async with producer(broker, transactional_id="x", request_timeout_ms=5000) as p:
            p.begin_transaction()
            await p.send("t", b"lost", partition=0)
            await until(lambda: broker.requests(ApiKey.PRODUCE))
            p.purge()
            await p.abort_transaction()
            assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False]

    run(work)


def test_a_commit_that_waits_is_told():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x") as p:
            p.begin_transaction()
            await sent_and_held(broker, p, b"lost")
            async with asyncio.TaskGroup() as tasks:
                commit = tasks.create_task(refused(p.commit_transaction(), errors.PurgedInFlight))
                await asyncio.sleep(0.1)
                assert p.purge() == 1
            assert commit.result()
            await p.abort_transaction()

    run(work)


async def refused(work, kind):
    with pytest.raises(kind):
        await work
    return True


def test_a_transaction_that_lost_nothing_is_committed():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, transactional_id="x") as p, p.transaction():
            await p.send_and_wait("t", b"kept", partition=0)
            assert p.purge() == 0
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [True]

    run(work)


def test_room_is_free_again_and_a_flush_ends():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, buffer_memory=1000, batch_size=500) as p:
            await sent_and_held(broker, p, b"x" * 900)
            async with asyncio.TaskGroup() as tasks:
                flush = tasks.create_task(p.flush())
                more = tasks.create_task(p.send("t", b"y" * 900, partition=0))
                await asyncio.sleep(0.1)
                assert not flush.done()
                assert not more.done()
                assert p.purge() == 1
            broker.delay_s.clear()
            assert (await more.result()).offset == 1

    run(work)


def test_arrow_rows_say_so_at_the_next_flush():
    pa = pytest.importorskip("pyarrow")

    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            broker.delay_s[ApiKey.PRODUCE] = 10
            await p.send_arrow("t", pa.record_batch({"value": pa.array([b"1", b"2"], pa.binary())}), partition=0)
            await until(lambda: broker.requests(ApiKey.PRODUCE))
            assert p.purge() == 2
            with pytest.raises(errors.PurgedInFlight, match="2 records"):
                await p.flush()
            await p.flush()

    run(work)


def test_before_the_start_and_after_the_end_there_is_nothing():
    async def work():
        broker = ScriptedBroker()
        p = producer(broker)
        assert p.purge() == 0
        await p.start()
        await p.stop()
        assert p.purge() == 0

    run(work)
