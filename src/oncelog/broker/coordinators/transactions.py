"""The transaction coordinators of this node: one per partition of `__transaction_state`, loaded from it.

Every request of a transactional id comes through `begin`, which performs the coordinator's decision and, where the refusal
is only that the previous transaction is still being completed, holds the request until it is (README, "Held instead of
CONCURRENT_TRANSACTIONS").
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from typing import Any

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.coordinators.coordinator import CoordinatorFailed, CoordinatorShell
from oncelog.broker.coordinators.coordinator_load import loading
from oncelog.broker.coordinators.held_request import HeldRequest
from oncelog.broker.coordinators.load_times import LoadTimes
from oncelog.broker.coordinators.marker_sender import MarkerSender
from oncelog.broker.coordinators.producer_id_blocks import ProducerIdBlocks
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
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.log_records.transaction_state import newest_records, record_to_key_value
from oncelog.wire.messages.init_producer_id import InitProducerIdResponse

_log = logging.getLogger("oncelog.transactions")

Decide = Callable[[TransactionCoordinator, int], Decision]


def _only_waits(decision: Decision) -> bool:
    """Whether the refusal is over as soon as a transition is: one under way, or the abort that this decision begins."""
    if decision.held_until_complete is not None:
        return True
    begins_abort = bool(decision.records) and isinstance(decision.reply, InitProducerIdResponse)
    return begins_abort and decision.reply.error_code == ErrorCode.CONCURRENT_TRANSACTIONS


def _unheard(_: object) -> None:
    """Nobody waits: a failure took the coordinator's partition offline, and the restart completes anew."""


class TransactionShell:
    """One coordinator with its shell, and the requests that wait for one of its ids."""

    def __init__(self, machine: TransactionCoordinator) -> None:
        self.machine = machine
        self.shell: CoordinatorShell
        self._waiting: dict[str, dict[Callable[[], None], None]] = {}  # woken in the order they came

    def appended(self, records: Iterable[Any]) -> None:
        """Pass on to the machine."""
        self.machine.appended(records)

    def apply(self, record: Any) -> None:
        """Pass on to the machine, then wake who waits for the id."""
        self.machine.apply(record)
        self._wake(record.transactional_id)

    def failed(self, records: Iterable[Any]) -> None:
        """Pass on to the machine, then wake who waits for the ids."""
        records = tuple(records)
        self.machine.failed(records)
        for record in records:
            self._wake(record.transactional_id)

    def _wake(self, transactional_id: str) -> None:
        if transactional_id in self._waiting and not self.machine.is_busy(transactional_id):
            for then in self._waiting.pop(transactional_id):
                asyncio.get_running_loop().call_soon(then)

    def when_not_busy(self, transactional_id: str, then: Callable[[], None]) -> None:
        """Call `then` in a step of its own once no transition of the id is under way."""
        if self.machine.is_busy(transactional_id):
            self._waiting.setdefault(transactional_id, {})[then] = None
        else:
            asyncio.get_running_loop().call_soon(then)

    def no_longer(self, transactional_id: str, then: Callable[[], None]) -> None:
        """Who asked by `when_not_busy` waits no more: a transition may take as long as a partition is offline."""
        waiting = self._waiting.get(transactional_id, {})
        waiting.pop(then, None)
        if not waiting:
            self._waiting.pop(transactional_id, None)

    @property
    def waiting_count(self) -> int:
        """How many wait for the end of a transition."""
        return sum(map(len, self._waiting.values()))


class _CoordinatorOfOne:
    """A coordinator, as a held request of one id sees it."""

    def __init__(
        self, transactions: Transactions, holder: TransactionShell, transactional_id: str, decide: Decide
    ) -> None:
        self._transactions = transactions
        self._holder = holder
        self._transactional_id = transactional_id
        self._decide = decide
        self.begin = holder.shell.begin

    def decide(self) -> Decision | None:
        """Decide anew."""
        return self._transactions.decide_now(self._holder, self._decide)

    def when_not_busy(self, then: Callable[[], None]) -> None:
        """Wait for the end of a transition."""
        self._holder.when_not_busy(self._transactional_id, then)

    def no_longer(self, then: Callable[[], None]) -> None:
        """Wait no more."""
        self._holder.no_longer(self._transactional_id, then)


class Transactions:
    """All transaction coordinators of this node."""

    def __init__(
        self,
        metadata: ClusterMetadata,
        partitions: Partitions,
        topics: Topics,
        blocks: ProducerIdBlocks,
        clock: Clock,
        config: Callable[[], BrokerConfig],
        marker_sender: MarkerSender,
        metrics: Metrics,
    ) -> None:
        self._metrics = metrics
        self._metadata = metadata
        self._partitions = partitions
        self._topics = topics
        self._blocks = blocks
        self._clock = clock
        self._config = config
        self.marker_sender = marker_sender
        marker_sender.written = self.markers_written
        self._completed: Callable[[str], None] = _unheard
        self._shells: dict[int, TransactionShell] = {}
        self.load_times = LoadTimes()

    def when_completed(self, completed: Callable[[str], None]) -> None:
        """Call `completed` with the transactional id of each transaction that is complete from now on."""
        self._completed = completed

    # coordinators

    def loaded(self) -> Iterator[TransactionShell]:
        """The coordinators in use, in the order of their partitions."""
        return iter([shell for _, shell in sorted(self._shells.items())])

    async def coordinator_of(self, transactional_id: str) -> TransactionShell:
        """The coordinator of an id. Raises CoordinatorFailed."""
        try:
            topic = await self._topics.internal(TRANSACTION_STATE_TOPIC)
        except StorageError as error:
            raise CoordinatorFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        return self.coordinator(coordinator_partition(transactional_id, topic.partition_count))

    async def admit(self, transactional_id: str) -> None:
        """Refuse an id that nobody knows yet where there are too many. Raises CoordinatorFailed."""
        holder = await self.coordinator_of(transactional_id)
        if holder.machine.get(transactional_id) is not None:
            return
        if sum(len(each.machine) for each in self._shells.values()) >= self._config().oncelog_max_transactional_ids:
            self._metrics.limit_hit("oncelog.max.transactional.ids")
            raise CoordinatorFailed(ErrorCode.POLICY_VIOLATION)

    def coordinator(self, index: int) -> TransactionShell:
        """The coordinator of a partition, loaded now if it is not yet. Raises CoordinatorFailed."""
        shell = self._shells.get(index)
        if shell is None:
            with self.load_times.measured():
                shell = self._shells[index] = self._load(index)
        if shell.shell.partition.is_offline:
            raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR)
        return shell

    def _load(self, index: int) -> TransactionShell:
        with loading(self._partitions, TopicPartition(TRANSACTION_STATE_TOPIC, index)) as partition:
            return self._loaded_from(partition, index)

    def _loaded_from(self, partition: LocalPartition, index: int) -> TransactionShell:
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
        stored = (
            (each.key, each.value)
            for batch in partition.log.all_batches()
            if not batch.is_control  # observed C25: an operator's marker in this topic must not stop the load
            for each in batch.records()
        )
        for record in newest_records(stored):
            machine.apply(record)
        holder = TransactionShell(machine)
        holder.shell = CoordinatorShell(
            partition,
            holder,
            self._clock,
            to_key_value=record_to_key_value,
            markers=self._send,
        )
        return holder

    def load_all(self) -> None:
        """Load every coordinator whose partition holds something."""
        for partition in self._partitions:
            if partition.name.topic == TRANSACTION_STATE_TOPIC and partition.log_end_offset > 0:
                with contextlib.suppress(CoordinatorFailed):  # it is offline and has said why
                    self.coordinator(partition.name.partition)

    def resume(self) -> None:
        """Finish what a restart interrupted: send the markers of decided transactions (again)."""
        for holder in self.loaded():
            for decision in holder.machine.pending_completions(self._clock.now_ms()):
                self._perform_completion(holder, decision)

    # requests

    def begin(
        self,
        transactional_id: str,
        decide: Decide,
        refused: Callable[[ErrorCode], Reply],
        *,
        request: Request | None = None,
    ) -> Reply | Later | Coroutine[Any, Any, Reply]:
        """Decide and perform: what a handler answers with, which keeps its turn. With `request` it may be held.

        `refused` makes the reply of an error.
        """
        if not self.is_ready:
            return self._begin_when_ready(transactional_id, decide, refused, request)
        return self._begin(transactional_id, decide, refused, request)

    def decide_now(self, holder: TransactionShell, decide: Decide) -> Decision | None:
        """A decision, unless producer ids have to be reserved first."""
        return decide(holder.machine, self._clock.now_ms()) if self.is_ready else None

    def vouches_for(
        self, transactional_id: str, identity: ProducerIdAndEpoch, partitions: frozenset[TopicPartition]
    ) -> bool:
        """Whether the id's coordinator, here and now, knows that these belong to its open transaction."""
        if not self.is_ready:
            return False
        try:
            holder = self.coordinator(self._index_of(transactional_id))
        except CoordinatorFailed:
            return False
        return holder.machine.vouches_for(transactional_id, identity, partitions)

    @property
    def is_ready(self) -> bool:
        """Whether nothing has to be waited for before a decision: the topic is there, and producer ids are."""
        return TRANSACTION_STATE_TOPIC in self._metadata.topics and not self._blocks.ids.wants_block()

    async def make_ready(self) -> None:
        """Wait until `is_ready`. Raises CoordinatorFailed."""
        try:
            await self._topics.internal(TRANSACTION_STATE_TOPIC)
        except StorageError as error:
            raise CoordinatorFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error
        await self._ensure_producer_ids()

    async def _begin_when_ready(
        self, transactional_id: str, decide: Decide, refused: Callable[[ErrorCode], Reply], request: Request | None
    ) -> Reply:
        try:
            await self.make_ready()  # and nothing is awaited between it and the decision that may take a producer id
        except CoordinatorFailed as failed:
            return refused(failed.error_code)
        return await reply_of(self._begin(transactional_id, decide, refused, request))

    def _begin(
        self, transactional_id: str, decide: Decide, refused: Callable[[ErrorCode], Reply], request: Request | None
    ) -> Reply | Later:
        try:
            holder = self.coordinator(self._index_of(transactional_id))
        except CoordinatorFailed as failed:
            return refused(failed.error_code)
        decision = decide(holder.machine, self._clock.now_ms())
        if request is not None and _only_waits(decision):
            held = HeldRequest(
                request,
                _CoordinatorOfOne(self, holder, transactional_id, decide),
                decision,
                only_waits=_only_waits,
                refused=refused,
                deadline=asyncio.get_running_loop().time()
                + self._config().add_partitions_to_txn_retry_backoff_max_ms / 1000,
            )
            return held.later
        later = Later(keeps_turn=True)
        holder.shell.begin(
            decision, lambda code: later.give(decision.reply if code is ErrorCode.NONE else refused(code))
        )
        return later

    async def _ensure_producer_ids(self) -> None:
        try:
            await self._blocks.ensure()
        except StorageError as error:
            raise CoordinatorFailed(ErrorCode.COORDINATOR_NOT_AVAILABLE) from error

    # markers

    def _send(self, markers: MarkersToWrite) -> None:
        self.marker_sender.send(markers)

    def markers_written(self, markers: MarkersToWrite, results: Mapping[TopicPartition, MarkerResult]) -> None:
        """Leaders answered for these markers: complete the transaction, or send the rest again."""
        try:
            holder = self._shells[self._index_of(markers.transactional_id)]
        except KeyError:
            return
        decision = holder.machine.markers_written(markers, results, self._clock.now_ms())
        self._perform_completion(holder, decision)

    def _index_of(self, transactional_id: str) -> int:
        return coordinator_partition(transactional_id, self._metadata.topics[TRANSACTION_STATE_TOPIC].partition_count)

    def _perform_completion(self, holder: TransactionShell, decision: Decision) -> None:
        # Complete needs no sync: all its markers are synced, and without it Prepare has them sent once more.
        again, records = decision.markers, decision.records
        if records:
            holder.shell.begin(Decision(records=records), _unheard, waits=False)
            for record in records:
                self._completed(record.transactional_id)
        if again:
            self.marker_sender.send_later(again)

    # time

    def abort_timed_out(self) -> None:
        """Abort every transaction past its timeout."""
        self._sweep(lambda machine, now_ms: machine.timed_out(now_ms), "transaction timeouts")

    def remove_expired(self) -> None:
        """Forget transactional ids that were not used for long."""
        self._sweep(lambda machine, now_ms: machine.expired(now_ms), "expired transactional ids")

    def _sweep(self, decisions: Callable[[TransactionCoordinator, int], Iterator[Decision]], what: str) -> None:
        count = 0
        for holder in self.loaded():
            if holder.shell.partition.is_offline:
                continue
            for decision in decisions(holder.machine, self._clock.now_ms()):
                holder.shell.perform(decision)
                count += 1
        if count:
            _log.info("%s: %d", what, count)

    def two_phase_transactions(self) -> list[str]:
        """Open two-phase or kept transactions of all coordinators."""
        return [name for holder in self.loaded() for name in holder.machine.two_phase_transactions()]

    def longest_open_ms(self) -> int:
        """The age of the oldest open transaction."""
        now_ms = self._clock.now_ms()
        return max((holder.machine.longest_open_ms(now_ms) for holder in self.loaded()), default=0)
