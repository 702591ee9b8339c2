"""The requests of the power-cut workload and its checks, over one raw connection."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from evidence.world.direct import START_MS, Client
from oncelog.errors import ErrorCode
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog.wire.record_batch import Record, batches, build_batch

E = ErrorCode
Heard = Callable[[Any], None]
Identity = tuple[int, int]
WAIT_S = 0.02
PATIENCE = 400  # times WAIT_S: whoever is told "later" for longer never gets anywhere
LATER = {E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE}
LATER_OFFSETS = {*LATER, E.UNSTABLE_OFFSET_COMMIT}


class Refused(Exception):
    """The broker's answer was an error."""

    def __init__(self, what: str, code: ErrorCode) -> None:
        super().__init__(f"{what}: {code.name}")
        self.code = code


class Session:
    """One client connection and its verbs. Each raises Refused; `heard` gets a successful reply when it is written."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def _call(
        self, what: str, message: Any, version: int, code_of: Callable[[Any], int], heard: Heard | None, later: set[E]
    ) -> Any:
        def hear(reply: Any) -> None:
            if heard is not None and code_of(reply) == E.NONE:
                heard(reply)

        for _ in range(PATIENCE):
            async with asyncio.timeout(60):
                reply = await self.client.call(message, version, hear)
            code = E(code_of(reply))
            if code is E.NONE:
                return reply
            if code not in later:
                raise Refused(what, code)
            await asyncio.sleep(WAIT_S)
        raise Refused(f"{what}, for {PATIENCE * WAIT_S} s", code)

    async def call(
        self, what: str, message: Any, version: int, code_of: Callable[[Any], int], heard: Heard | None = None
    ) -> Any:
        """Any request; "later" is asked again."""
        return await self._call(what, message, version, code_of, heard, LATER)

    async def create_topic(self, name: str, partition_count: int, heard: Heard | None = None) -> None:
        topic = CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)
        message = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        await self._call(f"create {name}", message, 5, lambda reply: reply.topics[0].error_code, heard, set())

    async def init(self, name: str | None, heard: Heard | None = None, **fields: Any) -> Any:
        message = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=60_000, **fields)
        version = 6 if fields else 4
        return await self._call(f"init {name}", message, version, lambda reply: reply.error_code, heard, LATER)

    async def add_partition(self, name: str, identity: Identity, topic: str, partition: int) -> None:
        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )

        def code_of(reply: Any) -> int:
            return reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code

        await self._call(f"add partition for {name}", message, 3, code_of, None, LATER)

    async def produce(
        self,
        topic: str,
        partition: int,
        values: Sequence[str],
        *,
        identity: Identity = (-1, -1),
        sequence: int = -1,
        name: str | None = None,
        version: int = 12,
        heard: Callable[[int], None] | None = None,
    ) -> int:
        """Gives the offset of the first record; `heard` gets it too."""
        batch = build_batch(
            [(START_MS, None, value.encode(), ()) for value in values],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
            is_transactional=name is not None,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        message = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=[data])

        def hear(reply: Any) -> None:
            if heard is not None:
                heard(reply.responses[0].partition_responses[0].base_offset)

        def code_of(reply: Any) -> int:
            return reply.responses[0].partition_responses[0].error_code

        reply = await self._call(f"produce {values} to {topic}-{partition}", message, version, code_of, hear, LATER)
        return int(reply.responses[0].partition_responses[0].base_offset)

    async def end(
        self, name: str, identity: Identity, *, commit: bool, version: int = 5, heard: Heard | None = None
    ) -> Any:
        message = EndTxnRequest(
            transactional_id=name, producer_id=identity[0], producer_epoch=identity[1], committed=commit
        )
        what = f"{'commit' if commit else 'abort'} {name} {identity}"
        return await self._call(what, message, version, lambda reply: reply.error_code, heard, LATER)

    async def commit_offset(
        self, name: str, identity: Identity, group: str, position: int, *, version: int, heard: Heard | None = None
    ) -> None:
        """Position of `group` in t-0, as part of the transaction."""
        if version < 5:
            add = AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=identity[0], producer_epoch=identity[1], group_id=group
            )
            await self._call(f"add offsets of {name}", add, 3, lambda reply: reply.error_code, None, LATER)
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=position)
        message = TxnOffsetCommitRequest(
            transactional_id=name,
            group_id=group,
            producer_id=identity[0],
            producer_epoch=identity[1],
            topics=[TxnOffsetCommitRequestTopic(name="t", partitions=[partition])],
        )
        await self._call(
            f"offsets of {name}", message, version, lambda reply: reply.topics[0].partitions[0].error_code, heard, LATER
        )

    async def committed_offset(self, group: str, topic: str = "t", partition: int = 0) -> int:
        """Once no transaction can change it any more."""
        asked = OffsetFetchRequestTopic(name=topic, partition_indexes=[partition])
        message = OffsetFetchRequest(group_id=group, topics=[asked], require_stable=True)

        def code_of(reply: Any) -> int:
            return reply.error_code or reply.topics[0].partitions[0].error_code

        reply = await self._call(f"offset of {group}", message, 7, code_of, None, LATER_OFFSETS)
        return int(reply.topics[0].partitions[0].committed_offset)

    async def state(self, name: str) -> str:
        reply = await self.client.call(DescribeTransactionsRequest(transactional_ids=[name]), 0)
        described = reply.transaction_states[0]
        return described.transaction_state if described.error_code == E.NONE else E(described.error_code).name

    async def end_offset(self, topic: str, partition: int, *, committed: bool, timestamp: int = -1) -> int:
        """`timestamp` -2 asks for the start."""
        at = ListOffsetsPartition(partition_index=partition, timestamp=timestamp)
        message = ListOffsetsRequest(
            replica_id=-1,
            isolation_level=int(committed),
            topics=[ListOffsetsTopic(name=topic, partitions=[at])],
        )

        def code_of(reply: Any) -> int:
            return reply.topics[0].partitions[0].error_code

        reply = await self._call(f"end of {topic}-{partition}", message, 5, code_of, None, set())
        return int(reply.topics[0].partitions[0].offset)

    async def read(self, topic: str, partition: int, *, committed: bool, start: int = 0) -> dict[int, str]:
        """Every data record from `start`: value by offset; with `committed` as a read_committed consumer filters."""
        found = await self.read_records(topic, partition, committed=committed, start=start)
        return {record.offset: bytes(record.value or b"").decode() for record in found}

    async def read_records(self, topic: str, partition: int, *, committed: bool, start: int = 0) -> list[Record]:
        """The same as records; a fetch gives a segment at most."""

        def code_of(reply: Any) -> int:
            return reply.responses[0].partitions[0].error_code

        found: list[Record] = []
        while True:
            wanted = FetchPartition(partition=partition, fetch_offset=start, partition_max_bytes=1 << 24)
            message = FetchRequest(
                max_wait_ms=0,
                min_bytes=0,
                max_bytes=1 << 24,
                isolation_level=int(committed),
                topics=[FetchTopic(topic=topic, partitions=[wanted])],
            )
            reply = await self._call(f"read {topic}-{partition}", message, 11, code_of, None, set())
            data = reply.responses[0].partitions[0]
            if not data.records:
                return found
            found += visible_records(data.records, data.aborted_transactions or [])
            start = list(batches(data.records))[-1].end_offset


def visible_records(data: Any, aborted_transactions: Sequence[Any]) -> Iterator[Record]:
    """The consumer's filter: between an aborted transaction's first offset and its marker nothing of its producer."""
    pending = sorted((each.first_offset, each.producer_id) for each in aborted_transactions)
    aborted: set[int] = set()
    for batch in batches(data):
        while pending and pending[0][0] <= batch.last_offset:
            aborted.add(pending.pop(0)[1])
        if batch.is_control:
            aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            yield from batch.records()
