"""What each response of the coordinator does to a producer's TransactionManager."""

from __future__ import annotations

from typing import Any

from oncelog.core.producer.manager_config import WRITE_PREPARED
from oncelog.core.producer.requests import TxnRequest
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.core.producer.verdicts import TxnApi, Verdict, verdict_of
from oncelog.errors import ErrorCode, KafkaError, ProducerFenced, UnsupportedVersion, error_for
from oncelog.types import Node, ProducerIdAndEpoch

RIGHTS = frozenset(
    {
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.GROUP_AUTHORIZATION_FAILED,
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)


def on_response(manager: TransactionManager, request: TxnRequest, response: Any, now_ms: float) -> None:
    """Take the response to the request on its way."""
    manager.answered(request)
    if manager.state is TransactionState.FATAL_ERROR:
        request.result.end(manager.last_error)
        return
    code = _error_code(request, response)
    if code != ErrorCode.NONE:
        _on_error(manager, request, code, response, now_ms)
    else:
        _on_success(manager, request, response)


def on_unsupported_version(manager: TransactionManager, request: TxnRequest, error: UnsupportedVersion) -> None:
    """The broker does not speak what the request needs: this producer cannot work with it."""
    manager.answered(request)
    manager.fatal_error(error)
    request.result.end(error)


def _on_success(manager: TransactionManager, request: TxnRequest, response: Any) -> None:
    api = request.api
    if api is TxnApi.FIND_COORDINATOR:
        assert request.finds is not None
        found = response.coordinators[0]
        manager.coordinators.found(request.finds, Node(found.node_id, found.host, found.port))
    elif api is TxnApi.INIT_PRODUCER_ID:
        identity = ProducerIdAndEpoch(response.producer_id, response.producer_epoch)
        ongoing = ProducerIdAndEpoch(response.ongoing_txn_producer_id, response.ongoing_txn_producer_epoch)
        manager.initialized(request, identity, ongoing)
    elif api is TxnApi.ADD_PARTITIONS_TO_TXN:
        manager.partitions_added(request)
    elif api is TxnApi.ADD_OFFSETS_TO_TXN:
        manager.offsets_added(request)
    elif api is TxnApi.TXN_OFFSET_COMMIT:
        request.result.end()
    else:
        manager.ended(request, ProducerIdAndEpoch(response.producer_id, response.producer_epoch))


def _error_code(request: TxnRequest, response: Any) -> int:
    if request.api is TxnApi.FIND_COORDINATOR:
        found = response.coordinators
        return int(found[0].error_code) if found else ErrorCode.COORDINATOR_NOT_AVAILABLE
    if request.api is TxnApi.ADD_PARTITIONS_TO_TXN:
        codes = [p.partition_error_code for t in response.results_by_topic_v3_and_below for p in t.results_by_partition]
        return _gravest(request, codes)
    if request.api is TxnApi.TXN_OFFSET_COMMIT:
        return _gravest(request, [p.error_code for t in response.topics for p in t.partitions])
    if response.error_code == ErrorCode.NONE and not _makes_sense(request, response):
        return ErrorCode.UNKNOWN_SERVER_ERROR
    return int(response.error_code)


def _makes_sense(request: TxnRequest, response: Any) -> bool:
    """Whether the identities in a successful response can be anybody's."""
    if request.api is TxnApi.INIT_PRODUCER_ID:
        is_ongoing = response.ongoing_txn_producer_id < 0 or response.ongoing_txn_producer_epoch >= 0
        return bool(is_ongoing and response.producer_id >= 0 and response.producer_epoch >= 0)
    if request.api is TxnApi.END_TXN:
        return bool(response.producer_id < 0 or response.producer_epoch >= 0)
    return True


_GRAVITY = [
    Verdict.RETRY,
    Verdict.FIND,
    Verdict.ABORTABLE,
    Verdict.ABORTABLE_AFTER_BUMP,
    Verdict.UNINITIALIZED,
    Verdict.FENCED,
    Verdict.FATAL,
]


def _gravest(request: TxnRequest, codes: list[int]) -> int:
    """All partitions are examined before one is believed; OPERATION_NOT_ATTEMPTED only follows another's error."""
    bad = [code for code in codes if code != ErrorCode.NONE]
    told = [code for code in bad if code != ErrorCode.OPERATION_NOT_ATTEMPTED] or bad
    return max(told, key=lambda code: _GRAVITY.index(verdict_of(request.api, code)), default=ErrorCode.NONE)


def _resource(manager: TransactionManager, request: TxnRequest, code: int, response: Any) -> tuple[str, str]:
    """What a refusal for missing rights is about, and the operation where it is not the usual one."""
    if code == ErrorCode.GROUP_AUTHORIZATION_FAILED:
        group = request.group.group_id if request.group else request.finds.key if request.finds else ""
        return group, ""
    if code != ErrorCode.TOPIC_AUTHORIZATION_FAILED:
        prepares = code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED and manager.config.two_phase_commit_enable
        return manager.config.transactional_id or "", WRITE_PREPARED if prepares else ""
    if request.api is TxnApi.TXN_OFFSET_COMMIT:  # who moves positions in a topic is a reader of it
        return next(t.name for t in response.topics for p in t.partitions if p.error_code == code), "read"
    if request.api is not TxnApi.ADD_PARTITIONS_TO_TXN:
        return "", ""
    added = response.results_by_topic_v3_and_below
    return next(t.name for t in added for p in t.results_by_partition if p.partition_error_code == code), ""


def _on_error(manager: TransactionManager, request: TxnRequest, code: int, response: Any, now_ms: float) -> None:
    if code == ErrorCode.OPERATION_NOT_ATTEMPTED and request.api is TxnApi.END_TXN and manager.conditional.is_undecided:
        manager.not_attempted(request)
        return
    detail = _detail(request, response)
    verdict = verdict_of(request.api, code, is_abort=request.is_abort)
    if request.api is TxnApi.ADD_PARTITIONS_TO_TXN and verdict not in (Verdict.RETRY, Verdict.FIND):
        manager.partitions_not_added()
    if verdict in (Verdict.RETRY, Verdict.FIND):
        backoff_ms = None
        if code == ErrorCode.CONCURRENT_TRANSACTIONS and not manager.transaction_started:
            backoff_ms = manager.config.concurrent_transactions_backoff_ms
        request.last_error = error_for(code, detail)
        manager.retry(request, now_ms, backoff_ms=backoff_ms, find=verdict is Verdict.FIND)
        return
    about = _resource(manager, request, code, response) if code in RIGHTS else ("", "")
    detail += manager.config.way_out(code, *about)
    manager.fail_request(request, verdict, _error(manager, request, verdict, code, detail))


def _error(manager: TransactionManager, request: TxnRequest, verdict: Verdict, code: int, detail: str) -> KafkaError:
    if verdict is Verdict.FENCED:
        return ProducerFenced(
            f"{request.api.name} of transactional id {manager.config.transactional_id!r} was refused with "
            f"{ErrorCode(code).name}: a newer producer with this id was started, or the transaction was open longer "
            f"than transaction_timeout_ms={manager.config.transaction_timeout_ms} and aborted; close this producer"
        )
    return error_for(code, detail)


def _detail(request: TxnRequest, response: Any) -> str:
    if request.api is TxnApi.ADD_PARTITIONS_TO_TXN:
        bad = [
            f"{topic.name}-{p.partition_index}: {p.partition_error_code}"
            for topic in response.results_by_topic_v3_and_below
            for p in topic.results_by_partition
            if p.partition_error_code
        ]
        return f"AddPartitionsToTxn failed for {', '.join(bad)}"
    if request.api is TxnApi.TXN_OFFSET_COMMIT:
        assert request.group is not None
        bad = sorted(f"{t.name}-{p.partition_index}" for t in response.topics for p in t.partitions if p.error_code)
        of = f"offsets of group {request.group.group_id!r} for {', '.join(bad[:5])}"
        return of + " could not be made part of the transaction"
    about = f" for {request.finds.key!r}" if request.finds else ""
    return f"{request.api.name}{about} was refused"
