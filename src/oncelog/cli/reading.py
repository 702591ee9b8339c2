"""All records of one partition from a moment on, whatever became of their transactions: for topics that a broker writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from oncelog.cli.clients import open_consumer
from oncelog.cli.command import Settings
from oncelog.cli.durations import duration_text
from oncelog.cli.output import Failed
from oncelog.client.admin.admin import Admin
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.records import ConsumerRecord
from oncelog.types import TopicPartition

POLL_MS = 50


class ThrottleWatch:
    """For how long brokers have told a consumer to wait (KIP-219) since it last came on: it is over a quota."""

    def __init__(self, consumer: Consumer) -> None:
        self._consumer = consumer
        self._seen_ms = self._before_ms = 0

    def look(self, *, has_moved: bool) -> None:
        """To be called after each poll. What was told just before a position moved was told to the reader of what follows."""
        if has_moved:
            self._before_ms = self._seen_ms
        self._seen_ms = sum(each.throttle_sum_ms for each in self._consumer.metrics().brokers)

    def told(self, settings: Settings) -> tuple[str, str] | None:
        """What to say of it where nothing came, and the way out; None where no broker told it to wait."""
        if self._seen_ms <= self._before_ms:
            return None
        waits = duration_text(self._seen_ms - self._before_ms)
        keys = "its consumer_byte_rate or request_percentage"
        return (
            f"a quota holds it up: the broker told it to wait for {waits} meanwhile",
            f"`{settings.repair('quotas', 'list')}` has {keys}; more time with --timeout",
        )


async def records_since(
    settings: Settings, admin: Admin, where: TopicPartition, since_ms: int | None = None
) -> AsyncIterator[ConsumerRecord]:
    """From `since_ms` (None: the first that is left) to the end as it is now. Raises KafkaError, Failed where nothing comes."""
    end = (await admin.list_offsets({where: "latest"}))[where].offset
    start = (await admin.list_offsets({where: "earliest" if since_ms is None else since_ms}))[where].offset
    if not 0 <= start < end:
        return
    async with open_consumer(settings, isolation_level="read_uncommitted", enable_auto_commit=False) as consumer:
        consumer.assign([where])
        consumer.seek(where, start)
        loop, position = asyncio.get_running_loop(), start
        moved_at, throttle = loop.time(), ThrottleWatch(consumer)
        while position < end:
            for record in await consumer.poll(POLL_MS):
                if record.offset < end:
                    yield record
            before, position = position, await consumer.position(where)
            throttle.look(has_moved=position != before)
            if position != before:
                moved_at = loop.time()
            elif loop.time() - moved_at > settings.timeout_ms / 1000:
                waited = duration_text(settings.timeout_ms)
                text = f"nothing came for {waited}: {where} at {position} of {end}"
                why, way_out = throttle.told(settings) or ("", "more time with --timeout")
                raise Failed(f"{text}: {why}" if why else text, way_out)
