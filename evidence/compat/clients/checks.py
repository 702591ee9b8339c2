"""What each client is asked to do, in this order. A program reports every name once: passed, failed, or absent with a reason."""

from __future__ import annotations

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
CHECKS: dict[str, str] = {
    **{
        f"records-{codec}": f"an idempotent producer's record ({codec}) comes back whole: key, value, headers, timestamp"
        for codec in CODECS
    },
    "idempotent": "1,000 records on three partitions, each once and in order",
    "positions": "first and last offset, an offset by timestamp, seek",
    "resume": "a group's next consumer goes on behind the committed offset",
    "rebalance": "two members share four partitions, one leaves, the other takes all: no record is missed",
    "rebalance-848": "the same with the consumer protocol of KIP-848",
    "commit-abort": "read_committed shows committed transactions only, read_uncommitted all",
    "interleaved": "two producers and a plain one, interleaved in one partition, are told apart",
    "held-back": "read_committed stops before an open transaction and goes on when it is committed",
    "fenced": "a second instance fences the first, whose records are never seen",
    "offsets": "offsets in a transaction: an aborted copy is made again, every record arrives once",
    "topics": "create, list, describe, more partitions, delete; a second create is refused",
    "configs": "a topic's configs shown and changed, a broker's shown",
    "groups": "list, describe, committed offsets, delete",
    "delete-records": "records before an offset are deleted",
}
