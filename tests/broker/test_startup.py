"""A start whose sync fails, and what the next one may count on. Files are in memory."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace
from typing import Any

import pytest
from evidence.world.doors import SimRandom
from evidence.world.files import Fault, Keep, SimFiles, SimSyncer

from oncelog.broker import startup
from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.metadata.metadata_store import MetadataStore
from oncelog.errors import StorageError
from oncelog.host.tasks import Tasks
from oncelog.log.checkpoint_files import CLEAN_SHUTDOWN, RECOVERY_POINTS, write_clean_shutdown
from oncelog.log.journal_entries import sixteen_bytes_of
from oncelog.log.journal_reading import DamagedJournal
from oncelog.log.open_files import OpenFiles
from oncelog.wire.log_records.cluster_metadata import FeatureLevelRecord

DATA = "disk/data"


class Clock:
    """Stands still."""

    def now_ms(self) -> int:
        return 1_700_000_000_000


class Start:
    """The first steps of a start: the directory, whose it is, its metadata with a change."""

    def __init__(self, files: SimFiles, number: int) -> None:
        self.store = MetadataStore(
            OpenFiles(files), DATA, SimSyncer(), Clock(), Tasks(lambda _error: None), lambda: 1 << 20
        )
        self.parts: Any = SimpleNamespace(
            host=SimpleNamespace(files=files, random=SimRandom(number)),
            node=SimpleNamespace(
                data_directory=DATA,
                store=self.store,
                cluster_id="",
                node_id=1,
                configs_changed=lambda: None,
                partitions=SimpleNamespace(read_checkpoints=self._read_checkpoints),
            ),
            peers=SimpleNamespace(processes=SimpleNamespace(count=1, index=0)),
            metadata_leader=None,
            is_clean_start=False,
            lock=None,
        )

    def _read_checkpoints(self) -> int:
        if self.parts.host.files.exists(f"{DATA}/bad"):
            raise StorageError("a checkpoint is damaged")
        return 0

    async def run(self, level: int) -> str:
        """The cluster's id."""
        await startup.take_lock(self.parts)
        await startup.read_meta_properties(self.parts)
        await startup.load_cluster_metadata(self.parts)
        async with self.store.changing():
            await self.store.append([FeatureLevelRecord(name="f", level=level, features_epoch=9)])
        return str(self.parts.node.cluster_id)


@pytest.mark.parametrize("operation", range(1, 26))
def test_whatever_sync_of_a_first_start_fails_the_second_ones_directory_survives_a_power_cut(operation: int) -> None:
    async def work(seed: int) -> None:
        files = SimFiles(seed)
        files.fail_at(operation, Fault.SYNC_ERROR)
        cluster_id = ""
        for number in range(3):
            try:
                cluster_id = await Start(files, number).run(7)
                break
            except StorageError:
                files.kill()
        assert cluster_id
        files.crash(Keep.NONE)
        start = Start(files, 9)
        assert await start.run(8) == cluster_id
        assert start.store.metadata.features["f"] == 8
        files.crash(Keep.NONE)
        start = Start(files, 10)
        await startup.read_meta_properties(start.parts)
        start.store.open(is_clean=False)
        assert (start.parts.node.cluster_id, start.store.metadata.features["f"]) == (cluster_id, 8)

    for seed in range(8):
        asyncio.run(work(seed))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cluster.id=c\n", "it says no node.id: restore it"),
        ("", "it says no cluster.id and no node.id: restore it"),
        ("version=2\ncluster.id=c\nnode.id=1\n", "version 2 is not known to this oncelog"),
        ("cluster.id=c\nnode.id=2\n", "written by node 2, and this is node 1: set node.id"),
    ],
)
def test_whose_the_directory_is_has_to_be_known(text: str, expected: str) -> None:
    files = SimFiles()
    start = Start(files, 1)
    files.make_directory(DATA)
    files.replace_whole(f"{DATA}/meta.properties", text.encode())
    with pytest.raises(ConfigInvalid, match=expected):
        asyncio.run(startup.read_meta_properties(start.parts))


@pytest.mark.parametrize("has_partitions", [False, True])
def test_a_new_cluster_id_beside_partitions_is_told(has_partitions: bool, caplog: pytest.LogCaptureFixture) -> None:
    files = SimFiles()
    start = Start(files, 1)
    files.make_directory(DATA)
    if has_partitions:
        files.replace_whole(f"{DATA}/{RECOVERY_POINTS}", b"0\n0\n")
    asyncio.run(startup.read_meta_properties(start.parts))
    told = [line for line in caplog.messages if "meta.properties is missing beside partitions" in line]
    assert len(told) == has_partitions
    assert all(start.parts.node.cluster_id in line for line in told)


def test_what_fails_each_time_is_told_once_and_once_more_when_it_works_again(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = ["full", "full", "broken", None, None, "full"]
    calls = iter(outcomes)

    class Done(Exception):
        pass

    def act() -> None:
        failure = next(calls, "done")
        if failure == "done":
            raise Done
        if failure:
            raise StorageError(failure)

    with pytest.raises(Done):
        asyncio.run(startup._every(1, act))
    assert [line.rpartition(": ")[2] for line in caplog.messages] == [
        "full",
        "broken",
        "housekeeping works again",
        "full",
    ]


def test_a_start_that_refuses_what_it_cannot_read_leaves_the_mark_of_the_clean_stop() -> None:
    files = SimFiles()
    asyncio.run(Start(files, 1).run(1))
    files.kill()
    write_clean_shutdown(files, DATA)
    files.open(f"{DATA}/bad")
    start = Start(files, 2)
    with pytest.raises(StorageError, match="a checkpoint is damaged"):
        asyncio.run(start.run(2))
    assert files.exists(f"{DATA}/{CLEAN_SHUTDOWN}")
    files.kill()
    files.remove(f"{DATA}/bad")
    start = Start(files, 3)
    asyncio.run(start.run(2))
    assert start.parts.is_clean_start
    assert not files.exists(f"{DATA}/{CLEAN_SHUTDOWN}")


def test_beside_a_journal_nothing_is_invented() -> None:
    files = SimFiles()
    start = Start(files, 1)
    files.make_directory(DATA)
    files.replace_whole(f"{DATA}/{RECOVERY_POINTS}", b"0\n0\n")
    files.replace_whole(f"{DATA}/oncelog.journal.0", b"x")
    with pytest.raises(ConfigInvalid, match="the journal beside it is of the cluster that it named: restore it"):
        asyncio.run(startup.read_meta_properties(start.parts))
    assert not files.exists(f"{DATA}/meta.properties")
    files.replace_whole(f"{DATA}/oncelog.journal.closed", b"")  # one that is over
    asyncio.run(startup.read_meta_properties(start.parts))
    assert files.exists(f"{DATA}/meta.properties")


@pytest.mark.parametrize("is_same_boot", [False, True])
def test_a_damaged_journal_of_this_boot_has_another_way_out(
    is_same_boot: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    boot = sixteen_bytes_of("this" if is_same_boot else "another")

    def damaged(*_: object) -> None:
        raise DamagedJournal("entry 9 cannot be read", boot)

    monkeypatch.setattr(startup, "read_journal", damaged)
    start = Start(SimFiles(), 1)
    start.parts.host.boot_id = lambda: "this"
    with pytest.raises(DamagedJournal, match="entry 9 cannot be read") as raised:
        startup._found_journal(start.parts)
    assert ("the logs have what it had" in str(raised.value)) == is_same_boot


@pytest.mark.parametrize("count", [1, 2])
def test_of_several_processes_one_that_still_ends_is_waited_for(
    count: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(startup, "ORPHAN_LOOK_S", 0)
    monkeypatch.setattr(startup, "ORPHAN_LOOKS", 3)
    files = SimFiles()
    before, start = Start(files, 1), Start(files, 2)
    asyncio.run(startup.take_lock(before.parts))
    start.parts.peers.processes.count = count
    with pytest.raises(StorageError, match="is locked"):
        asyncio.run(startup.take_lock(start.parts))
    assert len([line for line in caplog.messages if "waiting for it" in line]) == count - 1

    async def ends() -> None:
        async def ending() -> None:
            before.parts.lock.close()

        async with asyncio.TaskGroup() as both:
            both.create_task(startup.take_lock(start.parts))
            both.create_task(ending())

    if count > 1:
        asyncio.run(ends())
        assert start.parts.lock is not None


def test_orphans_of_share_groups_are_looked_for_before_a_group_can_begin() -> None:
    names = [name for name, _ in startup.STEPS]
    assert names.index("load coordinators") < names.index("forget orphans of share groups") < names.index("listen")


@pytest.mark.parametrize(
    ("number", "way_out"), [(errno.EISDIR, "; put right what this names"), (errno.ENOSPC, None), (None, None)]
)
def test_a_file_that_the_disk_refuses_ends_the_start_with_what_can_be_done(
    number: int | None, way_out: str | None
) -> None:
    """Not twice, where that was said already, and not of a full disk, of which the command line says more."""

    async def step(_: object) -> None:
        raise StorageError("cannot read f") from (OSError(number, "refused") if number is not None else None)

    with pytest.raises(StorageError) as raised:
        asyncio.run(startup.recovered_by(step, Start(SimFiles(), 1).parts))
    assert str(raised.value).removeprefix("cannot read f").startswith(way_out or "")
    assert (str(raised.value) == "cannot read f") == (way_out is None)
