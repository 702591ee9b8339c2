"""All records of one partition from a moment on, whatever became of their transactions: for topics that a broker writes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from oncelog.cli.clients import open_consumer
from oncelog.cli.command import Settings
from oncelog.cli.durations import duration_text
from oncelog.cli.output import Failed
from oncelog.client.admin.admin import Admin
from oncelog.client.records import ConsumerRecord
from oncelog.types import TopicPartition

POLL_MS = 50


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
        moved_at = loop.time()
        while position < end:
            for record in await consumer.poll(POLL_MS):
                if record.offset < end:
                    yield record
            before, position = position, await consumer.position(where)
            if position != before:
                moved_at = loop.time()
            elif loop.time() - moved_at > settings.timeout_ms / 1000:
                waited = duration_text(settings.timeout_ms)
                raise Failed(f"nothing came for {waited}: {where} at {position} of {end}", "more time with --timeout")
