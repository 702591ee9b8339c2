"""Workers that end, that do not, that end badly; and the figures of recoveries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from evidence.crash.broker_process import BrokerFailed
from evidence.crash.recovery import anomaly_count, figures, line, percentile, recovery_text
from evidence.crash.verify import Verdict
from evidence.crash.worker_processes import end_workers, stop_workers, words

READY = "print('ready', flush=True); "
ENDS = f"import signal, sys; signal.signal(15, lambda *_: sys.exit(0)); {READY} signal.pause()"
ENDS_BADLY = f"import signal, sys; signal.signal(15, lambda *_: sys.exit('no')); {READY} signal.pause()"
STAYS = f"import signal, time; signal.signal(15, signal.SIG_IGN); {READY} time.sleep(1000)"


@pytest.fixture
def start():
    found: dict[str, subprocess.Popen[bytes]] = {}

    def begin(**programs: str) -> dict[str, subprocess.Popen[bytes]]:
        for name, program in programs.items():
            command = [sys.executable, "-c", program]
            found[name] = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
            assert found[name].stdout.readline() == b"ready\n"
        return found

    yield begin
    end_workers(found)
    for process in found.values():
        process.stdout.close()


def test_workers_that_end_are_waited_for(tmp_path, start):
    workers = start(one=ENDS, two=ENDS)
    stop_workers(workers, tmp_path, 200)
    assert [process.returncode for process in workers.values()] == [0, 0]


def test_a_worker_that_ends_badly_is_named_with_its_last_words(tmp_path, start):
    (tmp_path / "two.log").write_text("it was like this")
    with pytest.raises(BrokerFailed, match=r"worker two ended with 1: \[two\] it was like this"):
        stop_workers(start(one=ENDS, two=ENDS_BADLY), tmp_path, 200)


def test_a_worker_that_stays_is_named_and_ended(tmp_path, start):
    workers = start(one=STAYS)
    with pytest.raises(BrokerFailed, match="worker one does not end in 0 s"):
        stop_workers(workers, tmp_path, 0.05)
    end_workers(workers)
    assert workers["one"].returncode == -9


def test_words_of_those_that_said_something(tmp_path):
    (tmp_path / "one.log").write_text("")
    (tmp_path / "two.log").write_text("x" * 5000 + "end")
    assert words(("one", "two", "three"), tmp_path) == f"[two] {'x' * 1497}end"


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([], 0.99, 0.0),
        ([3.0], 0.5, 3.0),
        ([4.0, 1.0, 3.0, 2.0], 0.5, 2.0),
        ([*map(float, range(1, 101))], 0.99, 99.0),
        ([*map(float, range(1, 101))], 1.0, 100.0),
    ],
)
def test_percentiles_by_nearest_rank(values, share, expected):
    assert percentile(values, share) == expected


def test_one_line_has_the_figures_that_count():
    verdict = Verdict(acknowledged=10, committed_transactions=4, aborted_transactions=1)
    text = line({"kills of the broker": 3, "full disks": 2}, verdict, [0.5, 1.5, 0.7])
    assert text.startswith("3 kills of the broker, 2 full disks, 0 anomalies, recovery p50 0.70 p99 1.50 max 1.50 s; ")
    assert "10 acknowledged records, 4 committed" in text
    assert recovery_text([]) == "recovery p50 0.00 p99 0.00 max 0.00 s"


def test_anomalies_are_counted_once():
    verdict = Verdict()
    for number in range(8):
        verdict.add("lost", f"value {number}")
    verdict.problems.append("history: G1a: something")
    assert anomaly_count(verdict) == 9
    found = figures({"kills of the broker": 1}, verdict, [0.25])
    assert (found["anomalies"], found["lost"], found["recovery p99 s"]) == (9, 8, 0.25)
