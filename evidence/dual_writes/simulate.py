"""`python -m evidence.dual_writes.simulate [--seeds N] [--seed n]`: dual writes in the simulated world, and a summary."""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import pathlib
import sys
from collections import Counter

from evidence.dual_writes.simulation import Verdict, run_seed


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m evidence.dual_writes.simulate", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="how many seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    parser.add_argument("--seed", type=int, help="this one only, with its trace")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    parser.add_argument("--json", type=pathlib.Path, help="write a summary here")
    chosen = parser.parse_args()
    if chosen.seed is not None:
        return _one(run_seed(chosen.seed))
    counts: Counter[str] = Counter()
    failed = 0
    seeds = range(chosen.first, chosen.first + chosen.seeds)
    with multiprocessing.get_context("fork").Pool(chosen.processes, maxtasksperchild=300) as pool:
        for done, verdict in enumerate(pool.imap_unordered(run_seed, seeds, chunksize=2), 1):
            counts.update(verdict.counts)
            if verdict.findings:
                failed += 1
                print("\n".join([*verdict.trace[-40:], *verdict.findings]), file=sys.stderr)
                print(f"FAILED; again with: make sim-dual-writes SEED={verdict.seed}", file=sys.stderr)
            if done % 100 == 0:
                print(f"{done}/{chosen.seeds} seeds, {failed} with divergences", file=sys.stderr, flush=True)
    print(f"{dict(sorted(counts.items()))}", file=sys.stderr)
    if chosen.json:
        summary = {"seeds": chosen.seeds, "first seed": chosen.first, "divergences": failed, "counts": counts}
        chosen.json.write_text(json.dumps(summary, indent=1) + "\n")
    print(f"dual writes: {chosen.seeds} seeds, {counts['committed']} committed writes, {failed} divergences")
    return 1 if failed else 0


def _one(verdict: Verdict) -> int:
    print("\n".join([*verdict.trace, *verdict.findings]), file=sys.stderr)
    print(f"dual writes: seed {verdict.seed}, trace {verdict.trace_hash}, {len(verdict.findings)} findings")
    return 1 if verdict.findings else 0


if __name__ == "__main__":
    sys.exit(main())
