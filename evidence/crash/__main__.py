"""`python -m evidence.crash --kills 50`: kill the broker under load, verify, one line on stdout, exit 1 unless all is well."""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import shutil
import sys

from evidence.crash.broker_process import BrokerFailed
from evidence.crash.recovery import recovery_text
from evidence.crash.run import Run, say

FOLDER = pathlib.Path("build/crash")


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.randrange(10**6), help="of the moments of the kills")
    parser.add_argument("--json", type=pathlib.Path, help="write a summary here")
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
    for problem in outcome.verdict.problems[:40]:
        say(problem)
    say(f"with the waits for a processor that others used: {recovery_text(outcome.produce_s)}")
    if options.json:
        summary = {"seed": options.seed, **outcome.figures()}
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    print(f"crash: {outcome.summary()}" + ("" if outcome.is_good else " FAILED"))
    return 0 if outcome.is_good else 1


if __name__ == "__main__":
    sys.exit(main())
