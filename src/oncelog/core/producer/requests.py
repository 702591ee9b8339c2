"""Requests a transactional producer has to send, as the machine queues them, and what its callers wait for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from oncelog.core.producer.verdicts import TxnApi
from oncelog.errors import IllegalState, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import CoordinatorKey, GroupMetadata, Node, OffsetAndMetadata, ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

VERSION_MAX = 32767
BUMP_PRIORITY = 4.0  # a bump that follows EndTxn goes last

TxnMessage = (
    InitProducerIdRequest
    | FindCoordinatorRequest
    | AddPartitionsToTxnRequest
    | AddOffsetsToTxnRequest
    | TxnOffsetCommitRequest
    | EndTxnRequest
)


_DOING = {
    "init_transactions": "initializing this producer's transactions",
    "commit_transaction": "committing this producer's transaction",
    "abort_transaction": "aborting this producer's transaction",
    "complete_transaction": "completing this producer's transaction",
}


class PendingResult:
    """What a caller waits for: done once, with an error or without. `waiter_count`: how many wait at this moment."""

    __slots__ = ("_callbacks", "error", "is_done", "name", "waiter_count")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.is_done = False
        self.waiter_count = 0
        self.error: KafkaError | None = None
        self._callbacks: list[Callable[[], None]] = []

    def end(self, error: KafkaError | None = None) -> None:
        """Done; only the first end counts."""
        if not self.is_done:
            self.is_done, self.error = True, error
            callbacks, self._callbacks = self._callbacks, []
            for callback in callbacks:
                callback()

    def when_done(self, callback: Callable[[], None]) -> None:
        """Call `callback` once it is done (now, where it is already)."""
        if self.is_done:
            callback()
        else:
            self._callbacks.append(callback)

    def refusal_of(self, call: str) -> IllegalState:
        """Why another call has to wait for this one: somebody is inside of it, or nobody has taken its result."""
        if self.waiter_count:
            doing = _DOING.get(self.name, f"in {self.name}")
            what = f"another task or thread is {doing}; one transactional producer serves one transaction at a time"
        else:
            what = f"{self.name} timed out or was cancelled before; it must be called again first"
        return IllegalState(f"{call}: {what}")


@dataclass(eq=False, slots=True)
class TxnRequest:
    """One request to send. `message` is the same in every attempt; `attempt_count` counts answers that never came."""

    api: TxnApi
    message: TxnMessage
    coordinator: CoordinatorKey | None  # None: any broker answers
    result: PendingResult
    priority: float
    version_min: int = 0
    version_max: int = VERSION_MAX
    partitions: tuple[TopicPartition, ...] = ()
    is_abort: bool = False
    node: Node | None = None
    attempt_count: int = 0
    retry_count: int = 0
    not_before_ms: float = 0.0
    last_error: KafkaError | None = None  # why it is sent again
    finds: CoordinatorKey | None = None
    group: GroupMetadata | None = None
    then: TxnRequest | None = None  # what follows a success


def described(in_flight: TxnRequest | None, queue: Iterable[TxnRequest]) -> str:
    """What is on its way, or else waits to be, and the last error that it met: for the text of a timeout."""
    if in_flight is not None:
        node = in_flight.node
        text = f"{in_flight.api.name} at " + (f"{node.host}:{node.port}" if node else "any broker")
        queue = (in_flight, *queue)
    else:
        text = ", ".join(request.api.name for request in queue) or "nothing"
    error = next((request.last_error for request in queue if request.last_error is not None), None)
    return text if error is None else f"{text}; last error: {error}"


def find_coordinator_request(key: CoordinatorKey) -> TxnRequest:
    """FindCoordinator for one key, in the form that all brokers of these days know (v4)."""
    message = FindCoordinatorRequest(key_type=key.key_type, coordinator_keys=[key.key])
    api = TxnApi.FIND_COORDINATOR
    return TxnRequest(api, message, None, PendingResult(), api.value, version_min=4, finds=key)


def init_producer_id_request(message: InitProducerIdRequest, result: PendingResult, priority: float) -> TxnRequest:
    """InitProducerId; what KIP-939 and KIP-360 need sets the lowest version that will do."""
    needs_2pc = message.enable_2pc or message.keep_prepared_txn
    version_min = 6 if needs_2pc else 3 if message.producer_id >= 0 else 0
    coordinator = None if message.transactional_id is None else CoordinatorKey(1, message.transactional_id)
    return TxnRequest(TxnApi.INIT_PRODUCER_ID, message, coordinator, result, priority, version_min=version_min)


def add_partitions_request(
    transactional_id: str, identity: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
) -> TxnRequest:
    """AddPartitionsToTxn as clients send it (v0-3)."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    message = AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=identity.producer_id,
        v3_and_below_producer_epoch=identity.producer_epoch,
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=name, partitions=p) for name, p in topics.items()],
    )
    api, key = TxnApi.ADD_PARTITIONS_TO_TXN, CoordinatorKey(1, transactional_id)
    return TxnRequest(
        api, message, key, PendingResult(), api.value, version_max=3, partitions=tuple(sorted(partitions))
    )


def add_offsets_request(transactional_id: str, identity: ProducerIdAndEpoch, then: TxnRequest) -> TxnRequest:
    """AddOffsetsToTxn, which TV1 needs before the TxnOffsetCommit `then`."""
    assert then.group is not None
    message = AddOffsetsToTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        group_id=then.group.group_id,
    )
    api, key = TxnApi.ADD_OFFSETS_TO_TXN, CoordinatorKey(1, transactional_id)
    return TxnRequest(api, message, key, then.result, api.value, group=then.group, then=then)


def txn_offset_commit_request(
    transactional_id: str,
    identity: ProducerIdAndEpoch,
    result: PendingResult,
    group: GroupMetadata,
    offsets: Mapping[TopicPartition, OffsetAndMetadata],
    is_tv2: bool,
) -> TxnRequest:
    """TxnOffsetCommit with the member's generation (KIP-447); v5 adds itself to the transaction (KIP-890)."""
    topics: dict[str, list[TxnOffsetCommitRequestPartition]] = {}
    for (topic, partition), position in sorted(offsets.items(), key=lambda item: item[0]):
        topics.setdefault(topic, []).append(
            TxnOffsetCommitRequestPartition(
                partition_index=partition,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    message = TxnOffsetCommitRequest(
        transactional_id=transactional_id,
        group_id=group.group_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        generation_id=group.generation_id,
        member_id=group.member_id,
        group_instance_id=group.group_instance_id,
        topics=[TxnOffsetCommitRequestTopic(name=name, partitions=p) for name, p in topics.items()],
    )
    api, key = TxnApi.TXN_OFFSET_COMMIT, CoordinatorKey(0, group.group_id)
    return TxnRequest(api, message, key, result, api.value, version_max=5 if is_tv2 else 4, group=group)


def end_txn_request(
    transactional_id: str, identity: ProducerIdAndEpoch, result: PendingResult, *, committed: bool, is_tv2: bool
) -> TxnRequest:
    """EndTxn; v5 is the form that gives the next epoch (KIP-890)."""
    message = EndTxnRequest(
        transactional_id=transactional_id,
        producer_id=identity.producer_id,
        producer_epoch=identity.producer_epoch,
        committed=committed,
    )
    api, key = TxnApi.END_TXN, CoordinatorKey(1, transactional_id)
    version_max = VERSION_MAX if is_tv2 else 4
    return TxnRequest(api, message, key, result, api.value, version_max=version_max, is_abort=not committed)
