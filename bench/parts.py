"""Which parts `make bench` has, and what the rows of each are called: `ONLY=part`, `ONLY=part/row`."""

from __future__ import annotations

from collections.abc import Sequence

RECORD_SIZES = (100, 1_000, 10_000)  # bytes
CONNECTION_COUNTS = (1, 16)
PRODUCER_COUNTS = (1, 8, 16, 64)
PROCESS_COUNTS = (2, 4, 8)  # beside one
MESSAGE_RATES = (200, 5_000)  # a second

PARTS = {
    "in-process": "bench.in_process.part:in_process",
    "sockets": "bench.sockets:sockets",
    "our-transactions": "bench.our_clients:our_transactions",
    "journal": "bench.journal:journal",
    "processes": "bench.processes:processes",
    "end-to-end": "bench.our_clients:end_to_end",
    "records": "bench.records:records",
    "launch": "bench.brokers:launch",
    "transactions": "bench.brokers:transactions",
    "throughput": "bench.brokers:throughput",
    "arrow": "bench.clients:arrow",
    "codecs": "bench.codecs:codecs",
    "security": "bench.security:security",
    "latency": "bench.latency:latency",
    "aborted": "bench.brokers:aborted",
    "floors": "bench.floors:floors",
    "whole-run": "bench.brokers:whole_run",
    "dual-writes": "bench.dual_writes:dual_writes",
    "spark": "bench.spark:spark",
}
# A part without an entry has one measurement for all its rows, or a few that belong together.
ROWS: dict[str, Sequence[str]] = {
    "sockets": (
        *(f"fetch-{size}" for size in RECORD_SIZES),
        *(f"produce-{size}-{count}" for size in RECORD_SIZES for count in CONNECTION_COUNTS),
        "produce-1000-16-fsync",
        "partitions-1000",
        "topics-200",
        "metadata-200",
    ),
    "our-transactions": (*(f"producers-{count}" for count in PRODUCER_COUNTS), "transform"),
    "journal": ("producers-1", "producers-8", "librdkafka-8", "librdkafka-1"),
    "processes": ("librdkafka-8", "librdkafka-1", "produce"),
    "security": ("produce", "consume", "commit"),
    "end-to-end": tuple(f"rate-{rate}" for rate in MESSAGE_RATES),
    "records": ("send", "send_nowait", "sync-send", "poll", "sync-poll", "sync-iteration"),
    "floors": ("transactions", "relay"),
    "spark": ("read", "read-into-python", "write", "copy", "stream"),
    "throughput": tuple(f"{policy}-{size}" for policy in ("os", "fsync") for size in RECORD_SIZES),
}
