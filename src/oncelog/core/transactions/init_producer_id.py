"""InitProducerId: who is the producer of a transactional id from now on.

Without producer id and epoch a new instance asks, and fences any other. With them the same producer asks for a new
epoch, and its retry gets the same answer again (KIP-360), also after a restart of the coordinator. With
`keep_prepared_txn` the open transaction stays and its new owner gets the Next pair (KIP-939). Differences from Apache
Kafka: an epoch that is not the present one cannot abort an open transaction; a newer instance's fence leaves nothing
for the old one to resume.
"""

from __future__ import annotations

from oncelog.core.decision import Decision
from oncelog.core.transactions.end_txn import fence
from oncelog.core.transactions.producer_ids import ProducerIds
from oncelog.core.transactions.table import TransactionTable
from oncelog.core.transactions.transaction import (
    EXHAUSTED_PRODUCER_EPOCH,
    LAST_PRODUCER_EPOCH,
    TransactionRecord,
    TransactionState,
    acting,
    emptied,
    is_kept,
    is_retry,
    own,
    remembering,
)
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import replace
from oncelog.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerIdAndEpoch
from oncelog.wire.log_records.transaction_state import TWO_PHASE_TIMEOUT_MS
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

E = ErrorCode
NONE = ProducerIdAndEpoch()
TWO_PHASE_LEVEL = 3


def init_producer_id(table: TransactionTable, request: InitProducerIdRequest, version: int, now_ms: int) -> Decision:
    """The answer to InitProducerId of a transactional id. It is sent when its record is committed."""
    transactional_id = request.transactional_id
    assert transactional_id is not None, "without a transactional id no coordinator is asked: new_producer_id"
    refusal = _invalid(table, request)
    if refusal is not E.NONE:
        return _refused(refusal, version)
    if table.is_busy(transactional_id):
        return _refused(E.CONCURRENT_TRANSACTIONS, version, held=transactional_id)
    transaction = table.get(transactional_id)
    supplied = ProducerIdAndEpoch(request.producer_id, request.producer_epoch)
    requester = None if supplied == NONE else supplied
    if transaction is None:
        return _first(table, request, version, now_ms)
    if transaction.state is TransactionState.ONGOING:
        if request.keep_prepared_txn:
            return _keep(table, transaction, requester, request, version, now_ms)
        return _abort_first(table, transaction, requester, version, now_ms)
    return _initialized(table, transaction, requester, request, version, now_ms)


def new_producer_id(producer_ids: ProducerIds, request: InitProducerIdRequest) -> Decision:
    """The answer to a producer without transactional id: always a new id with epoch 0, whatever it supplies."""
    if (request.producer_id == -1) != (request.producer_epoch == -1):
        return Decision(reply=InitProducerIdResponse(error_code=E.INVALID_REQUEST, producer_epoch=-1))
    producer_id = producer_ids.take()
    if producer_id is None:
        return Decision(reply=InitProducerIdResponse(error_code=E.COORDINATOR_LOAD_IN_PROGRESS, producer_epoch=-1))
    return Decision(reply=_reply(ProducerIdAndEpoch(producer_id, 0)))


def _invalid(table: TransactionTable, request: InitProducerIdRequest) -> ErrorCode:
    """What is refused whatever the state of the id is."""
    if (request.producer_id == -1) != (request.producer_epoch == -1) or not request.transactional_id:
        return E.INVALID_REQUEST
    if request.enable_2pc and not table.config.two_phase_commit_enable:
        return E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if (request.enable_2pc or request.keep_prepared_txn) and table.transaction_version() < TWO_PHASE_LEVEL:
        return E.UNSUPPORTED_VERSION
    # KIP-939: a two-phase producer's timeout is ignored.
    if not request.enable_2pc and not 0 < request.transaction_timeout_ms <= table.config.transaction_max_timeout_ms:
        return E.INVALID_TRANSACTION_TIMEOUT
    return E.NONE


def _timeout_ms(request: InitProducerIdRequest) -> int:
    return TWO_PHASE_TIMEOUT_MS if request.enable_2pc else request.transaction_timeout_ms


def _first(table: TransactionTable, request: InitProducerIdRequest, version: int, now_ms: int) -> Decision:
    """The id is unknown, or expired: a new producer id with epoch 0 (KIP-360: whatever the producer supplies)."""
    identity = table.new_identity()
    if identity is None:
        return _refused(E.COORDINATOR_LOAD_IN_PROGRESS, version)
    assert request.transactional_id is not None
    record = TransactionRecord(
        transactional_id=request.transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        timeout_ms=_timeout_ms(request),
        last_update_ms=now_ms,
        value_version=table.value_version,
    )
    return Decision(records=(record,), reply=_reply(identity))


def _initialized(
    table: TransactionTable,
    transaction: TransactionRecord,
    requester: ProducerIdAndEpoch | None,
    request: InitProducerIdRequest,
    version: int,
    now_ms: int,
) -> Decision:
    """No transaction is open. KIP-360: present epoch, a bump; last epoch, the present one again; else fenced."""
    present = own(transaction)
    if requester is None or requester == present:
        identity = table.bumped(present)
        remembered = remembering(transaction, requester)
        if requester is None and identity is not None and identity.producer_id == present.producer_id:
            remembered = replace(remembered, previous_producer_id=NO_PRODUCER_ID)
    elif is_retry(transaction, requester):
        identity, remembered = present, transaction
    else:
        return _refused(E.PRODUCER_FENCED, version)
    if identity is None:
        return _refused(E.COORDINATOR_LOAD_IN_PROGRESS, version)
    record = emptied(
        remembered,
        identity,
        timeout_ms=_timeout_ms(request),
        now_ms=now_ms,
        value_version=table.value_version,
    )
    return Decision(records=(record,), reply=_reply(identity))


def _abort_first(
    table: TransactionTable,
    transaction: TransactionRecord,
    requester: ProducerIdAndEpoch | None,
    version: int,
    now_ms: int,
) -> Decision:
    """The open transaction is aborted and fenced; the producer asks again (CONCURRENT_TRANSACTIONS) after that."""
    if requester is not None and requester != acting(transaction):
        return _refused(E.PRODUCER_FENCED, version)
    ended = fence(table, transaction, requester, now_ms)
    if ended is None:
        return _refused(E.COORDINATOR_LOAD_IN_PROGRESS, version)
    records, markers = ended
    return replace(_refused(E.CONCURRENT_TRANSACTIONS, version), records=records, markers=markers)


def _keep(
    table: TransactionTable,
    transaction: TransactionRecord,
    requester: ProducerIdAndEpoch | None,
    request: InitProducerIdRequest,
    version: int,
    now_ms: int,
) -> Decision:
    """KIP-939: the transaction keeps its identity; each keep-init moves the Next pair, which fences the one before."""
    present = acting(transaction)
    if requester is not None and requester != present:
        if is_kept(transaction) and is_retry(transaction, requester):
            return Decision(reply=_reply(present, ongoing=own(transaction)))
        return _refused(E.PRODUCER_FENCED, version)
    # The transaction's own epoch leaves one for its markers; the Next pair may go up to the very last one.
    usable = LAST_PRODUCER_EPOCH if is_kept(transaction) else EXHAUSTED_PRODUCER_EPOCH
    if present.producer_epoch < usable:
        next_pair: ProducerIdAndEpoch | None = ProducerIdAndEpoch(present.producer_id, present.producer_epoch + 1)
    else:
        next_pair = table.new_identity()
    if next_pair is None:
        return _refused(E.COORDINATOR_LOAD_IN_PROGRESS, version)
    record = replace(
        transaction,
        previous_producer_id=requester.producer_id if requester else NO_PRODUCER_ID,
        last_producer_epoch=requester.producer_epoch if requester else NO_PRODUCER_EPOCH,
        next_producer_id=next_pair.producer_id,
        next_producer_epoch=next_pair.producer_epoch,
        # A shorter timeout could abort what is prepared while its decision is being read.
        timeout_ms=max(transaction.timeout_ms, _timeout_ms(request)),
        last_update_ms=max(now_ms, transaction.start_ms),
        value_version=table.value_version,
    )
    return Decision(records=(record,), reply=_reply(next_pair, ongoing=own(transaction)))


def _reply(identity: ProducerIdAndEpoch, ongoing: ProducerIdAndEpoch = NONE) -> InitProducerIdResponse:
    return InitProducerIdResponse(
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        ongoing_txn_producer_id=ongoing.producer_id,
        ongoing_txn_producer_epoch=ongoing.producer_epoch,
    )


def _refused(error_code: ErrorCode, version: int, held: str | None = None) -> Decision:
    if error_code is E.PRODUCER_FENCED and version < 4:
        error_code = E.INVALID_PRODUCER_EPOCH
    reply = InitProducerIdResponse(error_code=error_code, producer_id=-1, producer_epoch=-1)
    return Decision(reply=reply, held_until_complete=held)
