"""Both sides read by a foreign client, record by record, and compared. Nothing of oncelog takes part."""

from __future__ import annotations

import uuid
from collections.abc import Mapping

from confluent_kafka import Consumer, KafkaException, TopicPartition

from evidence.migration.traffic import Reader

Record = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...], int]
Log = dict[int, list[tuple[int, Record]]]  # of each partition: offset and record


def read(bootstrap: str, topic: str, partitions: int) -> Log:
    """What is committed, all of it."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": str(uuid.uuid4()),
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    found: Log = {index: [] for index in range(partitions)}
    consumer.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
    ended: set[int] = set()
    try:
        while len(ended) < partitions:
            for each in consumer.consume(10_000, 5):
                if each.error() is not None:
                    if each.error().name() != "_PARTITION_EOF":
                        raise KafkaException(each.error())
                    ended.add(each.partition())
                    continue
                record = (each.key(), each.value(), tuple(each.headers() or ()), each.timestamp()[1])
                found[each.partition()].append((each.offset(), record))
    finally:
        consumer.close()
    return found


def wrong_records(source: Log, destination: Log, copied: Mapping[int, int]) -> list[str]:
    """The destination begins with what the source holds; `copied`: how many the command said, of each partition."""
    problems = []
    for index, ours in source.items():
        theirs = destination[index][: len(ours)]
        if [record for _, record in ours] != [record for _, record in theirs]:
            at = next((i for i, (a, b) in enumerate(zip(ours, theirs, strict=False)) if a[1] != b[1]), len(theirs))
            problems.append(
                f"partition {index}: {len(ours)} records, {len(theirs)} copied, the first that differs is {at}"
            )
        if copied.get(index) != len(ours):
            problems.append(f"partition {index}: the verdict says {copied.get(index)} records, there are {len(ours)}")
    return problems


def wrong_reading(name: str, before: Reader, after: Reader, source: Log, destination: Log) -> list[str]:
    """What a group read at the source, then at the destination, is all of the destination, each record once and in order."""
    problems = []
    for index, records in destination.items():
        ordinal = {offset: at for at, (offset, _) in enumerate(source[index])}
        there = {offset: at for at, (offset, _) in enumerate(records)}
        first = [ordinal.get(offset, -1) for offset in before.offsets.get(index, [])]
        then = [there.get(offset, -1) for offset in after.offsets.get(index, [])]
        if first + then != list(range(len(records))):
            problems.append(
                f"group {name}, partition {index}: {len(first)} read before, {len(then)} after, of {len(records)}; "
                f"after the switch from {then[:1]}"
            )
    return problems
