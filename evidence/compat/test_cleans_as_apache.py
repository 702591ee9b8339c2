"""The same requests to oncelog and to Apache Kafka: what both cleaners leave in the end is the same, batch for batch."""

from __future__ import annotations

import asyncio
import pathlib
import random
from typing import Any

import pytest

from evidence.compaction.writer import TOPIC, Writer, call, connect
from evidence.compat.apache import find_launcher
from evidence.differential.brokers import ApacheKafkaNode, Node, OncelogNode
from evidence.world.broker import Client
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.describe_transactions import DescribeTransactionsRequest
from oncelog.wire.messages.find_coordinator import FindCoordinatorRequest
from oncelog.wire.record_batch import batches

pytestmark = [pytest.mark.compat, pytest.mark.slow]
CONFIG: dict[str, object] = {
    "log.cleaner.backoff.ms": 50,
    "log.flush.offset.checkpoint.interval.ms": 200,
    "transaction.state.log.num.partitions": 1,
}
TOPIC_CONFIG = {
    "cleanup.policy": "compact",
    "segment.ms": "40",
    "min.cleanable.dirty.ratio": "0.01",
    "delete.retention.ms": "1000",
    # With 0 Apache Kafka, on a busy machine, once answered KAFKA_STORAGE_ERROR in the middle of this.
    "file.delete.delay.ms": "60000",
}
ROUNDS = 30
CALM_ROUNDS = 5  # in which horizons pass, and what was found without data or old is removed at last


class Story:
    """One life of a compacted topic on one broker."""

    def __init__(self, client: Client, data: pathlib.Path) -> None:
        self._client, self._data = client, data
        self._random = random.Random(5)
        self.new, self.old, self.gone = (self._writer(n, is_new=n != 1) for n in range(3))
        self.plain = self._writer(3, is_new=False, is_transactional=False)

    @staticmethod
    def _writer(number: int, *, is_new: bool, is_transactional: bool = True) -> Writer:
        return Writer(number, is_new=is_new, is_transactional=is_transactional, random=random.Random(number))

    async def tell(self) -> None:
        await self._begin()
        for index in range(ROUNDS):
            for writer in (self.new, self.old):
                count, commit = self._random.randrange(1, 3), self._random.random() < 0.6
                await self._transaction(writer, [self._rows() for _ in range(count)], commit=commit)
            if index == 3:
                await self._transaction(self.gone, [self._rows()], commit=False)
            await self.plain.produce(self._client, self._rows())
            await asyncio.sleep(0.05)
        for index in range(CALM_ROUNDS):
            await asyncio.sleep(1.2)
            for key in (b"first", b"second"):  # the second one rolls the segment of the first
                await self.plain.produce(self._client, [(key, b"%d" % index)])
                await asyncio.sleep(0.1)
            await self._cleaned()

    async def _begin(self) -> None:
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in TOPIC_CONFIG.items()]
        topic = CreatableTopic(name=TOPIC, num_partitions=1, replication_factor=1, configs=configs)
        reply = await self._client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000), 5)
        assert reply.topics[0].error_code == 0
        for writer in (self.new, self.old, self.gone):
            await call(
                self._client, FindCoordinatorRequest(key=writer.name, key_type=1), 3, lambda reply: reply.error_code
            )
        for writer in (self.new, self.old, self.gone, self.plain):
            await writer.init(self._client)

    def _rows(self) -> list[tuple[bytes, bytes | None]]:
        chosen = (b"k%d" % self._random.randrange(12) for _ in range(self._random.randrange(1, 5)))
        return [(key, None if self._random.random() < 0.2 else b"%d" % self._random.randrange(10**6)) for key in chosen]

    async def _transaction(self, writer: Writer, batches_of_rows: list[Any], *, commit: bool) -> None:
        if not writer.is_new:
            await writer.add_partition(self._client)
        for rows in batches_of_rows:
            await writer.produce(self._client, rows)
        await writer.end(self._client, commit=commit)
        request = DescribeTransactionsRequest(transactional_ids=[writer.name])
        while True:  # the marker's place among the others' batches must not depend on who is faster
            reply = await self._client.call(request, 0)
            if reply.transaction_states[0].transaction_state.startswith("Complete"):
                return
            await asyncio.sleep(0.01)

    async def _cleaned(self) -> None:
        """Wait until the cleaner has been everywhere but in the active segment."""
        checkpoint = self._data / "cleaner-offset-checkpoint"
        while True:
            active = int(max(path.name for path in (self._data / f"{TOPIC}-0").glob("*.log"))[:20])
            lines = checkpoint.read_text().splitlines() if checkpoint.exists() else []
            if any(line.startswith(f"{TOPIC} 0 ") and int(line.split()[2]) >= active for line in lines):
                return
            await asyncio.sleep(0.05)

    def left(self) -> list[tuple[Any, ...]]:
        """What is in the closed segments; producer ids by their names."""
        writers = {writer.producer[0]: writer.number for writer in (self.new, self.old, self.gone, self.plain)}
        paths = sorted((self._data / f"{TOPIC}-0").glob("*.log"))[:-1]
        found = []
        for batch in (batch for path in paths for batch in batches(path.read_bytes())):
            kind = "control" if batch.is_control else "transactional" if batch.is_transactional else "plain"
            found.append(
                (
                    *(kind, batch.base_offset, batch.last_offset, writers[batch.producer_id], batch.producer_epoch),
                    *(batch.base_sequence, batch.codec.name, batch.has_delete_horizon, batch.record_count),
                    [(r.offset, r.key, r.value) for r in batch.records() if not batch.is_control],
                )
            )
        return found


def told(node: Node, data: pathlib.Path) -> list[tuple[Any, ...]]:
    async def work() -> list[tuple[Any, ...]]:
        client = await connect(node.address[1])
        story = Story(client, data)
        try:
            await story.tell()
        finally:
            client.close()
        return story.left()

    node.start()
    try:
        return asyncio.run(asyncio.wait_for(work(), 90))
    finally:
        node.stop()


def test_both_leave_the_same(tmp_path):
    launcher = find_launcher()
    ours = told(OncelogNode(tmp_path / "oncelog", CONFIG), tmp_path / "oncelog")
    assert len(ours) > 8
    assert {"control", "transactional", "plain"} == {row[0] for row in ours}
    assert any(row[8] == 0 for row in ours), "an emptied batch that keeps an epoch"
    theirs = told(ApacheKafkaNode(tmp_path / "kafka", launcher, CONFIG), tmp_path / "kafka" / "data")
    assert ours == theirs
