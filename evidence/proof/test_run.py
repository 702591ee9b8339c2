"""Parts that end well, badly, not at all, or by Ctrl-C: each is told, none hides another, nothing is left behind."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
import threading
import time

import pytest

from evidence.proof.child import Child
from evidence.proof.evidence import FAILED, INTERRUPTED, PASSED, ROOT, all_runs, load
from evidence.proof.parts import Part
from evidence.proof.run import recorded, run_profile
from evidence.proof.soak import SEEDS_OF_A_STEP, Soak, Step, Totals, first_seed

PATIENCE_S = 200.0
GOOD = "import json, sys; json.dump({'seeds': 3}, open(sys.argv[1], 'w')); print('3 seeds, 0 anomalies')"
BAD = "import sys; print('it broke', file=sys.stderr); print('1 anomaly'); sys.exit(1)"
# A child of its own, which would outlive it; both say who they are.
PARENT = """
import os, subprocess, sys, time
other = subprocess.Popen([sys.executable, '-c', 'import signal, time; signal.signal(2, signal.SIG_IGN); time.sleep(1000)'])
try:
    with open(sys.argv[1], 'w') as file:
        file.write(f'{os.getpid()} {other.pid}')
    os.rename(sys.argv[1], sys.argv[2])
    time.sleep(1000)
finally:
    print('cleaned up', flush=True)
"""


def part(name: str, program: str) -> Part:
    command = ("-c", program, "{json}")
    return Part(name, name, f"make {name}", command, command, (1, 1))


def is_running(process_id: int) -> bool:
    try:
        state = pathlib.Path(f"/proc/{process_id}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_for(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_failing_part_does_not_hide_the_others(tmp_path, capsys):
    parts = [part("one", GOOD), part("two", BAD), part("three", GOOD)]
    done, is_interrupted = run_profile(parts, "short", folder=tmp_path)
    assert not is_interrupted
    assert [each.verdict for each in done] == [PASSED, FAILED, PASSED]
    assert load("one", tmp_path).figures == {"seeds": 3}
    assert load("one", tmp_path).line == "3 seeds, 0 anomalies"
    assert load("two", tmp_path).exit_status == 1
    assert "it broke" in (tmp_path / load("two", tmp_path).log).read_text()
    assert len(all_runs(tmp_path)) == 3
    said = capsys.readouterr().err
    assert "[2/3] two" in said
    assert "FAILED in" in said


def test_a_part_that_hangs_is_ended_and_failed(tmp_path):
    marks = [str(tmp_path / "aside"), str(tmp_path / "pids")]
    evidence = recorded("one", ["-c", PARENT, *marks], folder=tmp_path, timeout_s=0.0)
    assert evidence.verdict == FAILED
    assert "did not end in" in evidence.line


def test_ctrl_c_cleans_up_and_leaves_nothing_running(tmp_path):
    pids = tmp_path / "pids"
    interrupt = threading.Thread(
        target=lambda: (wait_for(pids.exists), signal.raise_signal(signal.SIGINT)), daemon=True
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.start()
    try:
        parts = [part("one", PARENT.replace("sys.argv[2]", repr(str(pids)))), part("two", GOOD)]
        done, is_interrupted = run_profile(parts, "short", folder=tmp_path)
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
    assert is_interrupted
    assert [each.verdict for each in done] == [INTERRUPTED]
    assert "cleaned up" in (tmp_path / "logs" / "one.log").read_text()
    parent, other = map(int, pids.read_text().split())
    wait_for(lambda: not is_running(parent) and not is_running(other))
    assert load("two", tmp_path) is None


def test_every_line_reaches_the_log_and_the_caller(tmp_path):
    told = []
    child = Child(
        [sys.executable, "-c", "import sys\nfor n in range(1000): print(n); print(-n, file=sys.stderr)"],
        tmp_path / "logs" / "x.log",
        lambda line, is_error: told.append((line, is_error)),
    )
    ended = child.run(PATIENCE_S)
    assert (ended.status, ended.line) == (0, "999")
    assert [line for line, is_error in told if not is_error] == [str(n) for n in range(1000)]
    assert sum(is_error for _, is_error in told) == 1000
    assert len((tmp_path / "logs" / "x.log").read_text().splitlines()) == 2002  # the command has two lines


@pytest.mark.slow
def test_the_command_records_a_real_tool_and_renders(tmp_path):
    """`make model ONLY=...` in a tree of its own, so that nobody's evidence is touched."""
    tree = tmp_path / "tree"
    tree.mkdir()
    for name in ("src", "evidence"):
        (tree / name).mkdir()
        for path in (ROOT / name).iterdir():
            if path.name != "proof":
                (tree / name / path.name).symlink_to(path)
    (tree / "evidence" / "proof").mkdir()
    for path in (ROOT / "evidence" / "proof").glob("*.py"):
        (tree / "evidence" / "proof" / path.name).write_text(path.read_text())
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}

    def proof(*arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "evidence.proof", *arguments]
        return subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, timeout=PATIENCE_S)

    search = ["-m", "evidence.model", "--only", "2PC begun", "--json", "{json}"]
    done = proof("record", "model", "--", *search)
    assert done.returncode == 0, done.stderr
    assert "2PC begun without keepPreparedTxn" in done.stdout
    saved = json.loads((tree / "build" / "proof" / "model.json").read_text())
    assert saved["figures"]["searches"][0]["violation"].startswith("S4")
    assert proof("report").returncode == 0
    text = (tree / "build" / "proof" / "report.html").read_text()
    assert "2PC begun without keepPreparedTxn" in text
    assert "Not run: sim, " in text
    assert proof("run", "--only", "nonsense").returncode == 2


# the soak


def step(name: str, program: str, leaves: str = "") -> Step:
    def command(seed: int) -> str:
        return f"-c {program.format(seed=seed)}"

    return Step(name, command, leaves)


COUNTS = "__import__('json').dump({{'seeds':3,'anomalies':0,'faults':{{'cut':2}}}},open(__import__('sys').argv[2],'w'))"
FINDS = (
    "__import__('os').path.exists('{mark}')and(print('seed',{{seed}}),__import__('sys').exit(1))"
    "or({counts},open('{mark}','w'))"
)


def soak(tmp_path, seconds, **programs) -> Soak:
    steps = {name: step(name, program, leaves="left") for name, program in programs.items()}
    return Soak(seconds, 1000, steps=steps, folder=tmp_path / "proof", build=tmp_path)


def test_a_soak_ends_with_its_time_and_counts(tmp_path, capsys):
    evidence = soak(tmp_path, 0.01, sim=COUNTS).run()
    assert evidence.verdict == PASSED
    assert evidence.figures["simulated seeds"] == 3
    assert evidence.figures["first seed"] == 1000
    assert evidence.figures["faults"] == {"simulated: cut": 2}
    assert load("soak", tmp_path / "proof") == evidence
    assert "seeds from 1000" in capsys.readouterr().err


def test_a_soak_stops_at_the_first_finding_and_keeps_what_it_left(tmp_path):
    (tmp_path / "left").mkdir()
    (tmp_path / "left" / "journal").write_text("what was seen")
    finds = FINDS.format(mark=tmp_path / "mark", counts=COUNTS)
    evidence = soak(tmp_path, 1e6, sim=finds).run()
    assert evidence.verdict == FAILED
    assert evidence.figures["steps"] == {"sim": 2}
    kept = pathlib.Path(evidence.figures["finding"]["kept"])
    assert (kept / "left" / "journal").read_text() == "what was seen"
    assert f"seed {1000 + SEEDS_OF_A_STEP}" in (kept / "words.log").read_text()
    assert str(1000 + SEEDS_OF_A_STEP) in evidence.figures["finding"]["again"]
    assert "FAILED: seed" in evidence.line


def test_ctrl_c_ends_a_soak_with_what_it_has(tmp_path):
    mark = tmp_path / "waits"
    waits = f"open('{mark}','w').close(),__import__('time').sleep(1000)"
    interrupt = threading.Thread(
        target=lambda: (wait_for(mark.exists), signal.raise_signal(signal.SIGINT)), daemon=True
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.start()
    try:
        evidence = soak(tmp_path, 1e6, sim=COUNTS, fuzz=waits).run()
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
    assert evidence.verdict == INTERRUPTED
    assert "3 simulated seeds" in evidence.line
    assert "ended by hand" in evidence.line


def test_a_finding_in_a_step_that_ctrl_c_ended_is_told(tmp_path):
    mark = tmp_path / "waits"
    words = "'FAILED;'+chr(32)+'again'+chr(32)+'with:'+chr(32)+'this'"
    waits = f"print({words},flush=True),open('{mark}','w').close(),__import__('time').sleep(1000)"
    interrupt = threading.Thread(
        target=lambda: (wait_for(mark.exists), signal.raise_signal(signal.SIGINT)), daemon=True
    )
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    interrupt.start()
    try:
        evidence = soak(tmp_path, 1e6, sim=waits).run()
    finally:
        interrupt.join()
        signal.signal(signal.SIGINT, before)
    assert evidence.verdict == FAILED
    assert "FAILED; again with: this" in evidence.line


def test_totals_add_up_over_every_kind_of_step():
    totals = Totals()
    totals.add("sim", {"seeds": 60, "virtual seconds": 900, "anomalies": 0, "faults": {"cut": 3}})
    totals.add("sim-dual-writes", {"seeds": 60, "divergences": 1})
    kills = {"episodes": {"kills of the broker": 2, "network cuts": 3}, "anomalies": 2, "recovery s": [0.5, 0.7]}
    totals.add("chaos", kills)
    totals.add("crash", kills | {"acknowledged records": 7})
    totals.add("fuzz", {"inputs": 1000, "findings": 1})
    totals.add("crash", {})  # it failed before it wrote any
    found = totals.figures()
    assert found["anomalies"] == 5
    assert found["findings"] == 1
    assert found["faults"] == {"simulated: cut": 3, "kills of the broker": 4, "network cuts": 6}
    assert found["recovery s"] == [0.5, 0.7, 0.5, 0.7]
    assert "4 kills, 6 cuts" in totals.line()


def test_the_first_seed_is_that_of_the_day_and_the_commit():
    assert first_seed(17) == 17
    assert first_seed(None) >= 100_000
