"""Which tests a mutant has to get past, and in which order: those of its own file first, then the quickest.

"Own" are the tests of the mirrored file, then those whose name or parameters have the class's or the file's name.
"""

from __future__ import annotations

import ast
import pathlib
from collections.abc import Iterable
from dataclasses import dataclass

from evidence.mutants import tree as trees
from evidence.mutants.cover import Cover, CoveringTest, CoverMap
from evidence.mutants.operators import Mutation

FIRST_SECONDS_MAX, FIRST_FILES_MAX = 6.0, 6  # a first helping kills most; its few files are collected quickly
TEST_SECONDS = 0.01  # what a test costs beside what it takes itself
NAME_LENGTH_MIN = 6  # a shorter name is a part of too many others
NEIGHBOURS = 12  # lines around a new line that are asked for its cover


@dataclass(frozen=True)
class Chosen:
    """Two runs, one after the other; `left_out` tests cover the line as well, but exceed the budget."""

    first: tuple[CoveringTest, ...]
    rest: tuple[CoveringTest, ...]
    left_out: int = 0
    runs_on_import: bool = False

    @property
    def starts_jvm(self) -> bool:
        return any(test.starts_jvm for test in (*self.first, *self.rest))


class Chooser:
    """Reads the map, a source at a time."""

    def __init__(self, cover: CoverMap, root: pathlib.Path = trees.ROOT) -> None:
        self._map, self._root = cover, root
        self._covers: dict[str, Cover] = {}
        self._importers: dict[str, list[str]] | None = None
        self._test_files: dict[str, list[str]] | None = None

    def tests(self, mutation: Mutation) -> set[CoveringTest]:
        """All that cover the line, in any order."""
        cover = self._cover(mutation.file)
        near = [mutation.first_line + sign * away for away in range(1, NEIGHBOURS) for sign in (-1, 1)]
        found = set(cover.tests(mutation.first_line, mutation.last_line, near))
        if self.runs_on_import(mutation):
            # A module's line: it matters to whoever uses the module. Of a module without functions (the messages) the
            # users are those that import it.
            for importer in self._importing(mutation.file):
                found |= set().union(*self._cover(importer).by_line.values())
            # Or to who looks at what it holds (a table, a field's default), and runs none of its lines.
            found |= self._map.tests_in(self._looking_at(mutation.file))
        without_jvm = {test for test in found if not test.starts_jvm}
        return without_jvm or found

    def choose(self, mutation: Mutation, budget_seconds: float) -> Chosen:
        home, file = home_of(mutation.file), file_of_tests(mutation.file)
        tests = self.tests(mutation)
        own = {test for test in tests if test.file == file}
        near = {test for test in tests if test.file.startswith(home)} - own
        named = {test for test in tests if _is_named(test, mutation)} - own
        first = _helping(own, named, near - named, tests)
        rest: list[CoveringTest] = []
        spent = sum(test.seconds + TEST_SECONDS for test in first)
        for test in sorted(tests - set(first), key=_by_time):
            spent += test.seconds + TEST_SECONDS
            if spent > budget_seconds and rest:
                break
            rest.append(test)
        left_out = len(tests) - len(first) - len(rest)
        return Chosen(in_files(first), in_files(rest), left_out, self.runs_on_import(mutation))

    def runs_on_import(self, mutation: Mutation) -> bool:
        """Its statement, or the head of the function around it: what a loaded process cannot run again."""
        imported = self._cover(mutation.file).imported
        return any(line in imported for line in range(mutation.first_line, mutation.last_line + 1))

    def _cover(self, file: str) -> Cover:
        if file not in self._covers:
            self._covers[file] = self._map.of(file, (self._root / file).read_text())
        return self._covers[file]

    def _importing(self, file: str) -> list[str]:
        if self._importers is None:
            self._importers = importers(self._root)
        return self._importers.get(module_of(file), [])

    def _looking_at(self, file: str) -> set[str]:
        """The test files that import the module, or one that imports it."""
        if self._test_files is None:
            self._test_files = importers(self._root, ("tests", "evidence"), "test_*.py")
        modules = [module_of(file), *(module_of(importer) for importer in self._importing(file))]
        return set().union(*(self._test_files.get(module, ()) for module in modules))


def _is_named(test: CoveringTest, mutation: Mutation) -> bool:
    """Whether the test's name, or its parameters, have the class or function: of a message, of a command."""
    words = {mutation.function.partition(".")[0], pathlib.PurePath(mutation.file).stem}
    name = _plain(test.name.partition("::")[2])
    return any(len(word) >= NAME_LENGTH_MIN and _plain(word) in name for word in words)


def _plain(word: str) -> str:
    return word.replace("_", "").lower()


def _helping(*groups: set[CoveringTest]) -> list[CoveringTest]:
    helping: list[CoveringTest] = []
    files: set[str] = set()
    spent = 0.0
    for group in groups:
        for test in sorted(group - set(helping), key=_by_time):
            if test.file not in files and len(files) == FIRST_FILES_MAX:
                continue
            spent += test.seconds + TEST_SECONDS
            if spent > FIRST_SECONDS_MAX and helping:
                return helping
            helping.append(test)
            files.add(test.file)
    return helping


def _by_time(test: CoveringTest) -> tuple[float, str]:
    return test.seconds, test.name


def in_files(tests: Iterable[CoveringTest]) -> tuple[CoveringTest, ...]:
    """File by file, so that what a file's tests share is built once; the file with the quickest tests first."""
    files: dict[str, list[CoveringTest]] = {}
    for test in tests:
        files.setdefault(test.file, []).append(test)
    ordered = sorted(files.values(), key=lambda of_file: sum(t.seconds for t in of_file) / len(of_file))
    return tuple(test for of_file in ordered for test in sorted(of_file, key=_by_time))


def home_of(file: str) -> str:
    """The folder of the tests of this file's package."""
    return f"tests/{pathlib.PurePath(file).parts[2]}/"


def file_of_tests(file: str) -> str:
    """Tests mirror the source."""
    path = pathlib.PurePath(file)
    return str(pathlib.PurePath("tests", *path.parts[2:-1], f"test_{path.name}"))


def module_of(file: str) -> str:
    return ".".join(pathlib.PurePath(file).relative_to("src").with_suffix("").parts).removesuffix(".__init__")


def importers(
    root: pathlib.Path, folders: Iterable[str] = ("src/oncelog",), pattern: str = "*.py"
) -> dict[str, list[str]]:
    """The sources (or the files of other folders) that import each module."""
    found: dict[str, list[str]] = {}
    for path in sorted(path for folder in folders for path in (root / folder).rglob(pattern)):
        file = str(path.relative_to(root))
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                for module in (node.module, *(f"{node.module}.{each.name}" for each in node.names)):
                    found.setdefault(module, []).append(file)
    return found
