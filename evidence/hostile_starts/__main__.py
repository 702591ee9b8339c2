"""`python -m evidence.hostile_starts [--seed N] [--count N] [--outside N] [--bootstrap-server HOST:PORT]`.

`--outside` of them run again as processes with broken standard files. Exit status 1 when one of them went wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from evidence.hostile_starts.drawing import starts
from evidence.hostile_starts.running import OUTPUT_WAYS, run_inside, run_outside
from oncelog.testing import TestBroker


@contextmanager
def _servers(given: str | None) -> Iterator[str]:
    if given:
        yield given
    else:
        with TestBroker() as broker:
            yield broker.bootstrap_servers


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.hostile_starts")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--outside", type=int, default=50)
    parser.add_argument("--bootstrap-server")
    options = parser.parse_args()
    findings = 0
    with _servers(options.bootstrap_server) as servers, tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)  # `secure` makes what it is told to
        drawn = list(starts(options.seed, options.count, servers, Path(directory)))
        outside = drawn[:: max(len(drawn) // options.outside, 1)][: options.outside] if options.outside else []
        for number, start in enumerate([*drawn, *outside]):
            is_outside = number >= len(drawn)
            found = run_outside(start, OUTPUT_WAYS[number % len(OUTPUT_WAYS)]) if is_outside else run_inside(start)
            if found is not None:
                findings += 1
                print(found, flush=True)
    print(f"seed {options.seed}: {len(drawn)} starts, {len(outside)} with broken standard files: {findings} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
