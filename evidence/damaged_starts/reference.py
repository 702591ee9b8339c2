"""What is damaged: a directory of a broker that was killed, the same one after a clean stop, and what both must serve."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path

from evidence.world.broker import Client, eventually, keys
from oncelog.broker.broker import Broker
from oncelog.errors import ErrorCode
from oncelog.types import TopicPartition
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch

PLAIN, COMMITTED, OPEN = (
    "plain",
    "committed",
    "open",
)  # topics: of an idempotent producer, of transactions, of one that is open
GROUP = "group"
RETENTION_MS = 777_777_777
SETTINGS = keys(
    {
        "transaction_state_log_num_partitions": 1,
        "offsets_topic_num_partitions": 1,
        "log_index_interval_bytes": 100,  # indexes have entries
        "transaction_max_timeout_ms": 3_600_000,
    }
)
STATES = ("clean", "killed")
OLDER = "older"  # the same directory at half of its life
ROUNDS = 6  # of records; a segment is rolled behind the second and the fourth
DELETED_UP_TO = 2
AHEAD_MS = 60_000  # the markers of transactions have the time of day: those of records are all above


@dataclass(frozen=True)
class Written:
    """One record that was acknowledged, and is committed."""

    offset: int
    value: str
    timestamp_ms: int


@dataclass
class Expected:
    """What a start of the directory must give."""

    records: dict[str, list[Written]] = field(default_factory=lambda: {PLAIN: [], COMMITTED: [], OPEN: []})
    deleted: list[Written] = field(default_factory=list)
    group_offset: int = 0
    states: dict[str, str] = field(default_factory=dict)  # of the transactional ids
    retry: ProduceRequest | None = None  # the last batch of the idempotent producer, to be sent once more
    retried_offset: int = -1

    def with_more(self, topic: str, more: Written) -> None:
        self.records[topic] = [*self.records[topic], more]

    def copy(self) -> Expected:
        return Expected(
            dict(self.records), self.deleted, self.group_offset, dict(self.states), self.retry, self.retried_offset
        )


def produce_request(
    topic: str,
    value: str,
    timestamp_ms: int,
    producer: tuple[int, int] = (-1, -1),
    sequence: int = -1,
    of: str | None = None,
) -> ProduceRequest:
    """One record with a timestamp of its own; `of`: the transactional id."""
    batch = build_batch(
        [(timestamp_ms, None, value.encode(), ())],
        producer_id=producer[0],
        producer_epoch=producer[1],
        base_sequence=sequence,
        is_transactional=of is not None,
    )
    data = TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(transactional_id=of, acks=-1, timeout_ms=30_000, topic_data=[data])


async def produced(client: Client, request: ProduceRequest) -> int:
    """Its offset. Raises AssertionError where it is refused."""
    reply = (await client.call(request, 12)).responses[0].partition_responses[0]
    assert reply.error_code == ErrorCode.NONE, ErrorCode(reply.error_code).name
    return int(reply.base_offset)


class Builder:
    """Lives the life of the directory."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.expected = Expected()
        self._now_ms = time.time_ns() // 1_000_000 + AHEAD_MS
        self._idempotent, self._sequence = (-1, -1), 0

    async def build(self) -> Expected:
        """`clean`, `killed` and `older` in the folder."""
        live = self.folder / "live"
        broker = Broker(str(live), SETTINGS)
        await broker.start()
        client = await Client.connect(broker)
        await client.create(PLAIN, retention_ms=str(RETENTION_MS))
        await client.create(COMMITTED)
        await client.create(OPEN)
        self._idempotent = await client.init()
        for number in range(ROUNDS):
            await self._round(client, number)
            if number in (1, 3):
                for name in (PLAIN, COMMITTED):
                    partition = broker.partitions.existing(TopicPartition(name, 0))
                    assert partition is not None
                    partition.log.roll()
            if number == 1:
                await broker.flusher.sync_all()
                broker.partitions.checkpoint()
                shutil.copytree(live, self.folder / OLDER)
            if number == 4:
                await self._delete_records(client)
                await broker.flusher.sync_all()
                broker.partitions.checkpoint()
        await self._leave_open(client)
        shutil.copytree(live, self.folder / "killed")
        client.close()
        await broker.stop()
        live.rename(self.folder / "clean")
        return self.expected

    async def _round(self, client: Client, number: int) -> None:
        for _ in range(2 + number % 3):  # no two logs end at the same offset
            await self._plain(client)
        for outcome in ("Commit", "Abort") if number % 2 else ("Abort", "Commit"):
            name = f"id-{number}-{outcome}"
            producer = await client.init(name)
            stamp = self._tick()
            request = produce_request(COMMITTED, f"{outcome}-{number}", stamp, producer, 0, name)
            offset = await produced(client, request)
            reply = await client.end(name, producer, commit=outcome == "Commit")
            assert reply.error_code == ErrorCode.NONE
            if outcome == "Commit":
                self.expected.with_more(COMMITTED, Written(offset, f"{outcome}-{number}", stamp))
            self.expected.states[name] = f"Complete{outcome}"

            async def is_complete(name: str = name) -> bool:
                return await client.state(name) == self.expected.states[name]

            await eventually(is_complete)
        self.expected.group_offset = number + 1
        wanted = OffsetCommitRequestPartition(partition_index=0, committed_offset=number + 1)
        commit = OffsetCommitRequest(
            group_id=GROUP,
            generation_id_or_member_epoch=-1,
            member_id="",
            retention_time_ms=-1,
            topics=[OffsetCommitRequestTopic(name=PLAIN, partitions=[wanted])],
        )
        assert (await client.call(commit, 8)).topics[0].partitions[0].error_code == ErrorCode.NONE

    async def _plain(self, client: Client) -> None:
        stamp, value = self._tick(), f"plain-{self._sequence}"
        request = produce_request(PLAIN, value, stamp, self._idempotent, self._sequence)
        offset = await produced(client, request)
        self._sequence += 1
        self.expected.with_more(PLAIN, Written(offset, value, stamp))
        self.expected.retry, self.expected.retried_offset = request, offset

    async def _delete_records(self, client: Client) -> None:
        wanted = DeleteRecordsPartition(partition_index=0, offset=DELETED_UP_TO)
        request = DeleteRecordsRequest(topics=[DeleteRecordsTopic(name=PLAIN, partitions=[wanted])], timeout_ms=1000)
        assert (await client.call(request)).topics[0].partitions[0].error_code == ErrorCode.NONE
        all_of_it = self.expected.records[PLAIN]
        self.expected.deleted = [each for each in all_of_it if each.offset < DELETED_UP_TO]
        self.expected.records[PLAIN] = [each for each in all_of_it if each.offset >= DELETED_UP_TO]

    async def _leave_open(self, client: Client) -> None:
        stamp = self._tick()
        self.expected.with_more(
            OPEN, Written(await produced(client, produce_request(OPEN, "before", stamp)), "before", stamp)
        )
        producer = await client.init("id-open")
        await produced(client, produce_request(OPEN, "never committed", self._tick(), producer, 0, "id-open"))
        self.expected.states["id-open"] = "Ongoing"

    def _tick(self) -> int:
        self._now_ms += 1000
        return self._now_ms
