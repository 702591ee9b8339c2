"""A short run in every `make test-long`; all: `make process KILLS=40`. And the judge, who must notice."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

import pytest

from evidence.processing.judge import Letter, Row, partition_of, wrong_letters, wrong_outputs
from evidence.processing.rule import is_poison, key_of, number_of, outputs_of

ROOT = pathlib.Path(__file__).parents[2]
COUNT = 1000


def right_rows() -> list[Row]:
    return [(0, key_of(number), value) for number in range(COUNT) for value in outputs_of(number)]


def right_letters() -> list[Letter]:
    return [
        (
            b"%d" % number,
            {
                "__oncelog.errors.message": b"%d cannot be transformed" % number,
                "__oncelog.errors.partition": b"%d" % partition_of(number, 8),
            },
        )
        for number in range(COUNT)
        if is_poison(number)
    ]


def test_members_that_are_killed_paused_and_sent_away_write_each_record_once(tmp_path: pathlib.Path) -> None:
    command = [sys.executable, "-m", "evidence.processing", "--kills", "2", "--only", "oncelog"]
    done = subprocess.run(
        [*command, "--protocols", "cooperative", "--folder", str(tmp_path), "--seed", "1", "--longest-pause", "0.5"],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert re.match(r"process: oncelog: [\d,]+ records, 2 kills, \d+ rebalances, exact; seed 1\n", done.stdout)


def test_what_is_right_is_found_right() -> None:
    assert wrong_outputs(COUNT, right_rows()) == []
    assert wrong_letters(COUNT, 8, right_letters()) == []


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda rows: rows[:-1], "1 outputs lost, such as b'998'"),
        (lambda rows: [*rows, rows[-1]], "1 outputs there twice, such as b'998'"),
        (lambda rows: [*rows, (0, key_of(1003), b"1003")], "1 outputs from nowhere, such as b'1003'"),
        (lambda rows: rows[::-1], "b'key-.*': .* comes behind"),
        (
            lambda rows: [(0, b"other", value) if value == b"5" else (p, key, value) for p, key, value in rows],
            "b'other'",
        ),
    ],
    ids=["lost", "twice", "from nowhere", "order", "key"],
)
def test_what_is_wrong_is_noticed(wrong, says) -> None:
    assert any(re.search(says, problem) for problem in wrong_outputs(COUNT, wrong(right_rows())))


def test_the_two_of_one_record_keep_their_order() -> None:
    rows = [row for row in right_rows() if number_of(row[2]) != 7]
    problems = wrong_outputs(COUNT, [(0, key_of(7), b"7:b"), (0, key_of(7), b"7:a"), *rows])
    assert problems == ["b'key-7': b'7:a' comes behind b'7:b'"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (lambda letters: letters[:-1], "1 dead letters lost"),
        (lambda letters: [*letters, letters[0]], "1 dead letters there twice"),
        (lambda letters: [(letters[0][0], {}), *letters[1:]], "says ''"),
    ],
    ids=["lost", "twice", "silent"],
)
def test_wrong_dead_letters_are_noticed(wrong, says) -> None:
    assert any(says in problem for problem in wrong_letters(COUNT, 8, wrong(right_letters())))
