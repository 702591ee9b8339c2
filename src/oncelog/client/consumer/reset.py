"""Where a consumer looks for a place that nobody stored: its `auto_offset_reset`."""

from __future__ import annotations

from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.offset_lookup import EARLIEST, LATEST
from oncelog.client.config import ConsumerConfig
from oncelog.core.offset_reset import first_time_ms

_ENDS = {"earliest": EARLIEST, "latest": LATEST}


def reset_timestamp(cluster: Cluster, config: ConsumerConfig) -> int | None:
    """What is looked up where a partition has no position (`auto_offset_reset`): EARLIEST, LATEST, or with `by_duration` a
    time (KIP-1106). None where nothing says where to begin."""
    at_ms = first_time_ms(config.auto_offset_reset, cluster.host.clock.now_ms())
    return _ENDS.get(config.auto_offset_reset) if at_ms is None else at_ms
