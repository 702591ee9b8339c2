"""Under which names counts are pushed."""

from __future__ import annotations

from oncelog.client.metrics import ConsumerMetrics, PartitionMetrics, ProducerMetrics
from oncelog.client.telemetry_points import consumer_points, producer_points
from oncelog.client.traffic import BrokerMetrics
from oncelog.wire.metrics_data import MetricKind

BROKERS = (
    BrokerMetrics(
        -1, "boot:9092", connection_count=1, request_count=2, response_count=2, sent_bytes=10, received_bytes=20
    ),
    BrokerMetrics(1, "old:9092", connection_count=1, request_count=1),
    BrokerMetrics(1, "new:9092", 2, 4, 4, 0, 30, 40, latency_sum_ms=6.0, latency_max_ms=3.0, throttle_sum_ms=9),
)


def shown(points):
    return {(point.name, point.attributes): (point.value, point.kind) for point in points}


def test_a_producers():
    found = ProducerMetrics("c", "READY", 3, 300, 2, 40, 4, 4000, 5, 6, 7, 8, BROKERS)
    points = producer_points(found)
    assert len(shown(points)) == len(points), "each is told from the others"
    prefix, node = "org.apache.kafka.producer.", (("node_id", "1"),)
    expected = {
        (f"{prefix}connection.creation.total", ()): (4, MetricKind.CUMULATIVE),
        (f"{prefix}outgoing.byte.total", ()): (40, MetricKind.CUMULATIVE),
        (f"{prefix}incoming.byte.total", ()): (60, MetricKind.CUMULATIVE),
        (f"{prefix}request.total", ()): (7, MetricKind.CUMULATIVE),
        (f"{prefix}node.request.latency.avg", node): (1.5, MetricKind.GAUGE),
        (f"{prefix}node.request.latency.max", node): (3.0, MetricKind.GAUGE),
        ("oncelog.client.throttle.time.total", node): (9, MetricKind.CUMULATIVE),
        (f"{prefix}record.send.total", ()): (40, MetricKind.CUMULATIVE),
        (f"{prefix}record.error.total", ()): (5, MetricKind.CUMULATIVE),
        (f"{prefix}requests.in.flight", ()): (2, MetricKind.GAUGE),
        ("oncelog.producer.transaction.committed.total", ()): (7, MetricKind.CUMULATIVE),
        ("oncelog.producer.transaction.aborted.total", ()): (8, MetricKind.CUMULATIVE),
        ("oncelog.producer.record.incomplete", ()): (3, MetricKind.GAUGE),
    }
    assert expected.items() <= shown(points).items()


def test_a_consumers():
    known = PartitionMetrics("t", 0, 5, 9, 9, 4, False, None)
    unknown = PartitionMetrics("t", 1, None, -1, -1, None, False, None)
    points = shown(consumer_points(ConsumerMetrics("c", "g", 30, 3000, 2, (known, unknown), ())))
    fetches, where = "org.apache.kafka.consumer.fetch.manager.", (("topic", "t"), ("partition", "0"))
    assert points[f"{fetches}records.lag", where] == (4, MetricKind.GAUGE)
    assert [name for name, _ in points if name.endswith("lag")] == [f"{fetches}records.lag"]
    assert points[f"{fetches}records.consumed.total", ()] == (30, MetricKind.CUMULATIVE)
    assert points["org.apache.kafka.consumer.coordinator.rebalance.total", ()] == (2, MetricKind.CUMULATIVE)
    assert points["org.apache.kafka.consumer.coordinator.assigned.partitions", ()] == (2, MetricKind.GAUGE)
