"""Samples of how far each partition's log, and what readers see of it, had come: the curves of the report."""

from __future__ import annotations

import threading
from typing import Any

from oncelog import TopicPartition, sync
from oncelog.demo.processes import now_ms
from oncelog.errors import KafkaError, OncelogError


class Watch:
    """A thread that asks for high watermark and last stable offset of some partitions, a few times a second."""

    def __init__(self, bootstrap: str, partitions: list[TopicPartition], period_seconds: float = 0.3) -> None:
        self._bootstrap, self._partitions, self._period = bootstrap, partitions, period_seconds
        self.samples: list[dict[str, object]] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join(10)

    def _run(self) -> None:
        config: dict[str, Any] = {
            "bootstrap_servers": self._bootstrap,
            "request_timeout_ms": 2000,
            "default_api_timeout_ms": 2000,
        }
        with (
            sync.Consumer(**config, isolation_level="read_committed") as committed,
            sync.Consumer(**config, isolation_level="read_uncommitted") as uncommitted,
        ):
            while not self._stop.wait(self._period):
                try:
                    stable = committed.end_offsets(self._partitions)
                    high = uncommitted.end_offsets(self._partitions)
                except (KafkaError, OncelogError, OSError):
                    continue  # the broker is down just now: a gap in the curve
                self.samples.append(
                    {
                        "time_ms": now_ms(),
                        "stable": {str(p): o for p, o in stable.items()},
                        "high": {str(p): o for p, o in high.items()},
                    }
                )
