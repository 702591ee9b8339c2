"""How long loads of coordinator partitions took: Kafka's metrics partition-load-time-max and -avg."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

from oncelog.broker.metrics.metrics import Metrics


class LoadTimes:
    """The loads since the start."""

    def __init__(self) -> None:
        self._count = 0
        self._total_ms = 0.0
        self._max_ms = 0.0

    @contextlib.contextmanager
    def measured(self) -> Iterator[None]:
        """A load is what happens inside."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        yield
        taken_ms = (loop.time() - begun) * 1000
        self._count += 1
        self._total_ms += taken_ms
        self._max_ms = max(self._max_ms, taken_ms)

    def show(self, metrics: Metrics, prefix: str) -> None:
        """As gauges."""
        metrics.gauge(f"{prefix}_max", lambda: self._max_ms)
        metrics.gauge(f"{prefix}_avg", lambda: self._total_ms / self._count if self._count else 0.0)
