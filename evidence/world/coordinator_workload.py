"""One life of the coordinators, asked for over the wire: the same for Apache Kafka and for oncelog.

Transactions of both protocols: open, prepared (two-phase), committed, aborted, fenced, past their timeout, empty; positions
of groups, also from transactions of every outcome; a classic group and a consumer group with members, and one of each that
all have left.
"""

from __future__ import annotations

import asyncio
from typing import Any

from evidence.world.broker import Client
from oncelog.errors import ErrorCode
from oncelog.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog.wire.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, TopicPartitions
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.leave_group import LeaveGroupRequest, MemberIdentity
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from oncelog.wire.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)

TOPIC, PARTITION_COUNT = "t", 3
SUBSCRIPTION = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\xff\xff\xff\xff"  # of the consumer protocol, version 1
ASSIGNMENT = b"\0\0\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"  # partitions 0 and 1
E = ErrorCode
LATER = {E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE, E.NOT_COORDINATOR}
LATER |= {E.UNKNOWN_TOPIC_OR_PARTITION, E.REBALANCE_IN_PROGRESS}


class Workload:
    """What is asked of the broker at `address`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._sequences: dict[tuple[tuple[int, int], int], int] = {}

    async def ask(self, message: Any, version: int, code_of: Any = lambda reply: reply.error_code) -> Any:
        """Again while it is told "later"."""
        while True:
            reply = await self._client.call(message, version)
            code = E(code_of(reply))
            if code is E.NONE:
                return reply
            assert code in LATER, (message, code)
            await asyncio.sleep(0.05)

    async def init(self, name: str, *, version: int = 5, timeout_ms: int = 600_000, **fields: Any) -> tuple[int, int]:
        message = InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=timeout_ms, **fields)
        reply = await self.ask(message, version)
        return reply.producer_id, reply.producer_epoch

    async def write(self, name: str, producer: tuple[int, int], partition: int, *, protocol: int) -> None:
        """One record; of the old protocol (1) with the partition added first."""
        if protocol == 1:
            while (code := await self._client.add(name, producer, TOPIC, partition)) is not E.NONE:
                assert code in LATER, code
        sequence = self._sequences.get((producer, partition), 0)
        self._sequences[producer, partition] = sequence + 1
        while True:
            part = await self._client.produce(
                TOPIC, f"{name} of {producer}", partition=partition, producer=producer, sequence=sequence,
                transactional_id=name, version=12 if protocol == 2 else 11,
            )  # fmt: skip
            if part.error_code == E.NONE:
                return
            assert E(part.error_code) in LATER, E(part.error_code)

    async def end(self, name: str, producer: tuple[int, int], *, commit: bool, protocol: int) -> None:
        while True:
            reply = await self._client.end(name, producer, commit=commit, version=5 if protocol == 2 else 4)
            if reply.error_code == E.NONE:
                break
            assert E(reply.error_code) in LATER, E(reply.error_code)
        while not (await self._client.state(name)).startswith("Complete"):  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    async def transactions(self) -> None:
        for protocol in (1, 2):
            for outcome in ("open", "committed", "aborted"):
                name = f"{outcome} {protocol}"
                producer = await self.init(name, version=3 + protocol)
                for partition in range(2):
                    await self.write(name, producer, partition, protocol=protocol)
                if outcome != "open":
                    await self.end(name, producer, commit=outcome == "committed", protocol=protocol)
        producer = await self.init("prepared", version=6, enable_2pc=True)
        await self.write("prepared", producer, 2, protocol=2)
        await self.init("empty")
        producer = await self.init("fenced")
        await self.write("fenced", producer, 0, protocol=2)
        await self.init("fenced")
        producer = await self.init("expired", timeout_ms=500)
        await self.write("expired", producer, 0, protocol=2)
        while await self._client.state("expired") != "CompleteAbort":  # noqa: ASYNC110
            await asyncio.sleep(0.05)

    async def positions(self) -> None:
        for protocol in (1, 2):
            for number, outcome in enumerate(("committed", "aborted", "open")):
                name = f"offsets {outcome} {protocol}"
                producer = await self.init(name, version=3 + protocol)
                await self.commit_in_transaction(name, producer, 100 * protocol + number, protocol)
                if outcome != "open":
                    await self.end(name, producer, commit=outcome == "committed", protocol=protocol)
        for position in (1, 7):
            await self.commit("plain", position)
        await self.commit("deleted", 5)
        partitions = [OffsetDeleteRequestPartition(partition_index=0)]
        message = OffsetDeleteRequest(
            group_id="deleted", topics=[OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
        )
        await self.ask(message, 0)
        await self.commit("deleted", 6, partition=1)

    async def commit(
        self, group: str, position: int, *, partition: int = 0, member: str = "", number: int = -1
    ) -> None:
        """A position outside transactions; `number` is the generation id or the member epoch."""
        where = OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=position, committed_metadata=f"at {position}"
        )
        topics = [OffsetCommitRequestTopic(name=TOPIC, partitions=[where])]
        message = OffsetCommitRequest(
            group_id=group, member_id=member, generation_id_or_member_epoch=number, topics=topics
        )
        await self.ask(message, 9, lambda reply: reply.topics[0].partitions[0].error_code)

    async def commit_in_transaction(self, name: str, producer: tuple[int, int], position: int, protocol: int) -> None:
        if protocol == 1:
            add = AddOffsetsToTxnRequest(
                transactional_id=name, producer_id=producer[0], producer_epoch=producer[1], group_id="positions"
            )
            await self.ask(add, 3)
        where = TxnOffsetCommitRequestPartition(partition_index=position % 100, committed_offset=position)
        message = TxnOffsetCommitRequest(
            transactional_id=name, group_id="positions", producer_id=producer[0], producer_epoch=producer[1],
            topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[where])],
        )  # fmt: skip
        await self.ask(message, 5 if protocol == 2 else 3, lambda reply: reply.topics[0].partitions[0].error_code)

    async def classic(self, group: str, *, leaves: bool) -> None:
        join = JoinGroupRequest(
            group_id=group, session_timeout_ms=600_000, rebalance_timeout_ms=5000, member_id="", protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=SUBSCRIPTION)],
        )  # fmt: skip
        first = await self._client.call(join, 7)
        assert first.error_code == E.MEMBER_ID_REQUIRED, first
        join.member_id = first.member_id
        joined = await self.ask(join, 7)
        assignments = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=ASSIGNMENT)]
        sync = SyncGroupRequest(
            group_id=group, generation_id=joined.generation_id, member_id=joined.member_id, protocol_type="consumer",
            protocol_name="range", assignments=assignments,
        )  # fmt: skip
        await self.ask(sync, 5)
        await self.commit(group, 3, member=joined.member_id, number=joined.generation_id)
        if leaves:
            members = [MemberIdentity(member_id=joined.member_id)]
            await self.ask(LeaveGroupRequest(group_id=group, members=members), 5)

    async def modern(self, group: str, members: tuple[str, ...], *, leaves: bool) -> None:
        epochs: dict[str, int] = {}
        owned: dict[str, list[TopicPartitions]] = {}
        for member in members:
            joined = await self.beat(group, member, 0, subscribed_topic_names=[TOPIC])
            epochs[member] = joined.member_epoch
            owned[member] = joined.assignment.topic_partitions
        for _ in range(4 * len(members)):  # until each has given up and taken over what it should
            for member in members:
                reply = await self.beat(group, member, epochs[member], topic_partitions=owned[member])
                epochs[member] = reply.member_epoch
                if reply.assignment is not None:
                    owned[member] = reply.assignment.topic_partitions
        await self.commit(group, 2, member=members[0], number=epochs[members[0]])
        if leaves:
            for member in members:
                await self.beat(group, member, -1)

    async def beat(self, group: str, member: str, member_epoch: int, **fields: Any) -> Any:
        if member_epoch == 0:
            fields |= {"rebalance_timeout_ms": 5000, "topic_partitions": []}
        message = ConsumerGroupHeartbeatRequest(group_id=group, member_id=member, member_epoch=member_epoch, **fields)
        return await self.ask(message, 1)

    async def run(self) -> str:
        """All of it; the topic's id in hexadecimal."""
        for key_type in (0, 1):
            message = FindCoordinatorRequest(key_type=key_type, coordinator_keys=["x"])
            await self.ask(message, 4, lambda reply: reply.coordinators[0].error_code)
        await self._client.create(TOPIC, PARTITION_COUNT)
        await self.transactions()
        await self.positions()
        await self.classic("classic", leaves=False)
        await self.classic("classic left", leaves=True)
        await self.modern("modern", ("m1", "m2"), leaves=False)
        await self.modern("modern left", ("m3",), leaves=True)
        topics = (await self._client.call(MetadataRequest(topics=None), 12)).topics
        return next(topic.topic_id.hex() for topic in topics if topic.name == TOPIC)
