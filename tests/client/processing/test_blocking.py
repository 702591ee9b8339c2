"""`oncelog.sync.process`: the transform runs in the thread that waits; ended by Ctrl-C, SIGTERM, `stop`."""

from __future__ import annotations

import asyncio
import os
import signal
import sqlite3
import threading

import pytest

from oncelog import sync
from oncelog.client.processing.blocking import Caller, CallerDualWriterSink
from oncelog.errors import InvalidArgument, ProcessingFailed
from oncelog.recipes import SqliteDatabase
from oncelog.recipes.sync import DualWriter
from oncelog.testing import TestBroker

EXPECTED = [b"%d" % n for n in range(10)]


def test_a_dual_writer_has_recovered_when_its_sink_has_started():
    """What an earlier life left is completed before anything new is written."""

    class Writer:
        has_recovered = False

        def recover(self):
            self.has_recovered = True

    class Later:
        async def run(self, work):
            await asyncio.sleep(0)
            return work()

    writer = Writer()
    asyncio.run(CallerDualWriterSink(writer, None, Later()).start())
    assert writer.has_recovered


@pytest.fixture(scope="module")
def server():
    with TestBroker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture
def name(request, server):
    """A topic of ten records, which is the group's name as well."""
    made = f"t{abs(hash(request.node.name))}"
    with sync.Producer(bootstrap_servers=server) as producer:
        producer.send_many(made, [(b"k", value) for value in EXPECTED])
    return made


def values(server, topic):
    with sync.Consumer(
        topic, bootstrap_servers=server, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        found = consumer.poll(1)
        while not consumer.at_end() or any(lag.blocked for lag in consumer.lag().values()):
            found += consumer.poll(50)
        return [record.value for record in found]


def given(server, name, **more):
    options = {"into": f"{name}-out", "group_id": name, "bootstrap_servers": server, "until_end": True}
    return {"transform": lambda record: record.value, "transform_backoff_ms": 1, **options, **more}


def open_transactions(server):
    with sync.Admin(bootstrap_servers=server) as admin:
        return [each for each in admin.list_transactions() if each.state == "Ongoing"]


def test_each_record_once_by_the_thread_that_asked(server, name):
    threads = set()

    def transform(record):
        threads.add(threading.get_ident())
        return [record.value, (b"k", record.value)]

    metrics = sync.process(name, **given(server, name, transform=transform))
    assert threads == {threading.get_ident()}
    assert values(server, f"{name}-out") == [value for value in EXPECTED for _ in range(2)]
    assert (metrics.consumed_record_count, metrics.produced_record_count) == (10, 20)


def test_several_at_once_and_generators(server, name):
    def transform(records):
        for record in records:
            yield record.value

    sync.process(name, **given(server, name, transform=None, transform_batch=transform))
    assert values(server, f"{name}-out") == EXPECTED


def test_failures_are_tried_again_buried_or_named(server, name):
    def transform(record):
        return b"%d" % (100 // int(record.value))

    with pytest.raises(ProcessingFailed, match="@0 failed 3 times: ZeroDivisionError"):
        sync.process(name, **given(server, name, transform=transform, transform_retries=2))
    metrics = sync.process(
        name, **given(server, name, transform=transform, transform_retries=1, dead_letter_topic=f"{name}-dead")
    )
    assert metrics.dead_letter_count == 1
    assert values(server, f"{name}-dead") == [b"0"]


def test_a_batch_that_fails_is_taken_apart(server, name):
    def transform(records):
        if any(record.value == b"6" for record in records):
            raise ValueError("six")
        return [record.value for record in records]

    more = {
        "transform": None,
        "transform_batch": transform,
        "transform_retries": 0,
        "dead_letter_topic": f"{name}-dead",
    }
    sync.process(name, **given(server, name, **more))
    assert values(server, f"{name}-dead") == [b"6"]
    assert values(server, f"{name}-out") == [value for value in EXPECTED if value != b"6"]


def test_a_coroutine_function_is_refused(server):
    async def transform(record):
        return record.value

    with pytest.raises(InvalidArgument, match=r"without async; oncelog.process takes both"):
        sync.process("in", **given(server, "g", transform=transform))
    with pytest.raises(InvalidArgument, match="concurrency must be from 1 to 1"):
        sync.process("in", **given(server, "g", concurrency=2))


@pytest.mark.parametrize("where", ["in the transform", "while it waits"])
def test_ctrl_c_leaves_nothing_open_and_the_next_run_goes_on(server, name, where):
    def transform(record):
        if record.value == b"5" and where == "in the transform":
            raise KeyboardInterrupt
        if record.value == b"9":
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        return record.value

    with pytest.raises(KeyboardInterrupt):
        sync.process(name, **given(server, name, transform=transform, until_end=False))
    assert open_transactions(server) == []
    sync.process(name, **given(server, name))
    assert values(server, f"{name}-out") == EXPECTED


def test_sigterm_and_stop_end_it_behind_the_transaction(server, name):
    processor: sync.Processor

    def transform(record):
        if record.value == b"4":
            os.kill(os.getpid(), signal.SIGTERM)
        return record.value

    metrics = sync.process(name, **given(server, name, transform=transform, until_end=False))
    assert metrics.phase == "ENDED"
    assert values(server, f"{name}-out") == EXPECTED[: metrics.consumed_record_count]
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL

    def stop(record):
        processor.stop()
        return record.value

    processor = sync.Processor(name, **given(server, name, transform=stop, until_end=False, group_id=f"{name}-2"))
    processor.run()
    assert processor.metrics().phase == "ENDED"


def test_rows_records_and_positions_together(server, name, tmp_path):
    def opened():
        return sqlite3.connect(tmp_path / "rows.sqlite3", isolation_level=None)

    with opened() as connection:
        connection.execute("CREATE TABLE totals (number INTEGER UNIQUE)")
    database = SqliteDatabase(tmp_path / "rows.sqlite3")
    database.migrate()
    calls = []

    def transform(record, rows):
        calls.append(record.value)
        rows.execute("INSERT INTO totals VALUES (?)", (int(record.value) % 9,))
        if record.value == b"3" and calls.count(b"3") < 2:
            raise ConnectionError("later")
        return record.value

    with DualWriter(database, transactional_id=name, bootstrap_servers=server) as writer:
        more = {"transform": transform, "writer": writer, "transform_retries": 1, "dead_letter_topic": f"{name}-dead"}
        sync.process(name, **given(server, name, **more))
    database.close()
    with opened() as connection:
        rows = [number for (number,) in connection.execute("SELECT number FROM totals")]
    assert rows == list(range(9))
    assert values(server, f"{name}-out") == EXPECTED[:9]
    assert values(server, f"{name}-dead") == [b"9"]


def test_a_job_that_nobody_waits_for_any_more_ends_in_silence():
    async def main():
        caller, began, end = Caller(), threading.Event(), threading.Event()
        thread = threading.Thread(target=caller.work)
        thread.start()
        waiting = asyncio.ensure_future(caller.run(lambda: (began.set(), end.wait(10))))
        await asyncio.to_thread(began.wait, 10)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        end.set()
        assert await caller.run(lambda: 5) == 5
        caller.end()
        await asyncio.to_thread(thread.join)

    asyncio.run(main())
