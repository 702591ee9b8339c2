"""The doors of one simulated process, in one `Host`."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import TypeVar

from evidence.world.disk import DelayedSyncer, Disk, DiskDoor
from evidence.world.loop import Process
from evidence.world.network import SimNetwork
from oncelog.host.host import Host
from oncelog.host.worker import InlineWorker, Pace, Worker

T = TypeVar("T")
WALL_CLOCK_START_MS = 1_750_000_000_000
WORK_SECONDS_MEAN = 0.02


class SimClock:
    """Wall-clock time of one process: it may jump and run fast or slow; the loop's time never does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        process = self._process
        elapsed_ms = process.loop.time() * 1000 * (1 + process.clock_drift)
        return WALL_CLOCK_START_MS + int(elapsed_ms) + process.clock_offset_ms


class SimRandom:
    """Seeded randomness."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(f"random {seed}")

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


class SlowWorker:
    """Work beside the loop takes its time: others run before it and after it, or the process dies meanwhile."""

    def __init__(self, seed: int | str) -> None:
        self._random = random.Random(f"worker {seed}")
        self.under_way_count = 0

    async def run(self, work: Callable[[Pace], T], *, bytes_per_second: float = float("inf")) -> T:
        """Run it."""
        self.under_way_count += 1
        try:
            await asyncio.sleep(self._random.expovariate(1 / WORK_SECONDS_MEAN))
            result = work(lambda size_bytes: None)
            await asyncio.sleep(self._random.expovariate(1 / WORK_SECONDS_MEAN))
            return result
        finally:
            self.under_way_count -= 1


def sim_host(
    process: Process,
    network: SimNetwork,
    disk: Disk,
    seed: int | str,
    sync_delay: float = 0.002,
    *,
    worker: Worker | None = None,
) -> Host:
    """A Host whose every door belongs to `process`."""
    seed = f"{seed} {process.name}"
    return Host(
        SimClock(process),
        network.door(process),
        DiskDoor(disk, process),  # type: ignore[arg-type]
        DelayedSyncer(seed, sync_delay, disk),
        SimRandom(seed),
        new_temporary_directory=lambda: "tmp",
        worker=worker or InlineWorker(),
        boot_id=lambda: f"power {disk.power_count}",
    )
