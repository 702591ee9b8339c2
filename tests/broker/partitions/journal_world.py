"""Partitions behind a journal on a simulated disk: what survives an end, compared with the order in which all was appended."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, NamedTuple

from evidence.world.doors import SimRandom
from evidence.world.files import Keep, PowerCut, SimFiles

from oncelog.broker import startup
from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.partitions.flusher import flusher_for
from oncelog.broker.partitions.journal_flusher import JournalFlusher
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.core.metadata.cluster import ClusterMetadata, Topic
from oncelog.errors import ErrorCode, StorageError
from oncelog.host.worker import InlineWorker
from oncelog.log.checkpoint_files import take_clean_shutdown
from oncelog.log.journal import Journal
from oncelog.log.open_files import OpenFiles
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch, build_batch

DATA = "data"
INT64_MAX = 2**63 - 1
CONFIGS = {"segment.bytes": "2500", "index.interval.bytes": "200"}
SMALL = {
    "oncelog.log.journal.SEGMENT_SIZE_BYTES": 3000,
    "oncelog.log.journal.FILL_SIZE_BYTES": 1000,
    "oncelog.log.journal.SEGMENTS_KEPT": 3,
    "oncelog.log.journal.COPIED_BYTES_MAX": 600,
}


def batch_of(value_bytes: int = 10, count: int = 1, timestamp: int = 0) -> RecordBatch:
    return RecordBatch(
        build_batch([(timestamp, b"k", bytes([index % 251]) * value_bytes, ()) for index in range(count)])
    )


class Appended(NamedTuple):
    name: TopicPartition
    end_offset: int
    data: bytes


class TurnSyncer:
    """Gives others a turn before each file, as a disk does; syncs to its end even when nobody waits any more."""

    def __init__(self) -> None:
        self.running: set[asyncio.Task[None]] = set()

    def sync(self, files: Any) -> asyncio.Future[None]:
        task = asyncio.get_running_loop().create_task(self._sync(list(files)))
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        return asyncio.shield(task)

    async def _sync(self, files: list[Any]) -> None:
        failed = None
        for file in files:
            await asyncio.sleep(0)
            try:
                file.sync()
            except StorageError as error:
                failed = failed or error
        if failed is not None:
            raise failed


class JournalWorld:
    """`history`: what was appended and is not known to be lost, in order over all partitions; `acknowledged` end offsets."""

    def __init__(
        self,
        seed: int | str = 0,
        *,
        topics: int = 3,
        has_journal: bool = True,
        syncer: Any = None,
        journal_bytes_max: int = 48_000,
    ) -> None:
        self.files = SimFiles(seed)
        self.journal_bytes_max = journal_bytes_max
        self.metrics = Metrics()
        self.seed = seed
        self.has_journal = has_journal
        self.syncer = syncer or TurnSyncer()
        self.history: list[Appended] = []
        self.acknowledged: dict[TopicPartition, int] = {}
        self.refused: list[tuple[TopicPartition, ErrorCode]] = []
        self.start_count = 0
        # Topics made anew though the disk refused to remove their predecessors' files: where neither had said durably whose
        # they are, records that nobody was told of may come back.
        self.not_removed: set[str] = set()
        self.damage: dict[
            TopicPartition, list[tuple[str, int, bytes, bytes]]
        ] = {}  # path, position, there, in its place
        self.was_offline: set[TopicPartition] = set()  # what of it survived is not known yet
        self.metadata = ClusterMetadata()
        for index in range(topics):
            self.make_topic("abcdefgh"[index], bytes([index + 1]) * 16)
        self.files.make_directory(DATA)
        self.files.sync_directory("")

    def make_topic(self, name: str, topic_id: bytes, **configs: str) -> None:
        given = {key.replace("_", "."): value for key, value in configs.items()}
        self.metadata.topics[name] = Topic(name, topic_id, 1, {**CONFIGS, **given})

    async def start(self, *, has_journal: bool | None = None) -> None:
        """As a broker does, from the clean shutdown marker to the new journal."""
        self.has_journal = self.has_journal if has_journal is None else has_journal
        self.start_count += 1
        self.journal = Journal(self.files, DATA, size_bytes_max=self.journal_bytes_max)
        self.flusher: Any = JournalFlusher(
            self.syncer, self.journal, lambda: self.partitions.checkpoint_aside(), self.metrics
        )
        if not self.has_journal:
            self.flusher = flusher_for("fsync", self.syncer, self.syncer, interval_ms=1)
        self.partitions = Partitions(
            OpenFiles(self.files),
            DATA,
            self.metadata,
            BrokerConfig,
            self.flusher,
            InlineWorker(),
            self.syncer,
        )
        self.parts: Any = SimpleNamespace(
            host=SimpleNamespace(
                files=self.files,
                boot_id=lambda: f"power {self.files.power_count}",
                random=SimRandom(f"{self.seed} {self.start_count}"),
            ),
            node=SimpleNamespace(
                data_directory=DATA,
                cluster_id="c",
                partitions=self.partitions,
                store=SimpleNamespace(close=lambda: True),
            ),
            flusher=self.flusher,
            is_clean_start=take_clean_shutdown(self.files, DATA),
        )
        await startup.recover_partitions(self.parts)
        await self.partitions.open_rest()
        await startup.begin_journal(self.parts)

    def partition(self, topic: str) -> LocalPartition:
        found = self.partitions.get(TopicPartition(topic, 0))
        assert found is not None
        return found

    def append(self, topic: str, value_bytes: int = 10, *, waits: bool = True, timestamp: int = 0) -> int:
        """Append a batch, and note when it is acknowledged. Raises StorageError."""
        partition, batch = self.partition(topic), batch_of(value_bytes, timestamp=timestamp)
        try:
            end_offset = partition.append(batch, now_ms=0)
        except PowerCut:
            if not self.has_journal:  # it may be there: nothing is cut
                self.history.append(Appended(partition.name, batch.end_offset, bytes(batch.data)))
            raise
        self.history.append(Appended(partition.name, end_offset, bytes(batch.data)))

        def committed(code: ErrorCode) -> None:
            if code is ErrorCode.NONE:
                self.acknowledged[partition.name] = max(self.acknowledged.get(partition.name, 0), end_offset)
            else:
                self.refused.append((partition.name, code))

        if waits:
            partition.when_committed(end_offset, committed)
        return end_offset

    async def free(self) -> None:
        """What the flusher does from time to time."""
        if self.has_journal:
            await self.flusher._free(await self.flusher.sync_data())
        else:
            await self.flusher.sync_all()

    async def stop(self) -> None:
        """In order."""
        await self.flusher.sync_all()
        await self.stop_now()
        self.files.kill()

    async def stop_now(self) -> None:
        """What follows when all tasks have ended."""
        await startup.close_directory(self.parts)

    async def crash(self, keep: Keep = Keep.RANDOM) -> None:
        """The power goes; a start, and what must hold then."""
        self.files.crash(keep)
        is_cut = self.has_journal
        await self.start()
        self.check(is_cut=is_cut)

    async def kill(self) -> None:
        """The process is killed: nothing is lost."""
        self.files.kill()
        await self.start()
        self.check(is_cut=False, is_whole=True)

    def damage_one(self, topic: str, share: float) -> None:
        """Bit rot in a batch that was acknowledged; nobody notices yet. Without a journal it looks like a torn tail."""
        name = TopicPartition(topic, 0)
        acknowledged = self.acknowledged.get(name, 0)
        batches = [each.data for each in self.history if each.name == name and each.end_offset <= acknowledged]
        if not batches or not self.has_journal:
            return
        data = batches[int(share * len(batches))]
        folder = f"{DATA}/{name}"
        for path in [f"{folder}/{each}" for each in self.files.list(folder) if each.endswith(".log")]:
            position = self.files.read_whole(path).find(data)
            if position >= 0:
                broken = bytes([*data[:-1], data[-1] ^ 1])
                self.files.overwrite(path, position, data, broken)
                self.damage.setdefault(name, []).append((path, position, broken, data))

    def repair(self) -> None:
        """Somebody puts back what was damaged."""
        for places in self.damage.values():
            for path, position, broken, data in places:
                self.files.overwrite(path, position, broken, data)
        self.damage.clear()

    # what must hold

    def ends(self) -> dict[TopicPartition, int]:
        return {each.name: each.log_end_offset for each in self.partitions}

    def check(self, *, is_cut: bool, is_whole: bool = False) -> None:
        """`is_cut`: the power went while there was a journal; `is_whole`: it did not go."""
        offline = {name for name in self.acknowledged if self.partitions.is_offline(name)}
        assert offline <= self.damage.keys(), "nothing is damaged there"
        unclear, self.was_offline = self.was_offline, offline
        ends = self.ends()
        for name, end_offset in self.acknowledged.items():
            if name not in offline:
                left = ends.get(name, 0)
                assert left >= end_offset, f"{name}: acknowledged up to {end_offset}, {left} left"
        # One that is offline is cut when it is repaired, and then where all others are now.
        cuts = dict.fromkeys(offline, INT64_MAX) | self.partitions._checkpoints.offline_cuts
        ends_then = ends | cuts
        survived = [each.end_offset <= ends_then.get(each.name, 0) for each in self.history]
        if is_cut:
            assert survived == sorted(survived, reverse=True), "what survives is a prefix over all partitions"
        assert all(survived) or not is_whole or unclear
        self.history = [each for each, is_left in zip(self.history, survived, strict=True) if is_left]
        for partition in self.partitions:
            if partition.name.topic in self.not_removed or partition.name in self.damage:
                continue
            for segment in partition.log.segments:
                times = [batch.max_timestamp for batch in segment.scan(0)] if segment.size_bytes else []
                assert segment.largest_timestamp == max(times, default=-1)
            start = partition.log.log_start_offset
            expected = [e.data for e in self.history if e.name == partition.name and e.end_offset > start]
            assert [bytes(batch.data) for batch in partition.log.all_batches()] == expected
            assert partition.log_end_offset == max(
                [e.end_offset for e in self.history if e.name == partition.name], default=0
            )


async def turns(count: int = 12) -> None:
    """Let what runs go on."""
    for _ in range(count):
        await asyncio.sleep(0)
