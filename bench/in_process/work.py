"""What is measured: a client's requests as frames that are ready before the clock starts, a few operations at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench import frames
from bench.in_process.memory_host import START_MS, Exchange
from oncelog.wire.messages.fetch import FetchResponse
from oncelog.wire.messages.heartbeat import HeartbeatRequest
from oncelog.wire.messages.init_producer_id import InitProducerIdRequest
from oncelog.wire.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog.wire.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment

TOPIC = "bench"
VALUE = b"x" * 100
FETCHED_RECORDS = 10
METADATA_TOPICS = 10
MEMBER_NOT_YET = 79  # MEMBER_ID_REQUIRED: it is told its id and comes again


class Refused(Exception):
    """A reply holds an error code: what was measured was not the work."""


async def ask(exchange: Exchange, *sent: bytes, ignored: tuple[int, ...] = ()) -> Any:
    """The last reply to these frames. Raises Refused."""
    await exchange.begin(list(sent))
    return check(list(sent), exchange.replies, ignored)


def check(sent: list[bytes], replies: list[bytes], ignored: tuple[int, ...] = ()) -> Any:
    """Every reply must be without an error; the last one's message. Raises Refused."""
    assert len(replies) == len(sent), f"{len(replies)} replies to {len(sent)} requests"
    message = None
    for request, reply in zip(sent, replies, strict=True):
        key, version = frames.request_of(request)
        message = frames.reply_of(key, version, reply)
        codes = [code for code in frames.error_codes(message) if code and code not in ignored]
        if codes:
            raise Refused(f"{key.name} v{version}: {codes}")
        if isinstance(message, FetchResponse) and not all(
            part.records for topic in message.responses for part in topic.partitions
        ):
            raise Refused("a Fetch without records")
    return message


@dataclass(frozen=True)
class Work:
    """`next_frames(count)` are the requests of the next `count` operations, `request_count` for each. `slice_count`
    operations take about a millisecond; they are measured when `first_count` have filled the processor's caches."""

    name: str
    request_count: int
    first_count: int
    slice_count: int
    repeats: int  # slices in a turn: what is long and varied needs more of them until nobody disturbed one
    next_frames: Callable[[int], list[bytes]]


async def prepare(exchange: Exchange) -> list[Work]:
    """Make the topics, producers and members of a fresh broker."""
    names = [TOPIC, *(f"{TOPIC}-{i}" for i in range(1, METADATA_TOPICS))]
    created = await ask(exchange, frames.create_topics(names))
    return [
        await _transaction_of_librdkafka(exchange),
        await _transaction_of_ours(exchange),
        await _produce(exchange),
        await _fetch(exchange, names[3], created.topics[3].topic_id),
        await _heartbeat(exchange),
        Work("Metadata of 10 topics", 1, 3, 12, 1, lambda count: [frames.metadata(names)] * count),
    ]


async def _producer(exchange: Exchange, transactional_id: str | None, version: int) -> tuple[int, int]:
    request = InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000)
    reply = await ask(exchange, frames.frame(request, version))
    return reply.producer_id, reply.producer_epoch


async def _transaction_of_librdkafka(exchange: Exchange) -> Work:
    """AddPartitionsToTxn, Produce of one record, EndTxn: the first protocol, in which an epoch lasts."""
    name, sequence = "librdkafka", 0
    producer = await _producer(exchange, name, 1)

    def next_frames(count: int) -> list[bytes]:
        nonlocal sequence
        found = []
        for _ in range(count):
            found += [
                frames.add_partitions(name, producer, f"{TOPIC}-1", 0),
                frames.produce(
                    f"{TOPIC}-1",
                    0,
                    [VALUE],
                    START_MS,
                    producer=producer,
                    sequence=sequence,
                    transactional_id=name,
                ),
                frames.end_transaction(name, producer, version=1),
            ]
            sequence += 1
        return found

    return Work("transaction of librdkafka", 3, 1, 2, 3, next_frames)


async def _transaction_of_ours(exchange: Exchange) -> Work:
    """Produce of one record and EndTxn: the second protocol (KIP-890), in which each transaction raises the epoch."""
    name = "ours"
    producer_id, producer_epoch = await _producer(exchange, name, 5)

    def next_frames(count: int) -> list[bytes]:
        nonlocal producer_epoch
        found = []
        for _ in range(count):
            producer = (producer_id, producer_epoch)
            found += [
                frames.produce(
                    f"{TOPIC}-2",
                    0,
                    [VALUE],
                    START_MS,
                    producer=producer,
                    sequence=0,
                    transactional_id=name,
                    version=12,
                ),
                frames.end_transaction(name, producer, version=5),
            ]
            producer_epoch += 1
        return found

    return Work("transaction of ours", 2, 1, 2, 3, next_frames)


async def _produce(exchange: Exchange) -> Work:
    """Produce of one record by an idempotent producer."""
    sequence = 0
    producer = await _producer(exchange, None, 1)

    def next_frames(count: int) -> list[bytes]:
        nonlocal sequence
        found = []
        for _ in range(count):
            found.append(frames.produce(TOPIC, 0, [VALUE], START_MS, producer=producer, sequence=sequence))
            sequence += 1
        return found

    return Work("Produce", 1, 3, 12, 1, next_frames)


async def _fetch(exchange: Exchange, topic: str, topic_id: Any) -> Work:
    """Fetch of ten records of 100 B, again and again."""
    await ask(exchange, frames.produce(topic, 0, [VALUE] * FETCHED_RECORDS, START_MS))
    sent = frames.fetch(topic_id, 0, 0, max_bytes=1 << 20, committed=True)
    return Work("Fetch", 1, 4, 20, 1, lambda count: [sent] * count)


async def _heartbeat(exchange: Exchange) -> Work:
    """Heartbeat of the only member of a classic group."""
    group = "bench"
    join = JoinGroupRequest(
        group_id=group,
        session_timeout_ms=45_000,
        rebalance_timeout_ms=45_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range")],
    )
    told = await ask(exchange, frames.frame(join, 5), ignored=(MEMBER_NOT_YET,))
    join.member_id = told.member_id
    joined = await ask(exchange, frames.frame(join, 5))
    assignment = SyncGroupRequestAssignment(member_id=told.member_id, assignment=b"")
    sync = SyncGroupRequest(
        group_id=group, generation_id=joined.generation_id, member_id=told.member_id, assignments=[assignment]
    )
    await ask(exchange, frames.frame(sync, 3))
    beat = HeartbeatRequest(group_id=group, generation_id=joined.generation_id, member_id=told.member_id)
    sent = frames.frame(beat, 3)
    return Work("Heartbeat", 1, 5, 30, 1, lambda count: [sent] * count)
