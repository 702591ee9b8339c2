"""All partitions on this node: opened at start, made when first written, closed at the end.

A partition that was never written costs nothing, however often it is read; its first Produce makes its directory, and the load of
a coordinator, which writes to it from then on. The checkpoint files of the data directory are written here. Many partitions are
opened and closed together: what they wrote is synced in one call, since a sync of each would take most of a start's time.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.partitions.checkpoints import NO_JOURNAL, Checkpoints, JournalEnd
from oncelog.broker.partitions.deleted_files import DeletedFiles
from oncelog.broker.partitions.flusher import Commits
from oncelog.broker.partitions.index_mending import IndexMending
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.log_starts import LogStarts
from oncelog.broker.partitions.partition_directories import deleted_directory, missing, move_aside, settle
from oncelog.broker.partitions.partition_files import (
    NewNames,
    all_files,
    begin_directory,
    log_config,
    lost_where_it_fails,
    metadata_file,
)
from oncelog.broker.partitions.partition_settings import KnownSettings, rules_config
from oncelog.broker.partitions.recovery_progress import RecoveryReport
from oncelog.broker.partitions.unwritten_partition import FirstWatchers, UnwrittenPartition
from oncelog.core.leader.partition import Partition
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.core.metadata.leadership import Leadership, Led, alone
from oncelog.core.metadata.topic_configs import INTERNAL_TOPICS, TopicSettings
from oncelog.errors import CorruptIndex, DamagedLog, StorageError
from oncelog.host.syncer import Syncer
from oncelog.host.worker import Worker
from oncelog.log import failed_sync
from oncelog.log.aborted_checksums import AbortedChecksumsFile
from oncelog.log.checkpoint_files import (
    CLEANED_OFFSETS,
    CLUSTER_METADATA,
    HIGH_WATERMARKS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
)
from oncelog.log.config import LogConfig
from oncelog.log.files import DirectoryNames, Syncable
from oncelog.log.journal_reading import JournalFound
from oncelog.log.journal_replay import LogPlace, PartitionKey, keys_of, put_back
from oncelog.log.leftovers import not_of_its_name
from oncelog.log.open_files import OpenFiles
from oncelog.log.partition_log import PartitionLog
from oncelog.log.producer_windows import ProducerWindowsFile, SnapshotKey, windows_of
from oncelog.log.recovery import recover, remove_below_start
from oncelog.types import TopicPartition

_log = logging.getLogger("oncelog.partitions")

# Partitions that are synced in one call at the start and the end: each has about five files open then, and with the idle
# ones (OPEN_FILES_MAX) they must fit into the 1024 that a process gets by default.
TOGETHER_MAX = 64
OPENED_TOGETHER = 4  # of those that nobody has asked for yet; then a pause
OPEN_PAUSE_S = 0.001
STEP_PARTITIONS = 32  # whose recovery points are noted as stored before others have their turn
UNREADABLE_WAY_OUT = "stop the broker, give it its rights or restore it, or delete the topic (docs/runbook.md)"
WAY_OUT = (
    'stop the broker and restore its files from a copy; without one, docs/runbook.md, "A damaged partition", says how to send '
    "what is left to another topic, and how a partition of an internal topic begins anew"
)


class Partitions:
    """The partitions of one node's data directory."""

    def __init__(
        self,
        files: OpenFiles,
        data_directory: str,
        metadata: ClusterMetadata,
        config: Callable[[], BrokerConfig],
        flusher: Commits,
        worker: Worker,
        syncer: Syncer,
        leadership: Leadership | None = None,
    ) -> None:
        self.led = Led(metadata, leadership or alone(config().node_id))
        self._files = files
        self._directory = data_directory
        self._metadata = metadata
        self._config = config
        self._flusher = flusher
        self._partitions: dict[TopicPartition, LocalPartition] = {}
        self._damaged: dict[TopicPartition, str] = {}
        self._unopened: dict[TopicPartition, None] = {}  # cleanly closed by the last stop, and not needed yet
        self._settings = KnownSettings()
        self._syncer = syncer
        self._checkpoints = Checkpoints(files.files, data_directory, worker, syncer, lambda: self._new_names)
        self._windows = ProducerWindowsFile(files.files, data_directory)
        self._aborted = AbortedChecksumsFile(files.files, data_directory)
        self._writing_aside = asyncio.Lock()  # housekeeping and the cleaner ask for it, each in its own time
        self._has_past = False  # the checkpoint files may say something of topics that were deleted
        self.deleted = DeletedFiles(files.files, worker)
        self.index_mending = IndexMending(worker, self._partitions.get, files)
        self.log_starts = LogStarts(self._checkpoints, self.deleted, worker, self.index_mending)
        self._new_names = NewNames(DirectoryNames(files.files, data_directory))
        self.metadata_synced_end: Callable[[], int] = int  # of its log, where this process keeps it
        self._first_watchers = FirstWatchers(self._partitions.get)
        self._unwritten_rules = Partition()  # of all that were never written: nothing in it ever changes

    def __iter__(self) -> Iterator[LocalPartition]:
        """Those that are open: after a clean stop the others follow soon (`open_rest`)."""
        return iter(tuple(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions) + len(self._unopened)

    def get(self, name: TopicPartition) -> LocalPartition | None:
        """The partition for who is going to write, made now if its topic has it; None where there is no such partition here
        (`led.why_not`). Raises StorageError where it cannot be opened."""
        if (partition := self._partitions.get(name)) is not None:
            return partition
        if (topic := self.led.topic_of(name)) is None:
            return None
        if name in self._damaged:
            raise StorageError(f"{name} is offline: {self._damaged[name]}")
        if name in self._unopened:
            return self._open_closed(name)
        try:
            partition = self._open(name, topic, is_clean=False, created=self._create_directory(name, topic))
        except StorageError as error:
            # A name whose sync failed may be gone for good: trying again in this process would not bring it back.
            self._damaged[name] = str(error)
            self._first_watchers.gone(name)
            raise
        self._first_watchers.made(partition)
        return partition

    def find(self, name: TopicPartition) -> LocalPartition | UnwrittenPartition | None:
        """The partition for who does not write: one that was never written is answered from memory, and not made. None where
        there is no such partition here. Raises StorageError where it cannot be opened."""
        if (partition := self._partitions.get(name)) is not None:
            return partition
        if (topic := self.led.topic_of(name)) is None:
            return None
        if name in self._damaged or name in self._unopened:
            return self.get(name)
        return UnwrittenPartition(name, self._unwritten_rules, topic, self._settings_of, self._first_watchers)

    def existing(self, name: TopicPartition) -> LocalPartition | None:
        """The partition if it has been written before, and can be opened."""
        if name in self._unopened:
            with contextlib.suppress(StorageError):  # it is offline and has said why
                self._open_closed(name)
        return self._partitions.get(name)

    def of_topic(self, topic_name: str) -> list[LocalPartition]:
        """Those of one topic that `existing` finds."""
        names = [name for name in (*self._partitions, *self._unopened) if name.topic == topic_name]
        return [found for name in names if (found := self.existing(name)) is not None]

    def is_offline(self, name: TopicPartition) -> bool:
        """Whether the partition cannot be served."""
        partition = self._partitions.get(name)
        return name in self._damaged or (partition is not None and partition.is_offline)

    @property
    def offline_count(self) -> int:
        """How many cannot be served: those that failed while they were open, and those that never could be opened."""
        return len(self.offline())

    def offline(self) -> list[TopicPartition]:
        """Which cannot be served."""
        return [*self._damaged, *(name for name, each in self._partitions.items() if each.is_offline)]

    def damaged(self) -> list[str]:
        """The partitions that could not be opened, with the reasons."""
        return [f"{name}: {reason}" for name, reason in sorted(self._damaged.items())]

    def read_checkpoints(self) -> int:
        """Before `open_all`, which does it else; up to where they say that the cluster's metadata was synced. Raises StorageError
        where one is damaged that is needed."""
        self._checkpoints.read()
        return self._checkpoints.metadata_end_offset

    async def open_all(self, *, is_clean: bool, journal: JournalFound | None = None, is_cut: bool = False) -> None:
        """Open every partition that has a directory; damaged ones stay offline and say so. A `journal` is put back into the
        logs before, and with `is_cut` (the power went) they are cut where it ends. What the last stop closed cleanly is opened
        when it is needed, or by `open_rest`. Raises StorageError."""
        checkpoints = self._checkpoints
        checkpoints.read()
        try:
            self._windows.read()
        except CorruptIndex as error:
            _log.warning("%s; what was in flight over two crashes in a row is not recognised when it is retried", error)
        found = settle(
            *(self._files.files, self._directory, self._metadata, checkpoints.by_file(), checkpoints.write_now),
            is_clean=is_clean,
            journaled=lambda: keys_of(journal) if journal is not None else frozenset(),
        )
        directories = dict.fromkeys(found.names)
        self._note_unreadable(found.unreadable)
        if directories:
            checkpoints.tell_missing()
        if (problem := self._aborted.read()) is not None:
            _log.warning(problem)
        if is_clean:
            self._unopened = directories
            checkpoints.store_offline(offline=())
            self._note_missing(directories)
            return
        failed_sync.note_expected(self._files.files, self._directory)
        unproven = {
            each for each in directories if not checkpoints.recovery_points.get(each)
        }  # else all was synced once
        failed_sync.make_names_again(
            self._files.files, self._directory, [str(name) for name in directories if name in unproven]
        )
        report = RecoveryReport()
        ends = await self._put_back(journal, directories) if journal is not None else {}
        self._note_missing(directories)
        report.opening(len(directories))
        opened: list[LocalPartition] = []
        for name in directories:
            topic = self._metadata.topics[name.topic]
            end = checkpoints.journal_end(name, ends.get((topic.topic_id, name.partition), 0), is_cut=is_cut)
            try:
                # Whose it is has to be as durable as what it holds, and the process that made it may not have synced that.
                unsynced = [metadata_file(self._files.files, f"{self._directory}/{name}")] if name in unproven else []
                opened.append(self._open(name, topic, is_clean=False, created=unsynced, journal_end=end))
            except DamagedLog as error:
                self._damaged[name] = str(error)
                if journal is not None:
                    # What it had of it is in its files, synced: the next journal does not know it. So is what belongs to it.
                    await self._syncer.sync(all_files(self._files.files, f"{self._directory}/{name}"))
                    checkpoints.stays_offline(name, end)
                _log.critical("partition %s is damaged and stays offline: %s; %s", name, error, self._way_out(name))
            report.opened()
            if len(opened) >= TOGETHER_MAX:
                await self._sync_opened(opened)
                opened = []
        await self._sync_opened(opened)
        failed_sync.forget_failed_sync(self._files.files, self._directory)
        self._store_recovery_points()
        for each in self:  # the marks of a failed sync are gone, durably with the next sync
            each.log.names_changed()
            self._flusher.appended(each)
        self._files.close_idle()
        report.ended()

    def _note_unreadable(self, unreadable: Mapping[TopicPartition, str]) -> None:
        for name, why in unreadable.items():
            if self.led.topic_of(name) is not None:
                reason = f"{self._directory}/{name} is no directory that can be read: {why}"
                self._damaged[name] = reason
                _log.critical(
                    "partition %s cannot be opened and stays offline: %s; %s", name, reason, UNREADABLE_WAY_OUT
                )

    def _note_missing(self, there: Iterable[TopicPartition]) -> None:
        known = {*there, *self._damaged}
        lost = missing(self._files.files, self._directory, self._checkpoints.synced_ends(), known, self.led)
        for name, reason in lost.items():
            _log.critical("partition %s is damaged and stays offline: %s", name, reason)
        self._damaged |= lost

    async def open_rest(self) -> None:
        """Open, a few at a time, what nobody has asked for yet: its retention, cleaning and figures wait for that."""
        while self._unopened:
            for name in list(itertools.islice(self._unopened, OPENED_TOGETHER)):
                self.existing(name)
            await asyncio.sleep(OPEN_PAUSE_S)
        self._files.close_idle()

    def _open_closed(self, name: TopicPartition) -> LocalPartition:
        """One that the last stop closed cleanly. Raises StorageError where it is damaged all the same; it stays offline then."""
        del self._unopened[name]
        try:
            partition = self._open(name, self._metadata.topics[name.topic], is_clean=True)
            if partition.log.has_unsynced:  # what was wrong with its files was put right
                self._sync_closed(partition.log)
        except StorageError as error:
            self._partitions.pop(name, None)
            self._damaged[name] = str(error)
            if isinstance(error, DamagedLog):
                _log.critical("partition %s is damaged and stays offline: %s; %s", name, error, self._way_out(name))
            else:  # whether it is damaged nobody has seen
                told = "partition %s cannot be opened and stays offline until the next start: %s; %s"
                _log.critical(told, name, error, UNREADABLE_WAY_OUT)
            raise
        if remove_below_start(partition.log):
            self._flusher.appended(partition)
        return partition

    def _way_out(self, name: TopicPartition) -> str:
        """Of a damaged partition: a file that is too much, or a copy."""
        with contextlib.suppress(StorageError):
            if told := not_of_its_name(self._files.files, f"{self._directory}/{name}"):
                return f"stop the broker: {told}"
        return WAY_OUT

    def _sync_closed(self, log: PartitionLog) -> None:
        """As `_sync_opened`, of one log and at once. Raises StorageError."""
        failed_sync.expect_failed_sync(self._files.files, log.directory)
        for file in (*log.files_before_snapshot(), *log.files_to_sync(checkpoint=True)):
            file.sync()
        log.mark_synced(log.log_end_offset)
        failed_sync.forget_failed_sync(self._files.files, log.directory)

    async def _put_back(
        self, journal: JournalFound, directories: dict[TopicPartition, None]
    ) -> dict[PartitionKey, int]:
        """Write the journal into the logs; a directory whose name was lost is made again. Where each of them ends."""
        topics = {topic.topic_id: topic for topic in self._metadata.topics.values()}

        def place_of(key: PartitionKey) -> LogPlace | None:
            topic = topics.get(key[0])
            if topic is None:
                return None
            name = TopicPartition(topic.name, key[1])
            if name not in directories:
                for each in self._create_directory(name, topic):
                    each.sync()
                directories[name] = None
            return LogPlace(f"{self._directory}/{name}", self._checkpoints.recovery_points.get(name, 0))

        ends: dict[PartitionKey, int] = {}
        for written in put_back(self._files.files, journal, place_of, ends):
            # A name may be older than this process: were its sync to fail, the next one would find nothing to do.
            names = [each.rpartition("/")[2] for each in written.directories]
            failed_sync.expect_failed_syncs(self._files.files, self._directory, names)
            await self._syncer.sync(written.files)
        return ends

    def _store_recovery_points(self) -> None:
        """What was recovered is not to be read again by the next start: a broker that is killed over and over before its
        first checkpoint would need longer each time. Raises StorageError."""
        self._with_windows(lambda: self._checkpoints.write_now(RECOVERY_POINTS, self._recovery_points_now()))
        self._checkpoints.write_now(LOG_START_OFFSETS, self._checkpoints.log_starts)
        for each in self:
            self._recovery_point_stored(each, each.log.recovery_point)
        self._checkpoints.store_offline(self._damaged)

    def _with_windows(self, store: Callable[[], None]) -> None:
        """Store recovery points; what is known beyond the snapshots there is durable at any time."""
        found = {
            SnapshotKey(each.topic_id, each.name.partition, each.log.log_end_offset): windows_of(producers)
            for each in self
            if each.log.is_at_rest and (producers := each.rules.producer_windows())
        }
        # Of the others the next start begins with the snapshots of this one, and reads on from there.
        found |= self._windows.stored(itertools.chain(self._ids_unopened(), self._ids_not_at_rest()))
        with lost_where_it_fails(lambda: self._new_names):
            self._windows.add(found)
            store()
            self._windows.keep(found)

    def _ids_not_at_rest(self) -> Iterator[tuple[bytes, int]]:
        return ((each.topic_id, each.name.partition) for each in self if not each.log.is_at_rest)

    def _ids_unopened(self) -> Iterator[tuple[bytes, int]]:
        return ((self._metadata.topics[each.topic].topic_id, each.partition) for each in self._unopened)

    async def _sync_opened(self, opened: Sequence[LocalPartition]) -> None:
        """Make durable what recovery wrote, then remove what lies below the log starts. Raises StorageError."""
        unsynced = [each for each in opened if each.log.has_unsynced]
        created = [each for each in opened if each.created and not each.log.has_unsynced]
        names = [str(each.name) for each in (*unsynced, *created)]
        if names:
            failed_sync.expect_failed_syncs(self._files.files, self._directory, names)
        if created:  # their recovery points are stored soon, and would say that all of them was synced once
            await self._syncer.sync([file for each in created for file in each.created])
            for each in created:
                each.created_synced()
        if unsynced:
            await self._sync_together(unsynced)
        for each in opened:
            if remove_below_start(each.log):
                self._flusher.appended(each)

    async def _sync_together(self, partitions: Sequence[LocalPartition]) -> None:
        """Checkpoint and sync these logs in one call. Raises StorageError, after which none of them is trusted."""
        begun: list[tuple[LocalPartition, int]] = []
        files: list[Syncable] = []
        try:
            before = [file for each in partitions for file in each.log.files_before_snapshot()]
            if before:
                await self._syncer.sync(before)
            for each in partitions:
                files += each.files_to_checkpoint()
                begun.append((each, each.log.log_end_offset))
            if files:
                await self._syncer.sync(files)
        except StorageError as error:
            for each in partitions:
                each.log.fail(error, is_sync=True)
            raise
        for each, end_offset in begun:
            each.checkpointed(end_offset)

    def _create_directory(self, name: TopicPartition, topic: Topic) -> list[Syncable]:
        # Made durable together with the first batch, by the flusher: thousands of new partitions must not stop the loop.
        files, path = self._files.files, f"{self._directory}/{name}"
        if self._has_past:  # the disk took no checkpoint after a removal: what it says of that is not about this one
            self.checkpoint()
        if files.exists(path):  # the files of a deleted topic of this name could not be removed
            self._files.forget_all_in(path)
            move_aside(files, path)
            self._sync_names()  # before another one has its name
        metadata = begin_directory(files, path, topic.topic_id)
        if self._new_names.failure is not None:
            self._new_names = NewNames(DirectoryNames(files, self._directory))
        return [metadata, self._new_names]

    def _open(
        self,
        name: TopicPartition,
        topic: Topic,
        *,
        is_clean: bool,
        created: Sequence[Syncable] = (),
        journal_end: JournalEnd = NO_JOURNAL,
    ) -> LocalPartition:
        config = self._config()
        chosen = self._settings_of(topic)
        rules = Partition(rules_config(config))
        log_start_offset = self._checkpoints.log_starts.get(name, 0)
        report = recover(
            self._files,
            f"{self._directory}/{name}",
            self._log_config(name, chosen),
            rules,
            recovery_point=self._checkpoints.recovery_points.get(name, 0),
            log_start_offset=log_start_offset,
            is_clean=is_clean,
            sync=False,  # the caller's part: with many others, or with the first append
            windows=self._windows.of(topic.topic_id, name.partition),
            journal_end_offset=journal_end.end_offset,
            is_cut=journal_end.is_cut,
            aborted=self._aborted.of(topic.topic_id, name.partition),
        )
        for note in report.notes:
            _log.warning("%s: %s", name, note)
        log = report.log
        if log.log_start_offset > log_start_offset and self._checkpoints.has_log_starts:
            log.close()  # a log start is in the checkpoint before any record below it is removed
            raise DamagedLog(
                f"{self._directory}/{name}: its first segment begins at offset {log.log_start_offset}, and its records began "
                f"at {log_start_offset}: what lies between is missing"
            )
        rules.recovered(log_start_offset=log.log_start_offset, log_end_offset=log.log_end_offset)
        partition = LocalPartition(name, topic.topic_id, log, rules, chosen, self._flusher, created=created)
        self._partitions[name] = partition
        return partition

    def _log_config(self, name: TopicPartition, chosen: TopicSettings) -> LogConfig:
        is_cleaned_soon = name.topic in INTERNAL_TOPICS and self._config().log_cleaner_enable
        return log_config(chosen, was_cleaned=name in self._checkpoints.cleaned, is_cleaned_soon=is_cleaned_soon)

    def _settings_of(self, topic: Topic) -> TopicSettings:
        return self._settings.of(topic, self._config())

    def configs_changed(self) -> None:
        """Take over the configuration that is in force now."""
        rules = rules_config(self._config())
        self.log_starts.settings_changed()
        for partition in self:
            topic = self._metadata.topics.get(partition.name.topic)
            if topic is not None:
                partition.settings = self._settings_of(topic)
                partition.rules.config = rules
                partition.log.config = self._log_config(partition.name, partition.settings)

    def remove(self, *topics: Topic) -> None:
        """Forget deleted topics' partitions and have their files removed: all, then the first StorageError is raised."""
        given_up: list[str] = []
        failures: list[StorageError] = []
        for topic, name in ((each, name) for each in topics for name in each.partitions()):
            self._damaged.pop(name, None)
            self._checkpoints.forget(name)
            self.log_starts.forget(name)
            self._unopened.pop(name, None)
            if (partition := self._partitions.pop(name, None)) is not None:
                partition.go_away()
                partition.log.close(clean=False)
            self._first_watchers.gone(name)
            path = f"{self._directory}/{name}"
            gone = f"{self._directory}/{deleted_directory(name, topic.topic_id.hex())}"
            try:
                if self._files.files.exists(path):
                    if partition is None:  # damaged, or its opening failed half-way
                        self._files.forget_all_in(path)
                    self._files.files.rename(path, gone)
                    given_up.append(gone)
            except StorageError as error:
                failures.append(error)
        if given_up:
            try:
                self._sync_names()
                self.deleted.add_directories(given_up)
            except StorageError as error:
                failures.append(error)
        self._has_past = True
        self.checkpoint()  # a topic of the same name must not be judged by this one's recovery points
        if failures:
            raise failures[0]

    def _sync_names(self) -> None:
        with lost_where_it_fails(lambda: self._new_names):
            self._files.files.sync_directory(self._directory)

    def expire_producers(self, now_ms: int) -> None:
        """Forget producers that were silent longer than producer.id.expiration.ms."""
        for partition in self:
            partition.rules.expire(now_ms)

    def checkpoint(self) -> None:
        """Write the checkpoint files; then logs may drop what only an older recovery point needed. Raises StorageError."""
        stored = [(each, each.log.recovery_point) for each in self]
        self._checkpoints.write_now(RECOVERY_POINTS, self._recovery_points_now())
        self._checkpoints.write_now(HIGH_WATERMARKS, self._high_watermarks_now())
        self._checkpoints.write_now(LOG_START_OFFSETS, self._checkpoints.log_starts)
        self._checkpoints.write_now(CLEANED_OFFSETS, self._checkpoints.cleaned | self._metadata_noted())
        self._checkpoints.store_offline(self._damaged)
        self._has_past = False
        for partition, recovery_point in stored:
            self._recovery_point_stored(partition, recovery_point)

    async def checkpoint_aside(self) -> bool:
        """The same from time to time, without holding the loop; False where another one came between. Raises StorageError."""
        async with self._writing_aside:
            stored = [(each, each.log.recovery_point) for each in self]
            is_newest = await self._checkpoints.write_aside(RECOVERY_POINTS, self._recovery_points_now())
            await self._checkpoints.write_aside(HIGH_WATERMARKS, self._high_watermarks_now())
            for index, (partition, recovery_point) in enumerate(stored):
                if is_newest and self._partitions.get(partition.name) is partition:
                    self._recovery_point_stored(partition, recovery_point)
                if index % STEP_PARTITIONS == STEP_PARTITIONS - 1:
                    await asyncio.sleep(0)
            return is_newest

    def _recovery_points_now(self) -> dict[TopicPartition, int]:
        # A damaged partition keeps what it had at the start: with its recovery point gone, the next start would cut it.
        # And so does one that was not opened.
        kept = self._checkpoints.recovery_points_of(itertools.chain(self._damaged, self._unopened))
        return kept | {each.name: each.log.recovery_point for each in self} | self._metadata_noted()

    def _metadata_noted(self) -> dict[TopicPartition, int]:
        # In all checkpoints but the log starts, which are known by its absence.
        metadata_end = self.metadata_synced_end()
        return {CLUSTER_METADATA: metadata_end} if metadata_end else {}

    def _high_watermarks_now(self) -> dict[TopicPartition, int]:
        # A clean stop leaves all three at the log's end: recovery point, high watermark, and what was synced.
        kept = self._checkpoints.recovery_points_of(self._unopened)
        return kept | {each.name: each.rules.high_watermark for each in self} | self._metadata_noted()

    def _recovery_point_stored(self, partition: LocalPartition, recovery_point: int) -> None:
        if not partition.is_offline:
            partition.log.recovery_point_stored(recovery_point)
            self.log_starts.gather_deleted(partition)

    def cleaned_offset(self, name: TopicPartition) -> int | None:
        """Up to where the partition was cleaned; None where it never was."""
        return self._checkpoints.cleaned.get(name)

    async def note_cleaned(self, partition: LocalPartition, end_offset: int) -> None:
        """Store the cleaned offset. From now on the log may have gaps, whatever its policy becomes. Raises StorageError."""
        self._checkpoints.cleaned[partition.name] = end_offset
        partition.log.config = self._log_config(partition.name, partition.settings)
        async with self._writing_aside:
            await self._checkpoints.write_aside(CLEANED_OFFSETS, self._checkpoints.cleaned | self._metadata_noted())

    async def close(self) -> bool:
        """Close every log cleanly, with snapshots; whether all of them could be. Raises StorageError."""
        await self._flusher.end()
        await asyncio.sleep(0)  # what that has committed may bring records of its own: Complete follows the markers
        await self._flusher.end()
        is_clean = not self._damaged
        partitions, left = tuple(self), self._aborted.of_those(self._ids_unopened())
        for first in range(0, len(partitions), TOGETHER_MAX):
            some = partitions[first : first + TOGETHER_MAX]
            try:
                await self._sync_together([each for each in some if each.needs_checkpoint])
            except StorageError as error:
                _log.critical("partitions could not be closed cleanly: %s", error)
            for each in some:
                left[each.topic_id, each.name.partition] = each.aborted_checksums()
                each.log.close(clean=False)
                is_clean = is_clean and not each.is_offline and each.log.failure is None and not each.log.is_syncing
        self._with_windows(self.checkpoint)
        self._aborted.write(left)
        return is_clean
