"""`python -m evidence.crash.points --points 20000`: crash points and failing operations, counted by kind; one line on stdout.

Each process goes through its share of the operations of one run of the life workload after another (every seed is another
order of events), until it has its share of the points; the last seed's operations are drawn. Exit status 1 unless every
promise held at every point.
"""

from __future__ import annotations

import argparse
import json
import logging
import multiprocessing
import os
import pathlib
import random
import sys
import time
from collections import Counter
from typing import Any

from evidence.crash.life import Tally, check_moment, live, verify_life
from evidence.crash.small_journal import small_journal
from evidence.crash.test_disk_faults import CASES, CONSEQUENCES, STORAGE_ANSWERS, check_fault, run_with
from evidence.world.files import Fault, Keep
from oncelog.errors import ErrorCode

SAY_EVERY_S = 20.0
EVERY_FAULT_FROM = 1000  # points of a process; with fewer not every operation of the large workload fails


def crash_share(job: int, jobs: int, points: int, seed: int, told: Any) -> None:
    """This process's points."""
    done = 0
    while done < points:
        run = live(seed)
        assert not run.refusals, run.refusals
        moments = (run.disk.moments or [])[job::jobs]
        if done:
            random.Random(f"order {seed}").shuffle(moments)
        for moment in moments:
            tally = Tally()
            check_moment(moment, seed, tally)
            told.put(tally)
            done += sum(tally.points.values())
            if done >= points:
                break
        seed += 1


def fault_share(job: int, jobs: int, points: int, seed: int, told: Any) -> None:
    """The n-th operation fails, once and from then on: in the small workload in every way, in the large
    one in one way after the other."""
    count = run_with(None).operation_count
    small = [(fault, sticky, n) for fault, sticky in CASES for n in range(1, count + 1)]
    for fault, is_sticky, operation in small[job::jobs]:
        tally = Tally(faults=Counter({fault_name(fault, is_sticky): 1}), starts=2)
        try:
            tally.compared = len(check_fault(fault, operation, is_sticky=is_sticky).ledger.records)
        except (AssertionError, TimeoutError) as error:
            tally.failures.append(f"{fault.name} at operation {operation}, sticky {is_sticky}: {error!r}")
        told.put(tally)
    count = live(seed, records=False).operation_count
    turns = [(n, is_sticky) for n in range(1, count + 1) for is_sticky in (False, True)]
    for operation, is_sticky in turns[job::jobs][:: 1 if points >= EVERY_FAULT_FROM else 50]:
        kind = list(Fault)[(operation + is_sticky) % len(Fault)]
        told.put(life_fault(seed, kind, operation, is_sticky=is_sticky))


def fault_name(fault: Fault, is_sticky: bool) -> str:
    return f"{fault.name.lower().replace('_', ' ')} {'from then on' if is_sticky else 'once'}"


def life_fault(seed: int, fault: Fault, operation: int, *, is_sticky: bool) -> Tally:
    """One operation of the life workload fails; then a kill or a power cut, and a restart on a disk that is well."""
    tally = Tally(faults=Counter({fault_name(fault, is_sticky): 1}), starts=2)
    try:
        run = live(seed, records=False, fault=(operation, fault, is_sticky))
        for refused in run.refusals:
            # (without a block of producer ids Kafka's InitProducerId says, too, that it must wait)
            waits = {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS} if "init" in str(refused) else set()
            assert refused.code in STORAGE_ANSWERS | CONSEQUENCES | waits, refused
        run.disk.heal()
        if operation % 3 == 1:
            run.disk.kill()
        else:
            run.disk.crash(Keep.RANDOM)
        verify_life(run.disk, run.ledger, f"{seed} {operation}", tally)
    except (AssertionError, TimeoutError) as error:
        tally.failures.append(f"seed {seed}, {fault.name} at operation {operation}, sticky {is_sticky}: {error!r}")
    return tally


def work(job: int, jobs: int, points: int, seed: int, told: Any) -> None:
    """One process."""
    logging.disable(logging.CRITICAL)
    try:
        with small_journal():
            crash_share(job, jobs, points, seed, told)
            fault_share(job, jobs, points, seed, told)
    except BaseException as error:
        told.put(Tally(failures=[f"process {job} ended: {error!r}"]))
        raise
    finally:
        told.put(None)


def gather(told: Any, jobs: int, points: int) -> Tally:
    """Everything, with a line now and then."""
    total, said, begun, ended = Tally(), time.monotonic(), time.monotonic(), 0
    while ended < jobs:
        found = told.get()
        if found is None:
            ended += 1
            continue
        total.add(found)
        for failure in found.failures:
            print(f"  {failure}", file=sys.stderr)
        if time.monotonic() - said > SAY_EVERY_S:
            said = time.monotonic()
            print(
                f"  {said - begun:.0f} s: {sum(total.points.values())} of {points} crash points, "
                f"{sum(total.faults.values())} failing operations, {len(total.failures)} failures",
                file=sys.stderr,
            )
    return total


def summary(total: Tally, seconds: float) -> dict[str, Any]:
    """For the report."""
    return {
        "crash points": sum(total.points.values()),
        "by operation and moment": dict(sorted(total.points.items())),
        "by file": dict(total.files.most_common()),
        "failing operations": dict(sorted(total.faults.items())),
        "states alike, not counted": total.alike,
        "starts": total.starts,
        "acknowledged records compared": total.compared,
        "failures": total.failures[:50],
        "failure count": len(total.failures),
        "seconds": round(seconds),
    }


def line(total: Tally, seconds: float) -> str:
    operations: Counter[str] = Counter()
    moments: Counter[str] = Counter()
    for name, count in total.points.items():
        operation, moment = name.split()
        operations[operation] += count
        moments[moment] += count
    of = ", ".join(f"{count} {name}" for name, count in operations.most_common())
    when = ", ".join(f"{moments[name]} {name}" for name in ("before", "middle", "after"))
    return (
        f"power: {sum(total.points.values())} crash points ({of}; {when}), {sum(total.faults.values())} failing operations, "
        f"{total.starts} starts, {total.compared} acknowledged records compared, {len(total.failures)} failures, "
        f"{seconds:.0f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(prog="evidence.crash.points", description=__doc__)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1))
    parser.add_argument("--json", type=pathlib.Path, help="write a summary here")
    options = parser.parse_args()
    begun = time.monotonic()
    context = multiprocessing.get_context("fork")
    told: Any = context.Queue()
    share = -(-options.points // options.jobs)
    processes = [
        context.Process(target=work, args=(job, options.jobs, share, options.seed, told)) for job in range(options.jobs)
    ]
    for process in processes:
        process.start()
    total = gather(told, options.jobs, options.points)
    for process in processes:
        process.join()
    seconds = time.monotonic() - begun
    if options.json:
        options.json.write_text(json.dumps(summary(total, seconds), indent=1) + "\n")
    print(line(total, seconds) + (" FAILED" if total.failures else ""))
    return 1 if total.failures else 0


if __name__ == "__main__":
    sys.exit(main())
