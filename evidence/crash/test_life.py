"""A share of `make power`: crash points and failing operations in the midst of a log's life, and that they find mistakes."""

from __future__ import annotations

import itertools
import logging
from collections import Counter

import pytest

from evidence.crash.life import LifeDisk, Tally, check_moment, kind_of, live, verify_life
from evidence.crash.life_workload import LIFE_CONFIG, LIFE_TOPICS, PASSING
from evidence.crash.points import life_fault, line
from evidence.crash.power import new_broker
from evidence.world.direct import Client, DirectNetwork
from evidence.world.files import Fault, Keep
from evidence.world.loop import run_simulated
from evidence.world.requests import Session
from oncelog.broker.partitions.flusher import Flusher
from oncelog.broker.partitions.partitions import Partitions
from oncelog.errors import StorageError


@pytest.fixture(autouse=True)
def silent():
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def run():
    logging.disable(logging.CRITICAL)
    return live(1)


def test_the_workload_lives(run):
    """Every kind of operation on every kind of file, and nobody was refused."""
    assert not run.refusals
    assert run.metrics["log_cleanings"] > 3
    assert run.metrics["log_start"] > run.ledger.log_start.acknowledged
    assert run.ledger.life_topics == set(LIFE_TOPICS)
    assert run.ledger.passing_generation.acknowledged == 5
    operations = Counter(moment.what for moment in run.disk.moments)
    assert operations.keys() == {
        "write", "sync", "create", "sync_directory", "truncate", "rename", "remove", "make_directory",
    }  # fmt: skip
    kinds = {kind_of(moment.path) for moment in run.disk.moments}
    assert kinds >= {
        "log", "index", "time index", "transaction index", "producer snapshot", "checkpoint", "cleaner", "coordinator log",
        "coordinator cleaner", "group log", "group cleaner", "metadata log", "deleted segment", "leader epochs",
    }  # fmt: skip


def test_crash_points(run):
    """Some of them."""
    tally = Tally()
    for moment in run.disk.moments[::40]:
        check_moment(moment, 1, tally, stride=7)
    assert not tally.failures
    assert sum(tally.points.values()) > 40
    assert tally.compared > 500
    assert f"{sum(tally.points.values())} crash points" in line(tally, 1)


@pytest.mark.parametrize("is_sticky", [False, True])
@pytest.mark.parametrize("fault", list(Fault), ids=lambda fault: fault.name.lower())
def test_failing_operations(fault, is_sticky):
    for operation in range(11, 1200, 511):
        assert not life_fault(1, fault, operation + is_sticky, is_sticky=is_sticky).failures


def test_a_deletion_cut_short_twice_brings_nothing_back(run):
    """The deletion is durable and the directory's new name is not; the topic is made again, and the power goes again."""
    # (a checkpoint or a cleaning would sync the directory's names by the way)
    quiet = LIFE_CONFIG | {"log.flush.offset.checkpoint.interval.ms": 60_000, "log.cleaner.enable": False}
    renamed = next(each for each in run.disk.moments if each.what == "rename" and each.path.endswith("-delete"))
    disk = renamed.before.copy("deleted")
    disk.crash(Keep.NONE)

    async def make_again(_):
        network = DirectNetwork()
        broker = new_broker(disk, network, 1, quiet)
        await broker.start()
        assert PASSING not in broker.metadata.topics
        await Session(await Client.connect(network)).create_topic(PASSING, 1)

    run_simulated(1, make_again)
    disk.crash(Keep.NONE)

    async def look(_):
        network = DirectNetwork()
        broker = new_broker(disk, network, 2, quiet)
        await broker.start()
        assert await Session(await Client.connect(network)).read(PASSING, 0, committed=False) == {}

    run_simulated(2, look)


def test_a_deletion_whose_files_stay_brings_nothing_back(monkeypatch):
    """The directory of a deleted topic cannot be renamed: the next topic of that name begins empty."""
    rename, failed = LifeDisk.rename, []

    def fail_the_last(self, path, new_path):
        if new_path.endswith("-delete"):
            failed.append(new_path)
            if len(failed) == 2:
                raise StorageError(f"cannot rename {path}: Input/output error")
        rename(self, path, new_path)

    monkeypatch.setattr(LifeDisk, "rename", fail_the_last)
    run = live(1, records=False)
    assert len(failed) == 2
    run.disk.kill()
    verify_life(run.disk, run.ledger, 1, Tally())


# Every check can fail.


def failures_of(run, every: int = 20) -> list[str]:
    tally = Tally()
    for moment in run.disk.moments[::-every]:
        check_moment(moment, 1, tally, stride=3)
        if tally.failures:
            break
    return tally.failures


def test_acknowledging_before_the_sync_is_found(monkeypatch):
    sync = Flusher.sync

    async def acknowledge_first(self, partitions):
        for each in partitions:
            each.committed(each.log_end_offset)
        await sync(self, partitions)

    monkeypatch.setattr(Flusher, "sync", acknowledge_first)
    assert failures_of(live(1), every=7)


def test_forgotten_metadata_is_found(run):
    """Topics, configurations and deletions that are acknowledged and not there."""
    disk = run.disk.copy("forgotten")
    disk.crash(Keep.ALL)
    for _ in range(4):
        disk.drop_last_batch("data/__cluster_metadata-0/00000000000000000000.log")
    with pytest.raises(AssertionError):
        verify_life(disk, run.ledger.snapshot(), 1, Tally())


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("k0", lambda ledger: setattr(ledger.table["k0"], "acknowledged", 99)),
        ("aborted value", lambda ledger: ledger.aborted_values.add(7)),
        ("retained@", lambda ledger: ledger.retained.update(dict.fromkeys(ledger.retained, "another"))),
        ("log start", lambda ledger: setattr(ledger.log_start, "asked", 0)),
        ("passing@", lambda ledger: ledger.passing.update({0: "another"})),
        ("retention.ms", lambda ledger: setattr(ledger.config, "asked", 1)),
        ("position of", lambda ledger: setattr(ledger.position, "acknowledged", 99)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_each_promise_is_looked_at(run, name, change):
    """With a ledger that claims otherwise the check complains, and of that."""
    disk = run.disk.copy(name)
    disk.crash(Keep.NONE)
    ledger = run.ledger.snapshot()
    change(ledger)
    with pytest.raises(AssertionError, match=name):
        verify_life(disk, ledger, 1, Tally())


def test_a_recovery_that_never_settles_is_found(run, monkeypatch):
    """The second start must leave the bytes of the first."""
    starts = itertools.count()
    recover = Partitions.open_all

    async def and_write(self, **how):
        await recover(self, **how)
        self._files.files.replace_whole("data/t-0/leader-epoch-checkpoint", f"{next(starts)}".encode())

    monkeypatch.setattr(Partitions, "open_all", and_write)
    tally = Tally()
    check_moment(run.disk.moments[-1], 1, tally, stride=5)
    assert any("recovered twice, these differ" in failure for failure in tally.failures)
