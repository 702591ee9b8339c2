"""A share of the crash matrix, random kills and a short fight in every run; all: `make dual-writes KILLS=300 MINUTES=5`."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]


def crash(tmp_path: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """In a process of its own, which forks: pytest's has threads."""
    return subprocess.run(
        [
            sys.executable,
            "-m",
            "evidence.dual_writes.crash",
            "--folder",
            str(tmp_path / "crash"),
            "--short",
            *arguments,
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "default"},
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )


def test_rows_and_records_agree_whatever_is_killed(tmp_path: pathlib.Path) -> None:
    done = crash(tmp_path, "--every", "8", "--kills", "2", "--minutes", "0.01", "--seed", "1")
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    assert done.stdout.startswith("dual writes: ")
    assert "sqlite 2/2 kills agree" in done.stdout
    assert "sqlite fight agrees" in done.stdout


def test_a_wrong_order_is_seen(tmp_path: pathlib.Path) -> None:
    done = crash(tmp_path, "--every", "5", "--only", "sqlite", "--plant")
    assert done.returncode == 1
    assert "rows [1, 4], records [1, 2, 4]" in done.stderr
    assert done.stdout.endswith(" FAILED\n")
