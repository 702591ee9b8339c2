"""Our client on both brokers: transactions of many producers at once, consume-transform-produce, and how old a record is
when its reader has it. Ours syncs every acknowledgement, Apache Kafka as it comes and once more with a sync for each."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from bisect import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench import frames, pipe
from bench.costs import Measured, Spent, cpu, figures, rate, spending
from bench.pairs import KAFKA, OURS, ROUNDS, both, in_turn, median, percentile
from bench.parts import MESSAGE_RATES, PRODUCER_COUNTS, ROWS
from bench.selection import Wanted
from bench.servers import Server, apache_kafka, oncelog
from bench.sockets import create, now_ms, reply_size
from bench.table import Cpu, Row
from oncelog import Consumer, Producer, TopicPartition

SYNCED = f"{KAFKA}, log.flush.interval.messages=1"
WITHOUT_DISK = f"{OURS}, flush.policy=os"
SECONDS = 4.0
WARM_UP_S = 0.5
VALUE = b"x" * 100
RECORDS_PER_TRANSACTION = 100  # of consume-transform-produce
INPUT_RECORDS = 400_000
LATENCY_S = 5.0
TICK_S = 0.001


@contextlib.contextmanager
def everyone(with_kafka: bool, *, without_disk: bool) -> Iterator[list[Server]]:
    """oncelog and Apache Kafka as they come, and each the other way round."""
    with contextlib.ExitStack() as stack:
        servers = stack.enter_context(both(with_kafka))
        if without_disk:
            servers = [*servers, stack.enter_context(oncelog(WITHOUT_DISK, flush_policy="os"))]
        elif with_kafka:
            servers = [*servers, stack.enter_context(apache_kafka(SYNCED, log_flush_interval_messages=1))]
        yield servers


# transactions


async def _commits(producer: Producer, topic: str, partition: int, ends: float) -> int:
    done = 0
    while time.perf_counter() < ends:
        producer.begin_transaction()
        await producer.send(topic, VALUE, partition=partition)
        await producer.commit_transaction()
        done += 1
    return done


async def _transactions(server: Server, topic: str, count: int) -> Measured:
    async with contextlib.AsyncExitStack() as stack:
        producers = [
            await stack.enter_async_context(
                Producer(bootstrap_servers=server.bootstrap, transactional_id=f"{topic}-{i}", linger_ms=0)
            )
            for i in range(count)
        ]

        async def all_for(seconds: float) -> int:
            ends = time.perf_counter() + seconds
            works = (_commits(each, topic, i, ends) for i, each in enumerate(producers))
            return sum(await asyncio.gather(*works))

        await all_for(WARM_UP_S)
        with spending(server) as spent:
            done = await all_for(SECONDS)
    return rate(spent, done)


def transactions_of_ours(server: Server, topic: str, count: int) -> Measured:
    """Transactions of one record a second, of `count` producers of ours with a partition each."""
    create(server, topic, count)
    return asyncio.run(_transactions(server, topic, count))


# consume, transform, produce


async def _transform(server: Server, source: str, target: str, group: str) -> Measured:
    name = f"{target}-transform"
    async with (
        Consumer(
            source,
            bootstrap_servers=server.bootstrap,
            group_id=group,
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
        ) as consumer,
        Producer(bootstrap_servers=server.bootstrap, transactional_id=name) as producer,
    ):
        while not (records := await consumer.poll(max_records=RECORDS_PER_TRANSACTION)):
            pass

        async def transform(seconds: float) -> int:
            nonlocal records
            done, ends = 0, time.perf_counter() + seconds
            while time.perf_counter() < ends:
                producer.begin_transaction()
                for record in records:
                    await producer.send(target, record.value, partition=0)
                at = {TopicPartition(source, 0): records[-1].offset + 1}
                await producer.send_offsets_to_transaction(at, consumer.group_metadata())
                await producer.commit_transaction()
                done += 1
                records = await consumer.poll(max_records=RECORDS_PER_TRANSACTION)
                if not records:
                    raise RuntimeError("the input was too short")
            return done

        await transform(WARM_UP_S)
        with spending(server) as spent:
            done = await transform(SECONDS)
    return rate(spent, done)


def fill(server: Server, topic: str, count: int) -> None:
    """`count` records of 100 B in one partition."""
    create(server, topic)
    frame = frames.produce(topic, 0, [VALUE] * 1_000, now_ms())
    expected = reply_size(server, frame)
    pipe.pump(server, [[frame] * (count // 1_000 - 1)], 5, expected)


def transform_rate(server: Server, source: str, run: int) -> Measured:
    """Transactions a second: 100 records read, sent on, and the positions with them."""
    target = f"transformed-{run}"
    create(server, target)
    return asyncio.run(_transform(server, source, target, f"transform-{run}"))


# end to end


@dataclass(frozen=True)
class Ages:
    """How old each record was when its reader had it, in ms, sorted; what it all cost."""

    ms: list[float]
    spent: Spent

    def __str__(self) -> str:
        return f"p50 {percentile(self.ms, 0.5):.2f} ms, p99 {percentile(self.ms, 0.99):.2f} ms"


def _tell_dues(dues: Sequence[float], tell: Callable[[Sequence[float]], object], stop: threading.Event) -> None:
    """`tell` those times that have come, from a thread of its own: a loop's timers ring up to a millisecond late."""
    told = 0
    while told < len(dues) and not stop.wait(max(dues[told] - time.perf_counter(), 0)):
        come = max(bisect(dues, time.perf_counter()), told + 1)
        tell(dues[told:come])
        told = come
        time.sleep(TICK_S)  # not more often: two threads of Python get into each other's way


async def _send_at_rate(producer: Producer, topic: str, per_second: int, count: int) -> None:
    """Each record at its time, which it holds: one that leaves late, because something held the sender, is older."""
    come: asyncio.Queue[Sequence[float]] = asyncio.Queue()
    loop, stop, begun = asyncio.get_running_loop(), threading.Event(), time.perf_counter()

    def tell(dues: Sequence[float]) -> None:
        loop.call_soon_threadsafe(come.put_nowait, dues)

    ticking = threading.Thread(target=_tell_dues, args=([begun + i / per_second for i in range(count)], tell, stop))
    ticking.start()
    try:
        while count:
            for due in await come.get():
                await producer.send(topic, b"%020d" % int(due * 1e9) + b"x" * 80, partition=0)
                count -= 1
    finally:
        stop.set()
        ticking.join()


async def _ages(server: Server, topic: str, per_second: int) -> Ages:
    count, warm = int(per_second * LATENCY_S), int(per_second * WARM_UP_S)
    where = TopicPartition(topic, 0)
    ages: list[float] = []
    async with (
        Producer(bootstrap_servers=server.bootstrap, linger_ms=0) as producer,
        Consumer(bootstrap_servers=server.bootstrap, enable_auto_commit=False) as consumer,
    ):
        consumer.assign([where])
        consumer.seek(where, 0)
        with spending(server) as spent:
            sending = asyncio.create_task(_send_at_rate(producer, topic, per_second, count + warm))
            while len(ages) < count + warm:
                for record in await consumer.poll():
                    ages.append((time.perf_counter() - int(record.value[:20]) / 1e9) * 1000)
            await sending
    return Ages(sorted(ages[warm:]), spent)


def ages_at(server: Server, topic: str, per_second: int) -> Ages:
    """Of records of 100 B that are sent at a rate, by one producer, and read by one consumer."""
    create(server, topic)
    return asyncio.run(_ages(server, topic, per_second))


# rows


def our_transactions(with_kafka: bool, wanted: Wanted) -> list[Row]:
    """One to 64 producers of ours, and consume-transform-produce."""
    rows: list[Row] = []
    keys = wanted.of(ROWS["our-transactions"])
    with everyone(with_kafka, without_disk=False) as servers:
        for count in PRODUCER_COUNTS:
            key = f"producers-{count}"
            if key in keys:
                measured = in_turn(
                    servers, lambda server, i, n=count: transactions_of_ours(server, f"t{n}-{i}", n), what=key
                )
                rows += _pairs(f"transactions/s of {count} producer{'s' * (count > 1)} of ours", "txn", measured)
        if "transform" in keys:
            for server in servers:
                fill(server, "source", INPUT_RECORDS)
            measured = in_turn(servers, lambda server, i: transform_rate(server, "source", i), what="transform")
            what = f"consume-transform-produce, transactions/s of {RECORDS_PER_TRANSACTION} records with offsets"
            rows += _pairs(what, "txn", measured)
    return rows


def _pairs(what: str, per: str, measured: dict[str, list[Measured]]) -> list[Row]:
    found = figures(measured)
    return [
        Row(
            f"{what} ({word})",
            "/s",
            median(found, OURS),
            median(found, other),
            other_name=other,
            better="more",
            aim=aim,
            note=f"median of {ROUNDS}",
            cpu=cpu(measured, OURS, other, per),
        )
        for other, word, aim in ((KAFKA, "ours synced", ">= 1x"), (SYNCED, "both synced", ">= 5x"))
        if other in measured or other == KAFKA
    ]


def end_to_end(with_kafka: bool, wanted: Wanted) -> list[Row]:
    """From the time a record was to be sent to its reader's having it."""
    rows: list[Row] = []
    with everyone(with_kafka, without_disk=True) as servers:
        for per_second in MESSAGE_RATES:
            if not wanted(f"rate-{per_second}"):
                continue

            def measure(server: Server, i: int, per_second: int = per_second) -> Ages:
                return ages_at(server, f"e{per_second}-{i}", per_second)

            measured = in_turn(servers, measure, what=f"rate-{per_second}")
            rows += [
                _latency_row(measured, per_second, word, share, ours)
                for ours in (OURS, WITHOUT_DISK)
                for word, share in (("p50", 0.5), ("p99", 0.99))
            ]
    return rows


def _latency_row(measured: dict[str, list[Ages]], per_second: int, word: str, share: float, ours: str) -> Row:
    def middle(of: Callable[[Ages], float | None], name: str) -> float | None:
        rounds = measured.get(name)
        return sorted(of(each) or 0.0 for each in rounds)[len(rounds) // 2] if rounds else None

    def age(each: Ages) -> float | None:
        return percentile(each.ms, share)

    def broker_us(each: Ages) -> float:
        return each.spent.broker_s / len(each.ms) * 1e6

    def client_us(each: Ages) -> float:
        return each.spent.client_s / len(each.ms) * 1e6

    costs = (middle(of, name) for of in (broker_us, client_us) for name in (ours, KAFKA))
    count = len(measured[ours][0].ms)
    return Row(
        f"end to end at {per_second:,} messages/s, {word} ({'ours synced' if ours == OURS else 'flush.policy=os'})",
        "ms",
        middle(age, ours),
        middle(age, KAFKA),
        aim=">= 1x",
        note=f"median of {ROUNDS}, n={count:,} each",
        cpu=Cpu("message", *costs),
    )
