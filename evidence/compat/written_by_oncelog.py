"""A data directory with everything in it that oncelog writes, for Apache Kafka's own tools to read."""

from __future__ import annotations

import asyncio
import pathlib
import random
import shutil

from evidence.compat.make_kafka_streams_group import grown
from evidence.world.broker import Client
from oncelog import Admin, Broker, Consumer, OffsetAndMetadata, Producer, TopicPartition

CONFIG: dict[str, object] = {
    "transaction.two.phase.commit.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "2",
    "offsets.topic.num.partitions": "2",
    "group.streams.initial.rebalance.delay.ms": "0",
    "group.streams.assignment.interval.ms": "0",
}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
SEGMENT_BYTES = 1 << 20
BLOB = random.Random(1).randbytes(60_000)  # a few dozen records fill a segment, compressed or not


async def write_directory(directory: pathlib.Path, *, journal: str = "off", killed: pathlib.Path | None = None) -> None:
    """Several segments, all codecs, headers, transactions committed, aborted, prepared and left open, group offsets.

    `killed` gets what a kill at the end would leave, made whole by `oncelog recover`.
    """
    async with Broker(str(directory), CONFIG | {"journal": journal}) as broker:
        servers = broker.bootstrap_servers
        async with Admin(bootstrap_servers=servers) as admin:
            segments = {"segment.bytes": str(SEGMENT_BYTES)}
            await admin.create_topics({"plain": {"partitions": 2, "configs": segments}})
            await admin.create_topics({"transactional": {"partitions": 2, "configs": segments}, "quiet": {}})
        await _plain(servers)
        await _transactions(servers)
        await _two_phase(servers)
        await _group(servers)
        await _streams_group(*broker.addresses[0])
        if killed is not None:
            shutil.copytree(directory, killed)
    if killed is not None:
        assert await Broker(str(killed), CONFIG).recover_directory() == []


async def _plain(servers: str) -> None:
    for codec in CODECS:
        async with Producer(bootstrap_servers=servers, compression_type=codec, max_request_size=1 << 22) as producer:
            for index in range(20):
                headers = [("codec", codec.encode()), ("none", None)]
                await producer.send("plain", BLOB + b"%d" % index, key=b"%d" % index, headers=headers)
            await producer.send("plain", None, key=b"tombstone", timestamp_ms=1_700_000_000_000)
            await producer.flush()


async def _transactions(servers: str) -> None:
    async with (
        Producer(bootstrap_servers=servers, transactional_id="a", linger_ms=0) as a,
        Producer(bootstrap_servers=servers, transactional_id="b", linger_ms=0) as b,
    ):
        for index in range(40):
            a.begin_transaction()
            b.begin_transaction()
            for partition in (0, 1):
                await a.send_and_wait("transactional", BLOB + b"a%d" % index, partition=partition)
                await b.send_and_wait("transactional", b"b%d" % index, partition=partition)
            offsets = {TopicPartition("plain", 0): OffsetAndMetadata(index, f"a{index}")}
            await a.send_offsets_to_transaction(offsets, "copier")
            await (a.abort_transaction() if index % 3 == 0 else a.commit_transaction())
            await (b.commit_transaction() if index % 3 == 0 else b.abort_transaction())


async def _two_phase(servers: str) -> None:
    options = {"transaction_two_phase_commit_enable": True, "keep_prepared_txn": False}
    async with Producer(bootstrap_servers=servers, transactional_id="decided", **options) as producer:
        producer.begin_transaction()
        await producer.send("transactional", b"decided", partition=0)
        await producer.complete_transaction(await producer.prepare_transaction())
    for _ in range(2):  # the second instance keeps what the first one prepared: Next pair
        options["keep_prepared_txn"] = True
        async with Producer(bootstrap_servers=servers, transactional_id="prepared", **options) as producer:
            if str(producer.prepared_state) == "":
                producer.begin_transaction()
                await producer.send("transactional", b"prepared", partition=1)
                await producer.prepare_transaction()


async def _group(servers: str) -> None:
    async with Consumer("quiet", bootstrap_servers=servers, group_id="members", auto_offset_reset="earliest") as reader:
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send_and_wait("quiet", b"once")
        while not await reader.poll(1000):  # noqa: ASYNC110
            await asyncio.sleep(0)
        await reader.commit()


async def _streams_group(host: str, port: int) -> None:
    client = await Client.connect_to(host, port)
    await grown(client)
    client.close()
