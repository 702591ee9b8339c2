"""`python -m evidence.processes [--seeds N] [--seed n]`: several processes as one cluster, simulated, and a summary."""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections import Counter

from evidence.processes.simulation import Verdict, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.processes", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one only, with its trace")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return _one(run_seed(chosen.seed))
    outcomes, faults, records, failed = Counter[str](), Counter[str](), 0, 0
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    with multiprocessing.get_context("fork").Pool(chosen.processes, maxtasksperchild=100) as pool:
        for done, verdict in enumerate(pool.imap_unordered(run_seed, seeds), 1):
            outcomes.update(verdict.outcomes)
            faults.update(verdict.faults)
            records += verdict.record_count
            if verdict.findings:
                failed += 1
                print("\n".join([*verdict.trace[-40:], *verdict.findings[:10]]), file=sys.stderr)
                print(f"FAILED; again with: make sim-processes SEED={verdict.seed}", file=sys.stderr)
            if done % 50 == 0:
                print(f"{done}/{chosen.seeds} seeds, {failed} with findings", file=sys.stderr, flush=True)
    print(f"transactions: {dict(outcomes)}; {records} records; faults: {dict(sorted(faults.items()))}", file=sys.stderr)
    print(f"processes: {chosen.seeds} seeds, {sum(outcomes.values())} transactions, {failed} with findings")
    return 1 if failed else 0


def _one(verdict: Verdict) -> int:
    print("\n".join([*verdict.trace, *verdict.findings]), file=sys.stderr)
    print(f"processes: seed {verdict.seed}, trace {verdict.trace_hash}, {len(verdict.findings)} findings")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
