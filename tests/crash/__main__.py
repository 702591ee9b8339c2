"""`python -m tests.crash --kills 50`: kill the broker under load, verify, one line on stdout, exit 1 unless all is well."""

from __future__ import annotations

import argparse
import pathlib
import random
import shutil
import statistics
import sys

from tests.crash.broker_process import BrokerFailed
from tests.crash.run import Run, say

FOLDER = pathlib.Path("build/crash")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the moments of the kills")
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    say(f"{options.kills} kills, seed {options.seed}, everything under {FOLDER}")
    try:
        outcome = Run(FOLDER.absolute(), options.kills, options.seed).everything()
    except BrokerFailed as error:
        say(str(error))
        print(f"crash: FAILED: {str(error).splitlines()[0]}")
        return 1
    verdict = outcome.verdict
    for problem in verdict.problems[:40]:
        say(problem)
    say(
        f"{verdict.committed_transactions} committed, {verdict.aborted_transactions} aborted, {verdict.unknown} unknown; "
        f"ready min {min(outcome.ready_s):.2f} median {statistics.median(outcome.ready_s):.2f} "
        f"max {max(outcome.ready_s):.2f} s; first produce min {min(outcome.produce_s):.2f} "
        f"median {statistics.median(outcome.produce_s):.2f} max {max(outcome.produce_s):.2f} s; without waits for a "
        f"processor min {min(outcome.recovery_s):.2f} median {statistics.median(outcome.recovery_s):.2f} "
        f"max {max(outcome.recovery_s):.2f} s"
    )
    print(outcome.summary() + ("" if outcome.is_good else " FAILED"))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
