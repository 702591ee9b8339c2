"""The MetadataStore: the cluster's metadata in one log of its own, `__cluster_metadata-0`.

A change is appended as one batch, synced whatever the flush policy, then applied; what follows from it is done in the same
step (`on_change`), not by whoever asked for it: a client that goes away takes its handler with it. Changes are made one at a
time, so what was decided on the metadata still holds when it is written. Where several processes share the work, the others
have `FollowedMetadata` behind the same methods.

The log does not grow for ever: when it is large, what holds now is written into a segment of its own, and the segments
before it go. Records that say what holds already change nothing, so a crash on the way needs no cure.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import takewhile

from oncelog.broker.metadata.offline_elsewhere import OfflineElsewhere
from oncelog.core.leader.partition import Partition
from oncelog.core.metadata.cluster import ClusterMetadata, Topic, removed_topics, snapshot_records
from oncelog.core.metadata.refusal import ChangeTimedOut, Refusal
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS
from oncelog.errors import CorruptBatch, DamagedLog, ErrorCode, StorageError
from oncelog.host.clock import Clock
from oncelog.host.syncer import Syncer
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass
from oncelog.log.checkpoint_files import CLUSTER_METADATA, RECOVERY_POINTS
from oncelog.log.config import LogConfig
from oncelog.log.failed_sync import bring_back, make_names_again
from oncelog.log.leftovers import not_of_its_name
from oncelog.log.log_read import LogRead
from oncelog.log.open_files import OpenFiles
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import recover
from oncelog.log.torn_tail import valid_batches
from oncelog.wire.log_records.cluster_metadata import (
    MetadataRecord,
    RemoveTopicRecord,
    TopicRecord,
    record_from_value,
    record_to_value,
)
from oncelog.wire.record_batch import RecordBatch, batches, build_batch

_log = logging.getLogger("oncelog.metadata")

DIRECTORY = "__cluster_metadata-0"
WAY_OUT = "restore it from a copy; without it nobody knows which topics there are, and whose the partitions beside it"
SIZE_BYTES_MAX = 20_971_520
SNAPSHOT_BATCH_COUNT = 1_000
TURN_WAIT_MS = 30_000  # where no broker's `request.timeout.ms` says it

OnChange = Callable[[Sequence[MetadataRecord], Sequence[Topic]], None]
"""What a change means here: its records (none: anything may have changed), and the topics that it removed."""


class ControllerAway(StorageError):
    """The process that keeps the cluster's metadata does not answer; whether a change was made may be unknown."""


@dataclass(frozen=True, slots=True)
class TurnWait:
    """How long a change waits for its turn where who asks for it names no time, as most requests cannot and nothing does that
    the broker changes on its own account; `when_met` hears that one has waited so long."""

    timeout_ms: Callable[[], int] = lambda: TURN_WAIT_MS
    when_met: Callable[[], object] = lambda: None

    @contextmanager
    def bounded(self, timeout_ms: int | None) -> Iterator[int]:
        """The bound of one wait, of which `timeout_ms` was asked."""
        try:
            yield self.timeout_ms() if timeout_ms is None else timeout_ms
        except ChangeTimedOut:
            if timeout_ms is None:
                self.when_met()
            raise


UNCOUNTED = TurnWait()


async def take_turn(lock: asyncio.Lock, last_change_over: Callable[[], Awaitable[None]], timeout_ms: int) -> None:
    """Hold `lock`, once the change before is over. Raises ChangeTimedOut; at once where `timeout_ms` leaves no time, as Apache
    Kafka's controller does."""
    if timeout_ms <= 0:
        raise late(timeout_ms)
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await lock.acquire()
            try:
                await last_change_over()
            except BaseException:
                lock.release()
                raise
    except TimeoutError:
        raise late(timeout_ms) from None


def late(timeout_ms: int) -> ChangeTimedOut:
    """The error of a wait that was as long as it may be."""
    return ChangeTimedOut(f"other changes of the cluster's metadata took longer than {timeout_ms} ms")


class MetadataStore:
    """Keeps `metadata` in step with its log."""

    def __init__(
        self,
        files: OpenFiles,
        data_directory: str,
        syncer: Syncer,
        clock: Clock,
        tasks: Tasks,
        size_bytes_max: Callable[[], int] = lambda: SIZE_BYTES_MAX,
        turn_wait: TurnWait = UNCOUNTED,
    ) -> None:
        self._size_bytes_max = size_bytes_max
        self._turn_wait = turn_wait
        self._snapshot_size_bytes = 0  # of the last one; what holds may be larger than the limit
        self.metadata = ClusterMetadata()
        self.on_change: OnChange | None = None
        self.when_applied: Callable[[], None] = _nobody  # hears that `applied_offset` has grown
        self.applied_offset = 0
        self.is_older = False  # than what the checkpoint of recovery points knows of it
        self.offline = OfflineElsewhere()  # where others follow this
        self._files = files
        self._data_directory = data_directory
        self._directory = f"{data_directory}/{DIRECTORY}"
        self._syncer = syncer
        self._clock = clock
        self._tasks = tasks
        self._lock = asyncio.Lock()
        self._appending: asyncio.Task[StorageError | None] | None = None
        self._log: PartitionLog | None = None

    def open(
        self, *, is_clean: bool, owners: Callable[[], Mapping[str, bytes]] = dict, noted_end_offset: int = 0
    ) -> None:
        """Recover the log and apply all of it. Raises DamagedLog, StorageError, MalformedMessage, CorruptBatch.

        `owners`: the directories of partitions, with the ids of the topics that they say they are of. `noted_end_offset`: up to
        where it was synced, by the checkpoint of recovery points.
        """
        try:
            self._open(is_clean=is_clean, owners=owners, noted_end_offset=noted_end_offset)
        except DamagedLog as error:
            files = self._files.files
            told = not_of_its_name(files, self._directory) if files.exists(self._directory) else ""
            raise DamagedLog(f"{error}: {told or WAY_OUT}") from error

    def _open(self, *, is_clean: bool, owners: Callable[[], Mapping[str, bytes]], noted_end_offset: int) -> None:
        # What is synced inside is lost with the directory's own name.
        bring_back(self._files.files, self._data_directory)
        if self._files.files.exists(f"{self._data_directory}/{RECOVERY_POINTS}") and self._has_nothing():
            raise DamagedLog(f"{self._directory} has no log, and partitions were kept beside it")
        if not self._files.files.exists(self._directory):
            self._files.files.make_directory(self._directory)
            self._files.files.sync_directory(self._data_directory)
        elif not is_clean:  # the process that made it may have been killed here, or that sync have failed
            make_names_again(self._files.files, self._data_directory, [DIRECTORY])
        if not is_clean:
            self._refuse_damage(owners, noted_end_offset)
        config = LogConfig(retention_ms=-1)
        report = recover(self._files, self._directory, config, Partition(), is_clean=is_clean)
        for note in report.notes:
            _log.warning("cluster metadata: %s", note)
        self._log = report.log
        for batch in report.log.all_batches():
            for record in batch.records():
                assert record.value is not None, "cluster metadata has no tombstones"
                self.metadata.apply(record_from_value(record.value))
        self.applied_offset = report.log.log_end_offset
        self.is_older = self.applied_offset < noted_end_offset
        if self.is_older:
            _log.warning(
                "cluster metadata: it ends at offset %d, but was synced up to %d: what was changed in between is lost",
                *(self.applied_offset, noted_end_offset),
            )

    def _has_nothing(self) -> bool:
        # The first start writes here before any checkpoint.
        files = self._files.files
        names = files.list(self._directory) if files.exists(self._directory) else []
        return not any(name.endswith(".log") and files.size_of(f"{self._directory}/{name}") for name in names)

    def _refuse_damage(self, owners: Callable[[], Mapping[str, bytes]], synced_end: int) -> None:
        # Every change is synced before the next one is appended, so a power cut can tear the last batch only, or leave it
        # in another place. A bad batch with a later one behind it is damage, and cutting there would forget topics that exist.
        # So is one that the checkpoint of recovery points knows as synced: it is noted there with every one of theirs. And a
        # last one without which a partition's directory is of no topic: that is made when the topic is synced.
        whole, torn, end_offset = list[bytes](), "", 0
        for name in self._files.files.list(self._directory):
            if name.endswith(".log"):
                data = self._files.files.read_whole(f"{self._directory}/{name}")
                position, due_offset = whole_up_to(data, int(name.removesuffix(".log")))
                whole.append(data[:position])
                torn = f"{self._directory}/{name}: bad batch at position {position}" if position < len(data) else torn
                if valid_batches(data[position + 1 :], due_offset + 1):
                    raise DamagedLog(
                        f"{self._directory}/{name}: bad batch at position {position}, whole ones behind it"
                    )
                end_offset = max(end_offset, due_offset)
        if torn and end_offset < synced_end:
            raise DamagedLog(
                f"{torn}, offset {end_offset}, but it was synced up to {synced_end} (without a copy, delete the line of "
                f"{CLUSTER_METADATA.topic} from {RECOVERY_POINTS}, and start without its last changes: docs/runbook.md)"
            )
        if torn:
            self._refuse_orphans(torn, whole, owners)

    @staticmethod
    def _refuse_orphans(torn: str, whole: Sequence[bytes], owners: Callable[[], Mapping[str, bytes]]) -> None:
        said = (record for each in whole for record in records_of(each))
        named = {record.topic_id for record in said if isinstance(record, TopicRecord | RemoveTopicRecord)}
        if orphans := [path for path, owner in owners().items() if owner not in named]:
            is_internal = any(each.rpartition("/")[2].rpartition("-")[0] in INTERNAL_TOPICS for each in orphans)
            back = ", then put those of internal topics back under the ones that are made anew" if is_internal else ""
            raise DamagedLog(
                f"{torn}, and without it {orphans[0]} is of no topic ({len(orphans)} such directories; without a copy, "
                f"rename each to NAME-stray and start again{back}: docs/runbook.md, a directory NAME-stray)"
            )

    @property
    def end_offset(self) -> int:
        """The offset after the last change."""
        return 0 if self._log is None else self._log.log_end_offset

    @asynccontextmanager
    async def changing(self, timeout_ms: int | None = None) -> AsyncIterator[ClusterMetadata]:
        """Hold this from the decision to its `append`s: nobody else changes the metadata meanwhile.

        Raises ChangeTimedOut where the turn has not come in `timeout_ms` (None: see `TurnWait`); what is done in it takes as
        long as it takes.
        """
        with self._turn_wait.bounded(timeout_ms) as wait_ms:
            await take_turn(self._lock, self.last_change_over, wait_ms)
        try:
            yield self.metadata
        finally:
            self._lock.release()

    async def last_change_over(self) -> None:
        """Until the last change is over: where its caller was cancelled, it goes on."""
        if self._appending is not None:
            await asyncio.wait((self._appending,))

    async def append(self, records: Sequence[MetadataRecord]) -> None:
        """Append, sync and apply one change; the caller holds `changing()`. Raises StorageError.

        Runs to its end even when the caller is cancelled: written and not applied would be neither.
        """
        assert self._lock.locked(), "decide and append under changing()"
        self._appending = self._tasks.start(self._append(records))
        error = await asyncio.shield(self._appending)
        if error is not None:
            raise error

    async def append_or_refuse(self, records: Sequence[MetadataRecord]) -> Refusal | None:
        """`append`; where the disk refuses, what a client is told. No change is taken any more after that."""
        try:
            await self.append(records)
        except StorageError as error:
            _log.critical("the cluster's metadata takes no changes until a restart: %s", error)
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "The change could not be stored.")
        return None

    async def _append(self, records: Sequence[MetadataRecord]) -> StorageError | None:
        # The error is a result: this task's failure would be the broker's end.
        log = self._log
        assert log is not None
        try:
            self._write(log, records)
            await self._sync(log)
        except StorageError as error:
            log.fail(error)
            return error
        removed = removed_topics(self.metadata, records)
        for record in records:
            self.metadata.apply(record)
        if self.on_change is not None:
            self.on_change(records, removed)
        self._applied(log)
        if log.size_bytes > max(self._size_bytes_max(), 2 * self._snapshot_size_bytes):
            try:
                await self._begin_anew(log)
            except StorageError as error:  # the change itself is stored
                log.fail(error)
                _log.critical("the cluster's metadata takes no changes until a restart: %s", error)
        return None

    def _applied(self, log: PartitionLog) -> None:
        self.applied_offset = log.log_end_offset
        self.when_applied()

    @property
    def start_offset(self) -> int:
        """Where the log begins."""
        return 0 if self._log is None else self._log.log_start_offset

    def read(self, offset: int, size_bytes_max: int) -> LogRead | None:
        """Whole batches of the log that are applied. Raises OffsetOutOfRange, DamagedLog."""
        assert self._log is not None
        return self._log.read(offset, size_bytes_max, self.applied_offset)

    def _write(self, log: PartitionLog, records: Sequence[MetadataRecord]) -> None:
        now_ms = self._clock.now_ms()
        batch = RecordBatch(batch_of(records, now_ms))
        batch.set_offsets(log.log_end_offset, 0)
        log.append(
            batch.data,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            max_timestamp=batch.max_timestamp,
            now_ms=now_ms,
        )

    async def _sync(self, log: PartitionLog) -> None:
        end_offset = log.log_end_offset
        await self._syncer.sync(log.files_to_sync())
        log.mark_synced(end_offset)

    async def _begin_anew(self, log: PartitionLog) -> None:
        """Write what holds now into a new segment, then give up those before it, the oldest first. Raises StorageError."""
        log.roll()
        first_offset = log.log_end_offset
        records = snapshot_records(self.metadata)
        for at in range(0, len(records), SNAPSHOT_BATCH_COUNT):
            self._write(log, records[at : at + SNAPSHOT_BATCH_COUNT])
            await self._sync(log)  # each before the next: a later one on the disk without it would be damage
        # Before anything goes: who begins to follow now, from the new start on, must be told what holds.
        self._applied(log)
        log.recovery_point_stored(log.recovery_point)
        for segment in log.segments[:-1]:
            # One by one, each name's end durable before the next goes: a gap would be taken for a lost end.
            log.delete_records_before(min(segment.end_offset, first_offset))
            log.remove_deleted()
            await self._sync(log)
        self._snapshot_size_bytes = log.size_bytes
        _log.info("the log of the cluster's metadata begins anew at offset %d, %d records", first_offset, len(records))

    def close(self) -> bool:
        """Close the log cleanly; whether that could be (a failed one may end in half a batch). Raises StorageError."""
        if self._log is None:
            return False
        self._log.close()
        return self._log.failure is None


def _nobody() -> None:
    """Nobody follows."""


def batch_of(records: Sequence[MetadataRecord], now_ms: int) -> bytearray:
    """A batch of changes, before it has its offsets."""
    return build_batch([(now_ms, None, record_to_value(record), ()) for record in records])


def records_of(data: bytes) -> list[MetadataRecord]:
    """The records of batches as they lie in the log. Raises CorruptBatch, MalformedMessage."""
    return [record for batch in batches(data) for record in records_in(batch)]


def records_in(batch: RecordBatch) -> list[MetadataRecord]:
    """The changes of one batch. Raises CorruptBatch, MalformedMessage."""
    found = []
    for record in batch.records():
        if record.value is None:
            raise CorruptBatch("cluster metadata has no tombstones")
        found.append(record_from_value(record.value))
    return found


def whole_up_to(data: bytes, due_offset: int) -> tuple[int, int]:
    """How far whole batches reach from `due_offset` on, and the offset that is due behind them; a torn one may not even look
    like a batch. Their checksums do not cover their offsets, which follow each other here."""
    position = 0
    try:
        for batch in takewhile(lambda batch: batch.crc_is_valid, batches(data)):
            if batch.base_offset != due_offset:
                break
            position, due_offset = position + batch.size_bytes, batch.end_offset
    except CorruptBatch:
        pass
    return position, due_offset
