"""What a figure cost in CPU time: the broker's process (user and system), and this one, which is the client.

CPU time stays much the same on a busy machine, where wall-clock time does not.
"""

from __future__ import annotations

import os
import pathlib
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from bench.servers import Server
from bench.table import Cpu

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def cpu_ticks(stat: str) -> int:
    """User and system time of all threads of a process, in ticks, from the text of its /proc/PID/stat."""
    fields = stat.rpartition(")")[2].split()  # behind the name, which may hold anything
    return int(fields[11]) + int(fields[12])


def process_cpu_s(process_id: int) -> float:
    """The CPU seconds that a process has used, and those that it has started (`--processes`) and that live."""
    return sum(cpu_ticks(pathlib.Path(f"/proc/{each}/stat").read_text()) for each in family(process_id)) * _TICK_S


def family(process_id: int) -> list[int]:
    """A process and those below it."""
    found = [process_id]
    for each in found:
        for task in pathlib.Path(f"/proc/{each}/task").iterdir():
            found += map(int, (task / "children").read_text().split())
    return found


@dataclass
class Spent:
    """Seconds that passed, and of CPU time of both sides."""

    seconds: float = 0.0
    broker_s: float = 0.0
    client_s: float = 0.0


@contextmanager
def spending(server: Server) -> Iterator[Spent]:
    """What happens inside is what the value tells afterwards."""
    spent = Spent()
    begun, broker_s, client_s = time.perf_counter(), process_cpu_s(server.process_id), time.process_time()
    yield spent
    spent.seconds = time.perf_counter() - begun
    spent.broker_s = process_cpu_s(server.process_id) - broker_s
    spent.client_s = time.process_time() - client_s


@dataclass(frozen=True)
class Measured:
    """One figure of one round with what a unit of it cost, in microseconds."""

    figure: float
    broker_us: float
    client_us: float

    def __str__(self) -> str:
        return f"{self.figure:,.2f} (broker {self.broker_us:,.1f} us, client {self.client_us:,.1f} us)"


def rate(spent: Spent, count: float) -> Measured:
    """`count` units a second, and what each cost."""
    return costing(count / spent.seconds, spent, count)


def costing(figure: float, spent: Spent, count: float) -> Measured:
    """A figure, and what each of `count` units cost."""
    return Measured(figure, spent.broker_s / count * 1e6, spent.client_s / count * 1e6)


def figures(measured: Mapping[str, Sequence[Measured]]) -> dict[str, list[float]]:
    """The figures alone, by server."""
    return {name: [each.figure for each in rounds] for name, rounds in measured.items()}


def cpu(measured: Mapping[str, Sequence[Measured]], ours: str, other: str, per: str) -> Cpu:
    """The medians of what a unit cost."""

    def middle(name: str, of: str) -> float | None:
        rounds = measured.get(name)
        return statistics.median(getattr(each, of) for each in rounds) if rounds else None

    return Cpu(
        per,
        middle(ours, "broker_us"),
        middle(other, "broker_us"),
        middle(ours, "client_us"),
        middle(other, "client_us"),
    )
