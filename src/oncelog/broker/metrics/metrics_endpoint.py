"""`metrics.listen`: the broker's numbers for Prometheus, and whether it is ready: /metrics, /readyz and /livez. Nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oncelog.broker.metrics.metrics import Metrics
from oncelog.core.exposition import exposition
from oncelog.host.http_endpoint import NOT_FOUND, Answer, HttpEndpoint
from oncelog.host.worker import Worker


def metrics_endpoint(metrics: Metrics, is_ready: Callable[[], bool], worker: Worker) -> HttpEndpoint:
    """What listens where `metrics.listen` says. A page is written beside the loop, one at a time: clients can make it long."""
    writing = asyncio.Lock()

    async def page() -> Answer:
        async with writing:
            families = list(metrics.families())
            return "200 OK", await worker.run(lambda pace: exposition(families, pace))

    def answer(path: str) -> Answer | Awaitable[Answer]:
        if path == "/metrics":
            return page()
        if path == "/livez":
            return "200 OK", "alive\n"
        if path == "/readyz":
            return ("200 OK", "ready\n") if is_ready() else ("503 Service Unavailable", "not ready\n")
        return NOT_FOUND

    return HttpEndpoint(answer)
