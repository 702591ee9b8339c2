"""`stop`: what was taken before is sent, what comes during it is refused; whoever stops too waits for the end."""

import asyncio

import pytest
from evidence.world.client import NO_ANSWER, ScriptedBroker, producer, run

from oncelog import ProducerInterceptor, errors
from oncelog.wire.api import ApiKey


async def send_until_refused(p, taken):
    while True:
        taken.append(await p.send("t", b"%d" % len(taken), partition=0))
        await asyncio.sleep(0.001)


def test_what_comes_during_a_stop_is_refused_and_what_was_taken_is_sent():
    """Records were taken until the connections closed, and failed with UNKNOWN_SERVER_ERROR."""

    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.PRODUCE] = 0.5
        p = producer(broker)
        await p.start()
        taken = []
        sending = asyncio.ensure_future(send_until_refused(p, taken))
        await asyncio.sleep(0.1)
        stopping = asyncio.ensure_future(p.stop())
        with pytest.raises(errors.IllegalState, match="it was stopped, make a new one"):
            await sending
        assert not stopping.done(), "refused at once"
        await stopping
        assert [(await each).offset for each in taken] == list(range(len(taken)))
        assert len(broker.log["t", 0]) > 0

    run(work)


@pytest.mark.parametrize("waits_for", ["room", "metadata"])
def test_a_send_that_waits_is_refused_too(waits_for):
    async def work(loop):
        broker = ScriptedBroker()
        p = producer(broker, buffer_memory=300, batch_size=100)
        await p.start()
        await p.send_and_wait("t", b"known", partition=0)
        broker.delay_s[ApiKey.PRODUCE] = 0.5
        taken = [await p.send("t", bytes(200), partition=0)]
        waiting = asyncio.ensure_future(p.send("t" if waits_for == "room" else "nope", bytes(200), partition=0))
        await asyncio.sleep(0.1)
        began = loop.time()
        await p.stop()
        with pytest.raises(errors.IllegalState):
            await waiting
        assert (await taken[0]).offset == 1
        assert loop.time() - began < 2

    run(work)


class Closed(ProducerInterceptor):
    count = 0

    def close(self):
        self.count += 1


def test_a_second_stop_waits_for_the_first():
    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.PRODUCE] = 0.5
        closed = Closed()
        p = producer(broker, interceptor_classes=[closed])
        await p.start()
        delivery = await p.send("t", b"v", partition=0)
        first, second = asyncio.ensure_future(p.stop()), asyncio.ensure_future(p.stop())
        await second
        assert delivery.result().offset == 0
        await first
        await p.stop()
        assert closed.count == 1

    run(work)


def test_no_transaction_begins_during_a_stop():
    async def work():
        broker = ScriptedBroker()
        p = producer(broker, transactional_id="x")
        await p.start()
        p.begin_transaction()
        await p.send_and_wait("t", b"v", partition=0)
        broker.delay_s[ApiKey.END_TXN] = 0.5
        stopping = asyncio.ensure_future(p.stop())
        await asyncio.sleep(0.1)
        with pytest.raises(errors.IllegalState, match="it was stopped"):
            p.begin_transaction()
        await stopping
        assert [each.committed for each in broker.requests(ApiKey.END_TXN)] == [False]

    run(work)


def test_a_stop_that_is_cancelled_has_closed():
    async def work():
        broker = ScriptedBroker()
        broker.delay_s[ApiKey.PRODUCE] = 100
        p = producer(broker)
        await p.start()
        delivery = await p.send("t", b"v", partition=0)
        stopping = asyncio.ensure_future(p.stop())
        await asyncio.sleep(0.1)
        stopping.cancel()
        with pytest.raises(asyncio.CancelledError):
            await stopping
        with pytest.raises(errors.ProducerStopped, match="the producer was stopped"):
            await delivery
        await asyncio.wait_for(p.stop(), 1)

    run(work)


@pytest.mark.parametrize("config", [{}, {"transactional_id": "x"}])
def test_an_end_of_all_tasks_does_not_hold_the_stop(config):
    """`asyncio.run` does that where a handler of the application's own raised KeyboardInterrupt: nobody is left who sends."""

    async def work(loop):
        async with producer(ScriptedBroker(), linger_ms=60_000, **config) as p:
            if config:
                p.begin_transaction()
            sent = await p.send("t", b"0", partition=0)
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            if not config:
                with pytest.raises(errors.ProducerStopped, match="ended from outside"):
                    await p.flush()
            began = loop.time()
        assert loop.time() - began < 1
        assert isinstance(sent.error, errors.ProducerStopped)

    run(work)


@pytest.mark.parametrize(("is_cancelled", "limit_s"), [(True, 6), (False, 130)])
def test_who_was_cancelled_or_interrupted_waits_five_seconds_at_most(is_cancelled, limit_s, caplog):
    """With a broker that is away, `asyncio.timeout` and Ctrl-C took as long as a delivery may: two minutes."""

    async def work(loop):
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, *[NO_ANSWER] * 500)
        began = loop.time()
        left = asyncio.CancelledError() if is_cancelled else ValueError("of the application")
        with pytest.raises(type(left)):
            async with producer(broker) as p:
                await p.send("t", b"v")
                raise left
        assert loop.time() - began < limit_s
        assert is_cancelled or loop.time() - began > 100  # an error is no reason to lose what was taken

    run(work)
    assert not is_cancelled or "not done within 5000 ms" in caplog.text


def test_how_long_a_stop_may_take_is_a_number():
    async def work():
        async with producer(ScriptedBroker()) as p:
            for wrong in ("5", -1, 1.5):
                with pytest.raises(errors.InvalidArgument, match="timeout_ms must be"):
                    await p.stop(wrong)

    run(work)


def test_a_transaction_that_was_cancelled_is_not_waited_for_much_longer_either():
    async def work(loop):
        broker = ScriptedBroker()
        began = 0.0
        with pytest.raises(asyncio.CancelledError):
            async with producer(broker, transactional_id="x") as p, p.transaction():
                await (await p.send("t", b"v"))
                broker.script(ApiKey.END_TXN, *[NO_ANSWER] * 500)
                began = loop.time()
                raise asyncio.CancelledError
        assert loop.time() - began < 11  # five seconds for the abort, five for the stop

    run(work)
