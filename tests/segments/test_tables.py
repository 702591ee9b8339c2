"""Tables of a directory that a broker wrote, and reconciling it; no broker runs while it is read."""

from __future__ import annotations

import asyncio
import pathlib
import shutil
from collections import Counter

import pyarrow as pa
import pytest

from oncelog import Broker, OffsetAndMetadata, Producer, TopicPartition
from oncelog.cli.commands.reconcile import reconciled
from oncelog.errors import ConfigurationError, StorageError
from oncelog.host.read_only_files import ReadOnlyFiles, is_locked
from oncelog.segments.directory import list_directory
from oncelog.segments.source import Source
from oncelog.segments.tables import SCHEMAS, rows_of
from oncelog.wire.record_batch import build_batch
from tests.segments.memory_source import MemorySource

CONFIG = {"transaction.state.log.num.partitions": "2", "offsets.topic.num.partitions": "2", "num.partitions": "2"}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("segments") / "data"
    asyncio.run(write(folder))
    return folder


async def write(folder: pathlib.Path) -> None:
    async with Broker(str(folder), CONFIG) as broker:
        async with Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id="tx", linger_ms=0) as producer:
            for number in range(6):
                producer.begin_transaction()
                await producer.send("t", b"value", key=b"%d" % number, partition=number % 2)
                await producer.send_offsets_to_transaction({TopicPartition("t", 0): OffsetAndMetadata(1, "m")}, "group")
                await (producer.abort_transaction() if number % 3 == 0 else producer.commit_transaction())
        assert is_locked(f"{folder}/.lock") or broker.bootstrap_servers  # the lock is this very process's


def tables(source: Source, path: str) -> dict[str, pa.Table]:
    partitions = list_directory(source, path).partitions
    return {
        name: pa.Table.from_batches([each for files in partitions for each in rows_of(source, files, name)], schema)
        for name, schema in SCHEMAS.items()
    }


def test_every_table(data: pathlib.Path) -> None:
    found = tables(ReadOnlyFiles(), str(data))
    of_topic = found["transactions"].to_pylist()
    assert Counter(each["outcome"] for each in of_topic if each["topic"] == "t") == {"commit": 4, "abort": 2}
    markers = Counter((each["topic"], each["outcome"]) for each in found["markers"].to_pylist())
    assert markers[("t", "commit")] == markers[("__consumer_offsets", "commit")] == 4
    records = [each for each in found["records"].to_pylist() if each["topic"] == "t"]
    assert sorted(each["key"] for each in records) == [b"%d" % number for number in range(6)]
    batches = [each for each in found["batches"].to_pylist() if each["topic"] == "t"]
    assert len(batches) == 12
    assert {each["problem"] for each in batches} == {None}
    assert [each["producer_id"] for each in found["aborted_index"].to_pylist() if each["topic"] == "t"] == [0, 0]
    assert {each["state"] for each in found["coordinator_states"].to_pylist()} >= {
        "ONGOING",
        "PREPARE_ABORT",
        "COMPLETE_COMMIT",
    }
    assert {each["committed_offset"] for each in found["group_offsets"].to_pylist()} == {1}
    assert {each["producer_id"] for each in found["producers"].to_pylist() if each["topic"] == "t"} == {0}
    assert found["problems"].num_rows == 0


def test_files_in_memory_give_the_same(data: pathlib.Path) -> None:
    files = {str(path): path.read_bytes() for path in data.rglob("*") if path.is_file()}
    assert tables(MemorySource(files), str(data)) == tables(ReadOnlyFiles(), str(data))


def test_a_healthy_directory_is_consistent(data: pathlib.Path) -> None:
    report = reconciled([str(data)])
    assert (report.findings, report.notes) == ([], [])
    assert report.record_count > 20


def test_one_partition_alone(data: pathlib.Path) -> None:
    report = reconciled([str(data / "t-0")])
    assert report.faults == []
    assert any("is one partition" in note for note in report.notes)


def test_what_is_no_directory_of_logs(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ConfigurationError, match="holds no logs"):
        reconciled([str(tmp_path)])
    with pytest.raises(StorageError, match="cannot be read"):
        reconciled([str(tmp_path / "nowhere")])


def test_directories_of_two_clusters_are_refused(data: pathlib.Path, tmp_path: pathlib.Path) -> None:
    (tmp_path / "meta.properties").write_text("cluster.id=another\n")
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(ConfigurationError, match="2 clusters"):
        reconciled([str(data), str(tmp_path)])


def test_what_lies_beside_the_log_and_cannot_be_read_is_a_problem_of_its_file(
    data: pathlib.Path, tmp_path: pathlib.Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(data, folder)
    (snapshot,) = (folder / "t-0").glob("*.snapshot")
    snapshot.write_bytes(b"\0" * 10)
    (found,) = tables(ReadOnlyFiles(), str(folder))["problems"].to_pylist()
    assert (found["file"].endswith(f"t-0/{snapshot.name}"), found["position"], found["size_bytes"]) == (True, 0, 0)


def test_an_open_transaction_before_what_cannot_be_read_has_no_outcome(tmp_path: pathlib.Path) -> None:
    """Its marker was said not to be there."""
    (tmp_path / "t-0" / f"{1:020d}.log").mkdir(parents=True)
    (tmp_path / "t-0" / f"{0:020d}.log").write_bytes(
        build_batch([(1, b"k", b"v", ())], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    found = tables(ReadOnlyFiles(), str(tmp_path))
    assert [(row["first_offset"], row["outcome"]) for row in found["transactions"].to_pylist()] == [(0, None)]
    assert [row["file"] for row in found["problems"].to_pylist()] == [str(tmp_path / "t-0" / f"{1:020d}.log")]
