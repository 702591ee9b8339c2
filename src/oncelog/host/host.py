"""All doors in one value: what a broker or client is given instead of the operating system."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING

from oncelog.host.clock import Clock, RealClock
from oncelog.host.network import Network, RealNetwork
from oncelog.host.randomness import Random, RealRandom
from oncelog.host.spill import TemporarySpill
from oncelog.host.worker import InlineWorker, ThreadWorker, Worker
from oncelog.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from oncelog.host.syncer import Syncer
    from oncelog.log.files import Files


def _temporary_directory() -> str:
    import tempfile

    return tempfile.mkdtemp(prefix="oncelog-")


def _unknown_space(_path: str) -> tuple[int, int]:
    return -1, -1


def _unknown_boot() -> str:
    return ""


def _boot_id() -> str:
    """The system's boot, new with each; "" where it cannot be known (not Linux)."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""


def _disk_space(path: str) -> tuple[int, int]:
    import shutil

    usage = shutil.disk_usage(path)
    return usage.total, usage.free


@dataclass(frozen=True)
class Host:
    """The doors of one process, real or simulated."""

    clock: Clock
    network: Network
    files: Files
    syncer: Syncer
    random: Random
    new_temporary_directory: Callable[[], str] = field(default=_temporary_directory)
    worker: Worker = field(default_factory=InlineWorker)
    disk_space: Callable[[str], tuple[int, int]] = field(default=_unknown_space)  # total and free bytes, -1 unknown
    boot_id: Callable[[], str] = field(default=_unknown_boot)
    new_spill: Callable[[], TemporarySpill] = field(default=TemporarySpill)


def real_host() -> Host:
    """The doors to this machine."""
    from oncelog.host.files import RealFiles
    from oncelog.host.syncer import RealSyncer

    return Host(
        RealClock(),
        RealNetwork(),
        RealFiles(),
        RealSyncer(),
        RealRandom(),
        worker=ThreadWorker(),
        disk_space=_disk_space,
        boot_id=_boot_id,
    )
