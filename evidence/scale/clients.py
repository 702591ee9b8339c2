"""Raw clients for large numbers: many requests on their way at once, replies in order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

from evidence.world.broker import Client, _Protocol
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog.wire.messages.end_txn import EndTxnRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch

E = ErrorCode
IN_FLIGHT = 64
LATER = {E.CONCURRENT_TRANSACTIONS, E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE}


async def connect(port: int) -> Client:
    """One connection."""
    _, protocol = await asyncio.get_running_loop().create_connection(_Protocol, "127.0.0.1", port)
    return Client(protocol)


async def pipelined(
    client: Client, requests: Iterable[tuple[Any, int]], code_of: Callable[[Any], int]
) -> list[tuple[Any, Any]]:
    """Send all, `IN_FLIGHT` at a time; (request, reply) of each. What the broker asks to send again is sent again."""
    answered: list[tuple[Any, Any]] = []
    waiting = list(requests)
    while waiting:
        some, waiting = waiting[:IN_FLIGHT], waiting[IN_FLIGHT:]
        for message, version in some:
            client.send(message, version)
        for request in some:
            _, reply = await client.receive()
            code = E(code_of(reply))
            if code in LATER:
                waiting.append(request)
                continue
            assert code is E.NONE, f"{type(request[0]).__name__}: {code.name}"
            answered.append((request[0], reply))
    return answered


async def create_topic(client: Client, name: str, partition_count: int) -> None:
    topic = CreatableTopic(name=name, num_partitions=partition_count, replication_factor=1)
    reply = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=60_000), 5)
    assert reply.topics[0].error_code == E.NONE, E(reply.topics[0].error_code).name


def produce_request(
    topic: str, partition: int, value: bytes, *, producer: tuple[int, int] = (-1, -1), name: str | None = None
) -> ProduceRequest:
    batch = build_batch(
        [(time.time_ns() // 1_000_000, b"key", value, ())],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=0 if name else -1,
        is_transactional=name is not None,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
    return ProduceRequest(transactional_id=name, acks=-1, timeout_ms=60_000, topic_data=[data])


def produce_code(reply: Any) -> int:
    return int(reply.responses[0].partition_responses[0].error_code)


async def init_all(client: Client, names: list[str]) -> dict[str, tuple[int, int]]:
    """An identity for each transactional id."""
    requests = [(InitProducerIdRequest(transactional_id=name, transaction_timeout_ms=600_000), 5) for name in names]
    answered = await pipelined(client, requests, lambda reply: reply.error_code)
    return {asked.transactional_id: (reply.producer_id, reply.producer_epoch) for asked, reply in answered}


async def end_all(client: Client, identities: dict[str, tuple[int, int]]) -> None:
    """Commit a transaction of each."""
    requests = [
        (
            EndTxnRequest(transactional_id=name, producer_id=identity[0], producer_epoch=identity[1], committed=True),
            5,
        )
        for name, identity in identities.items()
    ]
    await pipelined(client, requests, lambda reply: reply.error_code)
