"""What is recorded, what replaces what, and what a report says of it: nothing bad may be overlooked."""

from __future__ import annotations

import dataclasses

import pytest

from evidence.proof import evidence as evidence_module
from evidence.proof.evidence import (
    FAILED,
    INTERRUPTED,
    PASSED,
    RUNNING,
    Evidence,
    Source,
    all_runs,
    load,
    save,
)
from evidence.proof.goals import BROKEN, MET, NOT_RUN, SHORT, goals
from evidence.proof.parts import NOT_IN, PARTS, PROFILES, parts_of
from evidence.proof.report import page, write_report
from evidence.proof.sections import section

NOW = Source("a" * 40, "t" * 40)
OLDER = Source("b" * 40, "u" * 40)
SAME_TREE = Source("c" * 40, "t" * 40)
SIM = {
    "seeds": 200,
    "anomalies": 0,
    "virtual seconds": 3600,
    "faults": {"broker kill": 35, "cut": 1235},
    "transactions": {"ok": 2025, "fail": 355},
    "steps": {"EMPTY -> ONGOING": 220, "ONGOING -> PREPARE_COMMIT": 1322},
    "error codes": {"51": 445, "47": 16},
    "transitions missing": ["EMPTY -> EMPTY"],
    "error codes missing": ["CORRUPT_MESSAGE"],
    "error codes impossible": {"NOT_ENOUGH_REPLICAS_AFTER_APPEND": "nothing is replicated"},
}
MODEL = {
    "searches": [
        {
            "name": "TV2",
            "states": 5_000_000,
            "transitions": 9_000_000,
            "ends": 9,
            "depth": 30,
            "seconds": 84.0,
            "violation": "",
            "expected violation": "",
            "is complete": True,
            "is wrong": False,
        }
    ],
    "left out": [],
}
KILLS = {
    "seed": 4,
    "episodes": {"kills of the broker": 310, "kills of clients": 100, "network cuts": 50, "full disks": 20},
    "anomalies": 0,
    "recovery s": [0.4, 0.5, 1.9],
    "acknowledged records": 5,
}
POWER = {
    "crash points": 20_015,
    "by operation and moment": {"sync_directory before": 3, "write middle": 9},
    "by file": {"log": 12},
    "failing operations": {"disk full once": 4},
    "failure count": 0,
}
FUZZ = {"inputs": 10, "findings": 0, "slowest step ms": 12, "memory growth bytes": 2**20, "by target": {"broker": 10}}
MUTANTS = {
    "mutants": [
        {"name": "kept", "file": "core/a.py", "killed by": "tests/core/test_a.py::test_b"},
        {"name": "lives", "file": "core/b.py", "killed by": ""},
    ],
    "killed": 1,
}
FIGURES = {
    "sim": SIM,
    "sim-dual-writes": {"seeds": 3, "divergences": 0, "counts": {"committed": 12}},
    "model": MODEL,
    "mutants": MUTANTS,
    "power": POWER,
    "crash": KILLS,
    "chaos": KILLS,
    "compaction": {"cleanings": 3, "problems": []},
    "fuzz": FUZZ,
    "soak": {"first seed": 7, "simulated seeds": 60, "faults": {"network cuts": 3}, "recovery s": [0.2]},
}


def run(part: str, verdict: str = PASSED, seconds: float = 10.0, source: Source = NOW, **more) -> Evidence:
    at = more.pop("begun_at", "2026-11-21T08:00:00+00:00")
    return Evidence(part, f"python -m {part}", source, at, seconds, verdict, f"{part}: said", 0, **more)


@pytest.fixture(autouse=True)
def no_git(monkeypatch):
    monkeypatch.setattr(evidence_module, "git", lambda *arguments, **options: "")
    monkeypatch.setattr("evidence.proof.report.source_now", lambda: NOW)


def test_what_was_saved_is_loaded(tmp_path):
    saved = run("sim", figures=SIM)
    assert save(saved, tmp_path)
    assert load("sim", tmp_path) == saved
    assert load("crash", tmp_path) is None
    (tmp_path / "crash.json").write_text('{"part": "crash"')
    assert load("crash", tmp_path) is None


@pytest.mark.parametrize(
    ("first", "second", "stays"),
    [
        (run("sim", seconds=100), run("sim", seconds=10), True),
        (run("sim", seconds=10), run("sim", seconds=100), False),
        (run("sim", seconds=100), run("sim", FAILED, seconds=1), False),
        (run("sim", seconds=100), run("sim", INTERRUPTED, seconds=200), True),
        (run("sim", seconds=100, source=OLDER), run("sim", seconds=1), False),
        (run("sim", FAILED, seconds=100), run("sim", seconds=1), False),
        (run("sim", RUNNING, seconds=100), run("sim", seconds=1), False),
    ],
)
def test_a_lesser_run_does_not_hide_a_better_one_nor_anything_a_failure(tmp_path, first, second, stays):
    save(first, tmp_path)
    assert save(second, tmp_path) is not stays
    assert load("sim", tmp_path) == (first if stays else second)
    assert [each.verdict for each in all_runs(tmp_path)] == [first.verdict, second.verdict]


def test_a_line_that_was_cut_short_does_not_hide_the_others(tmp_path):
    save(run("sim"), tmp_path)
    with (tmp_path / "runs.jsonl").open("a") as file:
        file.write('{"part": "cra\n')
    save(run("crash"), tmp_path)
    assert [each.part for each in all_runs(tmp_path)] == ["sim", "crash"]


def test_what_was_left_out_is_told():
    assert run("chaos", figures={"left out": ["the Java client: no java here"]}).left_out == [
        "the Java client: no java here"
    ]
    told = dataclasses.replace(run("conformance"), line="conformance: 8 of 9 parts passed, NOT (ALL) RUN the tools")
    assert told.left_out == ["the tools"]


def test_every_part_has_a_command_in_every_profile():
    for profile in PROFILES:
        names = [part.name for part in parts_of(profile)]
        assert names == [name for name in PARTS if name not in NOT_IN[profile]]
        assert all(part.command(profile)[0] == "-m" for part in parts_of(profile))
    assert sum(part.expected_s("short") for part in parts_of("short")) <= 900
    assert [part.name for part in parts_of("full", "crash,sim")] == ["crash", "sim"]
    with pytest.raises(KeyError):
        parts_of("full", "nonsense")


def all_good() -> dict[str, Evidence]:
    return {name: run(name, figures=FIGURES.get(name, {})) for name in (*PARTS, "soak")}


def test_a_report_of_nothing_says_so(tmp_path):
    text = write_report(tmp_path).read_text()
    assert "nothing was run yet" in text
    assert text.count("NOT RUN") == len(PARTS) + 1


def test_a_report_in_which_all_is_well(tmp_path):
    text = page(all_good(), [], NOW)
    assert f"nothing found by {len(PARTS) + 1} tools</span>" in text
    assert 'class="alarm"' not in text
    assert 'class="missing"' not in text
    for word in ("http://", "https://", "<script", "src="):  # it stands by itself
        assert word not in text
    for word in ("broker kill", "not reached", "CONCURRENT_TRANSACTIONS", "CORRUPT_MESSAGE", "SURVIVES", "p99 1.90 s"):
        assert word in text


def test_a_failure_is_the_first_thing_to_be_seen():
    runs = all_good() | {"crash": run("crash", FAILED, figures=KILLS, log="logs/crash.log")}
    text = page(runs, [], NOW)
    assert '<span class="verdict failed">FAILED: crash</span>' in text
    assert text.index('class="alarm"') < text.index("What was run")
    assert "logs/crash.log" in text


def test_a_failure_that_a_repeat_covered_is_still_told():
    history = [run("crash", FAILED, begun_at="2026-11-21T07:00:00+00:00"), run("crash")]
    text = page(all_good(), history, NOW)
    assert "crash failed earlier on this source" in text
    assert '<span class="verdict partial">' in text
    older = [dataclasses.replace(history[0], source=OLDER)]
    assert "failed earlier" not in page(all_good(), older, NOW)


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"sim": run("sim", figures=SIM, source=OLDER)}, "OLDER SOURCE: bbbbbbbbbb"),
        ({"sim": run("sim", figures=SIM, source=OLDER)}, "These figures are of an older source"),
        ({"sim": run("sim", figures=SIM, source=OLDER)}, "Run with an older source: sim."),
        ({"sim": run("sim", figures=SIM, source=SAME_TREE)}, "src/ is the same"),
        ({"sim": run("sim", INTERRUPTED)}, "Not run to its end: sim."),
    ],
)
def test_what_is_old_or_cut_short_is_marked(changed, says):
    assert says in page(all_good() | changed, [], NOW)


def test_without_git_nobody_knows_what_was_examined():
    assert "of a source that nobody named" in page({"sim": run("sim", figures=SIM)}, [], Source())


def test_what_was_not_run_is_named():
    runs = all_good()
    del runs["chaos"], runs["power"]
    assert "Not run: power, chaos." in page(runs, [], NOW)


def test_words_of_tools_are_no_html():
    text = page({"sim": dataclasses.replace(run("sim", FAILED), line="<b>& co")}, [], NOW)
    assert "<b>& co" not in text
    assert "&lt;b&gt;&amp; co" in text


@pytest.mark.parametrize("part", FIGURES)
def test_a_section_stands_figures_that_are_missing(part):
    whole = section(run(part, figures=FIGURES[part]))
    assert whole
    assert section(run(part, figures={"left out": []}))
    assert section(run(part)) == ""


def test_goals_are_met_short_broken_or_not_run():
    def states(**figures):
        found = goals({name: run(name, figures=value) for name, value in figures.items()})
        return {goal.text: goal.state for goal in found}

    assert set(states().values()) == {NOT_RUN}
    met = states(sim=SIM, model=MODEL, crash=KILLS, power=POWER, fuzz=FUZZ, mutants=MUTANTS)
    assert met["SIGKILLs of the broker under load"] == MET
    assert met["recovery, p99"] == MET
    assert met["crash points"] == MET
    assert met["simulated seeds over all profiles"] == SHORT
    assert met["steps of the coordinator's table"] == SHORT
    assert met["hostile inputs"] == SHORT
    whole = SIM | {"seeds": 5000, "anomalies": 1}
    broken = states(sim=whole, crash=KILLS | {"recovery s": [2.5]}, fuzz=FUZZ | {"slowest step ms": 1001})
    assert broken["anomalies in them"] == BROKEN
    assert broken["steps of the coordinator's table"] == BROKEN
    assert broken["recovery, p99"] == BROKEN
    assert broken["slowest step"] == BROKEN
