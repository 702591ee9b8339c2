"""Partitions as a command line names them: `orders` (all of them), `orders:3`, `orders:0,2`."""

from __future__ import annotations

from collections.abc import Iterable

import click

from oncelog.cli.numbers import is_number
from oncelog.client.admin.admin import Admin
from oncelog.errors import ErrorCode, error_for
from oncelog.types import TopicPartition


def topic_and_partitions(text: str) -> tuple[str, list[int] | None]:
    """Topic, and its partitions where they are named. Raises a usage error."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    parts = [part.strip() for part in numbers.split(",")]
    if not topic or not all(is_number(part) for part in parts):
        raise click.UsageError(f"{text!r}: partitions are written as TOPIC:0,1")
    return topic, [int(part) for part in parts]


async def partitions_of(admin: Admin, texts: Iterable[str]) -> list[TopicPartition]:
    """The named partitions, in order. Raises UnknownTopicOrPartition."""
    wanted = [topic_and_partitions(text) for text in texts]
    found = await admin.describe_topics(dict.fromkeys(topic for topic, _ in wanted))
    named: list[TopicPartition] = []
    for topic, numbers in wanted:
        known = sorted(found[topic].partitions)
        for number in known if numbers is None else numbers:
            if number not in known:
                message = f"topic {topic!r} has partitions 0 to {len(known) - 1}, not {number}"
                raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, message)
            named.append(TopicPartition(topic, number))
    return list(dict.fromkeys(named))
