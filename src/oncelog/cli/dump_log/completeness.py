"""Whether a log is whole: its segments against the checkpoints of the data directory that its own lies in.

A segment that is gone leaves no damaged byte behind. What tells is up to where the log was synced (the recovery points, and of a
damaged log that a start could not open the offline ends), where it begins, and up to where the cleaner may have left gaps.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import pairwise

from oncelog.cli.dump_log.files import Damage, Item, base_offset_of, opened, problem, walked
from oncelog.errors import CorruptIndex, StorageError
from oncelog.host.read_only_files import ReadOnlyFiles
from oncelog.lazy_dataclass import dataclass
from oncelog.log import checkpoint_files
from oncelog.log.failed_sync import ANEW_SUFFIX, MOVED_DIRECTORY
from oncelog.segments.lost_processes import lost_processes
from oncelog.segments.topic_ids import of_others
from oncelog.types import TopicPartition

_PARTITION = re.compile(r"([^.].*)-(\d{1,10})")
_SEGMENT = re.compile(r"\d{20}\.log")
_METADATA_TOPIC = "__cluster_metadata"  # a checkpoint of its own takes the place of its beginning
_DELETED = re.compile(r"(.+)\.[^.]+-delete")
GONE = "only a copy of the files has them (docs/runbook.md, a damaged partition)"


@dataclass(frozen=True)
class Checkpoints:
    """What a data directory says of its logs. None: that file is not there, or says nothing that can be understood."""

    synced_ends: dict[TopicPartition, int]
    log_starts: dict[TopicPartition, int] | None
    cleaned: dict[TopicPartition, int] | None
    is_oncelog: bool
    is_clean: bool

    @property
    def name_all(self) -> bool:
        """Whether they name none that is rightly gone: Apache Kafka's may lag behind a topic's deletion until a clean stop."""
        return self.is_oncelog or self.is_clean

    @classmethod
    def read(cls, directory: str) -> Checkpoints:
        """Those of a data directory; empty ones of any other. Raises OSError where one cannot be read."""
        meta = _content(f"{directory}/meta.properties")
        ends: dict[TopicPartition, int] = {}
        for name in (checkpoint_files.RECOVERY_POINTS, checkpoint_files.OFFLINE_ENDS):
            for where, offset in (_offsets(directory, name) or {}).items():
                ends[where] = max(ends.get(where, 0), offset)
        return cls(
            ends,
            _offsets(directory, checkpoint_files.LOG_START_OFFSETS),
            _offsets(directory, checkpoint_files.CLEANED_OFFSETS),
            meta is not None and b"directory.id" not in meta,
            _is_there(f"{directory}/{checkpoint_files.CLEAN_SHUTDOWN}"),
        )


def directory_items(path: str) -> Iterator[Item]:
    """What is missing of the log in a partition's directory; of a data directory, which partitions' directories are, and
    which processes'."""
    path = os.path.abspath(path)
    where = _partition_of(path)
    try:
        if where is not None:
            yield from _of_partition(path, where)
        else:
            os.listdir(path)
            if _is_there(f"{path}/{checkpoint_files.RECOVERY_POINTS}"):
                yield from _lost_partitions(path)
            yield from (problem(lost, text) for lost, text in lost_processes(ReadOnlyFiles(), path).items())
    except OSError as error:
        yield problem(error.filename or path, f"cannot be read: {error.strerror or error}")
    except StorageError as error:  # names its file
        yield problem(path, str(error))


def _of_partition(path: str, where: TopicPartition) -> Iterator[Item]:
    # How far it was synced is read before the log, which only grows; where it begins after it, as that is stored first.
    before = Checkpoints.read(os.path.dirname(path))
    names = sorted(os.listdir(path))
    segments = [f"{path}/{name}" for name in names if _SEGMENT.fullmatch(name)]
    synced_end = before.synced_ends.get(where, 0)
    if any(name.endswith(".swap") for name in names) or where.topic == _METADATA_TOPIC:
        return  # the cleaner was interrupted: the next start ends what it did
    checkpoints = Checkpoints.read(os.path.dirname(path))
    start_offset = (checkpoints.log_starts or {}).get(where, 0)
    if not segments:
        if synced_end > start_offset and checkpoints.name_all:
            yield _gone(path, f"has no segment, but it was synced up to {synced_end}", start_offset, synced_end)
        return
    first_offset = base_offset_of(segments[0])
    if checkpoints.is_oncelog and checkpoints.log_starts is not None and first_offset > start_offset:
        text = f"the log begins at offset {first_offset}, but it was deleted only up to {start_offset}"
        yield _gone(segments[0], text, start_offset, first_offset)
    cleaned_offset = (checkpoints.cleaned or {}).get(where, 0)
    ends = [_end_offset(each) for each in segments]
    if checkpoints.cleaned is not None:
        for (segment, end_offset), following in pairwise([*zip(segments, ends, strict=True), ("", 0)]):
            begin_offset = base_offset_of(following[0]) if following[0] else end_offset
            if begin_offset > end_offset >= cleaned_offset and start_offset < begin_offset and end_offset < synced_end:
                text = f"the segment ends at offset {end_offset}, and the next one begins at {begin_offset}"
                yield _gone(segment, text, max(end_offset, start_offset), begin_offset)
    if ends[-1] < synced_end:
        text = f"the log ends at offset {ends[-1]}, but it was synced up to {synced_end}"
        yield _gone(segments[-1], text, max(ends[-1], start_offset), synced_end)


def _lost_partitions(path: str) -> Iterator[Item]:
    checkpoints = Checkpoints.read(path)
    if not checkpoints.name_all:
        return
    names = os.listdir(path)
    excused = {found[1] for name in names if (found := _DELETED.fullmatch(name))}
    for moved in (f"{path}/{MOVED_DIRECTORY}", f"{path}/{MOVED_DIRECTORY}{ANEW_SUFFIX}"):
        if os.path.isdir(moved):  # the next start brings them back
            excused.update(os.listdir(moved))
    here = [each for each in checkpoints.synced_ends if str(each) in names]
    others = of_others(ReadOnlyFiles(), path, here, is_clean=checkpoints.is_clean) if checkpoints.is_oncelog else {}
    for where, end_offset in sorted(checkpoints.synced_ends.items()):
        name, start_offset = str(where), (checkpoints.log_starts or {}).get(where, 0)
        if end_offset <= start_offset or name in excused or where.topic == _METADATA_TOPIC:
            continue
        if name not in names:
            text = f"is missing, but it was synced up to {end_offset}"
            yield _gone(f"{path}/{name}", text, start_offset, end_offset)
        elif where in others:
            text = f"{others[where]}, but {name} was synced up to {end_offset}"
            yield problem(
                f"{path}/{name}",
                f"{text}: put the right directory there, or remove that file if the records are {name}'s (docs/runbook.md)",
                first_offset=start_offset,
                last_offset=end_offset - 1,
            )
        elif not os.path.isdir(f"{path}/{name}"):  # one that cannot be looked into is told by who walks over all
            text = f"is no directory, but {name} was synced up to {end_offset}"
            yield problem(f"{path}/{name}", text, first_offset=start_offset, last_offset=end_offset - 1)


def _gone(path: str, text: str, first_offset: int, end_offset: int) -> Item:
    """Offsets that no file has."""
    shown = f"{text}: offsets {first_offset} to {end_offset - 1} are missing; {GONE}"
    return problem(path, shown, first_offset=first_offset, last_offset=end_offset - 1)


def _end_offset(path: str) -> int:
    end_offset = base_offset_of(path)
    with opened(path) as file:
        for each in walked(file, end_offset, check_crc=False):
            end_offset = end_offset if isinstance(each, Damage) else max(end_offset, each[1].end_offset)
    return end_offset


def _partition_of(path: str) -> TopicPartition | None:
    found = _PARTITION.fullmatch(os.path.basename(path))
    return TopicPartition(found[1], int(found[2])) if found else None


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_there(path: str) -> bool:
    try:
        os.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def _offsets(directory: str, name: str) -> dict[TopicPartition, int] | None:
    content = _content(f"{directory}/{name}")
    try:
        return None if content is None else checkpoint_files.offsets_from_bytes(content) if content else {}
    except CorruptIndex:
        return None  # the file has an item of its own
