"""Committed offsets of groups against the partitions they name.

Offsets of a transaction count once its COMMIT marker is in the log of `__consumer_offsets`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from oncelog.core.migration.progress import GROUP_PREFIX
from oncelog.core.reconciliation.findings import NOTE, OFFSET_NOWHERE, Finding
from oncelog.core.shell_words import shell_text
from oncelog.types import TopicPartition
from oncelog.wire.log_records.consumer_offsets import ConsumerOffsetsRecord, OffsetCommit, OffsetDeleted

OFFSETS_TOPIC = "__consumer_offsets"
Key = tuple[str, str, int]


class CommittedOffset(NamedTuple):
    """A group's position on a partition, and where `__consumer_offsets` has it."""

    group_id: str
    topic: str
    partition: int
    offset: int
    log_partition: int
    log_offset: int


class Bounds(NamedTuple):
    """What is left of a partition: `end_offset` is exclusive."""

    log_start_offset: int
    end_offset: int


class GroupOffsets:
    """Take the records of all partitions of `__consumer_offsets`, each in its order."""

    def __init__(self) -> None:
        self.committed: dict[Key, CommittedOffset] = {}
        self._pending: dict[tuple[int, int], dict[Key, CommittedOffset | None]] = {}  # log partition, producer id

    def take(self, log_partition: int, log_offset: int, record: ConsumerOffsetsRecord) -> None:
        """The next record."""
        if not isinstance(record, OffsetCommit | OffsetDeleted):
            return
        key = (record.group_id, record.topic, record.partition)
        if isinstance(record, OffsetDeleted):
            self.committed.pop(key, None)
            return
        found = CommittedOffset(*key, record.offset, log_partition, log_offset)
        if record.is_transactional:
            self._pending.setdefault((log_partition, record.producer_id), {})[key] = found
        else:
            self.committed[key] = found

    def take_marker(self, log_partition: int, producer_id: int, *, commit: bool) -> None:
        """A transaction ended in this log."""
        pending = self._pending.pop((log_partition, producer_id), {})
        for key, found in pending.items():
            if commit and found is not None:
                before = self.committed.get(key)
                # The later commit in the log stands, as Kafka's group coordinator has it.
                if before is None or before.log_offset < found.log_offset:
                    self.committed[key] = found


def judge_offsets(
    committed: Iterable[CommittedOffset],
    logs: Mapping[TopicPartition, Bounds],
    *,
    directory: str,
    has_every_partition: bool,
    unread: Collection[TopicPartition] = (),
) -> Iterable[Finding]:
    """Committed offsets that point behind the end of their partition, or into one that is not there; nothing of partitions that
    could not be read.

    Those of `oncelog migrate` are offsets of the broker that the topic came from, and moving them would lose records.
    """
    topics = {where.topic for where in logs}
    for each in committed:
        if each.group_id.startswith(GROUP_PREFIX):
            continue
        where = TopicPartition(each.topic, each.partition)
        if where in unread or TopicPartition(OFFSETS_TOPIC, each.log_partition) in unread:
            continue
        bounds = logs.get(where)
        if bounds is None:
            if each.topic in topics and has_every_partition:
                text = f"group {each.group_id} is at offset {each.offset} of {each.topic}-{each.partition}, which is not there"
                yield _finding(OFFSET_NOWHERE, each, directory, text)
            continue
        if each.offset > bounds.end_offset:
            text = (
                f"group {each.group_id} is at offset {each.offset} of {each.topic}-{each.partition}, "
                f"which ends at {bounds.end_offset}: what is appended next is skipped, or the group begins anew"
            )
            yield _finding(OFFSET_NOWHERE, each, directory, text)
        elif 0 <= each.offset < bounds.log_start_offset:
            text = (
                f"group {each.group_id} is at offset {each.offset} of {each.topic}-{each.partition}, which begins at "
                f"{bounds.log_start_offset}: retention was faster than the group"
            )
            yield _finding(NOTE, each, directory, text)


def _finding(kind: str, each: CommittedOffset, directory: str, text: str) -> Finding:
    where = f"{each.topic}:{each.partition}"
    words = ["oncelog", "groups", "reset-offsets", each.group_id, "--topic", where, "--to-latest"]
    return Finding(
        kind,
        text,
        directory,
        OFFSETS_TOPIC,
        each.log_partition,
        first_offset=each.log_offset,
        last_offset=each.log_offset,
        repair=shell_text(words) if kind == OFFSET_NOWHERE else "",
    )
