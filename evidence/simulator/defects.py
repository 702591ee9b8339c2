"""Planted defects: one for each promise that a checker watches. Each shows that the alarm of its checker works.

A defect is a context manager that breaks the broker's or the client's code while it lasts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import SimpleNamespace
from typing import Any

from evidence.world import disk
from oncelog.broker import startup
from oncelog.broker.coordinators.coordinator import Coordinator
from oncelog.broker.coordinators.transaction_gate import TransactionGate
from oncelog.broker.coordinators.transactions import Transactions
from oncelog.broker.network.connection import Connection
from oncelog.broker.network.secured_connection import SecuredConnection
from oncelog.broker.partitions import partitions
from oncelog.broker.partitions.journal_flusher import JournalFlusher
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.broker.partitions.purgatory import ParkedFetch
from oncelog.broker.share.share_partition import SharePartition, _Aborted
from oncelog.client.cluster.offset_lookup import EARLIEST
from oncelog.client.consumer.positions import Positions
from oncelog.client.sharing.share_consumer import ShareConsumer
from oncelog.core.access.authorizer import Authorizer
from oncelog.core.consumer.aborted_filter import AbortedFilter
from oncelog.core.groups.committed_offsets import CommittedOffsets
from oncelog.core.groups.offsets import OffsetRequests
from oncelog.core.leader import partition
from oncelog.core.leader.open_transactions import OpenTransactions
from oncelog.core.leader.partition import Partition
from oncelog.core.leader.producer_state import ProducerState
from oncelog.core.sasl import plain, scram_exchange
from oncelog.core.sasl.connection import SaslConnection
from oncelog.core.share.window import RefusedAcknowledgement
from oncelog.core.transactions import end_txn as end_transaction
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import completed
from oncelog.errors import ErrorCode
from oncelog.log.cleaned_transactions import CleanedTransactions
from oncelog.log.journal import Journal
from oncelog.log.journal_replay import LogPlace
from oncelog.log.partition_log import PartitionLog
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.api import ApiKey
from oncelog.wire.record_batch import RecordBatch

Defect = Callable[[], AbstractContextManager[None]]


@contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = owner.__dict__[name] if isinstance(owner, type) else getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


def acknowledges_before_the_sync() -> AbstractContextManager[None]:
    """A commit is acknowledged, and readable, as soon as it is in the page cache."""
    original = LocalPartition.when_committed

    def when_committed(self: LocalPartition, end_offset: int, then: Any) -> None:
        if not self.is_offline:
            self.rules.synced(self.rules.log_end_offset)
            self.wake_watchers()
        original(self, end_offset, then)

    return _replaced(LocalPartition, "when_committed", when_committed)


def forgets_to_bump_the_epoch() -> AbstractContextManager[None]:
    """Every transaction goes on with the epoch of the one before it."""

    def bumped(self: TransactionTable, identity: ProducerIdAndEpoch) -> ProducerIdAndEpoch:
        return identity

    return _replaced(TransactionTable, "bumped", bumped)


def drops_the_transaction_index() -> AbstractContextManager[None]:
    """Aborted transactions are not named to readers."""
    return _replaced(PartitionLog, "add_aborted", lambda self, entry: None)


def sends_markers_before_prepare_is_synced() -> AbstractContextManager[None]:
    """A power cut can undo a decision of which a marker is already there."""
    original = Coordinator.perform_then

    def perform_then(self: Coordinator, decision: Any, ended: Any, **more: Any) -> None:
        if decision.markers and decision.records:
            more["waits"] = False
        original(self, decision, ended, **more)

    return _replaced(Coordinator, "perform_then", perform_then)


def forgets_a_partition() -> AbstractContextManager[None]:
    """One partition of a transaction gets no marker."""
    original = end_transaction.prepared

    def prepared(transaction: Any, **more: Any) -> Any:
        record = original(transaction, **more)
        left = sorted(record.partitions)[1:] if len(record.partitions) > 2 else record.partitions
        return type(record)(
            **{name: getattr(record, name) for name in record.__slots__ if name != "partitions"},
            partitions=frozenset(left),
        )

    return _replaced(end_transaction, "prepared", prepared)


def lets_readers_see_one_too_many() -> AbstractContextManager[None]:
    """The last stable offset is one too high."""
    original = Partition.last_stable_offset

    def last_stable_offset(self: Partition) -> int:
        assert original.fget is not None
        return min(int(original.fget(self)) + 1, self.high_watermark)

    return _replaced(Partition, "last_stable_offset", property(last_stable_offset))


def ignores_aborts_when_reading() -> AbstractContextManager[None]:
    """The client shows every batch of data."""
    return _replaced(AbortedFilter, "is_visible", lambda self, batch: not batch.is_control)


def skips_markers_at_recovery() -> AbstractContextManager[None]:
    """After a restart decided transactions are not carried out."""
    return _replaced(Transactions, "resume", lambda self: None)


def forgets_producers_at_recovery() -> AbstractContextManager[None]:
    """The transactions that a restart finds open are not open any more."""
    original = Partition.recovered

    def recovered(self: Partition, **more: Any) -> None:
        original(self, **more)
        self._open = OpenTransactions()
        self._producers.clear()

    return _replaced(Partition, "recovered", recovered)


def appends_duplicates() -> AbstractContextManager[None]:
    """A batch that is sent again is stored again."""

    @contextmanager
    def both() -> Iterator[None]:
        with (
            _replaced(ProducerState, "duplicate_of", lambda self, batch: None),
            _replaced(partition, "check_sequence", lambda *_, **__: None),
        ):
            yield

    return both()


def commits_offsets_of_aborts() -> AbstractContextManager[None]:
    """The positions of an aborted transaction count."""
    original = CommittedOffsets.apply_marker

    def apply_marker(self: CommittedOffsets, producer_id: int, producer_epoch: int, *, commit: bool) -> None:
        del commit
        original(self, producer_id, producer_epoch, commit=True)

    return _replaced(CommittedOffsets, "apply_marker", apply_marker)


def reads_an_abort_as_a_commit_at_recovery() -> AbstractContextManager[None]:
    """What a restart reads of the coordinator's log is not what lived."""
    original = Transactions._loaded_from

    def load(self: Transactions, partition: LocalPartition, index: int) -> Any:
        holder = original(self, partition, index)
        for name, transaction in holder.machine.table.transactions.items():
            if transaction.state.name == "COMPLETE_COMMIT":
                changed = completed(transaction, now_ms=0, value_version=1)
                holder.machine.table.transactions[name] = changed
        return holder

    return _replaced(Transactions, "_loaded_from", load)


def never_times_out() -> AbstractContextManager[None]:
    """Transactions of clients that died stay open."""
    return _replaced(Transactions, "abort_timed_out", lambda self: None)


def syncs_nothing() -> AbstractContextManager[None]:
    """The syncer says that all is durable, and does nothing."""

    async def sync(self: disk.DelayedSyncer, files: Any) -> None:
        del files

    return _replaced(disk.DelayedSyncer, "sync", sync)


def cleans_as_if_aborts_were_commits() -> AbstractContextManager[None]:
    """A cleaning takes an aborted record for the last one of its key."""
    return _replaced(CleanedTransactions, "may_discard", lambda self, batch: False)


def cleans_markers_before_their_data() -> AbstractContextManager[None]:
    """A marker's delete horizon is set although data of its transaction is still there."""
    original = CleanedTransactions._may_discard_marker

    def may_discard_marker(self: CleanedTransactions, batch: Any) -> bool:
        original(self, batch)
        return True

    return _replaced(CleanedTransactions, "_may_discard_marker", may_discard_marker)


def lets_former_members_commit() -> AbstractContextManager[None]:
    """KIP-447 without its fence: positions of a former generation become part of a transaction."""
    return _replaced(OffsetRequests, "_check_transactional", lambda self, group, request: ErrorCode.NONE)


def forgets_group_positions_at_a_join() -> AbstractContextManager[None]:
    """Who subscribes begins where the log begins, whatever was committed."""
    original = Positions.assign

    def assign(self: Positions, partitions: Any) -> None:
        wanted = list(partitions)
        added = [name for name in wanted if name not in self.by_partition]
        original(self, wanted)
        for name in added:
            self.by_partition[name].jump(None, reset_to=EARLIEST)

    return _replaced(Positions, "assign", assign)


def lets_everybody_in() -> AbstractContextManager[None]:
    """The authorizer allows what its rules deny."""
    return _replaced(Authorizer, "allows", lambda self, *asked: True)


def keeps_what_it_refuses() -> AbstractContextManager[None]:
    """Metadata of a position that is too long is refused, and stored all the same."""
    return _replaced(OffsetRequests, "_check_metadata", lambda self, error_code, metadata: error_code)


def believes_the_disk() -> AbstractContextManager[None]:
    """No checksum is looked at: not by readers, not by the broker."""
    return _replaced(RecordBatch, "check_crc", lambda self: None)


def asks_again_only_what_it_held() -> AbstractContextManager[None]:
    """Who ends a question of the gate does not ask for what came meanwhile: that waits until something else happens."""

    def hold(self: TransactionGate, tokens: set[int]) -> None:
        original(self, tokens)
        if tokens:
            self._wake.set()

    def ended(self: TransactionGate, lane: int, answers: list[Any]) -> None:
        del lane
        self._deliver(deque(answers))

    @contextmanager
    def both() -> Iterator[None]:
        with _replaced(TransactionGate, "_hold", hold), _replaced(TransactionGate, "_ended", ended):
            yield

    original = TransactionGate._hold
    return both()


def forgets_a_fetch_that_waits() -> AbstractContextManager[None]:
    """A parked fetch has no time at which it is over: without news it is never answered."""

    async def wait(self: ParkedFetch, timeout_s: float) -> None:
        del timeout_s
        await original(self, 3600.0)

    original = ParkedFetch.wait
    return _replaced(ParkedFetch, "wait", wait)


def cuts_nothing_where_the_journal_ends() -> AbstractContextManager[None]:
    """After a power cut the logs keep what the system happened to write: a marker without its Prepare."""
    original = Partitions.open_all

    async def open_all(self: Partitions, *, is_clean: bool, journal: Any = None, is_cut: bool = False) -> None:
        del is_cut
        await original(self, is_clean=is_clean, journal=journal)

    return _replaced(Partitions, "open_all", open_all)


def uses_the_journal_again_before_the_data_sync() -> AbstractContextManager[None]:
    """Entries are written over as soon as they are synced, whether their data files are or not."""
    original = Journal.synced

    def synced(self: Journal, taken: Any) -> None:
        original(self, taken)
        self.checkpointed(self.synced_sequence)

    return _replaced(Journal, "synced", synced)


def commits_before_the_journal_is_synced() -> AbstractContextManager[None]:
    """High watermarks move with the entry that is being written."""
    original = JournalFlusher.appended

    def appended(self: JournalFlusher, partition: LocalPartition) -> None:
        original(self, partition)
        partition.rules.synced(partition.log_end_offset)
        partition.wake_watchers()

    return _replaced(JournalFlusher, "appended", appended)


def answers_before_the_journal_is_synced() -> AbstractContextManager[None]:
    """Who ends a transaction is answered when the decision is appended, as the markers are."""
    original = Coordinator._go_on

    def go_on(self: Coordinator, decision: Any, end_offset: int, ended: Any) -> None:
        ended(ErrorCode.NONE)
        original(self, decision, end_offset, lambda code: None)

    return _replaced(Coordinator, "_go_on", go_on)


def replays_an_older_generation() -> AbstractContextManager[None]:
    """What an earlier life left in the journal's files is taken for this one's."""
    original = Journal.begin

    def begin(self: Journal, directory: bytes, boot: bytes, generation: int) -> None:
        del generation
        original(self, directory, boot, 7)

    @contextmanager
    def both() -> Iterator[None]:
        with _replaced(Journal, "begin", begin), _replaced(startup, "remove_journal", lambda *_: None):
            yield

    return both()


def replays_below_the_recovery_point() -> AbstractContextManager[None]:
    """Entries are put back into segments that were cleaned or removed since."""

    def place(directory: str, recovery_point: int) -> LogPlace:
        del recovery_point
        return LogPlace(directory, 0)

    return _replaced(partitions, "LogPlace", place)


def answers_who_has_not_logged_in() -> AbstractContextManager[None]:
    """Any request is begun, whoever asks: before the login, and when the session has ended."""
    original = SecuredConnection.__dict__["_begin"]

    def begin(self: SecuredConnection, frame: memoryview) -> None:
        if frame[1] in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            original(self, frame)
        else:
            Connection._begin(self, frame)

    return _replaced(SecuredConnection, "_begin", begin)


def takes_any_password() -> AbstractContextManager[None]:
    """Whoever knows a name comes in by PLAIN."""
    return _replaced(plain, "hmac", SimpleNamespace(compare_digest=lambda *_: True))


def takes_any_proof() -> AbstractContextManager[None]:
    """Whoever knows a name comes in by SCRAM."""
    return _replaced(scram_exchange, "is_proof", lambda *_: True)


def lets_sessions_go_on() -> AbstractContextManager[None]:
    """A login holds for ever."""

    def may_ask(self: SaslConnection, now_ms: float) -> bool:
        del now_ms
        return self.is_authenticated

    return _replaced(SaslConnection, "may_ask", may_ask)


def hands_out_what_has_lapsed() -> AbstractContextManager[None]:
    """A share consumer gives the application records whose lock is over."""
    return _replaced(ShareConsumer, "_give_back_stale", lambda _: None)


def shares_what_was_aborted() -> AbstractContextManager[None]:
    """A share group of read_committed members is given records of aborted transactions."""
    return _replaced(_Aborted, "has", lambda _, __: False)


def acknowledges_shares_before_they_are_stored() -> AbstractContextManager[None]:
    """A share partition answers when an acknowledgement is on its way to the log."""

    async def acknowledge(self: SharePartition, member_id: str, acknowledgements: Any) -> Any:
        fault = self.fault()
        if fault is not ErrorCode.NONE:
            return RefusedAcknowledgement(fault, "")
        outcome = self._window.acknowledge(member_id, acknowledgements, self._settings(), self._now_ms())
        if isinstance(outcome, RefusedAcknowledgement):
            return outcome
        self._store(outcome).add_done_callback(lambda done: done.cancelled() or done.exception())
        self.wake()
        return None

    return _replaced(SharePartition, "acknowledge", acknowledge)


def never_takes_a_record_back() -> AbstractContextManager[None]:
    """What a member has stays its own, also when its lock is over."""
    return _replaced(SharePartition, "_ring", lambda _: None)


def commits_without_records_that_it_needs() -> AbstractContextManager[None]:
    """A conditional commit is attempted whether its records have arrived or not."""
    return _replaced(Partition, "has_needed", lambda *_: True)


def takes_an_operators_commit_for_the_producers() -> AbstractContextManager[None]:
    """A repeated conditional commit is answered as the first time, whoever has ended the transaction."""
    return _replaced(
        end_transaction, "_repeated_on_condition", lambda each: end_transaction._repeated(each.state, True)
    )


# name -> (defect, profile in which it shows, checker that must see it)
DEFECTS: dict[str, tuple[Defect, str, str]] = {
    defect.__name__: (defect, profile, checker)
    for defect, profile, checker in (
        (acknowledges_before_the_sync, "disk", "watermarks"),
        (syncs_nothing, "disk", "exactly_once"),
        (forgets_to_bump_the_epoch, "network", "log"),
        (drops_the_transaction_index, "default", "exactly_once"),
        (sends_markers_before_prepare_is_synced, "coordinator", "log"),
        (forgets_a_partition, "default", "hanging"),
        (lets_readers_see_one_too_many, "default", "watermarks"),
        (ignores_aborts_when_reading, "default", "history"),
        (skips_markers_at_recovery, "coordinator", "hanging"),
        (forgets_producers_at_recovery, "coordinator", "recovery"),
        (appends_duplicates, "network", "history"),
        (commits_offsets_of_aborts, "default", "group_offsets"),
        (reads_an_abort_as_a_commit_at_recovery, "coordinator", "recovery"),
        (never_times_out, "default", "hanging"),
        (lets_former_members_commit, "groups", "groups"),
        (forgets_group_positions_at_a_join, "groups", "groups"),
        (lets_everybody_in, "default", "refusals"),
        (keeps_what_it_refuses, "default", "refusals"),
        (believes_the_disk, "compaction", "log"),
        (cleans_as_if_aborts_were_commits, "compaction", "cleaning"),
        (cleans_markers_before_their_data, "compaction", "cleaning"),
        (asks_again_only_what_it_held, "disk", "unanswered"),
        (forgets_a_fetch_that_waits, "default", "unanswered"),
        (cuts_nothing_where_the_journal_ends, "journal", "log"),
        (uses_the_journal_again_before_the_data_sync, "journal", "exactly_once"),
        (commits_before_the_journal_is_synced, "journal", "watermarks"),
        (answers_before_the_journal_is_synced, "journal", "exactly_once"),
        (replays_an_older_generation, "journal", "exactly_once"),
        (replays_below_the_recovery_point, "journal", "log"),
        (commits_without_records_that_it_needs, "default", "exactly_once"),
        (takes_an_operators_commit_for_the_producers, "default", "exactly_once"),
        (answers_who_has_not_logged_in, "sessions", "access"),
        (takes_any_password, "sessions", "access"),
        (takes_any_proof, "sessions", "access"),
        (lets_sessions_go_on, "sessions", "access"),
        (hands_out_what_has_lapsed, "shares", "shares"),
        (shares_what_was_aborted, "shares", "shares"),
        (acknowledges_shares_before_they_are_stored, "shares", "shares"),
        (never_takes_a_record_back, "shares", "liveness"),
    )
}
