"""The transaction coordinators of this node: one per partition of `__transaction_state`, loaded from it.

Every request of a transactional id comes through `begin`, which performs the coordinator's decision and, where the refusal
is only that the previous transaction is still being completed, holds the request until it is (docs/kafka-notes.md C13;
docs/differences-from-kafka.md).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping
from typing import Any

from oncelog.broker.admission.deeds import Deeds, Entries
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import Coordinator, CoordinatorFailed
from oncelog.broker.coordinators.coordinator_table import CoordinatorTable
from oncelog.broker.coordinators.held_request import HeldRequest
from oncelog.broker.coordinators.marker_sender import MarkerSender
from oncelog.broker.coordinators.producer_id_blocks import ProducerIdBlocks
from oncelog.broker.coordinators.routes import RoutedMarkers
from oncelog.broker.metadata.topics import Topics
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.broker.requests.request import Later, Reply, Request, reply_of
from oncelog.core.decision import Decision, MarkersToWrite
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.core.metadata.features import TRANSACTION_VERSION, level_of
from oncelog.core.metadata.topic_configs import TRANSACTION_STATE_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.core.transactions.coordinator import MarkerResult, TransactionConfig, TransactionCoordinator
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.clock import Clock
from oncelog.log.newest_in_log import newest_in_log
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionRecord, newest_records, record_to_key_value
from oncelog.wire.messages.init_producer_id import InitProducerIdResponse

_log = logging.getLogger("oncelog.transactions")
NAMED_MAX = 100  # of one sweep

Decide = Callable[[TransactionCoordinator, int], Decision]


def _may_succeed_later(decision: Decision) -> bool:
    """Whether the same request may succeed after the current transition: one under way, or the abort that this begins."""
    return decision.held_until_complete is not None or _begins_abort(decision)


def _begins_abort(decision: Decision) -> bool:
    is_first = bool(decision.records) and isinstance(decision.reply, InitProducerIdResponse)
    return is_first and decision.reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def _ignore_failure(_: object) -> None:
    """Nobody waits: a failure took the coordinator's partition offline, and the restart completes anew."""


class Transactions(CoordinatorTable[TransactionCoordinator]):
    """All transaction coordinators of this node."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        partitions: Partitions,
        topics: Topics,
        blocks: ProducerIdBlocks,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        marker_sender: MarkerSender | RoutedMarkers,
        metrics: Metrics,
    ) -> None:
        super().__init__(TRANSACTION_STATE_TOPIC, partitions, topics)
        self._metrics = metrics
        self._metadata = metadata
        self._blocks = blocks
        self._clock = clock
        self._config = config
        self.marker_sender = marker_sender
        marker_sender.written = self.markers_written
        self._completed: Callable[[str], None] = _ignore_failure
        self.entries: Entries | None = None  # where what is decided without a request is kept
        self.deeds: Deeds | None = None

    def when_completed(self, completed: Callable[[str], None]) -> None:
        """Call `completed` with the transactional id of each transaction that is complete from now on."""
        self._completed = completed

    # coordinators

    @property
    def highest_producer_id(self) -> int:
        """Of those that loaded coordinators know; -1 where there is none."""
        ids = (each.machine.table.highest_producer_id for each in self.loaded())
        return max(ids, default=-1)

    async def admit(self, transactional_id: str) -> None:
        """Refuse an id that nobody knows yet where there are too many. Raises CoordinatorFailed."""
        coordinator = await self.coordinator_of(transactional_id)
        if coordinator.machine.get(transactional_id) is not None:
            return
        if self.key_count >= self._config().oncelog_max_transactional_ids:
            self._metrics.limit_hit("oncelog.max.transactional.ids")
            raise CoordinatorFailed(ErrorCode.POLICY_VIOLATION)

    def _loaded_from(self, partition: LocalPartition, index: int) -> Coordinator[TransactionCoordinator]:
        config = self._config()
        machine = TransactionCoordinator(
            index,
            partition.rules.leader_epoch,
            TransactionConfig(
                config.transaction_max_timeout_ms,
                config.transactional_id_expiration_ms,
                config.transaction_two_phase_commit_enable,
            ),
            self._blocks.ids,
            lambda: level_of(self._metadata.features, TRANSACTION_VERSION),
        )
        for record in newest_records(_stored(partition)):
            machine.apply(record)
        coordinator: Coordinator[TransactionCoordinator] = Coordinator(
            partition,
            machine,
            self._clock,
            to_key_value=record_to_key_value,
            markers=self._send,
            performed=lambda decision: self._wake(coordinator, decision),
            applies_appended=self.shares_journal(partition),
        )
        return coordinator

    def shares_journal(self, partition: LocalPartition) -> bool:
        """Whether one journal has this partition, the coordinators', and all that markers go to: those of this broker, handed
        over by a call."""
        return partition.is_journaled and self.marker_sender.is_local

    @staticmethod
    def _wake(coordinator: Coordinator[TransactionCoordinator], decision: Decision) -> None:
        """Whoever waits for the end of a transition looks again."""
        for record in decision.records:
            if not coordinator.machine.is_busy(record.transactional_id):
                coordinator.waiters.wake(record.transactional_id)

    def resume(self) -> None:
        """Finish what a restart interrupted: send the markers of decided transactions (again)."""
        for coordinator in self.loaded():
            for decision in coordinator.machine.pending_completions(self._clock.now_ms()):
                self._perform_completion(coordinator, decision)

    # requests

    def begin(
        self,
        transactional_id: str,
        decide: Decide,
        refused: Callable[[ErrorCode], Reply],
        *,
        request: Request | None = None,
        is_for_append: bool = False,
    ) -> Reply | Later | Coroutine[Any, Any, Reply]:
        """Decide and perform; the connection's next request waits for the outcome. With `request` it may be held.

        `refused` makes the reply of an error. `is_for_append`: the answer only allows to append what belongs to the transaction.
        With a journal it need not wait for the commit: whatever is acknowledged of it later is behind it in the journal, and
        before that there is nothing to lose.
        """
        if not self.is_ready:
            return self._begin_when_ready(transactional_id, decide, refused, request)
        return self._begin(transactional_id, decide, refused, request, is_for_append=is_for_append)

    def decide_now(self, coordinator: Coordinator[TransactionCoordinator], decide: Decide) -> Decision | None:
        """A decision, unless it needs a producer id and none is left."""
        missed_before = self._blocks.ids.missed_count
        decision = decide(coordinator.machine, self._clock.now_ms())
        self._blocks.reserve_in_time()
        return None if self._blocks.ids.missed_count > missed_before and self._blocks.may_come else decision

    def is_verified(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> bool:
        """Whether the id's coordinator, here and now, knows that these belong to its open transaction."""
        if not self.is_ready:
            return False
        try:
            coordinator = self.coordinator(self._index_of(transactional_id))
        except CoordinatorFailed:
            return False
        return coordinator.machine.is_verified(transactional_id, identity, partitions)

    @property
    def is_ready(self) -> bool:
        """Whether nothing has to be waited for before a decision: the topic is there."""
        return TRANSACTION_STATE_TOPIC in self._metadata.topics

    async def make_ready(self) -> None:
        """Wait until `is_ready`. Raises CoordinatorFailed."""
        try:
            await self._topics.internal(TRANSACTION_STATE_TOPIC)
        except StorageError as error:
            raise CoordinatorFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    async def _begin_when_ready(
        self, transactional_id: str, decide: Decide, refused: Callable[[ErrorCode], Reply], request: Request | None
    ) -> Reply:
        try:
            await self.make_ready()
        except CoordinatorFailed as failed:
            return refused(failed.error_code)
        return await reply_of(self._begin(transactional_id, decide, refused, request))

    async def _begin_with_producer_id(
        self, transactional_id: str, decide: Decide, refused: Callable[[ErrorCode], Reply], request: Request | None
    ) -> Reply:
        await self._blocks.ensure()  # and nothing is awaited between it and the decision that takes the id
        return await reply_of(self._begin(transactional_id, decide, refused, request))

    def _begin(
        self,
        transactional_id: str,
        decide: Decide,
        refused: Callable[[ErrorCode], Reply],
        request: Request | None,
        *,
        is_for_append: bool = False,
    ) -> Reply | Later | Coroutine[Any, Any, Reply]:
        try:
            coordinator = self.coordinator(self._index_of(transactional_id))
        except CoordinatorFailed as failed:
            return refused(failed.error_code)
        decision = self.decide_now(coordinator, decide)
        if decision is None:
            return self._begin_with_producer_id(transactional_id, decide, refused, request)
        if request is not None and _begins_abort(decision) and self.deeds is not None:
            record = decision.records[0]
            identity = ProducerIdAndEpoch(record.producer_id, record.producer_epoch)
            self.deeds.transaction_aborted(request, transactional_id, identity)
        if request is not None and _may_succeed_later(decision):
            held = HeldRequest(
                request,
                coordinator,
                transactional_id,
                lambda: self.decide_now(coordinator, decide),
                decision,
                may_succeed_later=_may_succeed_later,
                refused=refused,
                deadline=asyncio.get_running_loop().time()
                + self._config().add_partitions_to_txn_retry_backoff_max_ms / 1000,
            )
            return held.later
        later = Later(keeps_turn=True)
        coordinator.perform_then(
            decision,
            lambda code: later.give(decision.reply if code is ErrorCode.NONE else refused(code)),
            waits=not (is_for_append and coordinator.applies_appended),
        )
        return later

    # markers

    def _send(self, markers: MarkersToWrite) -> None:
        self.marker_sender.send(markers)

    def markers_written(self, markers: MarkersToWrite, results: Mapping[TopicPartition, MarkerResult]) -> None:
        """Leaders answered for these markers: complete the transaction, or send the rest again."""
        try:
            coordinator = self._coordinators[self._index_of(markers.transactional_id)]
        except KeyError:
            return
        decision = coordinator.machine.markers_written(markers, results, self._clock.now_ms())
        self._perform_completion(coordinator, decision)

    def _index_of(self, transactional_id: str) -> int:
        return coordinator_partition(transactional_id, self._metadata.topics[TRANSACTION_STATE_TOPIC].partition_count)

    def _perform_completion(self, coordinator: Coordinator[TransactionCoordinator], decision: Decision) -> None:
        # Complete needs no sync: all its markers are synced, and without it Prepare has them sent once more.
        again, records = decision.markers, decision.records
        if records:
            coordinator.perform_then(Decision(records=records), _ignore_failure, waits=False)
            for record in records:
                self._completed(record.transactional_id)
        if again:
            self.marker_sender.send_later(again)

    # time

    def abort_timed_out(self) -> None:
        """Abort every transaction past its timeout; one that needs a producer id, and there is none, comes next time."""
        missed_before = self._blocks.ids.missed_count
        self._sweep(lambda machine, now_ms: machine.timed_out(now_ms), "transaction timeouts")
        if self._blocks.ids.missed_count > missed_before:
            self._blocks.reserve_in_time()  # nobody else may ever ask for one

    def remove_expired(self) -> None:
        """Forget transactional ids that were not used for long."""
        self._sweep(lambda machine, now_ms: machine.expired(now_ms), "expired transactional ids")

    def _sweep(self, decisions: Callable[[TransactionCoordinator, int], Iterator[Decision]], what: str) -> None:
        count = 0
        for coordinator in self.loaded():
            if coordinator.partition.is_offline:
                continue
            for decision in decisions(coordinator.machine, self._clock.now_ms()):
                coordinator.perform(decision)
                count += 1
                if count <= NAMED_MAX:
                    _name(decision, what, self._clock.now_ms())
                if self.entries is not None:
                    _keep(self.entries, decision, self._clock.now_ms())
        if count > NAMED_MAX:
            _log.info("%s: %d, the first %d are named above", what, count, NAMED_MAX)

    def two_phase_transactions(self) -> list[str]:
        """Open two-phase or kept transactions of all coordinators."""
        return [name for coordinator in self.loaded() for name in coordinator.machine.two_phase_transactions()]

    def longest_open_ms(self) -> int:
        """The age of the oldest open transaction."""
        now_ms = self._clock.now_ms()
        return max((coordinator.machine.longest_open_ms(now_ms) for coordinator in self.loaded()), default=0)


def _stored(partition: LocalPartition) -> Iterator[tuple[bytes | None, bytes | None]]:
    """The keys and values of its log in their order, without some that are followed by others of the same key."""
    for part in newest_in_log(partition.log):
        if isinstance(part, dict):
            yield from part.items()
        elif not part.is_control:  # an operator's marker must not stop the load (docs/kafka-notes.md C25)
            yield from ((each.key, each.value) for each in part.records())


def _keep(entries: Entries, decision: Decision, now_ms: int) -> None:
    """The same for those who ask later."""
    for record in decision.records:
        if isinstance(record, TransactionRecord):
            entries.add(
                "timeout",
                f"abort the transaction of {record.transactional_id!r}, producer {record.producer_id}:"
                f"{record.producer_epoch}: open for {now_ms - record.start_ms} ms, its timeout is {record.timeout_ms} ms",
                transactional_id=record.transactional_id,
                producer=ProducerIdAndEpoch(record.producer_id, record.producer_epoch),
            )
        else:
            name = record.transactional_id
            entries.add("expiration", f"forget transactional id {name!r}: it was not used", transactional_id=name)


def _name(decision: Decision, what: str, now_ms: int) -> None:
    """Whose transaction timed out, or which id is forgotten."""
    for record in decision.records:
        if isinstance(record, TransactionRecord):
            _log.info(
                "%s: the transaction of %r, producer %d:%d, is aborted: open for %d ms, its timeout is %d ms; %s",
                what,
                record.transactional_id,
                record.producer_id,
                record.producer_epoch,
                now_ms - record.start_ms,
                record.timeout_ms,
                ", ".join(map(str, sorted(record.partitions)[:10])) or "no partitions",
            )
        else:
            _log.info("%s: %r is forgotten", what, record.transactional_id)
