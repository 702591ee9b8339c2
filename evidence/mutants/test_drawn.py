"""The whole tool on a small project: a strong test kills, a weak one lets live, and what is known is not asked again."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import subprocess
import sys

from evidence.mutants import cover as covers
from evidence.mutants import report
from evidence.mutants.planting import KILLED, NOT_COVERED, SURVIVED, Result

LIMIT = """
def is_within(size: int) -> bool:
    return size <= 10


def is_large(size: int) -> bool:
    return size > 99


def nobody_asks(size: int) -> bool:
    return size > 5
"""
STRONG = """
import subprocess, sys

def test_is_within():
    '''In a process of its own: it has to import the copy as well.'''
    code = "from oncelog.core.limit import is_within; print(*map(is_within, (9, 10, 11)))"
    assert subprocess.check_output([sys.executable, "-c", code]) == b"True True False\\n"
"""
WEAK = """
from oncelog.core.limit import is_large

def test_is_large():
    is_large(100)
"""
BETTER = WEAK + "    assert [is_large(size) for size in (98, 99, 100, 101)] == [False, False, True, True]\n"


def small_project(root: pathlib.Path) -> None:
    for file, text in {
        "src/oncelog/__init__.py": "",
        "src/oncelog/core/__init__.py": "",
        "src/oncelog/core/limit.py": LIMIT,
        "src/oncelog/testing/__init__.py": "",
        "src/oncelog/testing/plugin.py": "",
        "src/oncelog/wire/__init__.py": "",
        "src/oncelog/wire/varint.py": "",
        "evidence/__init__.py": "",
        "tests/__init__.py": "",
        "tests/core/test_strong.py": STRONG,
        "tests/core/test_weak.py": WEAK,
        "docs/mutants.md": f"Before.\n{report.BEGIN}\nold\n{report.END}\nAfter.\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(text)
    left_out = shutil.ignore_patterns("test_*", "equivalent.txt", "__pycache__")
    shutil.copytree(pathlib.Path(__file__).parent, root / "evidence" / "mutants", ignore=left_out)


def run(root: pathlib.Path, *arguments: str) -> tuple[int, dict[str, tuple[str, str]], str]:
    """Its exit status, what became of the mistakes of each function, and what it said."""
    environment = {**os.environ, "PYTHONPATH": f"{root / 'src'}{os.pathsep}{root}"}
    command = [sys.executable, "-m", "evidence.mutants.drawn", *arguments]
    done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    said = json.loads((root / "build" / "mutants" / "drawn.json").read_text())
    return (
        done.returncode,
        {m["name"].split(" | ")[0]: (m["state"], m["killed_by"]) for m in said["mutants"]},
        done.stdout,
    )


def test_a_small_project(tmp_path: pathlib.Path) -> None:
    small_project(tmp_path)
    status, found, said = run(tmp_path, "--page")
    assert status == 1
    assert found == {
        "is_within": (KILLED, "tests/core/test_strong.py::test_is_within"),
        "is_large": (SURVIVED, ""),
        "nobody_asks": (NOT_COVERED, ""),
    }
    assert said.splitlines()[-1] == (
        "mutants: 1 of 3 drawn were killed, 0 are equivalent, 2 survive (seed 1); below the aim: core 33 % (aim 90)"
    )
    page = (tmp_path / "docs" / "mutants.md").read_text()
    assert "| core | 3 | 1 | 0 | 2 | 1 | 33 | 90 missed |" in page
    assert page.startswith("Before.\n")
    assert page.endswith("After.\n")

    unasked = next(name for name in said.splitlines() if name.startswith("nobody_asks"))
    reason = f"file: src/oncelog/core/limit.py\nmutant: {unasked}\nbecause: nobody asks.\n"
    (tmp_path / "evidence" / "mutants" / "equivalent.txt").write_text(reason)
    (tmp_path / "tests" / "core" / "test_weak.py").write_text(BETTER)
    status, found, said = run(tmp_path, "--again-survivors")
    assert status == 0
    assert found["is_large"] == (KILLED, "tests/core/test_weak.py::test_is_large")
    assert said.count("map: ") == 1  # the other test's lines are known
    assert "map: tests/core/test_weak.py and 0 more: 1 tests" in said
    assert said.splitlines()[-1] == (
        "mutants: 2 of 3 drawn were killed, 1 are equivalent, 0 survive (seed 1); every aim is met"
    )


def test_lines_that_have_moved_keep_their_tests() -> None:
    before, now = "a\nb\nc\nd\n", "new\na\nb\nd\nc\n"
    lines = covers._lines_now(before, now)
    assert {lines[1], lines[2]} == {2, 3}
    assert covers._lines_now(before, before) == {line: line for line in range(1, 6)}


def test_a_new_line_is_covered_by_what_covers_its_neighbour() -> None:
    test = covers.CoveringTest("tests/core/test_a.py::test_b", 0.1, starts_jvm=False)
    cover = covers.Cover(unknown={8})
    cover.by_line[7] = {test}
    assert cover.tests(8, 8, near=[9, 7]) == {test}
    assert cover.tests(8, 8, near=[9, 10]) == set()
    assert cover.tests(6, 6, near=[7]) == set()  # it was there, and nothing ran it


def test_a_line_that_runs_on_import_is_covered_by_every_test_of_its_module() -> None:
    tests = [covers.CoveringTest(f"tests/core/test_a.py::{name}", 0.1, starts_jvm=False) for name in "ab"]
    cover = covers.Cover(imported={1})
    cover.by_line[5], cover.by_line[6] = {tests[0]}, {tests[1]}
    assert cover.tests(1, 1) == set(tests)


def result(package: str, number: int, state: str) -> Result:
    file, name = f"src/oncelog/{package}/a.py", f"f | x{number} | constant: 1 -> 2"
    return Result(file, name, number, "constant", "1", "2", state, "", (), 0, False, 1.0, "")


def test_a_dangerous_package_needs_nine_in_ten_and_another_eight() -> None:
    for package, aim in (("log", 9), ("cli", 8)):
        results = [result(package, number, KILLED if number < aim else SURVIVED) for number in range(10)]
        assert report.is_good(results, 10, {})
        worse = [result(package, number, KILLED if number < aim - 1 else SURVIVED) for number in range(10)]
        assert not report.is_good(worse, 10, {})
        explained = {worse[-1].key: "equivalent", worse[-2].key: "equivalent"}
        assert report.is_good(worse, 10, explained) == (100 * (aim - 1) / 8 >= 10 * aim)


def test_a_run_that_was_stopped_is_not_good() -> None:
    assert not report.is_good([result("log", 1, KILLED)], 2, {})
