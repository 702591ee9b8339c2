"""CPU time of the broker and the client as columns."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from bench.costs import Measured, Spent, cpu, cpu_ticks, family, figures, process_cpu_s, rate

STAT = "17 (a) b (c) S 1 17 17 0 -1 4194560 1 0 0 0 123 45 9 9 20 0 4 0 100 1 1"


def test_ticks_stand_behind_a_name_that_may_hold_anything():
    assert cpu_ticks(STAT) == 123 + 45


def test_this_process_has_used_the_processor():
    assert process_cpu_s(os.getpid()) == pytest.approx(sum(os.times()[:2]), rel=0.1, abs=1.0)


def test_what_a_process_has_started_counts_as_its_own():
    words = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'input()'])"
    with subprocess.Popen([sys.executable, "-c", words], stdin=subprocess.PIPE) as started:
        deadline = time.monotonic() + 30
        while len(found := family(started.pid)) < 2:
            assert time.monotonic() < deadline
        started.communicate(b"\n")
    assert found[0] == started.pid
    assert found[1] != os.getpid()


def test_a_rate_is_told_with_what_a_unit_cost():
    measured = rate(Spent(2.0, 0.5, 0.25), 1000)
    assert measured == Measured(500.0, 500.0, 250.0)
    assert str(measured) == "500.00 (broker 500.0 us, client 250.0 us)"


def test_of_several_rounds_the_median_counts():
    rounds = {"ours": [Measured(1, 10, 5), Measured(2, 30, 6), Measured(3, 20, 7)]}
    assert figures(rounds) == {"ours": [1, 2, 3]}
    found = cpu(rounds, "ours", "theirs", "MB")
    assert (found.broker_us, found.client_us, found.other_broker_us, found.per) == (20, 6, None, "MB")
    assert found.other_client_us is None


def test_rounds_that_were_not_measured_have_no_figure():
    with pytest.raises(ZeroDivisionError):
        rate(Spent(1.0, 1.0, 1.0), 0)
