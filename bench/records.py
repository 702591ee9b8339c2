"""Records one at a time: our verbs and those of `oncelog.sync` beside confluent-kafka and aiokafka, on the same brokers."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from bench.clients import poll_each, send_each, their_consume, their_produce
from bench.costs import Measured, cpu, figures, rate, spending
from bench.pairs import both, in_turn, median
from bench.parts import ROWS
from bench.selection import Wanted
from bench.servers import Server
from bench.sockets import create
from bench.table import Cpu, Row
from oncelog import Producer, TopicPartition, errors, sync

SENT = 300_000
READ = 500_000
SIZE_BYTES = 100
YIELD_EVERY = 1_000  # records: nothing leaves while the loop does not run
NOT_BUILT = "not built"
OURS = "ours"
ROUNDS = 5

WouldBlock: type[Exception] = getattr(errors, "WouldBlock", BufferError)
Work = Callable[[Server, str, int], None]


def has_send_nowait() -> bool:
    """Whether this tree's producer can send without an await."""
    return hasattr(Producer, "send_nowait")


def send_nowait(server: Server, topic: str, count: int) -> None:
    """`count` records through our producer without an await for each; with one where it would have to wait."""

    async def send() -> None:
        async with Producer(bootstrap_servers=server.bootstrap, batch_size=1_000_000, linger_ms=20) as producer:
            value = b"x" * SIZE_BYTES
            await producer.send(topic, value, partition=0)  # it knows the topic now
            now: Any = producer.send_nowait  # type: ignore[attr-defined, unused-ignore]
            for i in range(1, count):
                try:
                    now(topic, value, partition=0)
                except WouldBlock:
                    await producer.send(topic, value, partition=0)
                if i % YIELD_EVERY == 0:
                    await asyncio.sleep(0)
            await producer.flush()

    asyncio.run(send())


def sync_send(server: Server, topic: str, count: int) -> None:
    """`count` records through our blocking producer's `send`."""
    with sync.Producer(bootstrap_servers=server.bootstrap, batch_size=1_000_000, linger_ms=20) as producer:
        value = b"x" * SIZE_BYTES
        for _ in range(count):
            producer.send(topic, value, partition=0)
        producer.flush()


@contextmanager
def _from_the_start(server: Server, topic: str) -> Iterator[sync.Consumer]:
    with sync.Consumer(bootstrap_servers=server.bootstrap, enable_auto_commit=False) as consumer:
        where = TopicPartition(topic, 0)
        consumer.assign([where])
        consumer.seek(where, 0)
        yield consumer


def sync_poll(server: Server, topic: str, count: int) -> None:
    """Read `count` records through our blocking consumer's `poll`, looking at each value."""
    with _from_the_start(server, topic) as consumer:
        got = 0
        while got < count:
            got += sum(1 for record in consumer.poll(max_records=10_000) if record.value is not None)


def sync_iteration(server: Server, topic: str, count: int) -> None:
    """Read `count` records by iterating our blocking consumer, looking at each value."""
    with _from_the_start(server, topic) as consumer:
        got = 0
        for record in consumer:
            got += record.value is not None
            if got == count:
                break


def aiokafka_send(server: Server, topic: str, count: int) -> None:
    """`count` records through aiokafka's `send`."""
    from aiokafka import AIOKafkaProducer

    async def send() -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=server.bootstrap, max_batch_size=1_000_000, linger_ms=20, acks="all"
        )
        await producer.start()
        try:
            for _ in range(count):
                await producer.send(topic, b"x" * SIZE_BYTES, partition=0)
            await producer.flush()
        finally:
            await producer.stop()

    asyncio.run(send())


def aiokafka_poll(server: Server, topic: str, count: int) -> None:
    """Read `count` records through aiokafka's `getmany`, looking at each value."""
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> None:
        consumer = AIOKafkaConsumer(bootstrap_servers=server.bootstrap, enable_auto_commit=False)
        await consumer.start()
        try:
            where = TopicPartition(topic, 0)
            consumer.assign([where])
            consumer.seek(where, 0)
            got = 0
            while got < count:
                found = await consumer.getmany(timeout_ms=1_000, max_records=10_000)
                got += sum(1 for each in found.values() for record in each if record.value is not None)
        finally:
            await consumer.stop()

    asyncio.run(read())


@dataclass(frozen=True)
class Pair:
    """One of our verbs beside another client's; `work` is None where this tree has no such verb."""

    verb: str
    work: Work | None
    other_name: str
    other: Work
    aim: str


def pairs(key: str) -> list[Pair]:
    """What is compared for a row's key: confluent-kafka always, aiokafka with what is not blocking, where it is installed."""
    work, aim = {
        "send": (send_each, ">= 1x"),
        "send_nowait": (send_nowait if has_send_nowait() else None, ">= 2x"),
        "sync-send": (sync_send, ">= 1x"),
        "poll": (poll_each, ">= 1.5x"),
        "sync-poll": (sync_poll, ">= 1x"),
        "sync-iteration": (sync_iteration, ">= 1x"),
    }[key]
    is_reader = is_reading(key)
    found = [
        Pair(
            key,
            work,
            f"confluent-kafka {'consume()' if is_reader else 'produce()'}",
            their_consume if is_reader else their_produce,
            aim,
        )
    ]
    if find_spec("aiokafka") and not key.startswith("sync"):  # it has no blocking verbs
        name, other = ("getmany()", aiokafka_poll) if is_reader else ("send()", aiokafka_send)
        found.append(Pair(key, work, f"aiokafka {name}", other, ">= 2x"))
    return found


def is_reading(key: str) -> bool:
    """Whether a row's key is of a verb that reads."""
    return key not in ("send", "send_nowait", "sync-send")


def records(with_kafka: bool, wanted: Wanted) -> list[Row]:
    """Records a second of each verb, with CPU per record; on oncelog with flush.policy=os and on Apache Kafka."""
    rows: list[Row] = []
    keys = wanted.of(ROWS["records"])
    with both(with_kafka, flush_policy="os") as servers:
        for server in servers:
            create(server, "sent")
            create(server, "read")
            if any(map(is_reading, keys)):
                their_produce(server, "read", READ)
        for key in keys:
            rows += _rows_of(servers, key)
    return rows


def _rows_of(servers: list[Server], key: str) -> list[Row]:
    topic, count = ("read", READ) if is_reading(key) else ("sent", SENT)
    compared = pairs(key)
    works = {pair.other_name: pair.other for pair in compared}
    if compared[0].work is not None:
        works = {OURS: compared[0].work, **works}
    found = measured_in_turn(servers, works, topic, count, key)
    return [
        row(server.name, pair, found.get(OURS, {}), found[pair.other_name], has_aim=server is servers[0])
        for pair in compared
        for server in servers
    ]


def measured_in_turn(
    servers: Sequence[Server], works: Mapping[str, Work], topic: str, count: int, what: str
) -> dict[str, dict[str, list[Measured]]]:
    """Records a second, by client and broker: in each round one client after another, so that a busy while hurts all of them."""

    def measure(server: Server, i: int) -> dict[str, Measured]:
        found = {}
        for name in list(works) if i % 2 == 0 else reversed(list(works)):
            os.sync()  # the disk is not to work on what an earlier round left in the page cache
            with spending(server) as spent:
                works[name](server, topic, count)
            found[name] = rate(spent, count)
            print(f"bench: {what}, round {i + 1}, {server.name}: {name} {found[name]}", file=sys.stderr, flush=True)
        return found

    rounds = in_turn(list(servers), measure, ROUNDS)
    return {name: {server: [each[name] for each in rounds[server]] for server in rounds} for name in works}


def row(
    server: str, pair: Pair, mine: dict[str, list[Measured]], others: dict[str, list[Measured]], *, has_aim: bool
) -> Row:
    """One client beside another on one broker; what is not built says so."""
    ours, theirs = cpu(mine, server, server, "record"), cpu(others, server, server, "record")
    return Row(
        f"our client on {server}: {pair.verb}, a record at a time",
        "rows/s",
        median(figures(mine), server),
        median(figures(others), server),
        other_name=pair.other_name,
        better="more",
        aim=pair.aim if has_aim else "",
        note=f"median of {ROUNDS}" if mine else NOT_BUILT,
        cpu=Cpu("record", ours.broker_us, theirs.broker_us, ours.client_us, theirs.client_us),
    )
