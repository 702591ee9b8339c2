"""The compaction drill: a broker that cleans all the time is killed again and again, and readers always see the same.

Writers with both protocols of transactions, and one without, write the same few keys over and over. After every round a
read_committed reader's table must equal what the writers were promised. Every segment that was cleaned is kept (a hard
link), for Apache Kafka's own tool to read in the end.
"""

from __future__ import annotations

import asyncio
import os
import pathlib
import random
import re
from collections.abc import Callable
from dataclasses import dataclass, field

from evidence.compaction.writer import CUT, TOPIC, Table, Writer, connect
from evidence.crash.broker_process import BrokerProcess
from evidence.world.broker import Client
from evidence.world.requests import visible_records
from oncelog.errors import ErrorCode
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog.wire.record_batch import batches

CONFIG = (
    "log.cleaner.backoff.ms=20",
    "offsets.topic.num.partitions=1",
    "transaction.state.log.num.partitions=2",
    "log.flush.offset.checkpoint.interval.ms=300",
)
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "60",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "300",
    "file.delete.delay.ms": "100",
}
INDEXES = (".index", ".timeindex", ".txnindex")
COMPLAINTS = re.compile(
    r"mismatch|isvalid: false|exception|could not|skipping|corrupt|are not valid|out of order|not match", re.IGNORECASE
)


@dataclass
class Outcome:
    """What happened, and what is wrong."""

    cleanings: int = 0
    kills: int = 0
    rounds: int = 0
    committed: int = 0
    aborted: int = 0
    segments: int = 0
    dumped: int = 0
    problems: list[str] = field(default_factory=list)

    def summary(self) -> str:
        tool = f", Apache Kafka's tool read {self.dumped}" if self.dumped else ", Apache Kafka's tool is not here"
        return (
            f"compaction: {self.cleanings} cleanings, {self.kills} SIGKILLs, {self.rounds} views compared, "
            f"{self.committed} committed and {self.aborted} aborted transactions, {self.segments} segments kept{tool}, "
            f"{len(self.problems)} problems"
        )


class Drill:
    """Under `folder`; `say` gets a line now and then."""

    def __init__(self, folder: pathlib.Path, cleanings: int, kills: int, seed: int, say: Callable[[str], None]) -> None:
        self._broker = BrokerProcess(folder, config=CONFIG)
        self._log = folder / "broker.log"
        self._kept = folder / "segments"
        self._cleanings, self._kills = cleanings, kills
        self._random = random.Random(seed)
        self._say = say
        self._seen: set[tuple[int, int]] = set()
        self.outcome = Outcome()
        self.writers = [
            Writer(number, is_new=number != 2, is_transactional=number != 3, random=random.Random(f"{seed} {number}"))
            for number in range(4)
        ]

    async def run(self) -> Outcome:
        """Until there were enough cleanings and kills, or something is wrong."""
        outcome = self.outcome
        self._broker.launch()
        self._broker.wait_ready()
        try:
            await self._create_topic()
            clients = await self._begin()
            while not outcome.problems and (outcome.cleanings < self._cleanings or outcome.kills < self._kills):
                is_due = outcome.kills * self._cleanings < outcome.cleanings * self._kills
                if is_due or outcome.cleanings >= self._cleanings:
                    await self._killed_round(clients)
                    clients = await self._begin()
                else:
                    await asyncio.gather(*(w.work(c) for w, c in zip(self.writers, clients, strict=True)))
                await self._compare()
                self._keep_segments()
            for client in clients:
                client.close()
            if not outcome.problems:
                assert self._broker.stop() == 0
                self._broker.launch()
                self._broker.wait_ready()
                await self._compare()
        finally:
            self._broker.kill()
        outcome.committed = sum(writer.committed for writer in self.writers)
        outcome.aborted = sum(writer.aborted for writer in self.writers)
        return outcome

    async def _create_topic(self) -> None:
        client = await connect(self._broker.port)
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in TOPIC_CONFIG.items()]
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=configs)
        reply = await client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert reply.topics[0].error_code == ErrorCode.NONE, reply
        client.close()

    async def _begin(self) -> list[Client]:
        clients = [await connect(self._broker.port) for _ in self.writers]
        for writer, client in zip(self.writers, clients, strict=True):
            await writer.init(client)
        return clients

    async def _killed_round(self, clients: list[Client]) -> None:
        """SIGKILL while the writers write and the cleaner cleans; then a new life."""

        async def until_cut(writer: Writer, client: Client) -> None:
            try:
                while True:
                    await writer.work(client)
            except CUT:
                client.close()

        tasks = [
            asyncio.get_running_loop().create_task(until_cut(w, c)) for w, c in zip(self.writers, clients, strict=True)
        ]
        await asyncio.sleep(self._random.uniform(0.02, 0.4))
        self._broker.kill()
        await asyncio.gather(*tasks)
        self.outcome.kills += 1
        self._broker.launch()
        self._broker.wait_ready()

    async def _compare(self) -> None:
        outcome = self.outcome
        client = await connect(self._broker.port)
        seen = await read_table(client)
        client.close()
        for writer in self.writers:
            problem = writer.settle(seen)
            if problem is not None:
                outcome.problems.append(f"after {outcome.cleanings} cleanings, {outcome.kills} kills: {problem}")
        outcome.rounds += 1
        text = self._log.read_text(errors="replace")
        outcome.cleanings = text.count(f"cleaned {TOPIC}-0")
        outcome.problems += [line for line in text.splitlines() if "CRITICAL" in line or "Traceback" in line]
        if outcome.rounds % 50 == 0:
            self._say(outcome.summary())

    def _keep_segments(self) -> None:
        """Hard links of segments that are not kept yet, with their indexes; not amid a swap."""
        directory = self._broker.data / f"{TOPIC}-0"
        names = sorted(path.name for path in directory.iterdir())
        if any(name.endswith((".swap", ".cleaned")) for name in names):
            return
        logs = [name for name in names if name.endswith(".log")]
        for name in logs[:-1]:
            try:
                before = _inodes(directory, name)
                log = before[0]
                if log is None or log in self._seen:
                    continue
                target = self._kept / f"{len(self._seen)}"
                target.mkdir(parents=True)
                for suffix, inode in zip((".log", *INDEXES), before, strict=True):
                    if inode is not None:
                        source = directory / (name.removesuffix(".log") + suffix)
                        os.link(source, target / source.name)
                if _inodes(directory, name) == before and not list(directory.glob("*.swap")):
                    self._seen.add(log)
                    self.outcome.segments += 1
                    continue
            except FileNotFoundError:
                target = self._kept / f"{len(self._seen)}"
            for path in target.glob("*"):
                path.unlink()
            if target.exists():
                target.rmdir()


def _inodes(directory: pathlib.Path, log_name: str) -> list[tuple[int, int] | None]:
    found: list[tuple[int, int] | None] = []
    for suffix in (".log", *INDEXES):
        path = directory / (log_name.removesuffix(".log") + suffix)
        found.append((path.stat().st_ino, path.stat().st_mtime_ns) if path.exists() else None)
    return found


async def read_table(client: Client) -> Table:
    """What a read_committed reader makes of the topic, from its first record to its last stable one."""
    found: Table = {}
    offset = 0
    while True:
        wanted = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1 << 20)
        request = FetchRequest(
            max_wait_ms=0,
            min_bytes=1,
            max_bytes=1 << 20,
            isolation_level=1,
            topics=[FetchTopic(topic=TOPIC, partitions=[wanted])],
        )
        data = (await client.call(request, 12)).responses[0].partitions[0]
        assert data.error_code == ErrorCode.NONE, ErrorCode(data.error_code).name
        if not data.records:
            if offset >= data.high_watermark:
                return {key: value for key, value in found.items() if value is not None}
            await asyncio.sleep(0.005)  # markers of what was decided are on their way
            continue
        for record in visible_records(data.records, data.aborted_transactions or []):
            assert record.key is not None
            found[record.key] = record.value
        offset = list(batches(data.records))[-1].end_offset


def dump_with_apache(folder: pathlib.Path, outcome: Outcome) -> None:
    """Apache Kafka's DumpLogSegments reads every segment that was kept; what it complains of is a problem."""
    from evidence.compat.apache import ApacheTools
    from evidence.differential.brokers import kafka_launcher

    launcher = kafka_launcher()
    if launcher is None:
        return
    dump = ApacheTools(launcher)
    for pattern, options in (
        ("*/*.log", ("--deep-iteration",)),
        ("*/*.index", ()),
        ("*/*.timeindex", ()),
        ("*/*.txnindex", ()),
    ):
        files = sorted((folder / "segments").glob(pattern))
        for first in range(0, len(files), 200):
            some = files[first : first + 200]
            lines = dump("DumpLogSegments", *options, "--files", ",".join(map(str, some)))
            read = [line for line in lines if line.startswith("Dumping ")]
            if len(read) != len(some):
                outcome.problems.append(f"DumpLogSegments read {len(read)} of {len(some)} files {pattern}")
            outcome.problems += [line for line in lines if COMPLAINTS.search(line) and not line.startswith("| offset")]
        if pattern == "*/*.log":
            outcome.dumped = len(files)
