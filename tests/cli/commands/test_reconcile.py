"""`oncelog reconcile`: what it prints, and its exit statuses."""

from __future__ import annotations

import json
import pathlib
import shutil

import pytest

from oncelog.log.checkpoint_files import offsets_from_bytes, offsets_to_bytes
from oncelog.testing import TestBroker
from oncelog.types import TopicPartition
from oncelog.wire.log_records import transaction_state
from oncelog.wire.log_records.consumer_offsets import OffsetCommit, record_to_key_value
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState
from oncelog.wire.record_batch import build_batch, set_offsets
from tests.cli.world import Cli, oncelog


@pytest.fixture
def data(tmp_path: pathlib.Path) -> pathlib.Path:
    """A hanging transaction in `t-0`, and a coordinator that never heard of it."""
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    hanging = build_batch(
        [(1, b"k", b"v", ())], producer_id=7, producer_epoch=3, base_sequence=0, is_transactional=True
    )
    for where, content in [(TopicPartition("t", 0), hanging), (TopicPartition("__transaction_state", 0), b"")]:
        (tmp_path / str(where)).mkdir()
        (tmp_path / str(where) / f"{0:020d}.log").write_bytes(content)
    return tmp_path


def test_a_finding_with_its_witness_and_its_command(data: pathlib.Path) -> None:
    result = oncelog("reconcile", data)
    assert result.exit_code == 0
    line = result.stdout.splitlines()[1]
    assert line.split()[:4] == ["hanging", "t-0", "0", "7:3"]
    assert line.endswith("oncelog transactions abort --topic t --partition 0 --start-offset 0")
    assert "2 logs, 1 batches, 1 record: 1 fault found" in result.stderr


def test_exit_code_and_json(data: pathlib.Path) -> None:
    result = oncelog("reconcile", data, "--exit-code", "-o", "json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["consistent"], document["counts"]) == (3, False, {"hanging": 1})
    (finding,) = document["findings"]
    assert (finding["topic"], finding["producer_id"], finding["first_offset"]) == ("t", 7, 0)


def test_kinds(data: pathlib.Path) -> None:
    assert oncelog("reconcile", data, "--kind", "torn").stdout == ""
    result = oncelog("reconcile", data, "--kind", "tron")
    assert result.exit_code == 2
    assert "there are damaged, gap, torn" in result.stderr


@pytest.mark.parametrize(("partitions", "kinds"), [((0, 1), {"offset_nowhere": 1}), ((0, 2), {})])
def test_a_group_at_a_partition_that_is_not_there_is_told_where_every_partition_would_be(
    tmp_path: pathlib.Path, partitions: tuple[int, int], kinds: dict[str, int]
) -> None:
    """Of one broker among several the others may have it: Apache Kafka makes all partitions of the offsets' topic at once."""
    (tmp_path / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=d\n")
    (tmp_path / ".kafka_cleanshutdown").write_text("{}")
    key, value = record_to_key_value(OffsetCommit("readers", "t", 9, 42, -1, "", 1))
    committed = build_batch([(1, key, value, ())])
    logs = {TopicPartition("t", 0): b""} | {TopicPartition("__consumer_offsets", each): b"" for each in partitions}
    for where, content in (logs | {TopicPartition("__consumer_offsets", 0): committed}).items():
        (tmp_path / str(where)).mkdir()
        (tmp_path / str(where) / f"{0:020d}.log").write_bytes(content)
    document = json.loads(oncelog("reconcile", tmp_path, "-o", "json").stdout)
    assert document["counts"] == kinds


def test_an_empty_directory(tmp_path: pathlib.Path) -> None:
    result = oncelog("reconcile", tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert "holds no logs" in result.stderr


def test_other_processes_find_the_same(data: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (data / "u-0").mkdir()
    (data / "u-0" / f"{0:020d}.log").write_bytes(b"")
    monkeypatch.setattr("oncelog.cli.commands.reconcile.ALONE_BYTES_MAX", 0)
    result = oncelog("reconcile", data, "--workers", "2", "--no-header")
    assert result.stdout.startswith("hanging  t-0")


def test_a_directory_that_is_named_twice_is_read_once(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """Also by a link: its records were counted twice, and its clocks held to be those of two brokers."""
    link = tmp_path / "link"
    link.symlink_to(data)
    once = json.loads(oncelog("-o", "json", "reconcile", str(data)).stdout)
    assert json.loads(oncelog("-o", "json", "reconcile", str(data), f"{data}/", str(link)).stdout) == once


def test_a_directory_of_several_processes_is_read_whole(data: pathlib.Path) -> None:
    other, left = data / "processes" / "1", data / "processes" / "2"
    for folder in (other, left / "old-stray"):
        folder.mkdir(parents=True)
    (other / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=2\n")
    (other / ".kafka_cleanshutdown").write_text("{}")
    (data / "t-0").rename(other / "t-0")
    result = oncelog("reconcile", data, other)
    assert result.stdout.splitlines()[1].split()[:4] == ["hanging", "t-0", "0", "7:3"]
    assert "2 logs, 1 batches, 1 record: 1 fault found" in result.stderr
    assert oncelog("reconcile", data).stdout == result.stdout


def findings(data: pathlib.Path, kind: str) -> list[tuple[str, int, int, str]]:
    document = json.loads(oncelog("-o", "json", "reconcile", str(data)).stdout)
    return [
        (each["where"], each["first_offset"], each["last_offset"], each["repair"].partition(":")[0])
        for each in document["findings"]
        if each["kind"] == kind
    ]


@pytest.mark.parametrize("is_clean", [True, False])
def test_what_is_gone_is_said_to_be_gone(data: pathlib.Path, *, is_clean: bool) -> None:
    """No tool shows more of it: the command that was named here found nothing wrong. A broker that found the damage does not
    stop cleanly."""
    (data / "recovery-point-offset-checkpoint").write_text("0\n2\nt 0 5\nu 1 8\n")
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    assert findings(data, "gap") == [("t-0", 1, 4, "no command"), ("u-1", 0, 7, "no command")]
    (data / "u-1.0123-delete").mkdir()
    assert findings(data, "gap") == [("t-0", 1, 4, "no command")]


def test_what_apache_kafka_may_have_deleted_before_it_was_killed_is_not_missed(data: pathlib.Path) -> None:
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\nu 1 8\n")
    (data / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\ndirectory.id=d\n")
    assert findings(data, "gap") == [("u-1", 0, 7, "no command")]
    (data / ".kafka_cleanshutdown").unlink()
    assert findings(data, "gap") == []


def at(offset: int, key: bytes | None, value: bytes | None) -> bytes:
    batch = bytearray(build_batch([(1, key, value, ())]))
    set_offsets(batch, offset, 0)
    return bytes(batch)


def state(offset: int, now: TransactionState) -> bytes:
    record = TransactionRecord("id", 7, 3, 60_000, now, frozenset(), 1000, 1000)
    return at(offset, *transaction_state.record_to_key_value(record))


@pytest.mark.parametrize("how", ["flipped", "cut", "undecodable", "no log", "no directory"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_no_end_is_advised_where_the_coordinators_own_records_are_gone(
    data: pathlib.Path, how: str, *, is_clean: bool
) -> None:
    """The last record that can be read has the id as EMPTY; what came behind it had it as Ongoing."""
    folder = data / "__transaction_state-0"
    log = folder / f"{0:020d}.log"
    before = state(0, TransactionState.EMPTY)
    log.write_bytes(before + state(1, TransactionState.ONGOING))
    (data / "recovery-point-offset-checkpoint").write_text("0\n1\n__transaction_state 0 2\n")
    if not is_clean:
        (data / ".kafka_cleanshutdown").unlink()
    if how == "flipped":
        damaged = bytearray(log.read_bytes())
        damaged[-3] ^= 1
        log.write_bytes(damaged)
    elif how == "cut":
        log.write_bytes(before)
    elif how == "undecodable":
        log.write_bytes(before + at(1, b"\x00\x00\x00\x02id", b"?"))
    else:
        log.unlink()
        if how == "no directory":
            folder.rmdir()
    result = oncelog("reconcile", data, "-o", "json")
    document = json.loads(result.stdout)
    assert set(document["counts"]) <= {"damaged", "gap"}
    assert document["counts"]
    assert any("end nothing by hand" in each for each in document["notes"])
    assert not any("transactions abort" in each["repair"] for each in document["findings"])


def test_what_a_coordinator_forgot_that_was_begun_anew_is_one_note(tmp_path: pathlib.Path) -> None:
    """The way out for an internal topic of which no copy is left: the markers of its transactions were faults, each of them."""
    data = tmp_path / "data"
    config = {"transaction.state.log.num.partitions": 2}
    with TestBroker(data_dir=str(data), config=config) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        for number in range(8):
            cli("produce", "t", "--transactional-id", f"id{number}", stdin="a\n")
    assert len(list(data.glob("__transaction_state-*"))) == 2
    assert "consistent" in oncelog("reconcile", data).stderr
    shutil.rmtree(data / "__transaction_state-0")
    checkpoint = data / "recovery-point-offset-checkpoint"
    offsets = offsets_from_bytes(checkpoint.read_bytes())
    del offsets[TopicPartition("__transaction_state", 0)]
    checkpoint.write_bytes(offsets_to_bytes(offsets))
    with TestBroker(data_dir=str(data), config=config) as broker:
        absent = oncelog("reconcile", data, "--exit-code")
        cli = Cli(broker.bootstrap_servers)
        for number in range(8):
            cli("produce", "t", "--transactional-id", f"new{number}", stdin="a\n")
    assert len(list(data.glob("__transaction_state-*"))) == 2
    begun_anew = oncelog("reconcile", data, "--exit-code")
    for result in (absent, begun_anew):
        assert result.exit_code == 0, result.stdout
    (note,) = [line for line in begun_anew.stderr.splitlines() if "are not judged" in line]
    assert "ended transactions are not judged: no coordinator knows their producers, and the log of one" in note


def test_a_repair_can_be_typed_without_a_terminal(tmp_path: pathlib.Path) -> None:
    data = tmp_path / "data"
    with TestBroker(data_dir=str(data)) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli("produce", "t", "--transactional-id", "id", stdin="a\n")
    (snapshot,) = (data / "t-0").glob("*.snapshot")
    snapshot.write_bytes(snapshot.read_bytes()[:-1] + b"?")
    (finding,) = json.loads(oncelog("reconcile", data, "-o", "json").stdout)["findings"]
    program, options = finding["repair"].split(" && oncelog ")
    assert program == f"rm -f {snapshot}"
    snapshot.unlink()
    assert oncelog(*options.split()).exit_code == 0
    assert json.loads(oncelog("reconcile", data, "-o", "json").stdout)["findings"] == []


def test_the_directory_of_a_process_that_is_gone_is_missed(data: pathlib.Path) -> None:
    """Its coordinators' records, and half of the partitions, went with it: nothing is ended or moved for that."""
    (data / "__consumer_offsets-0").mkdir()
    key, value = record_to_key_value(OffsetCommit("readers", "t", 9, 42, -1, "", 1))
    (data / "__consumer_offsets-0" / f"{0:020d}.log").write_bytes(build_batch([(1, key, value, ())]))
    alone = json.loads(oncelog("reconcile", data, "-o", "json").stdout)
    assert set(alone["counts"]) == {"hanging", "offset_nowhere"}
    mark = data / ".oncelog_process_1"
    for cluster_id, count in (("another", 0), ("c", 1)):
        mark.write_text(f"{cluster_id}\n")
        document = json.loads(oncelog("reconcile", data, "-o", "json").stdout)
        assert document["counts"].get("gap", 0) == count
    result = oncelog("reconcile", data, "--exit-code", "-o", "json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["counts"]) == (3, {"gap": 1})
    (finding,) = [each for each in document["findings"] if each["kind"] == "gap"]
    assert not any("oncelog" in each["repair"] for each in document["findings"])
    assert finding["file"] == f"{data}/processes/1"
    assert (
        f"is gone, with the partitions that process 1 leads: put it back; if it is lost, remove {mark}"
        in finding["text"]
    )
    assert any("end nothing by hand" in each for each in document["notes"])
    (data / "processes").mkdir()
    (data / "processes" / "sharing-out").write_text("2 1\n")
    assert "gap" not in json.loads(oncelog("reconcile", data, "-o", "json").stdout)["counts"], "the next start ends it"


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state", "__share_group_state"])
def test_an_internal_topic_is_not_sent_elsewhere(data: pathlib.Path, name: str) -> None:
    (data / "recovery-point-offset-checkpoint").write_text(f"0\n2\n{name} 3 5\nu 1 8\n")
    document = json.loads(oncelog("-o", "json", "reconcile", str(data)).stdout)
    ways = {each["where"]: each["repair"] for each in document["findings"] if each["kind"] == "gap"}
    assert "another topic" in ways["u-1"]
    assert "another topic" not in ways[f"{name}-3"]
    assert "can begin anew" in ways[f"{name}-3"]


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The directory of a broker that was stopped: three segments with commits and an abort, and a group at their end."""
    directory = tmp_path_factory.mktemp("written") / "data"
    with TestBroker(data_dir=str(directory), config={"log.segment.bytes": 1 << 20}) as broker:
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        for number in range(5):
            end = ("--abort",) if number % 2 else ()
            cli("produce", "t", "--transactional-id", "app", *end, stdin=f"{'x' * 500_000}\n")
        cli("consume", "t", "-g", "readers", "-e")
    assert len(list((directory / "t-0").glob("*.log"))) == 3
    assert oncelog("reconcile", directory, "--exit-code").exit_code == 0
    return directory


def refuse(path: pathlib.Path) -> None:
    """A link in a circle can be opened by nobody; root may open what others may not."""
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    path.symlink_to(path)


def test_from_what_cannot_be_read_nothing_is_concluded(written: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A segment that the user may not open was said to be empty, and the group behind it to be moved."""
    data, silent = tmp_path / "data", set()
    for name in sorted(str(each.relative_to(written)) for each in written.rglob("*")):
        shutil.copytree(written, data)
        refuse(data / name)
        result = oncelog("reconcile", data, "-o", "json", "--exit-code")
        if result.exit_code == 0:
            silent.add(pathlib.Path(name).name)
        else:
            assert (result.exit_code, name in result.stdout + result.stderr) == (1, True), result.stdout
        if result.stdout.startswith('{\n  "consistent"'):
            found = json.loads(result.stdout)["findings"]
            assert {each["kind"] for each in found} <= {"unread", "note"}, (name, found)
            assert "reset-offsets" not in result.stdout
        shutil.rmtree(data)
    unasked = {".kafka_cleanshutdown", ".oncelog_aborted_index", "leader-epoch-checkpoint"}
    assert {each for each in silent - unasked if not each.endswith((".index", ".snapshot"))} == set()


def test_what_could_not_be_read_is_told_with_its_exit_status(written: pathlib.Path, tmp_path: pathlib.Path) -> None:
    data = pathlib.Path(shutil.copytree(written, tmp_path / "data"))
    *_, last = sorted((data / "t-0").glob("*.log"))
    refuse(last)
    result = oncelog("reconcile", data, "-o", "json")
    document = json.loads(result.stdout)
    assert (result.exit_code, document["consistent"], document["unread"], document["counts"]) == (1, False, 1, {})
    (found,) = [each for each in document["findings"] if each["kind"] == "unread"]
    assert found["text"] == f"{last} cannot be read: Too many levels of symbolic links: nothing is concluded from it"
    result = oncelog("reconcile", data)
    assert (result.exit_code, result.stdout.splitlines()[1].split()[:2]) == (1, ["unread", "t-0"])
    assert "1 could not be read, and nothing is concluded from that; of the rest: consistent" in result.stderr
