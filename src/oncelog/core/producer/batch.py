"""One batch on the producer's side: what it holds, who it is on the wire, and how it ended.

Rule: once a batch has a sequence, its identity, sequence and bytes never change as long as it may be stored. What cannot be
resolved under that sequence fails (rewritten, it could be stored twice). Only what was refused each time before it was
appended is certainly stored nowhere: it may be split, or get another sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from oncelog.core.producer.record_buffer import RecordBuffer
from oncelog.errors import ErrorCode, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import NO_SEQUENCE, ProducerIdAndEpoch, TopicPartition
from oncelog.wire.record_codec import parse_records

Headers = Sequence[tuple[str, bytes | None]]
ProducedRecord = tuple[int, bytes | None, bytes | None, Headers]
"""timestamp_ms, key, value, headers."""

SEQUENCE_COUNT = 2**31
NO_RECORD = -1  # the `watched_index` of who only looks on
BATCH_OVERHEAD_BYTES = 61
RECORD_OVERHEAD_BYTES = 21  # length, attributes, deltas, lengths of key, value and headers at their longest


NOT_STORED = frozenset(
    {
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.RECORD_LIST_TOO_LARGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        ErrorCode.INVALID_TIMESTAMP,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.POLICY_VIOLATION,
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
        ErrorCode.INVALID_RECORD,
    }
)
"""Refusals that a leader decides on before it appends. Others may come after it: that it lost its leadership, say."""


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """How a batch succeeded; `base_offset` is -1 where the broker no longer knows it (a very late duplicate)."""

    base_offset: int
    log_append_time_ms: int = -1
    log_start_offset: int = -1


@dataclass(slots=True)
class Failure:
    """What became of records that nobody asked about; `is_heard`: none is left, or it was raised; `is_told`: in the log."""

    error: KafkaError
    record_count: int
    topic_partition: TopicPartition
    is_heard: bool = False
    is_told: bool = False

    def heard_one(self) -> None:
        """Somebody asked about one of them."""
        self.record_count -= 1
        self.is_heard = self.is_heard or not self.record_count

    def __str__(self) -> str:
        return f"{self.record_count} records for {self.topic_partition} were not delivered: {self.error}"


class Unheard:
    """A failure, for as long as its deliveries are."""

    __slots__ = ("_forgotten", "failure")

    def __init__(self, failure: Failure, forgotten: Callable[[Failure], None]) -> None:
        self.failure, self._forgotten = failure, forgotten

    def __del__(self) -> None:
        if not self.failure.is_heard:
            self._forgotten(self.failure)


class EncodedRecords(Protocol):
    """Records that know how to become one batch: a list of records, or a slice of Arrow columns."""

    def encode(
        self, *, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool
    ) -> bytearray | bytes:
        """The whole record batch."""
        ...

    def records(self) -> list[ProducedRecord]:
        """Each record for itself, where the batch has to be split."""
        ...


class ProducerBatch(RecordBuffer):
    """Records of one partition that are sent together. `outcome` is None until it ended.

    Only the accumulator closes it: `limit_bytes` is then 0.
    """

    __slots__ = (
        "attempt_count",
        "created_ms",
        "encoded",
        "home",
        "identity",
        "is_behind_gap",
        "is_closed",
        "is_told",
        "last_error",
        "may_be_stored",
        "not_before_ms",
        "on_done",
        "ordinal",
        "outcome",
        "parts",
        "sequence",
        "source",
        "topic_partition",
        "unheard",
        "was_first_when_sent",
        "watched",
    )

    def __init__(self, topic_partition: TopicPartition, created_ms: float, ordinal: tuple[int, ...] = ()) -> None:
        super().__init__(BATCH_OVERHEAD_BYTES)
        self.topic_partition = topic_partition
        self.created_ms = created_ms
        self.source: EncodedRecords | None = None
        self.is_closed = False
        self.identity = ProducerIdAndEpoch()
        self.sequence = NO_SEQUENCE
        self.encoded: bytearray | bytes | None = None
        self.attempt_count = 0
        self.not_before_ms = 0.0
        self.ordinal = ordinal  # its place among the batches of its partition
        self.was_first_when_sent = False
        self.last_error: KafkaError | None = None  # of an attempt that was repeated
        self.is_behind_gap = False  # a batch with an earlier sequence failed, which nobody will fill
        self.may_be_stored = False  # some attempt of it ended in another way than by a certain refusal
        self.home: object = None  # the event loop where its end is told
        self.is_told = False  # whoever gave it up knows
        self.watched: set[int] | None = None  # records that somebody asked about, looked up once it is split or fails
        self.unheard: Unheard | None = None
        self.parts: tuple[ProducerBatch, ...] = ()
        self.outcome: Acknowledged | KafkaError | None = None
        self.on_done: list[Callable[[ProducerBatch], None]] = []  # who waits for a record has its `watched_index`

    def __repr__(self) -> str:
        return f"ProducerBatch({self.topic_partition}, {self.record_count} records, {self.identity}, {self.sequence})"

    @property
    def has_sequence(self) -> bool:
        """Whether the batch was given its permanent sequence."""
        return self.sequence != NO_SEQUENCE

    @property
    def last_sequence(self) -> int:
        """Of its last record, once it has a sequence."""
        return (self.sequence + self.record_count - 1) % SEQUENCE_COUNT

    def look_who_waits(self) -> None:
        """Note the records whose end somebody waits for; not counted record by record, as most batches are stored."""
        waiting = {getattr(each, "watched_index", NO_RECORD) for each in self.on_done} - {NO_RECORD}
        self.watched = waiting.union(self.watched or ())

    def watch(self, index: int) -> None:
        """Somebody asks what became of a record of a batch that failed."""
        if self.unheard is not None and self.watched is not None and index not in self.watched:
            self.watched.add(index)
            self.unheard.failure.heard_one()

    @property
    def unheard_count(self) -> int:
        """How many of its records nobody asked about, as far as it was looked who waits."""
        return 0 if self.is_told else self.record_count - len(self.watched or ())

    def produced_records(self) -> list[ProducedRecord]:
        """Its records as objects, also where they came as Arrow."""
        if self.source is not None:
            return self.source.records()
        found = parse_records(bytes(self.section()), self.record_count, 0, self.base_timestamp_ms, None)
        return [(each.timestamp, each.key, each.value, each.headers) for each in found]

    def part_of(self, index: int) -> tuple[ProducerBatch, int]:
        """The batch that a record is in by now, and its index there."""
        at = self
        while at.parts:
            for part in at.parts:
                if index < part.record_count:
                    at = part
                    break
                index -= part.record_count
        return at, index

    def split(self, ranges: Sequence[range]) -> tuple[ProducerBatch, ...]:
        """Divide it by `ranges` of record indexes, which cover all in order. Each record keeps its sequence, if it has one.

        The batch itself ends when all parts have: acknowledged if all are, else with the first one's error.
        """
        records = self.produced_records()
        self.look_who_waits()
        self.parts = tuple(self._part(records[each.start : each.stop], each.start, n) for n, each in enumerate(ranges))
        for part in self.parts:
            part.on_done.append(self._part_ended)
        self.forget()
        self.encoded = None
        return self.parts

    def _part(self, records: list[ProducedRecord], first: int, number: int) -> ProducerBatch:
        made = ProducerBatch(self.topic_partition, self.created_ms, (*self.ordinal, number))
        for timestamp_ms, key, value, headers in records:
            made.add(timestamp_ms, key, value, headers, record_size_bytes(key, value, headers))
        made.is_closed = True
        made.attempt_count, made.may_be_stored = self.attempt_count, self.may_be_stored
        made.is_behind_gap, made.is_told = self.is_behind_gap, self.is_told
        made.watched = {each - first for each in self.watched or () if first <= each < first + len(records)}
        made.home = self.home
        if self.has_sequence:
            made.identity, made.sequence = self.identity, (self.sequence + first) % SEQUENCE_COUNT
        return made

    def _part_ended(self, _: ProducerBatch) -> None:
        outcomes = [part.outcome for part in self.parts]
        if None not in outcomes:
            errors = [outcome for outcome in outcomes if isinstance(outcome, KafkaError)]
            self.end(errors[0] if errors else outcomes[0] or Acknowledged(-1))

    def end(self, outcome: Acknowledged | KafkaError) -> None:
        """The batch is done; the first outcome stays."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        self.forget()  # deliveries may be kept for long
        self.encoded = None
        callbacks, self.on_done = self.on_done, []
        for callback in callbacks:
            callback(self)


def record_size_bytes(key: bytes | None, value: bytes | None, headers: Sequence[tuple[str, bytes | None]]) -> int:
    """An upper bound of what a record takes in a batch before compression."""
    size = RECORD_OVERHEAD_BYTES + (len(key) if key else 0) + (len(value) if value else 0)
    for name, content in headers:
        size += 10 + len(name) * 4 + (len(content) if content else 0)
    return size
