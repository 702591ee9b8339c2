"""Crash points: each operation of the life workload with the power going before, in the middle and after it, in several
ways to lose, tear and keep what was not synced. One run of the workload gives them all.
"""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from evidence.crash.life_check import LifeChecker
from evidence.crash.life_workload import INCOMPLETE, LIFE_CONFIG, LifeLedger, LifeScript
from evidence.crash.log_oracle import examine_files
from evidence.crash.power import new_broker, recover_only
from evidence.world.direct import DATA, Client, DirectNetwork
from evidence.world.files import Fault, Keep
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk, Survival, survivals
from evidence.world.requests import Refused, Session
from oncelog.errors import StorageError
from oncelog.log.journal import BEGUN_FILE
from oncelog.log.journal import FILE_PREFIX as JOURNAL_PREFIX
from oncelog.types import TopicPartition

FILES = {  # by suffix or name: what a file is for
    ".log": "log",
    ".index": "index",
    ".timeindex": "time index",
    ".txnindex": "transaction index",
    ".snapshot": "producer snapshot",
    ".cleaned": "cleaner",
    ".swap": "cleaner",
    ".deleted": "deleted segment",
    "meta.properties": "meta.properties",
    "leader-epoch-checkpoint": "leader epochs",
    "partition.metadata": "partition.metadata",
}


def kind_of(path: str) -> str:
    """What the file or directory is for."""
    relative = path.removeprefix(f"{DATA}/").removesuffix(".tmp")
    directory, _, name = relative.rpartition("/")
    if name.startswith((JOURNAL_PREFIX, BEGUN_FILE)):
        return "journal"
    if "checkpoint" in name and not directory:
        return "checkpoint"
    kind = next((kind for suffix, kind in FILES.items() if name.endswith(suffix)), "directory")
    owners = {"__cluster_metadata": "metadata", "__transaction_state": "coordinator", "__consumer_offsets": "group"}
    owner = next((owner for prefix, owner in owners.items() if relative.startswith(prefix)), "")
    return f"{owner} {kind}".strip()


@dataclass
class Moment:
    """One operation: the disk before and after it, and what clients knew."""

    number: int
    what: str
    path: str
    before: PowerDisk
    after: PowerDisk
    ledger: LifeLedger


class LifeDisk(PowerDisk):
    """Keeps every moment of a run."""

    ledger: LifeLedger
    moments: list[Moment] | None = None
    last: PowerDisk

    def finish(self, fault: Fault | None, what: str, path: str) -> None:
        if self.moments is not None:
            # (the sync of names ends as "sync"; it is one of a directory where the path is one)
            what = "sync_directory" if what == "sync" and self._names.get(path, path) is None else what
            number = len(self.moments)
            after = self.copy(number)
            self.moments.append(Moment(number, what, path, self.last, after, self.ledger.snapshot()))
            self.last = after
        super().finish(fault, what, path)

    def record(self, ledger: LifeLedger) -> None:
        """From now on."""
        self.moments, self.ledger, self.last = [], ledger, self.copy("start")


@dataclass
class LifeRun:
    """A run of the workload."""

    disk: LifeDisk
    ledger: LifeLedger = field(default_factory=LifeLedger)
    refusals: list[Refused] = field(default_factory=list)
    metrics: dict[str, int] = field(default_factory=dict)
    operation_count: int = 0


def live(seed: int | str, *, records: bool = True, fault: tuple[int, Fault, bool] | None = None) -> LifeRun:
    """Run the workload, from an empty disk on; with `records` every moment is kept, with `fault` an operation fails."""
    run = LifeRun(LifeDisk(seed))

    async def main(_: Any) -> None:
        network = DirectNetwork()
        broker = new_broker(run.disk, network, seed, LIFE_CONFIG)
        if records:
            run.disk.record(run.ledger)
        await broker.start()
        before = run.disk.operation_count
        if fault is not None:
            operation, kind, is_sticky = fault
            run.disk.fail_at(operation, kind, is_sticky=is_sticky)
        script = LifeScript(network, run.ledger, broker)
        await script.guarded(script.run_life)
        assert fault is None or script.closed_count == 0, "a connection was closed instead of answered"
        assert broker.failure is not None
        assert not broker.failure.done(), f"a part of the broker died: {broker.failure.result()!r}"
        run.refusals = script.refusals
        run.operation_count = run.disk.operation_count - before
        for name in ("log_cleanings", "log_segments_given_up"):
            run.metrics[name] = broker.metrics.count(name)
        retained = broker.partitions.existing(TopicPartition("retained", 0))
        run.metrics["log_start"] = retained.log.log_start_offset if retained is not None else 0

    run_simulated(seed, main)
    return run


@dataclass
class Point:
    """One crash point."""

    moment: Moment
    phase: str  # before, middle, after
    name: str
    survive: Survival
    disk: PowerDisk

    def __str__(self) -> str:
        moment = self.moment
        return f"operation {moment.number} ({moment.what} {moment.path}), {self.phase}, {self.name}"


def points_of(moment: Moment, seed: int | str, random_count: int) -> Iterator[Point]:
    """Before: nothing, everything, some. In the middle: twice. After: see `survivals`, and `random_count` at random."""
    what, path = moment.what, moment.path
    none: Survival = lambda disk: disk.crash(Keep.NONE)  # noqa: E731
    some: Survival = lambda disk: disk.crash(Keep.RANDOM)  # noqa: E731
    every: Survival = lambda disk: disk.crash(Keep.ALL)  # noqa: E731
    for name, survive in (("nothing unsynced", none), ("everything", every), (f"random {seed}", some)):
        yield Point(moment, "before", name, survive, moment.before)
    begun = moment.before if what.startswith("sync") else moment.after
    yield Point(moment, "middle", f"within {seed}", lambda disk: disk.crash_within(what, path), begun)
    yield Point(moment, "middle", f"again within {seed}", lambda disk: disk.crash_within(what, path), begun)
    found = list(survivals(moment.after, f"{seed} {moment.number}", random_count=random_count))
    if len(found) > 6 + random_count:  # nothing, everything, the last write torn, some at random always
        drawn = random.Random(f"drawn {seed} {moment.number}").sample(found[2 : -1 - random_count], 4)
        found = found[:2] + drawn + found[-1 - random_count :]
    for name, survive in found:
        yield Point(moment, "after", name, survive, moment.after)


@dataclass
class Tally:
    """What was done."""

    points: Counter[str] = field(default_factory=Counter)  # "operation phase"
    files: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    alike: int = 0  # states that an operation left twice, not counted
    starts: int = 0
    compared: int = 0
    failures: list[str] = field(default_factory=list)

    def add(self, other: Tally) -> None:
        for mine, theirs in ((self.points, other.points), (self.files, other.files), (self.faults, other.faults)):
            mine.update(theirs)
        self.alike += other.alike
        self.starts += other.starts
        self.compared += other.compared
        self.failures += other.failures


def check_moment(moment: Moment, seed: int | str, tally: Tally, random_count: int = 2, stride: int = 1) -> None:
    """Every point of an operation whose disk differs; what fails is noted."""
    seen: set[bytes] = set()
    for index, point in enumerate(points_of(moment, seed, random_count)):
        if (index + moment.number) % stride:
            continue
        name = f"{seed} {moment.number} {index}"
        disk = point.disk.copy(name)
        point.survive(disk)
        state = hashlib.blake2b(repr(disk.snapshot()).encode()).digest()
        if state in seen:
            tally.alike += 1
            continue
        seen.add(state)
        tally.points[f"{moment.what} {point.phase}"] += 1
        tally.files[kind_of(moment.path)] += 1
        try:
            check_life(disk, moment.ledger, name, tally)
        except AssertionError as error:
            tally.failures.append(f"seed {seed}, {point}: {error}")


def check_life(disk: PowerDisk, ledger: LifeLedger, seed: int | str, tally: Tally) -> None:
    """Recovered twice to the same bytes; then every promise holds. Raises AssertionError."""
    if not ledger.life_topics:
        recover_only(disk, seed, LIFE_CONFIG)  # the first start of a directory writes the features' levels, live
        tally.starts += 1
    first = recover_only(disk, seed, LIFE_CONFIG)
    second = recover_only(disk, seed, LIFE_CONFIG)
    different = [path for path in first.keys() | second.keys() if first.get(path) != second.get(path)]
    assert not different, f"recovered twice, these differ: {sorted(different)}"
    verify_life(disk, ledger.snapshot(), seed, tally)
    tally.starts += 3


def verify_life(disk: PowerDisk, ledger: LifeLedger, seed: int | str, tally: Tally) -> None:
    """Start on `disk` and check all that `ledger` promises, then the files."""
    files: dict[str, bytes] = {}

    async def main(_: Any) -> None:
        network = DirectNetwork()
        broker = new_broker(disk, network, seed, LIFE_CONFIG)
        await broker.start()
        offline = [str(partition.name) for partition in broker.partitions if partition.is_offline]
        assert not offline, f"offline after the restart: {offline}"
        missing = [name for name in ledger.topics if name not in broker.metadata.topics]
        assert not missing, f"acknowledged topics are gone: {missing}"
        checker = LifeChecker(Session(await Client.connect(network)), ledger, seed, broker)
        await checker.run()
        await broker.flusher.sync_all()
        assert broker.failure is not None
        assert not broker.failure.done(), f"a part of the broker died: {broker.failure.result()!r}"
        tally.compared += checker.compared
        files.update(disk.snapshot(DATA))

    try:
        run_simulated(seed, main)
    except (StorageError, Refused) as error:
        raise AssertionError(f"after the restart: {error}") from error
    relative = {path.removeprefix(f"{DATA}/"): data for path, data in files.items()}
    problems = examine_files(relative, lambda directory: directory.startswith(INCOMPLETE)).problems
    assert not problems, "\n".join(problems[:5])
