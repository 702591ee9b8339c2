"""Cleaning a log: the last record of each key stays, what aborted transactions wrote goes. Runs beside the loop.

Two passes: the dirty part is read into an offset map, then every group of segments from the log's first on is written
anew as `.cleaned` files, which are synced. Nothing else is touched here: `segment_swap` puts them in place. It sees only
segments that are not written any more, through file handles of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from oncelog.errors import CorruptBatch, DamagedLog
from oncelog.lazy_dataclass import dataclass
from oncelog.log.batch_filter import BatchFilter, FilterRules
from oncelog.log.batch_scan import Scan
from oncelog.log.cleaned_transactions import CleanedTransactions
from oncelog.log.cleaning_plan import Source, group_sources
from oncelog.log.config import LogConfig
from oncelog.log.files import Files, sync_all
from oncelog.log.offset_map import OffsetMap
from oncelog.log.open_files import OpenFiles
from oncelog.log.segment import Segment, timestamp_of
from oncelog.types import AbortedTransaction, ProducerSnapshotEntry
from oncelog.wire.record_batch import RecordBatch

CLEANED_SUFFIX = ".cleaned"
WRITE_SIZE_BYTES = 1 << 18
RECORDS_BETWEEN_PACES = 1024
Pace = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Cleaning:
    """One cleaning of one log, as planned. `sources` reach from the log's first segment to the end of what may be
    cleaned; `aborted` are their aborted transactions; `producers` those that were remembered. Times in ms.
    """

    directory: str
    config: LogConfig
    sources: tuple[Source, ...]
    first_dirty_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: Mapping[int, ProducerSnapshotEntry]
    keys_max: int
    delete_retention_ms: int
    now_ms: int


@dataclass(frozen=True, slots=True)
class Cleaned:
    """A group written anew as `.cleaned` files. Without `is_changed` nothing was to be removed, and no file is left."""

    sources: tuple[Source, ...]
    size_bytes: int
    record_count: int
    is_changed: bool

    @property
    def source_size_bytes(self) -> int:
        """What the group had."""
        return sum(source.size_bytes for source in self.sources)


class Cleaner:
    """Call `read_dirty` once, then `write` for each group of `groups`, in order. Each takes a `Pace`: call it often."""

    def __init__(self, files: Files, cleaning: Cleaning) -> None:
        self._files = files
        self._cleaning = cleaning
        self._offsets = OffsetMap(cleaning.keys_max)
        self._last_markers: dict[int, int] = {}
        self._filter: BatchFilter
        self._transactions: CleanedTransactions

    @property
    def map_utilization(self) -> float:
        """The share of the offset map's bound that was used."""
        return self._offsets.utilization

    # the first pass

    def read_dirty(self, pace: Pace) -> int:
        """Fill the offset map; the (exclusive) end of what it covers, which may be less than was planned.

        Raises StorageError, and DamagedLog where a batch cannot be read.
        """
        cleaning = self._cleaning
        transactions = CleanedTransactions(
            entry for entry in cleaning.aborted if entry.last_offset >= cleaning.first_dirty_offset
        )
        has_bare_producers = any(producer.last_offset < 0 for producer in cleaning.producers.values())
        for source in cleaning.sources:
            with _damage_named(source):
                if source.end_offset <= cleaning.first_dirty_offset:
                    if has_bare_producers:
                        self._find_markers(source, pace)
                elif not self._map(source, transactions, pace):
                    break
        end_offset = self._offsets.latest_offset + 1
        rules = FilterRules(
            self._offsets,
            cleaning.producers,
            self._last_markers,
            cleaning.now_ms,
            cleaning.delete_retention_ms,
        )
        self._transactions = CleanedTransactions(cleaning.aborted)
        self._filter = BatchFilter(rules, self._transactions)
        return end_offset

    def _map(self, source: Source, transactions: CleanedTransactions, pace: Pace) -> bool:
        """Take one segment into the map; False when the map was full before its end."""
        first_dirty_offset, offsets = self._cleaning.first_dirty_offset, self._offsets
        for batch in self._batches(source, pace):
            if batch.last_offset < first_dirty_offset:
                continue
            if offsets.is_full:
                return False
            is_discarded = transactions.may_discard(batch)
            if batch.is_control:
                self._last_markers[batch.producer_id] = batch.last_offset
            elif not is_discarded:
                for index, record in enumerate(batch.records()):
                    if record.key is not None and record.offset >= first_dirty_offset:
                        offsets.put(record.key, record.offset)
                    if index % RECORDS_BETWEEN_PACES == RECORDS_BETWEEN_PACES - 1:
                        pace(0)
            offsets.latest_offset = batch.last_offset
        offsets.latest_offset = source.end_offset - 1  # a cleaned segment may end in a gap
        return True

    def _find_markers(self, source: Source, pace: Pace) -> None:
        """The clean part is looked at by its headers: of several markers of an epoch only the last one need stay."""
        for batch in self._batches(source, pace, check_crc=False):
            if batch.is_control:
                self._last_markers[batch.producer_id] = batch.last_offset

    def _batches(self, source: Source, pace: Pace, *, check_crc: bool = True) -> Iterator[RecordBatch]:
        file = self._files.open(source.log_path, create=False)
        try:
            scan = Scan(file, 0, source.size_bytes, check_crc=check_crc)
            for batch in scan:
                yield batch
                pace(batch.size_bytes)
            if scan.problem is not None:
                raise CorruptBatch(f"position {scan.position}: {scan.problem}")
        finally:
            file.close()

    # the second pass

    def groups(self, end_offset: int) -> list[list[Source]]:
        """Which segments become one, up to the one that holds `end_offset` - 1."""
        config = self._cleaning.config
        sources = [source for source in self._cleaning.sources if source.base_offset < end_offset]
        return group_sources(
            sources,
            lambda source: max(self._size_of(source.index_path), self._size_of(source.time_index_path)),
            segment_size_bytes=config.segment_bytes,
            index_size_bytes=config.index_bytes_max,
        )

    def _size_of(self, path: str) -> int:
        return self._files.size_of(path) if self._files.exists(path) else 0

    def write(self, group: Sequence[Source], pace: Pace) -> Cleaned:
        """Write a group anew and sync it (not its names). Raises StorageError and DamagedLog; then `remove_cleaned`."""
        remove_cleaned(self._files, self._cleaning.directory)
        config = self._cleaning.config
        open_files = OpenFiles(self._files)
        try:
            target = Segment(open_files, self._cleaning.directory, group[0].base_offset, config, suffix=CLEANED_SUFFIX)
            output = _Output(open_files, target)
            is_changed = len(group) > 1
            last = next((source for source in reversed(group) if source.size_bytes), None)
            for source in group:
                left = source.size_bytes if source is last else -1
                with _damage_named(source):
                    for batch in self._batches(source, pace):
                        left -= batch.size_bytes
                        data = self._filter.filtered(batch, is_last_of_group=left == 0)
                        is_changed |= data is not batch.data
                        if data is not None:
                            output.add(batch if data is batch.data else RecordBatch(data))
            retained = self._transactions.take_retained()
            if not is_changed:
                open_files.close()
                remove_cleaned(self._files, self._cleaning.directory)
            else:
                target.set_aborted(retained)
                output.finish()
            return Cleaned(tuple(group), target.size_bytes, output.record_count, is_changed)
        finally:
            open_files.close()


@contextmanager
def _damage_named(source: Source) -> Iterator[None]:
    try:
        yield
    except CorruptBatch as error:
        raise DamagedLog(f"{source.log_path}: {error}") from error


class _Output:
    """The segment being written: batches are put together into larger writes."""

    def __init__(self, open_files: OpenFiles, target: Segment) -> None:
        self._open_files = open_files
        self._target = target
        self._waiting = bytearray()
        self.record_count = 0
        target.create()

    def add(self, batch: RecordBatch) -> None:
        target = self._target
        target.note_batch(batch.last_offset, timestamp_of(batch), target.size_bytes)
        target.size_bytes += len(batch.data)
        self._waiting += batch.data
        self.record_count += batch.record_count
        if len(self._waiting) >= WRITE_SIZE_BYTES:
            self._write()

    def _write(self) -> None:
        file = self._open_files.get(self._target.log_path)
        file.write_at(self._target.size_bytes - len(self._waiting), self._waiting)
        self._waiting = bytearray()

    def finish(self) -> None:
        """Write what is left, the indexes, and sync the files."""
        self._write()
        target = self._target
        target.finish()
        paths = target.paths if target.aborted else target.paths[:3]
        sync_all([self._open_files.pin(path) for path in paths])  # one that is closed meanwhile would not be synced


def remove_cleaned(files: Files, directory: str) -> None:
    """Remove what an interrupted cleaning left: one stray `.cleaned` file would undo a later swap at the next start."""
    for name in files.list(directory):
        if name.endswith(CLEANED_SUFFIX):
            files.remove(f"{directory}/{name}")
