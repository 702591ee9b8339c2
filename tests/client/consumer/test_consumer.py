"""The consumer's shell in virtual time: fetching ahead, errors, resets, positions, deadlines."""

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, CUT, NO_ANSWER, TOPIC_ID, ScriptedBroker, run

from oncelog import Consumer, TopicPartition, errors
from oncelog.errors import ConfigurationError, ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from oncelog.wire.record_batch import build_batch

E = ErrorCode
ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def consumer(broker, *topics, **config):
    return Consumer(
        *topics, host=broker.host(), bootstrap_servers=BOOTSTRAP, **{"auto_offset_reset": "earliest", **config}
    )


def fill(broker, partition=0, count=10, per_batch=2):
    for start in range(0, count, per_batch):
        records = [(5, None, b"%d" % n, ()) for n in range(start, start + per_batch)]
        broker.append("t", partition, build_batch(records))


def values(records):
    return [int(record.value) for record in records]


def test_all_partitions_without_a_group():
    async def work():
        broker = ScriptedBroker()
        fill(broker, 0)
        fill(broker, 1)
        async with consumer(broker, "t") as c:
            found = [await anext(c) for _ in range(20)]
            assert c.assignment() == {ZERO, ONE}
        for partition in (0, 1):
            assert values(r for r in found if r.partition == partition) == list(range(10))
        assert broker.requests(ApiKey.JOIN_GROUP) == []

    run(work)


def test_poll_waits_no_longer_than_it_is_told():
    async def work(loop):
        broker = ScriptedBroker()
        async with consumer(broker, "t") as c:
            began = loop.time()
            assert await c.poll(700) == []
            assert loop.time() - began == pytest.approx(0.7, abs=0.05)

    run(work)


def test_poll_on_a_dead_cluster_waits_no_longer_either():
    async def work(loop):
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker) as c:
            c.assign([ZERO])
            broker.script(ApiKey.LIST_OFFSETS, *[E.NOT_LEADER_OR_FOLLOWER] * 3, *[NO_ANSWER] * 50)
            began = loop.time()
            for n in range(1, 6):
                assert await c.poll(500) == []
                assert loop.time() - began < 0.5 * n + 0.3
            broker.scripts.clear()
            assert values(await c.poll(60_000)) == list(range(10))

    run(work)


def test_one_timeout_is_for_all_that_a_poll_looks_up():
    """Found by the simulator, groups 5: each lookup had the whole timeout for itself."""

    async def work(loop):
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker, group_id="g", enable_auto_commit=False) as c:
            c.assign([ZERO])
            broker.script(ApiKey.OFFSET_FETCH, *[E.COORDINATOR_LOAD_IN_PROGRESS] * 2)
            broker.script(ApiKey.LIST_OFFSETS, NO_ANSWER)
            began = loop.time()
            assert await c.poll(600) == []
            assert loop.time() - began == pytest.approx(0.6, abs=0.02)
            asked = len(broker.requests(ApiKey.OFFSET_FETCH))
            assert asked == 3
            assert values(await c.poll(60_000)) == list(range(10))
            assert len(broker.requests(ApiKey.OFFSET_FETCH)) == asked, "the second poll went on where the first ended"

    run(work)


def test_poll_returns_when_data_comes():
    async def work(loop):
        broker = ScriptedBroker()
        async with consumer(broker, "t") as c:
            loop.call_later(1, fill, broker)
            assert values(await c.poll(60_000)) == list(range(10))
            assert loop.time() < 2

    run(work)


def fetched_from(broker):
    return [r.topics[0].partitions[0].fetch_offset for r in broker.requests(ApiKey.FETCH)]


def test_prefetch_is_bounded():
    """One chunk is handed out, one waits behind it: before the first is gone nothing more is asked for."""

    async def work():
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker) as c:
            c.assign([ZERO])
            assert values(await c.poll(1000, max_records=3)) == [0, 1, 2]
            fill(broker)
            await asyncio.sleep(1)
            fill(broker)
            await asyncio.sleep(5)
            assert set(fetched_from(broker)) == {0, 10}
            assert values(await c.poll(1000, max_records=17)) == [*range(3, 10), *range(10)]
            await asyncio.sleep(0.1)
            assert fetched_from(broker)[-1] == 30

    run(work)


def test_nothing_is_fetched_ahead_beyond_the_bytes_that_may_be_held():
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker, fetch_max_bytes=sum(len(batch.data) for batch in broker.log["t", 0])) as c:
            c.assign([ZERO])
            assert values(await c.poll(1000, max_records=3)) == [0, 1, 2]
            await asyncio.sleep(5)
            assert fetched_from(broker) == [0]
            assert values(await c.poll(1000, max_records=100)) == list(range(3, 10))
            await asyncio.sleep(0.1)
            assert fetched_from(broker) == [0, 10]

    run(work)


@pytest.mark.parametrize("code", [E.OFFSET_OUT_OF_RANGE, E.TOPIC_AUTHORIZATION_FAILED, E.NOT_LEADER_OR_FOLLOWER])
def test_what_fails_ahead_waits_until_what_came_before_is_handed_out(code):
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker) as c:
            c.assign([ZERO])
            assert values(await c.poll(1000, max_records=3)) == [0, 1, 2]
            broker.script(ApiKey.FETCH, code, code, code)
            await asyncio.sleep(0.5)
            assert values(await c.poll(1000, max_records=100)) == list(range(3, 10))
            assert await c.position(ZERO) == 10
            assert set(fetched_from(broker)) == {0, 10}

    run(work)


@pytest.mark.parametrize("code", [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_ID, E.FENCED_LEADER_EPOCH])
def test_moved_partitions_are_looked_for(code):
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        broker.script(ApiKey.FETCH, code, code)
        async with consumer(broker) as c:
            c.assign([ZERO])
            before = len(broker.requests(ApiKey.METADATA))
            assert values(await c.poll(5000)) == list(range(10))
            assert len(broker.requests(ApiKey.METADATA)) > before

    run(work)


@pytest.mark.parametrize("trouble", [CUT, NO_ANSWER])
def test_lost_fetches_are_sent_again(trouble):
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        broker.script(ApiKey.FETCH, trouble)
        async with consumer(broker, request_timeout_ms=1000) as c:
            c.assign([ZERO])
            assert values(await c.poll(5000)) == list(range(10))

    run(work)


def test_errors_that_do_not_pass_are_raised():
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.FETCH, E.TOPIC_AUTHORIZATION_FAILED)
        async with consumer(broker) as c:
            c.assign([ZERO])
            with pytest.raises(errors.TopicAuthorization, match="t-0"):
                await c.poll(1000)

    run(work)


@pytest.mark.parametrize(("policy", "expected"), [("earliest", list(range(10))), ("latest", [])])
def test_an_offset_outside_the_log_is_reset(policy, expected):
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker, auto_offset_reset=policy) as c:
            c.assign([ZERO])
            c.seek(ZERO, 99)
            broker.script(ApiKey.FETCH, E.OFFSET_OUT_OF_RANGE)
            found = await c.poll(1000)
            assert values(found or await c.poll(1000)) == expected

    run(work)


def test_an_offset_outside_the_log_without_policy():
    async def work():
        broker = ScriptedBroker()
        async with consumer(broker, auto_offset_reset="none") as c:
            c.assign([ZERO])
            with pytest.raises(errors.OffsetOutOfRange, match="call seek"):
                await c.poll(1000)
            c.seek(ZERO, 99)
            broker.script(ApiKey.FETCH, E.OFFSET_OUT_OF_RANGE)
            with pytest.raises(errors.OffsetOutOfRange, match="offset 99 of t-0"):
                await c.poll(1000)

    run(work)


def test_what_was_fetched_for_another_place_is_dropped():
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        broker.delay_s[ApiKey.FETCH] = 0.3
        async with consumer(broker) as c:
            c.assign([ZERO])
            assert await c.poll(100) == []  # a fetch at 0 is on its way
            c.seek(ZERO, 8)
            assert values(await c.poll(2000)) == [8, 9]

    run(work)


def test_a_jump_does_not_wait_for_a_fetch_that_waits():
    """The second lane: a partition that was just assigned is fetched although another waits for data."""

    async def work(loop):
        broker = ScriptedBroker()
        async with consumer(broker) as c:
            c.assign([ZERO])
            broker.delay_s[ApiKey.FETCH] = 30
            assert await c.poll(100) == []
            broker.delay_s.clear()
            fill(broker, 1)
            c.assign([ONE])
            began = loop.time()
            assert values(await c.poll(5000)) == list(range(10))
            assert loop.time() - began < 1

    run(work)


def corrupt(message):
    data = build_batch([(5, None, b"x", ())])
    data[-2] ^= 1  # the value; the framing stays readable
    partition = PartitionData(partition_index=0, high_watermark=1, last_stable_offset=1, records=bytes(data))
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


def test_corruption_is_told_and_can_be_switched_off():
    async def work():
        for check_crcs in (True, False):
            broker = ScriptedBroker()
            broker.script(ApiKey.FETCH, corrupt)
            async with consumer(broker, check_crcs=check_crcs) as c:
                c.assign([ZERO])
                if check_crcs:
                    with pytest.raises(errors.CorruptRecord, match="t-0 at offset 0"):
                        await c.poll(1000)
                else:
                    assert len(await c.poll(1000)) == 1

    run(work)


def damaged_second(message):
    """Two batches, the second damaged, and what is behind them."""
    first, second = (bytearray(build_batch([(5, None, b"x", ())], base_offset=n)) for n in range(2))
    second[-2] ^= 1
    offset = message.topics[0].partitions[0].fetch_offset
    data = bytes(first + second) if offset == 0 else b""
    partition = PartitionData(partition_index=0, high_watermark=2, last_stable_offset=2, records=data)
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


@pytest.mark.parametrize("call", [Consumer.poll, Consumer.poll_arrow])
@pytest.mark.parametrize("order", ["offset", "transaction"])
def test_what_is_damaged_is_never_stepped_over(call, order):
    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.FETCH, *[damaged_second] * 20)
        async with consumer(broker, order=order, isolation_level="read_committed") as c:
            c.assign([ZERO])
            found = 0
            with pytest.raises(errors.CorruptRecord, match="t-0 at offset 1"):
                while True:
                    found += len(await call(c, timeout_ms=100))
            assert found == 1
            with pytest.raises(errors.CorruptRecord):
                await call(c, timeout_ms=100)

    run(work)


def damaged_marker(message):
    """A marker whose last offset cannot be true: nobody decodes it, and it says how far to go."""
    data = bytearray(
        build_batch(
            [(5, b"\0\0\0\1", b"\0" * 6, ())], is_control=True, producer_id=1, producer_epoch=0, is_transactional=True
        )
    )
    data[23] ^= 2  # of the last offset delta
    partition = PartitionData(partition_index=0, high_watermark=9, last_stable_offset=9, records=bytes(data))
    return FetchResponse(responses=[FetchableTopicResponse(topic_id=TOPIC_ID, partitions=[partition])])


@pytest.mark.parametrize("order", ["offset", "transaction"])
def test_a_hidden_batch_is_checked_before_it_says_how_far_to_go(order):
    """Seed 3285 of default: a reader was sent 33 million offsets ahead, and began anew."""

    async def work():
        broker = ScriptedBroker()
        broker.script(ApiKey.FETCH, damaged_marker)
        async with consumer(broker, order=order, isolation_level="read_committed") as c:
            c.assign([ZERO])
            with pytest.raises(errors.CorruptRecord, match="t-0 at offset 0"):
                await c.poll(1000)
            assert await c.position(ZERO) == 0

    run(work)


def test_paused_partitions_are_neither_fetched_nor_handed_out():
    async def work():
        broker = ScriptedBroker()
        fill(broker, 0)
        fill(broker, 1)
        async with consumer(broker) as c:
            c.assign([ZERO, ONE])
            c.pause(ZERO)
            assert {r.partition for r in await c.poll(1000, max_records=100)} == {1}
            assert await c.poll(500) == []
            c.resume(ZERO)
            assert {r.partition for r in await c.poll(1000, max_records=100)} == {0}

    run(work)


def test_every_partition_gets_its_turn():
    async def work():
        broker = ScriptedBroker()
        fill(broker, 0, 100)
        fill(broker, 1, 100)
        async with consumer(broker) as c:
            c.assign([ZERO, ONE])
            seen = [(await c.poll(1000, max_records=60))[-1].partition for _ in range(3)]
            assert set(seen) == {0, 1}

    run(work)


def test_topics_that_come_later_are_read():
    async def work(loop):
        broker = ScriptedBroker()
        broker.script(ApiKey.METADATA, 0, *[E.UNKNOWN_TOPIC_OR_PARTITION] * 3)
        fill(broker)
        async with consumer(broker, "t") as c:
            assert await c.poll(100) == []
            assert values(await c.poll(10_000)) == list(range(10))
            assert loop.time() < 6

    run(work)


def test_position_passes_what_is_hidden():
    """So that a reader that wants to reach the end does reach it, although nothing more is delivered."""

    async def work():
        broker = ScriptedBroker()
        fill(broker, 0, 2)
        broker.append(
            "t",
            0,
            build_batch(
                [(5, b"\0\0\0\1", b"\0\0\0\0\0\0", ())],
                is_control=True,
                producer_id=1,
                producer_epoch=0,
                is_transactional=True,
            ),
        )
        async with consumer(broker, isolation_level="read_committed") as c:
            c.assign([ZERO])
            assert values(await c.poll(1000)) == [0, 1]
            assert await c.position(ZERO) == 3

    run(work)


def test_calls_outside_their_time():
    async def work():
        broker = ScriptedBroker()
        c = consumer(broker, "t")
        with pytest.raises(errors.IllegalState, match="not running"):
            await c.poll(10)
        async with c:
            with pytest.raises(errors.IllegalState, match="t-7 is not assigned"):
                c.seek(TopicPartition("t", 7), 0)
            with pytest.raises(errors.IllegalState, match="no group_id"):
                await c.commit()
            with pytest.raises(errors.IllegalState, match="started before"):
                await c.start()
        with pytest.raises(errors.IllegalState, match="not running"):
            await c.poll(10)
        with pytest.raises(ConfigurationError, match="read_committed"):
            consumer(broker, order="transaction")

    run(work)


def test_pattern_subscription():
    async def work():
        broker = ScriptedBroker()
        fill(broker)
        async with consumer(broker) as c:
            c.subscribe(pattern="[st]")
            assert values(await c.poll(2000)) == list(range(10))
            c.unsubscribe()
            assert (await c.poll(200), c.assignment()) == ([], set())

    run(work)


def test_mistakes_of_those_who_come_from_elsewhere():
    with pytest.raises(TypeError, match=r"Consumer\.from_config"):
        Consumer({"group.id": "g"})
    with pytest.raises(TypeError, match="one by one"):
        Consumer(["t"])

    async def work():
        broker = ScriptedBroker()
        async with consumer(broker) as c:
            with pytest.raises(errors.IllegalState, match="nothing to read"):
                await c.poll()
            c.assign([])
            with pytest.raises(TypeError, match="whole milliseconds"):
                await c.poll(1.0)
            assert await c.poll(10) == []
            with pytest.raises(errors.InvalidArgument, match="include_headers must be True or False"):
                await c.poll_arrow(include_headers="false")

    run(work)


def test_commit_waits_for_a_periodic_one_within_its_own_time():
    async def work(loop):
        broker = ScriptedBroker()
        fill(broker)
        broker.script(ApiKey.OFFSET_COMMIT, *[NO_ANSWER] * 20)
        times = {"default_api_timeout_ms": 4000, "request_timeout_ms": 3000, "auto_commit_interval_ms": 500}
        async with consumer(broker, group_id="g", **times) as c:
            c.assign([ZERO])
            assert await c.poll(1000)
            await asyncio.sleep(1)
            await c.poll(0)  # begins a periodic one
            await asyncio.sleep(0.1)
            assert len(broker.requests(ApiKey.OFFSET_COMMIT)) == 1
            began = loop.time()
            with pytest.raises(errors.RequestTimedOut, match="commit offsets of group 'g': not done within 4000 ms"):
                await c.commit()
            assert loop.time() - began == pytest.approx(4, abs=0.05)
            await c.stop(timeout_ms=0)

    run(work)
