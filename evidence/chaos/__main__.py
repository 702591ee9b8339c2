"""`python -m evidence.chaos --cuts 50 --full-disks 20`: the run, its figures on one line, exit 1 unless all is well."""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import shutil
import subprocess
import sys
import time

from evidence.chaos.java_worker import java_worker
from evidence.chaos.run import Chaos, Plan
from evidence.compat.clients.programs import Missing
from evidence.crash.broker_process import BrokerFailed
from evidence.crash.run import say

FOLDER = pathlib.Path("build/chaos")


def main() -> int:
    options = _options()
    plan = Plan(
        options.cuts,
        options.full_disks,
        options.broker_kills,
        options.client_kills,
        options.pauses,
        options.clock_steps,
    )
    clear(FOLDER)
    left_out = []
    java: list[str] = []
    if not options.no_java:
        try:
            java = java_worker()
        except Missing as missing:
            left_out.append(f"the Java client: {missing}")
    say(f"{plan}, seed {options.seed}, everything under {FOLDER}")
    begun = time.monotonic()
    chaos = Chaos(FOLDER.absolute(), plan, options.seed, java=java)
    try:
        outcome = chaos.everything()
    except BrokerFailed as error:
        say(str(error))
        print(f"chaos: FAILED: {str(error).splitlines()[0]}; seed {options.seed}")
        return 1
    if plan.full_disks and not chaos.has_small_disk:
        left_out.append("full disks, which need root for a small tmpfs")
    for problem in outcome.verdict.problems[:40]:
        say(problem)
    for what in left_out:
        say(f"left out: {what}")
    if options.json:
        summary = {"seed": options.seed, "workers": list(chaos.kinds), "left out": left_out, **outcome.figures()}
        options.json.write_text(json.dumps(summary, indent=1) + "\n")
    print(
        f"chaos: {outcome.summary()}; {time.monotonic() - begun:.0f} s"
        + "".join(f"; left out: {what.partition(',')[0].partition(':')[0]}" for what in left_out)
        + ("" if outcome.is_good else f" FAILED; seed {options.seed}")
    )
    return 0 if outcome.is_good else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="evidence.chaos", description=__doc__)
    plan = Plan()
    parser.add_argument("--cuts", type=int, default=plan.cuts, help="of the network")
    parser.add_argument("--full-disks", type=int, default=plan.full_disks, help="needs root, for a small tmpfs")
    parser.add_argument("--broker-kills", type=int, default=plan.broker_kills)
    parser.add_argument("--client-kills", type=int, default=plan.client_kills)
    parser.add_argument("--pauses", type=int, default=plan.pauses, help="SIGSTOP")
    parser.add_argument("--clock-steps", type=int, default=plan.clock_steps, help="of the broker's wall clock")
    parser.add_argument("--no-java", action="store_true", help="without the Java client, where there is one")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    parser.add_argument("--json", type=pathlib.Path, help="write a summary here")
    return parser.parse_args()


def clear(folder: pathlib.Path) -> None:
    """Empty it; a small disk that a killed run left there is unmounted."""
    if (folder / "disk").is_mount():
        subprocess.run(["umount", "-l", str(folder / "disk")], check=False)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)


if __name__ == "__main__":
    sys.exit(main())
