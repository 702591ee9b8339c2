"""The doors of one simulated process, in one `Host`."""

from __future__ import annotations

import random

from oncelog.host.host import Host
from tests.simulator.disk import DelayedSyncer, Disk, DiskDoor
from tests.simulator.loop import Process
from tests.simulator.network import SimNetwork

WALL_CLOCK_START_MS = 1_750_000_000_000


class SimClock:
    """Wall-clock time of one process: it may jump; the loop's time never does."""

    def __init__(self, process: Process) -> None:
        self._process = process

    def now_ms(self) -> int:
        return WALL_CLOCK_START_MS + int(self._process.loop.time() * 1000) + self._process.clock_offset_ms


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


def sim_host(process: Process, network: SimNetwork, disk: Disk, seed: int | str, sync_delay: float = 0.002) -> Host:
    """A Host whose every door belongs to `process`."""
    seed = f"{seed} {process.name}"
    return Host(
        SimClock(process),
        network.door(process),
        DiskDoor(disk, process),  # type: ignore[arg-type]
        DelayedSyncer(seed, sync_delay),
        SimRandom(seed),
        new_temporary_directory=lambda: "tmp",
    )
