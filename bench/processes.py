"""What `--processes N` costs or gives: the same work on one process and on several, all synced, in turn."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from statistics import median

from bench.brokers import produce_rate, transactions_of_eight, transactions_of_one
from bench.pairs import ROUNDS, in_turn
from bench.parts import PROCESS_COUNTS, ROWS
from bench.selection import Wanted
from bench.servers import Server, oncelog
from bench.table import Row

ALONE = "oncelog"
MEASURES: dict[str, tuple[str, str, str, Callable[[Server, int], float]]] = {
    "librdkafka-8": (
        "transactions/s of 8 producers of librdkafka",
        "/s",
        "more",
        lambda server, i: transactions_of_eight(server, 3.0, f"e{i}").per_second,
    ),
    "librdkafka-1": (
        "commit of 1 producer of librdkafka, p50",
        "ms",
        "less",
        lambda server, i: median(transactions_of_one(server, 200, f"o{i}").commits),
    ),
    "produce": (
        "produce of 1,000 B by librdkafka, one partition",
        "MB/s",
        "more",
        lambda server, i: produce_rate(server, 1_000, f"p{i}"),
    ),
}


def processes(with_kafka: bool, wanted: Wanted) -> list[Row]:  # noqa: ARG001
    """Each row beside one process."""
    rows: list[Row] = []
    keys = wanted.of(ROWS["processes"])
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(oncelog(ALONE))]
        servers += [stack.enter_context(oncelog(named(count), processes=count)) for count in PROCESS_COUNTS]
        for key, (what, unit, better, measure) in MEASURES.items():
            if key not in keys:
                continue
            found = in_turn(servers, measure, what=key)
            rows += [
                Row(
                    f"--processes {count}: {what}",
                    unit,
                    median(found[named(count)]),
                    median(found[ALONE]),
                    other_name="one process",
                    better=better,
                    note=f"median of {ROUNDS}",
                )
                for count in PROCESS_COUNTS
            ]
    return rows


def named(count: int) -> str:
    """A server of several processes."""
    return f"oncelog, {count} processes"
