"""One mutant: plant it, run the tests that have to notice, put the right line back."""

from __future__ import annotations

import itertools
import json
import os
import pathlib
import re
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from evidence.mutants import tree as trees
from evidence.mutants.choosing import Chosen
from evidence.mutants.cover import CoveringTest
from evidence.mutants.drawing import package_of
from evidence.mutants.operators import Mutation, flat
from evidence.mutants.server import Limits, Server

TEST_SECONDS_MIN, TEST_TIMES = 60, 20  # a test may take so many times what it took before: the machine may be busy
TEST_CPU_SECONDS_MIN, TEST_CPU_TIMES = 10, 5  # and may compute for so long
RUN_SECONDS_MIN, RUN_TIMES = 180, 6
USAGE_ERROR, NO_TESTS_RAN = 4, 5  # pytest's exit statuses; a mutant can make the first of them, too
MEMORY_BYTES_MAX = 4 << 30  # of one process: a mutant may allocate for ever

KILLED, SURVIVED, NOT_COVERED = "killed", "survived", "not covered"
_EDITS = itertools.count(int(time.time()))


@dataclass(frozen=True)
class Result:
    """What became of one mutant."""

    file: str
    name: str
    line: int
    operator: str
    before: str
    after: str
    state: str
    killed_by: str
    tests: tuple[str, ...]  # of a survivor: which did not notice
    left_out: int
    starts_jvm: bool
    seconds: float
    digest: str  # of the function without the mutant

    @property
    def key(self) -> tuple[str, str]:
        return self.file, self.name

    @property
    def mistake(self) -> str:
        return f"{flat(self.before)} -> {flat(self.after)}"

    @property
    def package(self) -> str:
        return package_of(self.file)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Result:
        fields = json.loads(text)
        return cls(**{**fields, "tests": tuple(fields["tests"])})


def result_of(tree: pathlib.Path, mutation: Mutation, chosen: Chosen, server: Server | None = None) -> Result:
    """Run the chosen tests against the mutant in this copy of the tree."""
    began = time.monotonic()
    first, rest = _sound(chosen.first, server), _sound(chosen.rest, server)
    while killed_by := _killer(tree, mutation, (first, rest), server, chosen.runs_on_import):
        test = next((each for each in (*first, *rest) if each.name == killed_by), None)
        if test is None or server is None or server.passes(test.name, limits_of([test])):
            break
        # It fails without the mutant, too, whatever it did when the map was made: other files have to tell.
        first, rest = _sound(first, server), _sound(rest, server)
    state = KILLED if killed_by else SURVIVED if first or rest else NOT_COVERED
    return Result(
        file=mutation.file,
        name=mutation.name,
        line=mutation.first_line,
        operator=mutation.operator,
        before=mutation.before,
        after=mutation.after,
        state=state,
        killed_by=killed_by,
        tests=() if killed_by else tuple(test.name for test in (*first, *rest)),
        left_out=chosen.left_out,
        starts_jvm=chosen.starts_jvm,
        seconds=round(time.monotonic() - began, 1),
        digest=mutation.digest,
    )


def _sound(tests: tuple[CoveringTest, ...], server: Server | None) -> tuple[CoveringTest, ...]:
    return tuple(test for test in tests if server is None or test.file not in server.broken_files)


def _killer(
    tree: pathlib.Path,
    mutation: Mutation,
    helpings: tuple[Sequence[CoveringTest], Sequence[CoveringTest]],
    server: Server | None,
    runs_on_import: bool,
) -> str:
    """Plant it, run one helping of tests after the other, and put the right line back; the first that fails, or ""."""
    path = tree / mutation.file
    text, right = path.read_text(), path.stat()
    write(path, mutation.planted(text))
    try:
        for tests in helpings:
            if tests and (found := _noticed_by(tree, mutation, text, tests, None if runs_on_import else server)):
                return found
        return ""
    finally:
        path.write_text(text)
        os.utime(path, (right.st_atime, right.st_mtime))


def _noticed_by(
    tree: pathlib.Path, mutation: Mutation, text: str, tests: Sequence[CoveringTest], server: Server | None
) -> str:
    if server is not None:
        names = [test.name for test in tests]
        found = server.run(mutation.file, text, names, limits_of(tests))
        if found is not None:
            return found
    return run_tests(tree, tests)


def limits_of(tests: Sequence[CoveringTest]) -> Limits:
    """From what they took in the map, where lines were recorded as well. A JVM reserves more memory than it uses."""
    slowest = max(test.seconds for test in tests)
    each_max = max(TEST_SECONDS_MIN, TEST_TIMES * slowest)
    return Limits(
        seconds=max(RUN_SECONDS_MIN, each_max, RUN_TIMES * sum(test.seconds for test in tests)),
        test_seconds=each_max,
        test_cpu_seconds=max(TEST_CPU_SECONDS_MIN, TEST_CPU_TIMES * slowest),
        memory_bytes=resource.RLIM_INFINITY if any(test.starts_jvm for test in tests) else MEMORY_BYTES_MAX,
    )


def write(path: pathlib.Path, text: str) -> None:
    """With a time of its own: compiled code of the file as it was a second ago must not be taken for this one's."""
    path.write_text(text)
    moment = next(_EDITS)
    os.utime(path, (moment, moment))


def run_tests(tree: pathlib.Path, tests: Sequence[CoveringTest]) -> str:
    """The first of these tests that fails, or what else went wrong; "" where all pass."""
    if not tests:
        return ""
    chosen = tree / "chosen.json"
    chosen.write_text(json.dumps([test.name for test in tests]))
    files = list(dict.fromkeys(test.file for test in tests))
    limits = limits_of(tests)
    command = (*trees.PYTEST, "-x", "--hypothesis-seed=0", f"--timeout={limits.test_seconds:.0f}", *files)
    named = {"ONCELOG_MUTANTS_CHOSEN": str(chosen), "ONCELOG_MUTANTS_MEMORY": str(limits.memory_bytes)}
    ended = trees.run(tree, command, limits.seconds, **named)
    if ended.status == 0:
        return ""
    if ended.status == NO_TESTS_RAN or (ended.status == USAGE_ERROR and "not found" in ended.output):
        raise trees.ToolError(f"none of {files} ran: {ended.output[-1000:]}")
    if ended.status is None:
        return f"does not end within {limits.seconds:.0f} s"
    failed = re.search(r"^(?:FAILED|ERROR) (\S.*?)(?: - |$)", ended.output, re.MULTILINE)
    return failed.group(1) if failed else f"exit status {ended.status}: {ended.output.strip()[-150:]!r}"
