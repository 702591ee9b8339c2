"""What goes to and comes from each broker, counted: a few additions per request."""

from __future__ import annotations

from dataclasses import fields

from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node

BROKERS_MAX = 1000


@dataclass(frozen=True, slots=True)
class BrokerMetrics:
    """What went to and came from one broker. A negative node id: a bootstrap server.

    Latencies are from a request to its answer, a Fetch's waiting included; `unanswered_count` counts requests whose
    connection ended first. `throttle_ms`: the pause that the broker asked for (KIP-219) and that is being kept, as it was
    told; 0 where there is none.
    """

    node_id: int
    address: str
    connection_count: int = 0
    request_count: int = 0
    response_count: int = 0
    unanswered_count: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    latency_sum_ms: float = 0.0
    latency_max_ms: float = 0.0
    throttle_sum_ms: int = 0
    throttle_ms: int = 0


class Traffic:
    """Counts of one broker's connections."""

    __slots__ = (
        "_throttles",
        "connection_count",
        "latency_max_ms",
        "latency_sum_ms",
        "received_bytes",
        "request_count",
        "response_count",
        "sent_bytes",
        "throttle_sum_ms",
        "unanswered_count",
    )

    def __init__(self) -> None:
        self.connection_count = self.request_count = self.response_count = self.unanswered_count = 0
        self.sent_bytes = self.received_bytes = self.throttle_sum_ms = 0
        self.latency_sum_ms = self.latency_max_ms = 0.0
        self._throttles: dict[object, int] = {}

    @property
    def throttle_ms(self) -> int:
        """The longest pause that one of the connections keeps, as it was told."""
        return max(self._throttles.values(), default=0)

    def throttled(self, connection: object, told_ms: int) -> None:
        """A connection keeps such a pause; 0: none any more."""
        if told_ms:
            self._throttles[connection] = told_ms
        else:
            self._throttles.pop(connection, None)

    def answered(self, taken_s: float) -> None:
        """A request was answered."""
        taken_ms = taken_s * 1000
        self.response_count += 1
        self.latency_sum_ms += taken_ms
        self.latency_max_ms = max(self.latency_max_ms, taken_ms)


class TrafficByBroker:
    """Counts by broker, of the last thousand."""

    def __init__(self) -> None:
        self._traffic: dict[Node, Traffic] = {}

    def of(self, node: Node) -> Traffic:
        """The counts of one broker."""
        found = self._traffic.get(node)
        if found is None:
            if len(self._traffic) >= BROKERS_MAX:
                del self._traffic[next(iter(self._traffic))]
            found = self._traffic[node] = Traffic()
        return found

    def snapshot(self) -> tuple[BrokerMetrics, ...]:
        """All of them."""
        return tuple(
            BrokerMetrics(node.node_id, f"{node.host}:{node.port}", **{name: getattr(each, name) for name in _COUNTS})
            for node, each in self._traffic.items()
        )


_COUNTS = tuple(field.name for field in fields(BrokerMetrics) if field.name not in {"node_id", "address"})
