"""`metrics.listen`: the broker's numbers for Prometheus, and whether it is ready: /metrics, /readyz and /livez. Nothing else."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from oncelog.broker.metrics.metrics import Metrics
from oncelog.core.exposition import exposition
from oncelog.core.readiness import readiness_body
from oncelog.host.http_endpoint import NOT_FOUND, Answer, HttpEndpoint
from oncelog.host.worker import Worker


def metrics_endpoint(
    metrics: Metrics, is_ready: Callable[[], bool], offline_count: Callable[[], int], worker: Worker
) -> HttpEndpoint:
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
            return readiness(is_ready=is_ready(), offline_count=offline_count())
        return NOT_FOUND

    return HttpEndpoint(answer)


def readiness(*, is_ready: bool, offline_count: int) -> Answer:
    """Whether requests are served. Partitions that are offline are only told: the broker still answers for all others, reads
    what a full disk lets it read, and is whom one asks what is wrong; nobody else could be sent its requests."""
    if not is_ready:
        return "503 Service Unavailable", "not ready\n"
    return "200 OK", readiness_body(offline_count)
