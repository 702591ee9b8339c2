"""Random pipelines on one connection, and what a broker that begins them in order must answer and hold.

A lane is a connection with a partition, a group and transactional ids of its own, so that its answers do not depend on
others. All its requests are sent before the first is answered, but what needs an identity knows it beforehand: ids are
initialized first and end by EndTxn v4, which keeps the epoch.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from evidence.world.direct import ADDRESS, START_MS, DirectNetwork
from evidence.world.requests import Identity

from oncelog.errors import ErrorCode
from oncelog.wire.api import ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request, response_correlation_id
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.metadata import MetadataRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import batches, build_batch

E = ErrorCode
Check = Callable[[Any], None]


class Pipe(asyncio.Protocol):
    """A connection with any number of requests under way; replies must come in the order of their requests."""

    def __init__(self) -> None:
        self._reader = FrameReader()
        self._due: list[tuple[int, ApiKey, int, Check]] = []  # the oldest first
        self._next = 0
        self.answered_count = 0
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.fault: AssertionError | None = None
        self.on_answer: Callable[[], None] = lambda: None
        self.transport: Any

    @classmethod
    async def connect(cls, network: DirectNetwork) -> Pipe:
        _, protocol = await network.connect(*ADDRESS, cls)
        assert isinstance(protocol, Pipe)
        return protocol

    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)

    def data_received(self, data: bytes) -> None:
        for frame in self._reader.receive(data):
            try:
                self._answered(frame)
            except AssertionError as error:
                self.fault = self.fault or error
            self.on_answer()

    def _answered(self, frame: memoryview) -> None:
        assert self._due, "an answer to nothing"
        correlation_id, key, version, check = self._due.pop(0)
        assert response_correlation_id(frame) == correlation_id, "a reply left before an earlier one"
        _, reply = decode_response(key, version, frame)
        self.answered_count += 1
        check(reply)

    def send(self, message: Any, version: int, check: Check | None) -> None:
        """Without `check` no answer comes (acks=0)."""
        self._next += 1
        key = ApiKey(message.KEY)
        if check is not None:
            self._due.append((self._next, key, version, check))
        self.transport.writelines(encode_request(key, version, self._next, "pipe", message))

    @property
    def open_count(self) -> int:
        return len(self._due)

    async def finished(self) -> None:
        while self._due and not self.closed.done():  # noqa: ASYNC110 - there is no event to wait for
            await asyncio.sleep(0.001)
        if self.fault is not None:
            raise self.fault


@dataclass
class Lane:
    """What was sent on one connection so far, and what of it was acknowledged."""

    index: int
    seed: int | str
    identities: dict[str, Identity]
    pipe: Pipe
    topic: str = "plain"
    transactional_topic: str = "transactional"
    values: list[str] = field(default_factory=list)  # of the plain partition, in the order of their requests
    acknowledged_count: int = 0  # of them
    positions: list[int] = field(default_factory=list)  # committed for the group, in order
    acknowledged_position_count: int = 0
    committed: list[str] = field(default_factory=list)  # of transactions, in the order of their Produces
    last_offset: int = -1
    seen_end: int = 0
    sequences: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(f"lane {self.seed} {self.index}")

    @property
    def group(self) -> str:
        return f"group-{self.index}"

    # what may be sent

    def send(self, count: int) -> None:
        """So many steps, all at once; a transaction is several requests."""
        singles = (self.produce, self.produce, self.produce_quietly, self.fetch, self.fetch_patiently)
        singles += (self.commit_position, self.read_position, self.ask_end, self.ask_metadata, self.new_id)
        for _ in range(count):
            if self.random.random() < 0.25:
                self.transactions()
            else:
                self.random.choice(singles)()

    def produce(self) -> None:
        expected = len(self.values)
        self.values.append(f"{self.index}.{expected}")

        def check(reply: Any) -> None:
            part = reply.responses[0].partition_responses[0]
            assert (part.error_code, part.base_offset) == (E.NONE, expected)
            self.acknowledged_count = max(self.acknowledged_count, expected + 1)

        self.pipe.send(self._produce_request(self.topic, self.values[-1]), 9, check)

    def produce_quietly(self) -> None:
        self.values.append(f"{self.index}.{len(self.values)}")
        self.pipe.send(self._produce_request(self.topic, self.values[-1], acks=0), 9, None)

    def fetch(self, *, wait_ms: int = 0, min_bytes: int = 0) -> None:
        sent = list(self.values)
        wanted = FetchPartition(partition=self.index, fetch_offset=0, partition_max_bytes=1 << 20)
        message = FetchRequest(
            max_wait_ms=wait_ms,
            min_bytes=min_bytes,
            max_bytes=1 << 20,
            topics=[FetchTopic(topic=self.topic, partitions=[wanted])],
        )

        def check(reply: Any) -> None:
            part = reply.responses[0].partitions[0]
            assert part.error_code == E.NONE
            found = [bytes(r.value).decode() for b in batches(part.records or b"") for r in b.records()]
            assert found == sent[: len(found)], "it sees nothing of what was sent behind it"
            assert len(found) >= self.seen_end, "and what was once seen"
            self.seen_end = len(found)

        self.pipe.send(message, 11, check)

    def fetch_patiently(self) -> None:
        self.fetch(wait_ms=self.random.choice((5, 50, 700)), min_bytes=1 << 19)

    def commit_position(self) -> None:
        self.positions.append(len(self.positions) + 1)
        count = len(self.positions)
        partition = OffsetCommitRequestPartition(partition_index=self.index, committed_offset=self.positions[-1])
        topic = OffsetCommitRequestTopic(name=self.topic, partitions=[partition])

        def check(reply: Any) -> None:
            assert reply.topics[0].partitions[0].error_code == E.NONE
            self.acknowledged_position_count = count

        message = OffsetCommitRequest(
            group_id=self.group, generation_id_or_member_epoch=-1, member_id="", topics=[topic]
        )
        self.pipe.send(message, 8, check)

    def read_position(self) -> None:
        expected = self.positions[-1] if self.positions else -1
        topic = OffsetFetchRequestTopic(name=self.topic, partition_indexes=[self.index])

        def check(reply: Any) -> None:
            part = reply.topics[0].partitions[0]
            assert (reply.error_code, part.error_code, part.committed_offset) == (E.NONE, E.NONE, expected)

        self.pipe.send(OffsetFetchRequest(group_id=self.group, topics=[topic]), 7, check)

    def ask_end(self) -> None:
        sent_count = len(self.values)
        at = ListOffsetsPartition(partition_index=self.index, timestamp=-1)

        def check(reply: Any) -> None:
            part = reply.topics[0].partitions[0]
            assert part.error_code == E.NONE
            assert self.seen_end <= part.offset <= sent_count
            self.seen_end = part.offset

        message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=self.topic, partitions=[at])])
        self.pipe.send(message, 5, check)

    def ask_metadata(self) -> None:
        def check(reply: Any) -> None:
            assert reply.brokers

        self.pipe.send(MetadataRequest(topics=[]), 9, check)

    def new_id(self) -> None:
        def check(reply: Any) -> None:
            assert reply.error_code == E.NONE

        self.pipe.send(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4, check)

    def transactions(self) -> None:
        """One of each id, their requests mixed: an EndTxn comes behind held requests of others, which it overtakes, and
        directly behind one of its own id, for which it waits."""
        queues = [self._transaction(name) for name in sorted(self.identities)]
        while queues:
            queue = self.random.choice(queues)
            queue.pop(0)()
            if not queue:
                queues.remove(queue)

    def _transaction(self, name: str) -> list[Callable[[], None]]:
        count, commits = self.random.randint(0, 3), self.random.random() < 0.7
        steps: list[Callable[[], None]] = [lambda: self._add(name)]
        steps += [lambda: self._produce_in(name, commits=commits)] * count
        return [*steps, lambda: self._end(name, commits=commits)]

    def _add(self, name: str) -> None:
        identity = self.identities[name]

        def check(reply: Any) -> None:
            result = reply.results_by_topic_v3_and_below[0].results_by_partition[0]
            assert result.partition_error_code == E.NONE, E(result.partition_error_code).name

        message = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=name,
            v3_and_below_producer_id=identity[0],
            v3_and_below_producer_epoch=identity[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=self.transactional_topic, partitions=[self.index])],
        )
        self.pipe.send(message, 3, check)

    def _produce_in(self, name: str, *, commits: bool) -> None:
        sequence = self.sequences.get(name, 0)
        self.sequences[name] = sequence + 1
        value = f"{name} {sequence}"
        if commits:
            self.committed.append(value)

        def check(reply: Any) -> None:
            part = reply.responses[0].partition_responses[0]
            assert part.error_code == E.NONE, E(part.error_code).name
            assert part.base_offset > self.last_offset, "in the order of the requests"
            self.last_offset = part.base_offset

        identity = self.identities[name]
        message = self._produce_request(
            self.transactional_topic, value, name=name, identity=identity, sequence=sequence
        )
        self.pipe.send(message, 11, check)

    def _end(self, name: str, *, commits: bool) -> None:
        identity = self.identities[name]

        def check(reply: Any) -> None:
            assert reply.error_code == E.NONE, E(reply.error_code).name

        message = EndTxnRequest(
            transactional_id=name, producer_id=identity[0], producer_epoch=identity[1], committed=commits
        )
        self.pipe.send(message, 4, check)

    def _produce_request(
        self,
        topic: str,
        value: str,
        *,
        acks: int = -1,
        name: str | None = None,
        identity: Identity = (-1, -1),
        sequence: int = -1,
    ) -> ProduceRequest:
        batch = build_batch(
            [(START_MS, None, value.encode(), ())],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=sequence,
            is_transactional=name is not None,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=self.index, records=batch)])
        return ProduceRequest(transactional_id=name, acks=acks, timeout_ms=30_000, topic_data=[data])
