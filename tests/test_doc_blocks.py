"""Who copies the Python of a page has what it needs: its blocks, one behind the other, know every name that they use."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import textwrap

import pytest

ROOT = pathlib.Path(__file__).parent.parent
BLOCK = re.compile(r"^ *```python\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
PAGES = {
    path.relative_to(ROOT).as_posix(): textwrap.dedent("\n".join(map(textwrap.dedent, blocks)))
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")))
    if (blocks := BLOCK.findall(path.read_text()))
}
# What the reader brings along.
READERS_OWN = {
    "docs/errors.md": {"producer"},
    "docs/performance.md": {"events"},
    "docs/reconcile.md": {"spark"},
    "docs/security.md": {"ask", "password", "secret"},
    "docs/share-groups.md": {"work_on"},
    "docs/spark.md": {"b", "c", "df", "query_id"},
}


def undefined_names(code: str) -> set[str]:
    checked = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--isolated", "--select=F821", "--output-format=concise", "-"],
        input=code,
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode in {0, 1}, checked.stderr
    assert "invalid-syntax" not in checked.stdout, checked.stdout
    return set(re.findall(r"Undefined name `(\w+)`", checked.stdout))


def test_pages_have_blocks() -> None:
    assert len(PAGES) > 20
    assert PAGES.keys() > READERS_OWN.keys()


def test_a_name_that_nobody_gives_is_found() -> None:
    assert undefined_names("import json\njson.dumps(asked)\nasync with one as other:\n    other(two)\n") == {
        "asked",
        "one",
        "two",
    }


@pytest.mark.parametrize("page", PAGES)
def test_the_blocks_of_a_page_know_every_name_that_they_use(page: str) -> None:
    assert undefined_names(PAGES[page]) == READERS_OWN.get(page, set())
