"""`async for` gives what `poll` gives, one by one, whatever is sought, paused, committed or refused between two records."""

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog import Consumer, TopicPartition, errors
from oncelog.wire.record_batch import build_batch

PLACES = ZERO, ONE = TopicPartition("t", 0), TopicPartition("t", 1)


def filled(sizes):
    broker = ScriptedBroker()
    for number, count in enumerate(sizes):
        partition = number % 2
        broker.append("t", partition, build_batch([(1, None, b"%d.%d" % (number, n), ()) for n in range(count)]))
    return broker


def reader(broker, **config):
    made = Consumer(bootstrap_servers=BOOTSTRAP, host=broker.host(), auto_offset_reset="earliest", **config)
    made.assign(PLACES)
    return made


SIZES = st.lists(st.integers(1, 7), min_size=1, max_size=6)
STEPS = st.lists(st.sampled_from(["seek", "pause", "wait", "", "", ""]), min_size=60, max_size=60)


@settings(max_examples=40)
@given(sizes=SIZES, steps=STEPS, look_around_ms=st.sampled_from([0, 20, 1000]))
def test_every_record_once_and_in_order_whatever_happens_between(sizes, steps, look_around_ms):
    async def work():
        broker, found, wanted = filled(sizes), {ZERO: [], ONE: []}, {ZERO: [], ONE: []}
        for where, batches in broker.log.items():
            wanted[TopicPartition(*where)] = [record.offset for batch in batches for record in batch.records()]
        left, again = sum(map(len, wanted.values())), 0
        async with reader(broker) as c:
            async for record in c:
                place = record.topic_partition
                assert await c.position(place) == record.offset + 1
                found[place].append(record.offset)
                step = steps[min(len(found[ZERO]) + len(found[ONE]), 59)]
                if step == "seek" and again < 5 and record.offset:
                    c.seek(place, record.offset - 1)
                    again, left = again + 1, left + 2
                elif step == "pause":
                    c.pause(place)
                    other = ZERO if place is ONE else ONE
                    c.resume(*PLACES) if other in c.paused() or not len(wanted[other]) else None
                    await asyncio.sleep(0)
                    c.resume(*PLACES)
                elif step == "wait":
                    await asyncio.sleep(0.03)
                left -= 1
                if not left:
                    break
        for place, offsets in found.items():
            expected = -1
            for offset in offsets:
                assert offset in (expected + 1, expected - 1), (place, offsets)
                expected = offset
            assert sorted(set(offsets)) == wanted[place]

    import oncelog.client.consumer.consumer as module

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "LOOK_AROUND_MS", look_around_ms)
        run(work)


def test_most_records_take_no_poll():
    async def work():
        broker = filled([50])
        async with reader(broker) as c:
            polled, poll, seen = [], c._poll, 0
            c._poll = lambda *given: polled.append(1) or poll(*given)
            async for _ in c:
                seen += 1
                if seen == 50:
                    break
        assert len(polled) == 2, "the first, and the last of the batch"

    run(work)


def test_a_pause_and_a_stop_are_heeded_in_the_middle_of_a_batch():
    async def work():
        async with reader(filled([5, 5])) as c:
            seen = []
            async for record in c:
                seen.append((record.partition, record.offset))
                if len(seen) == 2:
                    c.pause(record.topic_partition)
                if len(seen) == 5:
                    await c.stop()
            assert seen[2:] == [(1 - seen[0][0], n) for n in range(3)], (
                "nothing of the one that is paused, or after a stop"
            )

    run(work)


def test_a_record_that_cannot_be_read_stays_where_it_is():
    def refuse(value):
        if value == b"0.2":
            raise ValueError("not mine")
        return value

    async def work():
        async with reader(filled([5]), value_deserializer=refuse) as c:
            seen = []
            for _ in range(2):
                with pytest.raises(errors.RecordDeserialization, match="t-0 at offset 2"):
                    async for record in c:
                        seen.append(record.offset)
            assert seen == [0, 1]
            assert await c.position(ZERO) == 2
            c.seek(ZERO, 3)
            assert [(await anext(c)).offset for _ in range(2)] == [3, 4]

    run(work)


def test_an_error_and_a_reassignment_are_seen_in_time():
    async def work():
        async with reader(filled([9, 9])) as c:
            first = await anext(c)
            c.assign([ONE if first.topic_partition == ZERO else ZERO])
            assert (await anext(c)).topic_partition != first.topic_partition
            c._broken(ValueError("of its own"))
            with pytest.raises(errors.UnknownServer, match="of its own"):
                await anext(c)

    run(work)


def test_another_subscription_is_looked_at_before_the_next_record():
    async def work():
        broker = filled([9])
        async with Consumer("t", bootstrap_servers=BOOTSTRAP, host=broker.host(), auto_offset_reset="earliest") as c:
            assert [(await anext(c)).offset for _ in range(3)] == [0, 1, 2]
            polled, poll = [], c._poll
            c._poll = lambda *given: polled.append(1) or poll(*given)
            assert (await anext(c)).offset == 3
            assert not polled
            c.subscribe(["t"])
            assert (await anext(c)).offset == 4
            assert polled

    run(work)
