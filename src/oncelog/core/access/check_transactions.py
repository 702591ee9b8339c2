"""Checks of the requests of transactions; an implicit add goes through Produce and TxnOffsetCommit and passes none less."""

from __future__ import annotations

from oncelog.core.access.passage import Caller, Passage
from oncelog.core.metadata.topic_configs import BROKER_WRITTEN_TOPICS
from oncelog.errors import ErrorCode
from oncelog.wire.access_rules import Operation
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from oncelog.wire.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTopicResult,
)
from oncelog.wire.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TransactionState,
)
from oncelog.wire.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from oncelog.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from oncelog.wire.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

E = ErrorCode
TRANSACTIONAL_ID_DENIED = E.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def check_init_producer_id(caller: Caller, message: InitProducerIdRequest, _version: int) -> Passage | None:
    """With an id the right to it; without one idempotence of the cluster, or the right to write to some topic."""
    identity = message.transactional_id
    if identity is None:
        may = caller.may_on_cluster(Operation.IDEMPOTENT_WRITE) or caller.may_on_some_topic(Operation.WRITE)
        code = E.CLUSTER_AUTHORIZATION_FAILED
    else:
        may = caller.may_on_transactional_id(Operation.WRITE, identity) and (
            not message.enable_2pc or caller.may_on_transactional_id(Operation.TWO_PHASE_COMMIT, identity)
        )
        code = TRANSACTIONAL_ID_DENIED
    return None if may else Passage(reply=InitProducerIdResponse(error_code=code, producer_epoch=-1))


def check_add_partitions(caller: Caller, message: AddPartitionsToTxnRequest, version: int) -> Passage | None:
    """v4+ is between brokers. Before, one topic that may not be written to keeps all others from being added."""
    if version >= 4:
        if caller.may_on_cluster(Operation.CLUSTER_ACTION):
            return None
        return Passage(reply=AddPartitionsToTxnResponse(error_code=E.CLUSTER_AUTHORIZATION_FAILED))
    topics = message.v3_and_below_topics
    if not caller.may_on_transactional_id(Operation.WRITE, message.v3_and_below_transactional_id):
        return Passage(reply=_not_added({topic.name: TRANSACTIONAL_ID_DENIED for topic in topics}, topics))
    _, refused = caller.split(topics, Operation.WRITE, lambda each: each.name)
    if not refused:
        return None
    codes = dict.fromkeys((topic.name for topic in topics), E.OPERATION_NOT_ATTEMPTED)
    codes |= {topic.name: E.UNKNOWN_TOPIC_OR_PARTITION for topic in topics if topic.name not in caller.metadata.topics}
    codes |= {topic.name: E.TOPIC_AUTHORIZATION_FAILED for topic in topics if topic.name in BROKER_WRITTEN_TOPICS}
    codes |= {topic.name: E.TOPIC_AUTHORIZATION_FAILED for topic in refused}
    return Passage(reply=_not_added(codes, topics))


def _not_added(codes: dict[str, ErrorCode], topics: list[AddPartitionsToTxnTopic]) -> AddPartitionsToTxnResponse:
    return AddPartitionsToTxnResponse(
        results_by_topic_v3_and_below=[
            AddPartitionsToTxnTopicResult(
                name=topic.name,
                results_by_partition=[
                    AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=codes[topic.name])
                    for index in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def check_add_offsets(caller: Caller, message: AddOffsetsToTxnRequest, _version: int) -> Passage | None:
    """The id to write to, the group to read."""
    if not caller.may_on_transactional_id(Operation.WRITE, message.transactional_id):
        return Passage(reply=AddOffsetsToTxnResponse(error_code=TRANSACTIONAL_ID_DENIED))
    if not caller.may_on_group(Operation.READ, message.group_id):
        return Passage(reply=AddOffsetsToTxnResponse(error_code=E.GROUP_AUTHORIZATION_FAILED))
    return None


def check_end_txn(caller: Caller, message: EndTxnRequest, _version: int) -> Passage | None:
    """The id to write to."""
    if caller.may_on_transactional_id(Operation.WRITE, message.transactional_id):
        return None
    return Passage(reply=EndTxnResponse(error_code=TRANSACTIONAL_ID_DENIED))


def check_txn_offset_commit(caller: Caller, message: TxnOffsetCommitRequest, _version: int) -> Passage | None:
    """The id to write to, the group to read, each topic to read."""
    if not caller.may_on_transactional_id(Operation.WRITE, message.transactional_id):
        return Passage(reply=_not_committed(message.topics, TRANSACTIONAL_ID_DENIED))
    if not caller.may_on_group(Operation.READ, message.group_id):
        return Passage(reply=_not_committed(message.topics, E.GROUP_AUTHORIZATION_FAILED))
    passed, refused = caller.split(message.topics, Operation.READ, lambda each: each.name)
    if not refused:
        return None
    answered = _not_committed(refused, E.TOPIC_AUTHORIZATION_FAILED)
    if not passed:
        return Passage(reply=answered)

    def complete(reply: TxnOffsetCommitResponse) -> TxnOffsetCommitResponse:
        return reply.replace(topics=[*reply.topics, *answered.topics])

    return Passage(message.replace(topics=passed), complete=complete)


def _not_committed(topics: list[TxnOffsetCommitRequestTopic], code: ErrorCode) -> TxnOffsetCommitResponse:
    return TxnOffsetCommitResponse(
        topics=[
            TxnOffsetCommitResponseTopic(
                name=topic.name,
                partitions=[
                    TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in topic.partitions
                ],
            )
            for topic in topics
        ]
    )


def check_write_markers(caller: Caller, message: WriteTxnMarkersRequest, _version: int) -> Passage | None:
    """Brokers, and administrators who may alter the cluster."""
    if caller.may_on_cluster(Operation.ALTER) or caller.may_on_cluster(Operation.CLUSTER_ACTION):
        return None
    code = E.CLUSTER_AUTHORIZATION_FAILED
    return Passage(
        reply=WriteTxnMarkersResponse(
            markers=[
                WritableTxnMarkerResult(
                    producer_id=marker.producer_id,
                    topics=[
                        WritableTxnMarkerTopicResult(
                            name=topic.name,
                            partitions=[
                                WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                                for index in topic.partition_indexes
                            ],
                        )
                        for topic in marker.topics
                    ],
                )
                for marker in message.markers
            ]
        )
    )


def check_describe_transactions(caller: Caller, message: DescribeTransactionsRequest, _version: int) -> Passage:
    """Each id to describe; topics that may not be described are left out without a word."""
    ids = message.transactional_ids
    passed = [each for each in ids if caller.may_on_transactional_id(Operation.DESCRIBE, each)]
    answers = [
        TransactionState(transactional_id=each, error_code=TRANSACTIONAL_ID_DENIED)
        for each in ids
        if each not in passed
    ]

    def complete(reply: DescribeTransactionsResponse) -> DescribeTransactionsResponse:
        for state in reply.transaction_states:
            state.topics, _ = caller.split(state.topics, Operation.DESCRIBE, lambda each: each.topic)
        return reply.replace(transaction_states=[*reply.transaction_states, *answers])

    return Passage(message.replace(transactional_ids=passed), complete=complete)


def check_list_transactions(caller: Caller, message: ListTransactionsRequest, _version: int) -> Passage:
    """Only what may be described is there."""

    def complete(reply: ListTransactionsResponse) -> ListTransactionsResponse:
        return reply.replace(
            transaction_states=[
                state
                for state in reply.transaction_states
                if caller.may_on_transactional_id(Operation.DESCRIBE, state.transactional_id)
            ]
        )

    return Passage(message, complete=complete)
