"""The reasons file, and the real one: each reason still has its line."""

from __future__ import annotations

import pytest

from evidence.mutants import tree as trees
from evidence.mutants.attributes import Attributes
from evidence.mutants.operators import mutations
from evidence.mutants.reasons import known, read, without_a_line

TEXT = """# a comment
file: src/oncelog/core/a.py
mutant: f | return a < b | boundary: a < b -> a <= b
because: they are never equal.
    Ids are unique.

mutant: g | a.call() | dropped call: a.call() -> pass
because: it is a cache.
"""


def test_reasons_are_found_by_file_and_text() -> None:
    file = "src/oncelog/core/a.py"
    assert read(TEXT) == {
        (file, "f | return a < b | boundary: a < b -> a <= b"): "they are never equal. Ids are unique.",
        (file, "g | a.call() | dropped call: a.call() -> pass"): "it is a cache.",
    }


@pytest.mark.parametrize(
    "text",
    [
        "mutant: f | a | b\nbecause: c\n",
        "file: a\nmutant: b\n",
        "file: a\nbecause: c\n",
        "file: a\nmutant: b\nbecause: c\nelse\n",
    ],
)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        read(text)


def test_a_second_reason_for_the_same_mutant_is_refused() -> None:
    with pytest.raises(ValueError, match="already"):
        read(
            TEXT
            + "\nfile: src/oncelog/core/a.py\nmutant: g | a.call() | dropped call: a.call() -> pass\nbecause: no.\n"
        )


def test_a_reason_whose_line_has_changed_is_named() -> None:
    assert without_a_line([("a.py", "f | x"), ("a.py", "f | y")], {"a.py": ["f | y"]}) == [("a.py", "f | x")]


def test_every_reason_has_its_line() -> None:
    reasons = known()
    sources = {str(path.relative_to(trees.ROOT)): path.read_text() for path in (trees.ROOT / "src").rglob("*.py")}
    attributes = Attributes(sources.values())
    files = {file for file, _ in reasons}
    names = {
        file: [each.name for each in mutations(file, sources[file], attributes)] for file in files if file in sources
    }
    assert without_a_line(reasons, names) == []
