"""Links in README.md, ARCHITECTURE.md and docs/ lead somewhere; files, folders and modules that they name exist."""

from __future__ import annotations

import ast
import fnmatch
import os
import pathlib
import re
from collections.abc import Iterator

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


SOURCE = ROOT / "src" / "oncelog"
ROOMS = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")
TOP = ("docs", "tests", "evidence", "bench", "tools", "examples")
POINTER = re.compile(rf"(?<![\w/.<{{@-])(?:{'|'.join((*ROOMS, *TOP))})/\w[\w/.-]*")


def docstrings(path: pathlib.Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node, clean=False) or ""


def stale_pointers(text: str) -> set[str]:
    """Of what looks like a path of ours, what is no file, folder or module (`core/leader/markers` is one)."""
    named = {found.rstrip(".-/") for found in POINTER.findall(text)}
    below = {name: ROOT / name if name.startswith(tuple(f"{top}/" for top in TOP)) else SOURCE / name for name in named}
    return {
        name for name, path in below.items() if not path.exists() and not path.with_name(f"{path.name}.py").exists()
    }


def test_paths_in_docstrings_exist() -> None:
    wrong = {
        f"{path.relative_to(ROOT)}: {name}"
        for path in sorted((ROOT / "src").rglob("*.py"))
        for text in docstrings(path)
        for name in stale_pointers(text)
    }
    assert wrong == set()


def test_a_stale_pointer_is_found() -> None:
    text = "`core/partition`, core/leader/partition, core/leader/gone.py. docs/cli.md, user@host/name, 1/core/x"
    assert stale_pointers(text) == {"core/partition", "core/leader/gone.py"}


# Nothing is released: from an index this name is nobody's, or somebody else's. A release takes this test away.
FROM_AN_INDEX = re.compile(r"pip install\b[^\n`]*?(?<![\w./-])oncelog\b")


def test_nobody_is_sent_to_an_index_for_oncelog() -> None:
    """Pages, examples and docstrings say `pip install '.[extra]'`. Messages of a program may name `oncelog[extra]`: it is
    installed then, and pip adds what the extra asks for."""
    texts = [(path, path.read_text(encoding="utf-8")) for path in (*LINKED, *(ROOT / "examples").rglob("*.py"))]
    texts += [(path, text) for path in (ROOT / "src").rglob("*.py") for text in docstrings(path)]
    wrong = {f"{path.relative_to(ROOT)}: {found}" for path, text in texts for found in FROM_AN_INDEX.findall(text)}
    assert wrong == set()


def test_an_installation_from_an_index_is_found() -> None:
    assert FROM_AN_INDEX.findall("pip install 'oncelog[spark]'\npip install oncelog django") == [
        "pip install 'oncelog",
        "pip install oncelog",
    ]
    assert FROM_AN_INDEX.findall("`pip install .` brings oncelog\npip install './oncelog[spark]' '.[sql]'") == []


def test_contributing_says_how_each_file_is_made() -> None:
    """What a program in tools/ writes into the tree, by the words of its docstring."""
    makers = {
        path.stem
        for path in (ROOT / "tools").glob("*.py")
        if re.search(r"\b(?:writes|draws) (?:docs/|the tables|src/)", next(docstrings(path)), re.IGNORECASE)
    }
    assert {"tables", "errors_page", "sync_recipes", "pictures"} <= makers
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert {name for name in makers if f"tools.{name}`" not in text and f"tools/{name}.py`" not in text} == set()
