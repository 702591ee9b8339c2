"""The short form: one killed and one stopped oncelog directory, each fault planted once; `make reconcile` has both brokers."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

from evidence.reconcile.directories import make
from evidence.reconcile.judging import is_found, plant_and_judge
from evidence.reconcile.planting import FAULTS, index_file_lost, snapshot_sequence
from evidence.reconcile.writing import Story
from oncelog.cli.commands.reconcile import reconciled


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("reconcile") / "life"
    found: list[pathlib.Path] = []
    make(Story("short", transactions=24, kills=2), folder, 3, None, found.append)
    return found[0]


def test_a_healthy_directory_is_called_so(data: pathlib.Path) -> None:
    assert reconciled([str(data)]).faults == []


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__)
def test_planted_faults_are_found(data: pathlib.Path, tmp_path: pathlib.Path, plant) -> None:
    judged = plant_and_judge(data, tmp_path / "copy", plant, plant.__name__)
    assert judged is not None, "the story has a place for every fault"
    planted, found = judged
    assert is_found(planted, found), (planted, found)


@pytest.mark.parametrize("plant", [index_file_lost, snapshot_sequence], ids=lambda plant: plant.__name__)
def test_the_command_that_is_shown_mends_it(data: pathlib.Path, tmp_path: pathlib.Path, plant) -> None:
    judged = plant_and_judge(data, tmp_path / "copy", plant, plant.__name__)
    assert judged is not None
    for command in {each.repair for each in judged[1]}:
        path = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        subprocess.run(
            f"{command} --yes", shell=True, check=True, capture_output=True, env={**os.environ, "PATH": path}
        )
    assert reconciled([str(tmp_path / "copy")]).faults == []
