"""Handlers against a real broker: what is written of a message, and what is left after whatever goes wrong."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading

import pytest
from faststream import AckPolicy, FastStream
from faststream.exceptions import (
    AckMessage,
    FeatureNotSupportedException,
    NackMessage,
    RejectMessage,
    SetupError,
    StopApplication,
    StopConsume,
)

from oncelog.errors import ConfigurationError, IllegalState, ProcessingFailed
from oncelog.faststream import OncelogMessage
from tests.faststream.world import QUICK, Order, fill, new_broker, position, read, run, running, until, values

THREE = (b"1", b"2", b"3")


def header(record, name):
    return dict(record.headers).get(name)


# -- what is written


def test_sigterm_stays_the_applications():
    async def work(bootstrap):
        broker, before = new_broker(bootstrap), signal.getsignal(signal.SIGTERM)

        @broker.subscriber("in", group_id="g", **QUICK)
        async def handle(number: int) -> None:
            seen.set()

        seen = asyncio.Event()
        await fill(bootstrap, b"1")
        async with running(broker):
            await seen.wait()
            assert signal.getsignal(signal.SIGTERM) is before

    run(work)


def test_what_a_handler_gives_and_publishes_is_written_with_its_position():
    async def work(bootstrap):
        await fill(bootstrap, *[b'{"number": %d}' % n for n in range(5)])
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(order: Order) -> Order:
            await broker.publish({"seen": order.number}, "side", key="k")
            return Order(number=order.number * 2)

        async with running(broker):
            found = await read(bootstrap, "out", 5)
            assert [Order.model_validate_json(each.value).number for each in found] == [0, 2, 4, 6, 8]
            assert {header(each, "content-type") for each in found} == {b"application/json"}
            assert [each.key for each in await read(bootstrap, "side", 5)] == [b"k"] * 5
            (subscriber,) = broker.subscribers
            await until(lambda: subscriber.metrics().consumed_record_count == 5)
            assert subscriber.metrics().produced_record_count == 10
        assert await position(bootstrap) == 5

    run(work)


def test_a_record_has_its_messages_time_and_correlation_unless_told_otherwise():
    async def work(bootstrap):
        await fill(bootstrap, b"1", headers=[("correlation_id", b"c-1")])
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            await broker.publish(number, "told", timestamp_ms=1_700_000_000_000, partition=0, headers={"a": "b"})
            return number

        async with running(broker):
            (source,), (copy,), (told,) = [await read(bootstrap, topic, 1) for topic in ("in", "out", "told")]
        assert copy.timestamp_ms == source.timestamp_ms
        assert header(copy, "correlation_id") == b"c-1"
        assert (told.timestamp_ms, header(told, "a")) == (1_700_000_000_000, b"b")

    run(work)


def test_a_batch_is_one_call_and_one_transaction():
    async def work(bootstrap):
        await fill(bootstrap, *[b"%d" % n for n in range(7)])
        broker, sizes = new_broker(bootstrap), []

        @broker.subscriber("in", group_id="g", batch=True, transaction_records_max=3, transaction_interval_ms=1000)
        @broker.publisher("out")
        async def total(numbers: list[int], message: OncelogMessage) -> int:
            sizes.append(len(message.raw_message))
            return sum(numbers)

        async with running(broker):
            assert sum(map(int, await values(bootstrap, "out", 3))) == sum(range(7))
        assert sizes == [3, 3, 1]

    run(work)


def test_several_at_a_time_keep_their_order():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker, together = new_broker(bootstrap), asyncio.Barrier(3)

        @broker.subscriber("in", group_id="g", max_workers=3)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            await together.wait()
            return number

        async with running(broker):
            assert await values(bootstrap, "out", 3) == list(THREE)

    run(work)


def test_a_message_goes_to_the_handler_whose_filter_takes_it_and_an_answer_to_its_reply_to():
    async def work(bootstrap):
        await fill(bootstrap, *THREE, headers=[("reply_to", b"answers")])
        broker = new_broker(bootstrap)
        subscriber = broker.subscriber("in", group_id="g", dead_letter_topic="dead", **QUICK)

        @subscriber(filter=lambda message: message.body == b"1")
        async def first(_: int) -> str:
            return "first"

        @subscriber(filter=lambda message: message.body == b"2")
        def second(_: int) -> str:  # in a thread
            return "second"

        async with running(broker):
            assert await values(bootstrap, "answers", 2) == [b"first", b"second"]
            assert await values(bootstrap, "dead", 1) == [b"3"], "no handler takes it"

    run(work)


# -- what fails


def test_what_a_handler_raises_leaves_nothing_and_it_is_called_again():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker, calls = new_broker(bootstrap), []

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            calls.append(number)
            await broker.publish(number, "side")
            if calls.count(2) in (1, 2) and number == 2:
                raise OSError("the service that is asked is away")
            return number

        async with running(broker):
            assert await values(bootstrap, "out", 3) == list(THREE)
            assert await values(bootstrap, "side", 3) == list(THREE)
        assert [calls.count(number) for number in (1, 2, 3)] == [1, 3, 1]

    run(work)


def test_what_fails_for_good_ends_the_application_by_name():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker, other, hooks = new_broker(bootstrap), new_broker(bootstrap), []
        app = FastStream(broker, other, logger=None)

        @app.after_shutdown
        def closed() -> None:
            hooks.append(other._connection)

        @broker.subscriber("in", group_id="g", transform_retries=1, **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            if number == 2:
                raise KeyError("two")
            return number

        with pytest.raises(ProcessingFailed, match=r"record in-0@1 failed 2 times: KeyError: 'two'; nothing of it"):
            await app.run(sleep_time=0.01)
        assert hooks == [None], "all else is stopped first"
        assert await values(bootstrap, "out", 1) == [b"1"]
        assert await position(bootstrap) == 1
        await app.stop()  # it has been told

    run(work)


def test_without_an_application_ping_and_stop_tell_of_it():
    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", transform_retries=0)
        async def handle(_: int) -> None:
            raise KeyError

        await broker.start()
        assert await broker.ping(10)
        (subscriber,) = broker.subscribers
        await until(lambda: subscriber.failure is not None)
        assert not await broker.ping(10)
        with pytest.raises(ProcessingFailed):
            await broker.stop()
        await broker.stop()  # it has been told

    run(work)


def test_a_dead_letter_names_the_handlers_error():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", dead_letter_topic="dead", transform_retries=2, **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            if number == 2:
                raise KeyError("two")
            return number

        async with running(broker):
            (dead,) = await read(bootstrap, "dead", 1)
            assert await values(bootstrap, "out", 2) == [b"1", b"3"]
        assert (dead.value, header(dead, "__oncelog.errors.attempts")) == (b"2", b"3")
        assert header(dead, "__oncelog.errors.exception").endswith(b"KeyError")

    run(work)


@pytest.mark.parametrize(
    ("value", "error"), [(b'{"number": "many"}', b"ValidationError"), (b"no json", b"RecordDeserialization")]
)
def test_what_cannot_be_read_needs_no_second_attempt(value, error):
    async def work(bootstrap):
        await fill(bootstrap, value, headers=[("content-type", b"application/json")])
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", dead_letter_topic="dead", **QUICK)
        async def handle(order: Order) -> None:
            raise AssertionError

        async with running(broker):
            (dead,) = await read(bootstrap, "dead", 1)
        assert header(dead, "__oncelog.errors.attempts") == b"1"
        assert header(dead, "__oncelog.errors.exception").endswith(error)

    run(work)


# -- policies, and what a handler says of its message


@pytest.mark.parametrize(
    ("policy", "calls_of_two", "dead_count"),
    [(AckPolicy.NACK_ON_ERROR, 2, 1), (AckPolicy.REJECT_ON_ERROR, 1, 1), (AckPolicy.ACK, 1, 0)],
)
def test_each_policy_for_what_is_raised(policy, calls_of_two, dead_count):
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker, calls = new_broker(bootstrap), []
        options = {"ack_policy": policy, "dead_letter_topic": "dead", "transform_retries": 1, **QUICK}

        @broker.subscriber("in", group_id="g", **options)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            calls.append(number)
            await broker.publish(number, "side")
            if number == 2:
                raise KeyError("two")
            return number

        async with running(broker):
            assert await values(bootstrap, "out", 2) == [b"1", b"3"]
            assert await values(bootstrap, "side", 2) == [b"1", b"3"]
            (subscriber,) = broker.subscribers
            await until(lambda: subscriber.metrics().consumed_record_count == 3)
            assert subscriber.metrics().dead_letter_count == dead_count
        assert calls.count(2) == calls_of_two

    run(work)


@pytest.mark.parametrize(
    ("word", "by_hand", "side", "dead_count"),
    [
        (AckMessage, "ack", [b"1"], 0),
        (NackMessage, "nack", [], 1),
        (RejectMessage, "reject", [], 1),
    ],
)
@pytest.mark.parametrize("is_raised", [True, False])
def test_a_handlers_word_counts(word, by_hand, side, dead_count, is_raised):
    async def work(bootstrap):
        await fill(bootstrap, b"1", b"9")
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", dead_letter_topic="dead", transform_retries=1, **QUICK)
        async def handle(number: int, message: OncelogMessage) -> None:
            await broker.publish(number, "side")
            if number == 1 and is_raised:
                raise word
            if number == 1:
                await getattr(message, by_hand)()

        async with running(broker):
            assert await values(bootstrap, "side", len(side) + 1) == [*side, b"9"]
            (subscriber,) = broker.subscribers
            await until(lambda: subscriber.metrics().consumed_record_count == 2)
            assert subscriber.metrics().dead_letter_count == dead_count

    run(work)


def test_what_is_rejected_without_a_topic_for_it_is_left_out():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            if number == 2:
                raise RejectMessage
            return number

        async with running(broker):
            assert await values(bootstrap, "out", 2) == [b"1", b"3"]

    run(work)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"ack_policy": AckPolicy.ACK_FIRST}, "before the handler has done its work"),
        ({"ack_policy": AckPolicy.MANUAL}, "raise AckMessage, NackMessage or RejectMessage"),
        ({"ack_policy": AckPolicy.REJECT_ON_ERROR}, "needs a dead_letter_topic"),
        ({"batch": True, "max_workers": 2}, "leave max_workers out"),
    ],
)
def test_what_cannot_be_had_is_told_where_it_is_declared(options, says):
    with pytest.raises(SetupError, match=says):
        new_broker("127.0.0.1:1").subscriber("in", group_id="g", **options)


def test_a_subscriber_needs_topics_and_a_handler_and_is_not_read_by_hand():
    broker = new_broker("127.0.0.1:1")
    with pytest.raises(SetupError, match="name a topic"):
        broker.subscriber(group_id="g")
    subscriber = broker.subscriber("in", group_id="g")
    with pytest.raises(SetupError, match="the subscriber of in has no handler"):
        asyncio.run(subscriber.start())
    with pytest.raises(FeatureNotSupportedException, match=r"oncelog\.Consumer"):
        asyncio.run(subscriber.get_one())
    with pytest.raises(FeatureNotSupportedException, match=r"oncelog\.Consumer"):
        aiter(subscriber)


def test_options_that_do_not_fit_the_brokers_are_told_at_the_start_and_leave_nothing_running():
    async def work(bootstrap):
        broker, seen = new_broker(bootstrap, linger_ms=100), []

        @broker.subscriber("in", group_id="g")
        async def good(number: int) -> None:
            seen.append(number)

        @broker.subscriber("in", group_id="h", delivery_timeout_ms=30_050)
        async def bad(_: int) -> None:
            pass

        with pytest.raises(ConfigurationError, match="delivery_timeout_ms must be at least linger_ms"):
            await broker.start()
        assert not any(each.running for each in broker.subscribers)
        assert not await broker.ping(1)

    run(work)


class OfATest(BaseException):
    """As `pytest.fail` raises one."""


def test_what_is_no_exception_ends_the_subscriber_as_loudly():
    async def work(bootstrap):
        await fill(bootstrap, b"1", b"2")
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        async def handle(_: int) -> None:
            raise OfATest("mine")

        await broker.start()
        (subscriber,) = broker.subscribers
        await until(lambda: subscriber.failure is not None)
        assert not await broker.ping(10)
        with pytest.raises(OfATest, match="mine"):
            await broker.stop()

    run(work)


# -- tasks of a handler, and other brokers


def test_a_task_that_outlives_its_handler_publishes_into_no_transaction():
    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker, go, tasks = new_broker(bootstrap), asyncio.Event(), []

        async def late(topic: str) -> object:
            await go.wait()
            return await broker.publish("late", topic)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            tasks.append(asyncio.create_task(late("stray")))
            tasks.append(asyncio.create_task(late("own"), context=contextvars.Context()))
            async with asyncio.TaskGroup() as group:
                group.create_task(broker.publish("helper", "side"))
            return number

        async with running(broker):
            assert await values(bootstrap, "out", 1) == [b"1"]
            assert await values(bootstrap, "side", 1) == [b"helper"]
            go.set()
            stray, own = await asyncio.gather(*tasks, return_exceptions=True)
            assert isinstance(stray, IllegalState)
            assert "await the task in the handler" in str(stray)
            assert (own.topic, own.offset) == ("own", 0)

    run(work)


def test_what_another_broker_publishes_is_its_own_at_once():
    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker, other, places = new_broker(bootstrap), new_broker(bootstrap), []

        @broker.subscriber("in", group_id="g", dead_letter_topic="dead", transform_retries=0)
        async def handle(number: int) -> None:
            places.append(await other.publish(number, "other"))
            raise KeyError

        async with other, running(broker):
            assert await values(bootstrap, "dead", 1) == [b"1"]
        assert [(each.topic, each.offset) for each in places] == [("other", 0)]

    run(work)


# -- the end


def test_a_stop_waits_for_the_handler_and_what_it_gives():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker, called, go = new_broker(bootstrap), asyncio.Event(), asyncio.Event()

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            called.set()
            await go.wait()
            return number

        await broker.start()
        await called.wait()
        async with asyncio.TaskGroup() as group:
            group.create_task(broker.stop())
            await asyncio.sleep(0)
            go.set()
        written = await values(bootstrap, "out", 1)
        assert written == list(THREE)[: len(written)]
        assert await position(bootstrap) == len(written)

    run(work)


def test_a_handler_that_takes_longer_than_graceful_timeout_is_ended_and_leaves_nothing():
    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker, called = new_broker(bootstrap, graceful_timeout=0.2), asyncio.Event()

        @broker.subscriber("in", group_id="g", **QUICK)
        async def handle(_: int) -> None:
            await broker.publish("never", "out")
            called.set()
            await asyncio.Event().wait()

        await broker.start()
        await called.wait()
        await broker.stop()
        assert await position(bootstrap) == 0

    run(work)


def test_a_handler_that_blocks_its_thread_holds_no_stop_up():
    async def work(bootstrap):
        await fill(bootstrap, b"1")
        broker, called, go = new_broker(bootstrap, graceful_timeout=0.2), threading.Event(), threading.Event()

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        def handle(number: int) -> int:
            called.set()
            go.wait()
            return number

        await broker.start()
        await until(called.is_set)
        await broker.stop()
        go.set()
        assert await position(bootstrap) == 0

    run(work)


def test_a_stop_in_a_handler_does_not_wait_for_itself():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            await broker.stop()
            return number

        await broker.start()
        (subscriber,) = broker.subscribers
        assert await values(bootstrap, "out", 1) == [b"1"]
        await until(lambda: subscriber._work is None)
        assert await position(bootstrap) == 1

    run(work)


def test_stop_consume_ends_the_subscriber_before_its_message():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", transform_retries=0, **QUICK)
        @broker.publisher("out")
        async def handle(number: int) -> int:
            if number == 2:
                raise StopConsume
            return number

        async with running(broker):
            (subscriber,) = broker.subscribers
            await until(lambda: subscriber._work is None)
            assert subscriber.failure is None
            assert await broker.ping(10)
        assert await values(bootstrap, "out", 1) == [b"1"]
        assert await position(bootstrap) == 1

    run(work)


@pytest.mark.parametrize("end", [StopApplication, SystemExit])
def test_an_exit_in_a_handler_ends_the_application(end):
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker = new_broker(bootstrap)

        @broker.subscriber("in", group_id="g", **QUICK)
        async def handle(_: int) -> None:
            raise end

        await FastStream(broker, logger=None).run(sleep_time=0.01)
        assert await position(bootstrap) == 0

    run(work)


def test_a_cancelled_application_leaves_nothing_open():
    async def work(bootstrap):
        await fill(bootstrap, *THREE)
        broker, called = new_broker(bootstrap), asyncio.Event()

        @broker.subscriber("in", group_id="g", **QUICK)
        async def handle(number: int) -> None:
            await broker.publish(number, "out")
            called.set()
            await asyncio.Event().wait()

        app = asyncio.create_task(FastStream(broker, logger=None).run(sleep_time=0.01))
        await called.wait()
        app.cancel()
        with pytest.raises(asyncio.CancelledError):
            await app
        (subscriber,) = broker.subscribers
        assert subscriber._work is not None
        subscriber._work.cancel()  # as the end of the loop does
        await until(lambda: subscriber._work is None)
        assert await position(bootstrap) == 0

    run(work)


# -- others in the group


def test_two_applications_share_the_partitions_and_the_second_takes_over():
    async def work(bootstrap):
        await fill(bootstrap, *[b"%d" % n for n in range(20)], partitions=2)
        seen = {"a": [], "b": []}

        def made(name):
            broker = new_broker(bootstrap)

            @broker.subscriber("in", group_id="g", heartbeat_interval_ms=50, session_timeout_ms=2000, **QUICK)
            @broker.publisher("out")
            async def handle(number: int) -> int:
                seen[name].append(number)
                return number

            return broker

        first, second = made("a"), made("b")
        async with running(second):
            async with running(first):
                await until(
                    lambda: all(
                        s.metrics().assigned_partition_count == 1 for s in (*first.subscribers, *second.subscribers)
                    )
                )
                await fill(bootstrap, *[b"%d" % n for n in range(20, 40)])
                await read(bootstrap, "out", 40)
                assert seen["a"]
            await fill(bootstrap, *[b"%d" % n for n in range(40, 60)])
            found = await values(bootstrap, "out", 60)
        assert sorted(map(int, found)) == list(range(60))

    run(work)
