"""`oncelog dump-log`: segments and directories that are gone leave no damaged byte; the checkpoints tell."""

from __future__ import annotations

import json
import os
import pathlib
import shutil

import pytest

from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    LOG_START_OFFSETS,
    OFFLINE_ENDS,
    RECOVERY_POINTS,
    offsets_from_bytes,
    offsets_to_bytes,
)
from oncelog.log.failed_sync import MOVED_DIRECTORY
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from tests.cli.world import Cli, oncelog

NAME = TopicPartition("t", 0)


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The data directory of a broker that was stopped: topic t of three segments."""
    directory = tmp_path_factory.mktemp("whole") / "data"
    with TestBroker(data_dir=str(directory), config={"log.segment.bytes": 1 << 20}) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        for _ in range(5):
            cli("produce", "t", stdin=f"{'x' * 500_000}\n")
    assert len(segments(directory)) == 3
    return directory


@pytest.fixture
def data(closed: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy to take from."""
    return pathlib.Path(shutil.copytree(closed, tmp_path / "data"))


def segments(data: pathlib.Path) -> list[pathlib.Path]:
    return sorted((data / "t-0").glob("*.log"))


def problems(path: pathlib.Path) -> list[tuple[str, int, int]]:
    """The file, and the offsets that are missing."""
    result = oncelog("dump-log", path, "--problems-only", "-o", "json")
    found = json.loads(result.stdout)
    assert result.exit_code == (1 if found else 0)
    return [(os.path.relpath(row["file"], path), row["first_offset"], row["last_offset"]) for row in found]


def checkpoint(data: pathlib.Path, name: str, offset: int) -> None:
    path = data / name
    known = offsets_from_bytes(path.read_bytes()) if path.exists() else {}
    path.write_bytes(offsets_to_bytes(known | {NAME: offset}))


def test_each_segment_that_is_gone_is_missed(data: pathlib.Path) -> None:
    assert problems(data) == problems(data / "t-0") == []
    first, middle, last = (each.relative_to(data) for each in segments(data))
    borders = [int(each.stem) for each in (first, middle, last)]
    end_offset = offsets_from_bytes((data / RECOVERY_POINTS).read_bytes())[NAME]
    for gone, told, offsets in (
        (first, middle, (0, borders[1] - 1)),
        (middle, first, (borders[1], borders[2] - 1)),
        (last, middle, (borders[2], end_offset - 1)),
    ):
        away = (data / gone).rename(data / "away")
        assert problems(data) == [(str(told), *offsets)], gone
        assert problems(data / "t-0") == [(told.name, *offsets)], gone
        away.rename(data / gone)
    text = oncelog("dump-log", data, "--problems-only").stderr
    assert text.endswith(" files, 0 problems\n")


def test_a_partition_that_is_gone_is_missed(data: pathlib.Path) -> None:
    end_offset = offsets_from_bytes((data / RECOVERY_POINTS).read_bytes())[NAME]
    for each in segments(data):
        each.unlink()
    assert problems(data) == [("t-0", 0, end_offset - 1)]
    assert problems(data / "t-0") == [(".", 0, end_offset - 1)]
    shutil.rmtree(data / "t-0")
    (data / CLEAN_SHUTDOWN).unlink()
    assert problems(data) == [("t-0", 0, end_offset - 1)]


def test_a_partition_that_is_deleted_or_moved_for_a_moment_is_not_missed(data: pathlib.Path) -> None:
    (data / MOVED_DIRECTORY).mkdir()
    (data / "t-0").rename(data / MOVED_DIRECTORY / "t-0")
    assert problems(data) == []
    (data / MOVED_DIRECTORY / "t-0").rename(data / "t-0.0123456789abcdef-delete")
    assert problems(data) == []


def test_apache_kafkas_checkpoints_name_what_was_deleted_until_a_clean_stop(data: pathlib.Path) -> None:
    with (data / "meta.properties").open("a") as meta:
        meta.write("directory.id=x\n")
    segments(data)[0].unlink()
    assert problems(data) == [], "its retention says nowhere up to where it deleted"
    shutil.rmtree(data / "t-0")
    assert problems(data) != []
    (data / CLEAN_SHUTDOWN).unlink()
    assert problems(data) == []


def test_what_was_deleted_or_compacted_is_not_missed(data: pathlib.Path) -> None:
    _, middle, last = segments(data)
    middle.unlink()
    checkpoint(data, CLEANED_OFFSETS, int(last.stem))
    assert problems(data) == []
    checkpoint(data, CLEANED_OFFSETS, 0)
    checkpoint(data, LOG_START_OFFSETS, int(last.stem))
    assert problems(data) == []
    (data / LOG_START_OFFSETS).unlink()
    (data / CLEANED_OFFSETS).unlink()
    segments(data)[0].unlink()
    assert problems(data) == [], "nothing tells where it begins"


def test_an_interrupted_cleaning_is_the_next_starts_work(data: pathlib.Path) -> None:
    middle = segments(data)[1]
    middle.rename(f"{middle}.swap")
    assert problems(data) == []


def test_what_the_journal_had_of_a_damaged_log_was_synced_as_well(data: pathlib.Path) -> None:
    end_offset = offsets_from_bytes((data / RECOVERY_POINTS).read_bytes())[NAME]
    checkpoint(data, OFFLINE_ENDS, end_offset + 3)
    assert problems(data) == [(str(segments(data)[-1].relative_to(data)), end_offset, end_offset + 2)]


@pytest.mark.parametrize("name", [RECOVERY_POINTS, CLEANED_OFFSETS, LOG_START_OFFSETS])
def test_checkpoints_that_cannot_be_read_accuse_no_log(data: pathlib.Path, name: str) -> None:
    segments(data)[{RECOVERY_POINTS: -1, CLEANED_OFFSETS: 1, LOG_START_OFFSETS: 0}[name]].unlink()
    (data / name).write_bytes(b"no checkpoint")
    result = oncelog("dump-log", data, "--problems-only", "-o", "json")
    assert [os.path.basename(row["file"]) for row in json.loads(result.stdout)] == [name]


def test_a_directory_that_says_that_it_is_another_topics(data: pathlib.Path) -> None:
    """The next start takes its partition offline; the metadata of the cluster tells it beforehand."""
    with TestBroker(data_dir=str(data)) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("u")
        cli("produce", "u", stdin="a\n")
    shutil.copy(data / "u-0" / "partition.metadata", data / "t-0" / "partition.metadata")
    assert problems(data) == [("t-0", 0, 4)]
    told = oncelog("dump-log", data, "--problems-only").stdout
    assert "t-0: its partition.metadata says that it is of the topic u, but t-0 was synced up to 5" in told
    result = oncelog("reconcile", data, "--exit-code")
    assert result.exit_code == 3
    assert "its partition.metadata says that it is of the topic u, but t-0 was synced up to 5" in result.stdout


def test_a_file_in_the_place_of_a_directory(data: pathlib.Path) -> None:
    shutil.rmtree(data / "t-0")
    with TestBroker(data_dir=str(data)) as broker:
        Cli(broker.bootstrap_servers).create("u")
        Cli(broker.bootstrap_servers)("produce", "u", stdin="a\n")
    (data / "t-0").write_text("?")
    assert problems(data) == [("t-0", 0, 4)]
    assert "is no directory, but" in oncelog("dump-log", data, "--problems-only").stdout
    result = oncelog("reconcile", data, "--exit-code")
    assert result.exit_code == 3
    (line,) = result.stdout.splitlines()[1:]
    assert "it is no directory that can be read" in line


def test_the_directory_of_a_process_that_is_gone_is_missed(data: pathlib.Path) -> None:
    """Its checkpoints went with it, and nothing was said of its partitions."""
    cluster_id = next(
        line.partition("=")[2] for line in (data / "meta.properties").read_text().splitlines() if "cluster.id" in line
    )
    mark = data / ".oncelog_process_1"
    mark.write_text(f"{cluster_id}\n")
    result = oncelog("dump-log", data, "--problems-only")
    assert result.exit_code == 1
    assert (
        f"PROBLEM {data}/processes/1: is gone, with the partitions that process 1 leads: put it back" in result.stdout
    )
    assert f"remove {mark}" in result.stdout
    (data / "processes" / "1").mkdir(parents=True)
    assert oncelog("dump-log", data, "--problems-only").exit_code == 1, "an empty one is none"
    shutil.copy(data / "meta.properties", data / "processes" / "1")
    assert problems(data) == []
    shutil.rmtree(data / "processes")
    mark.write_text("of another cluster\n")
    assert problems(data) == []


def test_a_segment_that_cannot_be_read_is_told_once_and_compared_with_nothing(data: pathlib.Path) -> None:
    """A link in a circle stands for a file that the user may not open: root may."""
    *_, last = segments(data)
    last.unlink()
    last.symlink_to(last)
    found = json.loads(oncelog("dump-log", data, "--problems-only", "-o", "json").stdout)
    beside = {row["file"]: row["problem"] for row in found}
    assert beside.pop(str(last)) == "cannot be read: Too many levels of symbolic links"
    assert set(beside) <= {str(each) for each in last.parent.glob(f"{last.stem}.*")}
    assert set(beside.values()) == {
        f"not compared with {last}, which cannot be read: Too many levels of symbolic links"
    }


@pytest.mark.parametrize("name", ["meta.properties", RECOVERY_POINTS, LOG_START_OFFSETS, CLEANED_OFFSETS])
def test_where_what_is_known_of_the_logs_cannot_be_read_that_is_told_once(data: pathlib.Path, name: str) -> None:
    """Nothing was missed then, and nothing said."""
    (data / name).unlink()
    (data / name).symlink_to(data / name)
    found = json.loads(oncelog("dump-log", data, "--problems-only", "-o", "json").stdout)
    why = "cannot be read: Too many levels of symbolic links"
    assert [(row["file"], row["problem"]) for row in found] == [(str(data / name), why)]


def test_a_journal_that_cannot_be_read_hides_nothing_else(data: pathlib.Path) -> None:
    journal = data / "oncelog.journal.0"
    journal.symlink_to(journal)
    segments(data)[0].write_bytes(b"nonsense")
    found = json.loads(oncelog("dump-log", data, "--problems-only", "-o", "json").stdout)
    assert {str(journal), str(segments(data)[0])} <= {row["file"] for row in found}
