"""A broker in this process on a directory of its own, and a raw client that speaks the wire codec over a real socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator
from typing import Any
from unittest.mock import patch

from oncelog.broker.broker import Broker
from oncelog.broker.config.addresses import Address
from oncelog.broker.handlers.groups import find_coordinator
from oncelog.broker.node import Node
from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import FrameReader, decode_response, encode_request, response_correlation_id
from oncelog.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnTopic
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.find_coordinator import Coordinator
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import batches, build_batch

TIMEOUT_S = 120  # for a hang: a busy machine may take many times what an idle one does
E = ErrorCode


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Run one test's coroutine, with a bound on its time."""

    async def bounded() -> Any:
        async with asyncio.timeout(TIMEOUT_S):
            return await work

    return asyncio.run(bounded())


class _Protocol(asyncio.Protocol):
    def __init__(self) -> None:
        self.reader = FrameReader()
        self.frames: asyncio.Queue[memoryview | None] = asyncio.Queue()
        self.transport: asyncio.Transport

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        for frame in self.reader.receive(data):
            self.frames.put_nowait(frame)

    def connection_lost(self, exc):
        self.frames.put_nowait(None)


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


class Client:
    """One connection. `call` is send and receive; several `send`s pipeline."""

    def __init__(self, protocol: _Protocol) -> None:
        self._protocol = protocol
        self._sent: dict[int, tuple[int, int]] = {}
        self._next = 0

    @classmethod
    async def connect(cls, broker: Broker) -> Client:
        return await cls.connect_to(*broker.addresses[0])

    @classmethod
    async def connect_to(cls, host: str, port: int) -> Client:
        """A broker of another process, or another broker."""
        _, protocol = await asyncio.get_running_loop().create_connection(_Protocol, host, port)
        return cls(protocol)

    def send(self, message: Any, version: int | None = None) -> int:
        key = ApiKey(message.KEY)
        version = APIS[key].max_stable_version if version is None else version
        self._next += 1
        self._sent[self._next] = (key, version)
        self._protocol.transport.writelines(encode_request(key, version, self._next, "test", message))
        return self._next

    def send_bytes(self, data: bytes) -> None:
        self._protocol.transport.write(data)

    async def frame(self) -> memoryview:
        frame = await self._protocol.frames.get()
        if frame is None:
            raise ConnectionClosed
        return frame

    async def receive(self) -> tuple[int, Any]:
        frame = await self.frame()
        key, version = self._sent.pop(response_correlation_id(frame))
        return decode_response(key, version, frame)

    async def call(self, message: Any, version: int | None = None) -> Any:
        sent = self.send(message, version)
        correlation_id, reply = await self.receive()
        assert correlation_id == sent, "replies come in the order of their requests"
        return reply

    def close(self) -> None:
        self._protocol.transport.abort()

    # the verbs most tests need

    async def create(self, name: str, partitions: int = 1, **configs: str) -> None:
        asked = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
        asked.configs = [
            type(asked).FIELDS[4].wire.item(name=key.replace("_", "."), value=value) for key, value in configs.items()
        ]
        reply = await self.call(CreateTopicsRequest(topics=[asked]))
        assert reply.topics[0].error_code == E.NONE, reply

    async def init(self, transactional_id: str | None = None, *, version: int = 5, **fields: Any) -> tuple[int, int]:
        request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000, **fields)
        reply = await self.call(request, version)
        assert reply.error_code == E.NONE, E(reply.error_code).name
        return reply.producer_id, reply.producer_epoch

    def produce_request(
        self,
        topic: str,
        *values: str,
        partition: int = 0,
        producer: tuple[int, int] = (-1, -1),
        sequence: int = -1,
        transactional_id: str | None = None,
        acks: int = -1,
    ) -> ProduceRequest:
        stamp_ms = time.time_ns() // 1_000_000 - 600_000  # minutes back: older would roll (kafka-notes P25)
        batch = build_batch(
            [(stamp_ms, None, value.encode(), ()) for value in values],
            producer_id=producer[0],
            producer_epoch=producer[1],
            base_sequence=sequence,
            is_transactional=transactional_id is not None,
        )
        data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
        return ProduceRequest(transactional_id=transactional_id, acks=acks, timeout_ms=30_000, topic_data=[data])

    async def produce(self, topic: str, *values: str, version: int = 12, **options: Any) -> Any:
        reply = await self.call(self.produce_request(topic, *values, **options), version)
        return reply.responses[0].partition_responses[0]

    async def add(self, transactional_id: str, producer: tuple[int, int], topic: str, partition: int = 0) -> ErrorCode:
        reply = await self.call(add_request(transactional_id, producer, topic, partition), 3)
        return E(reply.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    async def end(self, transactional_id: str, producer: tuple[int, int], *, commit: bool, version: int = 5) -> Any:
        request = EndTxnRequest(
            transactional_id=transactional_id, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        return await self.call(request, version)

    async def state(self, transactional_id: str) -> str:
        reply = await self.call(DescribeTransactionsRequest(transactional_ids=[transactional_id]))
        return reply.transaction_states[0].transaction_state

    async def read(
        self, topic: str, *, offset: int = 0, committed: bool = True, wait_ms: int = 0, min_bytes: int = 1
    ) -> list[str]:
        data = (await self.call(fetch_request(topic, offset, committed, wait_ms, min_bytes), 12)).responses
        return visible(data[0].partitions[0]) if data else []


def add_request(transactional_id: str, producer: tuple[int, int], topic: str, partition: int = 0) -> Any:
    return AddPartitionsToTxnRequest(
        v3_and_below_transactional_id=transactional_id,
        v3_and_below_producer_id=producer[0],
        v3_and_below_producer_epoch=producer[1],
        v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
    )


def fetch_request(topic: str, offset: int, committed: bool, wait_ms: int = 0, min_bytes: int = 1) -> FetchRequest:
    wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
    return FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        isolation_level=int(committed),
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )


def visible(data: Any) -> list[str]:
    """The values that a reader hands over: aborted transactions and markers left out."""
    return [value for _, value in visible_records(data)]


def visible_records(data: Any) -> list[tuple[int, str]]:
    """The same with their offsets."""
    assert data.error_code == E.NONE, E(data.error_code).name
    pending = sorted((each.first_offset, each.producer_id) for each in data.aborted_transactions or [])
    aborted: set[int] = set()
    found = []
    for batch in batches(data.records or b""):
        while pending and pending[0][0] <= batch.last_offset:
            aborted.add(pending.pop(0)[1])
        if batch.is_control:
            aborted.discard(batch.producer_id)
        elif not (batch.is_transactional and batch.producer_id in aborted):
            found += [(record.offset, bytes(record.value).decode()) for record in batch.records()]
    return found


@contextlib.asynccontextmanager
async def broker_and_client(directory: Any, **config: object) -> AsyncIterator[tuple[Broker, Client]]:
    """A started broker on `directory` with config keys in snake case, and one connection to it.

    It holds what must wait for markers as long as they take: a slow disk must not make CONCURRENT_TRANSACTIONS of it.
    """
    config = {"add_partitions_to_txn_retry_backoff_max_ms": 1000 * TIMEOUT_S} | config
    async with Broker(str(directory), keys(config)) as broker:
        client = await Client.connect(broker)
        try:
            yield broker, client
        finally:
            client.close()


@contextlib.contextmanager
def one_more_that_stands_still(*, alone: bool = False, coordinates: Collection[str] = ()) -> Iterator[None]:
    """The cluster tells of a broker 2, whose connections are taken and never answered. `alone`: of no other one.
    `coordinates`: the groups and transactional ids that are said to be its own."""
    with socket.socket() as still:
        still.bind(("127.0.0.1", 0))
        still.listen()
        told = Node.addresses_told
        second = {2: Address("127.0.0.1", still.getsockname()[1])}

        def addresses_told(node: Node, request: Any) -> dict[int, Address]:
            return second if alone else {**told(node, request), **second}

        found = find_coordinator._found

        def found_there(node: Node, request: Any, key: str, *rest: Any) -> Coordinator:
            if key not in coordinates:
                return found(node, request, key, *rest)
            return Coordinator(key=key, node_id=2, host=second[2].host, port=second[2].port)

        with (
            patch.object(Node, "addresses_told", addresses_told),
            patch.object(find_coordinator, "_found", found_there),
        ):
            yield


def keys(config: dict[str, object]) -> dict[str, object]:
    return {name.replace("_", "."): value for name, value in config.items()}


async def eventually(question: Callable[[], Coroutine[Any, Any, bool]]) -> None:
    """Ask again, without sleeping, until the answer is yes (the test's own bound ends it)."""
    while not await question():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)


async def until(is_so: Callable[[], bool]) -> None:
    """Let the loop turn until `is_so()`."""
    while not is_so():  # noqa: ASYNC110 - there is no event to wait for
        await asyncio.sleep(0)
