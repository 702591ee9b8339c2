"""One small read of each partition at the group's position, as its readers would read: a damaged batch stops them there, and
nothing else shows it before somebody reads."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Mapping

from oncelog.cli.clients import open_consumer
from oncelog.cli.command import Settings
from oncelog.cli.output import error_name
from oncelog.cli.why.looking import Looking
from oncelog.core.diagnosis.facts import Facts
from oncelog.errors import CorruptRecord, KafkaError
from oncelog.types import OffsetAndMetadata, TopicPartition

READ_MAX = 50
READ_TIMEOUT_MS = 2_000
POLL_MS = 100


async def with_damage(
    settings: Settings, looking: Looking, facts: Facts, positions: Mapping[TopicPartition, OffsetAndMetadata]
) -> Facts:
    """The facts, with where partitions cannot be read at the group's stored positions: of those that have something to read,
    READ_MAX at most."""
    wanted = {
        each.where: positions[each.where].offset
        for each in facts.partitions
        if each.lag and not each.error and each.where in positions
    }
    starts = {each.where: each.log_start_offset or 0 for each in facts.partitions}  # before it: out of range
    wanted = dict([(at, offset) for at, offset in wanted.items() if offset >= starts[at]][:READ_MAX])
    if not wanted:
        return facts
    try:
        damaged = await _damaged(settings, wanted)
    except KafkaError as error:  # who may not read sees the rest all the same
        looking.notes.append(f"whether it can be read at its positions was not tried: {error_name(error)}")
        return facts
    partitions = [
        dataclasses.replace(each, damaged_at=wanted[each.where]) if each.where in damaged else each
        for each in facts.partitions
    ]
    return dataclasses.replace(facts, partitions=tuple(partitions))


async def _damaged(settings: Settings, positions: dict[TopicPartition, int]) -> set[TopicPartition]:
    damaged: set[TopicPartition] = set()
    left = set(positions)
    more = {"max_partition_fetch_bytes": 1, "max_poll_records": 1, "isolation_level": "read_uncommitted"}
    async with open_consumer(
        settings, group_id=None, auto_offset_reset="none", enable_auto_commit=False, **more
    ) as consumer:
        consumer.assign(positions)
        for at, offset in positions.items():
            consumer.seek(at, offset)
        loop = asyncio.get_running_loop()
        ends_at = loop.time() + READ_TIMEOUT_MS / 1000
        while left and loop.time() < ends_at:
            try:
                await consumer.poll(POLL_MS)
            except CorruptRecord as error:
                if error.topic_partition is None:
                    raise
                damaged.add(TopicPartition(*error.topic_partition))
            done = {at for at in left if at in damaged or await consumer.position(at) > positions[at]}
            consumer.pause(*done)
            left -= done
    return damaged
