"""`python -m bench.in_process`: the broker's CPU per operation, and whether it is more than was recorded.

--check fails where an operation costs 15 % more calibration rounds than recorded (on a processor without a record: 30 % more than
the other operations let expect, which it says); --record writes today's ratios; --slower 20 plants a slow-down, to see that it is
found, in all that is measured or what --slowed names.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from bench.in_process.measure import Figures
from bench.in_process.records import (
    PATH,
    Held,
    NotRecorded,
    build,
    cpu,
    record,
    recorded,
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
    parser.add_argument("--slowed", action="append", default=[], metavar="WORK", help="only this (any number of times)")
    parser.add_argument("--once", action="store_true", help="one run, in this process; prints JSON")
    asked = parser.parse_args(arguments)
    if asked.once:
        print(as_json(measured(asked.work, slower_percent=asked.slower, slowed=asked.slowed)))
        return 0

    def one_run() -> Figures:
        return measured_apart(asked.work, slower_percent=asked.slower, slowed=asked.slowed)

    if asked.record:
        several = [best_of_runs(one_run, lambda _: True) for _ in range(RECORDED_TIMES)]
        record(typical([each.ratios for each in several]))
        print(f"in-process: ratios of {build()} on {cpu()} written to {PATH.name}")
        print("\n".join(lines(several[-1], recorded().held(several[-1].ratios))))
        return 0
    if not asked.check:
        figures = best_of_runs(one_run, lambda _: True)
        try:
            held = recorded().held(figures.ratios)
        except NotRecorded as error:
            held = Held({}, said=str(error))
        print("\n".join(lines(figures, held)))
        return 0
    try:
        kept = recorded()
        figures = best_of_runs(one_run, lambda best: not kept.too_slow(best.ratios))
        held = kept.held(figures.ratios)
    except NotRecorded as error:
        print(f"in-process: not checked: {error}; python -m bench.in_process --record")
        return 77
    slow = held.too_slow(figures.ratios)
    print("\n".join(lines(figures, held)))
    usual = "none stands out" if held.said else "as fast as recorded"
    print("in-process: " + (f"slower by more than {held.bound_percent:g} %: {', '.join(slow)}" if slow else usual))
    return 1 if slow else 0


def lines(figures: Figures, held: Held) -> list[str]:
    """A line for each work, and what they are held to where that is not the usual."""
    found = [f"calibration round: {figures.calibration_us:.1f} us", *([held.said] if held.said else [])]
    percents = held.slower_percent(figures.ratios) if set(figures.ratios) <= set(held.kept) else {}
    for name, taken_us in figures.operation_us.items():
        line = f"{name:28} {taken_us:7.1f} us  {figures.ratio(name):6.3f} rounds"
        found.append(f"{line}  {percents[name]:+5.1f} %" if name in percents else line)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
