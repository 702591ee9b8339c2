"""The short form: some drawn starts find nothing; and with a fault planted the drill finds it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from evidence.damaged_starts.__main__ import Outcome, build_and_run, run
from evidence.damaged_starts.damage import WAYS, Case, case_of
from evidence.damaged_starts.defects import DEFECTS
from evidence.damaged_starts.reference import Builder, Expected

SEEDS = range(1, 61)
PLANTED = {
    "foreign_snapshots_are_believed": [("clean", "open-0/00000000000000000002.snapshot", "replaced")],
    "a_damaged_checkpoint_counts_as_empty": [
        (state, "log-start-offset-checkpoint", "emptied") for state in ("clean", "killed")
    ],
    "lost_transaction_indexes_are_believed": [("clean", "committed-0/00000000000000000000.txnindex", "removed")],
    "refusals_name_nothing": [("clean", "log-start-offset-checkpoint", "emptied")],
    "a_refusal_is_a_bug": [("killed", "__cluster_metadata-0/00000000000000000000.log", "emptied")],
}

Built = tuple[Path, Expected]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    folder = tmp_path_factory.mktemp("damaged")
    return folder, asyncio.run(Builder(folder).build())


def judged(built: Built, cases: list[Case]) -> Outcome:
    outcome = Outcome()
    asyncio.run(run(built[0], cases, built[1], outcome))
    return outcome


def test_drawn_starts_serve_all_or_name_the_file(built: Built) -> None:
    outcome = judged(built, [case_of(seed, built[0]) for seed in SEEDS])
    assert outcome.findings == []
    assert set(outcome.starts) == {"whole", "offline", "refused"}
    assert outcome.processes


def test_what_is_not_damaged_is_served(built: Built) -> None:
    untouched = [
        Case(1, state, "__consumer_offsets-0/leader-epoch-checkpoint", "removed") for state in ("clean", "killed")
    ]
    assert judged(built, untouched).starts == {"whole": 2}


def test_a_seed_is_drawn_again(built: Built) -> None:
    assert [case_of(seed, built[0]) for seed in SEEDS] == [case_of(seed, built[0]) for seed in SEEDS]
    assert len({case_of(seed, built[0]).way for seed in SEEDS}) == len(WAYS)


@pytest.mark.parametrize("name", DEFECTS)
def test_a_planted_fault_is_found(built: Built, name: str) -> None:
    cases = [Case(1, *each) for each in PLANTED[name]]
    assert judged(built, cases).findings == [], "without it all is well"
    with DEFECTS[name]():
        assert len(judged(built, cases).findings) >= len(cases)


def test_its_figures_are_written(tmp_path: Path) -> None:
    path = tmp_path / "figures.json"
    command = [sys.executable, "-m", "evidence.damaged_starts", "--seed", "1", "--json", str(path)]
    ended = subprocess.run(command, capture_output=True, check=True, text=True)
    assert ended.stdout.startswith("1 damaged starts: ")
    assert json.loads(path.read_text())["findings"] == 0


def test_all_of_a_run_is_counted(tmp_path: Path) -> None:
    outcome = Outcome()
    asyncio.run(build_and_run(tmp_path, range(1, 4), outcome))
    assert outcome.starts.total() == outcome.kinds.total() == 3
