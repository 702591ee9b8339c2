"""Our client beside confluent-kafka, on the same brokers: rows per second as Arrow and one by one; and the checker's rate."""

from __future__ import annotations

import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from confluent_kafka import Consumer as TheirConsumer
from confluent_kafka import Producer as TheirProducer
from confluent_kafka import TopicPartition as TheirTopicPartition

from bench.brokers import make_topic
from bench.pairs import ROUNDS, both, in_turn, median
from bench.selection import Wanted
from bench.servers import Server, build_directory
from bench.table import Row
from oncelog import Consumer, Producer, TopicPartition

ROWS = 3_000_000
SIZE_BYTES = 100
ROWS_PER_BATCH = 50_000
TRANSACTIONS_CHECKED = 180_000


def rows_per_second(work: Callable[[], None], count: int) -> float:
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def send_arrow(server: Server, topic: str, count: int) -> None:
    """`count` rows as Arrow batches through our producer."""

    async def send() -> None:
        batch = pa.record_batch({"value": pa.array([b"x" * SIZE_BYTES] * ROWS_PER_BATCH, pa.binary())})
        async with Producer(bootstrap_servers=server.bootstrap, batch_size=1_000_000, linger_ms=20) as producer:
            for _ in range(count // ROWS_PER_BATCH):
                await producer.send_arrow(topic, batch, partition=0)
            await producer.flush()

    asyncio.run(send())


def send_each(server: Server, topic: str, count: int) -> None:
    """`count` rows one by one through our producer."""

    async def send() -> None:
        async with Producer(bootstrap_servers=server.bootstrap, batch_size=1_000_000, linger_ms=20) as producer:
            for _ in range(count):
                await producer.send(topic, b"x" * SIZE_BYTES, partition=0)
            await producer.flush()

    asyncio.run(send())


def their_produce(server: Server, topic: str, count: int) -> None:
    """`count` rows one by one through librdkafka, which has no other way."""
    producer = TheirProducer(
        {
            "bootstrap.servers": server.bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    for _ in range(count):
        while True:
            try:
                producer.produce(topic, b"x" * SIZE_BYTES, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0


def poll_arrow(server: Server, topic: str, count: int) -> None:
    """Read `count` rows as Arrow batches with our consumer."""

    async def read() -> None:
        async with Consumer(bootstrap_servers=server.bootstrap, enable_auto_commit=False) as consumer:
            where = TopicPartition(topic, 0)
            consumer.assign([where])
            consumer.seek(where, 0)
            got = 0
            while got < count:
                got += (await consumer.poll_arrow()).num_rows

    asyncio.run(read())


def poll_each(server: Server, topic: str, count: int) -> None:
    """Read `count` rows as objects with our consumer."""

    async def read() -> None:
        async with Consumer(bootstrap_servers=server.bootstrap, enable_auto_commit=False) as consumer:
            where = TopicPartition(topic, 0)
            consumer.assign([where])
            consumer.seek(where, 0)
            got = 0
            while got < count:
                got += sum(1 for record in await consumer.poll(max_records=10_000) if record.value is not None)

    asyncio.run(read())


def their_consume(server: Server, topic: str, count: int) -> None:
    """Read `count` rows with librdkafka, looking at each value."""
    consumer = TheirConsumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.queue.backoff.ms": 5,  # its own pause when enough waits for the application: a second as it comes
        }
    )
    consumer.assign([TheirTopicPartition(topic, 0, 0)])
    got = 0
    while got < count:
        messages = consumer.consume(min(10_000, count - got), 1.0)
        got += sum(1 for message in messages if message.value() is not None)
    consumer.close()


def arrow(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    """Rows per second of both clients on each broker, and the checker's."""
    rows = []
    with both(with_kafka, flush_policy="os") as servers:
        for server in servers:
            for topic in ("sent", "read"):
                make_topic(server, topic)
            send_arrow(server, "read", ROWS)
        work: list[tuple[str, Callable[[Server, str, int], None], str, int, str]] = [
            ("poll_arrow", poll_arrow, "consume", ROWS, ">= 5x"),
            ("send_arrow", send_arrow, "produce", ROWS, ">= 2x"),
        ]
        theirs = {"consume": (their_consume, "read"), "produce": (their_produce, "sent")}
        for what, ours, kind, count, aim in work:
            their_work, topic = theirs[kind]
            mine = in_turn(servers, _rate(ours, topic, count))
            others = in_turn(servers, _rate(their_work, topic, count))
            rows += [
                Row(
                    f"our client on {server.name}: {what}",
                    "rows/s",
                    median(mine, server.name),
                    median(others, server.name),
                    other_name=f"confluent-kafka {kind}()",
                    better="more",
                    aim=aim if server is servers[0] else "",
                    note=f"median of {ROUNDS}",
                )
                for server in servers
            ]
    return [*rows, checker_rate()]


def _rate(work: Callable[[Server, str, int], None], topic: str, count: int) -> Callable[[Server, int], float]:
    def rate(server: Server, _: int) -> float:
        os.sync()  # the disk is not to work on what an earlier round left in the page cache
        return rows_per_second(lambda: work(server, topic, count), count)

    return rate


def synthetic_history(count: int) -> Iterator[dict[str, Any]]:
    """A clean history: ten processes send two records each transaction and poll what was sent before, in order."""
    random_numbers = random.Random(7)
    end_offsets = [0] * 8
    positions = [[0] * 8 for _ in range(10)]
    log: list[list[int]] = [[] for _ in range(8)]
    for i in range(count):
        process = i % 10
        keys = sorted(random_numbers.sample(range(8), 2))
        seen = random_numbers.randrange(8)
        start = positions[process][seen]
        polled = [[offset, log[seen][offset]] for offset in range(start, min(end_offsets[seen], start + 40))]
        positions[process][seen] = start + len(polled)
        steps: list[Any] = [["poll", {str(seen): polled}]]
        for key in keys:
            steps.append(["send", str(key), [end_offsets[key], end_offsets[key]]])
            log[key].append(end_offsets[key])
            end_offsets[key] += 1
        yield from _events(i, process, steps)
    rest = [["poll", {str(key): [[at, at] for at in range(positions[0][key], end_offsets[key])]}] for key in range(8)]
    yield from _events(count, 0, rest)  # what was acknowledged must have been seen by somebody


def _events(number: int, process: int, steps: list[Any]) -> Iterator[dict[str, Any]]:
    for i, kind in enumerate(("invoke", "ok")):
        time_ns = number * 1_000_000 + i * 500_000
        yield {"index": 2 * number + i, "process": process, "type": kind, "f": "txn", "time": time_ns, "value": steps}


def checker_rate() -> Row:
    """Transactions per second of `oncelog check-history`, reading the file included."""
    path = build_directory() / "history.jsonl"
    with path.open("w") as file:
        for event in synthetic_history(TRANSACTIONS_CHECKED):
            file.write(json.dumps(event) + "\n")
    taken = []
    for _ in range(ROUNDS):
        started = time.perf_counter()
        done = subprocess.run([sys.executable, "-m", "oncelog", "check-history", path], capture_output=True, text=True)
        taken.append(time.perf_counter() - started)
        assert done.returncode == 0, done.stdout[-500:] + done.stderr[-500:]
    path.unlink()
    return Row(
        f"check-history of {TRANSACTIONS_CHECKED:,} transactions",
        "txn/s",
        TRANSACTIONS_CHECKED / statistics.median(taken),
        better="more",
        note=f"median of {ROUNDS}; {statistics.median(taken):.1f} s",
    )
