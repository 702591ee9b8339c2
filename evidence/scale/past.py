"""`python -m evidence.scale.past`: the processor time of a start that has much behind it.

The coordinators' logs are written directly, as a broker leaves them: `--ids` live transactional ids, `--transactions` of
eight ids that are over (three records each), `--commits` of offsets of eight groups. A broker starts on them: first with
nothing stored of how far they are known, so that all of it is recovered; then after a clean stop; then, once each id and
group has gone on and the cleaner had its turn, after a SIGKILL and after a clean stop.
"""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import shutil
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import cycle, islice

from evidence.crash.broker_process import BrokerProcess
from evidence.scale.clients import create_topic, init_all, pipelined
from evidence.scale.figures import Figure, cpu_s, serving
from evidence.world.broker import Client
from oncelog.core.metadata.topic_configs import CONSUMER_OFFSETS_TOPIC, TRANSACTION_STATE_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.host.files import RealFiles
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    create_partition_directory,
    partition_metadata_from_bytes,
)
from oncelog.types import TopicPartition
from oncelog.wire.log_records import consumer_offsets, transaction_state
from oncelog.wire.log_records.consumer_offsets import OffsetCommit
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState
from oncelog.wire.messages.list_transactions import ListTransactionsRequest
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.record_batch import build_batch, set_offsets

FOLDER = pathlib.Path("build/scale-past")
FEW = 8
PARTITION_COUNT = 50
PRODUCERS_FROM = 1_000_000
SEGMENT_SIZE_BYTES = 104_857_600  # Kafka's own of these topics
CLEANED_WITHIN_S = 300.0  # on any machine
LEFT_BYTES_MAX = 1 << 18  # of each
CONFIG = (
    "oncelog.max.transactional.ids=200000",
    "log.cleaner.backoff.ms=500",
    "log.flush.offset.checkpoint.interval.ms=500",
)


def batch_of(key: bytes, value: bytes | None, now_ms: int) -> bytearray:
    return build_batch([(now_ms, key, value, ())])


def transaction_batches(name: str, producer_id: int, now_ms: int) -> list[bytearray]:
    """What one transaction leaves: begun, decided, complete."""
    partitions = frozenset([TopicPartition("orders", producer_id % 12)])
    states = (TransactionState.ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
    return [
        batch_of(
            *transaction_state.record_to_key_value(
                TransactionRecord(
                    name,
                    producer_id,
                    7,
                    60_000,
                    state,
                    partitions if state is not TransactionState.COMPLETE_COMMIT else frozenset(),
                    now_ms,
                    now_ms,
                    client_transaction_version=2,
                )
            ),
            now_ms,
        )
        for state in states
    ]


def id_batch(name: str, producer_id: int, now_ms: int) -> bytearray:
    """What InitProducerId leaves."""
    record = TransactionRecord(name, producer_id, 0, 60_000, last_update_ms=now_ms)
    return batch_of(*transaction_state.record_to_key_value(record), now_ms)


def commit_batch(group_id: str, now_ms: int) -> bytearray:
    record = OffsetCommit(group_id, "orders", 0, 4711, commit_timestamp_ms=now_ms)
    return batch_of(*consumer_offsets.record_to_key_value(record), now_ms)


def repeated(templates: list[bytearray], count: int) -> Iterator[bytearray]:
    return islice(cycle(templates), count)


class Logs:
    """Writes segments into the partitions of one internal topic of a directory that nobody has open."""

    def __init__(self, data: pathlib.Path, topic: str) -> None:
        self._data, self._topic = data, topic
        known = next(data.glob(f"{topic}-*/{PARTITION_METADATA}"))
        self._topic_id = partition_metadata_from_bytes(known.read_bytes())

    def write(self, index: int, batches: Iterable[bytearray]) -> None:
        """Replace what the partition has."""
        name = TopicPartition(self._topic, index)
        shutil.rmtree(self._data / str(name), ignore_errors=True)
        folder = pathlib.Path(create_partition_directory(RealFiles(), str(self._data), name, self._topic_id))
        written = SEGMENT_SIZE_BYTES
        file = None
        for offset, batch in enumerate(batches):
            if written + len(batch) > SEGMENT_SIZE_BYTES:
                if file is not None:
                    file.close()
                file, written = (folder / f"{offset:020d}.log").open("wb"), 0
            assert file is not None
            set_offsets(batch, offset, 0)
            written += file.write(batch)
        if file is not None:
            file.close()


async def started(broker: BrokerProcess, id_count: int) -> float:
    """Start it and stop it cleanly; the processor time until it was ready."""
    async with serving(broker) as (_, client):
        ready_cpu_s = cpu_s(broker.process.pid)
        reply = await client.call(ListTransactionsRequest(), 0)
        assert len(reply.transaction_states) == id_count, (len(reply.transaction_states), id_count)
        assert broker.stop() == 0
    return ready_cpu_s


async def least_of(count: int, broker: BrokerProcess, id_count: int, *, is_unclean: bool = False) -> float:
    """Of several starts: other work in the same caches makes one dearer."""
    times = []
    for _ in range(count):
        if is_unclean:  # nothing is kept of how far the last start came: as after a kill before the first checkpoint
            for name in (CLEAN_SHUTDOWN, RECOVERY_POINTS):
                (broker.data / name).unlink(missing_ok=True)
            for snapshot in broker.data.glob("__*/*.snapshot"):
                snapshot.unlink()
        times.append(await started(broker, id_count))
    return min(times)


async def go_on(broker: BrokerProcess, busy: list[str], groups: list[str]) -> int:
    """One more of each, and time for the cleaner; then SIGKILL. The bytes that the coordinators' logs have left."""
    async with serving(broker) as (_, client):
        await init_all(client, busy)
        for group_id in groups:
            await commit_offset(client, group_id)
        deadline = time.monotonic() + CLEANED_WITHIN_S
        while (left := size_of_logs(broker.data)) > LEFT_BYTES_MAX * (len(busy) + len(groups)):
            assert time.monotonic() < deadline, f"not cleaned: {left} bytes"
            await asyncio.sleep(0.5)
        broker.kill()
    return left


def size_of_logs(data: pathlib.Path) -> int:
    """The bytes in logs of internal topics that a start would read."""
    return sum(path.stat().st_size for path in data.glob("__[ct][or]*/*.log"))


async def commit_offset(client: Client, group_id: str) -> None:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=4712)
    request = OffsetCommitRequest(
        group_id=group_id, topics=[OffsetCommitRequestTopic(name="orders", partitions=[partition])]
    )
    await pipelined(client, [(request, 8)], lambda reply: reply.topics[0].partitions[0].error_code)


def names_of(count: int, what: str) -> list[str]:
    return [f"{what}-{index}" for index in range(count)]


async def make(broker: BrokerProcess) -> None:
    """A directory whose internal topics exist."""
    async with serving(broker) as (_, client):
        await create_topic(client, "orders", 12)
        await init_all(client, ["first"])
        await commit_offset(client, "first")
        assert broker.stop() == 0


def fill(data: pathlib.Path, ids: int, transactions: int, commits: int) -> int:
    """Write the logs; how many transactional ids they have."""
    now_ms = time.time_ns() // 1_000_000
    by_partition: dict[int, list[Iterator[bytearray]]] = {}
    for number, name in enumerate(names_of(ids, "live")):
        index = coordinator_partition(name, PARTITION_COUNT)
        by_partition.setdefault(index, []).append(iter([id_batch(name, PRODUCERS_FROM + number, now_ms)]))
    few = names_of(FEW if transactions else 0, "busy")
    for number, name in enumerate(few):
        templates = transaction_batches(name, PRODUCERS_FROM + ids + number, now_ms)
        index = coordinator_partition(name, PARTITION_COUNT)
        by_partition.setdefault(index, []).append(repeated(templates, 3 * transactions // FEW))
    logs = Logs(data, TRANSACTION_STATE_TOPIC)
    for stale in data.glob(f"{TRANSACTION_STATE_TOPIC}-*"):
        shutil.rmtree(stale)
    for index, parts in by_partition.items():
        logs.write(index, (batch for part in parts for batch in part))
    offsets = Logs(data, CONSUMER_OFFSETS_TOPIC)
    for group_id in names_of(FEW if commits else 0, "group"):
        index = coordinator_partition(group_id, PARTITION_COUNT)
        offsets.write(index, repeated([commit_batch(group_id, now_ms)], commits // FEW))
    return ids + len(few)


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.scale.past", description=__doc__)
    parser.add_argument("--ids", type=int, default=0)
    parser.add_argument("--transactions", type=int, default=0)
    parser.add_argument("--commits", type=int, default=0)
    options = parser.parse_args()
    folder = FOLDER.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    broker = BrokerProcess(folder, config=CONFIG)
    asyncio.run(make(broker))
    figures = [Figure("CPU until ready, nothing stored", asyncio.run(least_of(3, broker, 1)), "s")]
    count = fill(broker.data, options.ids, options.transactions, options.commits)
    what = f"{options.ids} ids, {options.transactions} transactions and {options.commits} commits that are over"
    for how, is_unclean in (("all of it recovered", True), ("after a clean stop", False)):
        used_s = asyncio.run(least_of(3, broker, count, is_unclean=is_unclean))
        figures.append(Figure(f"CPU until ready, {what}, {how}", used_s, "s"))
        print(figures[-1], file=sys.stderr, flush=True)
    if options.transactions or options.commits:
        busy = names_of(FEW if options.transactions else 0, "busy")
        groups = names_of(FEW if options.commits else 0, "group")
        left = asyncio.run(go_on(broker, busy, groups))
        figures.append(Figure("bytes left once each has gone on and was cleaned", left / 2**20, "MiB"))
        used_s = asyncio.run(least_of(1, broker, count))
        figures.append(Figure("CPU until ready then, after SIGKILL", used_s, "s"))
        figures.append(Figure("and after a clean stop", asyncio.run(least_of(3, broker, count)), "s"))
    for figure in figures:
        print(figure)
    return 0


if __name__ == "__main__":
    sys.exit(main())
