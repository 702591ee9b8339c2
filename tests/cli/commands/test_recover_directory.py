"""`oncelog recover DIRECTORY`, and `dump-log` of a journal: what a killed broker left behind, looked at and made whole."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import shutil
import threading
from typing import Any

import pytest

from oncelog.log.journal import BEGUN_FILE
from oncelog.log.journal_entries import (
    ENTRY_MAGIC,
    SEGMENT_HEADER_BYTES,
    segment_header_from_bytes,
    segment_header_to_bytes,
)
from oncelog.testing import TestBroker
from tests.cli.world import Cli, oncelog

CLEAN = ".kafka_cleanshutdown"


def json_rows(result: Any) -> Any:
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """What SIGKILL leaves of a broker with a journal: a committed transaction and an open one."""
    directory = tmp_path_factory.mktemp("recover")
    with TestBroker(data_dir=str(directory / "data"), config={"journal": "on"}) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli("produce", "t", "--transactional-id", "app", stdin="committed\n")
        cli.leave_open("t", "open", count=1)
        shutil.copytree(directory / "data", directory / "copy")
    assert (directory / "data" / CLEAN).exists()
    assert not list((directory / "data").glob("oncelog.journal*")), "a clean stop leaves Kafka's files"
    return directory / "copy"


@pytest.fixture
def data(killed: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy to change."""
    return pathlib.Path(shutil.copytree(killed, tmp_path / "data"))


def test_a_killed_brokers_directory_becomes_kafkas(data: pathlib.Path) -> None:
    assert not (data / CLEAN).exists()
    result = oncelog("recover", data, "-y", "-o", "json")
    assert result.exit_code == 0, result.stderr
    assert json_rows(result) == {"directory": str(data), "was_clean": False, "damaged": []}
    assert "are put back" in result.stderr
    assert (data / CLEAN).exists()
    assert not list(data.glob("oncelog.journal*"))
    assert oncelog("dump-log", data, "--problems-only").exit_code == 0
    with TestBroker(data_dir=str(data)) as broker:
        cli = Cli(broker.bootstrap_servers)
        assert cli("consume", "t", "-e").stdout == "committed\n"
        assert [row["transactional_id"] for row in cli.json("transactions", "list", "--state", "Ongoing")] == ["open"]


def test_twice_is_once(data: pathlib.Path) -> None:
    assert oncelog("recover", data, "--to-kafka", "-y").exit_code == 0
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert json_rows(oncelog("recover", data, "-y", "-o", "json"))["was_clean"] is True
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_dry_run_changes_nothing(data: pathlib.Path) -> None:
    before = {path: path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert oncelog("recover", data, "--dry-run").exit_code == 0
    assert {path: path.read_bytes() for path in data.rglob("*") if path.is_file()} == before


def test_a_damaged_partition_is_named_and_the_directory_is_not_called_clean(data: pathlib.Path) -> None:
    recovered = oncelog("recover", data, "-y")
    assert recovered.exit_code == 0
    (data / CLEAN).unlink()
    segment = data / "t-0" / "00000000000000000000.log"
    damaged = bytearray(segment.read_bytes())
    damaged[70] ^= 1
    segment.write_bytes(damaged)
    for snapshot in (data / "t-0").glob("*.snapshot"):
        snapshot.unlink()
    result = oncelog("recover", data, "-y", "-o", "json")
    assert result.exit_code == 1
    (reason,) = json_rows(result)["damaged"]
    assert reason.startswith("t-0: ")
    assert not (data / CLEAN).exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--query", "q"), "--query is about a Spark query"),
        (("--abandon",), "--abandon is about a Spark query"),
    ],
)
def test_options_of_queries_are_refused(data: pathlib.Path, arguments: tuple[str, ...], says: str) -> None:
    result = oncelog("recover", data, "-y", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr


def test_what_is_no_data_directory_is_refused(tmp_path: pathlib.Path) -> None:
    result = oncelog("recover", tmp_path, "-y")
    assert result.exit_code == 1
    assert "no data directory" in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert oncelog("recover", "--to-kafka", "-y").exit_code == 2


def test_a_running_brokers_directory_is_refused(tmp_path: pathlib.Path) -> None:
    with TestBroker(data_dir=str(tmp_path / "data")):
        result = oncelog("recover", tmp_path / "data", "-y")
    assert result.exit_code == 1
    assert "another server uses this directory" in result.stderr


def test_dump_log_shows_entries_and_the_batches_in_them(killed: pathlib.Path) -> None:
    result = oncelog("dump-log", "--journal", killed, "-o", "json")
    assert result.exit_code == 0
    rows = json_rows(result)
    entries = [row for row in rows if row["kind"] == "journal_entry"]
    assert [row["sequence"] for row in entries] == list(range(1, len(entries) + 1))
    batches = [row for row in rows if row["kind"] == "journal_batch"]
    assert {row["topic"] for row in batches} >= {"t", "__transaction_state"}
    ends = [row["end_offset"] for row in batches if row["topic"] == "t"]
    assert ends == sorted(ends)
    assert all(row["is_copied"] for row in batches)
    text = oncelog("dump-log", "--journal", killed).stdout
    assert "entry 1 at byte 512" in text
    assert "  t-0  up to offset 1  " in text


def test_dump_log_names_a_torn_entry_and_a_file_that_was_never_begun(data: pathlib.Path) -> None:
    segment = data / "oncelog.journal.0"
    content = bytearray(segment.read_bytes())
    last = content.rfind(ENTRY_MAGIC)
    content[last + 60] ^= 1
    segment.write_bytes(content)
    (data / "oncelog.journal.9").write_bytes(bytes(SEGMENT_HEADER_BYTES))
    rows = json_rows(oncelog("dump-log", "--journal", data, "-o", "json"))
    assert [row["position"] for row in rows if row["kind"] == "journal_torn"] == [last]
    assert [row["kind"] for row in rows][-1] == "journal_free"


@pytest.mark.parametrize("damaged", ["an entry", "the header"])
def test_dump_log_names_damage_and_shows_what_follows(data: pathlib.Path, damaged: str) -> None:
    """Only the last entry can be torn: one before others that say it was synced is damage, and a start refuses it."""
    whole = json_rows(oncelog("dump-log", "--journal", data, "-o", "json"))
    entries = [row for row in whole if row["kind"] == "journal_entry"]
    assert len(entries) > 3
    segment = data / "oncelog.journal.0"
    content = bytearray(segment.read_bytes())
    place = entries[1]["position"] + 60 if damaged == "an entry" else 3
    content[place] ^= 1
    segment.write_bytes(content)
    result = oncelog("dump-log", "--journal", data, "-o", "json")
    assert result.exit_code == 1
    rows = json_rows(result)
    assert [row["position"] for row in rows if row["kind"] == "problem"] == [place - 60 if damaged == "an entry" else 0]
    left = [entries[0], *entries[2:]] if damaged == "an entry" else entries
    assert [row for row in rows if row["kind"] == "journal_entry"] == left
    assert not [row for row in rows if row["kind"] in ("journal_torn", "journal_free")]
    assert oncelog("recover", data, "-y").exit_code == 1


def test_a_journal_of_which_nothing_can_be_read_stops_the_start(data: pathlib.Path) -> None:
    (data / "oncelog.journal.0").write_bytes(b"junk" * 2000)
    result = oncelog("recover", data, "-y")
    assert result.exit_code == 1
    assert "the header cannot be read, and more follows: restore the journal" in result.stderr
    assert (data / "oncelog.journal.0").exists()


def test_a_journal_that_is_gone_is_named(data: pathlib.Path) -> None:
    (data / "oncelog.journal.0").unlink()
    result = oncelog("recover", data, "-y")
    assert (result.exit_code, result.stderr.count("is missing: the system ran on")) == (0, 1)
    assert not (data / BEGUN_FILE).exists()


def test_a_journal_that_is_gone_after_a_power_cut_stops_the_start(data: pathlib.Path) -> None:
    (data / "oncelog.journal.0").unlink()
    header = segment_header_from_bytes((data / BEGUN_FILE).read_bytes())
    assert header is not None
    (data / BEGUN_FILE).write_bytes(segment_header_to_bytes(header._replace(boot=b"b" * 16)))
    result = oncelog("recover", data, "-y")
    assert (result.exit_code, result.stdout) == (1, "")
    (line,) = result.stderr.splitlines()[1:]
    assert line.startswith(f"error: the journal of {data} is missing")
    assert f"or remove {data}/{BEGUN_FILE}" in line
    (data / BEGUN_FILE).unlink()
    assert oncelog("recover", data, "-y").exit_code == 0


def test_dump_log_names_a_journal_of_a_newer_format(data: pathlib.Path) -> None:
    from oncelog.wire.crc32c import crc32c

    segment = data / "oncelog.journal.0"
    content = bytearray(segment.read_bytes())
    content[9] = 2
    content[66:70] = crc32c(bytes(content[:66])).to_bytes(4, "big")
    segment.write_bytes(content)
    result = oncelog("dump-log", "--journal", data, "-o", "json")
    assert result.exit_code == 1
    assert "a journal of format 2" in json_rows(result)[0]["problem"]
    refused = oncelog("recover", data, "-y")
    assert refused.exit_code == 1
    assert "a journal of format 2" in refused.stderr


def test_what_is_wrong_with_its_own_file_names_it(tmp_path: pathlib.Path) -> None:
    (tmp_path / "meta.properties").write_text("garbage\n")
    result = oncelog("recover", tmp_path, "--yes")
    assert result.exit_code == 1
    assert (
        "meta.properties is damaged (line 1 is no key=value): restore it, three lines: version=1, cluster"
        in result.stderr
    )


def test_a_time_index_that_lacks_its_end_is_built_anew(tmp_path: pathlib.Path) -> None:
    """Of a rolled segment of a directory that was closed cleanly: no start reads such a segment."""
    with TestBroker(data_dir=str(tmp_path / "data")) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli("configs", "set", "--topic", "t", "segment.bytes=1048576", "-y")
        for letter in "ab":
            cli("produce", "t", stdin=f"{letter * 700_000}\n")
    index = tmp_path / "data" / "t-0" / f"{0:020d}.timeindex"
    whole = index.read_bytes()
    for damaged in (b"", whole[:-12] + bytes([1]) + whole[-11:], whole[:5]):
        index.write_bytes(damaged)
        assert oncelog("dump-log", tmp_path / "data", "--problems-only").exit_code == 1
        assert oncelog("reconcile", tmp_path / "data", "--exit-code").exit_code == 3
        assert oncelog("recover", tmp_path / "data", "-y").exit_code == 0
        assert index.read_bytes() == whole
        assert oncelog("dump-log", tmp_path / "data", "--problems-only").exit_code == 0
        assert oncelog("reconcile", tmp_path / "data", "--exit-code").exit_code == 0


def test_a_full_disk_is_told_with_what_to_do(data: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pwrite, command = os.pwrite, threading.get_ident()

    def full(*written: Any) -> int:
        if threading.get_ident() != command:  # a broker of other tests runs beside it, in this process
            return pwrite(*written)
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "pwrite", full)
    result = oncelog("recover", data, "-y")
    assert result.exit_code == 1
    assert "No space left on device (make room on that disk, not in this directory" in result.stderr
    assert result.stderr.rstrip().endswith(", run the same again)")


def test_a_directory_that_may_not_be_entered_is_not_called_none(tmp_path: pathlib.Path) -> None:
    """A link in a circle stands for what root may look at."""
    (tmp_path / "meta.properties").symlink_to(tmp_path / "meta.properties")
    assert "meta.properties: Too many levels of symbolic links" in oncelog("recover", tmp_path, "-y").stderr
