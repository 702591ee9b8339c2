"""What a dead letter says beside the record's own key, value and headers: where it was, and what it failed of.

The names are built as those of Kafka Connect (`__connect.errors.*`) and Kafka Streams (KIP-1034, `__streams.errors.*`).
"""

from __future__ import annotations

from oncelog.core.processing.steps import Failure, Place

PREFIX = "__oncelog.errors."
MESSAGE_BYTES_MAX = 4096

Headers = tuple[tuple[str, bytes | None], ...]


def dead_letter_headers(
    headers: Headers, place: Place, failure: Failure, *, group_id: str, timestamp_ms: int
) -> Headers:
    """The record's own headers, then ours. One that was a dead letter before keeps what it said then, under its own."""
    error = failure.error
    topic, partition = place.topic_partition
    ours: dict[str, bytes] = {
        "topic": topic.encode(),
        "partition": b"%d" % partition,
        "offset": b"%d" % place.offset,
        "timestamp": b"%d" % timestamp_ms,
        "group": group_id.encode(),
        "attempts": b"%d" % failure.attempt_count,
        "exception": f"{type(error).__module__}.{type(error).__qualname__}".encode(),
        "message": str(error).encode(errors="backslashreplace")[:MESSAGE_BYTES_MAX],
    }
    return (*headers, *((PREFIX + name, value) for name, value in ours.items()))
