"""What lies in a data directory: the logs of its partitions with their segments, and what the checkpoints say of them.

A path may be a data directory, of oncelog or of Apache Kafka, or the directory of one partition.
"""

from __future__ import annotations

import re
from dataclasses import field, replace

from oncelog.core.reconciliation.findings import DAMAGED, Finding
from oncelog.errors import CorruptIndex, StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    OFFLINE_ENDS,
    RECOVERY_POINTS,
    offsets_from_bytes,
)
from oncelog.log.failed_sync import MOVED_DIRECTORY
from oncelog.log.journal import BEGUN_FILE, CLOSED_FILE, FILE_PREFIX
from oncelog.log.leftovers import DELETED_DIRECTORY_SUFFIX, STRAY_SUFFIX, base_offset_of
from oncelog.segments.lost_processes import lost_processes
from oncelog.segments.source import Source
from oncelog.segments.topic_ids import of_others
from oncelog.segments.unread import unread
from oncelog.types import TopicPartition

META = "meta.properties"
NAMED_MAX = 10  # of what may be many
_PARTITION = re.compile(r"(.+)-(\d{1,10})")


@dataclass(frozen=True)
class PartitionFiles:
    """One partition's log. Offsets by the checkpoints, -1 where they name none. Paths are full; lists ascend by offset."""

    directory: str
    path: str
    topic: str
    partition: int
    segments: tuple[tuple[int, str], ...]  # base offset, path
    transaction_indexes: dict[int, str]  # base offset: path
    snapshots: tuple[tuple[int, str], ...]  # end offset, path
    recovery_point: int  # up to where it was synced; this one and the next three: -1 where no checkpoint has it
    high_watermark: int
    log_start_offset: int
    cleaned_offset: int
    is_clean: bool
    is_running: bool
    is_oncelog: bool
    time_indexes: dict[int, str] = field(default_factory=dict)  # base offset: path

    @property
    def where(self) -> TopicPartition:
        """Topic and number."""
        return TopicPartition(self.topic, self.partition)


@dataclass
class DataDirectory:
    """One directory that was given, and what is worth saying about it before anything is read (`notes`).

    `unread`: what could not be read, or is no directory; of a partition's with its topic and number.
    `lost`: partitions of which the checkpoints know records and no segment is here; of Apache Kafka only after a clean stop.
    """

    path: str
    partitions: list[PartitionFiles] = field(default_factory=list)
    is_clean: bool = False
    is_running: bool = False
    is_oncelog: bool = False
    notes: list[str] = field(default_factory=list)
    problems: list[tuple[str, str]] = field(default_factory=list)  # file, what is wrong with it
    unread: list[Finding] = field(default_factory=list)
    lost: dict[TopicPartition, int] = field(default_factory=dict)  # their end offset
    lost_processes: dict[str, str] = field(default_factory=dict)  # the directory, and what to say of it


def list_directory(source: Source, path: str, *, is_running: bool = False) -> DataDirectory:
    """Look at a directory. `is_running`: a broker holds its lock. Raises StorageError where it cannot be listed."""
    path = path.rstrip("/") or "/"
    names = source.list(path)
    found = DataDirectory(path, is_running=is_running)
    if any(name.endswith(".log") and base_offset_of(name) is not None for name in names):
        _add_partition(found, path, names, _Checkpoints.read(source, found, path.rpartition("/")[0] or "."))
        found.notes.append(f"{path} is one partition: what coordinators and groups say of it is not known")
        return found
    found.is_clean = CLEAN_SHUTDOWN in names and not is_running
    meta = source.read_whole(f"{path}/{META}") if META in names else b""
    found.is_oncelog = META in names and b"directory.id" not in meta
    checkpoints = _Checkpoints.read(source, found, path)
    for name in names:
        if match := _PARTITION.fullmatch(name):
            inner = f"{path}/{name}"
            try:
                inside = source.list(inner)
            except StorageError as error:
                of_it = unread(error, inner, path).at(path, match[1], int(match[2]))
                if isinstance(error.__cause__, NotADirectoryError):
                    of_it = replace(of_it, kind=DAMAGED, text=f"it is no directory that can be read: {error}")
                found.unread.append(of_it)
                continue
            _add_partition(found, inner, inside, checkpoints)
    if found.is_oncelog and not is_running:
        _judge_owners(source, found, checkpoints)
    if found.is_clean or (found.is_oncelog and not is_running):
        ends = checkpoints.ends() if found.is_clean else checkpoints.recovery_points
        # A deletion that was cut short, before the checkpoints had it; a start that was, which moves directories and back.
        excused = {each.rpartition(".")[0] for each in names if each.endswith(DELETED_DIRECTORY_SUFFIX)}
        for moved in (each for each in names if each.startswith(MOVED_DIRECTORY)):
            excused.update(source.list(f"{path}/{moved}"))
        here = {str(each.where) for each in found.partitions} | excused
        here |= {f"{each.topic}-{each.partition}" for each in found.unread}
        found.lost = {where: end for where, end in sorted(ends.items()) if end > 0 and str(where) not in here}
    found.lost_processes = lost_processes(source, path)
    _note_state(found, names)
    return found


def _judge_owners(source: Source, found: DataDirectory, checkpoints: _Checkpoints) -> None:
    synced = [each.where for each in found.partitions if checkpoints.recovery_points.get(each.where, 0) > 0]

    def not_read(path: str, error: StorageError) -> None:
        found.unread.append(unread(error, path, found.path))

    others = of_others(source, found.path, synced, is_clean=found.is_clean, not_read=not_read)
    for where, text in others.items():
        end = f"but {where} was synced up to {checkpoints.recovery_points[where]}"
        found.problems.append((f"{found.path}/{where}", f"{text}, {end}: a start takes it offline (docs/runbook.md)"))


def _note_state(found: DataDirectory, names: list[str]) -> None:
    if strays := [each for each in names if each.endswith(STRAY_SUFFIX)]:
        more = f" and {len(strays) - NAMED_MAX} more" if len(strays) > NAMED_MAX else ""
        found.notes.append(
            f"{found.path}: of no topic, moved aside by a start, and not read here: {', '.join(strays[:NAMED_MAX])}{more}"
            " (docs/runbook.md, a directory NAME-stray)"
        )
    if found.is_running:
        found.notes.append(
            f"{found.path}: a broker is running on it: ends of logs and what is under way are not judged; stop it for the rest"
        )
    elif not found.is_clean and found.partitions:
        found.notes.append(
            f"{found.path}: its broker did not stop cleanly: what its next start repairs (above recovery points) is not judged"
        )
    has_journal = CLOSED_FILE not in names and any(each.startswith(FILE_PREFIX) or each == BEGUN_FILE for each in names)
    if has_journal and not found.is_running:
        found.notes.append(
            f"{found.path}: a journal is there, which may hold what the segments do not (after a power cut): "
            f"start the broker once, or run `oncelog recover --yes {found.path}`, and reconcile then"
        )
    elif has_journal:
        found.notes.append(
            f"{found.path}: the journal may hold what the disk's segments do not: stop the broker before copying the directory"
        )


@dataclass
class _Checkpoints:
    recovery_points: dict[TopicPartition, int] = field(default_factory=dict)
    high_watermarks: dict[TopicPartition, int] = field(default_factory=dict)
    log_starts: dict[TopicPartition, int] = field(default_factory=dict)
    cleaned: dict[TopicPartition, int] = field(default_factory=dict)

    @classmethod
    def read(cls, source: Source, found: DataDirectory, path: str) -> _Checkpoints:
        read = []
        for name in (RECOVERY_POINTS, HIGH_WATERMARKS, LOG_START_OFFSETS, CLEANED_OFFSETS, OFFLINE_ENDS):
            file = f"{path}/{name}"
            try:
                data = source.read_whole(file) if source.exists(file) else b""
                read.append(offsets_from_bytes(data) if data else {})  # Apache Kafka makes them empty
            except CorruptIndex as error:
                found.problems.append((file, str(error)))
                read.append({})
        *others, offline_ends = read
        checkpoints = cls(*others)
        for where, end_offset in offline_ends.items():  # a damaged log: synced further than its indexes
            checkpoints.recovery_points[where] = max(checkpoints.recovery_points.get(where, 0), end_offset)
        return checkpoints

    def ends(self) -> dict[TopicPartition, int]:
        """How far each partition was synced; a clean stop writes both files, with the partitions that are there."""
        named = self.recovery_points.keys() | self.high_watermarks.keys()
        return {
            where: max(self.recovery_points.get(where, 0), self.high_watermarks.get(where, 0))
            for where in sorted(named)
        }


def _add_partition(found: DataDirectory, path: str, names: list[str], checkpoints: _Checkpoints) -> None:
    name = path.rpartition("/")[2]
    match = _PARTITION.fullmatch(name)
    if match is None:
        found.problems.append((path, "its name says no topic and partition"))
        return
    where = TopicPartition(match[1], int(match[2]))
    segments, snapshots, indexes, time_indexes = [], [], {}, {}
    for each in names:
        offset = base_offset_of(each)
        if offset is None:
            continue
        if each == f"{offset:020d}.log":
            segments.append((offset, f"{path}/{each}"))
        elif each == f"{offset:020d}.snapshot":
            snapshots.append((offset, f"{path}/{each}"))
        elif each == f"{offset:020d}.txnindex":
            indexes[offset] = f"{path}/{each}"
        elif each == f"{offset:020d}.timeindex":
            time_indexes[offset] = f"{path}/{each}"
    if not segments:
        return
    found.partitions.append(
        PartitionFiles(
            found.path,
            path,
            where.topic,
            where.partition,
            tuple(segments),
            indexes,
            tuple(snapshots),
            checkpoints.recovery_points.get(where, -1),
            checkpoints.high_watermarks.get(where, -1),
            checkpoints.log_starts.get(where, -1),
            checkpoints.cleaned.get(where, -1),
            found.is_clean,
            found.is_running,
            found.is_oncelog,
            time_indexes,
        )
    )
