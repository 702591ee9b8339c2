"""Power cuts in process: the real broker over a disk that loses power, cut at every operation of a workload."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evidence.crash.ledger import Ledger
from evidence.crash.log_oracle import examine_files
from evidence.crash.power_check import Checker
from evidence.crash.power_workload import CONFIG, Script
from evidence.world.direct import DATA, Client, DirectNetwork, broker_on
from evidence.world.files import Keep
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk, Survival
from evidence.world.requests import Refused, Session
from oncelog.broker import startup
from oncelog.broker.broker import Broker
from oncelog.errors import StorageError
from oncelog.log.journal import BEGUN_FILE
from oncelog.log.journal import FILE_PREFIX as JOURNAL_PREFIX

RECOVERING = [name for name, _ in startup.STEPS].index("start the flusher")


@dataclass
class Cut:
    """The moment after one operation: the disk, and what clients knew."""

    number: int
    operation: str
    disk: PowerDisk
    ledger: Ledger


@dataclass
class Recording:
    """A run of the workload: every moment at which the power may go."""

    cuts: list[Cut] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    refusals: list[Any] = field(default_factory=list)


def new_broker(disk: PowerDisk, network: DirectNetwork, seed: int | str, config: dict[str, object] = CONFIG) -> Broker:
    return broker_on(disk, network, seed, config)


def record(seed: int | str) -> Recording:
    """Run the workload once and keep what was left at each operation."""
    recording = Recording()
    disk = PowerDisk(seed)

    def note(what: str, path: str) -> None:
        number = len(recording.cuts)
        cut = Cut(number, f"{what} {path}", disk.copy(f"{seed} {number}"), recording.ledger.snapshot())
        recording.cuts.append(cut)

    async def main(_: Any) -> None:
        network = DirectNetwork()
        broker = new_broker(disk, network, seed)
        disk.on_operation = note
        await broker.start()
        script = Script(network, recording.ledger)
        await script.run(broker.partitions.checkpoint)
        recording.refusals = script.refusals
        disk.on_operation = None

    run_simulated(seed, main)
    return recording


def recover_only(disk: PowerDisk, seed: int | str, config: dict[str, object] = CONFIG) -> dict[str, bytes]:
    """Start up to the point where anything is served, then lose power: the bytes that are left."""

    async def main(_: Any) -> None:
        broker = new_broker(disk, DirectNetwork(), seed, config)
        parts = broker.assemble()
        for _, step in startup.STEPS[:RECOVERING]:
            await step(parts)

    run_simulated(seed, main)
    disk.crash(Keep.NONE)
    # A journal names the start that made it.
    journal = (f"{DATA}/{JOURNAL_PREFIX}", f"{DATA}/{BEGUN_FILE}")
    return {path: data for path, data in disk.snapshot(DATA).items() if not path.startswith(journal)}


def check_survivor(cut: Cut, survive: Survival, seed: int | str, *, twice: bool = True) -> None:
    """What survived is recovered, twice to the same bytes; then every promise holds. Raises AssertionError."""
    disk = cut.disk.copy(f"{seed} survivor")
    survive(disk)
    if twice:
        if not cut.ledger.topics:
            recover_only(disk, seed)  # the first start of a directory writes the features' levels, live
        first = recover_only(disk, seed)
        second = recover_only(disk, seed)
        different = [path for path in first.keys() | second.keys() if first.get(path) != second.get(path)]
        assert not different, f"recovered twice, these differ: {sorted(different)}"
    verify_on(disk, cut.ledger.snapshot(), seed)


def verify_on(disk: PowerDisk, ledger: Ledger, seed: int | str) -> None:
    """Start on `disk` and check all that `ledger` promises, then the files."""
    files: dict[str, bytes] = {}

    async def main(_: Any) -> None:
        network = DirectNetwork()
        broker = new_broker(disk, network, seed)
        await broker.start()
        offline = [str(partition.name) for partition in broker.partitions if partition.is_offline]
        assert not offline, f"offline after the restart: {offline}"
        missing = [name for name in ledger.topics if name not in broker.metadata.topics]
        assert not missing, f"acknowledged topics are gone: {missing}"
        await Checker(Session(await Client.connect(network)), ledger, seed).run()
        await broker.flusher.sync_all()
        files.update(disk.snapshot(DATA))

    try:
        run_simulated(seed, main)
    except (StorageError, Refused) as error:
        raise AssertionError(f"after the restart: {error}") from error
    relative = {path.removeprefix(f"{DATA}/"): data for path, data in files.items()}
    problems = examine_files(relative).problems
    assert not problems, "\n".join(problems[:5])


def describe(cut: Cut, survival: str, seed: int | str) -> str:
    """How to say which state it was."""
    return f"seed {seed}, cut {cut.number} in {cut.operation}, {survival}"
