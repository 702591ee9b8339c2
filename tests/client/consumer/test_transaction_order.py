"""order="transaction" against a real broker: real sockets, real files, groups that stop and go on."""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest
from evidence.world.committed import wait_for_markers

from oncelog import sync
from oncelog.errors import ConfigurationError
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


def producer(broker: TestBroker, transactional_id: str, **more: object) -> sync.Producer:
    return sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=transactional_id, **more)


def consumer(broker: TestBroker, topic: str, **more: object) -> sync.Consumer:
    options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "order": "transaction", **more}
    return sync.Consumer(topic, bootstrap_servers=broker.bootstrap_servers, **options)


def read(reader: sync.Consumer, count: int, most: int = 500) -> list[bytes | None]:
    found: list[bytes | None] = []
    while len(found) < count:
        records = reader.poll(timeout_ms=10_000, max_records=min(most, count - len(found)))
        assert records, f"{len(found)} of {count} records came"
        found += [record.value for record in records]
    return found


def test_transactions_come_in_the_order_of_their_commits_and_an_open_one_delays_nobody(broker: TestBroker) -> None:
    with producer(broker, "o-a") as a, producer(broker, "o-b") as b, producer(broker, "o-c") as c:
        a.begin_transaction()
        a.send("ordered", b"a1").result()
        b.begin_transaction()
        b.send("ordered", b"b1").result()
        with consumer(broker, "ordered") as reader:
            a.send("ordered", b"a2").result()
            b.commit_transaction()
            assert read(reader, 1) == [b"b1"]
            c.begin_transaction()
            c.send("ordered", b"c1").result()
            c.abort_transaction()
            assert reader.poll(timeout_ms=300) == []
            assert not reader.at_end() or reader.poll(timeout_ms=300) == []
            a.commit_transaction()
            assert read(reader, 2) == [b"a1", b"a2"]


def test_a_group_goes_on_exactly_where_it_stopped_in_the_middle_of_a_transaction(broker: TestBroker) -> None:
    topic, partition = "ordered-group", TopicPartition("ordered-group", 0)
    with producer(broker, "g-long") as long, producer(broker, "g-short") as short:
        long.begin_transaction()
        for n in range(5):
            long.send(topic, b"long %d" % n).result()
            with short.transaction():
                short.send(topic, b"short %d" % n).result()
        expected = [b"short %d" % n for n in range(5)] + [b"long %d" % n for n in range(5)]
        found: list[bytes | None] = []
        for part in (3, 2, 0, 2, 3):
            if len(found) == 5:
                long.commit_transaction() if part == 0 else None
            with consumer(broker, topic, group_id="ordered-group", enable_auto_commit=False) as reader:
                found += read(reader, part, most=1)
                reader.commit()
                committed = reader.committed([partition])[partition]
                if len(found) < 10:
                    assert committed.offset == 0, "the long transaction began first and is not wholly handed out"
        assert found == expected
        assert committed.offset > 10


def test_from_latest_the_whole_of_a_transaction_that_is_open_comes(broker: TestBroker) -> None:
    with producer(broker, "l-done") as done, producer(broker, "l-open") as still:
        still.begin_transaction()
        still.send("ordered-latest", b"open 1").result()
        with done.transaction():
            done.send("ordered-latest", b"done").result()
        with consumer(broker, "ordered-latest") as early:
            assert read(early, 1) == [b"done"]  # its marker is in the log
        with consumer(broker, "ordered-latest", auto_offset_reset="latest") as reader:
            while not reader.assignment():
                assert reader.poll(timeout_ms=500) == []
            assert reader.position(TopicPartition("ordered-latest", 0)) == 0, "read from the open transaction's start"
            still.send("ordered-latest", b"open 2").result()
            still.commit_transaction()
            assert read(reader, 2) == [b"open 1", b"open 2"]


def test_arrow_batches_and_more_than_fits_into_memory(broker: TestBroker) -> None:
    with producer(broker, "s-a") as a, producer(broker, "s-b") as b:
        for each in (a, b):
            each.begin_transaction()
        for n in range(300):
            for name, each in ((b"a", a), (b"b", b)):
                each.send("ordered-disk", name + b"%d " % n + bytes(1000))
            if n % 20 == 0:
                a.flush()
                b.flush()
        a.commit_transaction()
        wait_for_markers(broker.bootstrap_servers)  # their order is that of the commits
        b.commit_transaction()
    with consumer(broker, "ordered-disk", transaction_order_memory_bytes=50_000) as reader:
        found: list[bytes] = []
        while len(found) < 600:
            batch = reader.poll_arrow(max_records=70, timeout_ms=10_000)
            assert batch.num_rows
            found += [value.split()[0] for value in batch.column("value").to_pylist()]
    assert found == [b"a%d" % n for n in range(300)] + [b"b%d" % n for n in range(300)]


READER = """
import pathlib, re, sys
from oncelog import sync
options = {"auto_offset_reset": "earliest", "isolation_level": "read_committed", "order": "transaction"}
with sync.Consumer("ordered-million", bootstrap_servers=sys.argv[1], **options) as reader:
    while not reader.assignment() or not reader.at_end():
        assert not reader.poll(timeout_ms=200)
    print("buffered", flush=True)
    sys.stdin.readline()
    count = 0
    while count < 1_000_000:
        count += reader.poll_arrow(timeout_ms=30_000).num_rows
# Not ru_maxrss: that begins with what the process that started this one had.
print(count, int(re.search("VmHWM:[^0-9]*([0-9]+) kB", pathlib.Path("/proc/self/status").read_text())[1]) // 1024)
"""


@pytest.mark.slow
@pytest.mark.skipif(not pathlib.Path("/proc/self/status").exists(), reason="memory is read from /proc")
def test_a_million_buffered_records_need_less_than_256_mib(broker: TestBroker) -> None:
    rows = pa.RecordBatch.from_pydict({"value": pa.array([bytes(100)] * 10_000, pa.binary())})
    with producer(broker, "million", transaction_timeout_ms=900_000) as writer:
        writer.begin_transaction()
        for _ in range(100):
            writer.send_arrow("ordered-million", rows)
        writer.flush()
        command = [sys.executable, "-c", READER, broker.bootstrap_servers]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "buffered\n"
            writer.commit_transaction()
            output, _ = reader.communicate("go\n", timeout=800)
    count, memory_mib = map(int, output.split())
    assert count == 1_000_000
    assert memory_mib < 256, memory_mib


def test_a_bound_on_the_disk_says_what_to_do(broker: TestBroker) -> None:
    with producer(broker, "d-a") as a:
        a.begin_transaction()
        a.send("ordered-full", bytes(5000)).result()
        limits = {"transaction_order_memory_bytes": 100, "transaction_order_disk_bytes": 1000}
        with consumer(broker, "ordered-full", **limits) as reader, pytest.raises(Exception, match="find-hanging"):
            while True:
                reader.poll(timeout_ms=500)


def test_it_is_for_committed_records_only() -> None:
    with pytest.raises(ConfigurationError, match="read_committed"):
        sync.Consumer("t", order="transaction")
