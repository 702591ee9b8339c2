"""The member that is an application of FastStream: what its handler gives and what it publishes are of one transaction."""

from __future__ import annotations

from typing import Any

from faststream import FastStream

from oncelog.client.metrics import ProcessMetrics
from oncelog.faststream import OncelogBroker, OncelogMessage, OncelogResponse


async def run_application(topic: str, copies: Any, teller: Any, given: dict[str, Any]) -> ProcessMetrics:
    """Until a signal; `copies` gives keys and values for a record, `given` is what `oncelog.process` would be given."""
    elsewhere = ("into", "bootstrap_servers", "stop_timeout_ms")
    options = {key: value for key, value in given.items() if key not in elsewhere}
    broker = OncelogBroker(given["bootstrap_servers"], logger=None, graceful_timeout=given["stop_timeout_ms"] / 1000)

    def tell(metrics: ProcessMetrics) -> None:
        teller.processor = subscriber._processor
        teller(metrics)

    subscriber = broker.subscriber(topic, max_workers=4, stats_cb=tell, **options)

    @subscriber
    @broker.publisher(given["into"], batch=True)
    async def handle(number: int, message: OncelogMessage) -> list[OncelogResponse]:
        found = await copies(message.raw_message)
        for key, value in found[:-1]:
            await broker.publish(value, given["into"], key=key)
        return [OncelogResponse(value, key=key) for key, value in found[-1:]]

    await FastStream(broker, logger=None).run(sleep_time=0.05)
    metrics = subscriber.metrics()
    assert metrics is not None
    return metrics
