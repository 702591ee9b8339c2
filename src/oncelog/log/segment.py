"""One segment: a `.log` file of record batches and the indexes beside it.

Only the last segment of a log is appended to. Indexes are read when first needed, and built anew from the log when
their file is missing or broken, so an index can cost time but never data. Offsets given are absolute.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple

from oncelog.errors import CorruptIndex, DamagedLog, StorageError
from oncelog.log.batch_header import WALK_SIZE_BYTES, BatchAt, batch_at
from oncelog.log.batch_scan import Scan
from oncelog.log.config import INT32_MAX, LogConfig
from oncelog.log.files import Buffer, File
from oncelog.log.index_files import read_indexes
from oncelog.log.offset_index import ENTRY_SIZE_BYTES as OFFSET_ENTRY_BYTES
from oncelog.log.offset_index import OffsetIndex
from oncelog.log.open_files import OpenFiles
from oncelog.log.time_index import ENTRY_SIZE_BYTES as TIME_ENTRY_BYTES
from oncelog.log.time_index import NO_TIMESTAMP, TimeIndex
from oncelog.log.time_proof import LACKS_END, LoadedTimes
from oncelog.log.transaction_index import aborted_from_bytes, aborted_to_bytes
from oncelog.types import AbortedTransaction
from oncelog.wire.crc32c import crc32c
from oncelog.wire.record_batch import RecordBatch

_log = logging.getLogger("oncelog.partitions")
_WALK_CHUNK_BYTES = 8192
_PATHS = {
    "log_path": "log",
    "index_path": "index",
    "time_index_path": "timeindex",
    "transaction_index_path": "txnindex",
}


class SegmentRead(NamedTuple):
    """Whole batches: `base_offset` of the first, exclusive `end_offset`, and where in the file they lie."""

    data: bytes
    base_offset: int
    end_offset: int
    position: int
    end_position: int


def timestamp_of(batch: RecordBatch) -> int:
    """The timestamp by which a batch is found; none for one that the cleaner emptied, as no record can be given."""
    return batch.max_timestamp if batch.record_count else NO_TIMESTAMP


class Segment:
    """Batches from `base_offset` up to (exclusive) `end_offset`. `size_bytes` is what is valid of the log file."""

    def __init__(
        self,
        open_files: OpenFiles,
        directory: str,
        base_offset: int,
        config: LogConfig,
        *,
        size_bytes: int = 0,
        suffix: str = "",
    ) -> None:
        self.base_offset = self.end_offset = base_offset
        self.size_bytes = size_bytes
        self.config = config
        self._bounds_of: LogConfig | None = None  # whose the bounds of `must_roll_for` are
        self._age_ms_max = self._offset_entries_max = self._time_entries_max = 0
        self.max_timestamp = NO_TIMESTAMP
        self.offset_of_max_timestamp = base_offset
        self.unchecked_end_position = 0  # bytes below were not written or checked by this process: reads check them
        self._stem = f"{directory}/{base_offset:020d}"
        self.log_path = f"{self._stem}.log{suffix}"
        self.index_path = f"{self._stem}.index{suffix}"
        self.time_index_path = f"{self._stem}.timeindex{suffix}"
        self.transaction_index_path = f"{self._stem}.txnindex{suffix}"
        self._open_files = open_files
        self._offset_index: OffsetIndex | None = OffsetIndex(base_offset) if size_bytes == 0 else None
        self._time_index: TimeIndex | None = TimeIndex(base_offset) if size_bytes == 0 else None
        self._aborted: list[AbortedTransaction] | None = [] if size_bytes == 0 else None
        self._last_indexed_position = 0
        self._first_timestamp: int | None = None
        self.created_ms: int | None = None  # of the clock: made, or first appended to since it was opened
        self._written_timestamps = (NO_TIMESTAMP, base_offset)  # the largest, its offset, before what is written later
        self._read_hint = (base_offset, 0)
        self.indexes_differ = False  # the index files hold something that memory does not: the next flush rewrites them
        self._loaded_end_position = 0  # index entries up to here came from the file, later ones from this process
        self._believed: set[int] = set()  # positions of the former that were seen to agree with the log
        self.times = LoadedTimes(size_bytes)
        self.ends_in_damage = False  # the indexes that were built anew, as nothing can be read behind that
        self.has_rebuilt_indexes = False
        self.mends_indexes = False  # on the disk as well: not while it is being recovered
        self.known_problem: str | None = None  # of its indexes, which are not built anew yet

    # Indexes

    @property
    def offset_index(self) -> OffsetIndex:
        """Where batches lie; read or rebuilt on first use."""
        if self._offset_index is None:
            self._rebuild_indexes(self._read_indexes())
            assert self._offset_index is not None
        return self._offset_index

    @property
    def time_index(self) -> TimeIndex:
        """When batches were made; read or rebuilt on first use."""
        if self._time_index is None:
            self._rebuild_indexes(self._read_indexes())
            assert self._time_index is not None
        return self._time_index

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """The aborted transactions that ended here, in marker order. Raises DamagedLog when the file is broken."""
        if self._aborted is None:
            try:
                self._aborted = self.read_aborted()
            except CorruptIndex as error:
                raise DamagedLog(f"{self.transaction_index_path}: {error}; the next start builds it anew") from error
        return self._aborted

    def read_aborted(self) -> list[AbortedTransaction]:
        """The transaction index as it lies on disk. Raises CorruptIndex."""
        files = self._open_files.files
        if not files.exists(self.transaction_index_path):
            return []
        return aborted_from_bytes(files.read_whole(self.transaction_index_path), self.base_offset)

    def _read_indexes(self) -> str | None:
        """As they lie on disk; what is wrong with them."""
        try:
            index, self._time_index, self.indexes_differ = read_indexes(
                self._open_files.files, self.index_path, self.time_index_path, self.base_offset, self.size_bytes
            )
        except CorruptIndex as error:
            return str(error)
        self._offset_index = index
        self._last_indexed_position = self._loaded_end_position = index.last_position
        self.times.load(len(self._time_index))
        self.max_timestamp, self.offset_of_max_timestamp = self._time_index.last
        return None

    def _rebuild_indexes(self, problem: str | None) -> None:
        if problem is not None:
            self.known_problem = problem
            self._open_files.check_whole_read(self.log_path, self.size_bytes)
            self.build_indexes(problem, lambda _: None)
            self._built()

    def build_indexes(self, problem: str, pace: Callable[[int], None]) -> None:
        """From the log, in memory; `pace` is told how much of it was read."""
        _log.warning("%s: %s; the segment's indexes are built anew from the log", self.log_path, problem)
        self.reset_indexes()
        for batch in (scan := self.scan(0, check_crc=False)):
            if batch.last_offset - self.base_offset > INT32_MAX:
                scan.problem = "an impossible offset"  # a flipped bit: whoever reads there is told
                break
            self.note_batch(batch.last_offset, timestamp_of(batch), scan.position)
            pace(batch.size_bytes)
        self.time_index.maybe_add(self.max_timestamp, self.offset_of_max_timestamp)
        self.ends_in_damage = scan.problem is not None

    def to_build(self) -> Segment:
        """The same segment for another thread, with files of its own: there `build_indexes`, then here `take_indexes`."""
        files, directory = OpenFiles(self._open_files.files), self._stem.rpartition("/")[0]
        return Segment(files, directory, self.base_offset, self.config, size_bytes=self.size_bytes)

    def take_indexes(self, built: Segment) -> None:
        """Those that were built of the log as it is."""
        self.reset_indexes()
        self._offset_index, self._time_index = built.offset_index, built.time_index
        self._last_indexed_position = built._last_indexed_position
        self.max_timestamp, self.offset_of_max_timestamp = built.max_timestamp, built.offset_of_max_timestamp
        self.ends_in_damage = built.ends_in_damage
        self._built()

    def _built(self) -> None:
        self.has_rebuilt_indexes = True
        if self.ends_in_damage:
            self.times.damaged(self.size_bytes)
        elif self.mends_indexes:
            try:
                self.flush_indexes()
            except StorageError as error:  # what is in memory serves
                _log.warning("%s: its indexes could not be written: %s", self.log_path, error)

    def time_problem(self, timestamp: int | None) -> str | None:
        """What is wrong with the indexes as far as a lookup uses them, by `timestamp` or by the largest one (None): it has them
        built anew. Raises StorageError."""
        problem = self.known_problem or (self._read_indexes() if self._time_index is None else None)
        self.known_problem = problem or self.times.problem_of_last(index := self.time_index, self)
        if self.known_problem is None and timestamp is not None:
            self.known_problem = self.times.problem_of(index, index.number_before(timestamp), self)
        return self.known_problem

    def offset_before(self, timestamp: int) -> int:
        """An offset before which no record is as late as `timestamp`."""
        self._rebuild_indexes(self.time_problem(timestamp))
        return self.time_index.offset_before(timestamp)

    @property
    def is_proven(self) -> bool:
        """Whether the largest timestamp is that of the batches, not what an index file says."""
        return self.times.unproven_end_position == 0

    def note_proof(self, largest_timestamp: int) -> None:
        """All headers below `unproven_end_position` were read: this is the largest timestamp among them."""
        if largest_timestamp > self.largest_timestamp:
            self.known_problem = f"its time index ends at {self.largest_timestamp}, the log at {largest_timestamp}"
        elif not self.ends_in_damage:
            self.times.proven()

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of the segment in ms; -1 where its batches have none."""
        self._rebuild_indexes(self.time_problem(None))
        return max(self.time_index.last[0], self.max_timestamp)

    def reset_indexes(self) -> None:
        """Start offset and time index anew; `note_batch` fills them."""
        self._offset_index = OffsetIndex(self.base_offset)
        self._time_index = TimeIndex(self.base_offset)
        self._last_indexed_position = self._loaded_end_position = 0
        self.times.forget()
        self.known_problem = None
        self.indexes_differ = True
        self.max_timestamp, self.offset_of_max_timestamp = NO_TIMESTAMP, self.base_offset

    def note_batch(self, last_offset: int, max_timestamp: int, position: int) -> None:
        """Index the batch at `position`, by Kafka's rule: an entry once more than index.interval.bytes lie between."""
        self._note_timestamp(last_offset, max_timestamp)
        if position - self._last_indexed_position > self.config.index_interval_bytes:
            self.offset_index.add(last_offset, position)
            self.time_index.maybe_add(self.max_timestamp, self.offset_of_max_timestamp)
            self._last_indexed_position = position

    def _note_timestamp(self, last_offset: int, max_timestamp: int) -> None:
        if max_timestamp > self.max_timestamp:
            self.max_timestamp = max_timestamp
            self.offset_of_max_timestamp = last_offset

    def cut_indexes(self, end_offset: int) -> int:
        """Forget index entries at or above `end_offset`, and learn anew what lies below; returns where that ends."""
        self._position_from_index(*self.offset_index.entry_before(end_offset - 1))
        index, time_index = self.offset_index, self.time_index
        self.indexes_differ |= index.truncate(end_offset) + time_index.truncate(end_offset) > 0
        self._last_indexed_position = index.last_position
        self.times.cut(index.last_position, len(time_index))
        self.max_timestamp, self.offset_of_max_timestamp = time_index.last
        self.end_offset = self.base_offset
        for batch in (scan := self.scan(index.last_position, check_crc=False)):
            if batch.last_offset >= end_offset:
                break
            self.end_offset = batch.end_offset
            self._note_timestamp(batch.last_offset, timestamp_of(batch))
        return scan.position

    def set_aborted(self, entries: list[AbortedTransaction]) -> None:
        """Replace the transaction index; without entries there is no file."""
        self._aborted = list(entries)
        if entries:
            data = b"".join(map(aborted_to_bytes, entries))
            file = self._open_files.get(self.transaction_index_path)
            file.write_at(0, data)
            file.truncate(len(data))
        else:
            self._open_files.forget(self.transaction_index_path)
            self._open_files.files.remove(self.transaction_index_path)

    def check_end(self) -> None:
        """Of one that was closed: the last time index entry is its largest timestamp, or both indexes are built anew."""
        self._rebuild_indexes(self.time_problem(None))
        self._rebuild_indexes(LACKS_END if self.time_index.last[0] < self.max_timestamp else None)

    def flush_indexes(self) -> None:
        """Write the index entries that wait in memory."""
        for path, index, entry_bytes in (
            (self.index_path, self.offset_index, OFFSET_ENTRY_BYTES),
            (self.time_index_path, self.time_index, TIME_ENTRY_BYTES),
        ):
            first = 0 if self.indexes_differ else index.flushed_count
            file = self._open_files.get(path)
            if first < len(index):
                file.write_at(first * entry_bytes, index.to_bytes(first))
            if first == 0:
                file.truncate(len(index) * entry_bytes)
            index.flushed_count = len(index)
        self.indexes_differ = False

    def finish(self) -> None:
        """Before a roll or a checkpoint: the last time index entry is the largest timestamp, as Kafka's readers expect."""
        self.time_index.maybe_add(self.max_timestamp, self.offset_of_max_timestamp)
        self.flush_indexes()

    # Appending

    def must_roll_for(self, size_bytes: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Kafka's `LogSegment.shouldRoll`, by size, age (see `_age_ms`), full index and offset range."""
        if self.size_bytes == 0:
            self.created_ms = self.created_ms or now_ms
            return last_offset - self.base_offset > INT32_MAX
        config = self.config
        if config is not self._bounds_of:  # asked for each batch: worked out once for each configuration
            self._bounds_of = config
            self._age_ms_max = config.segment_ms - self._jitter_ms()
            self._offset_entries_max = config.index_bytes_max // OFFSET_ENTRY_BYTES
            self._time_entries_max = config.index_bytes_max // TIME_ENTRY_BYTES - 1
        return (
            self.size_bytes + size_bytes > config.segment_bytes
            or last_offset - self.base_offset > INT32_MAX
            or self._age_ms(max_timestamp, now_ms) > self._age_ms_max
            or len(self.offset_index.offsets) >= self._offset_entries_max
            or len(self.time_index.timestamps) >= self._time_entries_max
        )

    def _age_ms(self, max_timestamp: int, now_ms: int) -> int:
        """From the first batch's timestamp to the new one's (kafka-notes P25); where the first has none, the clock's time
        since the segment was made, or opened by this process."""
        first_timestamp = self.first_timestamp
        if first_timestamp >= 0:
            return max_timestamp - first_timestamp
        if self.created_ms is None:
            self.created_ms = now_ms
        return now_ms - self.created_ms

    def _jitter_ms(self) -> int:
        """By how much this segment is rolled earlier, so that many partitions do not all roll at once (segment.jitter.ms).

        Apache Kafka draws it; taken from the segment's name it is the same in every run.
        """
        config = self.config
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        return crc32c(self._stem.encode()) % jitter_ms if jitter_ms > 0 else 0

    @property
    def first_timestamp(self) -> int:
        """The largest timestamp of the first batch, from which segment.ms counts; -1 where it has none."""
        if self._first_timestamp is None:
            header = batch_at(self._log().read_at(0, WALK_SIZE_BYTES), 0, 0) if self.size_bytes else None
            if header is None:
                return NO_TIMESTAMP
            self._first_timestamp = header.max_timestamp
        return self._first_timestamp

    def append(self, data: Buffer, last_offset: int, max_timestamp: int) -> None:
        """Write one batch at the end. After a StorageError the segment still says what was valid before."""
        position = self.size_bytes
        self._open_files.get(self.log_path).write_at(position, data)
        self.note_batch(last_offset, max_timestamp, position)
        self.size_bytes = position + len(data)
        self.end_offset = last_offset + 1

    def append_later(self, data: Buffer, last_offset: int, max_timestamp: int) -> None:
        """As `append`, with the bytes to be written later (the file is pinned)."""
        position = self.size_bytes
        if not position:
            self._first_timestamp = max_timestamp
        if self._open_files.later(self.log_path) is None:
            self._written_timestamps = (self.max_timestamp, self.offset_of_max_timestamp)
        self._open_files.write_later(self.log_path, self.end_offset, position, data)
        self.note_batch(last_offset, max_timestamp, position)
        self.size_bytes = position + len(data)
        self.end_offset = last_offset + 1

    def forget_later(self) -> None:
        """What was not written yet never is: the segment ends before it."""
        later = self._open_files.forget_later(self.log_path)
        if later is None:
            return
        self.size_bytes, self.end_offset = later.position, later.base_offset
        self.indexes_differ |= (
            self.offset_index.truncate(self.end_offset) + self.time_index.truncate(self.end_offset) > 0
        )
        self._last_indexed_position = self.offset_index.last_position
        self.max_timestamp, self.offset_of_max_timestamp = self._written_timestamps
        if not self.size_bytes:
            self._first_timestamp = None

    def add_aborted(self, entry: AbortedTransaction) -> None:
        """Write one transaction index entry through; the file appears with the first."""
        known = self.aborted
        data = aborted_to_bytes(entry)
        self._open_files.get(self.transaction_index_path).write_at(len(known) * len(data), data)
        known.append(entry)

    def create(self) -> None:
        """Make the log file, so that its name holds the log's end even while it is empty."""
        self._open_files.get(self.log_path)

    # Reading

    def locate(self, offset: int) -> BatchAt | None:
        """The first batch whose last offset is at least `offset`. Raises DamagedLog when headers make no sense."""
        later = self._open_files.later(self.log_path)
        if later is not None and offset >= later.base_offset:
            self._open_files.settle(self.log_path)
        hint_offset, hint_position = self._read_hint
        position = self._position_from_index(*self.offset_index.entry_before(offset))
        if hint_offset <= offset and hint_position > position:
            position = hint_position
        chunk, chunk_position, due_offset = b"", position, self.base_offset
        while position < self.size_bytes:
            found = batch_at(chunk, position - chunk_position, position)
            if found is None:
                chunk, chunk_position = self.file().read_at(position, _WALK_CHUNK_BYTES), position
                found = batch_at(chunk, 0, position)
                if found is None:
                    raise DamagedLog(f"{self.log_path}: no batch at position {position}")
            if found.base_offset < due_offset:  # offsets lie outside the checksum: their order is what guards them
                raise DamagedLog(f"{self.log_path}: offset {found.base_offset} at {position}, {due_offset} is due")
            if found.last_offset >= offset:
                return found
            due_offset = found.last_offset + 1
            position += found.size_bytes
        return None

    def _position_from_index(self, last_offset: int, position: int) -> int:
        # An index that lies would skip records without an error: it is believed only where the log agrees.
        if position == 0 or position > self._loaded_end_position or position in self._believed:
            return position
        found = batch_at(self.file().read_at(position, WALK_SIZE_BYTES), 0, position)
        if found is not None and found.last_offset == last_offset:
            self._believed.add(position)
            return position
        self._rebuild_indexes(f"its offset index says {position} of offset {last_offset}, which the log does not")
        return 0

    def position_of(self, offset: int) -> int:
        """Where the first batch that reaches `offset` starts; the segment's end where there is none."""
        found = self.locate(offset) if offset > self.base_offset else None
        if found is not None:
            return found.position
        return 0 if offset <= self.base_offset else self.size_bytes

    def read(self, offset: int, size_bytes_max: int, end_offset: int, *, at_least_one: bool) -> SegmentRead | None:
        """Whole batches from the one that holds `offset`, at most `size_bytes_max`, none that reaches `end_offset`.

        `at_least_one` gives the first batch even when it alone is larger. None when there is nothing to give here.
        """
        later = self._open_files.later(self.log_path)
        if later is not None and end_offset > later.base_offset:
            self._open_files.settle(self.log_path)
        first = self.locate(offset)
        if first is None:
            return None
        is_damaged = False
        try:
            read_end, position_end = self._read_bounds(first, size_bytes_max, end_offset, at_least_one=at_least_one)
        except DamagedLog:  # of a batch behind the first
            is_damaged, read_end = True, end_offset
            position_end = min(self.size_bytes, first.position + max(size_bytes_max, first.size_bytes))
        if position_end <= first.position:
            return None
        data = self.file().read_at(first.position, position_end - first.position)
        if len(data) < position_end - first.position and not is_damaged:
            raise DamagedLog(f"{self.log_path}: ends at {first.position + len(data)} instead of {self.size_bytes}")
        if is_damaged or first.position < self.unchecked_end_position:
            intact_end_offset, intact_end = self._intact(data, first.position, end_offset)
            # What is whole is given; whoever goes on behind it is told of the damage.
            if is_damaged or intact_end < position_end:
                data, read_end, position_end = data[: intact_end - first.position], intact_end_offset, intact_end
        self._read_hint = (read_end, position_end)
        return SegmentRead(data, first.base_offset, read_end, first.position, position_end)

    def _read_bounds(
        self, first: BatchAt, size_bytes_max: int, end_offset: int, *, at_least_one: bool
    ) -> tuple[int, int]:
        """Where a read that begins with `first` ends: exclusive offset and position. Raises DamagedLog."""
        later = self._open_files.later(self.log_path)  # nothing of it is asked for
        written = (self.end_offset, self.size_bytes) if later is None else (later.base_offset, later.position)
        read_end, position_end = written
        if end_offset < read_end:
            beyond = self.locate(end_offset)
            if beyond is not None:
                read_end, position_end = beyond.base_offset, beyond.position
        if position_end - first.position > size_bytes_max:
            read_end, position_end = self._whole_batches(first, first.position + size_bytes_max)
            if position_end == first.position and at_least_one:
                read_end, position_end = first.last_offset + 1, first.position + first.size_bytes
        return read_end, position_end

    def _whole_batches(self, first: BatchAt, limit: int) -> tuple[int, int]:
        position = max(first.position, self._position_from_index(*self.offset_index.entry_at_most(limit)))
        chunk, chunk_position = b"", position
        while True:
            found = batch_at(chunk, position - chunk_position, position)
            if found is None:
                chunk, chunk_position = self.file().read_at(position, _WALK_CHUNK_BYTES), position
                found = batch_at(chunk, 0, position)
                if found is None:
                    raise DamagedLog(f"{self.log_path}: no batch at position {position}")
            if position + found.size_bytes > limit:
                return found.base_offset, position
            position += found.size_bytes

    def _intact(self, data: bytes, position: int, end_offset: int) -> tuple[int, int]:
        """How far these bytes are what was written, below `end_offset`: exclusive end offset and position. Raises
        DamagedLog where the very first batch is not."""
        due_offset, end_position = self.base_offset, position + len(data)
        whole = [(due_offset, position)]  # the end of each batch that is
        scan = Scan(self.file(), position, end_position)
        for batch in scan:
            if batch.base_offset < due_offset:
                problem: str | None = f"offset {batch.base_offset} where {due_offset} or more is due"
                break
            if batch.end_offset > end_offset and len(whole) > 1:
                return whole[-1]
            due_offset = batch.end_offset
            whole.append((due_offset, scan.position + batch.size_bytes))
        else:
            problem = scan.problem
        behind = batch_at(self.file().read_at(scan.position, WALK_SIZE_BYTES), 0, scan.position)
        next_offset = behind.base_offset if behind is not None and scan.position < self.size_bytes else self.end_offset
        # Offsets lie outside the checksum: where two do not follow each other, either of them may be the wrong one.
        if due_offset > next_offset and len(whole) > 1:
            problem = problem or f"offsets up to {due_offset} where {next_offset} follows"
            whole.pop()
        if problem is not None and len(whole) == 1:
            raise DamagedLog(f"{self.log_path}: position {scan.position}: {problem}")
        return whole[-1]

    def upper_bound_offset(self, end_position: int) -> int | None:
        """Kafka's bound for what was read up to `end_position`: the next index entry's offset, None without one."""
        return self.offset_index.upper_bound_offset(end_position)

    # Changing what is there

    def cut_log(self, position: int) -> None:
        """Cut the log file alone at `position`; the indexes end there already."""
        self._open_files.get(self.log_path).truncate(position)
        self.size_bytes = position
        self._read_hint = (self.base_offset, 0)
        self.unchecked_end_position = min(self.unchecked_end_position, position)
        self.times.cut(position)
        self._first_timestamp = None

    def scan(self, position: int, *, check_crc: bool = True) -> Scan:
        """The batches from `position` to the end of the file."""
        return Scan(self._log(), position, self.size_bytes, check_crc=check_crc)

    def checked(self) -> Iterator[RecordBatch]:
        """All batches, each checked as it is given: one pass, where reads of a whole segment take three. Raises DamagedLog."""
        due_offset, scan = self.base_offset, self.scan(0)
        for batch in scan:
            if batch.base_offset < due_offset:
                raise DamagedLog(f"{self.log_path}: offset {batch.base_offset} at {scan.position}, {due_offset} is due")
            due_offset = batch.end_offset
            yield batch
        if scan.problem is not None:
            raise DamagedLog(f"{self.log_path}: position {scan.position}, offset {due_offset}: {scan.problem}")
        if due_offset > self.end_offset:
            raise DamagedLog(f"{self.log_path}: offsets up to {due_offset} where {self.end_offset} follows")
        self.unchecked_end_position = 0

    @property
    def paths(self) -> tuple[str, str, str, str]:
        """All files the segment can have, the log first."""
        return self.log_path, self.index_path, self.time_index_path, self.transaction_index_path

    def remove(self) -> None:
        """Remove the files: the log first, as an index without a log is removed at the next start."""
        for path in self.paths:
            self._open_files.forget(path)
            self._open_files.files.remove(path)

    def rename(self, suffix: str) -> tuple[str, ...]:
        """Give the files another suffix, the log first, replacing what has that name; their new paths.

        After a StorageError each path still says where its file is.
        """
        self.release()
        renamed = []
        for attribute, extension in _PATHS.items():
            old, new = getattr(self, attribute), f"{self._stem}.{extension}{suffix}"
            if self._open_files.files.exists(old):
                self._open_files.files.rename(old, new)
                renamed.append(new)
            setattr(self, attribute, new)
        return tuple(renamed)

    def release(self) -> None:
        """Close the files."""
        for path in self.paths:
            self._open_files.forget(path)

    def _log(self) -> File:
        return self._open_files.get(self.log_path, create=False)

    def opened(self) -> File:
        """The log's, for another thread, which closes it."""
        return self._open_files.files.open(self.log_path, create=False)

    def file(self) -> File:
        """The log's, for reads that end before what is to be written later."""
        return self._open_files.as_it_is(self.log_path, create=False)
