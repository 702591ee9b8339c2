"""The tool's side of `serving.py`: a pytest process that forks for each mutant."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evidence.mutants import tree as trees
from evidence.mutants.serving import NOT_PATCHED, REPLIES, REQUESTS

START_SECONDS_MAX = 900


@dataclass(frozen=True)
class Limits:
    """What the tests of one mutant may take."""

    seconds: float
    test_seconds: float
    test_cpu_seconds: float
    memory_bytes: int


class Server:
    """Answers for one copy of the tree."""

    def __init__(self, tree: pathlib.Path, requests: int, replies: int) -> None:
        self._tree = tree
        self._requests, self._replies = requests, replies
        self._passes: dict[str, bool] = {}
        self.broken_files: set[str] = set()  # with a test that fails without a mutant: the tree has changed, or is ill
        self._buffer = b""

    def run(self, file: str, right_text: str, tests: Sequence[str], limits: Limits) -> str | None:
        """The first of the tests that fails, "" where none does. None: this mutant needs a process of its own."""
        text, said = self._tree / "right_text", self._tree / "said"
        text.write_text(right_text)
        said.unlink(missing_ok=True)
        (self._tree / "tmp").mkdir(exist_ok=True)
        request = {
            "file": str(self._tree / file) if file else "",
            "text": str(text),
            "said": str(said),
            "tests": list(tests),
            "seconds": limits.test_seconds,
            "cpu_seconds": limits.test_cpu_seconds,
            "memory": limits.memory_bytes,
        }
        os.write(self._requests, json.dumps(request).encode() + b"\n")
        child = int(self._reply(START_SECONDS_MAX) or 0)
        status = self._reply(limits.seconds)
        if status is None:
            os.killpg(child, signal.SIGKILL)
            self._reply(START_SECONDS_MAX)
        trees.end_all_of(self._tree)
        shutil.rmtree(self._tree / "tmp", ignore_errors=True)
        if status is None:
            return f"does not end within {limits.seconds:.0f} s"
        if not said.exists():
            return f"exit status {int(status)}"
        found = said.read_text()
        return None if found == NOT_PATCHED else found

    def passes(self, test: str, limits: Limits) -> bool:
        """Whether this test passes without a mutant, here and now: only then is it one that notices something."""
        if test not in self._passes:
            self._passes[test] = self.run("", "", [test], limits) == ""
            if not self._passes[test]:
                self.broken_files.add(test.partition("::")[0])
        return self._passes[test]

    def _reply(self, seconds_max: float) -> bytes | None:
        while b"\n" not in self._buffer:
            if not select.select([self._replies], [], [], seconds_max)[0]:
                return None
            read = os.read(self._replies, 4096)
            if not read:
                raise trees.ToolError(f"the server of tests is gone: {(self._tree / 'server').read_text()[-2000:]}")
            self._buffer += read
        reply, _, self._buffer = self._buffer.partition(b"\n")
        return reply

    def wait_until_ready(self) -> None:
        if self._reply(START_SECONDS_MAX) != b"ready":
            raise trees.ToolError(f"the server of tests does not start: {(self._tree / 'server').read_text()[-2000:]}")


@contextlib.contextmanager
def serving(tree: pathlib.Path, test_files: Sequence[str], options: Sequence[str] = ()) -> Iterator[Server]:
    """A server with the tests of these files."""
    theirs, requests = os.pipe()
    replies, answers = os.pipe()
    environment = trees.environment(tree, **{REQUESTS: str(theirs), REPLIES: str(answers)})
    (tree / "tmp").mkdir(exist_ok=True)
    with (
        (tree / "server").open("w") as output,
        subprocess.Popen(
            [
                sys.executable,
                *trees.PYTEST,
                "-s",
                "--hypothesis-seed=0",
                "--continue-on-collection-errors",
                *options,
                *test_files,
            ],
            cwd=tree,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=(theirs, answers),
        ) as process,
    ):
        os.close(theirs)
        os.close(answers)
        trees.kept.add(process.pid)
        try:
            server = Server(tree, requests, replies)
            server.wait_until_ready()
            yield server
        finally:
            os.close(requests)
            os.close(replies)
            process.kill()
            trees.kept.discard(process.pid)
            trees.end_all_of(tree)
