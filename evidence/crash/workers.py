"""The load: one process per worker, `python -m evidence.crash.workers KIND NUMBER BOOTSTRAP FOLDER [LIFE]`, until SIGTERM.

tv2 and tv1: transactions of oncelog's own client, tv1 with the old protocol; confluent: librdkafka's; idempotent: records
outside transactions; copy: consumed positions inside transactions; two_phase: SQLite decides; reader: read_committed.
Each line of a journal is written when the worker is told: acknowledged, aborted for certain, or unknown.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import pathlib
import random
import signal
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from typing import Any

from evidence.crash.journal import Journal, send_step
from oncelog import Consumer, OffsetAndMetadata, PreparedTxnState, Producer, TopicPartition
from oncelog.errors import KafkaError

TOPICS = {"crash.txn": 4, "crash.plain": 2, "crash.in": 2, "crash.out": 2, "crash.two": 2, "crash.probe": 1}
GROUP = "crash-copier"
VALUES_PER_WORKER = 100_000_000
ATTEMPTS = 10**7  # a copied value is its original * ATTEMPTS + the number of the attempt
ATTEMPTS_PER_LIFE = 10**5
LIVES = 100  # a worker that was killed is followed by another life: number + LIVES, + 2 * LIVES, ...
DECISIONS = "CREATE TABLE IF NOT EXISTS decision (transactional_id TEXT, state TEXT, commits INT, is_done INT)"
log = logging.getLogger("crash")


class Unknown(Exception):
    """The outcome cannot be known, and this producer is over."""


class Worker:
    """What all workers share."""

    def __init__(self, kind: str, number: int, bootstrap: str, folder: pathlib.Path, life: int = 0) -> None:
        number += life * LIVES
        self.kind, self.number, self.bootstrap, self.folder, self.life = kind, number, bootstrap, folder, life
        self.random = random.Random(f"{kind} {number}")
        self.journal = Journal(folder / f"{kind}{f'-{life}' if life else ''}.jsonl", number)
        self.is_stopped = False
        self._next_value = number * VALUES_PER_WORKER

    def value(self) -> int:
        self._next_value += 1
        return self._next_value

    def records(self, topics: tuple[str, ...]) -> list[tuple[str, int, int]]:
        """One to six records of a transaction, over one to three partitions: (topic, partition, value)."""
        places = [(topic, self.random.randrange(TOPICS[topic])) for topic in self.random.choices(topics, k=3)]
        return [(*self.random.choice(places), self.value()) for _ in range(self.random.randint(1, 6))]

    def producer(self, **config: Any) -> Producer:
        producer = Producer(bootstrap_servers=self.bootstrap, linger_ms=0, retry_backoff_ms=20, **config)
        if self.kind == "tv1":
            manager = producer._manager
            note, manager.note_features = manager.note_features, lambda at, level: note(at, min(level, 1))
        return producer


def payload(worker: Worker, value: int) -> bytes:
    return b"%d" % value + b" " * worker.random.randrange(200)


def steps_of(records: list[tuple[str, int, int]], offsets: list[int | None] | None = None) -> list[Any]:
    known = offsets or [None] * len(records)
    return [send_step(f"{t}-{p}", v, at) for (t, p, v), at in zip(records, known, strict=True)]


async def send_all(worker: Worker, producer: Producer, records: list[tuple[str, int, int]]) -> list[Any]:
    return [
        await producer.send(topic, payload(worker, value), partition=partition) for topic, partition, value in records
    ]


def offsets_of(deliveries: list[Any], count: int) -> list[int | None]:
    """The offsets that acknowledgements named."""
    found: list[int | None] = []
    for delivery in deliveries:
        try:
            found.append(delivery.result().offset if delivery.done() else None)
        except KafkaError:
            found.append(None)
    return [at if at is not None and at >= 0 else None for at in found] + [None] * (count - len(found))


async def until_known(complete: Callable[[], Awaitable[Any]]) -> None:
    """`complete`, again and again while it only timed out. Raises KafkaError."""
    while True:
        try:
            await complete()
            return
        except KafkaError as error:
            if not error.retriable or error.abortable:
                raise


async def one_transaction(
    worker: Worker,
    producer: Producer,
    records: list[tuple[str, int, int]],
    *,
    commits: bool,
    before_end: Callable[[], Awaitable[Any]] | None = None,
    steps: Callable[[list[int | None] | None], list[Any]] | None = None,
) -> str:
    """Run it and write it down; "ok" or "fail" for committed and aborted. Raises Unknown."""
    write = steps or (lambda offsets: steps_of(records, offsets))
    worker.journal.write("invoke", write(None))
    deliveries: list[Any] = []
    outcome = "info"
    try:
        producer.begin_transaction()
        try:
            deliveries = await send_all(worker, producer, records)
            if before_end is not None:
                await before_end()
            if commits:
                await until_known(producer.commit_transaction)
                outcome = "ok"
            else:
                await producer.flush()
        except KafkaError as error:
            if error.fatal:
                raise
            log.warning("%s: aborting after %s: %s", worker.kind, type(error).__name__, error)
        if outcome != "ok":
            await until_known(producer.abort_transaction)
            outcome = "fail"
    except KafkaError as error:
        log.error("%s: producer is over: %s: %s", worker.kind, type(error).__name__, error)
        raise Unknown from error
    finally:
        worker.journal.write(outcome, write(offsets_of(deliveries, len(records))))
    return outcome


async def transactional(worker: Worker) -> None:
    """tv2, tv1: transactions, one in five aborted."""
    topics = ("crash.txn", "crash.in") if worker.kind == "tv2" else ("crash.txn",)
    while not worker.is_stopped:
        async with worker.producer(transactional_id=f"crash-{worker.kind}") as producer:
            try:
                while not worker.is_stopped:
                    commits = worker.random.random() < 0.8
                    await one_transaction(worker, producer, worker.records(topics), commits=commits)
            except Unknown:
                continue


async def idempotent(worker: Worker) -> None:
    """Eight records in flight, each an operation of its own."""
    async with worker.producer() as producer:

        async def one_slot(slot: int) -> None:
            while not worker.is_stopped:
                record = ("crash.plain", worker.random.randrange(2), worker.value())
                worker.journal.write("invoke", steps_of([record]), slot)
                try:
                    (delivery,) = await send_all(worker, producer, [record])
                    worker.journal.write("ok", steps_of([record], [(await delivery).offset]), slot)
                except KafkaError as error:
                    log.error("idempotent: unknown outcome: %s: %s", type(error).__name__, error)
                    worker.journal.write("info", steps_of([record]), slot)
                    return
                await asyncio.sleep(worker.random.uniform(0, 0.01))

        async with asyncio.TaskGroup() as slots:
            for slot in range(8):
                slots.create_task(one_slot(slot))


async def copy(worker: Worker) -> None:
    """Read committed records, write each once, and commit the positions in the same transaction."""
    places = [TopicPartition("crash.in", partition) for partition in range(TOPICS["crash.in"])]
    attempt = worker.life * ATTEMPTS_PER_LIFE
    consumer = Consumer(
        bootstrap_servers=worker.bootstrap,
        group_id=GROUP,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
    )
    consumer.assign(places)
    async with consumer:
        while not worker.is_stopped:
            async with worker.producer(transactional_id="crash-copy") as producer:
                try:
                    await rewind(consumer, places)
                    while not worker.is_stopped:
                        attempt += 1
                        found = await consumer.poll(timeout_ms=100, max_records=20)
                        if found and await copy_once(worker, producer, found, attempt) != "ok":
                            await rewind(consumer, places)
                except Unknown:
                    continue


async def rewind(consumer: Consumer, places: list[TopicPartition]) -> None:
    """Back to the committed positions."""
    committed = await consumer.committed(places)
    for place in places:
        consumer.seek(place, committed[place].offset if place in committed else 0)


async def copy_once(worker: Worker, producer: Producer, found: list[Any], attempt: int) -> str:
    records = [("crash.out", record.partition, int(record.value) * ATTEMPTS + attempt) for record in found]
    ends = {record.topic_partition: OffsetAndMetadata(record.offset + 1) for record in found}
    return await one_transaction(
        worker,
        producer,
        records,
        commits=worker.random.random() < 0.9,
        before_end=lambda: producer.send_offsets_to_transaction(ends, GROUP),
    )


async def two_phase(worker: Worker) -> None:
    """SQLite decides: the state of a prepared transaction and its decision are one row, then the log follows.

    Now and then the client "dies" between the two; at the end it leaves two transactions prepared, one of each decision.
    """
    with contextlib.closing(sqlite3.connect(worker.folder / "decisions.sqlite3", isolation_level=None)) as database:
        database.execute("PRAGMA journal_mode=WAL")
        database.execute(DECISIONS)
        while not worker.is_stopped:
            await two_phase_life(worker, database, "crash-two")
        for commits in (True, False):
            name = f"crash-left-{commits}"
            producer = worker.producer(transactional_id=name, transaction_two_phase_commit_enable=True)
            async with producer:
                await prepare_and_decide(worker, producer, database, name, commits=commits)


async def two_phase_life(worker: Worker, database: sqlite3.Connection, name: str) -> None:
    """One instance of the client: finish what the last one left, then go on until it "dies"."""
    async with worker.producer(transactional_id=name, transaction_two_phase_commit_enable=True) as producer:
        await finish_left(producer, database, name)
        while not worker.is_stopped:
            commits = worker.random.random() < 0.7
            if await prepare_and_decide(worker, producer, database, name, commits=commits):
                if worker.random.random() < 0.1:
                    return
                await finish_left(producer, database, name)


async def finish_left(producer: Producer, database: sqlite3.Connection, name: str) -> None:
    """Let the log follow every decision that it has not followed yet."""
    query = "SELECT rowid, state, commits FROM decision WHERE transactional_id = ? AND is_done = 0"
    for row, state, commits in database.execute(query, (name,)).fetchall():
        wanted = PreparedTxnState(state if commits else "")
        await until_known(lambda wanted=wanted: producer.complete_transaction(wanted))
        database.execute("UPDATE decision SET is_done = 1 WHERE rowid = ?", (row,))
    if producer.prepared_state:
        await until_known(lambda: producer.complete_transaction(PreparedTxnState("")))  # killed before it was decided


async def prepare_and_decide(
    worker: Worker, producer: Producer, database: sqlite3.Connection, name: str, *, commits: bool
) -> bool:
    """After the row is there the outcome is certain, whoever dies: so the journal says ok or fail. False: aborted."""
    records = worker.records(("crash.two",))
    worker.journal.write("invoke", steps_of(records))
    producer.begin_transaction()
    try:
        deliveries = await send_all(worker, producer, records)
        state = str(await producer.prepare_transaction())
    except KafkaError as error:
        log.warning("two_phase: aborting after %s: %s", type(error).__name__, error)
        await until_known(producer.abort_transaction)
        worker.journal.write("fail", steps_of(records))
        return False
    database.execute("INSERT INTO decision VALUES (?, ?, ?, 0)", (name, state, commits))
    worker.journal.write("ok" if commits else "fail", steps_of(records, offsets_of(deliveries, len(records))))
    return True


async def reader(worker: Worker) -> None:
    """Read everything read_committed while it is written and the broker dies."""
    places = [TopicPartition(topic, partition) for topic, count in TOPICS.items() for partition in range(count)]
    config = {"isolation_level": "read_committed", "auto_offset_reset": "earliest"}
    consumer = Consumer(bootstrap_servers=worker.bootstrap, **config)
    consumer.assign(places)
    worker.journal.write("ok", [str(place) for place in places], function="assign")
    async with consumer:
        while not worker.is_stopped:
            worker.journal.write("invoke", [["poll"]])
            polled: dict[str, list[list[int]]] = {}
            for record in await consumer.poll(timeout_ms=200):
                polled.setdefault(str(record.topic_partition), []).append([record.offset, int(record.value)])
            worker.journal.write("ok", [["poll", polled]])


KINDS: dict[str, Callable[[Worker], Awaitable[None]]] = {
    "tv2": transactional,
    "tv1": transactional,
    "idempotent": idempotent,
    "copy": copy,
    "two_phase": two_phase,
    "reader": reader,
}


def main() -> None:
    kind, number, bootstrap, folder, *life = sys.argv[1:]
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s %(message)s")
    worker = Worker(kind, int(number), bootstrap, pathlib.Path(folder), int(life[0]) if life else 0)

    def stop(*_: object) -> None:
        worker.is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    if kind == "confluent":
        from evidence.crash.confluent_worker import work

        work(worker)
    else:
        asyncio.run(KINDS[kind](worker))
    worker.journal.close()


if __name__ == "__main__":
    main()
