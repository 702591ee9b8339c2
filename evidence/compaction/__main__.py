"""`python -m evidence.compaction --cleanings 100`: the drill, one line on stdout, exit 1 unless all is well."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import json
import pathlib
import random
import shutil
import sys

from evidence.compaction.drill import Drill, dump_with_apache

FOLDER = pathlib.Path("build/compaction")


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.compaction", description=__doc__)
    parser.add_argument("--cleanings", type=int, default=100)
    parser.add_argument("--kills", type=int, default=None, help="SIGKILLs on the way (one for every five cleanings)")
    parser.add_argument(
        "--seed", type=int, default=random.randrange(10**6), help="of what is written and when is killed"
    )
    parser.add_argument("--json", type=pathlib.Path, help="write a summary here")
    options = parser.parse_args()
    shutil.rmtree(FOLDER, ignore_errors=True)
    FOLDER.mkdir(parents=True)
    kills = options.cleanings // 5 if options.kills is None else options.kills

    def say(line: str) -> None:
        print(line, file=sys.stderr, flush=True)

    say(f"{options.cleanings} cleanings, {kills} kills, seed {options.seed}, everything under {FOLDER}")
    outcome = asyncio.run(Drill(FOLDER.absolute(), options.cleanings, kills, options.seed, say).run())
    dump_with_apache(FOLDER.absolute(), outcome)
    for problem in outcome.problems[:20]:
        say(problem)
    if options.json:
        summary = dataclasses.asdict(outcome) | {"seed": options.seed}
        if not outcome.dumped:
            summary["left out"] = ["Apache Kafka's tool, which reads cleaned segments"]
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    print(outcome.summary() + (": FAILED" if outcome.problems else ""))
    return 1 if outcome.problems else 0


if __name__ == "__main__":
    sys.exit(main())
