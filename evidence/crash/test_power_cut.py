"""The power goes at every operation of a workload, and of a recovery: what clients were told still holds.

`ONCELOG_LONG=1` runs every subset of what may survive, for several orders of events.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random

import pytest

from evidence.crash.ledger import Stage
from evidence.crash.power import Cut, check_survivor, describe, new_broker, record, verify_on
from evidence.world.direct import DATA, DirectNetwork
from evidence.world.files import Keep
from evidence.world.loop import run_simulated
from evidence.world.power_disk import PowerDisk, survivals
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.handlers.transactions import write_txn_markers
from oncelog.broker.partitions.flusher import Flusher
from oncelog.core.leader.partition import Partition
from oncelog.core.leader.verdict import Append

LONG = int(os.environ.get("ONCELOG_LONG", "0"))
SEEDS = range(1, 3 + 6 * LONG)  # odd ones without a journal, even ones with one


@pytest.fixture(autouse=True)
def silent():
    """Each restart says what it cut; hundreds of restarts say too much."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def survivals_to_try(cut: Cut, seed: int):
    """All of them in the long form; in the short one nothing unsynced and any one of them, in turn."""
    found = list(survivals(cut.disk, f"{seed} {cut.number}", random_count=3))
    if LONG or len(found) <= 2:
        return found
    if cut.number % 3 == 0:
        return [("nothing unsynced", lambda disk: disk.crash(Keep.NONE))]
    return random.Random(cut.number).sample(found, 1)


@pytest.mark.parametrize("seed", SEEDS)
def test_power_cut_at_every_operation(seed):
    recording = record(seed)
    assert not recording.refusals
    stages = [each.stage for each in recording.ledger.transactions]
    assert stages.count(Stage.ENDED) >= 12
    assert stages.count(Stage.OPEN) >= 3
    assert len(recording.cuts) > 250
    for cut in recording.cuts if LONG else recording.cuts[seed % 2 :: 2]:
        for name, survive in survivals_to_try(cut, seed):
            try:
                check_survivor(cut, survive, f"{seed} {cut.number}", twice=bool(LONG) or cut.number % 5 == 0)
            except AssertionError as error:
                raise AssertionError(describe(cut, name, seed)) from error


@pytest.mark.parametrize("seed", SEEDS)
def test_power_cut_while_recovering(seed):
    """The first restart is cut at each of its own operations: recovery, markers that are sent again."""
    cuts = record(seed).cuts
    checked = 0
    for cut in random.Random(seed).sample(cuts, 40 if LONG else 6):
        disk = cut.disk.copy(f"{seed} again")
        disk.crash(Keep.RANDOM)
        for second in cuts_of_a_start(disk, cut, seed)[:: 1 if LONG else 7]:
            check_survivor(second, lambda each: each.crash(Keep.RANDOM), f"{seed} {second.number}", twice=False)
            checked += 1
    assert checked > 20


def cuts_of_a_start(disk: PowerDisk, cut: Cut, seed: int) -> list[Cut]:
    """Start on `disk` and let it finish what it finds; every moment of that."""
    found: list[Cut] = []

    def note(what: str, path: str) -> None:
        found.append(Cut(cut.number, f"{what} {path} of the restart", disk.copy(f"{seed} {len(found)}"), cut.ledger))

    async def main(loop) -> None:
        disk.on_operation = note
        broker = new_broker(disk, DirectNetwork(), seed)
        await broker.start()
        await asyncio.sleep(0.5)  # of the loop's own time: markers, and Complete records
        disk.on_operation = None

    run_simulated(seed, main)
    return found


def test_a_new_directory_keeps_its_metadata():
    """The name of the metadata's directory is durable before anything in it is acknowledged."""
    cut = next(cut for cut in record(3).cuts if cut.ledger.topics)
    check_survivor(cut, lambda disk: disk.crash(Keep.NONE), 3)


def test_a_torn_metadata_batch_may_look_like_anything():
    """A torn write can leave zeros where the format byte should be: that is no damage."""
    cut = [cut for cut in record(3).cuts if cut.ledger.topics][-1]

    def tear(disk: PowerDisk) -> None:
        disk.crash(Keep.NONE)
        log = disk.open(f"{DATA}/__cluster_metadata-0/00000000000000000000.log")
        log.append(bytes(70))
        log.sync()

    check_survivor(cut, tear, 3)


# Every check can fail: brokers that break one promise each are found out.


def first_failure(seed: int, *, every: int = 1, restart=lambda: None) -> str | None:
    """What the check says of a broker with a defect; `restart` plants one for the restart only."""
    cuts = record(seed).cuts
    restart()
    for cut in cuts[::-every]:
        try:
            check_survivor(cut, lambda disk: disk.crash(Keep.NONE), seed, twice=False)
        except AssertionError as error:
            return str(error)
    return None


def test_acknowledging_before_the_sync_is_found(monkeypatch):
    sync = Flusher.sync

    async def acknowledge_first(self, partitions):
        for each in partitions:
            each.committed(each.log_end_offset)
        await sync(self, partitions)

    monkeypatch.setattr(Flusher, "sync", acknowledge_first)
    failure = first_failure(1, every=5)
    assert failure is not None


def test_not_sending_markers_again_is_found(monkeypatch):
    failure = first_failure(1, restart=lambda: monkeypatch.setattr(Transactions, "resume", lambda self: None))
    assert failure is not None
    assert "stays in Prepare" in failure


def test_completing_before_the_markers_are_synced_is_found(monkeypatch):
    """A later sync of the coordinator's file outlives the unsynced marker: nobody sends it again."""
    one_done = write_txn_markers._Markers._one_done

    def answer_at_once(self):
        if not self.later.is_given:
            self._uncommitted = 1
        one_done(self)

    monkeypatch.setattr(write_txn_markers._Markers, "_one_done", answer_at_once)
    failure = first_failure(1)
    assert failure is not None


def test_a_lost_batch_that_was_synced_is_found():
    cut = record(1).cuts[-1]
    disk = cut.disk.copy("dropped")
    disk.crash(Keep.ALL)
    disk.drop_last_batch(f"{DATA}/t-0/00000000000000000000.log")
    with pytest.raises(AssertionError):
        verify_on(disk, cut.ledger.snapshot(), 1)


def test_a_coordinator_that_forgets_is_found():
    cut = record(1).cuts[-1]
    disk = cut.disk.copy("forgotten")
    disk.crash(Keep.ALL)
    for index in range(2):
        for _ in range(40):
            disk.drop_last_batch(f"{DATA}/__transaction_state-{index}/00000000000000000000.log")
    with pytest.raises(AssertionError):
        verify_on(disk, cut.ledger.snapshot(), 1)


def test_a_revived_producer_is_found(monkeypatch):
    cut = next(cut for cut in record(1).cuts if any(each.is_fenced for each in cut.ledger.transactions))
    monkeypatch.setattr(Partition, "check_produce", lambda self, batch, **_: Append())
    with pytest.raises(AssertionError, match="produces again"):
        check_survivor(cut, lambda disk: disk.crash(Keep.ALL), 1, twice=False)
