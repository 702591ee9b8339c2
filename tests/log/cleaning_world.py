"""A compacted log on a simulated disk: keyed records in and out of transactions, cleanings, ends of every kind.

`history` is what was appended and not lost; what a read_committed reader must find is derived from it afresh each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evidence.world.files import Keep, SimFiles
from evidence.world.requests import visible_records

from oncelog.core.leader.partition import Partition
from oncelog.errors import StorageError
from oncelog.log.checkpoint_files import (
    RECOVERY_POINTS,
    create_partition_directory,
    read_offsets,
    write_offsets,
)
from oncelog.log.cleaner import Cleaner, Cleaning
from oncelog.log.cleaning_plan import CompactionRules, plan_cleaning, sources_of
from oncelog.log.config import LogConfig
from oncelog.log.open_files import OpenFiles
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import RecoveryReport, recover
from oncelog.log.segment_swap import SegmentSwap
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import Codec, RecordBatch, batches, build_batch, build_end_txn_marker

DATA = "data"
PARTITION = TopicPartition("t", 0)
DIRECTORY = f"{DATA}/{PARTITION}"
CONFIG = LogConfig(segment_bytes=1200, index_interval_bytes=150, recovery_bytes_max=3000, may_have_gaps=True)
START_MS = 1_700_000_000_000
EAGER = CompactionRules(min_cleanable_dirty_ratio=0.0, delete_retention_ms=1000)

Row = tuple[bytes, bytes | None]


@dataclass(frozen=True)
class Put:
    """A batch of keyed records; `producer_id` -1 is outside transactions."""

    last_offset: int
    producer_id: int
    rows: tuple[Row, ...]


@dataclass(frozen=True)
class Mark:
    """The end of a transaction."""

    last_offset: int
    producer_id: int
    commit: bool


class CleaningWorld:
    def __init__(self, seed: int | str = 0, config: LogConfig = CONFIG, rules: CompactionRules = EAGER) -> None:
        self.files = SimFiles(seed)
        self.config, self.rules = config, rules
        self.history: list[Put | Mark] = []
        self.synced = 0
        self.now_ms = START_MS
        self.epochs: dict[int, int] = {}
        self.sequences: dict[int, int] = {}
        self.cleaned_offset: int | None = None
        self.keys_max = 10_000
        self.codec = Codec.NONE
        self.files.make_directory(DATA)
        create_partition_directory(self.files, DATA, PARTITION, b"T" * 16)
        self.files.sync_directory("")
        self.open()

    def open(self) -> RecoveryReport:
        self.open_files = OpenFiles(self.files)
        self.partition = Partition()
        report = recover(
            self.open_files,
            DIRECTORY,
            self.config,
            self.partition,
            recovery_point=read_offsets(self.files, DATA, RECOVERY_POINTS).get(PARTITION, 0),
        )
        self.log: PartitionLog = report.log
        self.partition.recovered(log_start_offset=0, log_end_offset=self.log.log_end_offset)
        return report

    # Steps

    def put(self, *rows: tuple[str, str | None], producer_id: int = -1) -> None:
        self.now_ms += 10
        encoded = tuple((key.encode(), None if value is None else value.encode()) for key, value in rows)
        is_transactional = producer_id >= 0
        data = build_batch(
            [(self.now_ms, key, value, (("h", b"1"),)) for key, value in encoded],
            producer_id=producer_id,
            producer_epoch=self.epochs.setdefault(producer_id, 0) if is_transactional else -1,
            base_sequence=self.sequences.get(producer_id, 0) if is_transactional else -1,
            is_transactional=is_transactional,
            codec=self.codec,
        )
        if is_transactional:
            self.sequences[producer_id] = self.sequences.get(producer_id, 0) + len(rows)
        self._append(data, lambda last_offset: Put(last_offset, producer_id, encoded))

    def mark(self, producer_id: int, *, commit: bool, bumps: bool = True) -> None:
        self.now_ms += 10
        if bumps:  # transaction.version 2: the marker carries the next epoch
            self.epochs[producer_id] += 1
            self.sequences[producer_id] = 0
        data = build_end_txn_marker(
            commit=commit,
            producer_id=producer_id,
            producer_epoch=self.epochs[producer_id],
            coordinator_epoch=3,
            timestamp_ms=self.now_ms,
        )
        self._append(data, lambda last_offset: Mark(last_offset, producer_id, commit))

    def _append(self, data: bytearray, entry: Callable[[int], Put | Mark]) -> None:
        batch = RecordBatch(data)
        batch.set_offsets(self.log.log_end_offset, 0)
        self.history.append(entry(batch.last_offset))  # a power cut in the next step may keep it
        self.log.append(
            data,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            max_timestamp=batch.max_timestamp,
            now_ms=self.now_ms,
        )
        aborted = self.partition.appended(batch, now_ms=self.now_ms)
        if aborted is not None:
            self.log.add_aborted(aborted)

    def sync(self) -> None:
        end_offset = self.log.log_end_offset
        try:
            for file in self.log.files_to_sync():
                file.sync()
        except StorageError as error:
            self.log.fail(error)
            raise
        self.log.mark_synced(end_offset)
        self.partition.synced(end_offset)
        self.synced = end_offset

    def clean(self, rules: CompactionRules | None = None) -> int:
        """One whole cleaning, its steps one after the other; how many groups were replaced."""
        rules = rules or self.rules
        self.sync()
        write_offsets(self.files, DATA, RECOVERY_POINTS, {PARTITION: self.log.recovery_point})
        self.log.recovery_point_stored(self.log.recovery_point)
        plan = plan_cleaning(
            self.log.segments,
            rules,
            cleaned_offset=self.cleaned_offset,
            log_start_offset=self.log.log_start_offset,
            last_stable_offset=self.partition.last_stable_offset,
            recovery_point=self.log.stored_recovery_point,
            now_ms=self.now_ms,
        )
        if not plan.is_due(rules):
            return 0
        cleaning = Cleaning(
            directory=DIRECTORY,
            config=self.config,
            sources=sources_of(self.log.segments, plan.end_offset),
            first_dirty_offset=plan.first_dirty_offset,
            aborted=tuple(self.log.aborted_between(self.log.segments[0].base_offset, plan.end_offset)),
            producers={entry.producer_id: entry for entry in self.partition.snapshot_entries()},
            keys_max=self.keys_max,
            delete_retention_ms=rules.delete_retention_ms,
            now_ms=self.now_ms,
        )
        self.log.begin_cleaning()
        count = self._perform(Cleaner(self.files, cleaning))
        self.log.end_cleaning()
        self.log.remove_deleted()
        return count

    def _perform(self, cleaner: Cleaner) -> int:
        count = 0
        end_offset = cleaner.read_dirty(_no_pace)
        for group in cleaner.groups(end_offset):
            cleaned = cleaner.write(group, _no_pace)
            if cleaned.is_changed:
                count += 1
                self.files.sync_directory(DIRECTORY)
                swap = SegmentSwap(self.open_files, self.log, cleaned)
                for step in (swap.announce, swap.replace, swap.finish):
                    self._step(step)
        self.cleaned_offset = end_offset
        return count

    def _step(self, step: Callable[[], None]) -> None:
        try:
            step()
            self.files.sync_directory(DIRECTORY)
        except StorageError as error:
            self.log.fail(error)
            raise

    # Ends

    def crash(self, keep: Keep = Keep.RANDOM) -> None:
        self.files.crash(keep)
        self._after()

    def kill(self) -> None:
        self.files.kill()
        self._after()

    def _after(self) -> None:
        self.open()
        end_offset = self.log.log_end_offset
        assert end_offset >= self.synced, "acknowledged records are lost"
        self.history = [each for each in self.history if each.last_offset < end_offset]
        self.check()
        self.synced = end_offset
        self.cleaned_offset = None
        # producers go on where the log is
        for producer_id in self.epochs:
            state = next((e for e in self.partition.snapshot_entries() if e.producer_id == producer_id), None)
            self.epochs[producer_id] = state.producer_epoch if state else 0
            self.sequences[producer_id] = state.last_sequence + 1 if state else 0

    # What must hold

    def expected(self) -> dict[bytes, bytes]:
        """The latest decided value of each key, up to the first undecided offset."""
        outcomes: dict[int, bool | None] = {}  # by index of the Put
        for index, each in enumerate(self.history):
            if isinstance(each, Put) and each.producer_id >= 0:
                marks = (m for m in self.history[index:] if isinstance(m, Mark) and m.producer_id == each.producer_id)
                outcomes[index] = next((mark.commit for mark in marks), None)
        found: dict[bytes, bytes | None] = {}
        for index, each in enumerate(self.history):
            if isinstance(each, Put):
                outcome = outcomes.get(index, True)
                if outcome is None:
                    break
                if outcome:
                    found |= dict(each.rows)
        return {key: value for key, value in found.items() if value is not None}

    def batches(self) -> list[RecordBatch]:
        found: list[RecordBatch] = []
        offset = self.log.log_start_offset
        while (part := self.log.read(offset, 500, self.log.log_end_offset)) is not None:
            found += batches(part.data)
            offset = part.end_offset
        return found

    def committed(self) -> dict[bytes, bytes]:
        """What a read_committed reader makes of the log, reading piece by piece."""
        found: dict[bytes, bytes | None] = {}
        offset, bound = self.log.log_start_offset, self.partition.last_stable_offset
        while (part := self.log.read(offset, 500, bound)) is not None:
            aborted = self.log.aborted_between(offset, part.upper_bound_offset)
            for record in visible_records(part.data, aborted):
                assert record.key is not None
                found[record.key] = record.value
            offset = part.end_offset
        return {key: value for key, value in found.items() if value is not None}

    def check(self) -> None:
        self.sync()
        assert self.committed() == self.expected()
        found = self.batches()
        offsets = [batch.base_offset for batch in found]
        assert offsets == sorted(set(offsets))
        self._check_look_ups(found)
        names = self.files.list(DIRECTORY)
        assert not [name for name in names if name.endswith((".swap", ".cleaned"))]

    def _check_look_ups(self, found: list[RecordBatch]) -> None:
        """By offset and by time, from what the indexes of cleaned segments say."""
        end_offset = self.log.log_end_offset
        records = [record for batch in found for record in batch.records()]
        for offset in range(0, end_offset, max(end_offset // 6, 1)):
            expected = next((batch for batch in found if batch.last_offset >= offset), None)
            read = self.log.read(offset, 1, end_offset)
            assert (read and read.base_offset) == (expected and expected.base_offset)
        for step in range(5):
            timestamp = START_MS + (self.now_ms - START_MS) * step // 4
            expected_record = next((record for record in records if record.timestamp >= timestamp), None)
            told = self.log.offset_for_timestamp(timestamp)
            assert (told and told.offset) == (expected_record and expected_record.offset)

    def producers(self) -> dict[int, tuple[int, int, int]]:
        """What is remembered of each: epoch, last sequence, first offset of the open transaction."""
        return {
            entry.producer_id: (entry.producer_epoch, entry.last_sequence, entry.current_txn_first_offset)
            for entry in self.partition.snapshot_entries()
        }


def _no_pace(size_bytes: int) -> None:
    return None
