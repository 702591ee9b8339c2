"""Checkpoints of Spark's own Kafka source made oncelog's: what stands in one, what would become of it, and the change.

Such a checkpoint is gone on with as it is (stream_offset.py). Made ours it also holds the ids of its topics, so that one that
is deleted and made again is found out, and where a first batch began that was planned and never finished, which Spark's source
writes into a file that a source in Python is not told of. Only the offsets of the last two batches are looked at by Spark when a
query starts: they are replaced, each in one step, and kept as they were in a folder beside them.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.options import Offsets
from oncelog.spark.planning import Bounds
from oncelog.spark.stream_offset import StreamOffset, from_json

KEPT = "offsets.before-oncelog"
NOTHING_YET = "-"  # stands for a source that had no offset in a batch
OFFSET_LOG_VERSION = "v1"


@dataclass(frozen=True)
class OffsetFile:
    """A file of the offset log: its batch, what stands before the sources, and a line for each source."""

    batch_id: int
    head: tuple[str, ...]
    sources: tuple[str, ...]

    @property
    def text(self) -> str:
        """As Spark writes it."""
        return "\n".join([*self.head, *self.sources])


@dataclass(frozen=True)
class Checkpoint:
    """What was read of one; `files` are those of the last two batches, the newest last."""

    path: pathlib.Path
    query_id: str
    files: tuple[OffsetFile, ...]
    committed_batch_id: int | None
    initial: Mapping[int, Offsets] = field(default_factory=dict)  # by source: where Spark's own began

    @property
    def newest(self) -> OffsetFile:
        """Of the batch that was planned last."""
        return self.files[-1]

    @property
    def unfinished_batch_id(self) -> int | None:
        """The batch that was planned and is not committed."""
        return None if self.committed_batch_id == self.newest.batch_id else self.newest.batch_id

    def positions(self) -> Offsets:
        """Where the sources that are Spark's own stand after the newest batch."""
        found: Offsets = {}
        for line in self.newest.sources:
            offset = kafkas(line)
            for topic, partitions in ({} if offset is None else offset.offsets or {}).items():
                known = found.setdefault(topic, {})
                for partition, position in partitions.items():  # two sources may read one topic: the one behind counts
                    known[partition] = min(position, known.get(partition, position))
        return found


@dataclass(frozen=True)
class Standing:
    """A partition of the checkpoint beside the cluster's log."""

    topic: str
    partition: int
    position: int
    log_start: int | None
    log_end: int | None

    @property
    def state(self) -> str:
        """`ok`, or what is wrong."""
        if self.log_start is None or self.log_end is None:
            return "not there"
        if self.position < self.log_start:
            return "records deleted"
        return "behind the end" if self.position > self.log_end else "ok"

    def row(self) -> dict[str, Any]:
        """For a table."""
        to_read = None if self.log_end is None else max(self.log_end - self.position, 0)
        return {
            "topic": self.topic,
            "partition": self.partition,
            "position": self.position,
            "log_start": self.log_start,
            "log_end": self.log_end,
            "to_read": to_read,
            "state": self.state,
        }


def kafkas(line: str) -> StreamOffset | None:
    """The position that a line holds, where it is of Spark's own Kafka source; None for any other."""
    if line == NOTHING_YET:
        return None
    try:
        offset = StreamOffset.from_json(json.loads(line))
    except (ValueError, ConfigurationError):
        return None
    return offset if offset.is_kafkas else None


def read_checkpoint(location: str) -> Checkpoint:
    """Raises ConfigurationError where this is no checkpoint of a streaming query that has read something."""
    if "://" in location or location.startswith("file:"):
        location = location.removeprefix("file://").removeprefix("file:")
    if "://" in location:
        raise ConfigurationError(
            f"{location}: only a directory of this machine can be changed: copy the checkpoint here, adopt it, copy it back; or "
            "leave it as it is, format oncelog goes on with it"
        )
    if not location:  # not the working directory
        raise ConfigurationError("an empty path names no checkpoint")
    path = pathlib.Path(location)
    try:
        query_id = str(json.loads((path / "metadata").read_text())["id"])
    except FileNotFoundError:
        raise ConfigurationError(
            f"{location} is no checkpoint of a streaming query: it has no file 'metadata'"
        ) from None
    except OSError as error:
        raise _unread(error, path / "metadata") from error
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(
            f"{location} is no checkpoint of a streaming query: its file 'metadata' names none"
        ) from None
    batch_ids = _batch_ids(path / "offsets")
    if not batch_ids:
        raise ConfigurationError(f"{location}: the query has planned no batch yet: start it with format oncelog")
    files = tuple(_offset_file(path / "offsets" / str(batch_id), batch_id) for batch_id in batch_ids[-2:])
    if not any(kafkas(line) for line in files[-1].sources):
        raise ConfigurationError(
            f"{location}: none of its sources is Spark's own Kafka source: there is nothing to adopt"
        )
    committed = _batch_ids(path / "commits")
    checkpoint = Checkpoint(path, query_id, files, committed[-1] if committed else None, _initials(path, files[-1]))
    unfinished = checkpoint.unfinished_batch_id
    if unfinished and (len(files) < 2 or files[0].batch_id != unfinished - 1):
        raise ConfigurationError(f"{location}: offsets/{unfinished - 1} is missing, where batch {unfinished} begins")
    return checkpoint


def _initials(path: pathlib.Path, newest: OffsetFile) -> dict[int, Offsets]:
    return {i: found for i in range(len(newest.sources)) if (found := _initial(path / "sources" / str(i) / "0"))}


def _batch_ids(folder: pathlib.Path) -> list[int]:
    try:
        return sorted(int(each.name) for each in folder.iterdir() if each.name.isascii() and each.name.isdecimal())
    except FileNotFoundError:
        return []
    except OSError as error:  # an unread commit would count as none, and its batch be written again
        raise _unread(error, folder) from error


def _unread(error: OSError, path: pathlib.Path) -> ConfigurationError:
    return ConfigurationError(f"{path} cannot be read: {error.strerror or error}: nothing is known of the checkpoint")


def _offset_file(path: pathlib.Path, batch_id: int) -> OffsetFile:
    try:
        lines = path.read_text().split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path}: {error}") from error
    if lines[0] != OFFSET_LOG_VERSION or len(lines) < 3:
        raise ConfigurationError(
            f"{path}: an offset log of version {lines[0]!r:.20}, this oncelog knows {OFFSET_LOG_VERSION}"
        )
    return OffsetFile(batch_id, (lines[0], lines[1]), tuple(lines[2:]))


def _initial(path: pathlib.Path) -> Offsets | None:
    """Where Spark's own source began: a zero byte (for Spark 2.1), `v1`, and JSON."""
    try:
        version, _, content = path.read_bytes().lstrip(b"\0").partition(b"\n")
        return from_json(json.loads(content)) if version == b"v1" else None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _unread(error, path) from error
    except (ValueError, TypeError, AttributeError):
        return None


def standings(positions: Offsets, bounds: Bounds) -> list[Standing]:
    """Each partition of the checkpoint beside the log; `bounds` has those that are there."""
    return [
        Standing(
            topic,
            partition,
            position,
            bounds.earliest.get(topic, {}).get(partition),
            bounds.latest.get(topic, {}).get(partition),
        )
        for topic, partitions in sorted(positions.items())
        for partition, position in sorted(partitions.items())
    ]


def adopted(checkpoint: Checkpoint, topic_ids: Mapping[str, str]) -> list[OffsetFile]:
    """The files as they are to be. Raises ConfigurationError where a first batch's beginning is not known."""
    return [
        OffsetFile(
            each.batch_id,
            each.head,
            tuple(_adopted_line(checkpoint, each, index, line, topic_ids) for index, line in enumerate(each.sources)),
        )
        for each in checkpoint.files
    ]


def _adopted_line(checkpoint: Checkpoint, file: OffsetFile, index: int, line: str, topic_ids: Mapping[str, str]) -> str:
    offset = kafkas(line)
    if offset is None or offset.offsets is None:
        return line
    before = next((each for each in checkpoint.files if each.batch_id == file.batch_id - 1), None)
    is_first = (
        file.batch_id == 0 or before is None or index >= len(before.sources) or before.sources[index] == NOTHING_YET
    )
    initial = None
    if is_first and file.batch_id == checkpoint.unfinished_batch_id:
        initial = checkpoint.initial.get(index)
        if initial is None:
            raise ConfigurationError(
                f"batch {file.batch_id} is the first of source {index}, was never finished, and sources/{index}/0 does not say "
                "where it began: let Spark's own source finish it first"
            )
    ids = {topic: topic_ids[topic] for topic in offset.offsets if topic_ids.get(topic)}
    return json.dumps(StreamOffset(offset.offsets, ids, initial).to_json(), separators=(",", ":"))


def replace_files(checkpoint: Checkpoint, files: Sequence[OffsetFile]) -> pathlib.Path:
    """Write them, each in one step, the older one first; gives the folder that has them as they were."""
    folder, kept = checkpoint.path / "offsets", checkpoint.path / KEPT
    files = [each for each in files if each not in checkpoint.files]  # others were replaced before a crash
    kept.mkdir(exist_ok=True)
    for each in files:
        path = folder / str(each.batch_id)
        shutil.copy2(path, kept / path.name)
        _sync(kept / path.name)
    _sync(kept)
    for each in files:
        path, new = folder / str(each.batch_id), folder / f".{each.batch_id}.oncelog.tmp"
        new.write_text(each.text)
        shutil.copymode(path, new)
        _sync(new)
        # Hadoop's checksum of the old content. Without one it checks nothing; with a wrong one it would refuse the file.
        with contextlib.suppress(FileNotFoundError):
            (folder / f".{each.batch_id}.crc").unlink()
        new.replace(path)
        _sync(folder)
    return kept


def _sync(path: pathlib.Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
