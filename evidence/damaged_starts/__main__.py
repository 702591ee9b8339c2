"""`python -m evidence.damaged_starts --seeds 1000`: one drawn damage for each seed, and a start; one line on stdout.

`--seed N` draws and judges that one again. `--every`: each file in each way, beside the draws. Exit status 1 on a finding.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from evidence.damaged_starts.damage import Case, all_cases, case_of, kind_of
from evidence.damaged_starts.judging import REFUSED, as_a_process, judge
from evidence.damaged_starts.reference import Builder, Expected

PROCESS_EVERY = 20  # refusals: that often by `oncelog serve`, too
SAY_EVERY = 250


@dataclass
class Outcome:
    """What a run has to say."""

    starts: Counter[str] = field(default_factory=Counter)  # by outcome
    kinds: Counter[str] = field(default_factory=Counter)  # by file and way
    processes: int = 0
    findings: list[str] = field(default_factory=list)

    def summary(self) -> str:
        how = ", ".join(f"{count} {name}" for name, count in sorted(self.starts.items()))
        return (
            f"{self.starts.total()} damaged starts: {how}; {self.processes} by processes; {len(self.findings)} findings"
        )

    def figures(self) -> dict[str, Any]:
        return {
            "starts": self.starts.total(),
            "by outcome": dict(self.starts),
            "by file and way": dict(sorted(self.kinds.items())),
            "refusals by processes": self.processes,
            "findings": len(self.findings),
            "finding texts": self.findings,
        }


async def run(folder: Path, cases: Iterable[Case], expected: Expected, outcome: Outcome) -> None:
    """Judge each."""
    data = folder / "data"
    for case in cases:
        damage = case.damage(folder, data)
        seen = await judge(case, folder, expected, data)
        outcome.starts[seen.outcome] += 1
        outcome.kinds[f"{kind_of(case.path)}, {case.way}"] += 1
        problems = list(seen.problems)
        if seen.outcome == REFUSED and (outcome.starts[REFUSED] - 1) % PROCESS_EVERY == 0:
            outcome.processes += 1
            problems += as_a_process(case, folder, data)
        for problem in problems:
            outcome.findings.append(f"seed {case.seed}, {case.state}, {damage.what}: {seen.outcome}: {problem}")
            say(outcome.findings[-1])
        if outcome.starts.total() % SAY_EVERY == 0:
            say(outcome.summary())


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def build_and_run(folder: Path, seeds: Iterable[int], outcome: Outcome, *, every: int | None = None) -> None:
    """In an empty folder. `every`: the seed of what is drawn when each file is damaged in each way."""
    expected = await Builder(folder).build()
    drawn = (case_of(seed, folder) for seed in seeds)
    await run(folder, chain(drawn, () if every is None else all_cases(folder, every)), expected, outcome)


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.damaged_starts", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many are drawn")
    parser.add_argument("--seed", type=int, help="this one only")
    parser.add_argument("--first", type=int, help="the first of the seeds (drawn)")
    parser.add_argument("--every", action="store_true", help="also each file in each way")
    parser.add_argument("--json", type=Path, help="write a summary here")
    options = parser.parse_args()
    first = random.randrange(10**6) if options.first is None else options.first
    seeds = range(first, first + options.seeds) if options.seed is None else (options.seed,)
    outcome = Outcome()
    say(f"seeds {seeds[0]} to {seeds[-1]}" if seeds else f"seed {first}")
    with tempfile.TemporaryDirectory(prefix="oncelog-damaged-") as folder:
        asyncio.run(build_and_run(Path(folder), seeds, outcome, every=first if options.every else None))
    if options.json:
        options.json.write_text(json.dumps(outcome.figures() | {"first seed": first}, indent=1) + "\n")
    print(outcome.summary())
    return 1 if outcome.findings else 0


if __name__ == "__main__":
    sys.exit(main())
