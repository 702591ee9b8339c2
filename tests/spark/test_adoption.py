"""Checkpoints of Spark's own Kafka source made oncelog's. What a real one holds: evidence/spark_adoption."""

from __future__ import annotations

import json
import pathlib

import pytest

from oncelog.errors import ConfigurationError
from oncelog.spark import adoption
from oncelog.spark.adoption import KEPT, adopted, read_checkpoint, replace_files, standings
from oncelog.spark.planning import Bounds
from oncelog.spark.stream_offset import StreamOffset

META = '{"batchWatermarkMs":0,"batchTimestampMs":1700000000000,"conf":{}}'


def written(
    folder: pathlib.Path, batches: dict[int, list[str]], committed: int | None, **initial: dict[str, dict[str, int]]
) -> pathlib.Path:
    """A checkpoint; `initial` by source ("s0")."""
    for name in ("offsets", "commits"):
        (folder / name).mkdir(parents=True)
    (folder / "metadata").write_text('{"id":"0f0a3a2e-1c8b-4d52-9a3a-6c4f0d9a1b11"}')
    for batch_id, lines in batches.items():
        (folder / "offsets" / str(batch_id)).write_text("\n".join(["v1", META, *lines]))
        (folder / "offsets" / f".{batch_id}.crc").write_bytes(b"crc")
        if committed is not None and batch_id <= committed:
            (folder / "commits" / str(batch_id)).write_text('v1\n{"nextBatchWatermarkMs":0}')
    for source, offsets in initial.items():
        where = folder / "sources" / source[1:]
        where.mkdir(parents=True)
        (where / "0").write_bytes(b"\0v1\n" + json.dumps(offsets).encode())
    return folder


def kafkas(**offsets: int) -> str:
    return json.dumps({topic: {"0": offset} for topic, offset in offsets.items()})


@pytest.mark.parametrize("line", ["[1]", '"text"', "7", "null", "{", "-"])
def test_a_line_of_another_source_is_no_position(line: str) -> None:
    assert adoption.kafkas(line) is None


def lines_of(folder: pathlib.Path, batch_id: int) -> list[str]:
    return (folder / "offsets" / str(batch_id)).read_text().split("\n")


def test_a_checkpoint_is_ours_afterwards_and_stands_where_it_stood(tmp_path: pathlib.Path) -> None:
    folder = written(tmp_path / "c", {n: [kafkas(t=10 * n)] for n in range(4)}, committed=3)
    found = read_checkpoint(str(folder))
    assert (found.unfinished_batch_id, found.positions()) == (None, {"t": {0: 30}})
    files = adopted(found, {"t": "an-id"})
    assert [each.batch_id for each in files] == [2, 3]
    kept = replace_files(found, files)
    assert lines_of(folder, 3)[:2] == ["v1", META]
    assert StreamOffset.from_json(json.loads(lines_of(folder, 3)[2])) == StreamOffset({"t": {0: 30}}, {"t": "an-id"})
    assert not (folder / "offsets" / ".3.crc").exists(), "the checksum of what stood there before"
    assert (folder / "offsets" / ".1.crc").exists()
    assert kept == folder / KEPT
    assert (kept / "3").read_text().split("\n")[2] == kafkas(t=30)
    with pytest.raises(ConfigurationError, match="nothing to adopt"):
        read_checkpoint(str(folder))


def test_what_a_crash_left_half_adopted_is_finished_and_kept_as_it_was(tmp_path: pathlib.Path) -> None:
    folder = written(tmp_path / "c", {n: [kafkas(t=10 * n)] for n in range(2)}, committed=1)
    found = read_checkpoint(str(folder))
    replace_files(found, adopted(found, {})[:1])  # and no further
    half = read_checkpoint(str(folder))
    kept = replace_files(half, adopted(half, {}))
    assert [(kept / str(n)).read_text().split("\n")[2] for n in range(2)] == [kafkas(t=0), kafkas(t=10)]
    assert json.loads(lines_of(folder, 1)[2]) == {"v": 1, "t": {"t": {"0": 10}}}


def test_a_first_batch_that_was_never_finished_begins_where_it_began(tmp_path: pathlib.Path) -> None:
    folder = written(tmp_path / "c", {0: [kafkas(t=10)]}, committed=None, s0={"t": {"0": 4}})
    found = read_checkpoint(f"file:{folder}")
    assert found.unfinished_batch_id == 0
    replace_files(found, adopted(found, {}))
    assert json.loads(lines_of(folder, 0)[2]) == {"v": 1, "t": {"t": {"0": 10}}, "init": {"t": {"0": 4}}}


def test_a_later_batch_that_was_not_finished_begins_where_the_one_before_ended(tmp_path: pathlib.Path) -> None:
    batches = {n: [kafkas(t=10 * n)] for n in range(3)}
    found = read_checkpoint(str(written(tmp_path / "c", batches, committed=1, s0={"t": {"0": 4}})))
    assert found.unfinished_batch_id == 2
    assert [json.loads(each.sources[0]) for each in adopted(found, {})] == [
        {"v": 1, "t": {"t": {"0": 10}}},
        {"v": 1, "t": {"t": {"0": 20}}},
    ]


def test_of_several_sources_only_sparks_own_are_changed(tmp_path: pathlib.Path) -> None:
    file_source, none = '{"logOffset":4}', "-"
    batches = {0: [file_source, none, kafkas(t=5)], 1: [file_source, kafkas(u=7), kafkas(t=6)]}
    folder = written(tmp_path / "c", batches, committed=0, s1={"u": {"0": 3}}, s2={"t": {"0": 0}})
    found = read_checkpoint(str(folder))
    assert found.positions() == {"t": {0: 6}, "u": {0: 7}}
    first, second = adopted(found, {})
    assert first.sources[:2] == (file_source, none)
    assert second.sources[0] == file_source
    assert json.loads(second.sources[1])["init"] == {"u": {"0": 3}}, "its first batch, while the other goes on"
    assert "init" not in json.loads(second.sources[2])


def test_what_is_not_in_the_log_any_more_is_seen_before_anything_is_changed() -> None:
    positions = {"t": {0: 5, 1: 5, 2: 5, 3: 5}, "gone": {0: 1}}
    bounds = Bounds({"t": {0: 5, 1: 6, 2: 0}}, {"t": {0: 9, 1: 9, 2: 4}})
    found = standings(positions, bounds)
    assert [(each.topic, each.partition, each.state) for each in found] == [
        ("gone", 0, "not there"),
        ("t", 0, "ok"),
        ("t", 1, "records deleted"),
        ("t", 2, "behind the end"),
        ("t", 3, "not there"),
    ]
    assert (found[1].row()["to_read"], found[0].row()["to_read"]) == (4, None)


def test_what_cannot_be_adopted_says_why(tmp_path: pathlib.Path) -> None:
    def refused(location: object, why: str) -> None:
        with pytest.raises(ConfigurationError, match=why):
            adopted(read_checkpoint(str(location)), {})

    refused(tmp_path, "no file 'metadata'")
    refused("", "an empty path names no checkpoint")  # it was the working directory
    refused("file:", "an empty path names no checkpoint")
    refused("s3://bucket/c", "copy the checkpoint here")
    refused(written(tmp_path / "new", {}, committed=None), "planned no batch")
    refused(written(tmp_path / "files", {0: ['{"logOffset":4}']}, committed=0), "nothing to adopt")
    refused(written(tmp_path / "start", {0: [kafkas(t=1)]}, committed=None), "does not say where it began")
    refused(written(tmp_path / "hole", {3: [kafkas(t=1)]}, committed=None), "offsets/2 is missing")
    other = written(tmp_path / "other", {0: [kafkas(t=1)]}, committed=0)
    (other / "offsets" / "1\u00b2").touch()  # not one of Spark's
    (other / "offsets" / "0").write_text("v2\n{}\n{}")
    refused(other, "an offset log of version 'v2'")


@pytest.mark.parametrize("name", ["metadata", "offsets", "commits", "sources/0/0"])
def test_what_cannot_be_read_is_not_taken_for_absent(tmp_path: pathlib.Path, name: str) -> None:
    """Commits that may not be read counted as none. A link in a circle stands for them: root may read what others may not."""
    folder = written(tmp_path / "c", {n: [kafkas(t=10 * n)] for n in range(4)}, committed=3, s0={"t": {"0": 0}})
    path = folder / name
    path.rename(tmp_path / "away")
    path.symlink_to(path)
    with pytest.raises(ConfigurationError, match=f"{path} cannot be read: Too many levels of symbolic links"):
        read_checkpoint(str(folder))
