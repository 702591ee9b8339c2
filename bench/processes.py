"""What `--processes N` costs or gives: the same work on one process and on several, all synced, in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from statistics import median

from bench.brokers import produce_rate, transactions_of_eight, transactions_of_one
from bench.costs import Measured, costing, cpu, figures, spending
from bench.pairs import ROUNDS, in_turn
from bench.parts import PROCESS_COUNTS, ROWS
from bench.selection import Wanted
from bench.servers import Server, oncelog
from bench.table import Row

ALONE = "oncelog"
COMMITS = 200
PRODUCED_MB = 60


def eight(server: Server, i: int) -> Measured:
    """Transactions a second, and what each cost."""
    with spending(server) as spent:
        done = transactions_of_eight(server, 3.0, f"e{i}")
    return costing(done.per_second, spent, len(done.commits))


def one(server: Server, i: int) -> Measured:
    """The median of a commit in milliseconds, and what a transaction cost."""
    with spending(server) as spent:
        done = transactions_of_one(server, COMMITS, f"o{i}")
    return costing(median(done.commits), spent, len(done.commits))


def produce(server: Server, i: int) -> Measured:
    """MB/s, and what each cost."""
    with spending(server) as spent:
        figure = produce_rate(server, 1_000, f"p{i}", PRODUCED_MB)
    return costing(figure, spent, PRODUCED_MB)


MEASURES: dict[str, tuple[str, str, str, str, Callable[[Server, int], Measured]]] = {
    "librdkafka-8": ("transactions/s of 8 producers of librdkafka", "/s", "more", "transaction", eight),
    "librdkafka-1": ("commit of 1 producer of librdkafka, p50", "ms", "less", "transaction", one),
    "produce": ("produce of 1,000 B by librdkafka, one partition", "MB/s", "more", "MB", produce),
}


def processes(with_kafka: bool, wanted: Wanted) -> list[Row]:  # noqa: ARG001
    """Each row beside one process."""
    rows: list[Row] = []
    keys = wanted.of(ROWS["processes"])
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(oncelog(ALONE))]
        servers += [stack.enter_context(oncelog(named(count), processes=count)) for count in PROCESS_COUNTS]
        for key, (what, unit, better, per, measure) in MEASURES.items():
            if key not in keys:
                continue
            measured = in_turn(servers, measure, what=key)
            found = figures(measured)
            rows += [
                Row(
                    f"--processes {count}: {what}",
                    unit,
                    median(found[named(count)]),
                    median(found[ALONE]),
                    other_name="one process",
                    better=better,
                    note=f"median of {ROUNDS}",
                    cpu=cpu(measured, named(count), ALONE, per),
                )
                for count in PROCESS_COUNTS
            ]
    return rows


def named(count: int) -> str:
    """A server of several processes."""
    return f"oncelog, {count} processes"
