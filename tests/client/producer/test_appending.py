"""The short way into the buffer does what the long way does, or nothing; a send that never began did nothing."""

import asyncio
import copy
import dataclasses
import inspect
import itertools
import pickle
import threading

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, producer, run
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog import Producer, errors
from oncelog.client.interceptors import ProducerInterceptor
from oncelog.client.producer.appending import Appender
from oncelog.host import clock
from oncelog.hot_paths import compiled
from oncelog.testing import TestBroker
from tests.wire.worlds import WORLDS

CONTENT = st.one_of(
    st.none(), st.binary(max_size=30), st.binary(max_size=5).map(bytearray), st.just("text"), st.just(bytes(3000))
)
HEADERS = st.one_of(
    st.none(),
    st.lists(st.tuples(st.sampled_from(["a", "\u00e4", "\ud800"]), st.one_of(st.none(), st.binary(max_size=4)))),
    st.just({"h": b"1"}),
    st.just("wrong"),
)
CALLS = st.lists(
    st.fixed_dictionaries(
        {"value": CONTENT, "key": CONTENT, "headers": HEADERS},
        optional={
            "topic": st.sampled_from(["t", None, b"t", "\ud800"]),
            "partition": st.sampled_from([0, 1, 7, -1, True, "0", None]),
            "timestamp_ms": st.sampled_from([0, 5, -1, -2, 2**63 - 1, 2**63, 1.5, None]),
        },
    ),
    min_size=1,
    max_size=12,
)


async def outcomes(calls, *, is_plain, world):
    """What each call gave, and all that was stored."""
    broker = ScriptedBroker()
    async with producer_of(world, broker, batch_size=400, max_request_size=2000) as p:
        if not is_plain:
            p._send_with(None, p._sending)
        said = []
        for call in calls:
            try:
                said.append(await p.send(**{"topic": "t", **call}))
            except errors.OncelogError as error:
                said.append((type(error), str(error)))
        await p.flush()
        told = [
            each if isinstance(each, tuple) else (await each).offset >= 0 and (await each).timestamp_ms for each in said
        ]
    stored = {
        where: [(r.timestamp, r.key, r.value, r.headers) for batch in batches for r in batch.records()]
        for where, batches in broker.log.items()
    }
    return told, stored


def producer_of(world, broker, **config):
    """`producer`, in that world."""
    return world.producer.Producer(host=broker.host(), bootstrap_servers=BOOTSTRAP, **{"linger_ms": 0, **config})


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@settings(max_examples=25)
@given(calls=CALLS)
def test_the_short_way_and_the_long_way_agree(world, calls):
    def all_in(found):
        told, stored = found
        return told, sorted(
            repr(each) for records in stored.values() for each in records
        )  # keyless ones may change partition elsewhere

    short, long = (
        run(lambda is_plain=is_plain: outcomes(calls, is_plain=is_plain, world=world)) for is_plain in (1, 0)
    )
    assert all_in(short) == all_in(long)


async def outcomes_beside(calls):
    """As `outcomes`, of records that another thread puts into what is open."""
    broker = ScriptedBroker()
    beside = 0
    async with producer(broker, batch_size=400, max_request_size=2000) as p:
        said = []
        for call in calls:
            arguments = {"topic": "t", "partition": None, "timestamp_ms": None, **call}
            given = [arguments[name] for name in ("topic", "value", "key", "headers", "partition", "timestamp_ms")]
            try:
                made = in_another_thread(lambda given=given: p.append_beside(*given))
                beside += made is not None
                said.append(made or await p.send(**arguments))
            except errors.OncelogError as error:
                said.append((type(error), str(error)))
        await p.flush()
        told = [
            each if isinstance(each, tuple) else (await each).offset >= 0 and (await each).timestamp_ms for each in said
        ]
    values = [
        repr((r.timestamp, r.key, r.value, r.headers)) for b in broker.log.values() for x in b for r in x.records()
    ]
    return told, sorted(values), beside


def in_another_thread(call):
    found, loop = [], asyncio.get_running_loop()

    def work():
        asyncio._set_running_loop(loop)  # only for the clock of these tests
        found.append(call())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    return found[0]


@settings(max_examples=25)
@given(calls=CALLS)
def test_beside_the_loop_it_is_the_same(calls):
    told, stored = run(lambda: outcomes(calls, is_plain=False, world=WORLDS[1]))
    values = sorted(repr(each) for records in stored.values() for each in records)
    assert run(lambda: outcomes_beside(calls))[:2] == (told, values)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_beside_the_loop_only_open_batches_are_filled(world):
    async def work():
        broker = ScriptedBroker()
        async with producer_of(world, broker, batch_size=400, linger_ms=1000) as p:

            def beside(value=b"v", topic="t", partition=0):
                return in_another_thread(lambda: p.append_beside(topic, value, None, None, partition, None))

            assert beside() is None  # its topic is not known
            await p.partitions_for("t")
            assert beside() is None  # no batch is open
            await p.send("t", b"0", partition=0)
            assert p.append_beside("t", b"v", None, None, 0, None) is None  # in the loop's thread
            assert beside(partition=1) is None
            assert beside(topic="other") is None
            assert beside(value=bytes(350)) is None  # it has no room
            made = beside()
            assert (made is not None) == (world.name == "installed" and compiled()["appending"])
            p._cluster.view.topics = {**p._cluster.view.topics}
            assert beside() is None  # its metadata may be other ones
            await p.flush()
            assert beside() is None  # it was sent
        assert beside() is None
        assert len([value for *_, values in broker.produced() for value in values]) == 1 + (made is not None)

    run(work)


def test_keyless_records_beside_the_loop_follow_it():
    async def work():
        async with producer(ScriptedBroker(), batch_size=10_000, linger_ms=1000) as p:
            await p.partitions_for("t")
            first = p.send_nowait("t", b"0")
            made = [in_another_thread(lambda: p.append_beside("t", b"v", None, None, None, None)) for _ in range(5)]
            await p.flush()
            assert {each.result().partition for each in made} == {first.result().partition}

    if compiled()["appending"]:
        run(work)


def test_who_has_code_of_the_application_in_the_way_has_no_way_beside():
    async def work():
        async with producer(ScriptedBroker(), value_serializer=str.encode) as p:
            assert p.append_beside is None

    run(work)


def test_most_records_go_the_short_way():
    async def work():
        async with producer(ScriptedBroker(), batch_size=1000) as p:
            await p.send_and_wait("t", b"metadata", partition=0)
            p._sending = None  # the long way
            sent = [await p.send("t", b"%d" % n, key=b"k", headers=[("h", b"1")]) for n in range(100)]
            assert len({(await each).offset for each in sent}) == 100

    run(work)


def test_keyless_records_stay_for_a_batch_and_then_change():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, batch_size=300, linger_ms=5) as p:
            await p.partitions_for("t")
            sent = [p.send_nowait("t", bytes(79)) for _ in range(9)]
            await p.flush()
            partitions = [each.result().partition for each in sent]
        runs = [partitions[0]]
        runs += [now for before, now in itertools.pairwise(partitions) if now != before]
        assert 2 <= len(runs) <= 4, partitions

    run(work)


def test_a_send_that_never_began_did_nothing():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            task = asyncio.create_task(p.send("t", b"cancelled", partition=0))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(p.send("t", b"no time", partition=0), 0)
            p.send("t", b"closed", partition=0).close()
            assert inspect.iscoroutinefunction(p.send)
        assert [value for *_, values in broker.produced() for value in values] == [b"0"]

    run(work)


@given(st.lists(st.sampled_from([bytes, bytearray, memoryview, type("Sub", (bytes,), {})]), min_size=1, max_size=12))
@settings(max_examples=20)
def test_sends_keep_the_order_in_which_they_are_awaited_whichever_way_they_go(kinds):
    async def work():
        broker = ScriptedBroker()
        async with producer(broker, batch_size=300) as p:
            await p.partitions_for("t")
            for each in [p.send("t", kind(b"%d" % n), partition=0) for n, kind in enumerate(kinds)]:
                await each
        assert [value for *_, values in broker.produced() for value in values] == [b"%d" % n for n in range(len(kinds))]

    run(work)


def test_whoever_fills_a_batch_closes_it():
    async def work(loop):
        async with producer(ScriptedBroker(), linger_ms=3000, batch_size=61 + 10 * 100) as p:
            await p.partitions_for("t")
            began = loop.time()
            sent = [await p.send("t", bytes(79), partition=0) for _ in range(10)]
            for each in sent:
                await each
            assert loop.time() - began < 1

    run(work)


def test_a_delivery_is_neither_copied_nor_pickled():
    async def work():
        async with producer(ScriptedBroker()) as p:
            sent = await p.send("t", b"0", partition=0)
            for make in (copy.copy, copy.deepcopy, pickle.dumps):
                with pytest.raises(TypeError, match="belongs to its producer"):
                    make(sent)

    run(work)


def test_a_loop_that_only_sends_lets_the_sender_run():
    async def work():
        async with producer(ScriptedBroker(), batch_size=200) as p:
            await p.send_and_wait("t", b"0", partition=0)
            for n in range(40):
                await p.send("t", b"%d" % n, partition=0)
            assert p._sender.requests_in_flight_count, "nothing else gave the sender a turn"

    run(work)


def test_send_nowait_says_what_it_would_wait_for():
    async def work():
        async with producer(ScriptedBroker(), buffer_memory=1000, linger_ms=1000) as p:
            with pytest.raises(errors.WouldBlock, match=r"topic 't' is not known yet: .await producer\.send"):
                p.send_nowait("t", b"0")
            await p.partitions_for("t")
            sent = []
            with pytest.raises(errors.WouldBlock, match="no room for 121 bytes in buffer_memory=1000 now"):
                while True:
                    sent.append(p.send_nowait("t", bytes(100), partition=0))
            assert len(sent) == 8
            sent.append(await p.send("t", bytes(100), partition=0))
            await p.flush()
            assert [each.result().offset for each in sent] == list(range(9))
            with pytest.raises(errors.InvalidArgument, match="value must be bytes or None"):
                p.send_nowait("t", "text")
            with pytest.raises(errors.InvalidTopic, match="not empty"):
                p.send_nowait("", b"0")
        with pytest.raises(errors.IllegalState, match="is not running any more"):
            p.send_nowait("t", b"late")

    run(work)


def test_a_serializer_and_an_interceptor_are_asked_by_send_nowait_too():
    class Marks(ProducerInterceptor):
        def on_send(self, record):
            return record._replace(headers=[("seen", b"1")])

        def on_acknowledgement(self, metadata, error):
            seen.append(metadata.offset)

    seen = []

    async def work():
        broker = ScriptedBroker()
        async with producer(broker, value_serializer=str.encode, interceptor_classes=[Marks()]) as p:
            await p.partitions_for("t")
            p.send_nowait("t", "text", partition=0)
            await p.flush()
        (stored,) = broker.log["t", 0][0].records()
        assert (stored.value, stored.headers) == (b"text", (("seen", b"1"),))

    run(work)
    assert seen == [0]


def test_in_a_transaction_only_while_it_is_open():
    async def work():
        async with producer(ScriptedBroker(), transactional_id="x") as p:
            await p.partitions_for("t")
            with pytest.raises(errors.IllegalState, match="needs an open transaction"):
                p.send_nowait("t", b"0", partition=0)
            async with p.transaction():
                p.send_nowait("t", b"1", partition=0)
                p.send_nowait("t", b"2", partition=0)
            with pytest.raises(errors.IllegalState, match="needs an open transaction"):
                p.send_nowait("t", b"3", partition=0)

    run(work)


def test_another_loop_or_thread_is_refused():
    async def begin(broker):
        made = Producer(bootstrap_servers=broker.bootstrap_servers)
        await made.start()
        await made.send_and_wait("t", b"0")
        await made.send("t", b"its batch stays open")
        return made

    async def elsewhere(made):
        with pytest.raises(errors.IllegalState, match="another event loop"):
            made.send_nowait("t", b"1")
        with pytest.raises(errors.IllegalState, match="another event loop"):
            await made.send("t", b"1")

    def in_a_thread(made):
        try:
            asyncio.run(elsewhere(made))
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is to be seen
            failures.append(error)

    failures = []
    with TestBroker() as broker, asyncio.Runner() as runner:
        made = runner.run(begin(broker))
        asyncio.run(elsewhere(made))
        thread = threading.Thread(target=in_a_thread, args=(made,))
        thread.start()
        thread.join()
        with pytest.raises(errors.IllegalState, match="does not run now"):
            made.send_nowait("t", b"no loop runs")
        runner.run(made.stop())
    assert failures == []


def test_new_metadata_and_lost_topics_are_noticed():
    async def work():
        broker = ScriptedBroker()
        async with producer(broker) as p:
            await p.send_and_wait("t", b"0", partition=0)
            broker.leader_id = -1
            p._cluster.view.topics = {}
            with pytest.raises(errors.WouldBlock, match="not known yet"):
                p.send_nowait("t", b"1", partition=0)
            assert p._appender.lanes == {}

    run(work)


def test_the_appender_is_that_of_the_installed_world():
    plain, installed = WORLDS
    assert Appender is installed.appending.Appender
    assert Producer is installed.producer.Producer
    assert issubclass(plain.producer.Producer, plain.appending.SendsNow)
    assert inspect.getsourcefile(plain.appending.SendsNow.send_nowait).endswith("appending.py")


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_records_have_the_clock_s_time(world, monkeypatch):
    """That of the producer's host; the machine's is read where its own door would read it, so that who stops time stops both."""

    async def stamped(host):
        broker = ScriptedBroker()
        p = world.producer.Producer(host=dataclasses.replace(broker.host(), **host), bootstrap_servers=BOOTSTRAP)
        async with p:
            await p.send("t", b"0", partition=0)
            sent = [await p.send("t", b"1", partition=0), p.send_nowait("t", b"2", partition=0)]
            return [(await each).timestamp_ms for each in sent]

    class Stopped:
        def now_ms(self):
            return 1234

    assert run(lambda: stamped({"clock": Stopped()})) == [1234, 1234]
    for module in (clock, world.appending):
        monkeypatch.setattr(module, "time_ns", lambda: 5_999_999)
    assert run(lambda: stamped({"clock": clock.RealClock()})) == [5, 5]


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_send_nowait_has_its_names_and_its_text(world):
    signature = inspect.signature(world.producer.Producer.send_nowait)
    assert list(signature.parameters) == list(inspect.signature(world.producer.Producer.send).parameters)
    assert "WouldBlock" in inspect.getdoc(world.producer.Producer.send_nowait)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("wrong", [None, 5, "orders", object(), Producer, type("Double", (), {})()])
def test_a_method_of_the_class_takes_producers_only(world, wrong):
    """Compiled, it would look into whatever stands there: the process was gone without a word."""
    made = world.producer.Producer
    for method, arguments in (
        (made.send_nowait, ("t", b"v")),
        (made._taken_on, ("t", b"v", None, None, None, None)),
        (made._send_with, (None, None)),
    ):
        with pytest.raises(TypeError, match="a method of a producer"):
            method(wrong, *arguments)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("batch_size", [100, 400, 100_000])
@settings(max_examples=20)
@given(turns=st.lists(st.integers(0, 4), min_size=1, max_size=8), is_plain=st.booleans())
def test_a_send_that_is_cancelled_has_sent_nothing(world, batch_size, turns, is_plain):
    """Whoever does it again would have the record twice."""

    async def work():
        broker = ScriptedBroker()
        sent, cancelled = [], []
        async with producer_of(world, broker, batch_size=batch_size, buffer_memory=1000) as p:
            if not is_plain:
                p._send_with(None, p._sending)

            async def send(number):
                for each in range(100):
                    value = f"{number}-{each}".encode()
                    try:
                        await p.send("t", value, partition=0)
                    except asyncio.CancelledError:
                        cancelled.append(value)
                        raise
                    sent.append(value)

            for number, count in enumerate(turns):
                task = asyncio.ensure_future(send(number))
                for _ in range(count):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
            await p.flush()
        stored = [value for *_, values in broker.produced() for value in values]
        assert stored == sent
        assert not set(stored) & set(cancelled)

    run(work)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@settings(max_examples=30)
@given(
    rounds=st.lists(st.integers(1, 12), min_size=1, max_size=6),
    batch_size=st.sampled_from((100, 400, 100_000)),
    buffer_memory=st.sampled_from((600, 100_000)),
    is_plain=st.booleans(),
    flushes=st.booleans(),
)
def test_sends_that_begin_one_after_the_other_are_taken_in_that_order(
    world, rounds, batch_size, buffer_memory, is_plain, flushes
):
    async def work(loop):
        loop.random.shuffle = lambda handles: None  # as event loops are; the simulator's begins tasks in any order
        broker = ScriptedBroker()
        due = [[b"%d-%d" % (number, each) for each in range(count)] for number, count in enumerate(rounds)]
        async with producer_of(world, broker, batch_size=batch_size, buffer_memory=buffer_memory) as p:
            if not is_plain:
                p._send_with(None, p._sending)
            for values in due:
                await asyncio.gather(*(p.send("t", value, partition=0) for value in values))
                if flushes:
                    await p.flush()
            await p.flush()
        assert [value for *_, values in broker.produced() for value in values] == [
            each for values in due for each in values
        ]

    run(work)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_what_send_gives_is_waited_for_as_a_future(world):
    async def work():
        broker = ScriptedBroker()
        async with producer_of(world, broker, linger_ms=5) as p:
            sent = [await p.send("t", b"%d" % each, partition=0) for each in range(3)]
            done, pending = await asyncio.wait(sent)
            assert done == set(sent)
            assert not pending
            told = []
            more = [await p.send("t", b"more", partition=0) for _ in range(2)]
            for each in more:
                each.add_done_callback(told.append)
                each.add_done_callback(told.append)
            assert more[0].remove_done_callback(told.append) == 2
            assert more[0].remove_done_callback(told.append) == 0
            assert more[1].remove_done_callback(print) == 0
            await p.flush()
            await asyncio.sleep(0)
            assert told == [more[1]] * 2

    run(work)
