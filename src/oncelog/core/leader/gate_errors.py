"""What a client is told when the transaction coordinator does not verify or add its partitions (KIP-890).

One table for every client version. Unlike Apache Kafka, whose mode of mapping is that of the first request queued for a
node, each request is answered by its own version (KIP-890: older clients know neither 51 nor 120 on Produce).
"""

from __future__ import annotations

from enum import Enum

from oncelog.core.leader.verdict import Refuse
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass


class GuardedApi(Enum):
    """The two requests that may write to a transaction without its coordinator having been asked by the client."""

    PRODUCE = "Produce"
    TXN_OFFSET_COMMIT = "TxnOffsetCommit"


_ADDS_FROM_VERSION = {GuardedApi.PRODUCE: 12, GuardedApi.TXN_OFFSET_COMMIT: 5}
_KNOWS_ABORTABLE_FROM_VERSION = {GuardedApi.PRODUCE: 11, GuardedApi.TXN_OFFSET_COMMIT: 4}
_COORDINATOR_IS_ELSEWHERE = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NETWORK_EXCEPTION,
}


@dataclass(frozen=True, slots=True)
class ClientVersion:
    """Which request asks, in which version: it decides what is asked and how the answer is put."""

    api: GuardedApi
    version: int

    @property
    def supports_implicit_add(self) -> bool:
        """The new protocol: the partition is added to the transaction, not only verified."""
        return self.version >= _ADDS_FROM_VERSION[self.api]

    @property
    def knows_abortable(self) -> bool:
        """Whether the client understands TRANSACTION_ABORTABLE."""
        return self.version >= _KNOWS_ABORTABLE_FROM_VERSION[self.api]


def client_refusal(client: ClientVersion, error_code: ErrorCode) -> Refuse | None:
    """The coordinator's (or the transport's) answer in the client's words; None: agreed."""
    if error_code is ErrorCode.NONE:
        return None
    if error_code is ErrorCode.UNSUPPORTED_VERSION:
        # The coordinator's broker is older than AddPartitionsToTxn v4, or transaction.version is 0. Who only wants
        # verification goes on as before KIP-890; who wants the partition added must use the old protocol.
        return _refuse(client, error_code) if client.supports_implicit_add else None
    return _refuse(client, error_code)


def _refuse(client: ClientVersion, error_code: ErrorCode) -> Refuse:
    message = f"the transaction coordinator answered {error_code.name}"
    if client.api is GuardedApi.PRODUCE:
        told = _for_produce(client, error_code)
    else:
        told = _for_offsets(error_code)
    if error_code is ErrorCode.PRODUCER_FENCED:
        told = ErrorCode.INVALID_PRODUCER_EPOCH
    elif error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED:
        told = ErrorCode.INVALID_TXN_STATE
    elif error_code is ErrorCode.TRANSACTION_ABORTABLE and not client.knows_abortable:
        told = ErrorCode.INVALID_TXN_STATE
        message = "the partition is not part of an ongoing transaction"
    return Refuse(told, message)


def _for_produce(client: ClientVersion, error_code: ErrorCode) -> ErrorCode:
    if error_code in _COORDINATOR_IS_ELSEWHERE:
        return ErrorCode.NOT_ENOUGH_REPLICAS  # retriable in every producer ever released
    if error_code is ErrorCode.CONCURRENT_TRANSACTIONS and not client.supports_implicit_add:
        return ErrorCode.NOT_ENOUGH_REPLICAS
    return error_code


def _for_offsets(error_code: ErrorCode) -> ErrorCode:
    if error_code is ErrorCode.NETWORK_EXCEPTION:
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return error_code
