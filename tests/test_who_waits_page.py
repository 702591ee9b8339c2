"""docs/who-waits.md names tests that exist, and says something in each of its cells."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[1]


def rows() -> list[list[str]]:
    text = (ROOT / "docs" / "who-waits.md").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[1:]]


def test_every_line_is_whole():
    assert len(rows()) >= 35
    for row in rows():
        assert len(row) == 7, row
        assert all(row), row


def test_every_line_names_tests_that_exist():
    known = {path.name for folder in ("tests", "evidence") for path in (ROOT / folder).rglob("test_*.py")}
    for row in rows():
        named = re.findall(r"`(?:\w+/)*(test_\w+\.py)`", row[-1])
        assert named, row
        assert set(named) <= known, row
