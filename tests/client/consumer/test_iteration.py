"""`async for` gives what `poll` gives, one by one, whatever is sought, paused, committed or refused between two records."""

import asyncio

import pytest
from evidence.world.client import BOOTSTRAP, ScriptedBroker, run
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog import Consumer, TopicPartition, errors
from oncelog.client.consumer.iteration import LOOK_AROUND_MS
from oncelog.client.interceptors import ConsumerInterceptor
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

    import oncelog.client.consumer.iteration as module

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


@pytest.mark.parametrize("leave", ["unsubscribe", "assign"])
@pytest.mark.parametrize("is_beside", [False, True])
def test_who_has_nothing_to_read_any_more_is_told(leave, is_beside):
    """In the middle of a batch, or by another task while it waits for more: nobody would ever wake it."""

    async def work(loop):
        broker = filled([3])
        async with Consumer("t", bootstrap_servers=BOOTSTRAP, host=broker.host(), auto_offset_reset="earliest") as c:
            seen = []

            def change():
                c.unsubscribe() if leave == "unsubscribe" else c.assign([])

            if is_beside:
                loop.call_later(0.5, change)
            with pytest.raises(errors.IllegalState, match="nothing to read any more"):
                async for record in c:
                    seen.append(record.offset)
                    if len(seen) == 2 and not is_beside:
                        change()
            assert loop.time() < 5
            assert seen == ([0, 1, 2] if is_beside else [0, 1])
            c.subscribe(["t"])
            c.assign([ZERO])
            c.seek(ZERO, 1)
            assert (await anext(c)).offset == 1

    run(work)


# -- lent to another thread (here: to nobody in particular)

TAKEN = st.lists(st.sampled_from(["take", "take", "take", "poll", "back", "wait", "pause", "seek"]), max_size=60)


@settings(max_examples=60)
@given(sizes=SIZES, steps=TAKEN, look_around_ms=st.sampled_from([0, 20, 1000]))
def test_what_is_lent_is_handed_out_once_and_in_order(sizes, steps, look_around_ms):
    async def work():
        broker, found, seeks = filled(sizes), {ZERO: [], ONE: []}, 0
        reached = {ZERO: 0, ONE: 0}
        wanted = {where: len([r for b in broker.log.get(where, ()) for r in b.records()]) for where in PLACES}
        left = list(steps)
        async with reader(broker) as c:

            async def call(work):
                c.take_back()
                return await work

            while sum(len(set(offsets)) for offsets in found.values()) < sum(wanted.values()):
                step = left.pop() if left else "take"
                records = []
                if step == "take":
                    record = c.lent.take() if c.lent is not None else None
                    records = [record or await call(c.next_and_lend())]
                elif step == "poll":
                    records = c.lent.take_many(2) if c.lent is not None else []
                    records = records or await call(c.poll_and_lend(100, 2))
                elif step == "back":
                    c.take_back()
                elif step == "wait":
                    await asyncio.sleep(0.03)
                elif step == "pause":
                    c.take_back()
                    c.pause(ZERO)
                    await asyncio.sleep(0)
                    c.resume(ZERO)
                elif seeks < 3 and found[ZERO]:
                    c.take_back()
                    reached[ZERO] = found[ZERO][-1]
                    c.seek(ZERO, reached[ZERO])
                    seeks += 1
                for record in records:
                    place = record.topic_partition
                    assert record.offset == reached[place], (found, record)
                    found[place].append(record.offset)
                    reached[place] += 1
            c.take_back()
            assert {place: await c.position(place) for place in PLACES} == reached
            assert c.metrics().delivered_record_count == sum(map(len, found.values()))

    import oncelog.client.consumer.iteration as module

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(module, "LOOK_AROUND_MS", look_around_ms)
        patched.setattr(module, "LENT_RECORDS_MAX", 3)
        run(work)


def test_what_is_taken_back_is_not_handed_out_by_the_other_thread():
    async def work():
        async with reader(filled([9])) as c:
            await c.next_and_lend()
            lent = c.lent
            assert [lent.take().offset, lent.take().offset] == [1, 2]
            c.take_back()
            assert (lent.take(), lent.take_many(5), c.lent) == (None, [], None)
            assert await c.position(ZERO) == 3
            assert (await anext(c)).offset == 3

    run(work)


def test_what_is_lent_ends_with_the_time_for_a_look_around():
    async def work():
        async with reader(filled([9])) as c:
            await c.next_and_lend()
            assert c.lent.take().offset == 1
            await asyncio.sleep(0.03)
            assert (c.lent.take(), c.lent.take_many(None)) == (None, [])

    run(work)


@pytest.mark.parametrize(
    "config",
    [{"order": "transaction", "isolation_level": "read_committed"}, {"interceptor_classes": [ConsumerInterceptor()]}],
)
def test_nothing_is_lent_where_each_record_is_looked_at(config):
    async def work():
        async with reader(filled([9]), **config) as c:
            for _ in range(3):
                await c.next_and_lend()
                assert c.lent is None

    run(work)


def test_the_record_in_hand_is_not_done_with_wherever_it_was_handed_out():
    async def work():
        async with reader(filled([9]), group_id="g", enable_auto_commit=False) as c:
            await c.next_and_lend()
            assert [c.lent.take().offset, c.lent.take().offset] == [1, 2]
            c.take_back()
            assert c._positions_done_with()[ZERO].offset == 2
            assert c.current_positions()[ZERO].offset == 3
            await c.next_and_lend()
            assert [each.offset for each in c.lent.take_many(2)] == [4, 5]
            c.take_back()
            assert c._positions_done_with()[ZERO].offset == 6

    run(work)


def test_a_lent_record_that_cannot_be_read_stays_where_it_is():
    def refuse(value):
        if value == b"0.3":
            raise ValueError("not mine")
        return value

    async def work():
        async with reader(filled([9]), value_deserializer=refuse) as c:
            await c.next_and_lend()
            lent = c.lent
            assert [each.offset for each in lent.take_many(5)] == [1, 2]
            for take in (lent.take, lambda: lent.take_many(5)):
                with pytest.raises(errors.RecordDeserialization, match="t-0 at offset 3"):
                    take()
            c.take_back()
            assert await c.position(ZERO) == 3
            c.seek(ZERO, 4)
            assert (await c.next_and_lend()).offset == 4

    run(work)


def test_a_place_that_was_sought_or_given_away_meanwhile_stays_so():
    async def work():
        async with reader(filled([9])) as c:
            for change, offset in ((lambda: c.seek(ZERO, 7), 7), (lambda: c.assign(PLACES[::-1]), 3)):
                c.seek(ZERO, 0)
                await c.next_and_lend()
                assert [c.lent.take().offset, c.lent.take().offset] == [1, 2]
                change()
                c.take_back()
                assert await c.position(ZERO) == offset

    run(work)


@settings(max_examples=60)
@given(count=st.integers(3, 60), readers=st.integers(2, 4), draws=st.randoms(use_true_random=False))
def test_who_shares_a_consumer_through_lent_records_gets_each_once(count, readers, draws):
    """As threads do it with `oncelog.sync`, but their steps between each other are drawn."""

    async def work():
        broker, found = filled([count]), []
        async with Consumer("t", bootstrap_servers=BOOTSTRAP, host=broker.host(), auto_offset_reset="earliest") as c:

            async def read():
                while len(found) < count:
                    lent, is_polling = c.lent, draws.random() < 0.5
                    if lent is not None and is_polling:
                        records = lent.take_many(draws.choice([1, 2, None]))
                    else:
                        record = None if lent is None else lent.take()
                        records = [] if record is None else [record]
                    found.extend(record.offset for record in records)
                    for _ in range(draws.randrange(4)):
                        await asyncio.sleep(0)
                    if not records:
                        c.take_back()
                        found.extend(record.offset for record in await c.poll_and_lend(10, 1))

            await asyncio.gather(*(read() for _ in range(readers)))
            c.take_back()
            assert await c.position(ZERO) == count
        assert sorted(found) == list(range(count))

    run(work)


def test_what_is_lent_is_not_handed_out_past_the_next_look_around():
    async def work(loop):
        broker = filled([9])
        async with Consumer("t", bootstrap_servers=BOOTSTRAP, host=broker.host(), auto_offset_reset="earliest") as c:
            await c.next_and_lend()
            lent = c.lent
            await asyncio.sleep(LOOK_AROUND_MS / 1000 - 0.001)
            assert lent.take().offset == 1
            await asyncio.sleep(0.002)
            assert lent.take() is None
            assert lent.take_many(None) == []
            c.take_back()
            assert [record.offset for record in await c.poll_and_lend(10, 1)] == [2]
            c.take_back()
            assert not [each for each in loop._scheduled if "Lent" in repr(each) and not each.cancelled()], (
                "no timer stays"
            )

    run(work)


@pytest.mark.parametrize("how", ["iterated", "polled", "polled late"])
def test_the_last_record_taken_is_in_hand_where_no_poll_gave_it_away(how):
    async def work():
        broker = filled([9])
        async with Consumer("t", bootstrap_servers=BOOTSTRAP, host=broker.host(), auto_offset_reset="earliest") as c:
            await c.next_and_lend()
            lent = c.lent
            if how == "iterated":  # the one before it was polled
                assert [record.offset for record in lent.take_many(1)] == [1]
                assert lent.take().offset == 2
            elif how == "polled":  # the one before it was iterated
                assert lent.take().offset == 1
                assert [record.offset for record in lent.take_many(1)] == [2]
            else:  # it is taken back while a poll has the record, and has not said so yet
                assert lent.take().offset == 1
                late = lent.take()
            c.take_back()
            assert lent.is_over
            if how == "polled late":
                assert c._positions_done_with()[ZERO].offset == 2
                c.polled(late)
            assert c._positions_done_with()[ZERO].offset == (2 if how == "iterated" else 3)
            assert await c.position(ZERO) == 3

    run(work)
