"""Several processes one after another, each with its own place in memory: the cheapest slices of all of them count."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict

from bench.in_process.measure import SLICES, Bench, Figures

ROOT = pathlib.Path(__file__).parents[2]
RUNS = 3
RUNS_MAX = 8  # where something seems too slow: a machine that is busy for a while is not believed at once


def measured(names: Sequence[str] = (), *, slower_percent: float = 0.0, slowed: Sequence[str] = ()) -> Figures:
    """One run in this process; what is planted slows all works, or those that are `slowed`."""
    with Bench() as bench:
        if names:
            bench.choose(names)
        if slower_percent:
            bench.more(SLICES // 2)
            bench.plant(slower_percent, slowed)
        bench.more()
        return bench.figures


def measured_apart(names: Sequence[str] = (), *, slower_percent: float = 0.0, slowed: Sequence[str] = ()) -> Figures:
    """One run in a process of its own. Raises subprocess.CalledProcessError."""
    chosen = [part for name in names for part in ("--work", name)] + [
        part for name in slowed for part in ("--slowed", name)
    ]
    command = [sys.executable, "-m", "bench.in_process", "--once", "--slower", str(slower_percent), *chosen]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "PYTHONPATH": path}
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return Figures(**json.loads(done.stdout))


def best_of_runs(
    one_run: Callable[[], Figures], is_enough: Callable[[Figures], bool], runs: int = RUNS, runs_max: int = RUNS_MAX
) -> Figures:
    """The cheapest of `runs` runs, and of more while it `is_enough` not, up to `runs_max`."""
    best = Figures()
    for i in range(runs_max):
        best.add(one_run())
        if i + 1 >= runs and is_enough(best):
            break
    return best


def as_json(figures: Figures) -> str:
    """What `measured_apart` reads."""
    return json.dumps(asdict(figures))
