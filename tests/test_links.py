"""Links in README.md, ARCHITECTURE.md and docs/ lead somewhere; files, folders and modules that they name exist."""

from __future__ import annotations

import fnmatch
import os
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parent.parent
PAGES = [
    *(ROOT / f"{name}.md" for name in ("README", "ARCHITECTURE", "CONTRIBUTING", "SECURITY")),
    *sorted((ROOT / "docs").rglob("*.md")),
]
LINKED = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "src" / "oncelog" / "log" / "layout.md"]
LINK = re.compile(r"\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
NAMED_FILE = re.compile(r"[\w*][\w.*-]*(?:/[\w.*-]+)*\.(?:py|txt|md|c|go|java|toml|yml)")
NAMED_FOLDER = re.compile(r"(?:src|tests|evidence|docs|bench|tools|examples)(?:/[\w.*-]+)+/?")
MODULE = re.compile(r"python -m ((?:evidence|bench|tools|oncelog)\b[\w.]*)")
IGNORED = {".git", ".venv", "build", "__pycache__", "node_modules", "target"}
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)


def headings(page: pathlib.Path) -> set[str]:
    """The anchors that a heading gets: small letters, no punctuation, hyphens."""
    found = re.findall(r"^#+ (.*)$", FENCE.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", text.lower()).strip().replace(" ", "-") for text in found}


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: pathlib.Path) -> None:
    wrong = []
    for link in LINK.findall(re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text()))):
        if "://" in link or link.startswith("mailto:"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in headings(target)):
            wrong.append(link)
    assert not wrong


@pytest.mark.parametrize("page", LINKED, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_section_is_there_twice(page: pathlib.Path) -> None:
    found = re.findall(r"^## .*$", FENCE.sub("", page.read_text()), re.MULTILINE)
    assert [each for each in found if found.count(each) > 1] == []


def repository_paths() -> frozenset[str]:
    """Every file and folder, from the root, and each of its endings: `host/clock.py` names src/oncelog/host/clock.py."""
    found = set()
    for folder, folders, names in os.walk(ROOT):
        folders[:] = [name for name in folders if name not in IGNORED]
        for name in (*folders, *names):
            parts = (pathlib.Path(folder) / name).relative_to(ROOT).parts
            found.update("/".join(parts[start:]) for start in range(len(parts)))
    return frozenset(found)


PATHS = repository_paths()


def named_paths(text: str) -> set[str]:
    """Files and folders in code spans; `test_x.py::test_y` names test_x.py."""
    words = {word.partition("::")[0] for span in CODE.findall(FENCE.sub("", text)) for word in span.split()}
    return {word for word in words if NAMED_FILE.fullmatch(word) or NAMED_FOLDER.fullmatch(word)}


def is_there(path: str) -> bool:
    return bool(fnmatch.filter(PATHS, path)) if "*" in path else path.rstrip("/") in PATHS


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_files_exist(page: pathlib.Path) -> None:
    """In a tutorial a bare name is a file that its reader writes; build/ holds what a run makes."""
    wrong = {path for path in named_paths(page.read_text()) if not path.startswith("build/") and not is_there(path)}
    assert {path for path in wrong if "/" in path or page.parent.name != "tutorials"} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_modules_exist(page: pathlib.Path) -> None:
    wrong = set()
    for module in MODULE.findall(page.read_text()):
        path = module.rstrip(".").replace(".", "/")
        if f"{path}.py" not in PATHS and f"{path}/__main__.py" not in PATHS:
            wrong.add(module)
    assert wrong == set()


TARGETS = frozenset(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


def named_targets(text: str) -> set[str]:
    """What `make` is told to make, in code spans and at the beginning of lines of code blocks."""
    spans = [
        *CODE.findall(FENCE.sub("", text)),
        *(line for block in FENCE.findall(text) for line in block.splitlines()),
    ]
    return {found.group(1) for span in spans if (found := re.match(r"make ([a-z][a-z-]*)", span))}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_named_make_targets_exist(page: pathlib.Path) -> None:
    assert named_targets(page.read_text()) - TARGETS == set()


def test_a_wrong_target_is_found() -> None:
    assert named_targets("`make gone ONLY=x`, `make`\n```\nmake lint   # all\nto make things\n```\n") == {
        "gone",
        "lint",
    }
    assert "gone" not in TARGETS


def test_a_wrong_name_is_found() -> None:
    named = named_paths(
        "`tests/nowhere/test_x.py::test_y`, `core/gone.py -k z`, `a.b`, `tests/log/`, `evidence/*/__main__.py`"
    )
    assert named == {"tests/nowhere/test_x.py", "core/gone.py", "tests/log/", "evidence/*/__main__.py"}
    assert {path for path in named if not is_there(path)} == {"tests/nowhere/test_x.py", "core/gone.py"}
