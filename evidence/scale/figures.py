"""The figures of a large broker: each is measured on `oncelog serve` as a process of its own, and has a bound."""

from __future__ import annotations

import asyncio
import os
import pathlib
import random
import socket
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from evidence.crash.broker_process import BrokerProcess
from evidence.scale.clients import (
    connect,
    create_topic,
    end_all,
    init_all,
    pipelined,
    produce_code,
    produce_request,
)
from evidence.world.broker import Client
from oncelog.broker.config.config import BrokerConfig
from oncelog.errors import ErrorCode
from oncelog.log.open_files import OPEN_FILES_MAX
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from oncelog.wire.messages.list_transactions import ListTransactionsRequest

WATCHED_S = 3.0  # readers that read nothing


@dataclass(frozen=True)
class Figure:
    """One measured number and what it may be at most."""

    what: str
    value: float
    unit: str
    at_most: float | None = None

    @property
    def is_good(self) -> bool:
        return self.at_most is None or self.value <= self.at_most

    def __str__(self) -> str:
        bound = "" if self.at_most is None else f" (at most {self.at_most:g})"
        return f"{self.what}: {self.value:.4g} {self.unit}{bound}{'' if self.is_good else '  TOO MUCH'}"


def resident_bytes(process_id: int) -> int:
    """What the process keeps in memory."""
    for line in pathlib.Path(f"/proc/{process_id}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no VmRSS")


def open_files(process_id: int, folder: pathlib.Path) -> int:
    """How many files below `folder` it has open."""
    found = 0
    for link in pathlib.Path(f"/proc/{process_id}/fd").iterdir():
        try:
            found += str(link.readlink()).startswith(str(folder))
        except OSError:
            continue
    return found


def cpu_s(process_id: int) -> float:
    """The processor time that it has used: hardly changed by what else the machine does."""
    fields = pathlib.Path(f"/proc/{process_id}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@asynccontextmanager
async def serving(broker: BrokerProcess) -> AsyncIterator[tuple[float, Client]]:
    """A running broker, the seconds until it was ready, and a connection; killed at the end if it still runs."""
    broker.launch()
    try:
        ready_s = broker.wait_ready()
        client = await connect(broker.port)
        yield ready_s, client
        client.close()
    finally:
        if broker.process.poll() is None:
            broker.kill()


async def ends(client: Client, topic: str, partitions: list[int]) -> list[int]:
    """The end offset of each partition, read_committed."""
    request = ListOffsetsRequest(
        replica_id=-1,
        isolation_level=1,
        topics=[
            ListOffsetsTopic(
                name=topic, partitions=[ListOffsetsPartition(partition_index=p, timestamp=-1) for p in partitions]
            )
        ],
    )
    reply = await client.call(request, 5)
    answers = reply.topics[0].partitions
    assert all(each.error_code == ErrorCode.NONE for each in answers)
    return [each.offset for each in answers]


async def measure_partitions(folder: pathlib.Path, count: int) -> list[Figure]:
    """Create, write once each, restart after a kill and after a clean stop."""
    broker = BrokerProcess(folder, config=("oncelog.max.partitions=20000",))
    figures = []
    everyone = list(range(count))
    async with serving(broker) as (_, client):
        begun = time.monotonic()
        await create_topic(client, "wide", count)
        figures.append(Figure(f"{count} partitions created", time.monotonic() - begun, "s"))
        begun = time.monotonic()
        requests = [(produce_request("wide", index, b"once"), 12) for index in everyone]
        await pipelined(client, requests, produce_code)
        figures.append(Figure("written once each, synced", time.monotonic() - begun, "s"))
        broker.kill()
    async with serving(broker) as (ready_s, client):
        figures.append(Figure("ready after SIGKILL", ready_s, "s", 25 * max(count / 2000, 0.2)))
        assert await ends(client, "wide", everyone) == [1] * count, "nothing is lost"
        figures.append(Figure("files open then", open_files(broker.process.pid, folder), "", OPEN_FILES_MAX))
        begun = time.monotonic()
        assert broker.stop() == 0
        figures.append(Figure("clean stop", time.monotonic() - begun, "s"))
    async with serving(broker) as (ready_s, client):
        figures.append(Figure("ready after a clean stop", ready_s, "s", 15 * max(count / 2000, 0.2)))
        assert await ends(client, "wide", everyone) == [1] * count
        figures.append(Figure("files open then", open_files(broker.process.pid, folder), "", OPEN_FILES_MAX))
        figures.append(Figure("resident memory with them idle", resident_bytes(broker.process.pid) / 2**20, "MiB"))
        topics = {path.name.rpartition("-")[0] for path in broker.data.iterdir() if path.is_dir()}
        assert topics == {"__cluster_metadata", "wide"}, f"internal topics exist from their first use: {topics}"
    return figures


async def measure_readers(folder: pathlib.Path, count: int, log_mib: int = 80) -> list[Figure]:
    """Clients that ask for the whole log over and over, and read nothing of it."""
    broker = BrokerProcess(folder, config=("flush.policy=os", "log.segment.bytes=1073741824"))
    wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 30)
    everything = FetchRequest(max_bytes=1 << 30, topics=[FetchTopic(topic="long", partitions=[wanted])])
    async with serving(broker) as (_, client):
        await create_topic(client, "long", 1)
        requests = [(produce_request("long", 0, random.randbytes(1_000_000)), 12) for _ in range(log_mib)]
        await pipelined(client, requests, produce_code)
        before = resident_bytes(broker.process.pid)
        readers = [await connect(broker.port) for _ in range(count)]
        for reader in readers:
            transport = reader._protocol.transport
            transport.pause_reading()
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            for _ in range(90):
                reader.send(everything, 12)
        largest = 0
        watched_until = time.monotonic() + WATCHED_S
        while time.monotonic() < watched_until:
            await ends(client, "long", [0])  # it goes on answering others
            largest = max(largest, resident_bytes(broker.process.pid) - before)
        for reader in readers:
            reader.close()
        bound = BrokerConfig().oncelog_replies_max_unsent_bytes
        return [Figure(f"{count} readers that read nothing, growth", largest / 2**20, "MiB", bound / 2**20)]


async def measure_connections(folder: pathlib.Path, count: int) -> list[Figure]:
    """Idle connections, each of which has asked something."""
    broker = BrokerProcess(folder)
    async with serving(broker) as (_, client):
        await create_topic(client, "t", 1)
        warm = [await connect(broker.port) for _ in range(20)]
        for each in warm:
            await ends(each, "t", [0])
        before = resident_bytes(broker.process.pid)
        begun = time.monotonic()
        clients = []
        for _ in range(count):
            clients.append(await connect(broker.port))
            await ends(clients[-1], "t", [0])
        taken_s = time.monotonic() - begun
        await asyncio.sleep(1)
        each_bytes = (resident_bytes(broker.process.pid) - before) / count
        for other in (*clients, *warm):
            other.close()
    return [
        Figure(f"{count} connections made, each asked something", taken_s, "s"),
        Figure("memory of each, idle", each_bytes / 1024, "KiB", 40),
    ]


async def measure_transactional_ids(folder: pathlib.Path, count: int) -> list[Figure]:
    """Known transactional ids, loaded again by a restart."""
    broker = BrokerProcess(folder, config=("oncelog.max.transactional.ids=200000",))
    names = [f"transactional-id-{index}" for index in range(count)]
    async with serving(broker) as (_, client):
        begun = time.monotonic()
        await init_all(client, names)
        taken_s = time.monotonic() - begun
        broker.kill()
    figures = [Figure(f"{count} transactional ids initialised", taken_s, "s")]
    for how in ("SIGKILL", "a clean stop"):
        async with serving(broker) as (ready_s, client):
            figures.append(Figure(f"loaded and ready after {how}", ready_s, "s", 5))
            reply = await client.call(ListTransactionsRequest(), 0)
            assert len(reply.transaction_states) == count
            assert broker.stop() == 0
    return figures


async def measure_open_transactions(folder: pathlib.Path, count: int, partition_count: int) -> list[Figure]:
    """Transactions open side by side, each in several partitions, then all committed."""
    broker = BrokerProcess(folder)
    names = [f"open-{index}" for index in range(count)]
    async with serving(broker) as (_, client):
        await create_topic(client, "t", partition_count)
        identities = await init_all(client, names)
        begun = time.monotonic()
        requests = [
            (produce_request("t", (index + step) % partition_count, b"v", producer=identities[name], name=name), 12)
            for index, name in enumerate(names)
            for step in (0, partition_count // 2)
        ]
        await pipelined(client, requests, produce_code)
        opened_s = time.monotonic() - begun
        stable = await ends(client, "t", list(range(partition_count)))
        assert stable == [0] * partition_count, "all of them are open"
        begun = time.monotonic()
        await end_all(client, identities)
        answered_s = time.monotonic() - begun
        written = 2 * len(requests) // partition_count  # records and as many markers
        while await ends(client, "t", list(range(partition_count))) != [written] * partition_count:
            await asyncio.sleep(0.05)
            assert time.monotonic() - begun < 300, "never all decided"
        decided_s = time.monotonic() - begun
    return [
        Figure(f"{count} transactions opened on {partition_count} partitions", opened_s, "s"),
        Figure("all commits answered", answered_s, "s"),
        Figure("all markers written and stable", decided_s, "s", 60),
    ]
