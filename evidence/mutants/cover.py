"""Which tests run which line: the map that says what a mutant has to get past.

It is made once, with coverage.py and one context for each test, and kept in build/mutants/cover.sqlite. It belongs to a
tree: of a test file that has changed only that file is run again; lines of a source that has changed are found again by
the text that the test has run, and a line that is new is covered by what covers the lines next to it in its function.
`--map` begins anew.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import pathlib
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from evidence.mutants import tree as trees

CHUNK_FILES_MAX = 12
CHUNK_SECONDS_MAX = 3600
TEST_SECONDS_MAX = 240
RAN = (0, 1, 5)  # pytest's exit statuses: all passed, some failed, none was there for these marks
# Tools that run other tools, checks of text, and those that only start others' programs: no cover of our lines.
LEFT_OUT = tuple(f"evidence/{tool}/" for tool in ("mutants", "proof", "tutorials", "upgrade", "scale", "compat"))
LEFT_OUT_FILES = ("tests/test_architecture.py", "tests/test_links.py")
FIRST = (
    "core",
    "log",
    "broker",
    "client",
    "recipes",
    "spark",
    "wire",
    "host",
    "simulator",
    "differential",
)  # then the rest
WITHOUT_JVM, WITH_JVM = "not spark and not compat", "spark and not compat"
SCHEMA = """
create table if not exists sources (path text, digest text, text text, primary key (path, digest));
create table if not exists files (path text, marks text, digest text, primary key (path, marks));
create table if not exists tests (id integer primary key, name text unique, file text, marks text, seconds real, passed int);
create table if not exists cover (test int, source text, digest text, lines blob);
create index if not exists cover_by_source on cover (source);
"""
FORMAT = 2  # from here on each row of lines says of which text of the source it is


@dataclass(frozen=True)
class CoveringTest:
    """A test that passes in the tree without a mutant."""

    name: str
    seconds: float
    starts_jvm: bool

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


@dataclass
class Cover:
    """The tests of each line of one source; `imported` lines run when the module is loaded, whoever loads it."""

    by_line: dict[int, set[CoveringTest]] = field(default_factory=lambda: defaultdict(set))
    imported: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)  # lines that are new since the map was made

    def tests(self, first_line: int, last_line: int, near: Iterable[int] = ()) -> set[CoveringTest]:
        """Those that run a line of the statement. `near`: its neighbours, for a line that the map does not know."""
        lines = range(first_line, last_line + 1)
        if any(line in self.imported for line in lines):
            return set().union(*self.by_line.values())
        found = set().union(*(self.by_line.get(line, set()) for line in lines))
        if found or first_line not in self.unknown:
            return found
        return next((self.by_line[line] for line in near if self.by_line.get(line)), set())


class CoverMap:
    """The map in its file."""

    def __init__(self, path: pathlib.Path = trees.BUILD / "cover.sqlite") -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.database = sqlite3.connect(path)
        if self.database.execute("pragma user_version").fetchone()[0] != FORMAT:
            for table in ("sources", "files", "tests", "cover"):
                self.database.execute(f"drop table if exists {table}")
            self.database.execute(f"pragma user_version = {FORMAT}")
        self.database.executescript(SCHEMA)

    def close(self) -> None:
        self.database.close()

    def is_made(self) -> bool:
        return bool(self.database.execute("select count(*) from files").fetchone()[0])

    def missing(self, test_files: Iterable[str], marks: str, root: pathlib.Path = trees.ROOT) -> list[str]:
        """Test files that have not been run for the map as they are now."""
        known = dict(self.database.execute("select path, digest from files where marks = ?", (marks,)))
        return [file for file in test_files if known.get(file) != digest_of(root / file)]

    def prune(self, test_files: Iterable[str]) -> None:
        """Forget the tests of files that are no longer there: to ask for them would be an error, not a kill."""
        with self.database:
            gone = {path for (path,) in self.database.execute("select path from files")} - set(test_files)
            for file in gone:
                self._forget_tests("file = ?", file)
                self.database.execute("delete from files where path = ?", (file,))

    def drop(self, file: str, marks: str) -> None:
        """Forget what was known of a file's tests; it is run again the next time."""
        with self.database:
            self._forget_tests("file = ? and marks = ?", file, marks)
            self.database.execute("delete from files where path = ? and marks = ?", (file, marks))

    def _forget_tests(self, condition: str, *values: str) -> None:
        self.database.execute(f"delete from cover where test in (select id from tests where {condition})", values)
        self.database.execute(f"delete from tests where {condition}", values)

    def forget(self) -> None:
        with self.database:
            for table in ("sources", "files", "tests", "cover"):
                self.database.execute(f"delete from {table}")

    def add(self, tree: pathlib.Path, test_files: Sequence[str], marks: str, data_file: pathlib.Path) -> int:
        """Take in what a run of these test files left; gives the number of tests that passed."""
        tests = json.loads(pathlib.Path(f"{data_file}.json").read_text())
        with self.database:
            for file in test_files:
                self._forget_tests("file = ? and marks = ?", file, marks)
                row = (file, marks, digest_of(trees.ROOT / file))
                self.database.execute("insert or replace into files values (?, ?, ?)", row)
            for name, test in tests.items():
                known = (name, name.partition("::")[0], marks, test["seconds"], int(test["passed"]))
                self.database.execute(
                    "insert or replace into tests (name, file, marks, seconds, passed) values (?, ?, ?, ?, ?)", known
                )
            digests = self._keep_sources(tree)
            for path in data_file.parent.glob(f"{data_file.name}*"):
                if path.suffix != ".json":
                    self._take(path, tree, digests)
            self.database.execute(
                "delete from sources where not exists"
                " (select 1 from cover where cover.source = sources.path and cover.digest = sources.digest)"
            )
        return sum(test["passed"] for test in tests.values())

    def _keep_sources(self, tree: pathlib.Path) -> dict[str, str]:
        """The digest of each source, as these tests have run it: those that ran before may have seen another text."""
        digests = {}
        for path in (tree / "src" / "oncelog").rglob("*.py"):
            source = str(path.relative_to(tree))
            digests[source] = digest_of(path)
            row = (source, digests[source], path.read_text())
            self.database.execute("insert or ignore into sources values (?, ?, ?)", row)
        return digests

    def _take(self, data_file: pathlib.Path, tree: pathlib.Path, digests: Mapping[str, str]) -> None:
        ids = dict(self.database.execute("select name, id from tests"))
        with contextlib.closing(sqlite3.connect(data_file)) as measured:
            if not measured.execute("select 1 from sqlite_master where name = 'line_bits'").fetchone():
                return  # of a process that was killed before it could write
            rows = measured.execute(
                "select context.context, file.path, line_bits.numbits from line_bits"
                " join context on context.id = line_bits.context_id join file on file.id = line_bits.file_id"
            )
            for context, path, bits in rows:
                if context == "between" or not path.startswith(str(tree)):
                    continue
                source = str(pathlib.Path(path).relative_to(tree))
                row = (ids.get(context, 0), source, digests.get(source, ""), bits)
                self.database.execute("insert into cover values (?, ?, ?, ?)", row)

    def of(self, source: str, text: str) -> Cover:
        """The cover of a source as it is now (`text`)."""
        from coverage.numbits import numbits_to_nums

        texts = self.database.execute("select digest, text from sources where path = ?", (source,))
        now_of = {digest: _lines_now(before, text) for digest, before in texts}
        tests = {
            number: CoveringTest(name, seconds, marks == WITH_JVM)
            for number, name, seconds, marks in self.database.execute(
                "select id, name, seconds, marks from tests where passed"
            )
        }
        jvm_files: dict[str, set[CoveringTest]] = defaultdict(set)
        for test in tests.values():
            jvm_files[test.file].add(test)

        def of_the_same_jvm(test: CoveringTest) -> set[CoveringTest]:
            """Its Python workers live on from test to test, and what they run counts for the first of them."""
            return jvm_files[test.file] if test.starts_jvm else {test}

        cover = Cover(
            unknown=set(range(1, text.count("\n") + 1)).difference(*(now.values() for now in now_of.values()))
        )
        rows = self.database.execute("select test, digest, lines from cover where source = ?", (source,))
        for number, digest, bits in rows:
            now = now_of.get(digest, {})
            lines = (now[line] for line in numbits_to_nums(bits) if line in now)
            if not number:
                cover.imported.update(lines)
            elif number in tests:
                for line in lines:
                    cover.by_line[line].update(of_the_same_jvm(tests[number]))
        return cover

    def tests_in(self, test_files: Iterable[str]) -> set[CoveringTest]:
        """The tests of these files, whatever they run."""
        wanted = set(test_files)
        rows = self.database.execute("select name, file, seconds, marks from tests where passed")
        return {CoveringTest(name, seconds, marks == WITH_JVM) for name, file, seconds, marks in rows if file in wanted}

    def totals(self) -> tuple[int, float, list[str]]:
        """Tests, their seconds, and the names of those that fail in the copied tree (they decide nothing)."""
        count, seconds = self.database.execute("select count(*), sum(seconds) from tests where passed").fetchone()
        failed = [name for (name,) in self.database.execute("select name from tests where not passed order by name")]
        return count, seconds or 0.0, failed


def digest_of(path: pathlib.Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""


def _lines_now(before: str, now: str) -> dict[int, int]:
    """Where each line of the text of then stands now."""
    if before == now:
        return {line: line for line in range(1, now.count("\n") + 2)}
    matcher = difflib.SequenceMatcher(None, before.splitlines(), now.splitlines(), autojunk=False)
    return {a + i + 1: b + i + 1 for a, b, size in matcher.get_matching_blocks() for i in range(size)}


def covering_files(root: pathlib.Path = trees.ROOT, marks: str = WITHOUT_JVM) -> list[str]:
    """All that may cover a line, those of the dangerous packages first. With a JVM: those that name the mark."""
    paths = [path for folder in ("tests", "evidence") for path in (root / folder).rglob("test_*.py")]
    found = [str(path.relative_to(root)) for path in paths]
    chosen = [file for file in found if file not in LEFT_OUT_FILES and not file.startswith(LEFT_OUT)]
    if marks == WITH_JVM:
        chosen = [file for file in chosen if "mark.spark" in (root / file).read_text()]
    return sorted(chosen, key=lambda file: (_place(file), file))


def _place(file: str) -> int:
    room = pathlib.PurePath(file).parts[1]
    return FIRST.index(room) if room in FIRST else len(FIRST)


def chunks(files: Iterable[str]) -> Iterator[list[str]]:
    """Runs of one folder's files, so that an interrupted map goes on where it was."""
    chunk: list[str] = []
    for file in files:
        if chunk and (
            len(chunk) == CHUNK_FILES_MAX or pathlib.PurePath(chunk[0]).parent != pathlib.PurePath(file).parent
        ):
            yield chunk
            chunk = []
        chunk.append(file)
    if chunk:
        yield chunk


def complete(cover: CoverMap, tree: pathlib.Path, marks: str, say: Callable[[str], None]) -> None:
    """Run, and take in, every test file that the map lacks."""
    missing = cover.missing(covering_files(marks=marks), marks)
    for chunk in chunks(missing):
        if not _record(cover, tree, chunk, marks, say):
            for file in chunk if len(chunk) > 1 else ():
                _record(cover, tree, [file], marks, say)


def _record(cover: CoverMap, tree: pathlib.Path, chunk: list[str], marks: str, say: Callable[[str], None]) -> bool:
    """Whether these files could be run. One that cannot even be imported has no tests in the map."""
    data_file = tree / "measured" / "lines"
    data_file.parent.mkdir(exist_ok=True)
    for path in data_file.parent.iterdir():
        path.unlink()
    command = (*trees.PYTEST, "-m", marks, "--hypothesis-seed=0", f"--timeout={TEST_SECONDS_MAX}", *chunk)
    ended = trees.run(tree, command, CHUNK_SECONDS_MAX, ONCELOG_MUTANTS_RECORD=str(data_file))
    if ended.status in RAN:
        passed = cover.add(tree, chunk, marks, data_file)
        say(f"map: {chunk[0]} and {len(chunk) - 1} more: {passed} tests; {_last_line(ended.output)}")
        return True
    say(f"map: {chunk[0]} and {len(chunk) - 1} more: exit status {ended.status}: {_last_line(ended.output)}")
    for file in chunk if len(chunk) == 1 else ():
        cover.drop(file, marks)
    return False


def _last_line(output: str) -> str:
    return output.strip().rpartition("\n")[2]
