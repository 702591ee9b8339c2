"""Counters and gauges of a broker: numbers by name, nothing more. How they are shown is somebody else's business."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from oncelog.wire.api import ApiKey


class Metrics:
    """Named counters that only grow, and gauges that are asked when somebody looks."""

    def __init__(self) -> None:
        self._counters: Counter[str] = Counter()
        self._requests: Counter[ApiKey] = Counter()
        self._gauges: dict[str, Callable[[], float]] = {}

    def add(self, name: str, amount: int = 1) -> None:
        """Count `amount` more of `name`."""
        self._counters[name] += amount

    def count_request(self, api_key: ApiKey) -> None:
        """Count one request of an API."""
        self._requests[api_key] += 1

    def gauge(self, name: str, ask: Callable[[], float]) -> None:
        """Show `ask()` as `name`."""
        self._gauges[name] = ask

    def is_gauge(self, name: str) -> bool:
        """Whether `name` can also fall."""
        return name in self._gauges

    def values(self) -> dict[str, float]:
        """Everything by name; requests as `requests_total{api="PRODUCE"}`."""
        shown: dict[str, float] = dict(self._counters)
        shown |= {f'requests_total{{api="{key.name}"}}': count for key, count in self._requests.items()}
        shown |= {name: ask() for name, ask in self._gauges.items()}
        return shown
