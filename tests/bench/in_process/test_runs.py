"""The one test that a timing decides: the broker costs no more than was recorded (docs/performance-figures.md, "In process").

CPU time, the cheapest of many short slices in turn with a calibration loop: a busy machine does not decide it.
"""

from __future__ import annotations

import warnings

import pytest
from bench.in_process.__main__ import lines
from bench.in_process.measure import Figures
from bench.in_process.records import Held, NotRecorded, recorded
from bench.in_process.runs import best_of_runs, measured_apart


def recorded_or_skip():
    try:
        return recorded()
    except NotRecorded as error:
        pytest.skip(f"{error}; python -m bench.in_process --record")


@pytest.mark.slow
@pytest.mark.filterwarnings("always:no record of this processor:UserWarning")  # told at the end of the run
def test_the_broker_is_as_fast_as_recorded():
    kept = recorded_or_skip()
    figures = best_of_runs(measured_apart, lambda best: not kept.too_slow(best.ratios))
    held = kept.held(figures.ratios)
    assert not held.too_slow(figures.ratios), "\n".join(lines(figures, held))
    if held.said:
        warnings.warn(held.said, stacklevel=1)


@pytest.mark.slow
def test_a_planted_slow_down_is_found():
    kept = recorded_or_skip()
    planted = measured_apart(slower_percent=60, slowed=["Produce", "Heartbeat"])
    assert kept.too_slow(planted.ratios) == ["Produce", "Heartbeat"], kept.slower_percent(planted.ratios)


def test_the_cheapest_of_all_runs_counts_and_doubt_asks_for_more():
    runs = [Figures(100, {"a": 300.0}), Figures(110, {"a": 200.0}), Figures(90, {"a": 400.0}), Figures(1, {"a": 1.0})]
    left = iter(runs)
    best = best_of_runs(lambda: next(left), lambda figures: figures.ratio("a") < 2.1, 1, 4)
    assert best == Figures(100, {"a": 200.0})
    left = iter(runs)
    assert best_of_runs(lambda: next(left), lambda figures: False, 2, 3) == Figures(90, {"a": 200.0})
    assert next(left) is runs[3]
    left = iter(runs)
    assert best_of_runs(lambda: next(left), lambda figures: True, 2, 3).ratios == {"a": 2.0}


def test_a_line_says_how_far_from_the_record():
    figures = Figures(100, {"a": 120.0})
    assert lines(figures, Held({"a": 1.0})) == [
        "calibration round: 100.0 us",
        "a                              120.0 us   1.200 rounds  +20.0 %",
    ]
    assert lines(figures, Held({}, said="nothing to compare with"))[1:] == [
        "nothing to compare with",
        "a                              120.0 us   1.200 rounds",
    ]
