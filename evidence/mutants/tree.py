"""A copy of the tree in which a defect may stand, and processes that import that copy and nothing else.

The compiled modules are left out: the plain files of the same name run instead, so that a mutant in them takes effect.
(The syncer's C threads stay: they are no Python.) A copy and the processes of a run are gone when the run ends; what a
killed tool left is removed by the next one.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).parents[2]
BUILD = ROOT / "build" / "mutants"
COPIES = pathlib.Path(tempfile.gettempdir()) / "oncelog-mutants"  # a short path: sockets are below it
COPIED = (
    "src",
    "tests",
    "evidence",
    "examples",
    "bench",
    "docs",
    "tools",
    "requirements",
    "conftest.py",
    "pyproject.toml",
    "setup.py",
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "Makefile",
)
RUN = "ONCELOG_MUTANTS_RUN"
PYTEST = ("-m", "pytest", "-q", "-p", f"{__package__}.watching", "-p", "no:randomly", "-p", "no:cacheprovider")


kept: set[int] = set()  # processes that outlive a run: the servers of tests


class ToolError(Exception):
    """The tool itself does not work here, so nothing that it says would be true."""


@dataclass(frozen=True)
class Ended:
    """How a run ended; `status` is None where it was stopped after its time."""

    status: int | None
    output: str


@contextlib.contextmanager
def copy_of_tree(name: str) -> Iterator[pathlib.Path]:
    """The copy, which is removed at the end. Copies of tools that are no longer there are removed at the beginning."""
    for old in COPIES.glob("*-*"):
        if not pathlib.Path("/proc", old.name.rpartition("-")[2]).exists():
            shutil.rmtree(old, ignore_errors=True)
    tree = COPIES / f"{name}-{os.getpid()}"
    copy_to(tree)
    try:
        yield tree
    finally:
        shutil.rmtree(tree, ignore_errors=True)


def copy_to(tree: pathlib.Path, root: pathlib.Path = ROOT) -> None:
    """What the tests need, without compiled Python."""
    left_out = shutil.ignore_patterns("__pycache__", "*.egg-info", ".hypothesis")
    tree.mkdir(parents=True)
    for name in COPIED:
        source = root / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=left_out)
        elif source.exists():
            shutil.copy(source, tree / name)
    for compiled in (tree / "src").rglob("*.so"):
        if compiled.with_name(compiled.name.partition(".")[0] + ".py").exists():  # the syncer's C has no such twin
            compiled.unlink()
    (tree / "tmp").mkdir()


def environment(tree: pathlib.Path, **more: str) -> dict[str, str]:
    """PYTHONPATH comes before an editable installation's path, for every process that a test starts, too."""
    here = pathlib.Path(__file__).parent.relative_to(ROOT)
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(map(str, (tree / "src", tree, tree / here / "site"))),
        "PYTHONHASHSEED": "0",
        "TMPDIR": str(tree / "tmp"),
        "ONCELOG_MUTANTS_TREE": str(tree),
        "ONCELOG_MUTANTS_TIED": "1",
        RUN: str(tree),
        **more,
    }


def run(tree: pathlib.Path, command: Sequence[str], seconds_max: float, **more: str) -> Ended:
    """A Python process in the copy, and the end of all that it started."""
    (tree / "tmp").mkdir(exist_ok=True)
    with (
        (tree / "output").open("w+", errors="replace") as output,
        subprocess.Popen(
            [sys.executable, *command],
            cwd=tree,
            env=environment(tree, **more),
            stdin=subprocess.PIPE,  # open as long as this process lives: see watching.py
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process,
    ):
        try:
            status: int | None = process.wait(seconds_max)
        except subprocess.TimeoutExpired:
            status = None
        finally:
            end_all_of(tree)
            process.kill()
            shutil.rmtree(tree / "tmp", ignore_errors=True)
        output.seek(0)
        return Ended(status, output.read())


def end_all_of(tree: pathlib.Path) -> None:
    """Kill, by its id, each process that carries this copy's mark, unless it is kept: what a failed test did not stop."""
    mark = f"{RUN}={tree}".encode()
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if int(process.name) not in (os.getpid(), *kept) and mark in (process / "environ").read_bytes().split(
                b"\0"
            ):
                os.kill(int(process.name), signal.SIGKILL)
