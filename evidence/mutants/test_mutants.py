"""Every planted mistake still has its line to be planted in."""

from __future__ import annotations

import ast

import pytest

from evidence.mutants.__main__ import ROOT, planted
from evidence.mutants.mutants import MUTANTS, Mutant


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_mistake_can_be_planted(mutant: Mutant) -> None:
    text = (ROOT / "src" / "oncelog" / mutant.file).read_text()
    wrong = planted(mutant, text)
    assert ast.dump(ast.parse(wrong)) != ast.dump(ast.parse(text))


def test_there_are_forty_of_them() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
