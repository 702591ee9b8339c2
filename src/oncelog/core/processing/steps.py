"""The words between `Processing`, which decides, and the shell, which does: records in hand, steps, failures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any, NamedTuple

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

TRANSACTION_RECORDS_MAX = 1000
TRANSACTION_BYTES_MAX = 16 * 1024 * 1024
TRANSACTION_INTERVAL_MS = 100
TRANSFORM_RETRIES = 5
TRANSFORM_BACKOFF_MS, TRANSFORM_BACKOFF_MAX_MS = 100, 10_000
OUTAGE_TIMEOUT_MS = 300_000
POLL_TIMEOUT_MS = 1000
END_POLL_TIMEOUT_MS = 100


@dataclass(frozen=True, slots=True)
class Limits:
    """What bounds a transaction, and how often and how long something is tried. docs/processing.md has the table."""

    transaction_records_max: int = TRANSACTION_RECORDS_MAX
    transaction_bytes_max: int = TRANSACTION_BYTES_MAX
    transaction_interval_ms: int = TRANSACTION_INTERVAL_MS
    transform_retries: int = TRANSFORM_RETRIES
    transform_backoff_ms: int = TRANSFORM_BACKOFF_MS
    transform_backoff_max_ms: int = TRANSFORM_BACKOFF_MAX_MS
    outage_timeout_ms: int = OUTAGE_TIMEOUT_MS
    max_poll_interval_ms: int = 300_000
    max_records: int | None = None
    until_end: bool = False
    has_dead_letter_topic: bool = False
    restarts_when_fenced: bool = False
    transforms_inside: bool = (
        False  # the transform runs within the transaction: a dual write, which rolls its rows back
    )


class Item(NamedTuple):
    """A record in hand."""

    topic_partition: TopicPartition
    offset: int
    size_bytes: int
    record: Any

    @property
    def place(self) -> Place:
        """Where it is."""
        return Place(self.topic_partition, self.offset)


class Place(NamedTuple):
    """Where a record is."""

    topic_partition: TopicPartition
    offset: int

    def __str__(self) -> str:
        return f"{self.topic_partition}@{self.offset}"


@dataclass(frozen=True, slots=True)
class Failure:
    """What went wrong with one record; `is_final`: another attempt would end the same; `is_outage`: what the transform needs
    (a database) may be away, so the record is tried for as long as an outage is borne, and is never a dead letter of it."""

    error: BaseException
    attempt_count: int = 1
    is_final: bool = False
    is_outage: bool = False


@dataclass(frozen=True, slots=True)
class Poll:
    """Ask the consumer for records. `pauses`: for none, only to stay in the group while something is waited for."""

    timeout_ms: int
    records_max: int
    pauses: bool = False


@dataclass(frozen=True, slots=True)
class CheckEnd:
    """Ask whether there is anything left to read."""


@dataclass(frozen=True, slots=True)
class Transform:
    """Call the transform for these, in order, until one fails or `budget_ms` (None: no bound) are over."""

    items: tuple[Item, ...]
    budget_ms: int | None


@dataclass(frozen=True, slots=True)
class Write:
    """One transaction: what became of these records, and the group's positions behind them.

    `read_out`: partitions of which nothing is in hand any more: their position is the consumer's own, which may be past
    hidden records. `dead`: the only record is not transformed but goes to the dead-letter topic.
    """

    items: tuple[Item, ...]
    next_offsets: Mapping[TopicPartition, int]
    read_out: frozenset[TopicPartition]
    dead: Failure | None = None


@dataclass(frozen=True, slots=True)
class Abort:
    """Abort the open transaction."""


@dataclass(frozen=True, slots=True)
class Renew:
    """Put a new producer in the place of the one that is over; it ends what that one left."""


@dataclass(frozen=True, slots=True)
class Rewind:
    """Go back to the committed positions; where nothing is committed yet, to these."""

    first_offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class End:
    """It is over, with this error if any."""

    error: BaseException | None = None


Step = Poll | CheckEnd | Transform | Write | Abort | Renew | Rewind | End


@dataclass(slots=True)
class Counts:
    """What happened so far. Records count when their transaction is committed."""

    consumed_record_count: int = 0
    produced_record_count: int = 0
    dead_letter_count: int = 0
    committed_transaction_count: int = 0
    aborted_transaction_count: int = 0
    retry_count: int = 0
    rewind_count: int = 0
    producer_renewal_count: int = 0
    given_up_record_count: int = field(default=0)  # dropped with their partitions before they were written
