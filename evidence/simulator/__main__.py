"""`python -m evidence.simulator [--seeds N] [--seed n] [--profile name]`: simulated clusters on all cores.

Progress goes to stderr. At the end stdout has exactly one line: `N seeds, N histories checked, N anomalies`. A seed that
fails prints the line that repeats it and its trace, and is made smaller.
"""

from __future__ import annotations

import argparse
import gc
import json
import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from typing import Any

from evidence.simulator.changes import changed
from evidence.simulator.checkers.coverage import Coverage
from evidence.simulator.faults import PROFILES, draw
from evidence.simulator.knobs import BETWEEN, HIGH, KNOBS, LOW, value_of
from evidence.simulator.shrink import shrink
from evidence.simulator.simulation import Verdict, run_seed

TRACE_LINES_MAX = 60
SHRUNK_SEEDS_MAX = 3


class Tally:
    """Everything that a run adds up."""

    def __init__(self) -> None:
        self.counts = Counter[str]()
        self.faults, self.outcomes = Counter[str](), Counter[str]()
        self.transitions, self.codes = Counter[str](), Counter[int]()
        self.knobs: dict[str, Counter[str]] = {name: Counter() for name in KNOBS}
        self.failed: list[Verdict] = []
        self.begun = time.monotonic()

    def add(self, verdict: Verdict) -> None:
        """One seed more."""
        self.counts["seeds"] += 1
        self.counts["anomalies"] += len(verdict.findings)
        self.counts["virtual seconds"] += int(verdict.virtual_seconds)
        self.counts["wrong requests"] += verdict.strange_request_count
        self.faults.update(verdict.fault_counts)
        self.outcomes.update(verdict.outcomes)
        self.transitions.update(verdict.transitions)
        self.codes.update(verdict.error_counts)
        for knob, value in map(value_of, verdict.knobs):
            self.knobs[knob.name][knob.level(value)] += 1
        if verdict.findings:
            self.failed.append(verdict)

    def knob_lines(self) -> Iterator[str]:
        """How often each knob was turned to its extremes."""
        turned = sum(sum(levels.values()) for levels in self.knobs.values())
        extremes = sum(levels[LOW] + levels[HIGH] for levels in self.knobs.values())
        missing = [name for name, levels in self.knobs.items() if not (levels[LOW] and levels[HIGH])]
        yield (
            f"knobs: {len(self.knobs)}, turned {turned} times, {extremes} times to an extreme; "
            f"{len(self.knobs) - len(missing)} of them to both"
        )
        for name, levels in self.knobs.items():
            knob = KNOBS[name]
            yield f"  {name}: {levels[LOW]} times {knob.low}, {levels[HIGH]} times {knob.high}, {levels[BETWEEN]} between"

    @property
    def coverage(self) -> Coverage:
        """What was reached."""
        return Coverage(self.transitions, self.codes)

    def summary(self, profile: str | None) -> dict[str, Any]:
        """For the report."""
        return {
            "profile": profile or "all",
            **self.counts,
            "seconds": round(time.monotonic() - self.begun, 1),
            "faults": dict(sorted(self.faults.items())),
            "transactions": self.outcomes,
            "steps": self.transitions,
            "error codes": {str(code): count for code, count in sorted(self.codes.items())},
            **self.coverage.summary(),
            "knobs": {name: dict(levels) for name, levels in self.knobs.items()},
            "failed": [verdict.repeat for verdict in self.failed],
        }


def main() -> int:
    """Run, print, and return the exit status."""
    arguments = _arguments()
    jobs, tally = _jobs(arguments), Tally()
    run = partial(_run, changes=arguments.changes)
    with multiprocessing.get_context("fork").Pool(arguments.processes, maxtasksperchild=500) as pool:
        for verdict in pool.imap_unordered(run, jobs, chunksize=4 if len(jobs) > 50 else 1):
            tally.add(verdict)
            if verdict.findings or arguments.seed is not None:
                _show(verdict, whole=arguments.seed is not None)
            if tally.counts["seeds"] % 100 == 0:
                print(
                    f"{tally.counts['seeds']}/{len(jobs)} seeds, {tally.counts['anomalies']} anomalies", file=sys.stderr
                )
    if not arguments.no_shrink:
        for verdict in tally.failed[:SHRUNK_SEEDS_MAX]:
            _shrink(verdict)
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(tally.summary(arguments.profile), indent=1) + "\n")
    seconds = time.monotonic() - tally.begun
    print(f"transactions: {dict(tally.outcomes)}; faults: {dict(sorted(tally.faults.items()))}", file=sys.stderr)
    print(f"{tally.counts['wrong requests']} wrong requests; {seconds:.0f} s", file=sys.stderr)
    for line in tally.knob_lines() if arguments.seed is None else ():
        print(line, file=sys.stderr)
    for line in tally.coverage.lines():
        print(line, file=sys.stderr)
    seeds, anomalies = tally.counts["seeds"], tally.counts["anomalies"]
    print(f"{seeds} seeds, {seeds} histories checked, {anomalies} anomalies")
    is_enough = tally.coverage.is_enough(seeds, all_profiles=arguments.profile is None)
    return 0 if not anomalies and is_enough else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evidence.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one only, with its trace")
    parser.add_argument("--profile", choices=PROFILES, help="what goes wrong (default: every profile in turn)")
    parser.add_argument("--with", dest="changes", default="", help="changes to what the seed draws (a smaller run)")
    parser.add_argument("--no-shrink", action="store_true", help="leave failing seeds as they are")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", help="write a summary here")
    return parser.parse_args()


def _jobs(arguments: argparse.Namespace) -> list[tuple[int, str]]:
    if arguments.seed is not None:
        return [(arguments.seed, arguments.profile or _profile(arguments.seed))]
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    return [(seed, arguments.profile or _profile(seed)) for seed in seeds]


def _profile(seed: int) -> str:
    return PROFILES[seed % len(PROFILES)]


def _run(job: tuple[int, str], changes: str) -> Verdict:
    verdict = run_seed(*job, options=changed(draw(*job), changes) if changes else None)
    verdict.changes = changes
    _leave_what_is_loaded()
    return verdict


@cache
def _leave_what_is_loaded() -> None:
    """Once in each process: the collection after each run looks at what that run made, not at every module again."""
    gc.freeze()


def _show(verdict: Verdict, *, whole: bool) -> None:
    lines = verdict.trace if whole else verdict.trace[-TRACE_LINES_MAX:]
    for line in lines:
        print(line, file=sys.stderr)
    for finding in verdict.findings:
        print(f"  {finding}", file=sys.stderr)
    print(f"trace {verdict.trace_hash}; {verdict.outcomes}; {verdict.fault_counts}", file=sys.stderr)
    if verdict.findings:
        print(f"FAILED; again with: {verdict.repeat}", file=sys.stderr)


def _shrink(verdict: Verdict) -> None:
    options = changed(draw(int(verdict.seed), verdict.profile), verdict.changes)
    shrunk = shrink(verdict, options)
    events = f"{shrunk.verdict.event_count} of {shrunk.first_event_count} events are left after {shrunk.run_count} runs"
    print(f"seed {verdict.seed}, {verdict.profile}, made smaller: {events}", file=sys.stderr)
    _show(shrunk.verdict, whole=True)


if __name__ == "__main__":
    sys.exit(main())
