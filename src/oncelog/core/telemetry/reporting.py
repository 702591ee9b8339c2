"""When a client asks which metrics are wanted and when it pushes them, what of them, and what an error means (KIP-714).

As Java's ClientTelemetryReporter: the first push comes after half an interval to one and a half, so that clients that
began together do not push together. `now_ms` is monotonic.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.compression import Codec
from oncelog.wire.metrics_data import Attributes, DataPoint, MetricKind
from oncelog.wire.schema import ZERO_UUID

INTERVAL_MS_DEFAULT = 300_000
JITTER_LOW, JITTER_HIGH = 0.5, 1.5  # of the first push
_ALL_METRICS = "*"
_AT_ONCE = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_LATER = (ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED)


@dataclass(frozen=True, slots=True)
class Subscription:
    """What the broker wants."""

    subscription_id: int
    interval_ms: int
    metrics: tuple[str, ...]
    codec: Codec
    size_bytes_max: int
    is_delta: bool

    def wanted(self, points: Iterable[DataPoint]) -> list[DataPoint]:
        """Those of the points that are wanted, by the prefixes of their names."""
        if self.metrics == (_ALL_METRICS,):
            return list(points)
        return [point for point in points if point.name.startswith(self.metrics)]


def subscription_of(
    subscription_id: int,
    interval_ms: int,
    metrics: Iterable[str],
    codecs: Iterable[int],
    size_bytes_max: int,
    *,
    is_delta: bool,
) -> Subscription:
    """From what a broker answered: the first codec that we have, none where it names none of ours."""
    known = [Codec(each) for each in codecs if each in Codec.__members__.values()]
    every_ms = interval_ms if interval_ms > 0 else INTERVAL_MS_DEFAULT
    codec = known[0] if known else Codec.NONE
    return Subscription(subscription_id, every_ms, tuple(metrics), codec, size_bytes_max, is_delta)


class Reporting:
    """Where a client stands."""

    def __init__(self) -> None:
        self.instance_id = ZERO_UUID  # until the broker has given one
        self.subscription: Subscription | None = None
        self.is_over = False  # nothing is asked or pushed any more
        self._is_push_due = False
        self._due_ms = float("-inf")

    def wait_ms(self, now_ms: float) -> float:
        """How long nothing is to be done."""
        return max(self._due_ms - now_ms, 0.0)

    @property
    def to_push(self) -> Subscription | None:
        """What is to be pushed next; None where the next thing is to ask."""
        return self.subscription if self._is_push_due else None

    def subscribed(self, instance_id: bytes, subscription: Subscription, now_ms: float, jitter: float) -> None:
        """The broker said what it wants. `jitter`: between JITTER_LOW and JITTER_HIGH."""
        self.instance_id, self.subscription = instance_id, subscription
        self._is_push_due = bool(subscription.metrics)
        self._due_ms = now_ms + subscription.interval_ms * (jitter if self._is_push_due else 1)

    def pushed(self, now_ms: float) -> None:
        """The broker took a push."""
        assert self.subscription is not None
        self._due_ms = now_ms + self.subscription.interval_ms

    def refused(self, error_code: int, now_ms: float) -> None:
        """The broker answered with an error: ask again, now or later, or never."""
        self._is_push_due = False
        if error_code in _AT_ONCE:
            self._due_ms = now_ms
        elif error_code in _LATER:
            self._due_ms = now_ms + (self.subscription.interval_ms if self.subscription else INTERVAL_MS_DEFAULT)
        else:
            self.is_over = True

    def failed(self, now_ms: float) -> None:
        """There was no answer, or this broker takes no metrics; another may."""
        self._is_push_due = False
        self._due_ms = now_ms + INTERVAL_MS_DEFAULT


class Ledger:
    """What was pushed last, so that sums can be told as what was added to them."""

    def __init__(self) -> None:
        self._told: dict[tuple[str, Attributes], float] = {}

    def deltas(self, points: Sequence[DataPoint]) -> list[DataPoint]:
        """Sums as deltas to those told last; gauges as they are."""
        return [
            replace(point, value=point.value - self._told.get((point.name, point.attributes), 0), kind=MetricKind.DELTA)
            if point.kind is MetricKind.CUMULATIVE
            else point
            for point in points
        ]

    def told(self, points: Sequence[DataPoint]) -> None:
        """These were taken, as sums from their beginning."""
        self._told = {
            (point.name, point.attributes): point.value for point in points if point.kind is MetricKind.CUMULATIVE
        }
