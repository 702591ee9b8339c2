"""Both brokers of a migration: their clients, and what is stored at the destination of how far it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import field

from oncelog.cli.clients import open_admin, open_consumer, open_producer
from oncelog.cli.command import Settings
from oncelog.cli.output import Failed
from oncelog.client.admin.admin import Admin
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.producer.producer import Producer
from oncelog.core.migration.changing import Change
from oncelog.core.migration.progress import GROUP_PREFIX, Progress, progress_of
from oncelog.errors import ConfigurationError, GroupIdNotFound, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import OffsetAndMetadata, TopicPartition

REQUEST_BYTES_MAX = 100 << 20
BUFFER_BYTES = 128 << 20
TRANSACTION_TIMEOUT_MS = 60_000
FETCH_BYTES = 16 << 20  # a chunk has to get there within the transaction's timeout, over a slow line, too
FETCH_WAIT_MS = 20  # a fetch that waits at one partition's end holds up that of the next


@dataclass
class Sides:
    """Source and destination while a command runs; `progress` of each partition is what is committed there, `compacted`
    are the topics of which either side may keep only the last record of each key."""

    settings: Settings
    to: Settings
    source: Admin
    destination: Admin
    source_cluster_id: str
    topics: tuple[str, ...]
    progress: dict[TopicPartition, Progress] = field(default_factory=dict)
    compacted: set[str] = field(default_factory=set)
    change: Change = field(default_factory=Change)

    def mark_of(self, topic_id: str) -> str:
        """What a copy of this topic is called: its id, and what is changed on the way."""
        return f"{topic_id}:{self.change.tag}" if self.change.tag else topic_id

    @property
    def group(self) -> str:
        """Of the migration itself, at the destination. One for each source: two runs fence one another."""
        return f"{GROUP_PREFIX}{self.source_cluster_id}"

    def note(self, text: str, *more: str) -> None:
        """A line of progress."""
        self.settings.out.note(text, *more)

    async def stored(self, *, is_stable: bool = True) -> dict[TopicPartition, Progress]:
        """What is committed at the destination for the topics.

        `is_stable` waits for a transaction that is under way: not before this run's producer has ended that of a killed one.
        """
        try:
            found = await self.destination.list_consumer_group_offsets(self.group, require_stable=is_stable)
        except GroupIdNotFound:
            return {}
        try:
            return {tp: progress_of(at.offset, at.metadata) for tp, at in found.items() if tp.topic in self.topics}
        except ValueError as error:
            raise Failed(f"group {self.group} at the destination: {error}", "was it used by something else?") from error

    @asynccontextmanager
    async def producer(self, compression: str) -> AsyncIterator[Producer]:
        """The one writer of this migration; it fences the one of an earlier run, and aborts what that left open."""
        async with open_producer(
            self.to,
            transactional_id=self.group,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            compression_type=compression,
            max_request_size=REQUEST_BYTES_MAX,
            buffer_memory=BUFFER_BYTES,
        ) as producer:
            yield producer

    async def commit(self, producer: Producer, changed: Mapping[TopicPartition, Progress]) -> None:
        """Into the open transaction."""
        offsets = {tp: OffsetAndMetadata(each.source_offset, each.metadata()) for tp, each in changed.items()}
        await producer.send_offsets_to_transaction(offsets, self.group)

    async def see_ends(self, partitions: Iterable[TopicPartition]) -> None:
        """Points at the destination's end: all that is committed stands there, and nothing else is written."""
        ends = await self.destination.list_offsets(dict.fromkeys(partitions, "latest"))
        for tp, end in ends.items():
            self.progress[tp] = self.progress[tp].with_point(end.offset)


@asynccontextmanager
async def reader(settings: Settings) -> AsyncIterator[Consumer]:
    """Reads what is committed, from where it is told."""
    async with open_consumer(
        settings,
        isolation_level="read_committed",
        auto_offset_reset="none",
        enable_auto_commit=False,
        max_partition_fetch_bytes=4 << 20,
        fetch_max_bytes=FETCH_BYTES,
        fetch_max_wait_ms=FETCH_WAIT_MS,
    ) as consumer:
        yield consumer


@asynccontextmanager
async def both_sides(settings: Settings, to: Settings, topics: tuple[str, ...]) -> AsyncIterator[Sides]:
    """Connected, and known not to be the same cluster."""
    async with AsyncExitStack() as clients:
        source = await clients.enter_async_context(open_admin(settings))
        try:
            destination = await clients.enter_async_context(open_admin(to))
        except ConfigurationError as error:
            raise ConfigurationError(f"--to, --to-config, --to-property: {error}") from error
        except (KafkaError, Failed) as error:
            raise Failed(f"destination: {error}", "is a broker listening where --to says?") from error
        ids = [(await each.describe_cluster()).cluster_id for each in (source, destination)]
        if ids[0] == ids[1]:
            raise Failed("source and destination are the same cluster", "-b names the source, --to the destination")
        yield Sides(settings, to, source, destination, ids[0], topics)
