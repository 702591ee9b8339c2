"""The files of a data directory as items to print: one object and one line each, damage among them.

Indexes are compared with the log beside them. Nothing is opened for writing, so a running broker is not disturbed; its
newest batches may look torn, as they are being written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NamedTuple

from oncelog.cli.dump_log.records import record_line, record_row
from oncelog.cli.durations import moment_text
from oncelog.cli.numbers import is_number
from oncelog.errors import CorruptBatch, CorruptIndex, StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.log import checkpoint_files, leader_epoch_file, leftovers, offset_index, time_index
from oncelog.log.batch_scan import Scan
from oncelog.log.files import Buffer
from oncelog.log.producer_snapshot import snapshot_from_bytes
from oncelog.log.segment import timestamp_of
from oncelog.log.torn_tail import placed_batches
from oncelog.log.transaction_index import aborted_from_bytes
from oncelog.wire.record_batch import RecordBatch

_SEARCHED_BYTES = (1 << 20, 64 << 20)  # behind a damaged place for the next whole batch


class Item(NamedTuple):
    """One thing found in a file."""

    row: dict[str, Any]
    line: str

    @property
    def is_problem(self) -> bool:
        """Whether it is damage."""
        return bool(self.row["kind"] == "problem")


@dataclass(frozen=True)
class Wanted:
    """What to show. `records`: None means those of internal topics only. Offsets: first inclusive, end exclusive."""

    records: bool | None = None
    first_offset: int = 0
    end_offset: int = 2**63 - 1

    def shows_records(self, topic: str) -> bool:
        """Whether records of this topic are shown."""
        return topic.startswith("__") if self.records is None else self.records


class ReadOnlyFile:
    """A file that cannot be changed by whoever holds it."""

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self._path = path

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` bytes."""
        return os.pread(self._descriptor, size_bytes, position)

    def size(self) -> int:
        """The length in bytes, now."""
        return os.fstat(self._descriptor).st_size

    def append(self, data: Buffer) -> None:  # noqa: ARG002
        """Refused."""
        raise StorageError(f"{self._path} is open for reading only")

    def write_at(self, position: int, data: Buffer) -> None:  # noqa: ARG002
        """Refused."""
        self.append(data)

    def truncate(self, size_bytes: int) -> None:  # noqa: ARG002
        """Refused."""
        self.append(b"")

    def sync(self) -> None:
        """Nothing was written."""

    def close(self) -> None:
        """The descriptor belongs to `opened`."""


@contextmanager
def opened(path: str) -> Iterator[ReadOnlyFile]:
    """A file open for reading."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        yield ReadOnlyFile(descriptor, path)
    finally:
        os.close(descriptor)


def problem(path: str, text: str, position: int | None = None, **more: Any) -> Item:
    """Damage, with its place."""
    where = f"{path} at byte {position}" if position is not None else path
    row = {"kind": "problem", "file": path, "position": position, "problem": text, **more}
    return Item(row, f"PROBLEM {where}: {text}")


def topic_of(path: str) -> str:
    """The topic whose partition's directory holds the file; empty where its name does not say."""
    topic, hyphen, partition = os.path.basename(os.path.dirname(os.path.abspath(path))).rpartition("-")
    return topic if hyphen and is_number(partition) else ""


def base_offset_of(path: str) -> int:
    """The offset that the file's name begins with; 0 for a file of another name."""
    return leftovers.base_offset_of(os.path.basename(path)) or 0


class Damage(NamedTuple):
    """A place of a segment that holds no batch; `next_offset` of the whole batch behind it, None where none was found."""

    position: int
    size_bytes: int
    reason: str
    due_offset: int
    next_offset: int | None


def walked(
    file: ReadOnlyFile, base_offset: int, *, check_crc: bool = True
) -> Iterator[tuple[int, RecordBatch] | Damage]:
    """Each batch with its position; behind a damaged place it goes on with the next whole one."""
    size_bytes = file.size()
    due_offset, position = base_offset, 0
    while position < size_bytes:
        scan = Scan(file, position, size_bytes, check_crc=check_crc)
        for batch in scan:
            due_offset = batch.end_offset
            yield scan.position, batch
        if scan.problem is None and scan.position >= size_bytes:
            return
        found = _next_whole(file, scan.position, size_bytes, due_offset)
        position, next_offset = (size_bytes, None) if found is None else (found[0], found[1].base_offset)
        lost = position - scan.position
        yield Damage(scan.position, lost, scan.problem or f"{lost} bytes are no batch", due_offset, next_offset)


def _next_whole(
    file: ReadOnlyFile, position: int, size_bytes: int, least_offset: int
) -> tuple[int, RecordBatch] | None:
    for searched in _SEARCHED_BYTES:  # mostly it is near
        tail = file.read_at(position, min(size_bytes - position, searched))
        found = next(placed_batches(tail, least_offset), None)
        if found is not None:
            return position + found[0], found[1]
        if position + searched >= size_bytes:
            return None
    return None


def segment_items(path: str, wanted: Wanted) -> Iterator[Item]:
    """The batches of a segment, and what is wrong with it."""
    topic = topic_of(path)
    with opened(path) as file:
        due_offset = base_offset_of(path)
        for each in walked(file, due_offset):
            if isinstance(each, Damage):
                yield _damaged(path, file, each)
                continue
            position, batch = each
            if batch.base_offset < due_offset:
                yield problem(path, f"offset {batch.base_offset} where {due_offset} or more is due", position)
            due_offset = batch.end_offset
            if batch.last_offset >= wanted.first_offset and batch.base_offset < wanted.end_offset:
                yield from _batch_items(path, topic, batch, position, wanted)


def torn_items(path: str, wanted: Wanted) -> Iterator[Item]:
    """What a start cut off a log, and kept for a person: that it ends in the middle of a batch is no fault of the directory."""
    for item in segment_items(path, wanted):
        if item.is_problem:
            yield Item({**item.row, "kind": "torn"}, item.line.replace("PROBLEM", "kept, torn:", 1))
        else:
            yield item


def _damaged(path: str, file: ReadOnlyFile, damage: Damage) -> Item:
    position, size_bytes, reason, due_offset, next_offset = damage
    if next_offset is None and not any(file.read_at(position, min(size_bytes, _SEARCHED_BYTES[-1]))):
        return problem(path, f"{size_bytes} zero bytes behind the last batch (space allocated ahead)", position)
    text = f"{reason}; {size_bytes} bytes from here on are not read, offset {due_offset} was due"
    if next_offset is not None:
        text += f"; the next whole batch begins at offset {next_offset}"
    return problem(path, text, position, due_offset=due_offset, size_bytes=size_bytes, next_offset=next_offset)


def _batch_items(path: str, topic: str, batch: RecordBatch, position: int, wanted: Wanted) -> Iterator[Item]:
    row, line = _batch(path, batch, position)
    try:
        records = batch.records()
    except CorruptBatch as error:
        yield Item(row, line)
        yield problem(path, f"the records of batch {batch.base_offset} cannot be read: {error}", position)
        return
    if batch.is_control and records:
        control = record_row(batch, records[0], topic)
        row |= {"control_type": control["type"], "coordinator_epoch": control.get("coordinator_epoch")}
        line += f"  {control['type']}"
    yield Item(row, line)
    if wanted.shows_records(topic):
        for record in records:
            if wanted.first_offset <= record.offset < wanted.end_offset:
                shown = {"file": path, **record_row(batch, record, topic)}
                yield Item(shown, record_line(shown))


def _batch(path: str, batch: RecordBatch, position: int) -> tuple[dict[str, Any], str]:
    try:
        codec = batch.codec.name.lower()
    except CorruptBatch:
        codec = "unknown"
    row = {
        "kind": "batch",
        "file": path,
        "position": position,
        "size_bytes": batch.size_bytes,
        "base_offset": batch.base_offset,
        "last_offset": batch.last_offset,
        "record_count": batch.record_count,
        "leader_epoch": batch.partition_leader_epoch,
        "codec": codec,
        "timestamp_type": "LogAppendTime" if batch.timestamp_type else "CreateTime",
        "max_timestamp_ms": batch.max_timestamp,
        "producer_id": batch.producer_id,
        "producer_epoch": batch.producer_epoch,
        "base_sequence": batch.base_sequence,
        "last_sequence": batch.last_sequence,
        "is_transactional": batch.is_transactional,
        "is_control": batch.is_control,
        "crc": batch.crc,
    }
    kind = "control" if batch.is_control else "transactional" if batch.is_transactional else "plain"
    parts = [
        f"batch {batch.base_offset}..{batch.last_offset}",
        f"at {position}",
        f"{batch.size_bytes} bytes",
        f"{batch.record_count} records",
        kind,
    ]
    if batch.producer_id >= 0:
        parts.append(f"producer {batch.producer_id}:{batch.producer_epoch} sequence {batch.base_sequence}")
    if codec != "none":
        parts.append(codec)
    parts += [f"leader epoch {batch.partition_leader_epoch}", moment_text(batch.max_timestamp)]
    return row, "  ".join(parts)


class KnownBatch(NamedTuple):
    """A batch of the log. `latest`: the timestamp by which its records are found, -1 where the cleaner left none."""

    base_offset: int
    last_offset: int
    timestamp: int
    latest: int


@dataclass
class LogFacts:
    """What indexes are compared with: batches by position, and the producers of ABORT markers by offset."""

    size_bytes: int
    batches: dict[int, KnownBatch] = field(default_factory=dict)  # by position
    aborts: dict[int, int] = field(default_factory=dict)
    end_offset: int = 0
    is_damaged: bool = False


def log_facts(index_path: str) -> LogFacts | None:
    """Those of the segment an index belongs to; None where it is not there."""
    path = os.path.splitext(index_path)[0] + ".log"
    if not os.path.lexists(path):  # one that cannot be opened is not for that absent
        return None
    with opened(path) as file:
        facts = LogFacts(file.size(), end_offset=base_offset_of(path))
        for each in walked(file, facts.end_offset, check_crc=False):
            if isinstance(each, Damage):
                facts.is_damaged = True
                continue
            position, batch = each
            facts.batches[position] = KnownBatch(
                batch.base_offset, batch.last_offset, batch.max_timestamp, timestamp_of(batch)
            )
            facts.end_offset = batch.end_offset
            if batch.is_control and _is_abort(batch):
                facts.aborts[batch.base_offset] = batch.producer_id
    return facts


def _is_abort(batch: RecordBatch) -> bool:
    try:
        marker = batch.end_txn_marker()
    except CorruptBatch:
        return False
    return marker is not None and not marker.commit


def offset_index_items(path: str, wanted: Wanted) -> Iterator[Item]:  # noqa: ARG001
    """Entries of a `.index`, each compared with the log."""
    facts, base_offset = log_facts(path), base_offset_of(path)
    data = _without_zeros(_read(path), offset_index.ENTRY_SIZE_BYTES)
    index = offset_index.OffsetIndex.from_bytes(base_offset, data, facts.size_bytes if facts else 2**62)
    for relative, position in zip(index.offsets, index.positions, strict=True):
        offset = relative + base_offset
        row = {"kind": "offset_index_entry", "file": path, "offset": offset, "position": position}
        yield Item(row, f"offset {offset}  position {position}")
        if facts is not None:
            batch = facts.batches.get(position)
            if batch is None:
                yield problem(path, f"offset {offset} points to byte {position}, where no batch begins")
            elif not batch[0] <= offset <= batch[1]:
                text = f"offset {offset} points to byte {position}, which holds offsets {batch[0]}..{batch[1]}"
                yield problem(path, text)


def time_index_items(path: str, wanted: Wanted) -> Iterator[Item]:  # noqa: ARG001
    """Entries of a `.timeindex`, each compared with the log, and the log's largest timestamp with the last."""
    facts, base_offset = log_facts(path), base_offset_of(path)
    data = _without_zeros(_read(path), time_index.ENTRY_SIZE_BYTES)
    index = time_index.TimeIndex.from_bytes(base_offset, data)
    batches = sorted(facts.batches.values()) if facts else []
    latest, begun = time_index.NO_TIMESTAMP, 0
    for timestamp, relative in zip(index.timestamps, index.offsets, strict=True):
        offset = relative + base_offset
        row = {"kind": "time_index_entry", "file": path, "timestamp_ms": timestamp, "offset": offset}
        yield Item(row, f"timestamp {timestamp} {moment_text(timestamp)}  offset {offset}")
        if facts is None or not batches:
            continue
        while begun < len(batches) and batches[begun].last_offset < offset:
            latest = max(latest, batches[begun].latest)
            begun += 1
        here = batches[begun] if begun < len(batches) else None
        if offset >= facts.end_offset:
            yield problem(path, f"offset {offset} lies behind the end of the log, {facts.end_offset}")
        elif here is not None and here.base_offset <= offset and here.timestamp != timestamp:
            yield problem(path, f"offset {offset} has timestamp {here.timestamp} in the log, {timestamp} here")
        elif latest > timestamp:
            yield problem(path, f"timestamp {timestamp} is named of offset {offset}, but one before it has {latest}")
        elif (here is None or here.base_offset > offset) and not facts.is_damaged:
            yield problem(path, f"no batch of the log has offset {offset}")
    latest = max([each.latest for each in batches], default=time_index.NO_TIMESTAMP)
    last = index.last[0]
    if latest > last and _is_finished(path):
        yield problem(path, f"the log's largest timestamp, {latest}, is missing: the last entry here is {last}")


def _is_finished(index_path: str) -> bool:
    """Whether its segment was rolled, or closed by a clean stop: an active one's index lags behind."""
    directory, name = os.path.split(os.path.abspath(index_path))
    base_offset = base_offset_of(name)
    offsets = (leftovers.base_offset_of(each) for each in os.listdir(directory) if each.endswith(".log"))
    if any(offset is not None and offset > base_offset for offset in offsets):
        return True
    return os.path.exists(f"{os.path.dirname(directory)}/{checkpoint_files.CLEAN_SHUTDOWN}")


def transaction_index_items(path: str, wanted: Wanted) -> Iterator[Item]:  # noqa: ARG001
    """Entries of a `.txnindex`: each names an ABORT marker of the log."""
    facts = log_facts(path)
    for entry in aborted_from_bytes(_read(path), base_offset_of(path)):
        row = {
            "kind": "aborted_transaction",
            "file": path,
            "producer_id": entry.producer_id,
            "first_offset": entry.first_offset,
            "last_offset": entry.last_offset,
            "last_stable_offset": entry.last_stable_offset,
        }
        yield Item(
            row,
            f"aborted transaction  producer {entry.producer_id}  offsets {entry.first_offset}..{entry.last_offset}"
            f"  last stable offset {entry.last_stable_offset}",
        )
        if facts is not None and facts.aborts.get(entry.last_offset) != entry.producer_id:
            text = f"the log has no ABORT marker of producer {entry.producer_id} at offset {entry.last_offset}"
            yield problem(path, text)


def snapshot_items(path: str, wanted: Wanted) -> Iterator[Item]:  # noqa: ARG001
    """Producers of a `.snapshot`."""
    for entry in snapshot_from_bytes(_read(path)):
        first_offset = entry.current_txn_first_offset
        row = {
            "kind": "producer",
            "file": path,
            "producer_id": entry.producer_id,
            "producer_epoch": entry.producer_epoch,
            "coordinator_epoch": entry.coordinator_epoch,
            "last_sequence": entry.last_sequence,
            "last_offset": entry.last_offset,
            "offset_delta": entry.offset_delta,
            "timestamp_ms": entry.timestamp,
            "current_transaction_first_offset": first_offset if first_offset >= 0 else None,
        }
        is_open = f"  open transaction from {first_offset}" if first_offset >= 0 else ""
        yield Item(
            row,
            f"producer {entry.producer_id}:{entry.producer_epoch}  last sequence {entry.last_sequence}"
            f"  last offset {entry.last_offset}  coordinator epoch {entry.coordinator_epoch}"
            f"  {moment_text(entry.timestamp)}{is_open}",
        )


def leader_epoch_items(path: str, wanted: Wanted) -> Iterator[Item]:  # noqa: ARG001
    """Entries of a `leader-epoch-checkpoint`."""
    for leader_epoch, start_offset in leader_epoch_file.LeaderEpochs.from_bytes(_read(path)).entries:
        row = {"kind": "leader_epoch", "file": path, "leader_epoch": leader_epoch, "start_offset": start_offset}
        yield Item(row, f"leader epoch {leader_epoch}  from offset {start_offset}")


def checkpoint_items(path: str, wanted: Wanted) -> Iterator[Item]:  # noqa: ARG001
    """Entries of an offset checkpoint."""
    data = _read(path)
    # Apache Kafka makes these files empty and fills them at its first checkpoint.
    for where, offset in (checkpoint_files.offsets_from_bytes(data) if data else {}).items():
        row = {
            "kind": "checkpoint",
            "file": path,
            "topic": where.topic,
            "partition": where.partition,
            "offset": offset,
        }
        yield Item(row, f"{where}  offset {offset}")


def partition_metadata_items(path: str, wanted: Wanted) -> Iterator[Item]:  # noqa: ARG001
    """The topic id in `partition.metadata`."""
    topic_id = checkpoint_files.partition_metadata_from_bytes(_read(path)).hex()
    yield Item({"kind": "partition_metadata", "file": path, "topic_id": topic_id}, f"topic id {topic_id}")


Reader = Callable[[str, Wanted], Iterator[Item]]
BY_SUFFIX: dict[str, Reader] = {
    ".log": segment_items,
    ".torn": torn_items,
    ".index": offset_index_items,
    ".timeindex": time_index_items,
    ".txnindex": transaction_index_items,
    ".snapshot": snapshot_items,
}
BY_NAME: dict[str, Reader] = {
    leader_epoch_file.FILE_NAME: leader_epoch_items,
    checkpoint_files.PARTITION_METADATA: partition_metadata_items,
    checkpoint_files.RECOVERY_POINTS: checkpoint_items,
    checkpoint_files.HIGH_WATERMARKS: checkpoint_items,
    checkpoint_files.LOG_START_OFFSETS: checkpoint_items,
    checkpoint_files.CLEANED_OFFSETS: checkpoint_items,
    checkpoint_files.OFFLINE_ENDS: checkpoint_items,
    checkpoint_files.OFFLINE_CUTS: checkpoint_items,
}


def reader_of(path: str) -> Reader | None:
    """Who reads a file of this name."""
    name = os.path.basename(path)
    return BY_NAME.get(name) or BY_SUFFIX.get(os.path.splitext(name)[1])


def items_of(path: str, wanted: Wanted) -> Iterator[Item]:
    """Everything in one file; damage of any kind becomes an item, never an exception."""
    reader = reader_of(path)
    if reader is None:
        try:
            os.stat(path)  # of a directory without the right to enter it not even that
            yield problem(path, "no file of a log: its name tells no format")
        except OSError as error:
            yield unread(error, path)
        return
    try:
        yield from reader(path, wanted)
    except (CorruptIndex, CorruptBatch) as error:
        yield problem(path, str(error))
    except OSError as error:
        yield unread(error, path)


def unread(error: OSError, path: str) -> Item:
    """What the system refused while `path` was looked at: itself, or the file that it is compared with."""
    refused = str(error.filename or path)
    if os.path.abspath(refused) == os.path.abspath(path):
        return problem(path, f"cannot be read: {error.strerror or error}")
    return problem(path, f"not compared with {refused}, which cannot be read: {error.strerror or error}")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


def _without_zeros(data: bytes, entry_size_bytes: int) -> bytes:
    """Apache Kafka allocates index files ahead while a segment is active: zeros to the end are no entries."""
    used = len(data.rstrip(b"\0"))
    kept = -(-used // entry_size_bytes) * entry_size_bytes
    return data[:kept] if len(data) % entry_size_bytes == 0 else data
