"""`oncelog.process` with a real broker: what it writes, and what is left after whatever goes wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3

import pytest
from evidence.world.pausing_database import PausingDatabase

import oncelog
from oncelog import Admin, Broker, Consumer, Processor, Producer, ProducerRecord, TopicPartition
from oncelog.errors import (
    ErrorCode,
    GroupAuthorization,
    IllegalState,
    ProcessingFailed,
    ProducerFenced,
)
from oncelog.recipes import DualWriter
from oncelog.testing import FaultyProxy, TestBroker

WAIT_S = 60  # for a hang
BEGIN = {"auto_offset_reset": "earliest"}
CONFIG = {
    "transaction.two.phase.commit.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.min.session.timeout.ms": "500",
}


def run(work, **config):
    async def bounded():
        async with asyncio.timeout(WAIT_S), Broker(config={**CONFIG, **config}) as broker:
            return await work(broker.bootstrap_servers)

    return asyncio.run(bounded())


async def fill(bootstrap, count=10, topic="in", partitions=1):
    async with Admin(bootstrap_servers=bootstrap) as admin:
        await admin.create_topics({topic: partitions})
    async with Producer(bootstrap_servers=bootstrap) as producer:
        await producer.send_many(topic, ((b"k%d" % (n % 3), b"%d" % n) for n in range(count)))
        await producer.flush()


async def read(bootstrap, *topics, isolation_level="read_committed"):
    """All that is committed, once nothing is open on them any more."""
    config = {"bootstrap_servers": bootstrap, **BEGIN}
    async with Consumer(*topics, isolation_level=isolation_level, **config) as consumer:
        found = await consumer.poll(1)
        while not await consumer.at_end() or any(lag.blocked for lag in (await consumer.lag()).values()):
            found += await consumer.poll(50)
        return found


async def until(is_so):
    """Others work meanwhile."""
    while not is_so():  # noqa: ASYNC110 (a counter has no event)
        await asyncio.sleep(0.01)


async def values(bootstrap, topic="out"):
    return [record.value for record in await read(bootstrap, topic)]


async def group_offsets(bootstrap, group="g"):
    async with Admin(bootstrap_servers=bootstrap) as admin:
        return {tp: at.offset for tp, at in (await admin.list_consumer_group_offsets(group)).items()}


async def open_transactions(bootstrap):
    async with Admin(bootstrap_servers=bootstrap) as admin:
        return [each for each in await admin.list_transactions() if each.state == "Ongoing"]


def given(bootstrap, **more):
    options = {"into": "out", "group_id": "g", "bootstrap_servers": bootstrap, "until_end": True}
    return {"transform": lambda record: record.value, "transform_backoff_ms": 1, **options, **more}


EXPECTED = [b"%d" % n for n in range(10)]


# -- what it writes


def test_a_record_in_a_record_out_with_its_key_and_its_time():
    async def work(bootstrap):
        await fill(bootstrap)
        metrics = await oncelog.process("in", **given(bootstrap))
        source, copies = await read(bootstrap, "in"), await read(bootstrap, "out")
        assert [(r.key, r.value, r.timestamp_ms) for r in copies] == [(r.key, r.value, r.timestamp_ms) for r in source]
        assert (metrics.consumed_record_count, metrics.produced_record_count, metrics.readable_lag) == (10, 10, 0)
        assert metrics.committed_transaction_count >= 1
        assert await group_offsets(bootstrap) == {TopicPartition("in", 0): 10}

    run(work)


def test_to_any_topic_none_or_many():
    async def work(bootstrap):
        await fill(bootstrap)

        async def transform(record):
            number = int(record.value)
            if number < 3:
                return None
            return [ProducerRecord("odd" if number % 2 else "even", record.value), (b"all", record.value)]

        metrics = await oncelog.process("in", **given(bootstrap, transform=transform))
        assert await values(bootstrap, "odd") == [b"3", b"5", b"7", b"9"]
        assert await values(bootstrap, "even") == [b"4", b"6", b"8"]
        assert len(await values(bootstrap, "out")) == 7
        assert (metrics.consumed_record_count, metrics.produced_record_count) == (10, 14)

    run(work)


def test_several_at_once():
    async def work(bootstrap):
        await fill(bootstrap, 25)
        sizes = []

        def total(records):
            sizes.append(len(records))
            return b"%d" % sum(int(record.value) for record in records)

        more = {"transform": None, "transform_batch": total, "transaction_records_max": 10}
        await oncelog.process("in", **given(bootstrap, **more))
        assert sum(sizes) == 25
        assert max(sizes) == 10
        assert sum(map(int, await values(bootstrap))) == sum(range(25))

    run(work)


def test_with_serializers():
    async def work(bootstrap):
        await fill(bootstrap)
        coding = {
            "value_deserializer": int,
            "key_deserializer": bytes.decode,
            "value_serializer": lambda n: b"<%d>" % n,
        }
        calls = []

        def transform(record):
            calls.append(record.key)
            return record.value * 2

        await oncelog.process("in", **given(bootstrap, transform=transform, key_serializer=str.encode, **coding))
        found = await read(bootstrap, "out")
        assert [record.value for record in found] == [b"<%d>" % (2 * n) for n in range(10)]
        assert {record.key for record in found} == {b"k0", b"k1", b"k2"}
        assert set(calls) == {"k0", "k1", "k2"}

    run(work)


def test_it_goes_on_where_it_stopped():
    async def work(bootstrap):
        await fill(bootstrap)
        await oncelog.process("in", **given(bootstrap, max_records=4))
        assert await values(bootstrap) == EXPECTED[:4]
        await oncelog.process("in", **given(bootstrap))
        assert await values(bootstrap) == EXPECTED

    run(work)


def test_what_was_aborted_in_the_input_is_not_read():
    async def work(bootstrap):
        await fill(bootstrap, 1)
        async with Producer(bootstrap_servers=bootstrap, transactional_id="t") as producer:
            producer.begin_transaction()
            await (await producer.send("in", b"never"))
            await producer.abort_transaction()
        await oncelog.process("in", **given(bootstrap))
        assert await values(bootstrap) == [b"0"]

    run(work)


def test_the_reports_come_while_it_works():
    async def work(bootstrap):
        await fill(bootstrap)
        reports = []

        async def transform(record):
            await asyncio.sleep(0.01)

        more = {"stats_cb": reports.append, "statistics_interval_ms": 5, "transaction_interval_ms": 1}
        await oncelog.process("in", **given(bootstrap, transform=transform, **more))
        counts = [report.consumed_record_count for report in reports]
        assert counts == sorted(counts)
        assert len(set(counts)) > 2
        assert reports[-1].as_dict()["group_id"] == "g"

    run(work)


# -- records that fail


def test_a_record_that_fails_for_a_while_is_written_once():
    async def work(bootstrap):
        await fill(bootstrap)
        calls = []

        def transform(record):
            calls.append(record.value)
            if record.value == b"4" and calls.count(b"4") < 4:
                raise ConnectionError("later")
            return record.value

        metrics = await oncelog.process("in", **given(bootstrap, transform=transform))
        assert await values(bootstrap) == EXPECTED
        assert calls.count(b"4") == 4
        assert (metrics.retry_count, metrics.aborted_transaction_count) == (3, 0)

    run(work)


def test_a_record_that_always_fails_goes_to_the_dead_letters_with_its_place_and_its_error():
    async def work(bootstrap):
        await fill(bootstrap)

        def transform(record):
            return b"%d" % (100 // int(record.value))

        more = {"transform": transform, "dead_letter_topic": "dead", "transform_retries": 1}
        metrics = await oncelog.process("in", **given(bootstrap, **more))
        assert len(await values(bootstrap)) == 9
        (letter,) = await read(bootstrap, "dead")
        said = dict(letter.headers)
        assert (letter.key, letter.value) == (b"k0", b"0")
        assert (said["__oncelog.errors.topic"], said["__oncelog.errors.offset"]) == (b"in", b"0")
        assert said["__oncelog.errors.exception"] == b"builtins.ZeroDivisionError"
        assert said["__oncelog.errors.attempts"] == b"2"
        assert (metrics.dead_letter_count, metrics.consumed_record_count, metrics.produced_record_count) == (1, 10, 9)

    run(work)


def test_bytes_that_cannot_be_read_go_there_as_they_were():
    async def work(bootstrap):
        await fill(bootstrap, 2)
        async with Producer(bootstrap_servers=bootstrap) as producer:
            await producer.send_and_wait("in", b"\xff")
        more = {"dead_letter_topic": "dead", "value_deserializer": int, "transform": lambda r: b"%d" % r.value}
        metrics = await oncelog.process("in", **given(bootstrap, **more))
        assert await values(bootstrap, "dead") == [b"\xff"]
        assert metrics.retry_count == 0

    run(work)


def test_without_such_a_topic_it_ends_with_the_records_name_and_the_next_start_begins_there():
    async def work(bootstrap):
        await fill(bootstrap)

        def transform(record):
            if record.value == b"6":
                raise LookupError("no such customer")
            return record.value

        with pytest.raises(
            ProcessingFailed, match="record in-0@6 failed 2 times: LookupError: no such customer"
        ) as raised:
            await oncelog.process("in", **given(bootstrap, transform=transform, transform_retries=1))
        assert (raised.value.topic_partition, raised.value.offset) == (TopicPartition("in", 0), 6)
        assert await values(bootstrap) == EXPECTED[:6]
        await oncelog.process("in", **given(bootstrap))
        assert await values(bootstrap) == EXPECTED

    run(work)


def test_an_output_that_is_too_large_is_a_failure_of_its_record():
    async def work(bootstrap):
        await fill(bootstrap)

        def transform(record):
            return b"x" * 6000 if record.value == b"4" else record.value

        more = {"transform": transform, "dead_letter_topic": "dead", "max_request_size": 5000}
        metrics = await oncelog.process("in", **given(bootstrap, **more))
        assert await values(bootstrap) == EXPECTED[:4] + EXPECTED[5:]
        assert await values(bootstrap, "dead") == [b"4"]
        assert (metrics.aborted_transaction_count, metrics.rewind_count) == (1, 1)

    run(work)


def test_one_that_only_the_broker_refuses_is_found_among_many():
    async def work(bootstrap):
        await fill(bootstrap, 40)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics({"out": 1})
            await admin.alter_configs({("topic", "out"): {"max.message.bytes": "3000"}})

        def transform(record):
            return os.urandom(5000) if record.value == b"29" else record.value

        metrics = await oncelog.process("in", **given(bootstrap, transform=transform, dead_letter_topic="dead"))
        assert await values(bootstrap) == [b"%d" % n for n in range(40) if n != 29]
        assert await values(bootstrap, "dead") == [b"29"]
        assert metrics.aborted_transaction_count <= 6

    run(work)


@pytest.mark.parametrize("bad", [0, 3])
def test_nobody_is_blamed_for_a_neighbours_batch_that_was_refused_meanwhile(bad):
    """`send` raises what became of batches before it: here of the bad record's, while the next one's outputs are sent."""

    async def work(bootstrap):
        await fill(bootstrap, 6)
        async with Admin(bootstrap_servers=bootstrap) as admin:
            await admin.create_topics({"out": 2})
            await admin.alter_configs({("topic", "out"): {"max.message.bytes": "20000"}})

        def transform(record):
            if record.value == b"%d" % bad:
                return b"v" * 30_000
            return [(b"%d" % n, record.value) for n in range(4000)]

        metrics = await oncelog.process("in", **given(bootstrap, transform=transform, dead_letter_topic="dead"))
        assert await values(bootstrap, "dead") == [b"%d" % bad]
        assert (metrics.dead_letter_count, metrics.produced_record_count) == (1, 5 * 4000)

    run(work)


# -- transactions that fail


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("TxnOffsetCommit", ErrorCode.ILLEGAL_GENERATION),
        ("TxnOffsetCommit", ErrorCode.UNKNOWN_MEMBER_ID),
        ("Produce", ErrorCode.INVALID_TXN_STATE),
        ("Produce", ErrorCode.INVALID_PRODUCER_EPOCH),
        ("EndTxn", ErrorCode.PRODUCER_FENCED),
        ("EndTxn", ErrorCode.TRANSACTION_ABORTABLE),
        ("TxnOffsetCommit", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
@pytest.mark.parametrize("is_done", [False, True], ids=["refused", "misreported"])
def test_a_refused_request_costs_a_second_transaction_and_no_record(api, code, is_done):
    async def work(bootstrap):
        await fill(bootstrap)
        async with FaultyProxy(bootstrap) as proxy:
            (proxy.misreport if is_done else proxy.refuse)(api, code)
            metrics = await oncelog.process("in", **given(proxy.bootstrap_servers))
            assert not proxy.pending_count
        assert await values(bootstrap) == EXPECTED
        # Of records that are stored the commit behind them is heard, whatever is said of them.
        assert (metrics.last_error is None) == (is_done and api == "Produce")
        assert await open_transactions(bootstrap) == []

    run(work)


@pytest.mark.parametrize("api", ["Produce", "TxnOffsetCommit", "EndTxn", "InitProducerId"])
@pytest.mark.parametrize("after", [False, True], ids=["request lost", "answer lost"])
def test_a_lost_connection_costs_nothing(api, after):
    async def work(bootstrap):
        await fill(bootstrap)
        async with FaultyProxy(bootstrap) as proxy:
            proxy.drop(api, after=after)
            await oncelog.process("in", **given(proxy.bootstrap_servers))
            assert not proxy.pending_count
        assert await values(bootstrap) == EXPECTED

    run(work)


def test_an_answer_that_never_comes_is_found_out_by_a_new_producer():
    """The commit was done, and nobody said so: what is written is not written again."""

    async def work(bootstrap):
        await fill(bootstrap)
        async with FaultyProxy(bootstrap) as proxy:
            proxy.misreport("EndTxn", ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, count=1000)
            task = asyncio.ensure_future(oncelog.process("in", **given(proxy.bootstrap_servers, max_block_ms=300)))
            await until(lambda: proxy.seen["InitProducerId"] >= 2)
            proxy.clear()
            metrics = await task
        assert await values(bootstrap) == EXPECTED
        assert metrics.producer_renewal_count >= 1

    run(work)


def test_a_member_that_may_not_commit_ends_with_that_error_and_leaves_nothing_open():
    async def work(bootstrap):
        await fill(bootstrap)
        async with FaultyProxy(bootstrap) as proxy:
            proxy.refuse("TxnOffsetCommit", ErrorCode.GROUP_AUTHORIZATION_FAILED)
            with pytest.raises(GroupAuthorization):
                await oncelog.process("in", **given(proxy.bootstrap_servers))
        assert await open_transactions(bootstrap) == []
        assert await values(bootstrap) == []

    run(work)


def test_a_newer_member_with_the_same_transactional_id_ends_this_one_in_words():
    async def work(bootstrap):
        await fill(bootstrap)
        began = asyncio.Event()

        async def transform(record):
            began.set()
            await asyncio.sleep(0.2)
            return record.value

        first = asyncio.ensure_future(
            oncelog.process("in", **given(bootstrap, transform=transform, transactional_id="one"))
        )
        await began.wait()
        async with Producer(bootstrap_servers=bootstrap, transactional_id="one"):
            with pytest.raises(
                ProducerFenced, match=r"a newer member took over transactional_id='one'.*an id of its own"
            ):
                await first
        await oncelog.process("in", **given(bootstrap))
        assert await values(bootstrap) == EXPECTED

    run(work)


@pytest.mark.parametrize(
    ("api", "code"),
    [
        ("Produce", ErrorCode.INVALID_PRODUCER_EPOCH),  # who is fenced may hear of it by this code first
        ("TxnOffsetCommit", ErrorCode.INVALID_PRODUCER_EPOCH),
        ("TxnOffsetCommit", ErrorCode.INVALID_PRODUCER_ID_MAPPING),
        ("EndTxn", ErrorCode.PRODUCER_FENCED),
    ],
)
def test_whatever_code_said_it_the_end_is_called_by_one_name(api, code):
    async def work(bootstrap):
        await fill(bootstrap)
        async with FaultyProxy(bootstrap) as proxy:
            proxy.refuse(api, code)
            with pytest.raises(ProducerFenced, match=r"took over transactional_id='one'.*an id of its own") as raised:
                await oncelog.process("in", **given(proxy.bootstrap_servers, transactional_id="one"))
            assert code.name in str(raised.value.__cause__)
        await oncelog.process("in", **given(bootstrap, transactional_id="one"))  # whose start ends what is open
        assert await values(bootstrap) == EXPECTED

    run(work)


def test_fenced_it_begins_again_where_it_is_told_to():
    async def work(bootstrap):
        await fill(bootstrap)
        began = asyncio.Event()

        async def transform(record):
            began.set()
            await asyncio.sleep(0.05)
            return record.value

        more = {"transform": transform, "transactional_id": "one", "restart_when_fenced": True}
        first = asyncio.ensure_future(oncelog.process("in", **given(bootstrap, **more)))
        await began.wait()
        async with Producer(bootstrap_servers=bootstrap, transactional_id="one"):
            metrics = await first
        assert metrics.producer_renewal_count == 1
        assert await values(bootstrap) == EXPECTED

    run(work)


# -- the group


@pytest.mark.parametrize("members", [1, 3])
def test_until_end_waits_for_its_share_of_a_group_that_another_one_has_just_left(members):
    """KIP-848: the broker shares out a second later, and tells it with the next heartbeat. Whoever gave up before said that
    all was done, and had read nothing."""

    async def work(bootstrap):
        await fill(bootstrap, 30, partitions=1)
        options = given(bootstrap, group_protocol="consumer")
        first = Processor("in", **{**options, "until_end": False, "transform": lambda _: None})
        running = asyncio.ensure_future(first.run())
        await until(lambda: first.metrics().rebalance_count > 0 or running.done())
        first.stop()
        done = (await running).consumed_record_count
        found = await asyncio.gather(*(oncelog.process("in", **options) for _ in range(members)))
        assert done + sum(each.consumed_record_count for each in found) == 30

    run(work)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_until_end_waits_for_its_share_of_a_member_that_leaves_while_it_looks(protocol, monkeypatch):
    """In the moment in which it asks whether the group has shared out all, the one that had all leaves."""

    async def work(bootstrap):
        await fill(bootstrap, 30, partitions=1)
        how = {"group_protocol": protocol}
        if protocol == "classic":
            how["partition_assignment_strategy"] = "cooperative-sticky"  # who has it keeps it
        options = given(bootstrap, **how)
        other = Consumer("in", group_id="g", bootstrap_servers=bootstrap, enable_auto_commit=False, **how)
        await other.start()
        polling = asyncio.ensure_future(poll_on(other))
        await until(other.assignment)
        described = Consumer._described
        asked = []

        async def as_the_other_leaves(self, message):
            asked.append(message)
            if len(asked) == 1:
                polling.cancel()
                await other.stop()
            return await described(self, message)

        monkeypatch.setattr(Consumer, "_described", as_the_other_leaves)
        found = await oncelog.process("in", **options)
        assert asked
        assert found.consumed_record_count == 30

    async def poll_on(member):
        while True:
            member.pause(*member.assignment())
            await member.poll(timeout_ms=100)

    run(work)


def test_until_end_waits_for_a_share_that_its_member_has_not_heard_of(monkeypatch):
    """KIP-848: the broker has told it already, and the answer is on its way or not looked at."""

    async def work(bootstrap):
        await fill(bootstrap, 30, partitions=1)
        described, shares = Consumer._described, []

        async def when_it_has_a_share(self, message):
            while True:
                group = await described(self, message)
                shares.append([len(member.assignment.topic_partitions) for member in group.members])
                if any(shares[-1]):
                    return group
                await asyncio.sleep(0.01)

        async def without_partitions(self, timeout_ms, records_max):
            """What is here is taken over when a member without partitions has looked at its group."""
            if not shares:
                await asyncio.sleep(0.01)
                return []
            return await polled(self, timeout_ms, records_max)

        polled = Consumer.poll
        monkeypatch.setattr(Consumer, "_described", when_it_has_a_share)
        monkeypatch.setattr(Consumer, "poll", without_partitions)
        found = await oncelog.process("in", **given(bootstrap, group_protocol="consumer"))
        assert shares[-1] == [1]
        assert found.consumed_record_count == 30

    run(work)


@pytest.mark.parametrize("protocol", ["cooperative", "eager", "consumer"])
def test_members_that_come_and_go_write_each_record_once(protocol):
    options = {
        "cooperative": {},
        "eager": {"partition_assignment_strategy": "range"},
        "consumer": {"group_protocol": "consumer"},
    }[protocol]

    async def work(bootstrap):
        await fill(bootstrap, 400, partitions=4)

        async def transform(record):
            await asyncio.sleep(0.002)
            return record.value

        def member():
            more = {"transform": transform, "until_end": False, "transaction_records_max": 10}
            more |= {"heartbeat_interval_ms": 50, "transaction_interval_ms": 10, **options}
            return Processor("in", **given(bootstrap, **more))

        members = [member() for _ in range(3)]
        tasks = [asyncio.ensure_future(each.run()) for each in members]
        for index in range(4):
            await asyncio.sleep(0.15)
            if index % 2:
                tasks[index % 3].cancel()
                await asyncio.gather(tasks[index % 3], return_exceptions=True)
            members[index % 3].stop()
            await asyncio.gather(tasks[index % 3], return_exceptions=True)
            members[index % 3] = member()
            tasks[index % 3] = asyncio.ensure_future(members[index % 3].run())
        async with Consumer("out", bootstrap_servers=bootstrap, isolation_level="read_committed", **BEGIN) as reader:
            count = 0
            while count < 400:
                count += len(await reader.poll())
        for each in members:
            each.stop()
        assert all(metrics.phase == "ENDED" for metrics in await asyncio.gather(*tasks))
        assert sorted(map(int, await values(bootstrap))) == list(range(400))

    run(work, **{"group.consumer.min.heartbeat.interval.ms": "50", "group.consumer.heartbeat.interval.ms": "50"})


def test_put_out_of_the_group_it_writes_nothing_of_what_it_had_read():
    """It sleeps in its transform for longer than its session (the loop stands): what it wakes up with is somebody else's."""

    async def work(bootstrap):
        await fill(bootstrap)
        import threading

        began = threading.Event()

        def one_that_blocks():
            def transform(record):
                if not began.is_set():
                    began.set()
                    threading.Event().wait(2)
                return b"late " + record.value

            return oncelog.sync.Processor(
                "in", **given(bootstrap, transform=transform, max_poll_interval_ms=1000, heartbeat_interval_ms=50)
            )

        slow = await asyncio.to_thread(one_that_blocks)
        running = asyncio.ensure_future(asyncio.to_thread(slow.run))
        await asyncio.to_thread(began.wait)
        await oncelog.process("in", **given(bootstrap, max_records=10, until_end=False))
        assert await values(bootstrap) == EXPECTED
        metrics = await running
        assert metrics.consumed_record_count == 0
        assert await values(bootstrap) == EXPECTED

    run(work)


# -- the end


@pytest.mark.parametrize("patience_ms", range(0, 200, 20))
def test_cancelled_anywhere_it_leaves_nothing_open_and_nothing_half(patience_ms):
    async def work(bootstrap):
        await fill(bootstrap, 200)
        more = {"transaction_records_max": 7, "until_end": False}
        task = asyncio.ensure_future(oncelog.process("in", **given(bootstrap, **more)))
        await asyncio.sleep(patience_ms / 1000)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await open_transactions(bootstrap) == []
        await oncelog.process("in", **given(bootstrap))
        assert await values(bootstrap) == [b"%d" % n for n in range(200)]

    run(work)


@pytest.mark.parametrize("count", [0, 5], ids=["idle", "writing"])
@pytest.mark.parametrize("how", ["cancelled", "stopped"])
def test_where_nobody_answers_its_end_takes_as_long_as_it_may(monkeypatch, count, how):
    monkeypatch.setattr("oncelog.client.arguments.INTERRUPTED_STOP_MS", 300 if how == "cancelled" else 60_000)
    patience_ms = 60_000 if how == "cancelled" else 300

    async def work(broker):
        bootstrap = broker.bootstrap_servers
        await fill(bootstrap, count)
        began = asyncio.Event()

        async def transform(record):
            await asyncio.to_thread(broker.pause)
            began.set()
            return record.value

        given_all = given(bootstrap, transform=transform, until_end=False, stop_timeout_ms=patience_ms)
        processor = Processor("in", **given_all)
        task = asyncio.ensure_future(processor.run())
        await processor.started()
        await until(lambda: processor.metrics().assigned_partition_count)
        if count:
            await began.wait()
        else:
            await asyncio.to_thread(broker.pause)
        task.cancel() if how == "cancelled" else processor.stop()
        done, _ = await asyncio.wait({task}, timeout=10)
        broker.resume()
        assert done == {task}, "it did not end within 10 of 60 s"
        assert task.cancelled() is (how == "cancelled")

    with TestBroker(process=True, config=CONFIG) as broker:
        asyncio.run(work(broker))


def test_sigterm_ends_it_as_stop_does():
    async def work(bootstrap):
        await fill(bootstrap)
        done = asyncio.Event()

        def transform(record):
            if record.value == b"9":
                done.set()
            return record.value

        task = asyncio.ensure_future(oncelog.process("in", **given(bootstrap, transform=transform, until_end=False)))
        await done.wait()
        os.kill(os.getpid(), signal.SIGTERM)
        metrics = await task
        assert metrics.phase == "ENDED"
        assert await values(bootstrap) == EXPECTED[: metrics.consumed_record_count]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    run(work)


def test_a_stop_does_not_wait_for_records_that_do_not_come(monkeypatch):
    monkeypatch.setattr("oncelog.core.processing.machine.POLL_TIMEOUT_MS", 3_600_000)

    async def work(bootstrap):
        await fill(bootstrap, 0)
        processor = Processor("in", **given(bootstrap, until_end=False))
        task = asyncio.ensure_future(processor.run())
        await processor.started()
        await until(lambda: processor.metrics().assigned_partition_count)
        processor.stop()
        assert (await task).phase == "ENDED"

    run(work)


def test_a_transform_that_hangs_is_given_up_at_the_end():
    async def work(bootstrap):
        await fill(bootstrap)
        began = asyncio.Event()

        async def transform(record):
            began.set()
            await asyncio.sleep(3600)

        processor = Processor("in", **given(bootstrap, transform=transform, stop_timeout_ms=50))
        task = asyncio.ensure_future(processor.run())
        await began.wait()
        processor.stop()
        assert (await task).consumed_record_count == 0
        assert await group_offsets(bootstrap) == {}

    run(work)


def test_it_runs_once():
    async def work(bootstrap):
        await fill(bootstrap, 1)
        processor = Processor("in", **given(bootstrap))
        await processor.run()
        with pytest.raises(IllegalState, match="make a new one"):
            await processor.run()

    run(work)


# -- with a database


def test_rows_records_and_positions_together():
    async def work(bootstrap):
        await fill(bootstrap)
        database, calls = PausingDatabase(), []

        async def transform(record, rows):
            calls.append(record.value)
            rows.execute("INSERT INTO written VALUES (?)", (int(record.value),))
            if record.value == b"3" and calls.count(b"3") < 3:
                raise ConnectionError("later")
            return record.value

        async with DualWriter(database, transactional_id="one", bootstrap_servers=bootstrap) as writer:
            metrics = await oncelog.process("in", **given(bootstrap, writer=writer, transform=transform))
        rows = [value for (value,) in database.connection.execute("SELECT value FROM written")]
        await database.close()
        assert rows == [int(value) for value in await values(bootstrap)] == list(range(10))
        assert calls.count(b"3") == 3
        assert (metrics.consumed_record_count, metrics.aborted_transaction_count) == (10, 2)
        assert await group_offsets(bootstrap) == {TopicPartition("in", 0): 10}

    run(work)


def test_a_database_that_stays_away_ends_it_at_the_record_it_stands_at():
    async def work(bootstrap):
        await fill(bootstrap)
        database = PausingDatabase()

        def transform(record, rows):
            if record.value == b"7":
                raise sqlite3.OperationalError("database is locked")
            rows.execute("INSERT INTO written VALUES (?)", (int(record.value),))

        async with DualWriter(database, transactional_id="one", bootstrap_servers=bootstrap) as writer:
            more = {"writer": writer, "dead_letter_topic": "dead", "outage_timeout_ms": 200, "transform_retries": 1}
            with pytest.raises(ProcessingFailed, match=r"record in-0@7 failed .* database is locked"):
                await oncelog.process("in", **given(bootstrap, transform=transform, **more))
        rows = [value for (value,) in database.connection.execute("SELECT value FROM written")]
        await database.close()
        assert rows == list(range(7))

    run(work)


def test_a_row_that_the_database_refuses_is_a_dead_letter():
    async def work(bootstrap):
        await fill(bootstrap)
        database = PausingDatabase()
        database.connection.execute("CREATE UNIQUE INDEX once ON written (value)")

        def transform(record, rows):
            rows.execute("INSERT INTO written VALUES (?)", (int(record.value) % 8,))
            return record.value

        async with DualWriter(database, transactional_id="one", bootstrap_servers=bootstrap) as writer:
            more = {"writer": writer, "transform": transform, "dead_letter_topic": "dead", "transform_retries": 0}
            metrics = await oncelog.process("in", **given(bootstrap, **more))
        rows = [value for (value,) in database.connection.execute("SELECT value FROM written")]
        await database.close()
        assert rows == list(range(8))
        assert await values(bootstrap) == EXPECTED[:8]
        assert await values(bootstrap, "dead") == [b"8", b"9"]
        assert metrics.dead_letter_count == 2

    run(work)
