"""`python -m oncelog.demo [--rows N] [--folder DIR]`: the main job (`make demo`)."""

from __future__ import annotations

import argparse
import pathlib

from oncelog.demo.flights import FLIGHT_COUNT
from oncelog.demo.run import main


def rows(text: str) -> int:
    count = int(text)
    if not 5000 <= count <= FLIGHT_COUNT:
        raise argparse.ArgumentTypeError(f"between 5000 and {FLIGHT_COUNT}")
    return count


parser = argparse.ArgumentParser(
    prog="oncelog.demo", description="Flights, exactly once, with processes killed on the way."
)
parser.add_argument("--rows", type=rows, help=f"how many flights (default: all {FLIGHT_COUNT})")
parser.add_argument("--folder", type=pathlib.Path, default=pathlib.Path("build/demo"), help="default: build/demo")
options = parser.parse_args()
raise SystemExit(main(options.folder, options.rows))
