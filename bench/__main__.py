"""`make bench [ONLY=name]`: paired figures of oncelog and Apache Kafka in one run; table here, JSON under build/bench/."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import sys
import time

from bench.servers import build_directory, fdatasync_ms, has_apache_kafka
from bench.table import Row, save, show

PARTS = {
    "launch": "bench.brokers:launch",
    "transactions": "bench.brokers:transactions",
    "throughput": "bench.brokers:throughput",
    "arrow": "bench.clients:arrow",
    "codecs": "bench.codecs:codecs",
    "latency": "bench.latency:latency",
    "aborted": "bench.brokers:aborted",
    "whole-run": "bench.brokers:whole_run",
    "dual-writes": "bench.dual_writes:dual_writes",
    "spark": "bench.spark:spark",
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", choices=sorted(PARTS), action="append")
    chosen = parser.parse_args().only or list(PARTS)
    why_not = has_apache_kafka()
    facts = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "fdatasync of a small append": f"{fdatasync_ms():.2f} ms (median)",
        "Apache Kafka": "4.3.0" if why_not is None else f"not measured: {why_not}",
    }
    rows: list[Row] = []
    for name in chosen:
        print(f"bench: {name} ...", file=sys.stderr, flush=True)
        module, _, function = PARTS[name].partition(":")
        started = time.perf_counter()
        rows += getattr(importlib.import_module(module), function)(why_not is None)
        print(f"bench: {name} took {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    path = build_directory() / f"bench{'-' + '-'.join(chosen) if len(chosen) < len(PARTS) else ''}.json"
    save(rows, facts, path)
    print(show(rows, facts))
    print(f"bench: {len(rows)} figures, JSON in {path.relative_to(build_directory().parent.parent)}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
