"""The gauges of a broker: what is looked for when somebody looks at the metrics, and the event loop's lag."""

from __future__ import annotations

import asyncio
import heapq
from typing import TYPE_CHECKING

from oncelog.broker.metrics.metrics import Labels, Metrics

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

LAGGING_PARTITIONS_MAX = 100
LAG_INTERVAL_S = 0.5


def register_gauges(broker: Broker) -> None:
    """Put the gauges of `broker` into `broker.metrics`."""
    metrics, partitions = broker.metrics, broker.partitions
    metrics.gauge("partitions", lambda: len(partitions))
    metrics.gauge("partitions_offline", lambda: sum(each.is_offline for each in partitions))
    cleaner = broker.log_cleaner
    metrics.gauge("uncleanable_partitions", lambda: cleaner.uncleanable_count)
    metrics.gauge("log_cleaner_dirty_percent_max", lambda: 100 * cleaner.figures.dirty_ratio_max)
    metrics.gauge("log_cleaner_seconds", lambda: cleaner.figures.seconds_last)
    metrics.gauge("log_cleaner_recopy_percent", lambda: 100 * cleaner.figures.recopied_last)
    metrics.gauge("log_cleaner_buffer_percent", lambda: 100 * cleaner.figures.map_utilization_last)
    metrics.gauge("deleted_files", lambda: len(partitions.deleted))
    metrics.gauge("producer_ids", lambda: sum(each.rules.producer_count for each in partitions))
    metrics.gauge("open_transactions", lambda: sum(each.rules.open_transaction_count for each in partitions))
    metrics.gauge("partitions_with_late_transactions", lambda: _late(broker))
    metrics.gauge("partition_last_stable_offset_lag", lambda: _largest_lags(broker))
    metrics.gauge(
        "last_stable_offset_lag",
        lambda: sum(each.rules.high_watermark - each.rules.last_stable_offset for each in partitions),
    )
    metrics.gauge("fetch_sessions", lambda: len(broker.fetch_sessions))
    metrics.gauge("fetch_session_partitions", lambda: broker.fetch_sessions.partition_count)
    metrics.gauge("gate_questions", lambda: len(broker.gate))
    metrics.gauge("markers_queued", lambda: len(broker.marker_sender))
    metrics.gauge("active_transaction_open_time_max_ms", broker.transactions.longest_open_ms)
    metrics.gauge("transactional_ids", lambda: sum(len(each.machine) for each in broker.transactions.loaded()))
    metrics.gauge("groups", lambda: sum(len(each.machine) for each in broker.groups.loaded()))
    metrics.gauge("feature_level", lambda: {(name,): level for name, level in broker.metadata.features.items()})
    broker.transactions.load_times.show(metrics, "transaction_load_ms")
    broker.groups.load_times.show(metrics, "group_load_ms")


def _late(broker: Broker) -> int:
    now_ms = broker.host.clock.now_ms()
    return sum(
        1 for each in broker.partitions if each.rules.open_transaction_count and each.rules.late_transactions(now_ms)
    )


def _largest_lags(broker: Broker) -> dict[Labels, float]:
    lags: list[tuple[int, Labels]] = []
    for each in broker.partitions:
        lag = each.rules.high_watermark - each.rules.last_stable_offset
        if lag > 0:
            lags.append((lag, (each.name.topic, str(each.name.partition))))
    return {labels: lag for lag, labels in heapq.nlargest(LAGGING_PARTITIONS_MAX, lags)}


async def watch_event_loop(metrics: Metrics) -> None:
    """For ever: how late a timer of the loop rings."""
    loop, lag_ms = asyncio.get_running_loop(), metrics.histogram("event_loop_lag_ms")
    while True:
        due = loop.time() + LAG_INTERVAL_S
        await asyncio.sleep(LAG_INTERVAL_S)
        lag_ms.observe(max(loop.time() - due, 0.0) * 1000)
