"""`make model`: the coordinator, the leaders and two producers, in every order of events within the limits.

Prints the states and transitions of each search. The old protocol must show KAFKA-17754 (what the search finds there is
real); the new one, and two-phase commit, must show nothing.
"""

from __future__ import annotations

import argparse
import gc
import json
import pathlib
import sys
import time
from typing import Any

from evidence.model.search import Result, explore
from evidence.model.states import Limits, Rules

SEARCHES: dict[str, tuple[Rules, Limits, str]] = {
    "TV1, delayed EndTxn (KAFKA-17754)": (Rules(1), Limits(requests=8, timeouts=0, coordinator_crashes=0), "S4"),
    "TV2": (Rules(2), Limits(requests=8, timeouts=0, coordinator_crashes=0), ""),
    "TV2, timeout": (Rules(2), Limits(requests=6, timeouts=1, coordinator_crashes=0), ""),
    "TV2, timeout, coordinator restarts": (Rules(2), Limits(requests=5, timeouts=1, coordinator_crashes=1), ""),
    "TV2, leader restarts": (Rules(2), Limits(requests=6, timeouts=0, coordinator_crashes=0, leader_crashes=1), ""),
    "2PC begun without keepPreparedTxn": (
        Rules(3, two_phase=True, always_keeps=False),
        Limits(requests=4, timeouts=0, coordinator_crashes=0),
        "S4",
    ),
    "2PC": (Rules(3, two_phase=True), Limits(requests=7, timeouts=1, coordinator_crashes=0), ""),
    "2PC, coordinator restarts": (Rules(3, two_phase=True), Limits(requests=6, timeouts=1, coordinator_crashes=1), ""),
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seconds", type=float, default=600, help="for each search")
    parser.add_argument("--only", action="append", help="searches whose name contains this (may be repeated)")
    parser.add_argument("--json", help="write a summary here")
    options = parser.parse_args()
    gc.disable()  # everything that is found stays
    failed = False
    seen: set[tuple[str, str]] = set()
    searches: list[dict[str, Any]] = []
    for name, (rules, limits, expected) in SEARCHES.items():
        if options.only and not any(part in name for part in options.only):
            continue
        started = time.monotonic()
        result = explore(rules, limits, seconds_max=options.seconds, progress=_progress)
        seen |= result.coordinator_transitions
        is_wrong = _told(name, result, expected, time.monotonic() - started)
        failed |= is_wrong
        searches.append(_summary(name, result, expected, time.monotonic() - started, is_wrong=is_wrong))
    print(f"model: coordinator's transitions met: {len(seen)}: " + ", ".join(f"{a}>{b}" for a, b in sorted(seen)))
    if options.json:
        left_out = [f"search {name}" for name in SEARCHES if name not in {each["name"] for each in searches}]
        steps = [f"{a} -> {b}" for a, b in sorted(seen)]
        summary = {"searches": searches, "transitions reached": steps, "left out": left_out}
        pathlib.Path(options.json).write_text(json.dumps(summary, indent=1) + "\n")
    states, steps_taken = (sum(each[what] for each in searches) for what in ("states", "transitions"))
    wrong = sum(each["is wrong"] for each in searches)
    print(
        f"model: {len(searches)} searches, {states:,} states, {steps_taken:,} transitions, "
        f"{len(searches) - wrong} ended as expected{f', {wrong} NOT' if wrong else ''}"
    )
    return int(failed)


def _summary(name: str, result: Result, expected: str, seconds: float, *, is_wrong: bool) -> dict[str, Any]:
    """For the report."""
    return {
        "name": name,
        "states": result.states,
        "transitions": result.transitions,
        "ends": result.last_states,
        "depth": result.depth,
        "seconds": round(seconds, 1),
        "violation": result.violation,
        "expected violation": expected,
        "is complete": result.is_complete,
        "is wrong": is_wrong,
    }


def _told(name: str, result: Result, expected: str, seconds: float) -> bool:
    print(
        f"model: {name}: {result.states:,} states, {result.transitions:,} transitions, "
        f"{result.last_states:,} ends, {result.depth} steps deep, {seconds:.0f} s: "
        + (result.violation or ("nothing found" if result.is_complete else "nothing found, NOT COMPLETE in this time"))
    )
    as_expected = result.violation.startswith(expected) if expected else result.is_complete and not result.violation
    if not as_expected or expected:
        print("\n".join(f"    {line}" for line in result.story))
    return not as_expected


def _progress(result: Result) -> None:
    if sys.stderr.isatty():
        print(f"\r{result.states:,} states, {result.depth} steps deep ", end="", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
