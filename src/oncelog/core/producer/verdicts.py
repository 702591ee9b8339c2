"""What a transactional producer does about each error of each response: Kafka's client rules as one table.

Rows are KIP-98/360/588/890's as the Java client 4.3 applies them. What has no cell falls to the API's last rule.
"""

from __future__ import annotations

from enum import Enum

from oncelog.errors import ErrorCode, error_for


class Verdict(Enum):
    """What to do about one response."""

    RETRY = "send it again to the same broker after a back-off"
    FIND = "find the coordinator again, then send it again"
    ABORTABLE = "the transaction must be aborted"
    ABORTABLE_AFTER_BUMP = "abort and take a new epoch; fatal where that is not possible"
    FATAL = "this producer is over"
    FENCED = "this producer is over: a newer one took its place"
    UNINITIALIZED = "initialisation failed; it can be tried again (KAFKA-13668)"


class TxnApi(Enum):
    """The requests a transactional producer sends besides Produce; the value is its priority (small goes first)."""

    FIND_COORDINATOR = 0
    INIT_PRODUCER_ID = 1
    ADD_PARTITIONS_TO_TXN = 2.0
    ADD_OFFSETS_TO_TXN = 2.1
    TXN_OFFSET_COMMIT = 2.2
    END_TXN = 3


_E = ErrorCode
_V = Verdict

_COMMON: dict[int, Verdict] = {
    _E.COORDINATOR_NOT_AVAILABLE: _V.FIND,
    _E.NOT_COORDINATOR: _V.FIND,
    _E.INVALID_PRODUCER_EPOCH: _V.FENCED,
    _E.PRODUCER_FENCED: _V.FENCED,
    _E.TRANSACTION_ABORTABLE: _V.ABORTABLE,
}

_SPECIAL: dict[TxnApi, dict[int, Verdict]] = {
    TxnApi.FIND_COORDINATOR: {
        _E.COORDINATOR_NOT_AVAILABLE: _V.RETRY,
        _E.NOT_COORDINATOR: _V.RETRY,
        _E.INVALID_PRODUCER_EPOCH: _V.FATAL,
        _E.PRODUCER_FENCED: _V.FATAL,
        _E.GROUP_AUTHORIZATION_FAILED: _V.ABORTABLE,
    },
    TxnApi.INIT_PRODUCER_ID: {
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _V.UNINITIALIZED,
        _E.CLUSTER_AUTHORIZATION_FAILED: _V.UNINITIALIZED,
    },
    TxnApi.ADD_PARTITIONS_TO_TXN: {
        _E.UNKNOWN_PRODUCER_ID: _V.ABORTABLE_AFTER_BUMP,
        _E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: _V.FATAL,
        _E.INVALID_PRODUCER_ID_MAPPING: _V.FATAL,
        _E.INVALID_TXN_STATE: _V.FATAL,
    },
    TxnApi.ADD_OFFSETS_TO_TXN: {
        _E.UNKNOWN_PRODUCER_ID: _V.ABORTABLE_AFTER_BUMP,
        _E.GROUP_AUTHORIZATION_FAILED: _V.ABORTABLE,
    },
    TxnApi.TXN_OFFSET_COMMIT: {
        _E.REQUEST_TIMED_OUT: _V.FIND,
        _E.UNKNOWN_TOPIC_OR_PARTITION: _V.RETRY,
        _E.GROUP_AUTHORIZATION_FAILED: _V.ABORTABLE,
        _E.TOPIC_AUTHORIZATION_FAILED: _V.FATAL,
        _E.UNKNOWN_MEMBER_ID: _V.ABORTABLE,
        _E.ILLEGAL_GENERATION: _V.ABORTABLE,
        _E.GROUP_ID_NOT_FOUND: _V.ABORTABLE,
        _E.STALE_MEMBER_EPOCH: _V.ABORTABLE,
        _E.FENCED_INSTANCE_ID: _V.ABORTABLE,
    },
    TxnApi.END_TXN: {_E.UNKNOWN_PRODUCER_ID: _V.ABORTABLE_AFTER_BUMP},
}

_OTHERWISE = dict.fromkeys(TxnApi, _V.FATAL) | {TxnApi.ADD_PARTITIONS_TO_TXN: _V.ABORTABLE}


def verdict_of(api: TxnApi, error_code: int, *, is_abort: bool = False) -> Verdict:
    """The verdict on `error_code` (not NONE) of a response to `api`; `is_abort`: of EndTxn with abort."""
    found = _SPECIAL[api].get(error_code) or _COMMON.get(error_code)
    if is_abort and found in (Verdict.ABORTABLE, Verdict.ABORTABLE_AFTER_BUMP):
        return Verdict.FATAL  # KAFKA-19250: an abort that has to be aborted would never end
    if found is not None:
        return found
    return Verdict.RETRY if error_for(error_code).retriable else _OTHERWISE[api]
