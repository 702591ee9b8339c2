"""What a read of a log gives."""

from __future__ import annotations

from typing import NamedTuple


class LogRead(NamedTuple):
    """What a read gives: whole batches of one segment, as they lie on disk.

    `base_offset` is the first batch's (at or below the offset asked for), `end_offset` the exclusive end of the data.
    `upper_bound_offset`, for `aborted_between`, is what Kafka derives from the offset index: an offset at or above
    `end_offset`, else the next segment's base, else the log's end (docs/kafka-notes.md F2).
    """

    data: bytes
    base_offset: int
    end_offset: int
    upper_bound_offset: int
