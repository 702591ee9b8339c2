"""A mutated function's code is put into the functions that are there already."""

from __future__ import annotations

import pathlib
import types

import pytest

from evidence.mutants.serving import patch

TEXT = """
def first(
    number,
    key=lambda number: 1,
):
    return number + 1

class Second:
    def third(self, number):
        return number + 2
"""


@pytest.mark.parametrize(
    ("right", "wrong", "results"),
    [("number + 1", "number - 1", (4, 7)), ("number + 2", "number - 2", (6, 3)), ("+ 1", "+ 1 ", (6, 7))],
)
def test_whatever_differs_is_planted(right: str, wrong: str, results: tuple[int, int], tmp_path: pathlib.Path) -> None:
    file = tmp_path / "module.py"
    made = types.ModuleType("module")
    exec(compile(TEXT, str(file), "exec", dont_inherit=True), made.__dict__)
    file.write_text(TEXT.replace(right, wrong))
    assert (made.first(5), made.Second().third(5)) == (6, 7)
    assert patch(str(file), TEXT) == (results != (6, 7)), "what differs nowhere needs a process of its own"
    assert (made.first(5), made.Second().third(5)) == results


def test_what_was_not_made_yet_is_not_planted(tmp_path: pathlib.Path) -> None:
    file = tmp_path / "module.py"
    file.write_text("def fourth():\n    return 1\n")
    assert not patch(str(file), "def fourth():\n    return 2\n")
