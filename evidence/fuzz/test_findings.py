"""How long a step took is told by its own time, not by the wall's."""

from __future__ import annotations

import pytest

from evidence.fuzz import findings as module
from evidence.fuzz.findings import Findings, timed


class Clocks:
    """Stands for the module `time`."""

    wall_s, own_s = 100.0, 7.0

    def perf_counter(self) -> float:
        return self.wall_s

    def thread_time(self) -> float:
        return self.own_s

    def step(self, wall_s: float, own_s: float, findings: Findings) -> None:
        with timed(findings, "a step", "again"):
            self.wall_s += wall_s
            self.own_s += own_s


@pytest.fixture
def clocks(monkeypatch):
    clocks = Clocks()
    monkeypatch.setattr(module, "time", clocks)
    monkeypatch.setattr(module._Clock, "read_s", 0.0)
    yield clocks
    module.watch_no_more()


def test_a_step_that_waits_for_a_core_is_not_slow(clocks):
    """The time of the steps before it was counted as its own, up to fifty of them."""
    findings = Findings()
    for _ in range(40):
        clocks.step(0.03, 0.03, findings)
    clocks.step(5.0, 0.04, findings)
    assert not findings
    assert findings.slowest_s < 0.1


def test_a_step_that_computes_for_long_is_found_however_many_quick_ones_came_before(clocks):
    findings = Findings()
    for _ in range(10_000):
        clocks.step(0.0001, 0.0001, findings)
    clocks.step(1.4, 1.4, findings)
    assert list(findings.texts) == ["a step took 1.4 s"]
