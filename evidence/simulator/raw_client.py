"""A producer that decides nothing: every request of the transaction protocol by hand, old (TV0/1) or new (TV2).

Each request has a connection of its own, so a request that is sent later than its successor is exactly a delayed message.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from evidence.simulator.cluster import Cluster
from evidence.world.loop import Process
from oncelog.client.cluster.connection import Connection
from oncelog.errors import ErrorCode
from oncelog.types import ProducerIdAndEpoch, TopicPartition
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.record_batch import build_batch
from oncelog.wire.schema import Struct

RAW_TIMEOUT_MS = 1500
OLD = {ProduceRequest: 11, EndTxnRequest: 4, TxnOffsetCommitRequest: 4, AddPartitionsToTxnRequest: 3}
NEW = {ProduceRequest: 12, EndTxnRequest: 5, TxnOffsetCommitRequest: 5, AddPartitionsToTxnRequest: 3}


@dataclass
class RawProducer:
    """`identity` and `sequences` are what the next request will carry; a test may pass others."""

    cluster: Cluster
    process: Process
    transactional_id: str
    is_new: bool
    timeout_ms: int = 4000
    identity: ProducerIdAndEpoch = field(default_factory=ProducerIdAndEpoch)
    sequences: dict[TopicPartition, int] = field(default_factory=dict)

    async def ask(self, message: Struct) -> Any:
        """One request on a new connection. Raises Network, RequestTimedOut."""
        version = (NEW if self.is_new else OLD).get(type(message))
        network = self.cluster.network.door(self.process)
        connection = await Connection.open(network, "broker", 9092, "raw", RAW_TIMEOUT_MS)
        try:
            bounds = {} if version is None else {"version_min": version, "version_max": version}
            answer, _ = await connection.request(message, timeout_ms=RAW_TIMEOUT_MS, **bounds)
        finally:
            connection.close()
        return answer

    async def init(self, known: ProducerIdAndEpoch | None = None) -> ErrorCode:
        """InitProducerId; `known`: the identity to bump (KIP-360)."""
        given = known or ProducerIdAndEpoch()
        message = InitProducerIdRequest(
            transactional_id=self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=given.producer_id,
            producer_epoch=given.producer_epoch,
        )
        answer = await self.ask(message)
        if not answer.error_code:
            self.identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    async def add(self, key: TopicPartition, identity: ProducerIdAndEpoch | None = None) -> ErrorCode:
        """AddPartitionsToTxn v3."""
        who = identity or self.identity
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=who.producer_id,
            v3_and_below_producer_epoch=who.producer_epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=key.topic, partitions=[key.partition])],
        )
        answer = await self.ask(message)
        return ErrorCode(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def batch(self, key: TopicPartition, value: int) -> bytes:
        """A batch with the next sequence, to be sent now or late."""
        sequence = self.sequences.get(key, 0)
        self.sequences[key] = sequence + 1
        rows = [(1_750_000_000_000, None, b"%d" % value, ())]
        return bytes(
            build_batch(
                rows,
                producer_id=self.identity.producer_id,
                producer_epoch=self.identity.producer_epoch,
                base_sequence=sequence,
                is_transactional=True,
            )
        )

    async def produce(self, key: TopicPartition, batch: bytes) -> tuple[ErrorCode, int]:
        """Produce v11 or v12: error and offset."""
        data = TopicProduceData(
            name=key.topic, partition_data=[PartitionProduceData(index=key.partition, records=batch)]
        )
        message = ProduceRequest(
            transactional_id=self.transactional_id, acks=-1, timeout_ms=RAW_TIMEOUT_MS, topic_data=[data]
        )
        part = (await self.ask(message)).responses[0].partition_responses[0]
        return ErrorCode(part.error_code), part.base_offset

    async def end(self, commit: bool, identity: ProducerIdAndEpoch | None = None) -> ErrorCode:
        """EndTxn v4 or v5; the answer's identity is adopted when the request carried the present one."""
        who = identity or self.identity
        message = EndTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            committed=commit,
        )
        answer = await self.ask(message)
        if not answer.error_code and self.is_new and who == self.identity:
            self.identity = ProducerIdAndEpoch(answer.producer_id, answer.producer_epoch)
            self.sequences.clear()
        return ErrorCode(answer.error_code)

    async def add_offsets(self, group: str) -> ErrorCode:
        """AddOffsetsToTxn: the old protocol wants it before TxnOffsetCommit."""
        message = AddOffsetsToTxnRequest(
            transactional_id=self.transactional_id,
            producer_id=self.identity.producer_id,
            producer_epoch=self.identity.producer_epoch,
            group_id=group,
        )
        return ErrorCode((await self.ask(message)).error_code)

    async def commit_offset(
        self, group: str, key: TopicPartition, offset: int, identity: ProducerIdAndEpoch | None = None
    ) -> ErrorCode:
        """TxnOffsetCommit v4 or v5."""
        who = identity or self.identity
        position = TxnOffsetCommitRequestPartition(partition_index=key.partition, committed_offset=offset)
        message = TxnOffsetCommitRequest(
            transactional_id=self.transactional_id,
            group_id=group,
            producer_id=who.producer_id,
            producer_epoch=who.producer_epoch,
            topics=[TxnOffsetCommitRequestTopic(name=key.topic, partitions=[position])],
        )
        return ErrorCode((await self.ask(message)).topics[0].partitions[0].error_code)
