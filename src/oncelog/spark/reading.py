"""One consumer that reads one range after another, often where the last one ended.

Two things cost a read its latency: a `seek` to where the consumer is already, which throws away what is on its way, and a Fetch
that waits at the broker for more than the range has, behind which the next range's has to wait. So it seeks only where it must,
its fetches wait shortly, and between two ranges it rests, or the short ones would follow one another for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from oncelog import sync
from oncelog.client.records import ConsumerRecord
from oncelog.types import OffsetAndMetadata, TopicPartition

FETCH_MAX_WAIT_MS = 20


def go_to(consumer: sync.Consumer, where: TopicPartition, offset: int, topic_id: bytes | None = None) -> None:
    """Read this partition, and no other, from `offset` on; of the topic that has this id and no other of its name."""
    if consumer.assignment() != {where}:
        consumer.assign([where])
    stands = consumer.current_positions().get(where)
    if stands is None or stands.offset != offset or (topic_id is not None and stands.topic_id != topic_id):
        consumer.seek(where, place(offset, topic_id))
    consumer.resume(where)


def place(offset: int, topic_id: bytes | None) -> int | OffsetAndMetadata:
    """Where to seek: an offset in this topic; in whichever has the name now where no id is known."""
    return offset if topic_id is None else OffsetAndMetadata(offset, topic_id=topic_id)


def records_until(consumer: sync.Consumer, where: TopicPartition, begin: int, end: int) -> Iterator[ConsumerRecord]:
    """The records of a partition in [begin, end), and what came with the last of them; then the consumer rests."""
    go_to(consumer, where, begin)
    try:
        while consumer.position(where) < end:
            yield from consumer.poll(timeout_ms=1000)
    finally:
        rest(consumer)


def rest(consumer: sync.Consumer) -> None:
    """Fetch nothing until `go_to`."""
    consumer.pause(*consumer.assignment())
