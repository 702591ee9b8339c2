"""The gauges of a broker: what is looked for when somebody looks at the metrics, and the event loop's lag."""

from __future__ import annotations

import asyncio
import heapq

from oncelog.broker.coordinators.marker_sender import MarkerSender
from oncelog.broker.coordinators.routes import RoutedMarkers
from oncelog.broker.metrics.metrics import Labels, Metrics
from oncelog.broker.node import Node
from oncelog.broker.partitions.log_cleaner import LogCleaner
from oncelog.log.journal import Journal

LAGGING_PARTITIONS_MAX = 100
LAG_INTERVAL_S = 0.5


def register_gauges(
    node: Node, cleaner: LogCleaner, marker_sender: MarkerSender | RoutedMarkers, journal: Journal | None
) -> None:
    """Put the gauges of a broker into its metrics."""
    metrics, partitions = node.metrics, node.partitions
    metrics.gauge("partitions", lambda: len(partitions))
    metrics.gauge("partitions_offline", lambda: partitions.offline_count)
    metrics.gauge("uncleanable_partitions", lambda: cleaner.uncleanable_count)
    metrics.gauge("log_cleaner_dirty_percent_max", lambda: 100 * cleaner.figures.dirty_ratio_max)
    metrics.gauge("log_cleaner_seconds", lambda: cleaner.figures.seconds_last)
    metrics.gauge("log_cleaner_recopy_percent", lambda: 100 * cleaner.figures.recopied_last)
    metrics.gauge("log_cleaner_buffer_percent", lambda: 100 * cleaner.figures.map_utilization_last)
    metrics.gauge("journal_segments", lambda: 0 if journal is None else journal.segment_count)
    metrics.gauge("journal_segments_in_use", lambda: 0 if journal is None else journal.segments_in_use)
    metrics.gauge("journal_pending_bytes", lambda: 0 if journal is None else journal.pending_size_bytes)
    metrics.gauge("deleted_files", lambda: len(partitions.deleted))
    metrics.gauge("producer_ids", lambda: sum(each.rules.producer_count for each in partitions))
    metrics.gauge("open_transactions", lambda: sum(each.rules.open_transaction_count for each in partitions))
    metrics.gauge("partitions_with_late_transactions", lambda: _late(node))
    metrics.gauge("partition_last_stable_offset_lag", lambda: _largest_lags(node))
    metrics.gauge(
        "last_stable_offset_lag",
        lambda: sum(each.rules.high_watermark - each.rules.last_stable_offset for each in partitions),
    )
    metrics.gauge("fetch_sessions", lambda: len(node.fetch_sessions))
    metrics.gauge("fetch_session_partitions", lambda: node.fetch_sessions.partition_count)
    metrics.gauge("share_sessions", lambda: node.share_groups.session_count)
    metrics.gauge("share_partitions", lambda: node.share_groups.partition_count)
    metrics.gauge("share_records_in_flight", lambda: node.share_groups.in_flight_count)
    metrics.gauge("client_instances", lambda: 0)  # until a client asks what it is to push
    metrics.gauge("client_gauge", dict)
    metrics.gauge("client_counter", dict)
    metrics.gauge("gate_questions", lambda: len(node.gate))
    metrics.gauge("markers_queued", lambda: len(marker_sender))
    metrics.gauge("active_transaction_open_time_max_ms", node.transactions.longest_open_ms)
    metrics.gauge("transactional_ids", lambda: node.transactions.key_count)
    metrics.gauge("groups", lambda: node.groups.key_count)
    metrics.gauge("feature_level", lambda: _feature_levels(node))
    node.transactions.load_times.show(metrics, "transaction_load_ms")
    node.groups.load_times.show(metrics, "group_load_ms")


def _late(node: Node) -> int:
    now_ms = node.clock.now_ms()
    return sum(
        1 for each in node.partitions if each.rules.open_transaction_count and each.rules.late_transactions(now_ms)
    )


def _largest_lags(node: Node) -> dict[Labels, float]:
    lags: list[tuple[int, Labels]] = []
    for each in node.partitions:
        lag = each.rules.high_watermark - each.rules.last_stable_offset
        if lag > 0:
            lags.append((lag, (each.name.topic, str(each.name.partition))))
    return {labels: lag for lag, labels in heapq.nlargest(LAGGING_PARTITIONS_MAX, lags)}


def _feature_levels(node: Node) -> dict[Labels, float]:
    return {(name,): level for name, level in node.metadata.features.items()}


async def watch_event_loop(metrics: Metrics) -> None:
    """For ever: how late a timer of the loop rings."""
    loop, lag_ms = asyncio.get_running_loop(), metrics.histogram("event_loop_lag_ms")
    while True:
        due = loop.time() + LAG_INTERVAL_S
        await asyncio.sleep(LAG_INTERVAL_S)
        lag_ms.observe(max(loop.time() - due, 0.0) * 1000)
