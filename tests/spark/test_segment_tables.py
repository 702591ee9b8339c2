"""How files reach a task of `segments(...)`; the job itself is compared with the command line in `make reconcile`."""

from __future__ import annotations

import pathlib
from typing import Any

import pyarrow as pa
import pytest

from oncelog.errors import ConfigurationError, InvalidArgument
from oncelog.host.read_only_files import ReadOnlyFiles
from oncelog.segments.directory import list_directory
from oncelog.segments.tables import rows_of
from oncelog.spark import segment_tables
from oncelog.wire.record_batch import build_batch, build_end_txn_marker, set_offsets


def write(path: pathlib.Path) -> None:
    """Two segments: a transaction, and its marker in the second."""
    path.mkdir()
    (path / f"{0:020d}.log").write_bytes(
        build_batch([(1, b"k", b"v", ())], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    )
    marker = build_end_txn_marker(commit=True, producer_id=7, producer_epoch=1, coordinator_epoch=0, timestamp_ms=2)
    set_offsets(marker, 1, 0)
    (path / f"{1:020d}.log").write_bytes(marker)


def as_batches(folder: pathlib.Path) -> list[pa.RecordBatch]:
    """What Spark hands to a task: the files of each log, one in each record batch."""
    rows = [(str(path.parent), str(path), path.read_bytes()) for path in sorted(folder.glob("*-0/*.log"))]
    return [pa.RecordBatch.from_pylist([dict(zip(("log", "file", "content"), row, strict=True))]) for row in rows]


def test_a_log_that_comes_file_by_file_is_the_same(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0")
    write(tmp_path / "u-0")
    partitions = {each.path: each for each in list_directory(ReadOnlyFiles(), str(tmp_path)).partitions}
    for table in ("batches", "transactions", "markers"):
        direct = [
            row
            for each in partitions.values()
            for part in rows_of(ReadOnlyFiles(), each, table)
            for row in part.to_pylist()
        ]
        streamed = [
            row
            for part in segment_tables._remote(
                partitions, lambda source, files, table=table: rows_of(source, files, table), as_batches(tmp_path)
            )
            for row in part.to_pylist()
        ]
        assert streamed == direct
        assert direct


def test_a_log_that_nobody_asked_for_is_passed_over(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0")
    write(tmp_path / "u-0")
    streamed = segment_tables._Streamed(as_batches(tmp_path))
    assert streamed.next_log() == str(tmp_path / "t-0")
    assert streamed.next_log() == str(tmp_path / "u-0")
    assert streamed.open(str(tmp_path / "u-0" / f"{1:020d}.log")).size() == 78
    assert streamed.open(str(tmp_path / "u-0" / f"{9:020d}.log")).size() == 0
    assert streamed.next_log() is None


def test_an_empty_file_does_not_come_and_costs_no_other(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0")
    streamed = segment_tables._Streamed(as_batches(tmp_path)[1:])
    streamed.next_log()
    assert streamed.read_whole(str(tmp_path / "t-0" / f"{0:020d}.txnindex")) == b""
    assert [streamed.open(str(tmp_path / "t-0" / f"{offset:020d}.log")).size() for offset in (0, 1)] == [0, 78]


@pytest.mark.parametrize("paths", ["", [], [""]])
def test_no_directory_is_not_a_table_without_rows(paths: str | list[str]) -> None:
    with pytest.raises(ConfigurationError, match="an empty path"):
        segment_tables.segments(None, paths)


@pytest.mark.parametrize("paths", [None, 5, b"a", [5], [None], ["a", b"b"], {"a": "b"}])
def test_what_is_no_path_is_refused_by_name(paths: Any) -> None:
    with pytest.raises(InvalidArgument, match=r"^paths(\[\d\])? must be a "):
        segment_tables.segments(None, paths)


def test_path_objects_are_taken(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0")
    for paths in (tmp_path, [tmp_path]):
        assert segment_tables.segments(None, paths)._paths == [str(tmp_path)]


def test_a_log_that_would_be_read_twice_is_refused(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0")
    for again in (f"{tmp_path}/", f"file:{tmp_path}", f"{tmp_path}/t-0", f"{tmp_path}/./"):
        with pytest.raises(ConfigurationError, match="t-0 would be read 2 times"):
            segment_tables.segments(None, [str(tmp_path), again])


def test_one_way_to_write_a_scheme() -> None:
    assert segment_tables._plain("viewfs:/a/b") == segment_tables._plain("viewfs:///a/b")
    assert segment_tables._plain("/a/b") == "/a/b"


def test_the_rows_of_a_job_carry_markers_and_a_summary(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0")
    (files,) = list_directory(ReadOnlyFiles(), str(tmp_path)).partitions
    (batch,) = segment_tables._job_rows({files.path: 0}, ReadOnlyFiles(), files)
    assert batch.column("bucket").to_pylist() == [7, -1]


def test_what_cannot_be_listed_is_among_the_problems(tmp_path: pathlib.Path) -> None:
    write(tmp_path / "t-0")
    (tmp_path / "u-3").write_bytes(b"")
    (tmp_path / "cleaner-offset-checkpoint").write_bytes(b"nonsense")
    found = segment_tables.beside_logs([list_directory(ReadOnlyFiles(), str(tmp_path))])
    assert [(*row[1:3], pathlib.Path(row[3]).name, *row[4:6]) for row in found] == [
        ("u", 3, "u-3", 0, 0),
        ("", -1, "cleaner-offset-checkpoint", 0, 0),
    ]
