"""Slices of the broker's work and of the calibration loop, in turn, by the CPU time of the only thread.

Each slice is shorter than what a scheduler gives a process at a time, so that of many some were disturbed by nobody; what
it needs is brought into the processor's caches first. The cheapest slice of either counts, and the figure is their ratio.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Self

from bench.in_process.calibration import Calibration
from bench.in_process.memory_host import Exchange, MemoryLoop, memory_host
from bench.in_process.work import Work, check, prepare
from oncelog.broker.broker import Broker
from oncelog.broker.requests.request import Outcome, Request

SLICES = 60
WARM_UP_SLICES = 5
CALIBRATION_ROUNDS = 3


@dataclass
class Figures:
    """The cheapest slices so far, in microseconds: of one calibration round, and of one operation of each work."""

    calibration_us: float = float("inf")
    operation_us: dict[str, float] = field(default_factory=dict)

    def ratio(self, name: str) -> float:
        """What an operation costs in calibration rounds."""
        return self.operation_us[name] / self.calibration_us

    @property
    def ratios(self) -> dict[str, float]:
        """Of every work."""
        return {name: self.ratio(name) for name in self.operation_us}

    def add(self, other: Figures) -> None:
        """Keep what is cheaper in another run."""
        self.calibration_us = min(self.calibration_us, other.calibration_us)
        for name, taken_us in other.operation_us.items():
            self.operation_us[name] = min(taken_us, self.operation_us.get(name, taken_us))


class Bench:
    """A broker in memory and its client; `more()` measures and keeps what was cheapest."""

    def __init__(self) -> None:
        self._loop = MemoryLoop()
        self._calibration = Calibration()
        self._turns_planted: dict[str, int] = {}
        self._turns_now = 0
        self.figures = Figures()

    def __enter__(self) -> Self:
        host, network = memory_host()
        self._broker = Broker("data", {}, host)
        self._loop.run_until_complete(self._broker.start())
        self._exchange: Exchange = self._loop.run_until_complete(_called(network.connect_client))
        self.works = self._loop.run_until_complete(prepare(self._exchange))
        self.more(WARM_UP_SLICES)
        self.figures = Figures()
        gc.collect()
        gc.freeze()  # as `oncelog serve` does
        return self

    def __exit__(self, *_: object) -> None:
        gc.unfreeze()
        self._loop.run_until_complete(self._broker.stop())
        self._loop.close()

    def choose(self, names: Sequence[str]) -> None:
        """Measure these works only."""
        self.works = [work for work in self.works if work.name in names]

    def plant(self, percent: float, names: Sequence[str] = ()) -> None:
        """Make each operation, or those of these works, cost so much more than was measured, and forget what was measured."""
        turn_us = min(_turns_us(1000) for _ in range(20)) / 1000
        for work in [each for each in self.works if not names or each.name in names]:
            more_us = self.figures.operation_us[work.name] * percent / 100 / work.request_count
            self._turns_planted[work.name] = round(more_us / turn_us)
        self.figures = Figures()
        server, handle = self._broker.server, self._broker.server.handle

        def slower(request: Request) -> Outcome:
            _turn(self._turns_now)
            return handle(request)

        server.handle = slower

    def more(self, slices: int = SLICES) -> None:
        """So many slices of each work, the calibration between them."""
        found = self.figures
        for _ in range(slices):
            for work in [each for each in self.works for _ in range(each.repeats)]:
                found.calibration_us = min(found.calibration_us, self._calibration_us())
                best = found.operation_us.get(work.name, float("inf"))
                found.operation_us[work.name] = min(best, self._operations_us(work))

    def _calibration_us(self) -> float:
        self._calibration.slice(1)
        begun = time.thread_time_ns()
        self._calibration.slice(CALIBRATION_ROUNDS)
        return (time.thread_time_ns() - begun) / CALIBRATION_ROUNDS / 1000

    def _operations_us(self, work: Work) -> float:
        first, frames = work.next_frames(work.first_count), work.next_frames(work.slice_count)
        exchange = self._exchange
        self._turns_now = self._turns_planted.get(work.name, 0)

        async def run() -> int:
            await exchange.begin(first)
            check(first, exchange.replies)
            begun = time.thread_time_ns()
            await exchange.begin(frames)
            return time.thread_time_ns() - begun

        taken_ns = self._loop.run_until_complete(run())
        check(frames, exchange.replies)  # an error is answered quickly
        return taken_ns / work.slice_count / 1000


async def _called(connect: Callable[[], Exchange]) -> Exchange:
    return connect()  # with the loop running


def _turn(count: int) -> None:
    values = {"a": 1}
    for i in range(count):
        values["a"] = values["a"] + i


def _turns_us(count: int) -> float:
    begun = time.thread_time_ns()
    _turn(count)
    return (time.thread_time_ns() - begun) / 1000
