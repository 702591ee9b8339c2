"""A producer's view of its transactions: states, the queue of requests to the coordinator, identity and its bumps.

Pure: calls of the application and responses go in; `next_request` says what to send. One request is on its way at a
time (Produce beside it). Which error does what is `transaction_verdicts`; which state may follow is
`transaction_states`. An idempotent producer without a transactional id uses the same machine for its producer id.
Rule: whatever was sent under one identity and sequence is never renumbered; after a failure the identity is bumped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from oncelog.core.known_coordinators import KnownCoordinators
from oncelog.core.producer.batch import ProducerBatch
from oncelog.core.producer.conditional_commit import ConditionalCommit
from oncelog.core.producer.manager_config import TransactionManagerConfig as TransactionManagerConfig
from oncelog.core.producer.requests import (
    BUMP_PRIORITY,
    VERSION_MAX,
    PendingResult,
    TxnRequest,
    add_offsets_request,
    add_partitions_request,
    described,
    end_txn_request,
    find_coordinator_request,
    init_producer_id_request,
    txn_offset_commit_request,
)
from oncelog.core.producer.sequences import ProducerSequences
from oncelog.core.producer.states import TransactionState, may_follow, why_not
from oncelog.core.producer.verdicts import TxnApi, Verdict
from oncelog.errors import (
    ErrorCode,
    IllegalState,
    InvalidTxnState,
    KafkaError,
    TransactionAbortable,
    UnknownServer,
    UnsupportedVersion,
)
from oncelog.types import (
    CoordinatorKey,
    GroupMetadata,
    Node,
    OffsetAndMetadata,
    PreparedTxnState,
    ProducerIdAndEpoch,
    TopicPartition,
)
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest

PRODUCER_EPOCH_MAX = 32767
FATAL_ON_PRODUCE = frozenset(
    {
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.UNSUPPORTED_VERSION,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)

_ENDS = ("commit_transaction", "abort_transaction", "complete_transaction")
_S = TransactionState
NOBODY = ProducerIdAndEpoch()


class TransactionManager:
    """One producer's transactions."""

    def __init__(self, config: TransactionManagerConfig) -> None:
        self.config = config
        self.state = _S.UNINITIALIZED
        self.last_error: KafkaError | None = None
        self.sequences = ProducerSequences()
        self.conditional = ConditionalCommit()
        self.is_tv2 = False
        self.prepared_state = PreparedTxnState()
        self.transaction_started = self.bump_required = False
        self.nothing_was_kept = False
        self.coordinators = KnownCoordinators()
        self._features_epoch = -1
        self._transaction_version = 0
        self._pending_call: PendingResult | None = None
        self._queue: list[TxnRequest] = []
        self._in_flight: TxnRequest | None = None
        self._partitions: set[TopicPartition] = set()
        self._new_partitions: set[TopicPartition] = set()
        self._adding: frozenset[TopicPartition] = frozenset()

    # -- what others ask

    @property
    def is_transactional(self) -> bool:
        """Whether there is a transactional id."""
        return self.config.transactional_id is not None

    @property
    def transactional_id(self) -> str:
        """The transactional id of a transactional producer."""
        assert self.config.transactional_id is not None
        return self.config.transactional_id

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """Producer id and epoch that new requests carry; (-1, -1) while there is none."""
        return self.sequences.identity

    @property
    def produce_version_max(self) -> int:
        """Produce v12 adds partitions by itself, which only a TV2 transaction may do (KIP-890)."""
        return 11 if self.is_transactional and not self.is_tv2 else VERSION_MAX

    @property
    def has_error(self) -> bool:
        """Whether nothing can be sent until the transaction is aborted (or ever)."""
        return self.state in (_S.ABORTABLE_ERROR, _S.FATAL_ERROR)

    @property
    def drops_waiting_batches(self) -> bool:
        """Whether what has not been sent must not be sent any more."""
        return self.has_error or self.state is _S.ABORTING_TRANSACTION

    @property
    def is_in_transaction(self) -> bool:
        """Whether a transaction has begun and is not ended."""
        return self.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR, _S.PREPARED_TRANSACTION) or self.is_completing

    @property
    def is_completing(self) -> bool:
        """Whether commit or abort is under way."""
        return self.state in (_S.COMMITTING_TRANSACTION, _S.ABORTING_TRANSACTION)

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether a batch may leave now: there is an identity, the partition is in the transaction, order holds."""
        if self.identity.producer_id < 0 and not batch.has_sequence:
            return False
        if self.is_transactional and not self.is_tv2 and batch.topic_partition not in self._partitions:
            return False
        return self.sequences.may_send(batch)

    def raise_error(self) -> None:
        """Raise the error the producer is in, if any."""
        if self.has_error:
            assert self.last_error is not None
            raise again(self.last_error)

    def note_features(self, features_epoch: int, transaction_version: int) -> None:
        """Finalized features as a broker reported them; older reports than the last are ignored."""
        if features_epoch > self._features_epoch:
            self._features_epoch, self._transaction_version = features_epoch, transaction_version

    # -- what the application calls

    def initialize(self, *, keep_prepared_txn: bool = False) -> PendingResult:
        """Begin InitProducerId, which fences older instances and aborts (or keeps, KIP-939) an open transaction."""
        waiting = self._repeated_call("init_transactions")
        if waiting is not None:
            return waiting
        self.raise_error()
        if self.state is not _S.UNINITIALIZED:  # the table's other ways to INITIALIZING are the bump's after EndTxn
            raise IllegalState(f"a producer that is {self.state.value} cannot be initialized")
        self._transition(_S.INITIALIZING)
        self.nothing_was_kept = False
        self.sequences.begin_identity(NOBODY)
        result = self._begin_call("init_transactions")
        self._queue.append(self._init_producer_id(result, TxnApi.INIT_PRODUCER_ID.value, keep=keep_prepared_txn))
        return result

    def ensure_producer_id(self) -> None:
        """For a producer without transactions: fetch a producer id once it is needed."""
        if not self.is_transactional and self.state is _S.UNINITIALIZED:
            self._transition(_S.INITIALIZING)
            self._queue.append(self._init_producer_id(PendingResult(), TxnApi.INIT_PRODUCER_ID.value, keep=False))

    def begin_transaction(self) -> None:
        """Begin a transaction; nothing is sent before there is something to say."""
        self._refuse_other_calls("begin_transaction")
        self._transition(_S.IN_TRANSACTION)
        self.nothing_was_kept = False

    def check_in_transaction(self, call: str) -> None:
        """Raise unless `call` (send, ...) is allowed now."""
        self._refuse_other_calls(call)
        self.raise_error()
        if self.state is not _S.IN_TRANSACTION:
            raise IllegalState(f"{call} needs an open transaction; this producer is {self.state.value}")

    def add_partition(self, topic_partition: TopicPartition) -> None:
        """A record for this partition comes into the transaction."""
        if self.is_tv2:
            self.transaction_started = True  # the Produce request itself adds it
        elif topic_partition not in self._partitions and topic_partition not in self._adding:
            self._new_partitions.add(topic_partition)

    def send_offsets(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: GroupMetadata) -> PendingResult:
        """Make a group's positions part of the transaction."""
        self.check_in_transaction("send_offsets_to_transaction")
        result = PendingResult("send_offsets_to_transaction")
        commit = txn_offset_commit_request(self.transactional_id, self.identity, result, group, offsets, self.is_tv2)
        if not offsets:
            result.end()
        elif self.is_tv2:
            self.transaction_started = True
            self._queue.append(commit)
        else:
            self._queue.append(add_offsets_request(self.transactional_id, self.identity, commit))
        return result

    def prepare(self) -> PreparedTxnState:
        """Everything is flushed: enter PREPARED, return the identity that the outside coordinator stores."""
        if not self.config.two_phase_commit_enable:
            raise InvalidTxnState("prepare_transaction needs transaction_two_phase_commit_enable=True")
        self.check_in_transaction("prepare_transaction")
        self._transition(_S.PREPARED_TRANSACTION)
        self.prepared_state = PreparedTxnState.of(*self.identity)
        return self.prepared_state

    def suspend(self) -> PreparedTxnState:
        """Everything is flushed: leave the transaction open for another process to end (`Admin.end_transaction`).

        As `prepare`, but without two-phase commit: the broker's timeout still runs. None where nothing was added.
        """
        self.check_in_transaction("suspend_transaction")
        if not self.is_tv2:
            raise UnsupportedVersion("suspend_transaction needs transaction.version 2 (Apache Kafka 4.0) or later")
        self._transition(_S.PREPARED_TRANSACTION)
        self.prepared_state = PreparedTxnState.of(*self.identity) if self.transaction_started else PreparedTxnState()
        return self.prepared_state

    def begin_commit(self, call: str = "commit_transaction") -> PendingResult:
        """Begin to commit."""
        waiting = self._repeated_call(call)
        if waiting is not None:
            return waiting
        self.raise_error()
        return self._begin_completing(call, _S.COMMITTING_TRANSACTION)

    def begin_abort(self, call: str = "abort_transaction") -> PendingResult:
        """Begin to abort; allowed after an abortable error, and after an unfinished call that did not end anything."""
        if self.state in (_S.IN_TRANSACTION, _S.ABORTABLE_ERROR):
            self._pending_call = None  # offsets that nobody waits for any more
        waiting = self._repeated_call(call)
        if waiting is not None:
            return waiting
        if self.state is _S.FATAL_ERROR:
            self.raise_error()
        if self.state is _S.ABORTABLE_ERROR and self.identity.producer_id < 0:
            self._transition(_S.UNINITIALIZED)
            return self._begin_call(call, is_done=True)
        return self._begin_completing(call, _S.ABORTING_TRANSACTION)

    def begin_complete(self, state: PreparedTxnState) -> PendingResult:
        """Commit if `state` names the prepared transaction, else abort (KIP-939); nothing where nothing was kept."""
        call = "complete_transaction"
        waiting = self._repeated_call(call)
        if waiting is not None:
            return waiting
        if self.state is _S.READY and self.nothing_was_kept:
            return self._begin_call(call, is_done=True)
        if self.state is not _S.PREPARED_TRANSACTION:
            raise InvalidTxnState(
                f"complete_transaction needs a prepared transaction; this producer is {self.state.value}"
            )
        return self.begin_commit(call) if state == self.prepared_state else self.begin_abort(call)

    def forget_initialization(self) -> None:
        """Before another `initialize`, from READY; nothing where there is nothing to forget."""
        if self.state is _S.READY and self._pending_call is None:
            self._transition(_S.UNINITIALIZED)

    def describe_waiting(self) -> str:
        """What is under way, for the text of a timeout."""
        return described(self._in_flight, self._queue)

    @property
    def unfinished_end(self) -> PendingResult | None:
        """The commit or abort that was begun, and whose result nobody has taken."""
        call = self._pending_call
        return call if call is not None and call.name in _ENDS else None

    def result_taken(self, result: PendingResult) -> None:
        """The caller has seen the result: other calls are allowed again."""
        if self._pending_call is result:
            self._pending_call = None

    # -- what the sender asks and tells

    def next_request(self, now_ms: float, *, has_incomplete: bool) -> TxnRequest | None:
        """The request to send now, if any; `has_incomplete`: batches are waiting or on their way."""
        if self._in_flight is not None or self.state is _S.FATAL_ERROR:
            return None
        if self._new_partitions and not self._adding and self.state is not _S.ABORTABLE_ERROR:
            self._adding, self._new_partitions = frozenset(self._new_partitions), set()
            self._queue.append(add_partitions_request(self.transactional_id, self.identity, self._adding))
        while self._queue:
            request = min(self._queue, key=lambda r: r.priority)
            if request.api is TxnApi.END_TXN and has_incomplete and not self.conditional.is_undecided:
                return None
            if request.api is TxnApi.END_TXN and not self.transaction_started and not self._must_bump_by_abort():
                self._queue.remove(request)
                self._completed(request.result)
                continue
            if request.not_before_ms > now_ms:
                return None
            node = self.coordinators.of(request.coordinator)
            if request.coordinator is not None and node is None:
                self._queue.append(find_coordinator_request(request.coordinator))
                continue
            self._queue.remove(request)
            request.node = node
            return self._leaves(request)
        return None

    @property
    def coordinator(self) -> Node | None:
        """Where transactions of this producer end, where that is known."""
        return self.coordinators.of(CoordinatorKey(1, self.transactional_id))

    def commit_behind(self, batches: Iterable[ProducerBatch], now_ms: float) -> TxnRequest | None:
        """The commit that waits for `batches`, all that is not acknowledged, to go right behind them; None where none may."""
        is_committing = self.state is _S.COMMITTING_TRANSACTION and self.is_tv2 and self._in_flight is None
        if not is_committing or not self._queue or not self.conditional.is_worth_it or self.conditional.is_undecided:
            return None
        request = min(self._queue, key=lambda r: r.priority)
        if request.api is not TxnApi.END_TXN or request.is_abort or request.not_before_ms > now_ms:
            return None
        self.conditional.begin(request, batches)
        self._queue.remove(request)
        request.node = self.coordinator
        return self._leaves(request)

    def _leaves(self, request: TxnRequest) -> TxnRequest:
        if request.api is TxnApi.END_TXN:
            self.conditional.leaves(request)
        self._in_flight = request
        return request

    def next_timer(self) -> float | None:
        """When a request that waits for its back-off may go (milliseconds)."""
        if self._in_flight is not None or not self._queue:
            return None
        first = min(self._queue, key=lambda r: r.priority)
        return first.not_before_ms or None

    def answered(self, request: TxnRequest) -> None:
        """The answer of the request on its way is about to be handled."""
        assert self._in_flight is request
        self._in_flight = None

    def retry(self, request: TxnRequest, now_ms: float, *, backoff_ms: float | None = None, find: bool = False) -> None:
        """Send it again, after a back-off; `find`: ask for the coordinator anew first."""
        serves_open_transaction = request.api in (
            TxnApi.ADD_PARTITIONS_TO_TXN,
            TxnApi.ADD_OFFSETS_TO_TXN,
            TxnApi.TXN_OFFSET_COMMIT,
        )
        if self.state is _S.FATAL_ERROR or (serves_open_transaction and self.drops_waiting_batches):
            self._drop(request, self.last_error)
            return
        if find and request.coordinator is not None:
            self.coordinators.forget(request.coordinator)
        doubled = self.config.retry_backoff_ms * 2 ** min(request.retry_count, 10)
        request.retry_count += 1
        request.not_before_ms = now_ms + (
            min(doubled, self.config.retry_backoff_max_ms) if backoff_ms is None else backoff_ms
        )
        self._queue.append(request)

    def disconnected(self, request: TxnRequest, now_ms: float) -> None:
        """No answer came: the coordinator may have moved."""
        self.answered(request)
        request.attempt_count += 1
        if not self.is_tv2 and request.api in (TxnApi.TXN_OFFSET_COMMIT, TxnApi.END_TXN):
            # KAFKA-17754: it may still arrive, within a later transaction, and decide that one. Under TV2 the next
            # transaction has another epoch anyhow; here it gets one.
            self.bump_required = True
        self.retry(request, now_ms, find=True)

    def not_attempted(self, request: TxnRequest) -> None:
        """The commit that this is did not find its records: it goes again, behind what is sent again or when nothing is."""
        self.conditional.not_attempted(request)
        self._queue.append(request)

    # -- errors

    def abortable_error(self, error: KafkaError) -> None:
        """The transaction can only be aborted. The first cause stays; while it is being aborted this says nothing new."""
        if self.state in (_S.ABORTABLE_ERROR, _S.ABORTING_TRANSACTION, _S.FATAL_ERROR):
            return
        if not may_follow(_S.ABORTABLE_ERROR, self.state):
            return
        self.state, self.last_error = _S.ABORTABLE_ERROR, error
        self._drop_queue(error)

    def fatal_error(self, error: KafkaError) -> None:
        """The producer is over."""
        if self.state is not _S.FATAL_ERROR:
            self.state, self.last_error = _S.FATAL_ERROR, error
        self._drop_queue(self.last_error)
        if self._pending_call is not None:
            self._pending_call.end(self.last_error)

    def _drop_queue(self, error: KafkaError | None) -> None:
        queue, self._queue = self._queue, []
        self.conditional.over()
        self._new_partitions.clear()
        for request in queue:
            self._drop(request, error)

    def _drop(self, request: TxnRequest, error: KafkaError | None) -> None:
        if request.attempt_count and request.api in (TxnApi.ADD_PARTITIONS_TO_TXN, TxnApi.ADD_OFFSETS_TO_TXN):
            # The coordinator may have an open transaction or not; only InitProducerId does the right thing in both.
            self.bump_required = True
        request.result.end(error)

    def batch_failed(self, batch: ProducerBatch, error: KafkaError) -> None:
        """A batch ended badly: the transaction must be aborted, or the idempotent producer takes a new epoch."""
        if error.code in FATAL_ON_PRODUCE:
            self.fatal_error(error)
        elif self.is_transactional:
            if batch.has_sequence:
                self.bump_required = self.bump_required or not self.is_tv2
            if error.retriable or error.code == ErrorCode.INVALID_TXN_STATE:
                error = TransactionAbortable(f"a batch of {batch.topic_partition} failed: {error}")
            self.abortable_error(error)
        elif batch.has_sequence and batch.identity == self.identity:
            self.begin_epoch(is_lost=error.code in (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.UNKNOWN_PRODUCER_ID))
        self.sequences.resolved(batch)

    def batch_dropped(self, batch: ProducerBatch) -> None:
        """A batch of an aborted transaction will not be sent (again)."""
        if batch.has_sequence:
            # It may be stored or not: the next transaction must not go on with this epoch's sequences.
            self.bump_required = self.bump_required or not self.is_tv2
        self.sequences.resolved(batch)

    def begin_epoch(self, *, is_lost: bool = False) -> None:
        """Without transactions: sequences begin anew, under another producer id where this one is lost or used up."""
        producer_id, producer_epoch = self.identity
        if producer_epoch >= PRODUCER_EPOCH_MAX - 1 or is_lost:
            self.sequences.begin_identity(NOBODY)
            self._transition(_S.UNINITIALIZED)
        else:
            self.sequences.begin_identity(ProducerIdAndEpoch(producer_id, producer_epoch + 1))

    # -- what responses change (decided in transaction_responses)

    def fail_request(self, request: TxnRequest, verdict: Verdict, error: KafkaError) -> None:
        """A response said that this request cannot succeed."""
        if verdict in (Verdict.ABORTABLE, Verdict.ABORTABLE_AFTER_BUMP):
            if verdict is Verdict.ABORTABLE_AFTER_BUMP:
                self.bump_required = self.bump_required or not self.is_tv2
            self.abortable_error(error)
        elif verdict is Verdict.UNINITIALIZED and self.is_transactional:
            self.abortable_error(error)
            self._answered_into(_S.UNINITIALIZED)
        else:
            self.fatal_error(error)
        request.result.end(error)

    def initialized(
        self, request: TxnRequest, identity: ProducerIdAndEpoch, ongoing: ProducerIdAndEpoch = NOBODY
    ) -> None:
        """InitProducerId succeeded."""
        is_kept = ongoing.producer_id >= 0
        if not self._answered_into(_S.PREPARED_TRANSACTION if is_kept else _S.READY):
            request.result.end(self.last_error)
            return
        self.sequences.begin_identity(identity)
        self._forget_transaction()
        self.is_tv2 = self._transaction_version >= 2
        if self.is_transactional:
            self.sequences.reset()
        if is_kept:
            # KIP-939: the kept transaction is ended under the new identity, its own is what the database stored.
            self.prepared_state = PreparedTxnState.of(*ongoing)
            self.transaction_started = True
        else:
            message = request.message
            self.nothing_was_kept = isinstance(message, InitProducerIdRequest) and message.keep_prepared_txn
        request.result.end()

    def partitions_added(self, request: TxnRequest) -> None:
        """AddPartitionsToTxn succeeded."""
        self._partitions.update(request.partitions)
        self._adding = frozenset()
        self.transaction_started = True
        request.result.end()

    def partitions_not_added(self) -> None:
        """AddPartitionsToTxn is over without success."""
        self._adding = frozenset()

    def offsets_added(self, request: TxnRequest) -> None:
        """AddOffsetsToTxn succeeded: now the offsets themselves."""
        assert request.then is not None
        self.transaction_started = True
        if self.drops_waiting_batches:
            request.result.end(self.last_error)
        else:
            self._queue.append(request.then)

    def ended(self, request: TxnRequest, identity: ProducerIdAndEpoch) -> None:
        """EndTxn succeeded; v5 brings the next transaction's identity (KIP-890), else (-1, -1)."""
        self.conditional.committed()
        if identity.producer_id >= 0:
            self.sequences.begin_identity(identity)
            self.sequences.reset()
        self._completed(request.result)

    def _completed(self, result: PendingResult) -> None:
        serves_tv2 = self._transaction_version >= 2
        # The second: KAFKA-18227, the epoch that the old protocol used is fenced before TV2 begins.
        must_bump = self.bump_required or (serves_tv2 and not self.is_tv2)
        if not self._answered_into(_S.INITIALIZING if must_bump else _S.READY):
            result.end(self.last_error)
            return
        self.last_error = None
        if must_bump:
            self.bump_required = False
            self._queue.append(self._init_producer_id(result, BUMP_PRIORITY, keep=False, bump=True))
            return
        self.is_tv2 = serves_tv2
        self._forget_transaction()
        result.end()

    def _forget_transaction(self) -> None:
        self.transaction_started = False
        self.bump_required = False
        self.last_error = None
        self.prepared_state = PreparedTxnState()
        self._partitions.clear()
        self._new_partitions.clear()
        self._adding = frozenset()

    # -- making requests

    def _begin_completing(self, call: str, target: TransactionState) -> PendingResult:
        self._transition(target)
        result = self._begin_call(call)
        is_abort = target is _S.ABORTING_TRANSACTION
        if is_abort:
            self._drop_queue(None)
        commits = not is_abort and not self._must_bump_by_abort()
        self._queue.append(
            end_txn_request(self.transactional_id, self.identity, result, committed=commits, is_tv2=self.is_tv2)
        )
        return result

    def _must_bump_by_abort(self) -> bool:
        """Whether an empty prepared transaction still has to use up its identity.

        Otherwise the next transaction would have the same PreparedTxnState, which a database may hold as decided.
        """
        return self.config.two_phase_commit_enable and not self.prepared_state.is_none and not self.transaction_started

    def _init_producer_id(
        self, result: PendingResult, priority: float, *, keep: bool, bump: bool = False
    ) -> TxnRequest:
        message = self.config.initialization(self.identity if bump else NOBODY, keep=keep)
        return init_producer_id_request(message, result, priority)

    # -- calls and transitions

    def _transition(self, target: TransactionState) -> None:
        if not may_follow(target, self.state):
            raise IllegalState(why_not(target, self.state))
        self.state = target

    def _answered_into(self, target: TransactionState) -> bool:
        """The state that an answer brings. An illegal transition has no caller to report to: fatal (KAFKA-14831)."""
        if may_follow(target, self.state):
            self.state = target
        else:
            text = f"an answer came to a producer that is {self.state.value} and cannot become {target.value}"
            self.fatal_error(UnknownServer(text))
        return self.state is target

    def _refuse_other_calls(self, call: str) -> None:
        if self._pending_call is not None and self._pending_call.name != call:
            raise self._pending_call.refusal_of(call)

    def _repeated_call(self, call: str) -> PendingResult | None:
        self._refuse_other_calls(call)
        return self._pending_call

    def _begin_call(self, call: str, *, is_done: bool = False) -> PendingResult:
        self._pending_call = PendingResult(call)
        if is_done:
            self._pending_call.end()
        return self._pending_call


def again(error: KafkaError) -> KafkaError:
    """A fresh exception that says the same, so that tracebacks of several callers stay apart."""
    fresh = type(error)(error.message)
    fresh.__cause__ = error.__cause__
    return fresh
