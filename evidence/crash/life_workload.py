"""The power-cut workload in the midst of a log's life: beside the clients' scripts topics come and go, configurations
change, records are deleted, groups commit, and a housekeeper rolls, checkpoints, retains and compacts every log.
"""

from __future__ import annotations

import asyncio
import contextlib
import pickle
from dataclasses import dataclass, field
from typing import Any

from evidence.crash.ledger import Ledger
from evidence.crash.power_workload import CONFIG, Script
from evidence.world.direct import START_MS, DirectNetwork
from evidence.world.requests import Heard, Identity, Session
from oncelog.broker.broker import Broker
from oncelog.errors import StorageError
from oncelog.types import TopicPartition
from oncelog.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from oncelog.wire.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from oncelog.wire.messages.delete_topics import DeleteTopicsRequest
from oncelog.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from oncelog.wire.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from oncelog.wire.record_batch import build_batch

LIFE_CONFIG: dict[str, object] = CONFIG | {
    "log.cleaner.backoff.ms": 45,
    "log.cleaner.min.cleanable.ratio": 0.0,
    "log.segment.delete.delay.ms": 10,
    "log.flush.offset.checkpoint.interval.ms": 70,
}
TABLE, RETAINED, PASSING = "table", "retained", "passing"
LIFE_TOPICS: dict[str, dict[str, str]] = {
    TABLE: {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0"},
    RETAINED: {"retention.bytes": "200"},
}
INCOMPLETE = (f"{TABLE}-", f"{RETAINED}-", "__transaction_state-", "__consumer_offsets-")
CONFIG_KEY = "retention.ms"
GROUP = "plain group"
ROUNDS = 6


@dataclass
class Known:
    """A number that only grows: what was acknowledged last, and what was asked for last. The truth lies between."""

    acknowledged: int = 0
    asked: int = 0


@dataclass
class LifeLedger(Ledger):
    """Beside transactions: what clients know of everything that changes."""

    life_topics: set[str] = field(default_factory=set)  # acknowledged
    table: dict[str, Known] = field(default_factory=dict)  # key: its committed number
    aborted_values: set[int] = field(default_factory=set)  # in the table; never to be seen by read_committed
    retained: dict[int, str] = field(default_factory=dict)  # offset: value
    log_start: Known = field(default_factory=Known)
    passing_generation: Known = field(default_factory=Known)  # odd: made, even: deleted
    passing: dict[int, str] = field(default_factory=dict)  # of the generation that is acknowledged
    config: Known = field(default_factory=Known)
    position: Known = field(default_factory=Known)

    def snapshot(self) -> LifeLedger:
        copy: LifeLedger = pickle.loads(pickle.dumps(self))
        return copy


def set_acknowledged(known: Known, number: int) -> Heard:
    """What a reply that was heard says."""

    def heard(_: Any) -> None:
        known.acknowledged = number

    return heard


class LifeScript(Script):
    """More scripts, and the housekeeper."""

    ledger: LifeLedger

    def __init__(self, network: DirectNetwork, ledger: LifeLedger, broker: Broker) -> None:
        super().__init__(network, ledger)
        self._broker = broker

    async def run_life(self) -> None:
        """Everything, side by side."""
        session = await self.session()
        for name, configs in LIFE_TOPICS.items():
            await self.create(session, name, configs, lambda _, name=name: self.ledger.life_topics.add(name))
        scripts = [
            lambda: self.transactional("a", 2),
            lambda: self.transactional("b", 1),
            lambda: self.positions("c", 2, "readers"),
            lambda: self.positions("d", 1, "writers"),
            self.plain,
            self.idempotent,
            self.fenced,
            self.two_phase,
            self.table,
            self.table_transactions,
            self.retained,
            self.passing,
            self.configs,
            self.group,
            self.housekeeping,
        ]
        await self.side_by_side(scripts, self.checkpoint)

    def checkpoint(self) -> None:
        """As a timer of the broker's would."""
        with contextlib.suppress(StorageError):
            self._broker.partitions.checkpoint()

    async def create(self, session: Session, name: str, configs: dict[str, str], heard: Heard) -> None:
        topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        topic.configs = [CreatableTopicConfig(name=key, value=value) for key, value in configs.items()]
        message = CreateTopicsRequest(topics=[topic], timeout_ms=1000)
        await session.call(f"create {name}", message, 5, lambda reply: reply.topics[0].error_code, heard)

    async def put(
        self,
        session: Session,
        key: str,
        number: int,
        heard: Heard | None,
        transaction: tuple[str, Identity] | None = None,
    ) -> None:
        """One row of the table."""
        name, identity = transaction or (None, (-1, -1))
        batch = build_batch(
            [(START_MS, key.encode(), str(number).encode() + b" " * 60, ())],
            producer_id=identity[0],
            producer_epoch=identity[1],
            base_sequence=self.sequence(identity, TABLE, 0, 1) if name is not None else -1,
            is_transactional=name is not None,
        )
        data = TopicProduceData(name=TABLE, partition_data=[PartitionProduceData(index=0, records=batch)])
        message = ProduceRequest(transactional_id=name, acks=-1, timeout_ms=30_000, topic_data=[data])
        await session.call(
            f"put {key}", message, 12, lambda reply: reply.responses[0].partition_responses[0].error_code, heard
        )

    async def table(self) -> None:
        session = await self.session()
        for number in range(1, 13):
            key = f"k{number % 3}"
            known = self.ledger.table.setdefault(key, Known())
            known.asked = number
            await self.put(session, key, number, set_acknowledged(known, number))

    async def table_transactions(self) -> None:
        """Rows that are written in transactions, every second one aborted."""
        session = await self.session()
        identity = await self.init(session, "tables")
        known = self.ledger.table.setdefault("t", Known())
        for number in range(1, 8):
            commits = number % 2 == 1
            self.ledger.aborted_values.add(number)
            await self.put(session, "t", number, None, ("tables", identity))
            if commits:
                self.ledger.aborted_values.discard(number)
                known.asked = number

            def heard(reply: Any, number: int = number, commits: bool = commits) -> None:
                if commits:
                    known.acknowledged = number
                self.given("tables", (reply.producer_id, reply.producer_epoch))

            reply = await session.end("tables", identity, commit=commits, heard=heard)
            identity = (reply.producer_id, reply.producer_epoch)

    async def retained(self) -> None:
        """Records that retention and DeleteRecords may take away."""
        session = await self.session()
        for index in range(12):
            (value,) = self.values(f"retained {'x' * 80}")
            await session.produce(
                RETAINED, 0, [value], heard=lambda offset, value=value: self.ledger.retained.update({offset: value})
            )
            if index == 2:
                start = self.ledger.log_start
                start.asked = max(start.asked, 2)

                def heard(_: Any, start: Known = start) -> None:
                    start.acknowledged = max(start.acknowledged, 2)

                topics = [
                    DeleteRecordsTopic(name=RETAINED, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
                ]
                message = DeleteRecordsRequest(topics=topics, timeout_ms=1000)
                code_of = lambda reply: reply.topics[0].partitions[0].error_code  # noqa: E731
                await session.call("delete records", message, 1, code_of, heard)

    async def passing(self) -> None:
        """A topic that is made, filled and deleted, three times under one name."""
        session = await self.session()
        known = self.ledger.passing_generation
        for generation in (1, 3, 5):
            known.asked = generation
            await self.create(session, PASSING, {}, set_acknowledged(known, generation))
            for _ in range(2):
                (value,) = self.values(f"passing {generation}")
                await session.produce(
                    PASSING, 0, [value], heard=lambda offset, value=value: self.ledger.passing.update({offset: value})
                )
            if generation == 5:
                return
            known.asked = generation + 1

            def heard(_: Any, generation: int = generation) -> None:
                known.acknowledged = generation + 1
                self.ledger.passing.clear()

            message = DeleteTopicsRequest(topic_names=[PASSING], timeout_ms=1000)
            await session.call(f"delete {PASSING}", message, 4, lambda reply: reply.responses[0].error_code, heard)

    async def configs(self) -> None:
        session = await self.session()
        for number in range(1, 5):
            self.ledger.config.asked = number
            config = AlterableConfig(name=CONFIG_KEY, config_operation=0, value=str(10**11 + number))
            resource = AlterConfigsResource(resource_type=2, resource_name="u", configs=[config])
            message = IncrementalAlterConfigsRequest(resources=[resource])
            heard = set_acknowledged(self.ledger.config, number)
            await session.call("alter u", message, 1, lambda reply: reply.responses[0].error_code, heard)
            await asyncio.sleep(0.02)

    async def group(self) -> None:
        """Positions outside transactions."""
        session = await self.session()
        for number in range(1, 7):
            self.ledger.position.asked = number
            partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=number)
            topic = OffsetCommitRequestTopic(name="t", partitions=[partition])
            message = OffsetCommitRequest(group_id=GROUP, topics=[topic])
            heard = set_acknowledged(self.ledger.position, number)
            await session.call(
                f"offset of {GROUP}", message, 7, lambda reply: reply.topics[0].partitions[0].error_code, heard
            )

    async def housekeeping(self) -> None:
        """Rolls, checkpoints, retention; the broker's own cleaner runs beside it."""
        partitions = self._broker.partitions
        for _ in range(ROUNDS):
            await asyncio.sleep(0.06)
            for partition in partitions:
                if not partition.is_offline and partition.name.topic != PASSING:
                    try:
                        partition.log.roll()
                    except StorageError as error:
                        partition.go_offline(str(error))
            try:
                self.note_retention(partitions.existing(TopicPartition(RETAINED, 0)))
                await partitions.log_starts.apply_retention(partitions, START_MS + 1000)
                await partitions.checkpoint_aside()
                await self._broker.log_cleaner.clean_dirtiest()
            except StorageError:
                continue

    def note_retention(self, partition: Any) -> None:
        if partition is None or partition.is_offline:
            return
        past = partition.log.segments_past_retention(START_MS + 1000, partition.rules.high_watermark)
        if past:
            self.ledger.log_start.asked = max(self.ledger.log_start.asked, past[-1].end_offset)
