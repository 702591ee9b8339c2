"""`make spark-ids`: the sink's protocol, without Spark, for as many micro-batches as it is told; what they leave is counted.

A day of batches at 208 ms each is 415,000. Every tenth batch has an attempt that loses (speculation, a failed task). What a day
may not do is grow: transactional ids of the broker, producers that its partitions remember, decisions that are known, and the
broker's memory are counted at ten moments. Exit status 1 where ids or decisions are more at the last of them than at the second,
a transaction is open, or a batch is missing in the output. Producers are told only: an id whose epochs are used up (KIP-360)
goes on with another producer id.
"""

import argparse
import logging
import sys
import time
import uuid
from dataclasses import dataclass

import pyarrow as pa
from bench.servers import Server, oncelog

from evidence.world.committed import committed_values
from oncelog import sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import TransactionalIds
from oncelog.spark.backend import choose_backend
from oncelog.spark.committer import Committer
from oncelog.spark.decision_store import TopicDecisionStore
from oncelog.spark.options import sink_options
from oncelog.spark.writer import write_attempt
from oncelog.types import TopicPartition

TASKS, LOSES_ONE_IN, MOMENTS, ROWS = 2, 10, 10, 10
DAY_OF_BATCHES = 86_400_000 // 208
QUERY = "a-day"


@dataclass(frozen=True)
class Left:
    """What is on the broker at one moment."""

    batches: int
    transactional_ids: int
    producers: int
    decisions: int
    open_transactions: int
    memory_mib: float

    def __str__(self) -> str:
        return (
            f"{self.batches:,} batches: {self.transactional_ids} transactional ids, {self.producers} producers in partitions, "
            f"{self.decisions} decisions known, {self.open_transactions} open, {self.memory_mib:.0f} MiB"
        )


class Day:
    """One query, its driver and two tasks, in this process; the broker in one of its own."""

    def __init__(self, broker: Server, backend: str) -> None:
        self.broker, servers = broker, broker.bootstrap
        self.admin = sync.Admin(bootstrap_servers=servers)
        self.admin.start()
        self.admin.create_topics({"out": TASKS})
        self.options = sink_options({"bootstrap.servers": servers, "topic": "out", "backend": backend})
        self.backend = choose_backend(self.options)
        self.store = TopicDecisionStore(self.options.client, self.options.decision_topic)
        self.committer = Committer(self.options, self.store)
        self.workers = [TransactionalIds(uuid.uuid4().hex) for _ in range(TASKS)]
        self.run_id = uuid.uuid4().hex

    def attempt(self, batch: int, task: int) -> sink.Attempt:
        """Rows that say their batch, by the worker that has this task."""
        name = self.workers[task].lease("oncelog-spark", QUERY, sink.run_start(self.run_id), batch)
        values = pa.array([b"%d/%d/%d" % (batch, task, row) for row in range(ROWS)], pa.binary())
        return write_attempt(self.options, self.backend, name, iter([pa.RecordBatch.from_pydict({"value": values})]))

    def run(self, batch: int) -> None:
        """As Spark runs it."""
        if batch % LOSES_ONE_IN == 0:
            self.attempt(batch, 0)
        winners = [self.attempt(batch, task) for task in range(TASKS)]
        self.committer.commit(QUERY, str(batch), self.run_id, winners, self.backend)

    def left(self, batches: int) -> Left:
        """What there is now."""
        listed = [each for each in self.admin.list_transactions() if f".{QUERY}." in each.transactional_id]
        remembered = self.admin.describe_producers([TopicPartition("out", task) for task in range(TASKS)])
        return Left(
            batches=batches,
            transactional_ids=len(listed),
            producers=sum(len(each) for each in remembered.values()),
            decisions=len(self.store.decided(QUERY)),
            open_transactions=sum(each.state == "Ongoing" for each in listed),
            memory_mib=self.broker.resident_mib(),
        )

    def close(self) -> None:
        """Its clients."""
        self.committer.close()
        self.store.close()
        self.admin.stop()


def run(day: Day, batches: int) -> tuple[list[Left], list[str]]:
    """The batches; what was left at each moment, and what is wrong at the end."""
    moments, started, every = list[Left](), time.monotonic(), max(batches // MOMENTS, 1)
    for batch in range(batches):
        day.run(batch)
        if (batch + 1) % every == 0:
            moments.append(day.left(batch + 1))
            print(f"[{time.monotonic() - started:5.0f} s] {moments[-1]}", file=sys.stderr, flush=True)
    second, last = moments[min(1, len(moments) - 1)], moments[-1]
    wrong = [
        f"{name} grew from {getattr(second, name)} to {getattr(last, name)}"
        for name in ("transactional_ids", "decisions")
        if getattr(last, name) > getattr(second, name)
    ]
    if last.open_transactions:
        wrong.append(f"{last.open_transactions} transactions are open")
    seen = committed_values(day.broker.bootstrap, "out")
    expected = batches * TASKS * ROWS
    if len(seen) != expected or len(set(seen)) != expected:
        wrong.append(f"{len(seen):,} rows, {len(set(seen)):,} of them different, {expected:,} were written")
    return moments, wrong


def main() -> int:
    parser = argparse.ArgumentParser(prog="make spark-ids")
    parser.add_argument("--batches", type=int, default=20_000, help=f"a day of them is {DAY_OF_BATCHES:,}")
    parser.add_argument("--backend", choices=["prepared", "resumed"], default="prepared")
    options = parser.parse_args()
    logging.getLogger("oncelog.spark").setLevel(logging.ERROR)  # each sweep has a line
    with oncelog(transaction_two_phase_commit_enable="true") as broker:
        day = Day(broker, options.backend)
        try:
            moments, wrong = run(day, options.batches)
        finally:
            day.close()
    for each in wrong:
        print(f"spark-ids: {each}", file=sys.stderr)
    print(f"spark-ids: {moments[-1]}; after a tenth of them {moments[0]}; {len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
