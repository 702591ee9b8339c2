# Generated from dual_writer.py by tools/sync_recipes.py. Change that file, then run `python tools/sync_recipes.py`.
"""Rows in a database and records in topics, together or not at all (KIP-939), without async.

The steps and their order are decided in `core/two_phase/dual_write.py`; here they are carried out.
A writer may be used from several threads: one transaction at a time, the others wait.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from oncelog.client import arguments
from oncelog.client.config import snake_case
from oncelog.client.option_types import DualWriterOptions
from oncelog.client.producer.producer import Headers
from oncelog.core.two_phase import dual_write as core
from oncelog.core.two_phase.dual_write import DualWrite, Outcome, Phase, StoredState
from oncelog.errors import IllegalState, NotBegun, OutcomeUnknown
from oncelog.recipes.database import Database, DatabaseTransaction, NotCommitted
from oncelog.recipes.endings import (
    BACKOFF_MAX_MS,
    BACKOFF_MS,
    EXPECTED,
    RECOVERY_TIMEOUT_MS,
    STOP_SETTLE_TIMEOUT_MS,
    STOP_TIMEOUT_MS,
    is_retriable,
    log,
    log_not_completed,
    producer_config,
    raise_ending,
    raise_unrecovered,
    traced,
)
from oncelog.recipes.sync_runtime import LEFT, Completion, SyncRuntime
from oncelog.sync import Producer, SentRecord
from oncelog.types import GroupMetadata, OffsetAndMetadata, PreparedTxnState, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa

H = TypeVar("H")
NOT_RUNNING = "this writer is not running: use `with`, or call start()"


class Transaction(Generic[H]):
    """An open dual write. `database` is the adapter's handle (a connection ...): write rows, do not commit."""

    def __init__(self, writer: DualWriter[H], database: H, producer: Producer) -> None:
        self.database = database
        self._writer, self._producer = writer, producer
        self._outcome: Outcome | None = None

    @property
    def outcome(self) -> Outcome | None:
        """How it ended; None while it is open. UNKNOWN until `recover` could ask the database.

        For who was interrupted (a cancellation, Ctrl-C, a timeout of the caller's): nobody was told then whether it was written.
        """
        return self._writer._outcome_of(self)

    def _check(self) -> Producer:
        self._writer._check_may_send(self)
        return self._producer

    def send(
        self,
        topic: str,
        value: bytes | None = None,
        key: bytes | None = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SentRecord:
        """As `sync.Producer.send`. Raises IllegalState after `prepare` and after the end."""
        sent = self._check().send(topic, value, key, headers, partition, timestamp_ms)
        self._writer._send_soon()
        return sent

    def send_many(
        self, topic: str, records: Iterable[tuple[bytes | None, bytes | None]], *, partition: int | None = None
    ) -> list[SentRecord]:
        """As `sync.Producer.send_many`: (key, value) pairs, in order."""
        sent = self._check().send_many(topic, records, partition=partition)
        self._writer._send_soon()
        return sent

    def send_arrow(self, topic: str | None, batch: pa.RecordBatch, *, partition: int | None = None) -> None:
        """As `sync.Producer.send_arrow`."""
        self._check().send_arrow(topic, batch, partition=partition)
        self._writer._send_soon()

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """As `sync.Producer.send_offsets_to_transaction`."""
        self._check().send_offsets_to_transaction(offsets, group)

    def prepare(self) -> PreparedTxnState:
        """No record follows; rows may. The end of the block does this where you did not. Raises IllegalState the second time."""
        self._writer._check_current(self)
        return self._writer._prepare()


class DualWriter(Generic[H]):
    """Writes rows and records together. `with DualWriter(...) as writer:` or `start` and `stop`.

    One transaction at a time; other threads wait. An error from `transaction()` means that nothing was written on
    either side (OutcomeUnknown: that nobody knows yet); no exception, that both are, or that the topic follows. An interrupt
    from outside (a cancellation, Ctrl-C) says nothing: `recover`, then look at the transaction's `outcome`.

    Args:
        database: an adapter of `oncelog.recipes`; it stays yours to close.
        transactional_id: of this writer; two instances with one id fence one another.
        recovery_timeout_ms: how long to ask what became of a commit that the database did not answer.
        wait_for_completion: whether `transaction()` returns when the topic is completed too, not already when the
            database has committed, which is the decision.
        config: the producer's keys in snake case (bootstrap_servers ...).

    Raises:
        ConfigurationError: an unknown key, or one that a dual write decides by itself.
        InvalidArgument: a database that is none, or one for the other kind of writer.
    """

    def __init__(
        self,
        database: Database[H],
        *,
        transactional_id: str,
        recovery_timeout_ms: int = RECOVERY_TIMEOUT_MS,
        wait_for_completion: bool = False,
        **config: Unpack[DualWriterOptions],
    ) -> None:
        self._runtime = SyncRuntime()
        self._runtime.check_database(database)
        self._database = database
        self._config = producer_config(transactional_id, config)
        self.transactional_id = transactional_id
        self._recovery_timeout_ms = arguments.duration_ms("recovery_timeout_ms", recovery_timeout_ms)
        self._waits = arguments.boolean("wait_for_completion", wait_for_completion)
        self._machine = DualWrite()
        self._producer: Producer | None = self._runtime.new_producer(self._config)
        self._is_new = True
        self._open: DatabaseTransaction[H] | None = None
        self._current: Transaction[H] | None = None
        self._last: Transaction[H] | None = None  # whose outcome is the machine's
        self._completion: Completion | None = None  # of a transaction whose block has ended
        self._is_torn = False  # an interrupt left the machine in the middle of something, and what is open unmended
        self._expected = (*EXPECTED, *database.errors)

    @classmethod
    def from_config(cls, database: Database[H], config: Mapping[str, Any], **more: Any) -> Self:
        """From Kafka's dotted keys, `transactional.id` among them; `more` are keyword arguments beside them."""
        return cls(database, **{**snake_case(config), **more})

    # -- life

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Fence older instances and complete what they left; also once more, after `stop`.

        Raises KafkaError, the database's errors, InstanceFenced.
        """
        try:
            self._recover_in_turn(is_start=True)
        except BaseException:  # nobody calls `stop` behind an `with` that was not entered
            if self._machine.phase in (Phase.UNRECOVERED, Phase.FENCED):
                self._stop_producer()
            raise

    def _stop_producer(self) -> None:
        if self._producer is not None:  # forgotten only when it has stopped: who is interrupted in it stops it again
            self._producer.stop(timeout_ms=STOP_TIMEOUT_MS)
            self._producer = None

    def stop(self) -> None:
        """Give up an open transaction, leave an undecided one to the next start, close the producer."""
        with self._runtime.stopping():
            try:
                if not self._runtime.is_another_at_work():
                    self._mend_if_torn()
                self._settle_or_leave()
                self._carry_out(self._machine.abandon)
            finally:  # also where that is interrupted: nothing stays open
                self._runtime.all_at_their_end()
                self._stop_producer()

    def recover(self) -> Outcome | None:
        """Make database and topic agree; the outcome of this object's last transaction (None: there was none).

        `start` and, where it is needed, every `transaction` do this. Raises as `start`.
        """
        return self._recover_in_turn(is_start=False)

    def _recover_in_turn(self, *, is_start: bool) -> Outcome | None:
        with self._runtime.one_at_a_time():
            self._mend_if_torn()
            self._settle()
            if is_start and self._producer is None:
                self._machine.start_anew()
            self._recover()
            return self._machine.outcome

    def complete(self) -> None:
        """Wait until the topic holds what the database does: readers see it then. Raises as `recover`."""
        self.recover()

    # -- writing

    @contextmanager
    def transaction(self, *, wait_for_completion: bool | None = None) -> Iterator[Transaction[H]]:
        """Both transactions, open; committed at the end of the block, given up when it raises.

        `wait_for_completion` None: as the writer was told.

        Raises:
            InstanceFenced: a newer instance took over; nothing was written.
            NotBegun: nobody knows yet what became of the one before, whoever wrote it; of this one nothing was written.
            OutcomeUnknown: the database cannot say whether it committed; `recover` will.
            KafkaError, the database's errors: nothing was written.
        """
        waits = self._waits
        if wait_for_completion is not None:
            waits = arguments.boolean("wait_for_completion", wait_for_completion)
        with self._runtime.one_at_a_time():
            self._mend_if_torn()
            self._settle()
            if self._producer is None:
                raise IllegalState(NOT_RUNNING)
            if self._machine.phase is not Phase.READY:
                self._recover_before()
            try:
                with traced(self._config, self.transactional_id):
                    transaction = self._begin()
                    try:
                        yield transaction
                    except BaseException:
                        self._mend_if_torn()
                        self._carry_out(self._machine.abandon)
                        raise
                    else:
                        self._commit(waits)
            finally:
                self._current = None
                self._mend_if_torn()

    def _recover_before(self) -> None:
        try:
            self._recover()
        except OutcomeUnknown as error:
            raise NotBegun(
                f"nothing of this transaction was written: of the one before it nobody knows yet ({error})"
            ) from error.__cause__

    def _begin(self) -> Transaction[H]:
        if self._last is not None:
            self._last._outcome, self._last = self._machine.outcome, None
        error = self._carry_out(self._machine.begin)
        if not self._machine.is_open:
            assert error is not None
            raise error
        assert self._open is not None
        assert self._producer is not None
        self._current = self._last = Transaction(self, self._open.handle, self._producer)
        return self._current

    def _outcome_of(self, transaction: Transaction[H]) -> Outcome | None:
        return self._machine.outcome if transaction is self._last else transaction._outcome

    def _check_current(self, transaction: Transaction[H]) -> None:
        if transaction is not self._current:
            raise IllegalState("this transaction is over")

    def _check_may_send(self, transaction: Transaction[H]) -> None:
        self._check_current(transaction)
        self._machine.check_may_send()

    def _send_soon(self) -> None:
        """Records travel while rows are written."""
        if "linger_ms" not in self._config:
            self._runtime.soon(self._send_now)

    def _send_now(self) -> None:
        if self._producer is not None:
            self._producer.send_soon()

    def _prepare(self) -> PreparedTxnState:
        error = self._carry_out(self._machine.prepare)
        if error is not None:
            raise error
        return self._machine.prepared_state

    def _commit(self, waits: bool) -> None:
        error = self._carry_out(self._machine.commit, waits=waits)
        if self._machine.outcome is Outcome.UNKNOWN:
            self._find_out()
        raise_ending(self.transactional_id, self._machine, error)

    def _find_out(self) -> None:
        """Ask again and again what became of the commit, until the time is up."""
        ends, backoff_ms = self._runtime.now_s() + self._recovery_timeout_ms / 1000, BACKOFF_MS
        while self._machine.phase is Phase.IN_DOUBT and self._runtime.now_s() < ends:
            self._runtime.pause(backoff_ms)
            backoff_ms = min(2 * backoff_ms, BACKOFF_MAX_MS)
            self._carry_out(self._machine.recover)

    def _recover(self) -> None:
        error = None
        if self._machine.phase is not Phase.FENCED:
            error = self._carry_out(self._machine.recover)
        if self._machine.phase is Phase.IN_DOUBT and self._machine.outcome is Outcome.UNKNOWN:
            raise OutcomeUnknown(f"{self.transactional_id!r}: the database cannot be asked: {error}") from error
        raise_unrecovered(self.transactional_id, self._machine, error)

    # -- the completion behind a block that has ended

    def _begin_completing(self, producer: Producer) -> None:
        assert self._completion is None
        state = self._machine.prepared_state

        def note(error: BaseException | None) -> None:
            if error is not None:
                log_not_completed(self.transactional_id, state, error)

        self._completion = self._runtime.begin_completing(producer, state, note)

    def _settle(self, timeout_ms: int | None = None) -> None:
        """Wait for it, and let the machine know. What it failed of is mended by the recovery that follows.

        Raises TimeoutError when it takes longer than `timeout_ms`.
        """
        self._runtime.all_at_their_end()
        completion = self._completion
        if completion is None:
            return
        if not completion.wait(timeout_ms):
            raise TimeoutError(f"the completion takes longer than {timeout_ms} ms")
        if self._completion is not completion:
            return  # somebody else who waited was first
        error = completion.error()
        self._is_torn = True  # until the machine knows of it
        self._completion = None
        if error is None:
            self._carry_out(self._machine.succeeded)
        elif isinstance(error, self._expected):
            self._carry_out(lambda: self._machine.failed(is_retriable=is_retriable(error)))
        else:
            self._mend()
            if not isinstance(error, LEFT):
                raise error

    def _settle_or_leave(self) -> None:
        """As `_settle`, for a while; then it is left to the next start."""
        try:
            with self._runtime.at_most(STOP_SETTLE_TIMEOUT_MS) as timeout_ms:
                self._settle(timeout_ms)
        except TimeoutError as error:
            log_not_completed(self.transactional_id, self._machine.prepared_state, error)
        finally:
            self._runtime.leave_completion()
            if self._completion is not None:
                self._completion = None
                self._machine.interrupted()

    # -- effects

    def _carry_out(self, decide: Callable[[], None], *, waits: bool = True) -> BaseException | None:
        """Let the machine decide, and carry out what it wants; the first error on the way, if any.

        An interrupt may come anywhere. Whatever it tears apart is mended: here, or where that is interrupted too, by the
        next call.
        """
        self._is_torn = True
        try:
            try:
                decide()
            except IllegalState:  # it has decided nothing
                self._is_torn = False
                raise
            first = self._carry_out_effects(waits=waits)
        except BaseException:
            self._mend_if_torn()
            raise
        self._is_torn = False
        return first

    def _carry_out_effects(self, *, waits: bool) -> BaseException | None:
        first: BaseException | None = None
        machine = self._machine
        while (effect := machine.next_effect()) is not None:
            try:
                if not waits and machine.may_return and self._producer is not None:
                    self._begin_completing(self._producer)
                    break
                result = self._perform(effect)
            except self._expected as error:
                log.debug("%s: %s: %r", self.transactional_id, type(effect).__name__, error)
                first = first or error
                machine.failed(is_retriable=is_retriable(error), is_definite=isinstance(error, NotCommitted))
            else:
                machine.succeeded(result)
        return first

    def _mend_if_torn(self) -> None:
        """What was interrupted, or given up where nobody noticed, must not be in the way of what comes."""
        if self._is_torn or (self._machine.is_open and self._current is None):
            self._mend()

    def _mend(self) -> None:
        """Recovery comes next. Nobody goes on with the database's transaction: its locks are freed now, not by that."""
        self._machine.interrupted()
        self._completion = None
        with contextlib.suppress(*self._expected):
            self._roll_back()
        self._is_torn = False

    def _roll_back(self) -> None:
        """It is carried out also where its caller is interrupted (again): nobody else knows of the transaction."""
        transaction = self._open
        if transaction is not None and not self._runtime.is_of_another_process():
            self._runtime.to_its_end(transaction.rollback)
            self._open = None

    def _perform(self, effect: core.Effect) -> Any:
        if self._runtime.is_of_another_process() and not isinstance(effect, core.RollbackDatabase):
            raise IllegalState("this writer was made before a fork: make a new one in this process")
        match effect:
            case core.BeginDatabase():
                self._open = self._database.begin()
            case core.StoreState(stored=stored):
                return self._transaction.store(self.transactional_id, stored)
            case core.HoldDatabase():
                hold = getattr(self._transaction, "hold", None)  # an adapter may have it
                if hold is not None:
                    hold()
            case core.CommitDatabase():
                self._transaction.commit()
                self._open = None
            case core.RollbackDatabase():
                self._roll_back()
            case core.TakeOver(expected_version=expected_version):
                return self._database.take_over(self.transactional_id, expected_version)
            case core.ReadState():
                return self._database.read(self.transactional_id) or StoredState(0, PreparedTxnState())
            case _:
                return self._perform_on_topic(effect)
        return None

    def _perform_on_topic(self, effect: core.Effect) -> Any:
        if isinstance(effect, core.KeepTopic):
            return self._keep()
        producer = self._producer
        if producer is None:
            raise IllegalState(NOT_RUNNING)
        match effect:
            case core.BeginTopic():
                producer.begin_transaction()
            case core.AnnounceState():
                producer.send_soon()
                return producer.announced_state
            case core.PrepareTopic(announced=announced, within_ms=within_ms):
                return self._prepare_topic(producer, announced, within_ms)
            case core.CompleteTopic(prepared_state=prepared_state):
                producer.complete_transaction(prepared_state)
            case core.AbortTopic():
                producer.abort_transaction()
        return None

    def _prepare_topic(
        self, producer: Producer, announced: PreparedTxnState | None, within_ms: int | None
    ) -> PreparedTxnState | None:
        try:
            prepared = producer.prepare_transaction(within_ms)
        except TimeoutError:
            return None
        if announced not in (None, prepared):
            raise IllegalState(f"{prepared} was prepared where {announced} was announced, and is stored")
        return prepared

    def _keep(self) -> PreparedTxnState:
        producer = self._producer
        if producer is None or not self._is_new:
            if producer is not None:
                producer.stop(timeout_ms=STOP_TIMEOUT_MS)
            self._producer = producer = self._runtime.new_producer(self._config)
        self._is_new = False  # from here on it can only be stopped
        producer.start()
        return producer.prepared_state

    @property
    def _transaction(self) -> DatabaseTransaction[H]:
        assert self._open is not None
        return self._open
