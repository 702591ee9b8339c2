"""`python -m evidence.scale`: the figures of a large broker, one line each, exit 1 where one is beyond its bound."""

from __future__ import annotations

import argparse
import asyncio
import pathlib
import shutil
import sys

from evidence.scale.figures import (
    Figure,
    measure_connections,
    measure_open_transactions,
    measure_partitions,
    measure_readers,
    measure_transactional_ids,
)

FOLDER = pathlib.Path("build/scale")


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.scale", description=__doc__)
    parser.add_argument("--partitions", type=int, default=2000)
    parser.add_argument("--connections", type=int, default=2000)
    parser.add_argument("--ids", type=int, default=10_000)
    parser.add_argument("--transactions", type=int, default=2000)
    parser.add_argument("--readers", type=int, default=50)
    parser.add_argument("--only", choices=("partitions", "connections", "ids", "transactions", "readers"))
    options = parser.parse_args()
    parts = {
        "partitions": lambda folder: measure_partitions(folder, options.partitions),
        "connections": lambda folder: measure_connections(folder, options.connections),
        "ids": lambda folder: measure_transactional_ids(folder, options.ids),
        "readers": lambda folder: measure_readers(folder, options.readers),
        "transactions": lambda folder: measure_open_transactions(folder, options.transactions, 200),
    }
    figures: list[Figure] = []
    for name, measure in parts.items():
        if options.only in (None, name):
            folder = FOLDER.absolute() / name
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            for figure in asyncio.run(measure(folder)):
                print(figure, file=sys.stderr, flush=True)
                figures.append(figure)
    bad = [figure for figure in figures if not figure.is_good]
    print(f"scale: {len(figures)} figures, {len(bad)} beyond their bound{': FAILED' if bad else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
