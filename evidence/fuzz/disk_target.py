"""A data directory after something wrote into it: a broker starts on it, or says what is damaged, and answers readers.

Bit rot, cut files, zeroed pages, swapped files, strange names; the directory comes from a broker that wrote transactions,
positions, snapshots and checkpoints.
"""

from __future__ import annotations

import asyncio
import logging
from functools import cache
from random import Random

from evidence.fuzz.broker_target import files_of
from evidence.fuzz.findings import Findings, timed
from evidence.fuzz.mutation import mutated
from evidence.world.direct import Client, ConnectionClosed, DirectNetwork, direct_host
from evidence.world.files import SimFiles
from evidence.world.loop import SimLoop, run_simulated
from evidence.world.requests import Session
from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.errors import DamagedLog, StorageError
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.messages.metadata import MetadataRequest

STARTS = 40
CONFIG: dict[str, object] = {
    "transaction.state.log.num.partitions": 1,
    "offsets.topic.num.partitions": 1,
    "log.index.interval.bytes": 0,
    "log.segment.delete.delay.ms": 1000,
    "log.cleaner.backoff.ms": 1000,
}
SUFFIXES = (".cleaned", ".swap", ".deleted", ".tmp", ".damaged", "x")
NAMES = ("t-0", "t-1", "x-0", "t-99999999999", "t-0-delete", "-", "-0", "t--1", "a b-0", "t-0.x-stray", "ü-0")


@cache
def _directory(is_clean: bool) -> dict[str, bytes]:
    """The files of a broker that was stopped, or killed."""
    files = SimFiles("seed")

    async def work(_: SimLoop) -> None:
        network = DirectNetwork()
        broker = Broker("data", CONFIG, direct_host(files, network, "seed"))
        await broker.start()
        session = Session(await Client.connect(network))
        await session.create_topic("t", 2)
        await session.produce("t", 0, ["a", "b"])
        for commits in (True, False, True):
            made = await session.init("tx")
            identity = (made.producer_id, made.producer_epoch)
            await session.produce("t", 1, ["c"], identity=identity, sequence=0, name="tx")
            await session.commit_offset("tx", identity, "g", 1, version=5)
            await session.end("tx", identity, commit=commits)
            await asyncio.sleep(1)
        broker.partitions.checkpoint()
        if is_clean:
            await broker.stop()

    run_simulated("seed", work)
    return files.snapshot("data")


def one_life(seed: str, findings: Findings, count: int = STARTS) -> None:
    """`count` starts, each on another damage."""
    random = Random(f"fuzz {seed}")
    logging.getLogger("oncelog").setLevel(logging.CRITICAL + 1)
    try:
        for number in range(count):
            files = dict(_directory(is_clean=random.random() < 0.5))
            what = [_damage(random, files) for _ in range(random.choice((1, 1, 2, 3)))]
            repeat = f"make fuzz SEED={seed}"
            with timed(findings, f"a start after {what}", repeat):
                try:
                    run_simulated(
                        f"{seed} {number}", lambda loop, files=files, n=number: _start(loop, files, f"{seed} {n}")
                    )
                except (DamagedLog, StorageError, ConfigInvalid):
                    pass
                except Exception as error:  # noqa: BLE001 - whatever it is: that is the question
                    findings.add_error(error, repeat, "; ".join(what))
    finally:
        logging.getLogger("oncelog").setLevel(logging.NOTSET)
    findings.inputs["damaged directories"] += count


def _damage(random: Random, files: dict[str, bytes]) -> str:
    path = random.choice(sorted(files))
    data = files[path]
    kind = random.randrange(9)
    if kind == 0 and data:
        at = random.randrange(len(data))
        files[path] = data[:at] + bytes((data[at] ^ 1 << random.randrange(8),)) + data[at + 1 :]
    elif kind == 1:
        files[path] = data[: random.randrange(len(data) + 1)]
    elif kind == 2:
        at = random.randrange(len(data) + 1)
        files[path] = data[:at] + bytes(random.choice((1, 12, 512))) + data[at + 20 :]
    elif kind == 3:
        files[path] = files[random.choice(sorted(files))]
    elif kind == 4:
        del files[path]
    elif kind == 5:
        files[f"data/{random.choice(NAMES)}/{path.rpartition('/')[2]}"] = data
    elif kind == 6:
        files[path] = data + data
    elif kind == 7:
        files[path + random.choice(SUFFIXES)] = random.choice(
            (data, data[: len(data) // 2], mutated(random, data or b"\0"))
        )
    else:
        files[path] = mutated(random, data or b"\0")
    return f"{kind} {path}"


async def _start(loop: SimLoop, content: dict[str, bytes], seed: str) -> None:
    files, network = files_of(content), DirectNetwork()
    broker = Broker("data", CONFIG, direct_host(files, network, seed))
    await broker.start()
    try:
        client = await Client.connect(network)
        wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in (0, 1)]
        topics = [FetchTopic(topic=name, partitions=wanted) for name in ("t", "__consumer_offsets")]
        for isolation_level in (0, 1):
            request = FetchRequest(max_wait_ms=0, max_bytes=1 << 20, isolation_level=isolation_level, topics=topics)
            await client.call(request, 11)
        await client.call(MetadataRequest(topics=None), 12)
        await asyncio.sleep(30)  # timeouts, retention, checkpoints
    except ConnectionClosed as error:
        raise AssertionError("a reader's connection was closed") from error
    finally:
        await broker.stop()
    errors = [context.get("exception") for context in loop.errors]
    if errors and errors[0] is not None:
        raise errors[0]
