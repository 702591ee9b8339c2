"""One share partition that is open: its window in memory, its state on disk, who waits for records, when locks end.

What members do is stored before they are answered. Acquiring is not stored: after a crash those records are available again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.broker.partitions.index_mending import IndexMending, MendingDue
from oncelog.broker.partitions.local_partition import LocalPartition, Watcher
from oncelog.broker.partitions.unwritten_partition import UnwrittenPartition
from oncelog.core.leader.partition import IsolationLevel
from oncelog.core.share.settings import ShareSettings
from oncelog.core.share.states import ShareStates
from oncelog.core.share.window import (
    Acknowledgement,
    Acquired,
    BatchSpan,
    Change,
    RefusedAcknowledgement,
    Window,
)
from oncelog.errors import CorruptBatch, DamagedLog, ErrorCode, StorageError
from oncelog.host.clock import Clock
from oncelog.lazy_dataclass import dataclass
from oncelog.log.log_read import LogRead
from oncelog.wire.log_records.share_state import ShareKey
from oncelog.wire.record_batch import RecordBatch, batches

ROUNDS_MAX = 16  # of reading on where nothing that was read is for anybody


@dataclass(frozen=True, slots=True)
class Wish:
    """What a member wants of one fetch."""

    member_id: str
    records_max: int
    batch_size: int
    is_exact: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """What it gets of one partition: whole batches, and which of their offsets are its own."""

    records: bytes | memoryview = b""
    acquired: Sequence[Acquired] = ()


class SharePartition:
    """A share partition in use. `find` gives the partition that it reads, anew each time: its first record makes another one."""

    def __init__(
        self,
        key: ShareKey,
        coordinator: Coordinator[ShareStates],
        window: Window,
        settings: Callable[[], ShareSettings],
        find: Callable[[], LocalPartition | UnwrittenPartition | None],
        clock: Clock,
        index_mending: IndexMending,
    ) -> None:
        self.key = key
        self.is_closed = False  # an operator moved it, or its topic or group is gone: it is opened anew, or not at all
        self._coordinator = coordinator
        self._window = window
        self._settings = settings
        self._find = find
        self._clock = clock
        self._index_mending = index_mending
        self._watchers: dict[Watcher, None] = {}
        self._alarm: asyncio.TimerHandle | None = None
        self._loop = asyncio.get_running_loop()
        self.first_end_offset = (
            coordinator.partition.log_end_offset
        )  # of its state's log: where it begins is stored below

    @property
    def in_flight_count(self) -> int:
        """How many of its records something may still happen to."""
        return self._window.in_flight_count

    def _now_ms(self) -> int:
        return int(self._loop.time() * 1000)  # nobody sets this clock: a lock lasts as long as it says

    # -- who waits -------------------------------------------------------------------------------------------------

    def watch(self, watcher: Watcher) -> None:
        """Tell `watcher` whenever records may have become available, of the log or of others."""
        self._watchers[watcher] = None
        partition = self._found()
        if partition is not None:
            partition.watch(watcher)

    def unwatch(self, watcher: Watcher) -> None:
        """Tell it no more."""
        self._watchers.pop(watcher, None)
        partition = self._found()
        if partition is not None:
            partition.unwatch(watcher)

    def wake(self) -> None:
        """Whoever waits looks again."""
        for watcher in tuple(self._watchers):
            watcher.partition_changed(None)

    def _found(self) -> LocalPartition | UnwrittenPartition | None:
        try:
            return self._find()
        except StorageError:
            return None

    # -- acquiring -------------------------------------------------------------------------------------------------

    def fault(self) -> ErrorCode:
        """What keeps everybody from its records."""
        if self.is_closed:
            return ErrorCode.NOT_LEADER_OR_FOLLOWER
        if self._coordinator.partition.is_offline:
            return ErrorCode.KAFKA_STORAGE_ERROR
        try:
            partition = self._find()
        except StorageError:
            return ErrorCode.KAFKA_STORAGE_ERROR
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if partition is None else ErrorCode.NONE

    def available_bytes(self, size_bytes_wanted: int) -> int:
        """How much a member could be given now, as far as that is wanted; reading may find that less is for it."""
        partition = self._found()
        if partition is None or not self._may_read(partition):
            return 0
        if size_bytes_wanted <= 1:
            return 1
        assert isinstance(partition, LocalPartition)  # there is something to read
        try:
            read = self._log_read(partition, self._window.next_offset, size_bytes_wanted)
        except (DamagedLog, StorageError, MendingDue):
            return size_bytes_wanted
        return len(read.data) if read is not None else 0

    def _may_read(self, partition: LocalPartition | UnwrittenPartition) -> bool:
        self._window.move_start(partition.rules.log_start_offset)
        return self._window.can_acquire(self._settings()) and self._window.next_offset < self._bound(partition)

    def _bound(self, partition: LocalPartition | UnwrittenPartition) -> int:
        is_committed = self._settings().is_read_committed
        level = IsolationLevel.READ_COMMITTED if is_committed else IsolationLevel.READ_UNCOMMITTED
        return partition.rules.readable_to(level)

    def acquire(self, wish: Wish, size_bytes_max: int) -> Delivery | ErrorCode:
        """Give the member what there is for it, at most so many bytes unless one batch is larger. Raises MendingDue."""
        partition = self._found()
        fault = self.fault()
        if fault is not ErrorCode.NONE:
            return fault
        assert partition is not None
        for _ in range(ROUNDS_MAX):
            if not self._may_read(partition):
                break
            assert isinstance(partition, LocalPartition)  # there is something to read
            try:
                delivery = self._read(partition, wish, size_bytes_max)
            except (DamagedLog, CorruptBatch) as error:
                partition.damaged_at(self._window.next_offset, str(error))
                return ErrorCode.CORRUPT_MESSAGE
            except StorageError as error:
                partition.go_offline(str(error))
                return ErrorCode.KAFKA_STORAGE_ERROR
            if delivery is None:
                break
            if delivery.acquired:
                self._arm()
                return delivery
        return Delivery()

    def _log_read(self, partition: LocalPartition, offset: int, size_bytes_max: int) -> LogRead | None:
        """Raises DamagedLog, StorageError, MendingDue."""
        bound = self._bound(partition)
        return self._index_mending.at_once(partition, lambda: partition.log.read(offset, size_bytes_max, bound))

    def _read(self, partition: LocalPartition, wish: Wish, size_bytes_max: int) -> Delivery | None:
        window, settings = self._window, self._settings()
        read_from = window.next_offset
        read = self._log_read(partition, read_from, size_bytes_max)
        if read is None:
            return None
        found = list(batches(read.data))
        _check_gaps(found, read_from)
        aborted = _Aborted(partition, read_from, read.upper_bound_offset) if settings.is_read_committed else None
        acquired = window.acquire(
            wish.member_id,
            read_from,
            [
                BatchSpan(each.base_offset, each.last_offset, aborted is not None and aborted.has(each))
                for each in found
            ],
            settings,
            records_max=wish.records_max,
            batch_size=wish.batch_size,
            is_exact=wish.is_exact,
            now_ms=self._now_ms(),
        )
        return Delivery(_records_of(read.data, found, acquired), acquired)

    # -- what becomes of records -----------------------------------------------------------------------------------

    async def acknowledge(
        self, member_id: str, acknowledgements: Sequence[Acknowledgement]
    ) -> RefusedAcknowledgement | None:
        """Take what the member says, and return when it is stored; the refusal where it may not say so."""
        fault = self.fault()
        if fault is not ErrorCode.NONE:
            return RefusedAcknowledgement(fault, "")
        outcome = self._window.acknowledge(member_id, acknowledgements, self._settings(), self._now_ms())
        if isinstance(outcome, RefusedAcknowledgement):
            return outcome
        done = self._store(outcome)
        self.wake()
        try:
            await done  # where it is said once more, until what was said first is stored
        except CoordinatorFailed:
            return RefusedAcknowledgement(ErrorCode.KAFKA_STORAGE_ERROR, "")
        return None

    def release(self, member_id: str) -> None:
        """The member is gone: others get what it has."""
        self._given_back(self._window.release(member_id, self._settings()))

    def _given_back(self, change: Change | None) -> None:
        if change is not None:
            self._store(change)
            self.wake()

    def _store(self, change: Change) -> asyncio.Future[None]:
        decision = self._coordinator.machine.write(self.key, change, self._clock.now_ms())
        return self._coordinator.perform(decision)

    # -- time ------------------------------------------------------------------------------------------------------

    def _arm(self) -> None:
        deadline_ms = self._window.next_deadline_ms
        if self._alarm is None and deadline_ms is not None and not self.is_closed:
            delay_s = max(deadline_ms - self._now_ms(), 0) / 1000
            self._alarm = self._loop.call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        if not self._coordinator.partition.is_offline and not self.is_closed:
            self._given_back(self._window.expire(self._now_ms(), self._settings()))
            self._arm()

    def close(self) -> None:
        """Nobody is given anything of it any more; who waits is answered."""
        self.is_closed = True
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
        self.wake()


def _check_gaps(found: Sequence[RecordBatch], read_from: int) -> None:
    """Offsets that no batch has are done with, for good: nobody believes a damaged header, or one in another's place, about
    them. Raises CorruptBatch."""
    end_offset, has_gap = read_from, False
    for index, batch in enumerate(found):
        if index and batch.base_offset < end_offset:
            raise CorruptBatch(
                f"the batch at offset {batch.base_offset} begins below {end_offset}, where the last one ended"
            )
        has_gap |= batch.base_offset > end_offset
        end_offset = batch.last_offset + 1
    if has_gap:  # of compaction, unless one of them is damaged
        for batch in found:
            batch.check_crc()


class _Aborted:
    """Which batches of one read belong to aborted transactions: those between a transaction's first record and its marker."""

    def __init__(self, partition: LocalPartition, read_from: int, upper_bound_offset: int) -> None:
        self._ranges: dict[int, list[tuple[int, int]]] = {}
        for each in partition.log.aborted_between(read_from, upper_bound_offset):
            self._ranges.setdefault(each.producer_id, []).append((each.first_offset, each.last_offset))

    def has(self, batch: RecordBatch) -> bool:
        """Whether nobody may see it. Raises CorruptBatch: what a damaged header says is not believed, as it would be for good."""
        if not batch.is_transactional or batch.is_control:
            return False
        ranges = self._ranges.get(batch.producer_id, ())
        if not any(first <= batch.base_offset <= last for first, last in ranges):
            return False
        batch.check_crc()
        return True


def _records_of(
    data: bytes | memoryview, found: Sequence[RecordBatch], acquired: Sequence[Acquired]
) -> bytes | memoryview:
    """The batches from the first acquired offset to the last one."""
    if not acquired:
        return b""
    begin = end = position = 0
    for batch in found:
        if batch.last_offset < acquired[0].first_offset:
            begin = position + batch.size_bytes
        if batch.base_offset <= acquired[-1].last_offset:
            end = position + batch.size_bytes
        position += batch.size_bytes
    return memoryview(data)[begin:end]
