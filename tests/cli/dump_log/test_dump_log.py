"""`oncelog dump-log`: a real broker's files decoded, and every kind of damage reported with its place, without a traceback."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import tempfile
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog.cli.dump_log.files import Wanted, items_of
from oncelog.log.time_index import TimeIndex
from oncelog.testing import TestBroker
from oncelog.wire.record_batch import build_batch, set_offsets
from tests.cli.world import Cli, oncelog

LOG = "00000000000000000000"


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The data directory of a broker that was stopped: topic t with a commit, an abort, and an open transaction."""
    directory = tmp_path_factory.mktemp("dump") / "data"
    with TestBroker(data_dir=str(directory)) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli("configs", "set", "--topic", "t", "retention.ms=123456789", "-y")
        cli("produce", "t", "-K", ":", "-H", "h=1", "--compression", "gzip", stdin="k:plain\n")
        cli("produce", "t", "--transactional-id", "app", stdin="committed\n")
        cli("produce", "t", "--transactional-id", "app", "--abort", stdin="aborted\n")
        cli("consume", "t", "-g", "group", "-e")
        cli.leave_open("t", "open", count=1)
    return directory


@pytest.fixture
def data(closed: pathlib.Path, tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy to damage."""
    return pathlib.Path(shutil.copytree(closed, tmp_path / "data"))


def rows(*arguments: object, status: int = 0) -> list[dict[str, Any]]:
    result = oncelog("dump-log", *arguments, "-o", "json")
    assert result.exit_code == status, (result.stdout[:2000], result.stderr)
    found = json.loads(result.stdout)
    assert isinstance(found, list)
    return found


def of_kind(found: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [row for row in found if row["kind"] == kind]


def test_a_whole_directory_is_sound(closed: pathlib.Path) -> None:
    found = rows(closed)
    assert {row["kind"] for row in found} >= {
        "batch",
        "record",
        "producer",
        "aborted_transaction",
        "leader_epoch",
        "checkpoint",
        "partition_metadata",
    }
    assert of_kind(found, "problem") == []
    quiet = oncelog("dump-log", closed, "--problems-only")
    assert (quiet.exit_code, quiet.stdout) == (0, "")
    assert quiet.stderr.endswith(" files, 0 problems\n")


def test_segments_that_begin_later_are_compared_by_their_own_offsets(tmp_path: pathlib.Path) -> None:
    with TestBroker(data_dir=str(tmp_path / "data"), config={"log.segment.bytes": 1 << 20}) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli("produce", "t", "--transactional-id", "app", "--abort", stdin=f"{'x' * 5000}\n" * 300)
        cli("produce", "t", "--transactional-id", "app", "--abort", stdin=f"{'x' * 5000}\n" * 300)
    found = rows(tmp_path / "data")
    assert of_kind(found, "problem") == []
    later = [row for row in found if "/t-0/" in row["file"] and LOG not in row["file"]]
    for kind, fields in (
        ("offset_index_entry", ("offset",)),
        ("time_index_entry", ("offset",)),
        ("aborted_transaction", ("last_offset",)),
        ("batch", ("base_offset", "last_offset")),
    ):
        entries = of_kind(later, kind)
        assert entries, kind
        assert all(200 < row[field] <= 601 for row in entries for field in fields), kind


def test_batches_and_markers(closed: pathlib.Path) -> None:
    batches = of_kind(rows(closed / "t-0" / f"{LOG}.log"), "batch")
    assert [row["base_offset"] for row in batches] == [0, 1, 2, 3, 4, 5]
    assert [row["codec"] for row in batches] == ["gzip", *["none"] * 5]
    assert [row.get("control_type") for row in batches] == [None, None, "COMMIT", None, "ABORT", None]
    assert [row["is_transactional"] for row in batches] == [False, *[True] * 5]
    assert batches[1]["position"] == batches[0]["size_bytes"]
    text = oncelog("dump-log", closed / "t-0" / f"{LOG}.log").stdout.splitlines()
    assert text[1].startswith("batch 0..0  at 0  ")
    assert text[5].endswith("ABORT")


def test_records_when_asked_for(closed: pathlib.Path) -> None:
    file = closed / "t-0" / f"{LOG}.log"
    assert of_kind(rows(file), "record") == []
    records = of_kind(rows(file, "--records"), "record")
    assert [(row["offset"], row["key"], row["value"]) for row in records] == [
        (0, "k", "plain"),
        (1, None, "committed"),
        (3, None, "aborted"),
        (5, None, "open-0"),
    ]
    assert records[0]["headers"] == [["h", "1"]]
    some = rows(file, "--records", "--from-offset", 1, "--to-offset", 4)
    assert [row["offset"] for row in of_kind(some, "record")] == [1, 3]
    lines = oncelog("dump-log", file, "--records").stdout
    assert "  record 0  " in lines
    assert "key=k  value=plain  headers=h:1" in lines


def test_internal_topics_are_decoded(closed: pathlib.Path) -> None:
    contents = [(row["type"], row["content"]) for row in of_kind(rows(closed), "record") if "content" in row]
    states = [c["state"] for t, c in contents if t == "TransactionRecord" and c["transactional_id"] == "app"]
    assert states[0] == "EMPTY"
    assert states[-1] == "COMPLETE_ABORT"
    last = [c for t, c in contents if t == "TransactionRecord" and c["transactional_id"] == "open"][-1]
    assert (last["state"], last["partitions"]) == ("ONGOING", ["t-0"])
    assert ("group", "t", 5) in {(c["group_id"], c["topic"], c["offset"]) for t, c in contents if t == "OffsetCommit"}
    configs = [c for t, c in contents if t == "ConfigRecord"]
    assert ("t", "retention.ms", "123456789") in {(c["resource_name"], c["name"], c["value"]) for c in configs}
    assert {"TopicRecord", "FeatureLevelRecord", "ProducerIdsRecord", "GroupMetadata"} <= {t for t, _ in contents}


def test_indexes_and_snapshots(closed: pathlib.Path) -> None:
    aborted = rows(closed / "t-0" / f"{LOG}.txnindex")[0]
    assert (aborted["first_offset"], aborted["last_offset"], aborted["last_stable_offset"]) == (3, 4, 5)
    snapshot = next((closed / "t-0").glob("*.snapshot"))
    opened = [row["current_transaction_first_offset"] for row in rows(snapshot)]
    assert sorted(opened, key=str) == [5, None, None]


def test_a_torn_tail_is_told_with_its_position(data: pathlib.Path) -> None:
    file = data / "t-0" / f"{LOG}.log"
    whole = file.read_bytes()
    file.write_bytes(whole[:-7])
    found = rows(file, status=1)
    last = rows_start(whole)[-1]
    assert found[-1]["kind"] == "problem"
    assert (found[-1]["position"], found[-1]["due_offset"]) == (last, 5)
    assert "offset 5 was due" in oncelog("dump-log", file).stdout


def test_what_a_start_cut_off_and_kept_is_no_problem(data: pathlib.Path) -> None:
    whole = (data / "t-0" / f"{LOG}.log").read_bytes()
    kept = data / "t-0" / f"{3:020d}.torn"
    kept.write_bytes(whole[rows_start(whole)[3] : -7])
    found = rows(kept)
    assert found[-1]["kind"] == "torn"
    assert "kept, torn: " in oncelog("dump-log", kept).stdout
    assert oncelog("dump-log", "--problems-only", data).exit_code == 0


def rows_start(data: bytes) -> list[int]:
    """Where batches begin."""
    found, position = [], 0
    while position < len(data):
        found.append(position)
        position += int.from_bytes(data[position + 8 : position + 12], "big") + 12
    return found


def test_a_flipped_byte_is_told_and_what_follows_is_found(data: pathlib.Path) -> None:
    file = data / "t-0" / f"{LOG}.log"
    whole = bytearray(file.read_bytes())
    starts = rows_start(bytes(whole))
    whole[starts[1] + 70] ^= 1
    file.write_bytes(whole)
    problem = rows(file, "--problems-only", status=1)[0]
    assert problem["position"] == starts[1]
    assert "fails its checksum" in problem["problem"]
    assert (problem["due_offset"], problem["next_offset"]) == (1, 2)


def test_whole_batches_behind_a_damaged_place_are_read(data: pathlib.Path) -> None:
    file = data / "t-0" / f"{LOG}.log"
    whole = bytearray(file.read_bytes())
    starts = rows_start(bytes(whole))
    for place in (1, 4):
        whole[starts[place] + 70] ^= 1
    file.write_bytes(whole)
    found = rows(file, status=1)
    assert [row["base_offset"] for row in of_kind(found, "batch")] == [0, 2, 3, 5]
    lost = [(row["position"], row["size_bytes"]) for row in of_kind(found, "problem")]
    assert lost == [(starts[place], starts[place + 1] - starts[place]) for place in (1, 4)]


def test_however_many_places_are_damaged_what_is_whole_is_read(tmp_path: pathlib.Path) -> None:
    (tmp_path / "t-0").mkdir()
    log = bytearray()
    for offset in range(2_000):
        batch = build_batch([(1, None, b"v" * (offset % 50), ())])
        set_offsets(batch, offset, 0)
        whole = bytearray(bytes(batch))
        if offset % 3 == 1:
            whole[8 + offset % 60] ^= 1 << offset % 8  # the length and the checksum among it
        log += whole
    file = tmp_path / "t-0" / f"{LOG}.log"
    file.write_bytes(log)
    found = rows(file, "--records", status=1)
    read = {row["offset"] for row in of_kind(found, "record")}
    assert read >= {offset for offset in range(2_000) if offset % 3 != 1}
    assert len(of_kind(found, "problem")) <= 667


def test_an_index_is_compared_with_all_that_is_whole(data: pathlib.Path) -> None:
    file = data / "t-0" / f"{LOG}.log"
    whole = bytearray(file.read_bytes())
    starts = rows_start(bytes(whole))
    entries = b"".join(n.to_bytes(4, "big") for offset in (2, 5) for n in (offset, starts[offset]))
    (data / "t-0" / f"{LOG}.index").write_bytes(entries)
    whole[starts[1] + 8] ^= 0x10  # its length
    file.write_bytes(whole)
    assert of_kind(rows(data / "t-0" / f"{LOG}.index"), "problem") == []


def test_what_is_left_of_a_damaged_log_can_be_sent_to_another_topic(data: pathlib.Path) -> None:
    file = data / "t-0" / f"{LOG}.log"
    whole = bytearray(file.read_bytes())
    whole[rows_start(bytes(whole))[1] + 70] ^= 1
    file.write_bytes(whole)
    lines = oncelog("dump-log", file, "--records", "-o", "jsonl").stdout.splitlines()
    kept = [line for line in lines if '"kind": "record"' in line]
    with TestBroker() as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("saved")
        cli("produce", "saved", "--json", stdin="\n".join(kept))
        sent = json.loads(cli("consume", "saved", "-e", "-o", "json").stdout)
        refused = cli("produce", "saved", "--json", stdin=lines[0], status=1)
    assert [row["value"] for row in sent] == ["plain", "aborted", "open-0"]
    assert sent[0]["headers"] == [["h", "1"]]
    assert 'only records can be sent, and this is of kind "batch"' in refused.stderr


def test_zeros_behind_the_end_are_named_as_such(data: pathlib.Path) -> None:
    file = data / "t-0" / f"{LOG}.log"
    file.write_bytes(file.read_bytes() + bytes(100))
    assert "100 zero bytes" in rows(file, status=1)[-1]["problem"]


def test_indexes_that_contradict_the_log(data: pathlib.Path) -> None:
    directory = data / "t-0"
    (directory / f"{LOG}.index").write_bytes(b"".join(n.to_bytes(4, "big") for n in (1, 5)))
    assert "where no batch begins" in rows(directory / f"{LOG}.index", status=1)[-1]["problem"]
    entry = b"\0\0" + b"".join(n.to_bytes(8, "big") for n in (99, 1, 2, 3))
    (directory / f"{LOG}.txnindex").write_bytes(entry)
    assert "no ABORT marker of producer 99 at offset 2" in rows(directory / f"{LOG}.txnindex", status=1)[-1]["problem"]
    (directory / f"{LOG}.timeindex").write_bytes((10**13).to_bytes(8, "big") + (77).to_bytes(4, "big"))
    assert "behind the end of the log" in rows(directory / f"{LOG}.timeindex", status=1)[-1]["problem"]


TIMES = [100, 200, 200, 150, 300]  # of batches of one record each


def timed(directory: pathlib.Path, *entries: tuple[int, int], is_rolled: bool = True) -> list[str]:
    """What is wrong with a time index of these entries."""
    directory.mkdir()
    batches = [build_batch([(each, b"k", b"v", ())]) for each in TIMES]
    for offset, batch in enumerate(batches):
        set_offsets(batch, offset, 0)
    (directory / f"{LOG}.log").write_bytes(b"".join(batches))
    if is_rolled:
        (directory / f"{5:020d}.log").write_bytes(b"")
    index = TimeIndex(0)
    for timestamp, offset in entries:
        index.maybe_add(timestamp, offset)
    (directory / f"{LOG}.timeindex").write_bytes(index.to_bytes())
    found = json.loads(oncelog("dump-log", directory / f"{LOG}.timeindex", "-o", "json").stdout)
    return [each["problem"] for each in of_kind(found, "problem")]


def test_a_time_index_is_compared_both_ways(tmp_path: pathlib.Path) -> None:
    assert timed(tmp_path / "whole-0", (100, 0), (200, 1), (300, 4)) == []
    assert timed(tmp_path / "sparse-0", (300, 4)) == []
    assert timed(tmp_path / "active-0", (100, 0), is_rolled=False) == [], "it lags behind"
    assert timed(tmp_path / "high-0", (100, 0), (2000, 1)) == ["offset 1 has timestamp 200 in the log, 2000 here"]
    assert timed(tmp_path / "low-0", (90, 0), (300, 4)) == ["offset 0 has timestamp 100 in the log, 90 here"]
    short = ["the log's largest timestamp, 300, is missing: the last entry here is 200"]
    assert timed(tmp_path / "short-0", (100, 0), (200, 1)) == short
    assert timed(tmp_path / "empty-0") == ["the log's largest timestamp, 300, is missing: the last entry here is -1"]
    skips = ["timestamp 150 is named of offset 3, but one before it has 200"]
    assert timed(tmp_path / "skips-0", (100, 0), (150, 3), (300, 4)) == skips


def test_a_directory_that_cannot_be_read_is_a_problem(data: pathlib.Path) -> None:
    """As nobody, where root runs this: modes hold for others only, and nobody else may enter `tmp_path`."""
    place = pathlib.Path(tempfile.mkdtemp(prefix="oncelog-", dir="/tmp"))
    place.chmod(0o755)
    user = os.geteuid()
    try:
        shutil.copytree(data, place / "data")
        for path in place.rglob("*"):
            path.chmod(0o755 if path.is_dir() else 0o644)
        (place / "data" / "more").mkdir()
        unread = [place / "data" / name for name in ("more", "t-0")]
        for path in unread:
            path.chmod(0)
        if user == 0:
            os.seteuid(65534)
        found = rows(place / "data", status=1)
        os.seteuid(user)
        assert [(each["file"], each["problem"]) for each in of_kind(found, "problem")] == [
            (str(path), "cannot be read: Permission denied") for path in unread
        ]
    finally:
        os.seteuid(user)
        for path in place.rglob("*"):
            path.chmod(0o755)
        shutil.rmtree(place)


def test_space_that_apache_kafka_allocates_ahead_is_no_damage(data: pathlib.Path) -> None:
    (data / ".kafka_cleanshutdown").unlink()  # a clean stop trims it
    for name in ("index", "timeindex"):
        file = data / "t-0" / f"{LOG}.{name}"
        file.write_bytes(bytes(240))
        assert rows(file) == []


def test_what_is_no_file_of_a_log(tmp_path: pathlib.Path) -> None:
    (tmp_path / "notes.txt").write_text("hello")
    assert "tells no format" in rows(tmp_path / "notes.txt", status=1)[0]["problem"]
    assert rows(tmp_path) == [], "in a directory it is passed over"
    assert oncelog("dump-log", tmp_path / "missing").exit_code == 2


@pytest.mark.parametrize(
    "name", [f"{LOG}.log", f"{LOG}.txnindex", "snapshot", "leader-epoch-checkpoint", "partition.metadata"]
)
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(changes=st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=4), cut=st.integers(0, 10_000))
def test_any_damage_is_reported_never_a_traceback(
    data: pathlib.Path, name: str, changes: list[tuple[int, int]], cut: int
) -> None:
    directory = data / "t-0"
    path = next(directory.glob("*.snapshot")) if name == "snapshot" else directory / name
    whole = path.read_bytes()
    damaged = bytearray(whole)
    for position, value in changes:
        damaged[position % len(damaged)] = value
    path.write_bytes(damaged[: cut % (len(damaged) + 1) or None])
    try:
        found = list(items_of(str(path), Wanted(records=True)))
    finally:
        path.write_bytes(whole)
    assert all(item.line and item.row["kind"] for item in found)
