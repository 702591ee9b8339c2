"""The codecs: rows per second as Arrow through our client beside confluent-kafka's, in large batches and in small ones."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable

import pyarrow as pa
from confluent_kafka import Producer as TheirProducer

from bench.brokers import make_topic
from bench.clients import ROWS_PER_BATCH, poll_arrow, rows_per_second, their_consume
from bench.pairs import ROUNDS, both, in_turn, median
from bench.selection import Wanted
from bench.servers import Server
from bench.table import Row
from oncelog import Producer
from oncelog.wire.compression import Codec

ROWS = {"large": 500_000, "small": 60_000}
BATCH_BYTES = {"large": 1_000_000, "small": 400}
Work = Callable[[Server], None]


def values() -> list[bytes]:
    """Rows that compress as records do: about one to five."""
    return [
        json.dumps({"order": i, "customer": f"c-{i * 7919 % 9973}", "amount": i * 31 % 10007, "state": "paid"}).encode()
        for i in range(ROWS_PER_BATCH)
    ]


def send(server: Server, topic: str, codec: str, size: str, count: int) -> None:
    """`count` rows as Arrow batches through our producer."""

    async def work() -> None:
        batch = pa.record_batch({"value": pa.array(values()[: min(count, ROWS_PER_BATCH)], pa.binary())})
        async with Producer(
            bootstrap_servers=server.bootstrap, batch_size=BATCH_BYTES[size], linger_ms=20, compression_type=codec
        ) as producer:
            for _ in range(count // batch.num_rows):
                await producer.send_arrow(topic, batch, partition=0)
            if count % batch.num_rows:
                await producer.send_arrow(topic, batch.slice(0, count % batch.num_rows), partition=0)
            await producer.flush()

    asyncio.run(work())


def their_send(server: Server, topic: str, codec: str, size: str, count: int) -> None:
    """The same through librdkafka."""
    producer = TheirProducer(
        {
            "bootstrap.servers": server.bootstrap,
            "linger.ms": 20,
            "batch.size": BATCH_BYTES[size],
            "queue.buffering.max.messages": 1_000_000,
            "compression.type": codec,
        }
    )
    rows = values()
    for i in range(count):
        while True:
            try:
                producer.produce(topic, rows[i % len(rows)], partition=0)
                break
            except BufferError:
                producer.poll(0.01)
    assert producer.flush(120) == 0


def codecs(with_kafka: bool, _wanted: Wanted) -> list[Row]:
    """Each codec and size of batch, both directions, both clients."""
    rows = []
    with both(with_kafka, flush_policy="os") as servers:
        for size, count in ROWS.items():
            for codec in (each.name.lower() for each in Codec):
                rows += _of_codec(servers, codec, size, count)
    return rows


def _rate(work: Work, count: int) -> Callable[[Server, int], float]:
    def rate(server: Server, _: int) -> float:
        os.sync()  # the disk is not to work on what an earlier round left in the page cache
        return rows_per_second(lambda: work(server), count)

    return rate


def _of_codec(servers: list[Server], codec: str, size: str, count: int) -> list[Row]:
    read, sent = f"{codec}-{size}-read", f"{codec}-{size}-sent"
    for server in servers:
        make_topic(server, read)
        make_topic(server, sent)
        send(server, read, codec, size, count)
    work: dict[str, tuple[Work, Work]] = {
        "poll_arrow": (
            lambda server: poll_arrow(server, read, count),
            lambda server: their_consume(server, read, count),
        ),
        "send_arrow": (
            lambda server: send(server, sent, codec, size, count),
            lambda server: their_send(server, sent, codec, size, count),
        ),
    }
    found = []
    for what, (ours, theirs) in work.items():
        mine = in_turn(servers, _rate(ours, count))
        others = in_turn(servers, _rate(theirs, count))
        found += [
            Row(
                f"our client on {server.name}: {what}, {codec}, {size} batches",
                "rows/s",
                median(mine, server.name),
                median(others, server.name),
                other_name="confluent-kafka",
                better="more",
                aim=">= 1x",
                note=f"median of {ROUNDS}",
            )
            for server in servers
        ]
    return found
