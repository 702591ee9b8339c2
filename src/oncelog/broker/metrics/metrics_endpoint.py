"""`metrics.listen`: the broker's numbers for Prometheus, and whether it is ready: /metrics, /readyz and /livez. Nothing else."""

from __future__ import annotations

from collections.abc import Callable

from oncelog.broker.metrics.metrics import Metrics
from oncelog.core.exposition import exposition
from oncelog.host.http_endpoint import NOT_FOUND, HttpEndpoint


def metrics_endpoint(metrics: Metrics, is_ready: Callable[[], bool]) -> HttpEndpoint:
    """What listens where `metrics.listen` says."""

    def answer(path: str) -> tuple[str, str]:
        if path == "/metrics":
            return "200 OK", exposition(metrics.families())
        if path == "/livez":
            return "200 OK", "alive\n"
        if path == "/readyz":
            return ("200 OK", "ready\n") if is_ready() else ("503 Service Unavailable", "not ready\n")
        return NOT_FOUND

    return HttpEndpoint(answer)
