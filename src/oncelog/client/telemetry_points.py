"""A client's counts under the names of KIP-714 and of Java's clients, where they say the same; others begin with `oncelog.`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oncelog.client.metrics import ConsumerMetrics, ProducerMetrics
from oncelog.client.traffic import BrokerMetrics
from oncelog.wire.metrics_data import DataPoint, MetricKind

PREFIX = "org.apache.kafka."
PRODUCER, CONSUMER, ADMIN = f"{PREFIX}producer.", f"{PREFIX}consumer.", f"{PREFIX}admin.client."


def _sum(name: str, value: float, *attributes: tuple[str, str]) -> DataPoint:
    return DataPoint(name, value, MetricKind.CUMULATIVE, attributes)


def _gauge(name: str, value: float, *attributes: tuple[str, str]) -> DataPoint:
    return DataPoint(name, value, MetricKind.GAUGE, attributes)


def producer_points(found: ProducerMetrics) -> list[DataPoint]:
    """A producer's."""
    own = "oncelog.producer."
    return [
        *broker_points(PRODUCER, found.brokers),
        _sum(f"{PRODUCER}record.send.total", found.acknowledged_record_count),
        _sum(f"{PRODUCER}record.error.total", found.failed_record_count),
        _gauge(f"{PRODUCER}requests.in.flight", found.requests_in_flight_count),
        _sum(f"{own}batch.retry.total", found.retry_count),
        _sum(f"{own}batch.acknowledged.total", found.acknowledged_batch_count),
        _sum(f"{own}byte.acknowledged.total", found.acknowledged_bytes),
        _sum(f"{own}transaction.committed.total", found.committed_transaction_count),
        _sum(f"{own}transaction.aborted.total", found.aborted_transaction_count),
        _gauge(f"{own}record.incomplete", found.incomplete_record_count),
        _gauge(f"{own}byte.buffered", found.buffered_bytes),
    ]


def consumer_points(found: ConsumerMetrics) -> list[DataPoint]:
    """A consumer's; lags last, as there may be many."""
    fetches = f"{CONSUMER}fetch.manager."
    return [
        *broker_points(CONSUMER, found.brokers),
        _sum(f"{fetches}records.consumed.total", found.delivered_record_count),
        _sum(f"{fetches}bytes.consumed.total", found.fetched_bytes),
        _sum(f"{CONSUMER}coordinator.rebalance.total", found.rebalance_count),
        _gauge(f"{CONSUMER}coordinator.assigned.partitions", len(found.partitions)),
        *(
            _gauge(
                f"{fetches}records.lag", each.readable_lag, ("topic", each.topic), ("partition", str(each.partition))
            )
            for each in found.partitions
            if each.readable_lag is not None
        ),
    ]


def broker_points(prefix: str, brokers: Iterable[BrokerMetrics]) -> Iterator[DataPoint]:
    """What went to and came from brokers: of all together, and of each by its node id (one that has moved: where it is now)."""
    brokers = list(brokers)
    yield _sum(f"{prefix}connection.creation.total", sum(each.connection_count for each in brokers))
    yield _sum(f"{prefix}request.total", sum(each.request_count for each in brokers))
    yield _sum(f"{prefix}response.total", sum(each.response_count for each in brokers))
    yield _sum(f"{prefix}outgoing.byte.total", sum(each.sent_bytes for each in brokers))
    yield _sum(f"{prefix}incoming.byte.total", sum(each.received_bytes for each in brokers))
    for node_id, latest in {each.node_id: each for each in brokers if each.node_id >= 0}.items():
        node = ("node_id", str(node_id))
        yield _sum("oncelog.client.throttle.time.total", latest.throttle_sum_ms, node)
        if latest.response_count:
            yield _gauge(f"{prefix}node.request.latency.avg", latest.latency_sum_ms / latest.response_count, node)
            yield _gauge(f"{prefix}node.request.latency.max", latest.latency_max_ms, node)
