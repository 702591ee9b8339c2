"""What a coordinator decides, as a value; the shell performs it.

In this order: append `records` as one batch to the coordinator's partition and call `appended(records)` in the same
step (`failed(records)` when the append or its sync fails); when they are committed `apply(record)` for each; then
send `reply` and `replies`; then start writing `markers`. Request handlers look and change nothing, so a decision that
is thrown away leaves no trace.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition


@dataclass(frozen=True, slots=True)
class MarkersToWrite:
    """The end of one transaction, to be written to each of its partitions (WriteTxnMarkers).

    `prepared` is the very Prepare record whose completion this is: completions are matched by that object, never by
    transactional id alone, so a late answer cannot complete a newer transaction (KAFKA-16352). `partitions` may be the
    part that has to be sent again. `transaction_version` is 2 where the marker's epoch is above the transaction's.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    commit: bool
    partitions: frozenset[TopicPartition]
    transaction_version: int
    prepared: Any = field(default=None, repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Decision:
    """What the shell must do (see the module). `reply` is the wire response of the request's version.

    `held_until_complete` names a transactional id when the refusal (CONCURRENT_TRANSACTIONS) is only because that id
    has a transition under way: the shell may keep the request and ask again when it is over, instead of sending
    `reply`.
    """

    records: tuple[Any, ...] = ()
    reply: Any = None
    markers: tuple[MarkersToWrite, ...] = ()
    replies: tuple[tuple[int, Any], ...] = ()
    held_until_complete: str | None = None


NOTHING = Decision()
