"""Measures the same thing on several servers in turn, several times, with the order turned round each time: a machine that
is busy for a while then hurts all of them alike. What is reported is the median of the rounds."""

from __future__ import annotations

import contextlib
import statistics
import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

from bench.servers import Server, apache_kafka, oncelog

Figure = TypeVar("Figure")

ROUNDS = 3
OURS, KAFKA = "oncelog", "Apache Kafka 4.3"


@contextlib.contextmanager
def both(with_kafka: bool, **config: str) -> Iterator[list[Server]]:
    """oncelog with `config`, and Apache Kafka (as it comes) where it can be had, both running."""
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(oncelog(name=OURS, **config))]
        if with_kafka:
            servers.append(stack.enter_context(apache_kafka(KAFKA)))
        yield servers


def in_turn(
    servers: list[Server], measure: Callable[[Server, int], Figure], rounds: int = ROUNDS, *, what: str = ""
) -> dict[str, list[Figure]]:
    """`measure(server, round)` of every server in every round, by the server's name; told while it runs, if it is `what`."""
    figures: dict[str, list[Figure]] = {server.name: [] for server in servers}
    for i in range(rounds):
        for server in servers if i % 2 == 0 else reversed(servers):
            figure = measure(server, i)
            figures[server.name].append(figure)
            if what:
                print(f"bench: {what}, round {i + 1} of {rounds}, {server.name}: {figure}", file=sys.stderr, flush=True)
    return figures


def median(figures: dict[str, list[float]], name: str) -> float | None:
    """The median of one server's figures; None where it was not measured."""
    return statistics.median(figures[name]) if figures.get(name) else None


def percentile(samples: list[float], share: float) -> float | None:
    """The sample below which `share` of all lie; None without samples."""
    return samples[min(len(samples) - 1, int(len(samples) * share))] if samples else None
