"""Another number of processes: every record is where its new leader looks, whatever crash came between."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pytest
from evidence.world.broker import broker_and_client, run
from evidence.world.files import Keep, PowerCut, SimFiles, SimSyncer
from evidence.world.processes import BrokersInARow, brokers_in_a_row

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.processes import Processes
from oncelog.broker.sharing_out import share_out
from oncelog.core.processes.process_plan import directory_of, move_under_way
from oncelog.errors import ErrorCode as E
from oncelog.errors import StorageError
from oncelog.host.files import RealFiles
from oncelog.host.host import real_host
from oncelog.host.network import NetworkFailed
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic

PARTITIONS = 5


async def written(directory: Any) -> None:
    """A directory of one process: records in two topics, some deleted, a transaction, a group's offset."""
    async with broker_and_client(directory) as (_, client):
        for name in ("t", "u"):
            await client.create(name, PARTITIONS)
            for index in range(PARTITIONS):
                assert (await client.produce(name, f"{index}a", f"{index}b", partition=index)).error_code == E.NONE
        one = DeleteRecordsTopic(name="u", partitions=[DeleteRecordsPartition(partition_index=2, offset=1)])
        await client.call(DeleteRecordsRequest(topics=[one], timeout_ms=1000))
        producer = await client.init("tx")
        assert (
            await client.produce("t", "in", producer=producer, sequence=0, transactional_id="tx")
        ).error_code == E.NONE


async def what_is_there(directory: Any, count: int) -> dict[str, tuple[int, int]]:
    """Log start and end of each partition, as its leader knows them; the transaction is ended."""
    found = {}
    async with brokers_in_a_row(directory, count) as cluster:
        for name in ("t", "u"):
            for index in range(PARTITIONS):
                broker = cluster.brokers[0]
                leader = broker.node.leadership.leader_of(broker.metadata.topics[name], index) - 1
                partition = cluster.brokers[leader].partitions.find(TopicPartition(name, index))
                assert partition is not None
                found[f"{name}-{index}"] = (partition.rules.log_start_offset, partition.rules.log_end_offset)
        assert all(broker.is_clean_start for broker in cluster.brokers)
    return found


def test_one_becomes_three_becomes_two_becomes_one(tmp_path: Path) -> None:
    run(written(tmp_path))
    before = {f"{name}-{index}": (0, 2) for name in ("t", "u") for index in range(PARTITIONS)}
    before |= {"u-2": (1, 2), "t-0": (0, 3)}
    for count in (3, 2, 1):
        assert share_out(real_host(), str(tmp_path), count) == count
        assert run(what_is_there(tmp_path, count)) == before
        assert share_out(real_host(), str(tmp_path), None) == count
        assert sorted(each.name for each in tmp_path.glob("processes/*")) == [str(index) for index in range(1, count)]


def test_a_directory_that_was_not_stopped_in_good_order_stays(tmp_path: Path) -> None:
    run(written(tmp_path))
    (tmp_path / ".kafka_cleanshutdown").unlink()
    with pytest.raises(ConfigInvalid, match="start it once more with --processes 1, stop it, and then"):
        share_out(real_host(), str(tmp_path), 2)
    assert not (tmp_path / "processes").exists()


def test_a_directory_in_use_stays(tmp_path: Path) -> None:
    run(written(tmp_path))
    held = RealFiles().lock(f"{tmp_path}/.lock")
    try:
        with pytest.raises(StorageError):
            share_out(real_host(), str(tmp_path), 2)
    finally:
        held.close()
    assert share_out(real_host(), str(tmp_path), 2) == 2


def test_a_new_directory_is_as_asked(tmp_path: Path) -> None:
    assert share_out(real_host(), f"{tmp_path}/new", 3) == 3
    assert share_out(real_host(), f"{tmp_path}/new", None) == 1
    assert not (tmp_path / "new").exists()


def test_a_broker_does_not_start_in_the_middle_of_a_move(tmp_path: Path) -> None:
    async def work() -> None:
        await written(tmp_path)
        (tmp_path / "processes").mkdir()
        Path(move_under_way(str(tmp_path))).write_text("1 3\n")  # noqa: ASYNC240
        with pytest.raises(ConfigInvalid, match="share them out anew"):
            await Broker(str(tmp_path)).start()

    run(work())
    assert share_out(real_host(), str(tmp_path), None) == 3
    assert len(run(what_is_there(tmp_path, 3))) == 2 * PARTITIONS


def copied(path: Path, files: SimFiles, at: str) -> None:
    """A directory of this machine into the memory's."""
    files.make_directory(at)
    for each in sorted(path.iterdir()):
        if each.is_dir():
            copied(each, files, f"{at}/{each.name}")
        else:
            file = files.open(f"{at}/{each.name}")
            file.write_at(0, each.read_bytes())
            file.sync()
            file.close()
    files.sync_directory(at)
    files.sync_directory(at.rpartition("/")[0])


class SimHost:
    """What the move needs of a host."""

    def __init__(self, files: SimFiles) -> None:
        self.files, self.syncer, self.clock = files, SimSyncer(), self

    def now_ms(self) -> int:
        return 1_700_000_000_000


def everything(files: SimFiles, count: int) -> dict[str, tuple[int, list[str]]]:
    """Each partition's directory: with which process it is, and which files it has."""
    found: dict[str, tuple[int, list[str]]] = {}
    for index in range(count):
        at = directory_of("data", index)
        for name in files.list(at):
            if name.startswith(("t-", "u-", "__transaction_state-", "__consumer_offsets-")):
                assert name not in found, f"{name} is there twice"
                found[name] = index, sorted(files.list(f"{at}/{name}"))
    return found


@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 2)])
def test_no_power_cut_on_the_way_loses_anything(tmp_path: Path, before: int, after: int) -> None:
    run(written(tmp_path))
    if before > 1:
        share_out(real_host(), str(tmp_path), before)
    whole = SimFiles()
    copied(tmp_path, whole, "data")
    at_first, begun = everything(whole, before), whole.operation_count
    share_out(SimHost(whole), "data", after)  # type: ignore[arg-type]
    wanted = everything(whole, after)
    assert {name: files for name, (_, files) in wanted.items()} == {
        name: files for name, (_, files) in at_first.items()
    }
    draw = random.Random(after)
    points = sorted(draw.sample(range(1, whole.operation_count - begun), 40))
    for point in points:
        files = SimFiles(seed=point)
        copied(tmp_path, files, "data")
        files.cut_power_at(point)
        try:
            share_out(SimHost(files), "data", after)  # type: ignore[arg-type]
        except PowerCut:
            files.crash(draw.choice(list(Keep)))
        assert share_out(SimHost(files), "data", after) == after  # type: ignore[arg-type]
        assert everything(files, after) == wanted, f"power cut at operation {point}"


def test_what_is_wrong_with_the_directory_s_own_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").write_text("garbage\n")
    with pytest.raises(
        ConfigInvalid, match=r"meta\.properties is damaged \(line 1 is no key=value\): restore it, three"
    ):
        share_out(real_host(), str(tmp_path), None)


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_emptied", [True, False])
def test_a_process_whose_directory_is_gone_is_missed(tmp_path: Path, is_clean: bool, is_emptied: bool) -> None:
    """Its partitions began anew, empty, and nothing said so."""
    directory, kept, there = tmp_path / "data", tmp_path / "kept", tmp_path / "data" / "processes" / "2"
    run(written(directory))
    assert share_out(real_host(), str(directory), 3) == 3
    before = run(what_is_there(directory, 3))
    if not is_clean:
        for path in directory.rglob(".kafka_cleanshutdown"):
            path.unlink()
    there.rename(kept)
    if is_emptied:
        there.mkdir()
    for count in (None, 3, 2, 4):
        with pytest.raises(
            ConfigInvalid, match=r"data/processes/2 is gone.*: put it back; if it is lost, remove .*ss_2,"
        ):
            share_out(real_host(), str(directory), count)

    again = BrokersInARow(directory, 3, {}).made(2, str(tmp_path / "sockets"))
    with pytest.raises(ConfigInvalid, match="data/processes/2 is gone"):
        run(again.start())  # as the first process starts one again that ended
    assert there.exists() == is_emptied
    if is_emptied:
        there.rmdir()
    kept.rename(there)
    assert share_out(real_host(), str(directory), None) == 3
    if is_clean:
        assert run(what_is_there(directory, 3)) == before


def test_a_first_start_is_missed_too_and_what_is_given_up_begins_anew(tmp_path: Path) -> None:
    async def started() -> int:
        async with brokers_in_a_row(tmp_path, 2) as cluster:
            if "t" not in cluster.brokers[0].metadata.topics:
                await cluster.clients[0].create("t", PARTITIONS)
            return len(cluster.brokers)

    assert run(started()) == 2
    assert share_out(real_host(), str(tmp_path), None) == 2
    gone = tmp_path / "processes" / "1"
    shutil.rmtree(gone)
    with pytest.raises(ConfigInvalid, match="processes/1 is gone"):
        share_out(real_host(), str(tmp_path), 2)
    (tmp_path / ".oncelog_process_1").unlink()
    assert share_out(real_host(), str(tmp_path), 2) == 2
    assert run(started()) == 2
    for path in tmp_path.iterdir():  # as `rm -rf DIR/*` leaves it: another cluster
        if not path.name.startswith(".oncelog_process"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    assert share_out(real_host(), str(tmp_path), 2) == 2
    assert run(started()) == 2


def test_processes_that_never_began_are_no_obstacle(tmp_path: Path) -> None:
    """The first one's port was taken, and the others were not started: they had not been stopped in good order."""

    async def refused() -> None:
        async with broker_and_client(tmp_path / "other") as (other, _):
            own = Processes(0, 3, sockets)
            with pytest.raises(NetworkFailed, match="in use"):
                await Broker(str(tmp_path / "new"), listen=other.bootstrap_servers, processes=own).start()

    with tempfile.TemporaryDirectory(
        dir="/tmp"
    ) as sockets:  # (a socket's path has 107 bytes, and tmp_path may be long)
        run(refused())
    for count in (2, 4, 1):
        assert share_out(real_host(), str(tmp_path / "new"), count) == count


def test_fewer_processes_leave_no_mark_of_the_others(tmp_path: Path) -> None:
    run(written(tmp_path))
    for count in (4, 2, 3, 1):
        assert share_out(real_host(), str(tmp_path), count) == count
        marks = sorted(each.name for each in tmp_path.glob(".oncelog_process_*"))
        assert marks == [f".oncelog_process_{index}" for index in range(1, count)]


@pytest.mark.parametrize("key", ["oncelog.processes", "node.id"])
def test_a_number_that_is_none_is_told(tmp_path: Path, key: str) -> None:
    """It was a traceback."""
    run(written(tmp_path))
    with (tmp_path / "meta.properties").open("a") as file:
        file.write(f"{key}=x\n")
    with pytest.raises(ConfigInvalid, match=rf"meta\.properties is damaged: {key} is no number: restore it"):
        share_out(real_host(), str(tmp_path), 2)


def test_a_move_of_which_nobody_can_read_the_numbers_is_told(tmp_path: Path) -> None:
    run(written(tmp_path))
    (tmp_path / "processes").mkdir()
    Path(move_under_way(str(tmp_path))).write_text("?")
    with pytest.raises(StorageError, match="processes/sharing-out is damaged: it says from how many"):
        share_out(real_host(), str(tmp_path), None)
