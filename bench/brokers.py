"""The broker's figures, through other people's client (librdkafka), on both brokers in turn."""

from __future__ import annotations

import statistics
import threading
import time

from bench.servers import Server, apache_kafka, oncelog
from bench.table import Row
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

TRANSACTIONS = 300


def make_topic(server: Server, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})  # must outlive its futures
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)


def transactional(server: Server, transactional_id: str) -> Producer:
    producer = Producer({"bootstrap.servers": server.bootstrap, "transactional.id": transactional_id, "linger.ms": 0})
    producer.init_transactions(60)
    return producer


def one_transaction(producer: Producer, topic: str, value: bytes, partition: int = 0) -> None:
    producer.begin_transaction()
    producer.produce(topic, value, partition=partition)
    producer.commit_transaction(60)


def launch_to_first_commit(server: Server) -> float:
    """Seconds from the launch of the process to the first acknowledged transaction."""
    make_topic(server, "first")
    one_transaction(transactional(server, "first"), "first", b"x" * 100)
    return time.perf_counter() - server.launched


def latencies(server: Server, count: int = TRANSACTIONS, name: str = "latency") -> list[float]:
    """Milliseconds of one-record transactions by one producer, sorted."""
    make_topic(server, name)
    producer, taken = transactional(server, name), []
    for i in range(count + 20):
        started = time.perf_counter()
        one_transaction(producer, name, b"x" * 100)
        if i >= 20:
            taken.append((time.perf_counter() - started) * 1000)
    return sorted(taken)


def rate_of_eight(server: Server, seconds: float = 5.0, name: str = "eight") -> float:
    """Transactions per second of eight producers."""
    make_topic(server, name, 8)
    producers = [transactional(server, f"{name}-{i}") for i in range(8)]
    counts, stop = [0] * 8, threading.Event()

    def work(i: int) -> None:
        while not stop.is_set():
            one_transaction(producers[i], name, b"x" * 100, i)
            counts[i] += 1

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return sum(counts) / (time.perf_counter() - started)


def produce_rate(server: Server, size: int, total_mb: int = 60) -> float:
    """MB/s of acknowledged records through librdkafka."""
    name = f"mb-{size}"
    make_topic(server, name)
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    value, count = b"x" * size, total_mb * 1_000_000 // size
    started = time.perf_counter()
    for _ in range(count):
        while True:
            try:
                producer.produce(name, value, partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0
    return count * size / 1e6 / (time.perf_counter() - started)


def consume_rate(server: Server, size: int, total_mb: int = 60) -> float:
    """MB/s of records delivered to the application through librdkafka."""
    name, count = f"mb-{size}", total_mb * 1_000_000 // size
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4_000_000,
        }
    )
    consumer.assign([TopicPartition(name, 0, 0)])
    got, started = 0, time.perf_counter()
    while got < count:
        got += len(consumer.consume(10_000, 1.0))
    taken = time.perf_counter() - started
    consumer.close()
    return count * size / 1e6 / taken


def fill_aborted(server: Server, count: int = 10_000, name: str = "aborted") -> None:
    """`count` committed and `count` aborted transactions of one record, in turn. librdkafka needs a round trip for each."""
    make_topic(server, name)
    producer = transactional(server, name)
    for i in range(2 * count):
        producer.begin_transaction()
        producer.produce(name, b"x" * 100, partition=0)
        producer.flush()
        producer.commit_transaction(60) if i % 2 else producer.abort_transaction(60)


def read_all_seconds(server: Server, isolation: str, expected: int, name: str = "aborted") -> float:
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "bench",
            "isolation.level": isolation,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(name, 0, 0)])
    got, started = 0, time.perf_counter()
    while got < expected:
        got += len(consumer.consume(10_000, 1.0))
    taken = time.perf_counter() - started
    consumer.close()
    return taken


def percentile(taken: list[float], p: float) -> float:
    return taken[min(len(taken) - 1, int(len(taken) * p))]


def launch(with_kafka: bool) -> list[Row]:
    ours, memory = [], []
    for _ in range(3):
        with oncelog() as server:
            ours.append(launch_to_first_commit(server))
        with oncelog() as server:
            time.sleep(1)
            memory.append(server.resident_mib())
    theirs = their_memory = None
    if with_kafka:
        with apache_kafka() as server:
            theirs = launch_to_first_commit(server)
        with apache_kafka() as server:
            their_memory = server.resident_mib()
    return [
        Row("launch to first committed transaction", "s", statistics.median(ours), theirs, aim="<= 0.7 s"),
        Row("idle resident memory", "MiB", statistics.median(memory), their_memory, aim="<= 70 MiB"),
    ]


def transactions(with_kafka: bool) -> list[Row]:
    with oncelog() as server:
        ours, our_eight = latencies(server), rate_of_eight(server)
    rows = [
        Row("one-record transaction p50 (ours synced)", "ms", percentile(ours, 0.5), aim="<= 3 ms"),
        Row("one-record transaction p99 (ours synced)", "ms", percentile(ours, 0.99), aim="<= 10 ms"),
        Row("transactions/s, 1 producer (ours synced)", "/s", 1000 / statistics.mean(ours), better="more", aim=">= 1x"),
        Row("transactions/s, 8 producers (ours synced)", "/s", our_eight, better="more", aim=">= 1x"),
        Row(
            "transactions/s, 1 producer, equal durability",
            "/s",
            1000 / statistics.mean(ours),
            better="more",
            aim=">= 5x",
        ),
    ]
    if with_kafka:
        with apache_kafka() as server:
            theirs, their_eight = latencies(server), rate_of_eight(server)
        with apache_kafka(log_flush_interval_messages=1) as server:
            synced = latencies(server, 100)
        figures = [percentile(theirs, 0.5), percentile(theirs, 0.99), 1000 / statistics.mean(theirs), their_eight]
        for row, figure in zip(rows, [*figures, 1000 / statistics.mean(synced)], strict=True):
            row.other = figure
        rows[-1].other_name += ", log.flush.interval.messages=1"
    return rows


def throughput(with_kafka: bool) -> list[Row]:
    rows = []
    sizes = (100, 1_000, 10_000)
    with oncelog(flush_policy="os") as server:
        ours = {size: (produce_rate(server, size), consume_rate(server, size)) for size in sizes}
    theirs: dict[int, tuple[float | None, float | None]] = dict.fromkeys(sizes, (None, None))
    if with_kafka:
        with apache_kafka() as server:
            theirs = {size: (produce_rate(server, size), consume_rate(server, size)) for size in sizes}
    for size in sizes:
        for kind, i in (("produce", 0), ("consume", 1)):
            rows.append(
                Row(
                    f"{kind}, {size} B records, flush.policy=os",
                    "MB/s",
                    ours[size][i],
                    theirs[size][i],
                    better="more",
                    aim=">= 0.7x",
                )
            )
    return rows


def aborted(with_kafka: bool) -> list[Row]:
    count = 10_000
    figures: list[list[float | None]] = []
    for start in (lambda: oncelog(flush_policy="os"), apache_kafka if with_kafka else None):
        if start is None:
            figures.append([None, None])
            continue
        with start() as server:
            fill_aborted(server, count)
            figures.append(
                [
                    read_all_seconds(server, "read_committed", count),
                    read_all_seconds(server, "read_uncommitted", 2 * count),
                ]
            )
    names = ("read_committed of 10,000 committed + 10,000 aborted", "read_uncommitted of the same")
    return [Row(name, "s", figures[0][i], figures[1][i]) for i, name in enumerate(names)]
