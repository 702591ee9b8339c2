"""`make bench [ONLY=name]`: paired figures of oncelog and Apache Kafka in one run; table here, JSON under build/bench/."""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import sys
import time
from collections.abc import Sequence

from bench.parts import PARTS, ROWS
from bench.selection import NothingChosen, choose
from bench.servers import build_directory, fdatasync_ms, has_apache_kafka
from bench.table import Row, markdown, save, show


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="make bench")
    parser.add_argument("--only", default="", help="part, or part/row; several by comma; * for any text")
    parser.add_argument("--markdown", action="store_true", help="print the table as a page has it")
    asked = parser.parse_args(arguments)
    try:
        chosen = choose(asked.only, {name: ROWS.get(name, ()) for name in PARTS})
    except NothingChosen as error:
        parser.error(str(error))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # brokers are launched as installed ones are: from byte code
    why_not = has_apache_kafka()
    facts = {
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "load before": " ".join(f"{each:.2f}" for each in os.getloadavg()),
        "fdatasync of a small append": f"{fdatasync_ms():.2f} ms (median)",
        "Apache Kafka": "4.3.0" if why_not is None else f"not measured: {why_not}",
    }
    rows: list[Row] = []
    for name, wanted in chosen.items():
        print(f"bench: {name} ...", file=sys.stderr, flush=True)
        module, _, function = PARTS[name].partition(":")
        started = time.perf_counter()
        rows += getattr(importlib.import_module(module), function)(why_not is None, wanted)
        print(f"bench: {name} took {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
    path = build_directory() / f"bench{'-' + file_name(asked.only) if asked.only else ''}.json"
    save(rows, facts, path)
    print(markdown(rows) if asked.markdown else show(rows, facts))
    print(f"bench: {len(rows)} figures, JSON in {path.relative_to(build_directory().parent.parent)}")
    return 0


def file_name(only: str) -> str:
    """What was chosen, as a part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", only.replace("*", "all")).strip("-")


if __name__ == "__main__":
    raise SystemExit(main())
