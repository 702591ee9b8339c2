"""A delivery that fails and is awaited by nobody: `flush` raises it, and it is logged once."""

import asyncio

import pytest
from evidence.world.client import NO_ANSWER, ScriptedBroker, producer, run

from oncelog import ProducerInterceptor, errors
from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey

E = ErrorCode


def lines(caplog):
    return [each.getMessage() for each in caplog.records if each.levelname == "ERROR"]


async def settled(p):
    """Everything is answered; nobody asked anything."""
    while p.metrics().incomplete_record_count:  # noqa: ASYNC110 - virtual time
        await asyncio.sleep(0.01)


def test_flush_raises_the_first_cause_and_only_once(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE, E.TOPIC_AUTHORIZATION_FAILED)
        async with producer(broker, batch_size=1) as p:
            kept = [await p.send("t", b"%d" % n, partition=0) for n in range(3)]
            with pytest.raises(errors.RecordTooLarge):
                await p.flush()
            await p.flush()
            with pytest.raises(errors.TopicAuthorization):
                await kept[1]
            assert (await kept[2]).offset == 0
        assert lines(caplog) == [], "whoever flushed was told"

    run(work)


def test_what_nobody_can_ask_about_any_more_is_logged_once(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
        async with producer(broker) as p:
            await p.send("t", b"v", partition=0)
            await settled(p)
            assert len(lines(caplog)) == 1
            with pytest.raises(errors.RecordTooLarge):
                await p.flush()
        (line,) = lines(caplog)
        assert line.startswith("1 records for t-0 were not delivered: MESSAGE_TOO_LARGE")
        assert line.endswith("nobody waits for it")

    run(work)


def test_the_stop_tells_what_is_kept_and_was_never_asked(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, *[E.MESSAGE_TOO_LARGE] * 3)
        kept = []
        async with producer(broker, batch_size=1) as p:
            for n in range(3):
                kept.append(await p.send("t", b"%d" % n, partition=0))
            await settled(p)
            assert lines(caplog) == [], "somebody may still ask"
        (line,) = lines(caplog)
        assert line.endswith("nobody waited for it (the first of 3 such batches)")
        kept.clear()
        assert len(lines(caplog)) == 1

    run(work)


@pytest.mark.parametrize("asks", ["awaits", "result", "error", "callback", "waits before"])
def test_what_somebody_asks_about_is_nobody_elses(caplog, asks):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
        async with producer(broker) as p:
            delivery = await p.send("t", b"v", partition=0)
            if asks == "callback":
                delivery.add_done_callback(lambda done: None)
            if asks != "waits before":
                await settled(p)
            if asks == "error":
                assert isinstance(delivery.error, errors.RecordTooLarge)
            elif asks != "callback":
                with pytest.raises(errors.RecordTooLarge):
                    delivery.result() if asks == "result" else await delivery
            del delivery
            await p.flush()
        assert lines(caplog) == []

    run(work)


@pytest.mark.parametrize("asks", ["awaits", "waits before", "error", "callback", "awaits each but one"])
def test_who_asks_about_one_record_hears_nothing_of_another_in_its_batch(caplog, asks):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.INVALID_TIMESTAMP)
        async with producer(broker, linger_ms=10) as p:
            deliveries = [await p.send("t", b"%d" % n, partition=0) for n in range(3)]
            asked = deliveries[:2] if asks == "awaits each but one" else deliveries[1:2]
            if asks == "callback":
                asked[0].add_done_callback(lambda done: None)
            if asks != "waits before":
                await settled(p)
            for _ in range(2):  # asked again it is the same record
                for each in asked if asks != "callback" else ():
                    if asks == "error":
                        assert isinstance(each.error, errors.InvalidTimestamp)
                    else:
                        with pytest.raises(errors.InvalidTimestamp):
                            await each
            with pytest.raises(errors.InvalidTimestamp):
                await p.flush()
            await p.flush()
        assert lines(caplog) == []

    run(work)


def test_the_stop_tells_of_the_records_that_nobody_asked_about(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.INVALID_TIMESTAMP)
        async with producer(broker, linger_ms=10) as p:
            deliveries = [await p.send("t", b"%d" % n, partition=0) for n in range(3)]
            with pytest.raises(errors.InvalidTimestamp):
                await deliveries[1]
        (line,) = lines(caplog)
        assert line.startswith("2 records for t-0 were not delivered")

    run(work)


def test_once_each_record_of_a_batch_was_asked_about_nothing_is_left(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.INVALID_TIMESTAMP)
        async with producer(broker, linger_ms=10) as p:
            deliveries = [await p.send("t", b"%d" % n, partition=0) for n in range(3)]
            with pytest.raises(errors.InvalidTimestamp):
                await deliveries[0]
            assert deliveries[1].error is not None
            with pytest.raises(errors.InvalidTimestamp):
                deliveries[2].result()
            await p.flush()
        assert lines(caplog) == []

    run(work)


def test_who_gave_up_waiting_has_not_heard(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.INVALID_TIMESTAMP)
        async with producer(broker, linger_ms=1000) as p:
            delivery = await p.send("t", b"v", partition=0)
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.1):
                    await delivery
            with pytest.raises(errors.InvalidTimestamp):
                await p.flush()
        assert lines(caplog) == []

    run(work)


def test_the_parts_of_a_batch_that_was_split_know_who_waits(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE, E.INVALID_TIMESTAMP, E.INVALID_TIMESTAMP)
        async with producer(broker, linger_ms=10) as p:
            deliveries = [await p.send("t", b"%d" % n, partition=0) for n in range(4)]
            told = await asyncio.gather(deliveries[0], deliveries[1], deliveries[3], return_exceptions=True)
            assert [type(each) for each in told] == [errors.InvalidTimestamp] * 3
            with pytest.raises(errors.InvalidTimestamp):
                await p.flush()
            assert deliveries[2].error is not None
            await p.flush()
        assert lines(caplog) == []

    run(work)


class Onlooker(ProducerInterceptor):
    def __init__(self):
        self.seen = []

    def on_acknowledgement(self, metadata, error):
        self.seen.append((metadata.offset, type(error)))


def test_an_interceptor_only_looks_on(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
        onlooker = Onlooker()
        async with producer(broker, interceptor_classes=[onlooker]) as p:
            await p.send("t", b"v", partition=0)
            with pytest.raises(errors.RecordTooLarge):
                await p.flush()
            await asyncio.sleep(0.01)
        assert onlooker.seen == [(-1, errors.RecordTooLarge)]

    run(work)


def test_lines_are_bounded(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, *[E.MESSAGE_TOO_LARGE] * 300)
        async with producer(broker, batch_size=1) as p:
            for _ in range(300):
                await p.send("t", b"v", partition=0)
            await settled(p)
            assert len(lines(caplog)) == 9
            assert lines(caplog)[-1].endswith("(256 batches so far)")
            assert len(p._sender.unheard._kept) == 100
        assert len(lines(caplog)) == 10

    run(work)


def test_two_flushes_at_once_are_both_told():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
        async with producer(broker) as p:
            await p.send("t", b"v", partition=0)
            told = await asyncio.gather(p.flush(), p.flush(), return_exceptions=True)
            assert [type(each) for each in told] == [errors.RecordTooLarge] * 2

    run(work)


def test_in_a_transaction_its_end_tells(caplog):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE)
        async with producer(broker, transactional_id="x") as p:
            with pytest.raises(errors.RecordTooLarge):
                async with p.transaction():
                    await p.send("t", b"v", partition=0)
        assert lines(caplog) == []

    run(work)


def test_a_stop_that_is_not_done_in_time_says_all_in_one_line(caplog):
    """What failed before is told by itself; what the stop gives up is counted, with its topics."""

    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.PRODUCE, E.MESSAGE_TOO_LARGE, *[NO_ANSWER] * 9)
        p = producer(broker, batch_size=1)
        await p.start()
        kept = [await p.send("t", b"before", partition=0)]
        await settled(p)
        kept += [await p.send("t", b"%d" % n, partition=n % 2) for n in range(5)]
        await p.stop(timeout_ms=200)
        del kept
        said = [each.getMessage() for each in caplog.records if each.levelname in ("ERROR", "WARNING")]
        assert [line for line in said if "were not acknowledged" in line] == [
            "the producer was stopped with unfinished work: it was not done within 200 ms: 5 records for t were not acknowledged"
        ]
        assert [line for line in said if "were not delivered" in line] == lines(caplog)
        (before,) = lines(caplog)
        assert before.startswith("1 records for t-0 were not delivered: MESSAGE_TOO_LARGE")

    run(work)
