"""`python -m tests.simulator [--seeds N] [--seed n] [--profile name]`: simulated clusters on all cores.

Progress goes to stderr. At the end stdout has exactly one line: `N seeds, N histories checked, N anomalies`. A seed that
fails prints the line that repeats it and its trace.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
from collections import Counter
from pathlib import Path

from tests.simulator.checkers.coverage import describe
from tests.simulator.faults import PROFILES
from tests.simulator.simulation import Verdict, run_seed

TRACE_LINES_MAX = 60


def main() -> int:
    """Run, print, and return the exit status."""
    arguments = _arguments()
    jobs = _jobs(arguments)
    tally = Counter[str]()
    faults, outcomes = Counter[str](), Counter[str]()
    transitions, codes = Counter[str](), Counter[int]()
    with multiprocessing.get_context("fork").Pool(arguments.processes, maxtasksperchild=500) as pool:
        for verdict in pool.imap_unordered(_run, jobs, chunksize=4 if len(jobs) > 50 else 1):
            tally["seeds"] += 1
            tally["anomalies"] += len(verdict.findings)
            tally["virtual seconds"] += int(verdict.virtual_seconds)
            faults.update(verdict.fault_counts)
            outcomes.update(verdict.outcomes)
            transitions.update(verdict.transitions)
            codes.update(verdict.error_counts)
            if verdict.findings or arguments.seed is not None:
                _show(verdict, whole=arguments.seed is not None)
            if tally["seeds"] % 100 == 0:
                print(f"{tally['seeds']}/{len(jobs)} seeds, {tally['anomalies']} anomalies", file=sys.stderr)
    if arguments.json:
        summary = {
            "profile": arguments.profile or "all",
            **tally,
            "faults": faults,
            "transactions": outcomes,
            "steps": transitions,
        }
        summary["error codes"] = {str(code): count for code, count in sorted(codes.items())}
        Path(arguments.json).write_text(json.dumps(summary, indent=1) + "\n")
    print(f"transactions: {dict(outcomes)}; faults: {dict(sorted(faults.items()))}", file=sys.stderr)
    for line in describe(transitions, codes):
        print(line, file=sys.stderr)
    print(f"{tally['seeds']} seeds, {tally['seeds']} histories checked, {tally['anomalies']} anomalies")
    return 1 if tally["anomalies"] else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one only, with its trace")
    parser.add_argument("--profile", choices=PROFILES, help="what goes wrong (default: every profile in turn)")
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


def _run(job: tuple[int, str]) -> Verdict:
    return run_seed(*job)


def _show(verdict: Verdict, *, whole: bool) -> None:
    lines = verdict.trace if whole else verdict.trace[-TRACE_LINES_MAX:]
    for line in lines:
        print(line, file=sys.stderr)
    for finding in verdict.findings:
        print(f"  {finding}", file=sys.stderr)
    print(f"trace {verdict.trace_hash}; {verdict.outcomes}; {verdict.fault_counts}", file=sys.stderr)
    if verdict.findings:
        print(f"FAILED; again with: {verdict.repeat}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
