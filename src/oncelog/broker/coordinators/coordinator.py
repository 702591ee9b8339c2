"""A coordinator: a pure machine, the partition that remembers for it, and who waits for either.

The only place that performs Decisions, for transactions and groups alike.

Append the records and tell the machine in the same step; wait for the commit; apply each record; then replies, then
markers. All of it happens in callbacks of the commit, so a request whose client went away is still completed. An answer
without records waits for those before it, where it may rest on them: a power cut must not take back what was told.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.core.decision import NOTHING, Decision, MarkersToWrite
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.clock import Clock
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.record_batch import RecordBatch, build_batch

Ended = Callable[[ErrorCode], None]
# What of its partition's errors a client is told, as Kafka does of all its coordinators (`CoordinatorRuntime`, and
# `TransactionStateManager` for transactions): that it should look for a coordinator that works.
_TOLD = {
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
}


def _nothing(*_: Any) -> None:
    pass


class CoordinatorFailed(Exception):
    """The coordinator's partition could not take the decision; `error_code` is what the client is told."""

    def __init__(self, error_code: ErrorCode) -> None:
        super().__init__(error_code.name)
        self.error_code = error_code


class Machine(Protocol):
    """What the shell needs of a pure coordinator."""

    def __len__(self) -> int:
        """How many ids or groups it knows."""
        ...

    @property
    def is_ahead(self) -> bool:
        """Whether it shows what is appended and not applied yet."""
        ...

    def appended(self, records: Any) -> None:
        """These are appended, not committed yet."""
        ...

    def apply(self, record: Any) -> None:
        """Take over one committed record."""
        ...

    def failed(self, records: Any) -> None:
        """These were decided and could not be appended or committed."""
        ...


M = TypeVar("M", bound=Machine)


class Waiters:
    """Who waits for the end of a transition of a key; each is called in a step of its own, in the order they came."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def add(self, key: str, then: Callable[[], None]) -> None:
        """Call `then` once when the key is woken."""
        self._waiting.setdefault(key, {})[then] = None

    def discard(self, key: str, then: Callable[[], None]) -> None:
        """It waits no more: a transition may take as long as a partition is offline."""
        waiting = self._waiting.get(key, {})
        waiting.pop(then, None)
        if not waiting:
            self._waiting.pop(key, None)

    def wake(self, key: str) -> None:
        """The key's transition is over."""
        for then in self._waiting.pop(key, ()):
            asyncio.get_running_loop().call_soon(then)


class Coordinator(Generic[M]):
    """`machine` decides, `partition` remembers, `waiters` wait for the end of a transition.

    `replied(token, reply)` answers a request that waits (None: it failed); `performed(decision)` is called after each
    decision, also one that failed; `went_offline()` when nothing can be decided any more.

    `applies_appended`: one journal keeps what is appended anywhere in the order in which it was, so the machine goes on with a
    record that is not committed yet, and markers follow it at once; only who asked is answered after the commit.
    """

    def __init__(
        self,
        partition: LocalPartition,
        machine: M,
        clock: Clock,
        *,
        to_key_value: Callable[[Any], tuple[bytes, bytes | None]],
        markers: Callable[[MarkersToWrite], None] = _nothing,
        replied: Callable[[int, Any], None] = _nothing,
        performed: Callable[[Decision], None] = _nothing,
        went_offline: Callable[[], None] | None = None,
        applies_appended: bool = False,
    ) -> None:
        self.partition = partition
        self.machine = machine
        self._clock = clock
        self._to_key_value = to_key_value
        self._markers = markers
        self._replied = replied
        self._performed = performed
        self._went_offline = went_offline
        self.applies_appended = applies_appended
        self.waiters = Waiters()
        if went_offline is not None:  # a watcher is called at every commit
            partition.watch(self)

    def partition_changed(self, partition: LocalPartition | None) -> None:
        """Called by the partition: where it went offline nobody may wait for a decision."""
        if partition is not None and partition.is_offline and self._went_offline is not None:
            self._went_offline()

    def perform(
        self,
        decision: Decision,
        *,
        producer: ProducerIdAndEpoch | None = None,
        guard: Any = None,
        waits: bool = True,
    ) -> asyncio.Future[Any]:
        """As `perform_then`, with a future of the decision's reply that fails with CoordinatorFailed."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def ended(code: ErrorCode) -> None:
            if done.done():
                return
            if code is ErrorCode.NONE:
                done.set_result(decision.reply)
            else:
                done.set_exception(CoordinatorFailed(code))
                done.exception()  # a client that went away does not make this an unhandled error

        self.perform_then(decision, ended, producer=producer, guard=guard, waits=waits)
        return done

    def perform_then(
        self,
        decision: Decision,
        ended: Ended,
        *,
        producer: ProducerIdAndEpoch | None = None,
        guard: Any = None,
        waits: bool = True,
    ) -> None:
        """Do what was decided, then call `ended` with NONE or what the client is told instead of the reply.

        `producer` makes the batch a part of that producer's transaction (TxnOffsetCommit), with the partition's
        `guard`. `waits=False` applies at once: for records that may be lost in a crash (Complete: its markers are
        synced, and Prepare would have them sent again).
        """
        if not decision.records:
            if waits and (self.applies_appended or self.machine.is_ahead):
                self._after_those_before(decision, ended)
            else:
                self._conclude(decision, ended)
            return
        if self.partition.is_offline:
            self._fail(decision, ended, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        now_ms = self._clock.now_ms()
        batch = self._batch(decision.records, producer, now_ms)
        try:
            end_offset = self.partition.append(batch, now_ms=now_ms, guard=guard)
        except StorageError:
            self._fail(decision, ended, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        self.machine.appended(decision.records)
        if waits and self.applies_appended:
            self._go_on(decision, end_offset, ended)
        elif waits:
            self.partition.when_committed(end_offset, lambda code: self._committed(decision, ended, code))
        else:
            self._committed(decision, ended, ErrorCode.NONE)

    def _batch(self, records: tuple[Any, ...], producer: ProducerIdAndEpoch | None, now_ms: int) -> RecordBatch:
        rows = [(now_ms, *self._to_key_value(record), ()) for record in records]
        if producer is None:
            return RecordBatch(build_batch(rows))
        return RecordBatch(
            build_batch(
                rows,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                is_transactional=True,
            )
        )

    def _committed(self, decision: Decision, ended: Ended, code: ErrorCode) -> None:
        if code is not ErrorCode.NONE:
            self._fail(decision, ended, code)
            return
        for record in decision.records:
            self.machine.apply(record)
        self._conclude(decision, ended)

    def _go_on(self, decision: Decision, end_offset: int, ended: Ended) -> None:
        """Apply what is appended and send its markers; answers when it is committed. A sync that fails ends all appends: what
        was applied then is forgotten with this process."""
        self.partition.when_committed(end_offset, lambda code: self._answer(decision, ended, code))
        for record in decision.records:
            self.machine.apply(record)
        self._follow(decision)

    def _after_those_before(self, decision: Decision, ended: Ended) -> None:
        """An answer without records may tell what the machine shows and the log may still lose."""
        end_offset = self.partition.log_end_offset
        if self.partition.is_offline:
            self._fail(decision, ended, ErrorCode.KAFKA_STORAGE_ERROR)
            return
        if end_offset <= self.partition.rules.high_watermark:
            self._conclude(decision, ended)
            return
        self.partition.when_committed(end_offset, lambda code: self._answer(decision, ended, code))
        self._follow(decision)

    async def committed(self) -> None:
        """Wait until what the machine shows now cannot be taken back by a power cut. Raises CoordinatorFailed."""
        await self.perform(NOTHING)

    def _answer(self, decision: Decision, ended: Ended, code: ErrorCode) -> None:
        ended(_TOLD.get(code, code))
        for token, reply in decision.replies:
            self._replied(token, reply if code is ErrorCode.NONE else None)

    def _follow(self, decision: Decision) -> None:
        for markers in decision.markers:
            self._markers(markers)
        self._performed(decision)

    def _conclude(self, decision: Decision, ended: Ended) -> None:
        self._answer(decision, ended, ErrorCode.NONE)
        self._follow(decision)

    def _fail(self, decision: Decision, ended: Ended, code: ErrorCode) -> None:
        self.machine.failed(decision.records)
        self._answer(decision, ended, code)
        self._performed(decision)
