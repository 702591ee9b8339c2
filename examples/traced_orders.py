"""One trace from a request through a transaction and a topic into another service.

    pip install '.[opentelemetry]' opentelemetry-sdk
    python traced_orders.py BROKER

Spans go to the terminal here; a real application gives its provider an exporter of OTLP.
"""

import sys

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor, SpanExporter

from oncelog import sync
from oncelog.opentelemetry import Tracing


def run(bootstrap_servers: str, exporter: SpanExporter, orders: str = "orders", group: str = "shipping") -> None:
    """An order is taken in one service, and shipped in another."""
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer, tracing = provider.get_tracer("shop"), Tracing(provider)
    producer = sync.Producer(bootstrap_servers=bootstrap_servers, transactional_id=group, tracing=tracing)
    with producer, tracer.start_as_current_span("POST /orders"), producer.transaction():
        producer.send(orders, b"3 apples", key=b"4711")
    with sync.Consumer(
        orders,
        group_id=group,
        bootstrap_servers=bootstrap_servers,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        tracing=tracing,
    ) as consumer:
        record = next(consumer)
        with tracing.processing(record, group_id=group), tracer.start_as_current_span("print the label"):
            print(f"{record.key!r}: {record.value!r}")
    provider.shutdown()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python examples/traced_orders.py BOOTSTRAP_SERVERS")
    run(sys.argv[1], ConsoleSpanExporter())
