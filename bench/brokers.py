"""The broker's figures, through other people's client (librdkafka), on both brokers in turn."""

from __future__ import annotations

import contextlib
import statistics
import threading
import time
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined]

from bench.pairs import KAFKA, ROUNDS, both, in_turn, median, percentile
from bench.selection import Wanted
from bench.servers import Server, apache_kafka, oncelog
from bench.table import Row

TRANSACTIONS = 300
LAUNCHES = 3
THROUGHPUT_AIMS = {"os": 1.0, "fsync": 0.7}
TOTAL_MB = {100: 60, 1_000: 200, 10_000: 200}  # record size in bytes: how much is sent and read in a round
SYNCED = f"{KAFKA}, log.flush.interval.messages=1"


def make_topic(server: Server, name: str, partitions: int = 1) -> None:
    admin = AdminClient({"bootstrap.servers": server.bootstrap})  # must outlive its futures
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)


def transactional(server: Server, transactional_id: str, **security: str) -> Producer:
    """`security`: librdkafka's options with underscores, the address of a secured listener among them."""
    plain = {"bootstrap.servers": server.bootstrap, "transactional.id": transactional_id, "linger.ms": 0}
    producer = Producer(plain | dotted(security))
    producer.init_transactions(60)
    return producer


def one_transaction(producer: Producer, topic: str, value: bytes, partition: int = 0) -> float:
    """One record; how long the commit took (librdkafka sends the record in it), in ms."""
    producer.begin_transaction()
    producer.produce(topic, value, partition=partition)
    started = time.perf_counter()
    producer.commit_transaction(60)
    return (time.perf_counter() - started) * 1000


def launch_to_first_commit(server: Server) -> float:
    """Seconds from the launch of the process to the first acknowledged transaction."""
    make_topic(server, "first")
    one_transaction(transactional(server, "first"), "first", b"x" * 100)
    return time.perf_counter() - server.launched


@dataclass
class Transactions:
    """What a run of one-record transactions took: each of them whole, and its commit, in ms; how many per second."""

    whole: list[float]
    commits: list[float]
    per_second: float


def dotted(options: dict[str, str]) -> dict[str, str]:
    """librdkafka's names."""
    return {name.replace("_", "."): value for name, value in options.items()}


def transactions_of_one(
    server: Server, count: int = TRANSACTIONS, name: str = "latency", **security: str
) -> Transactions:
    """One producer, `count` times."""
    make_topic(server, name)
    producer, whole, commits = transactional(server, name, **security), [], []
    for i in range(count + 20):
        started = time.perf_counter()
        commit = one_transaction(producer, name, b"x" * 100)
        if i >= 20:
            whole.append((time.perf_counter() - started) * 1000)
            commits.append(commit)
    return Transactions(whole, commits, 1000 / statistics.mean(whole))


def transactions_of_eight(server: Server, seconds: float = 5.0, name: str = "eight") -> Transactions:
    """Eight producers at once, for a time."""
    make_topic(server, name, 8)
    return transactions_at_once([transactional(server, f"{name}-{i}") for i in range(8)], name, seconds, partitions=8)


def transactions_at_once(producers: list[Producer], topic: str, seconds: float, *, partitions: int) -> Transactions:
    """Each in a thread of its own, one-record transactions for a time."""
    commits: list[float] = []
    stop = threading.Event()

    def work(i: int) -> None:
        while not stop.is_set():
            commits.append(one_transaction(producers[i], topic, b"x" * 100, i % partitions))

    threads = [threading.Thread(target=work, args=(i,)) for i in range(len(producers))]
    started = time.perf_counter()
    for thread in threads:
        thread.start()
    stop.wait(seconds)
    stop.set()
    for thread in threads:
        thread.join()
    return Transactions([], commits, len(commits) / (time.perf_counter() - started))


def produce_rate(server: Server, size: int, name: str, total_mb: int = 60, **security: str) -> float:
    """MB/s of acknowledged records through librdkafka, into a new topic."""
    make_topic(server, name)
    producer = Producer(
        {
            "bootstrap.servers": server.bootstrap,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 1_000_000,
        }
        | dotted(security)
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


def consume_rate(server: Server, size: int, name: str, total_mb: int = 60, **security: str) -> float:
    """MB/s of records delivered to the application through librdkafka."""
    count = total_mb * 1_000_000 // size
    consumer = Consumer(
        {
            "bootstrap.servers": server.bootstrap,
            "group.id": "bench",
            "enable.auto.commit": False,
            "fetch.message.max.bytes": 4_000_000,
            "fetch.queue.backoff.ms": 5,  # librdkafka's own pause when 64 MB wait for the application: a second as it comes
        }
        | dotted(security)
    )
    consumer.assign([TopicPartition(name, 0, 0)])
    got, started = 0, time.perf_counter()
    while got < count:
        got += len(consumer.consume(min(10_000, count - got), 1.0))  # it waits for all that is asked for
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
            "fetch.queue.backoff.ms": 5,
            "enable.auto.commit": False,
        }
    )
    consumer.assign([TopicPartition(name, 0, 0)])
    got, started = 0, time.perf_counter()
    while got < expected:
        got += len(consumer.consume(min(10_000, expected - got), 1.0))
    taken = time.perf_counter() - started
    consumer.close()
    return taken


def launch(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    kinds = [oncelog, apache_kafka] if with_kafka else [oncelog]
    seconds: dict[str, list[float]] = {"oncelog": [], KAFKA: []}
    memory: dict[str, list[float]] = {"oncelog": [], KAFKA: []}
    for i in range(LAUNCHES):
        for start in kinds if i % 2 == 0 else reversed(kinds):
            with start() as server:
                seconds[server.name].append(launch_to_first_commit(server))
            with start() as server:
                time.sleep(1)
                memory[server.name].append(server.resident_mib())
    note = f"n={LAUNCHES}"
    return [
        Row(
            "launch to first committed transaction",
            "s",
            median(seconds, "oncelog"),
            median(seconds, KAFKA),
            aim="<= 0.7 s",
            note=note,
        ),
        Row(
            "idle resident memory",
            "MiB",
            median(memory, "oncelog"),
            median(memory, KAFKA),
            aim="<= 70 MiB",
            note=note,
        ),
    ]


def transactions(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(both(with_kafka))
        synced = stack.enter_context(apache_kafka(SYNCED, log_flush_interval_messages=1)) if with_kafka else None
        everyone = [*servers, synced] if synced else servers
        one = in_turn(everyone, lambda server, i: transactions_of_one(server, name=f"latency-{i}"))
        eight = in_turn(everyone, lambda server, i: transactions_of_eight(server, name=f"eight-{i}"))

    def shares(name: str) -> list[float]:
        return sorted(sample for run in one.get(name, []) for sample in run.whole)

    ours, theirs = shares("oncelog"), shares(KAFKA)
    note = f"n={len(ours)}"
    rows = [
        Row(f"one-record transaction {word} (ours synced)", "ms", percentile(ours, p), percentile(theirs, p),
            aim=aim, note=note)
        for word, p, aim in (("p50", 0.5, "<= 3 ms"), ("p99", 0.99, "<= 10 ms"))
    ]  # fmt: skip
    for what, runs in (("1 producer", one), ("8 producers", eight)):
        commits = {name: sorted(sample for run in each for sample in run.commits) for name, each in runs.items()}
        rows.append(
            Row(
                f"commit p99, {what} (ours synced)",
                "ms",
                percentile(commits["oncelog"], 0.99),
                percentile(commits.get(KAFKA, []), 0.99),
                aim=">= 2x",
                note=f"n={len(commits['oncelog'])}",
            )
        )
        rates = {name: [run.per_second for run in each] for name, each in runs.items()}
        for other, word, aim in ((KAFKA, "ours synced", ">= 2x"), (SYNCED, "both synced", ">= 5x")):
            rows.append(
                Row(
                    f"transactions/s, {what} ({word})",
                    "/s",
                    median(rates, "oncelog"),
                    median(rates, other),
                    other_name=other,
                    better="more",
                    aim=aim,
                    note=f"median of {ROUNDS}",
                )
            )
    return rows


def throughput(with_kafka: bool, wanted: Wanted) -> list[Row]:
    """Ours as Apache Kafka comes (never waiting for the disk), then as ours comes (every acknowledgement synced)."""
    rows = []
    for policy, aim in THROUGHPUT_AIMS.items():
        sizes = [size for size in TOTAL_MB if wanted(f"{policy}-{size}")]
        if sizes:
            with both(with_kafka, **({"flush_policy": policy} if policy != "fsync" else {})) as servers:
                for size in sizes:
                    rows += throughput_of(servers, size, TOTAL_MB[size], policy, aim)
    return rows


def throughput_of(servers: list[Server], size: int, total_mb: int, policy: str, aim: float) -> list[Row]:
    """Two rows: produce and consume of records of `size` bytes."""
    for server in servers:
        produce_rate(server, size, f"warm-{size}", 20)
        consume_rate(server, size, f"warm-{size}", 20)
    written = in_turn(servers, lambda server, i: produce_rate(server, size, f"mb-{size}-{i}", total_mb))
    read = in_turn(servers, lambda server, i: consume_rate(server, size, f"mb-{size}-{i}", total_mb))
    return [
        Row(
            f"{kind}, {size} B records, flush.policy={policy}",
            "MB/s",
            median(figures, "oncelog"),
            median(figures, KAFKA),
            better="more",
            aim=f">= {aim:g}x",
            note=f"median of {ROUNDS}",
            measures="librdkafka" if kind == "consume" or size == 100 else "",
        )
        for kind, figures in (("produce", written), ("consume", read))
    ]


def aborted(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    count = 10_000
    with both(with_kafka, flush_policy="os") as servers:
        for server in servers:
            fill_aborted(server, count)
        committed = in_turn(servers, lambda server, _: read_all_seconds(server, "read_committed", count))
        everything = in_turn(servers, lambda server, _: read_all_seconds(server, "read_uncommitted", 2 * count))
    note = f"median of {ROUNDS}"
    name = f"read_committed of {count:,} committed + {count:,} aborted transactions"
    ours, uncommitted = median(committed, "oncelog"), median(everything, "oncelog")
    return [
        Row(name, "s", ours, median(committed, KAFKA), note=note),
        Row("read_uncommitted of the same", "s", uncommitted, median(everything, KAFKA), note=note),
        Row(name, "s", ours, uncommitted, other_name="oncelog, read_uncommitted", aim=">= 0.67x", note=note),
    ]


def create_topics_seconds(server: Server, count: int, prefix: str) -> float:
    """One CreateTopics request with `count` topics, until all of them are answered."""
    admin = AdminClient({"bootstrap.servers": server.bootstrap})
    admin.list_topics(timeout=30)  # connected
    started = time.perf_counter()
    for future in admin.create_topics([NewTopic(f"{prefix}-{i}", 1, 1) for i in range(count)]).values():
        future.result(60)
    return time.perf_counter() - started


def whole_run(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    """A little of everything on the same pair of brokers: topics, transactions, megabytes; then how large they are."""
    count = 200
    with both(with_kafka) as servers:
        created = in_turn(servers, lambda server, i: create_topics_seconds(server, count, f"many-{i}"))
        for server in servers:
            transactions_of_one(server, name="run-one")
            transactions_of_eight(server, name="run-eight")
            for size, total_mb in TOTAL_MB.items():
                produce_rate(server, size, f"run-{size}", total_mb)
                consume_rate(server, size, f"run-{size}", total_mb)
        resident = {server.name: [server.resident_mib()] for server in servers}
    return [
        Row(f"{count} topics created", "s", median(created, "oncelog"), median(created, KAFKA), aim="<= 1 s",
            note=f"median of {ROUNDS}"),
        Row("resident memory after the whole run", "MiB", median(resident, "oncelog"), median(resident, KAFKA),
            aim=">= 3.33x", note="600 topics, 3,000 transactions and more, 460 MB"),
    ]  # fmt: skip
