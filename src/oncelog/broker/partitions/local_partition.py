"""One partition on this node: its log on disk, the leader's rules, and who waits for either.

It keeps the two in step: `append` writes to the log and tells the rules in the same step; `committed` moves the high
watermark and wakes, in this order, the waiting commits and then the waiting fetches.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from oncelog.broker.partitions.flusher import Commits
from oncelog.core.leader.guards import Guard
from oncelog.core.leader.partition import Partition
from oncelog.core.metadata.topic_configs import TopicSettings
from oncelog.errors import ErrorCode, StorageError
from oncelog.log.files import Syncable
from oncelog.log.journal import Journal
from oncelog.log.later_writes import Writes
from oncelog.log.partition_log import PartitionLog
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch

_log = logging.getLogger("oncelog.partition")

DAMAGE_SAID_MAX = 16
Committed = Callable[[ErrorCode], None]


class Watcher(Protocol):
    """Somebody who waits for more to read in a partition."""

    def partition_changed(self, partition: LocalPartition | None) -> None:
        """The high watermark, last stable offset or log start moved, or the partition went away (None: it was never written)."""
        ...


class LocalPartition:
    """A partition this node leads. `leader_epoch` is 0 on a single node: it has never had another leader."""

    def __init__(
        self,
        name: TopicPartition,
        topic_id: bytes,
        log: PartitionLog,
        rules: Partition,
        settings: TopicSettings,
        flusher: Commits,
        *,
        created: Sequence[Syncable] = (),
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.log = log
        self.rules = rules
        self.settings = settings
        self._flusher = flusher
        self._created = created  # the names and files of a new partition, to be synced with its first batch
        self._commits: deque[tuple[int, Committed]] = deque()
        self._watchers: dict[Watcher, None] = {}  # woken in the order they came
        self.is_gone = False  # with its topic: nothing of it is needed any more
        log.when_failed = self._log_failed
        self._journaled_end_offset = 0
        self._damaged: set[int] = set()  # where readers were stopped, as far as it was said

    @property
    def is_offline(self) -> bool:
        """Whether nothing more is taken or committed: its log has failed, whoever met it, or its topic is gone."""
        return self.is_gone or self.log.failure is not None

    @property
    def log_end_offset(self) -> int:
        """The offset the next record gets."""
        return self.rules.log_end_offset

    @property
    def is_journaled(self) -> bool:
        """Whether what is appended here and elsewhere survives in the order in which it was appended."""
        return self._flusher.journal is not None

    # appending

    def append(
        self, batch: RecordBatch, *, now_ms: int, guard: Guard | None = None, transaction_version: int = 2
    ) -> int:
        """Place `batch` at the log end, write it, and tell the rules; the offset after it. Raises StorageError.

        Where no commit waits for the disk a large one is written later, and committed when it is (`Flusher.may_write_later`).
        """
        batch.set_offsets(self.rules.log_end_offset, self.rules.leader_epoch)
        journal = self._flusher.journal
        try:
            if journal is not None:
                journal.reserve(batch.size_bytes)
            self.log.append(
                batch.data,
                base_offset=batch.base_offset,
                last_offset=batch.last_offset,
                max_timestamp=batch.max_timestamp,
                now_ms=now_ms,
                leader_epoch=self.rules.leader_epoch,
                may_be_later=self._flusher.may_write_later(self),
            )
            aborted = self.rules.appended(batch, now_ms=now_ms, guard=guard, transaction_version=transaction_version)
            if aborted is not None:
                self.log.add_aborted(aborted)
        except StorageError as error:
            self.go_offline(str(error))
            raise
        if journal is not None:
            self._add_to(journal, batch)
        self._flusher.appended(self)
        if self.log.has_later_writes:
            self._flusher.want(self)  # also where nobody waits for it
        return batch.end_offset

    def _add_to(self, journal: Journal, batch: RecordBatch) -> None:
        segment = self.log.segments[-1]
        references: Sequence[Syncable] = self._created
        if not journal.copies(batch.size_bytes):
            references = [*references, *self.log.newest_batch_files()]
        self._journaled_end_offset = batch.end_offset
        journal.add(
            self.topic_id,
            self.name.partition,
            segment_base_offset=segment.base_offset,
            position=segment.size_bytes - batch.size_bytes,
            end_offset=batch.end_offset,
            batch=batch.data,
            references=references,
        )

    def when_committed(self, end_offset: int, then: Committed) -> None:
        """Call `then` once everything below `end_offset` is committed, or with the error that prevents it."""
        if self.is_offline:
            asyncio.get_running_loop().call_soon(then, self.why_offline)
        elif end_offset <= self.rules.high_watermark:
            asyncio.get_running_loop().call_soon(then, ErrorCode.NONE)
        else:
            self._commits.append((end_offset, then))
            self._flusher.want(self)

    async def commit(self, end_offset: int) -> ErrorCode:
        """Wait until everything below `end_offset` is committed."""
        done: asyncio.Future[ErrorCode] = asyncio.get_running_loop().create_future()
        self.when_committed(end_offset, lambda code: None if done.done() else done.set_result(code))
        return await done

    @property
    def end_offset_to_sync(self) -> int:
        """Up to where `files_to_sync` reaches now."""
        return self._journaled_end_offset if self.is_offline else self.log_end_offset

    @property
    def waiting_commit_count(self) -> int:
        """How many appends wait for their commit."""
        return len(self._commits)

    @property
    def is_at_rest(self) -> bool:
        """Whether a clean end needs to write nothing of it."""
        return not self._created and self.log.is_at_rest

    @property
    def needs_checkpoint(self) -> bool:
        """Whether a clean end has to sync it: one whose sync was cut short by the stop itself is left to the next recovery."""
        return not self.is_offline and not self.log.is_syncing and not self.is_at_rest

    def aborted_checksums(self) -> dict[int, int]:
        """What a clean stop notes of its transaction indexes; nothing where they cannot be read."""
        try:
            return {} if self.is_offline else self.log.aborted_checksums()
        except StorageError:
            return {}

    @property
    def created(self) -> Sequence[Syncable]:
        """The names and files of a new partition that are not known to be synced."""
        return self._created

    def created_synced(self) -> None:
        """They are."""
        self._created = ()

    def files_to_checkpoint(self) -> list[Syncable]:
        """What must be synced before a clean end, and after recovery; then call `checkpointed`. Raises StorageError."""
        return [*self._created, *self.log.files_to_sync(checkpoint=True)]

    def checkpointed(self, end_offset: int) -> None:
        """They were synced when the log ended at `end_offset`."""
        self._created = ()
        self.log.mark_synced(end_offset)

    def files_to_sync(self) -> Sequence[Syncable]:
        """The files that make everything appended so far durable; of a partition that is offline, what its journal has."""
        if self.is_offline:
            return [*self._created, *self.log.files_to_salvage(self._journaled_end_offset)]
        return [*self._created, *self.log.files_to_sync(moves_to_end=self._flusher.journal is not None)]

    def data_synced(self, end_offset: int) -> None:
        """As `synced`, where the journal has committed it; also of a partition that went offline."""
        if not self.is_gone:
            self._created = ()
            self.log.mark_synced(end_offset)

    @property
    def has_later_writes(self) -> bool:
        """Whether not everything that was appended is in its file: what is not must not be committed."""
        return not self.is_offline and self.log.has_later_writes

    def begin_writes(self) -> Writes | None:
        """What another thread is to write now; then call `written`, or `go_offline`. None where that has begun already."""
        return self.log.begin_writes()

    def written(self, writes: Writes, end_offset: int) -> None:
        """They are in the file, which ended at `end_offset` with them."""
        if not self.is_offline:
            self.log.writes_ended(writes)
            self.committed(end_offset)

    def synced(self, end_offset: int) -> None:
        """The files were synced when the log ended at `end_offset`."""
        if not self.is_offline:
            self.data_synced(end_offset)
            self.committed(end_offset)

    def committed(self, end_offset: int) -> None:
        """Move the high watermark to `end_offset` and wake who waited for it."""
        if self.is_offline:
            return
        if self._flusher.journal is not None:
            self._created = ()  # what was journaled first had them synced before
        self.rules.synced(end_offset)
        while self._commits and self._commits[0][0] <= self.rules.high_watermark:
            self._commits.popleft()[1](ErrorCode.NONE)
        if self._commits:
            self._flusher.want(self)
        self.wake_watchers()

    def go_offline(self, reason: str, *, is_sync: bool = False) -> None:
        """Take and commit nothing more until a restart has recovered the log; what was committed stays readable. `is_sync`: a
        sync failed that may have been of its files or names, beside the one that it handed out."""
        is_news = is_sync and not self.is_gone  # of what it has committed: the next start has to know
        if is_news or not self.is_offline:
            self.log.fail(StorageError(reason), is_sync=is_sync)

    def _log_failed(self) -> None:
        if not self.is_gone:
            _log.critical(
                "partition %s takes nothing more: %s (docs/runbook.md, PartitionsOffline)", self.name, self.log.failure
            )
            self._give_up()

    def damaged_at(self, offset: int, reason: str) -> None:
        """A batch that holds `offset` is not what was written: said once for each place, and nothing more is taken."""
        if offset not in self._damaged and len(self._damaged) < DAMAGE_SAID_MAX:
            self._damaged.add(offset)
            _log.error("partition %s is damaged at offset %d, readers stop there: %s", self.name, offset, reason)
        self.go_offline(reason)

    def go_away(self) -> None:
        """The topic was deleted."""
        self.is_gone = True
        self._flusher.forget(self)
        self._give_up()

    def _give_up(self) -> None:
        commits, self._commits = self._commits, deque()
        for _, then in commits:
            then(self.why_offline)
        self.wake_watchers()

    @property
    def why_offline(self) -> ErrorCode:
        """Of a deleted topic what Apache Kafka's DelayedProduce says, which finds no such partition any more."""
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if self.is_gone else ErrorCode.KAFKA_STORAGE_ERROR

    @property
    def why_offline_told(self) -> str:
        """The same for a person: what the disk or the log said first."""
        return "the topic was deleted" if self.is_gone else f"the partition is offline: {self.log.failure}"

    # waiting readers

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` of every change until `unwatch`."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no more."""
        self._watchers.pop(watcher, None)

    def wake_watchers(self) -> None:
        """Something that readers wait for has changed."""
        for watcher in tuple(self._watchers):
            watcher.partition_changed(self)

    # changing

    def delete_records_to(self, offset: int) -> None:
        """Move the log start to `offset` (at most the high watermark); older segments go. Raises StorageError.

        The new start must be in the log start checkpoint already: see `Partitions.delete_records`.
        """
        self.rules.delete_records_to(offset)
        self.log.delete_records_before(self.rules.log_start_offset)
        self._flusher.appended(self)
        self.wake_watchers()
