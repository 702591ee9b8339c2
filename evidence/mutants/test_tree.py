"""Nothing of a run outlives it."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from evidence.mutants import tree as trees

DETACHED = """
import subprocess, sys
code = "import sys, signal; f = open(sys.argv[1], 'w'); print('open', flush=True); signal.pause()"
child = subprocess.Popen([sys.executable, "-c", code, sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True)
print(child.stdout.readline().decode().strip())
"""


def test_a_process_that_its_parent_has_left_behind_is_ended(tmp_path: pathlib.Path) -> None:
    fifo = tmp_path / "held"
    os.mkfifo(fifo)
    reader = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    tree = tmp_path / "tree"
    tree.mkdir()
    try:
        ended = trees.run(tree, ("-c", DETACHED, str(fifo)), 60)
        assert (ended.status, ended.output) == (0, "open\n")
        os.set_blocking(reader, True)
        assert os.read(reader, 1) == b""  # its only writer is gone
    finally:
        os.close(reader)


def test_a_run_that_takes_too_long_is_stopped(tmp_path: pathlib.Path) -> None:
    assert trees.run(tmp_path, ("-c", "import signal; signal.pause()"), 0.1).status is None


def test_tests_do_not_outlive_the_tool() -> None:
    """Its end of their standard input closes however it dies."""
    code = "import signal, evidence.mutants.watching; print('up', flush=True); signal.pause()"
    environment = {**os.environ, "ONCELOG_MUTANTS_TIED": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", code],
        cwd=trees.ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == b"up\n"
        process.stdin.close()
        assert process.wait(60) == -signal.SIGKILL


def test_the_copy_of_a_tool_that_was_killed_is_removed_by_the_next(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(trees, "COPIES", tmp_path)
    monkeypatch.setattr(trees, "COPIED", ("setup.py",))
    of_nobody = tmp_path / f"worker0-{2**22 + 1}"  # above the largest process id
    of_nobody.mkdir()
    with trees.copy_of_tree("worker0") as tree:
        assert (tree / "setup.py").exists()
        assert not of_nobody.exists()
    assert list(tmp_path.iterdir()) == []
