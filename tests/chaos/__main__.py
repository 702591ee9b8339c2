"""`python -m tests.chaos --cuts 50 --full-disks 20`: the run, its figures on one line, exit 1 unless all is well."""

from __future__ import annotations

import argparse
import pathlib
import random
import shutil
import sys
import time

from tests.chaos.run import Chaos, Plan
from tests.crash.broker_process import BrokerFailed
from tests.crash.run import say

FOLDER = pathlib.Path("build/chaos")


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests.chaos", description=__doc__)
    plan = Plan()
    parser.add_argument("--cuts", type=int, default=plan.cuts, help="of the network")
    parser.add_argument("--full-disks", type=int, default=plan.full_disks, help="needs root, for a small tmpfs")
    parser.add_argument("--broker-kills", type=int, default=plan.broker_kills)
    parser.add_argument("--client-kills", type=int, default=plan.client_kills)
    parser.add_argument("--pauses", type=int, default=plan.pauses, help="SIGSTOP")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    options = parser.parse_args()
    chosen = Plan(options.cuts, options.full_disks, options.broker_kills, options.client_kills, options.pauses)
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    say(f"{chosen}, seed {options.seed}, everything under {FOLDER}")
    begun = time.monotonic()
    try:
        outcome = Chaos(FOLDER.absolute(), chosen, options.seed).everything()
    except BrokerFailed as error:
        say(str(error))
        print(f"chaos: FAILED: {str(error).splitlines()[0]}")
        return 1
    for problem in outcome.verdict.problems[:40]:
        say(problem)
    print(f"chaos: {outcome.summary()}; {time.monotonic() - begun:.0f} s{'' if outcome.is_good else ' FAILED'}")
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
