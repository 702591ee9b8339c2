"""`python -m bench.in_process`: the broker's CPU per operation, and whether it is more than was recorded.

--check fails where an operation costs 15 % more calibration rounds than recorded; --record writes today's ratios;
--slower 20 plants a slow-down, to see that it is found.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.in_process.measure import Figures
from bench.in_process.records import (
    PATH,
    SLOWER_MAX_PERCENT,
    NotRecorded,
    build,
    record,
    recorded,
    slower_percent,
    too_slow,
    typical,
)
from bench.in_process.runs import as_json, best_of_runs, measured, measured_apart

RECORDED_TIMES = 3


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.in_process", description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail where something is slower than may be")
    parser.add_argument("--record", action="store_true", help="write the ratios of this interpreter")
    parser.add_argument("--work", action="append", default=[], help="measure this only (any number of times)")
    parser.add_argument("--slower", type=float, default=0.0, metavar="PERCENT", help="make every request cost more")
    parser.add_argument("--once", action="store_true", help="one run, in this process; prints JSON")
    asked = parser.parse_args(arguments)
    if asked.once:
        print(as_json(measured(asked.work, slower_percent=asked.slower)))
        return 0
    try:
        kept = recorded()
    except NotRecorded as error:
        kept = {}
        if asked.check:
            print(f"in-process: not checked: {error}; python -m bench.in_process --record")
            return 77

    def one_run() -> Figures:
        return measured_apart(asked.work, slower_percent=asked.slower)

    if asked.record:
        several = [best_of_runs(one_run, lambda _: True) for _ in range(RECORDED_TIMES)]
        record(typical([each.ratios for each in several]))
        print(f"in-process: ratios of {build()} written to {PATH.name}")
        figures, kept = several[-1], recorded()
    else:
        figures = best_of_runs(one_run, lambda best: not asked.check or not too_slow(best.ratios, kept))
    print("\n".join(lines(figures, kept)))
    slow = too_slow(figures.ratios, kept) if asked.check else []
    if asked.check:
        verdict = f"slower by more than {SLOWER_MAX_PERCENT:g} %: {', '.join(slow)}" if slow else "as fast as recorded"
        print(f"in-process: {verdict}")
    return 1 if slow else 0


def lines(figures: Figures, kept: dict[str, float]) -> list[str]:
    """A line for each work."""
    found = [f"calibration round: {figures.calibration_us:.1f} us"]
    percents = slower_percent(figures.ratios, kept) if set(figures.ratios) <= set(kept) else {}
    for name, taken_us in figures.operation_us.items():
        line = f"{name:28} {taken_us:7.1f} us  {figures.ratio(name):6.3f} rounds"
        found.append(f"{line}  {percents[name]:+5.1f} %" if name in percents else line)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
