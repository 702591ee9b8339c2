"""Rows that the broker decides: Produce and Fetch by bare sockets, many partitions in turn, many topics at once."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from itertools import islice, repeat
from typing import Any

from bench import frames, pipe
from bench.costs import Measured, cpu, figures, rate, spending
from bench.pairs import KAFKA, OURS, ROUNDS, both, in_turn, median
from bench.parts import ROWS
from bench.selection import Wanted
from bench.servers import Server
from bench.table import Row

BATCH_BYTES = 100_000  # of values: the broker sees a batch of so many bytes whatever its records
PRODUCED_MB = 300
WARM_UP_MB = 100
FETCHED_MB = 1_000
STORED_MB = 200
BATCHES_PER_FETCH = 10
PRODUCE_DEPTH = 5  # requests under way on a connection, as Kafka's producers have
FETCH_DEPTH = 2  # one on the way while another is being answered
PARTITIONS = 1_000
ROUND_TRIPS = 5  # through all partitions
TOPICS = 200
METADATA_REQUESTS = 500
TOPIC_ALREADY_EXISTS = 36
NOT_YET = {3, 5, 6}  # UNKNOWN_TOPIC_OR_PARTITION, LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER
ASKED_MAX, PAUSE_S = 2_000, 0.005


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def create(server: Server, name: str, partition_count: int = 1) -> Any:
    """A topic's id. Its files go at once when it is deleted."""
    reply: Any = pipe.ask(server, frames.create_topics([name], partition_count, file_delete_delay_ms="0"))[0]
    _await_leaders(server, [name])
    return reply.topics[0].topic_id


def delete(server: Server, name: str) -> None:
    """Delete a topic that was measured."""
    pipe.ask(server, frames.delete_topics([name]))


def _await_leaders(server: Server, names: list[str]) -> None:
    """Apache Kafka answers CreateTopics before every partition has its leader: ask until Metadata has no error."""
    with pipe.connected(server) as connection:
        frame = frames.metadata(names)
        for _ in range(ASKED_MAX):
            reply = pipe.exchange(connection, frame)
            message: Any = frames.reply_of(*frames.request_of(frame), reply)
            if not any(frames.error_codes(message)):
                return
            time.sleep(PAUSE_S)
    raise RuntimeError(f"{names[0]} has no leader")


def batch_frame(topic: str, partition: int, size: int) -> bytes:
    """Produce of one batch of BATCH_BYTES in records of `size` bytes, without a producer: it may be sent again."""
    return frames.produce(topic, partition, [b"x" * size] * (BATCH_BYTES // size), now_ms())


def reply_size(server: Server, *sent: bytes) -> int:
    """How long a reply is; each is looked at once, and those that follow are only measured. Raises WrongReply.

    Apache Kafka tells a partition's leader before that leader knows it: it is asked until it does.
    """
    with pipe.connected(server) as connection:
        for frame in sent:
            for _ in range(ASKED_MAX):
                reply = pipe.exchange(connection, frame)
                message: Any = frames.reply_of(*frames.request_of(frame), reply)
                if not set(frames.error_codes(message)) & NOT_YET:
                    break
                time.sleep(PAUSE_S)
            pipe.checked(frame, reply)
    return len(reply) - 4


def produce(server: Server, topic: str, size: int, connections: int, total_mb: int = PRODUCED_MB) -> Measured:
    """MB/s of acknowledged records; each connection has a partition of its own."""
    create(server, topic, connections)
    sent = [batch_frame(topic, partition, size) for partition in range(connections)]
    expected = reply_size(server, *sent)
    count = total_mb * 1_000_000 // BATCH_BYTES // connections
    os.sync()  # the disk is not to work on what an earlier round left in the page cache
    with spending(server) as spent:
        pipe.pump(server, [repeat(frame, count) for frame in sent], PRODUCE_DEPTH, expected)
    delete(server, topic)  # a page cache that is full makes the next round dearer
    return rate(spent, count * connections * BATCH_BYTES / 1e6)


def store(server: Server, topic: str, size: int) -> Any:
    """A topic of STORED_MB to fetch from; its id."""
    topic_id = create(server, topic)
    frame = batch_frame(topic, 0, size)
    expected = reply_size(server, frame)
    pipe.pump(server, [repeat(frame, STORED_MB * 1_000_000 // BATCH_BYTES - 1)], PRODUCE_DEPTH, expected)
    return topic_id


def fetch_frames(topic_id: Any, size: int, batch_size_bytes: int) -> Iterator[bytes]:
    """Requests for ten whole batches each, from the beginning to the end, again and again."""
    per_fetch = BATCHES_PER_FETCH * (BATCH_BYTES // size)
    total = STORED_MB * 1_000_000 // size
    max_bytes = BATCHES_PER_FETCH * batch_size_bytes
    once = [frames.fetch(topic_id, 0, offset, max_bytes=max_bytes) for offset in range(0, total, per_fetch)]
    while True:
        yield from once


def fetch(server: Server, topic_id: Any, size: int, total_mb: int = FETCHED_MB) -> Measured:
    """MB/s of records from one partition over one connection."""
    batch_size_bytes = len(frames.batch([b"x" * size] * (BATCH_BYTES // size), now_ms()))
    sent = fetch_frames(topic_id, size, batch_size_bytes)
    expected = reply_size(server, next(sent))
    if expected < BATCHES_PER_FETCH * batch_size_bytes:
        raise pipe.WrongReply(f"a Fetch of {BATCHES_PER_FETCH} batches gave {expected} bytes")
    count = total_mb * 1_000_000 // BATCH_BYTES // BATCHES_PER_FETCH
    with spending(server) as spent:
        pipe.pump(server, [islice(sent, count)], FETCH_DEPTH, expected)
    return rate(spent, count * BATCHES_PER_FETCH * BATCH_BYTES / 1e6)


def write_round(server: Server, topic: str, connections: int = 16) -> Measured:
    """Produce requests a second, each with one record for the next of 1,000 partitions."""
    create(server, topic, PARTITIONS)
    sent = [frames.produce(topic, partition, [b"x" * 100], now_ms()) for partition in range(PARTITIONS)]
    shares = [sent[i::connections] for i in range(connections)]
    reply_size(server, *sent)  # the files are there
    with spending(server) as spent:
        pipe.pump(server, [share * ROUND_TRIPS for share in shares], PRODUCE_DEPTH)
    delete(server, topic)
    return rate(spent, PARTITIONS * ROUND_TRIPS)


def create_many(server: Server, prefix: str) -> Measured:
    """Seconds until 200 topics of one request exist and have their leaders."""
    names = [f"{prefix}-{i}" for i in range(TOPICS)]
    frame = frames.create_topics(names)
    with spending(server) as spent:
        pipe.ask(server, frame)
        _await_leaders(server, names)
    return Measured(spent.seconds, spent.broker_s / TOPICS * 1e6, spent.client_s / TOPICS * 1e6)


def ask_metadata(server: Server, prefix: str) -> Measured:
    """Requests a second for the Metadata of 200 topics."""
    names = [f"{prefix}-{i}" for i in range(TOPICS)]
    pipe.ask(server, frames.create_topics(names), may_fail=(TOPIC_ALREADY_EXISTS,))
    _await_leaders(server, names)
    frame = frames.metadata(names)
    expected = reply_size(server, frame)
    with spending(server) as spent:
        pipe.pump(server, [repeat(frame, METADATA_REQUESTS)], 1, expected)
    return rate(spent, METADATA_REQUESTS)


def sockets(with_kafka: bool, wanted: Wanted) -> list[Row]:
    """Ours with flush.policy=os, as Apache Kafka comes; rows that say so with every acknowledgement synced."""
    rows = []
    keys = wanted.of(ROWS["sockets"])
    for is_synced in (False, True):
        chosen = [key for key in keys if key.endswith("-fsync") == is_synced]
        if chosen:
            with both(with_kafka, **({} if is_synced else {"flush_policy": "os"})) as servers:
                rows += [row_of(servers, key) for key in chosen]
    return rows


def row_of(servers: list[Server], key: str) -> Row:
    """Measure one row."""
    kind, _, rest = key.partition("-")
    if kind == "fetch":
        size = int(rest)
        topics = {server.name: store(server, f"stored-{size}", size) for server in servers}
        name = f"Fetch by a bare socket, {size} B records"
        found = _row(servers, key, name, "MB/s", "MB", lambda server, _: fetch(server, topics[server.name], size))
        for server in servers:
            delete(server, f"stored-{size}")
        return found
    if kind == "produce":
        size, connections = map(int, rest.removesuffix("-fsync").split("-"))
        name = f"Produce of pre-encoded frames, {size} B records, {_count(connections, 'connection')}"
        policy = "fsync" if rest.endswith("-fsync") else "os"
        for server in servers:
            produce(server, f"warm-{key}", size, connections, WARM_UP_MB)
        return _row(
            servers,
            key,
            f"{name}, flush.policy={policy}",
            "MB/s",
            "MB",
            lambda server, i: produce(server, f"{key}-{i}", size, connections),
        )
    if kind == "partitions":
        name = "a topic of 1,000 partitions written round, 16 connections, flush.policy=os"
        return _row(servers, key, name, "/s", "request", lambda server, i: write_round(server, f"{key}-{i}"))
    if kind == "topics":
        name = f"{TOPICS} topics created in one request, with leaders"
        return _row(servers, key, name, "s", "topic", lambda server, i: create_many(server, f"{key}-{i}"), "less")
    assert kind == "metadata", key
    name = f"Metadata of {TOPICS} topics, requests a second"
    return _row(servers, key, name, "/s", "request", lambda server, _: ask_metadata(server, key))


def _row(
    servers: list[Server],
    key: str,
    name: str,
    unit: str,
    per: str,
    measure: Callable[[Server, int], Measured],
    better: str = "more",
) -> Row:
    measured = in_turn(servers, measure, what=key)
    found = figures(measured)
    return Row(
        name,
        unit,
        median(found, OURS),
        median(found, KAFKA),
        better=better,
        aim=">= 1x",
        note=f"median of {ROUNDS}",
        cpu=cpu(measured, OURS, KAFKA, per),
    )


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'s' if count > 1 else ''}"
