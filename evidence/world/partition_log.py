"""One partition on a simulated disk, driven step by step and compared with a list after every kind of end."""

from __future__ import annotations

from evidence.world.files import Keep, SimFiles
from evidence.world.naive_log import (
    NaiveBatch,
    NaiveProducers,
    data_batch,
    marker_batch,
    naive_aborted,
    naive_read,
    only,
)
from oncelog.errors import StorageError
from oncelog.log.checkpoint_files import (
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    create_partition_directory,
    read_offsets,
    write_offsets,
)
from oncelog.log.config import LogConfig
from oncelog.log.later_writes import Writes
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import RecoveryReport, recover
from oncelog.types import AbortedTransaction, TopicPartition
from oncelog.wire.record_batch import batches

DATA = "data"
PARTITION = TopicPartition("t", 0)
DIRECTORY = f"{DATA}/{PARTITION}"
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200, recovery_bytes_max=3000)


class World:
    """`model` is every batch that was given to the log and not taken back; `synced` what was acknowledged.

    `may_be_later`: batches are written later, in pieces and in any order, and until then a killed process loses them.
    """

    def __init__(self, seed: int | str = 0, config: LogConfig = SMALL, *, may_be_later: bool = False) -> None:
        self.files = SimFiles(seed)
        self.config = config
        self.may_be_later = may_be_later
        self.writes: Writes | None = None
        self.model: list[NaiveBatch] = []
        self.aborted: list[AbortedTransaction] = []
        self.producers = NaiveProducers()
        self.synced = 0
        self.log_start_offset = self.asked_start_offset = 0
        self.timestamp_ms = 1_700_000_000_000
        self.log: PartitionLog
        self.files.make_directory(DATA)
        create_partition_directory(self.files, DATA, PARTITION, b"T" * 16)
        self.files.sync_directory("")
        self.open()

    def open(self, *, is_clean: bool = False) -> RecoveryReport:
        """Recover as a start does."""
        self.producers = NaiveProducers()
        report = recover(
            self.files,
            DIRECTORY,
            self.config,
            self.producers,
            recovery_point=read_offsets(self.files, DATA, RECOVERY_POINTS).get(PARTITION, 0),
            log_start_offset=read_offsets(self.files, DATA, LOG_START_OFFSETS).get(PARTITION, 0),
            is_clean=is_clean,
        )
        self.log = report.log
        self.writes = None
        return report

    @property
    def written_end_offset(self) -> int:
        """What is below is in the log's files: a killed process has not lost it."""
        active = self.log.segments[-1]
        later = self.log._open_files.later(active.log_path)
        return self.log.log_end_offset if later is None else later.base_offset

    # Steps

    def append(self, count: int = 1, value_bytes: int = 10, producer_id: int = -1) -> None:
        self.timestamp_ms += 5
        base_offset = self.log.log_end_offset
        data = data_batch(
            base_offset,
            count=count,
            value_bytes=value_bytes,
            producer_id=producer_id,
            timestamp_ms=self.timestamp_ms,
        )
        self._append(data)

    def mark(self, producer_id: int, *, commit: bool) -> None:
        base_offset = self.log.log_end_offset
        self._append(marker_batch(base_offset, producer_id, commit=commit, timestamp_ms=self.timestamp_ms))

    def _append(self, data: bytes) -> None:
        batch = only(data)
        self.model.append(NaiveBatch(batch.base_offset, batch.last_offset, data))
        self.log.append(
            data,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            max_timestamp=batch.max_timestamp,
            now_ms=self.timestamp_ms,
            leader_epoch=batch.partition_leader_epoch,
            may_be_later=self.may_be_later,
        )
        entry = self.producers.replay(batch)
        if entry is not None:
            self.aborted.append(entry)
            self.log.add_aborted(entry)

    def begin_writes(self) -> None:
        """What waits is on its way."""
        if self.writes is None:
            self.writes = self.log.begin_writes()

    def write_some(self) -> None:
        """Some of what is on its way is written, in any order."""
        if self.writes is not None:
            count = self.files.random.randint(0, len(self.writes.batches))
            for position, data in self.files.random.sample(self.writes.batches, count):
                self.writes.file.write_at(position, data)

    def end_writes(self) -> None:
        """All of it is written."""
        if self.writes is not None:
            writes, self.writes = self.writes, None
            writes.sync()
            self.log.writes_ended(writes)

    def sync(self, *, checkpoint: bool = False, moves_to_end: bool = False) -> None:
        """`moves_to_end`: as behind a journal."""
        end_offset = self.log.log_end_offset
        try:
            for file in self.log.files_to_sync(checkpoint=checkpoint, moves_to_end=moves_to_end):
                file.sync()
        except StorageError as error:
            self.log.fail(error)
            raise
        self.log.mark_synced(end_offset)
        self.synced = end_offset

    def store_recovery_point(self) -> None:
        write_offsets(self.files, DATA, RECOVERY_POINTS, {PARTITION: self.log.recovery_point})
        self.log.recovery_point_stored(self.log.recovery_point)

    def delete_before(self, offset: int) -> None:
        self.asked_start_offset = max(offset, self.log_start_offset)
        write_offsets(self.files, DATA, LOG_START_OFFSETS, {PARTITION: self.asked_start_offset})
        self.log_start_offset = self.asked_start_offset
        self.log.delete_records_before(offset)

    def close(self) -> None:
        self.log.close()
        self.synced = self.log.log_end_offset
        self.store_recovery_point()

    def crash(self, keep: Keep = Keep.RANDOM) -> RecoveryReport:
        """Power cut, recovery, and all that must hold then."""
        self.files.crash(keep)
        return self._after(self.open())

    def kill(self) -> RecoveryReport:
        """Process killed: nothing written is lost."""
        end_offset = self.model[-1].last_offset + 1 if self.model else 0
        written_end_offset = self.written_end_offset
        assert self.may_be_later or written_end_offset == end_offset
        self.files.kill()
        report = self._after(self.open())
        assert written_end_offset <= self.log.log_end_offset <= end_offset
        return report

    def _after(self, report: RecoveryReport) -> RecoveryReport:
        end_offset = self.log.log_end_offset
        assert end_offset >= self.synced, "acknowledged records are lost"
        assert self.log.log_start_offset in (self.log_start_offset, self.asked_start_offset)
        self.log_start_offset = self.log.log_start_offset
        # What survives is a prefix of what was written: whole batches, in order.
        self.model = [batch for batch in self.model if batch.last_offset < end_offset]
        assert end_offset == (self.model[-1].last_offset + 1 if self.model else 0)
        naive = NaiveProducers()
        self.aborted = [entry for batch in self.model if (entry := naive.replay(only(batch.data))) is not None]
        self.synced = end_offset
        self.check()
        return report

    # What must hold

    def check_written(self) -> None:
        """Who reads what is written gets it, and makes nobody write the rest."""
        end_offset, offset, read = self.written_end_offset, self.log_start_offset, b""
        while (part := self.log.read(offset, 700, end_offset)) is not None:
            read += part.data
            offset = part.end_offset
        assert read == b"".join(batch.data for batch in naive_read(self.model, self.log_start_offset, end_offset))
        assert self.written_end_offset == end_offset

    def check(self) -> None:
        """The log holds the model, and its producers are those of the model."""
        log, end_offset = self.log, self.log.log_end_offset
        assert log.log_start_offset == self.log_start_offset
        read, offset = b"", self.log_start_offset
        while (part := log.read(offset, 700, end_offset)) is not None:
            assert part.base_offset <= offset < part.end_offset
            assert part.upper_bound_offset >= part.end_offset or part.upper_bound_offset == end_offset
            known = naive_aborted(self.aborted, offset, part.end_offset)
            told = log.aborted_between(offset, part.upper_bound_offset)
            assert [a for a in told if a in known] == known
            assert all(a in self.aborted for a in told)
            read += part.data
            offset = part.end_offset
        expected = naive_read(self.model, self.log_start_offset, end_offset)
        assert [b.base_offset for b in batches(read)] == [b.base_offset for b in expected]
        assert read == b"".join(batch.data for batch in expected)
        assert read == b"".join(batch.data for batch in log.all_batches())
        naive = NaiveProducers()
        for batch in self.model:
            naive.replay(only(batch.data))
        assert sorted(self.producers.snapshot_entries(), key=str) == sorted(naive.snapshot_entries(), key=str)

    def check_recovery_is_idempotent(self) -> None:
        """Recovering what was recovered changes no byte."""
        before = self.files.snapshot(DIRECTORY)
        self.files.kill()
        self.open()
        assert self.files.snapshot(DIRECTORY) == before
        self.files.crash(Keep.NONE)
        self.open()
        assert self.files.snapshot(DIRECTORY) == before
