"""What one partition's log needs to know of its topic's configuration. Defaults are Apache Kafka's."""

from __future__ import annotations

from oncelog.lazy_dataclass import dataclass

INT32_MAX = 2**31 - 1


@dataclass(frozen=True, slots=True)
class LogConfig:
    """`retention_ms` and `retention_bytes` of -1 keep everything. `may_have_gaps`: the log is or was compacted.

    For a compacted topic `segment_ms` is at most max.compaction.lag.ms, as the active segment is never cleaned.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 60 * 60 * 1000
    segment_jitter_ms: int = 0
    index_interval_bytes: int = 4096
    index_bytes_max: int = 10 << 20
    retention_ms: int = 7 * 24 * 60 * 60 * 1000
    retention_bytes: int = -1
    may_have_gaps: bool = False
    # Ours: how much synced data the recovery point may lag behind before files_to_sync() also syncs the indexes.
    recovery_bytes_max: int = 64 << 20
    # Ours: side files with bytes that recovery cut off, kept for a person to look at.
    torn_files_max: int = 8
