"""A process whose standard input, output or error was closed, or is full: it ends as any other, and says so in one line."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from oncelog.testing import TestBroker
from tests.cli.world import Cli

CLOSED = "import os, sys\n{}\nos.execv(sys.executable, [sys.executable, '-m', 'oncelog', *sys.argv[1:]])"
needs_full = pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="there is no /dev/full here")


@pytest.mark.parametrize("closed", [(0,), (1,), (2,), (0, 1, 2)])
def test_a_service_whose_standard_streams_are_closed_stops_in_good_order(
    tmp_path: pathlib.Path, closed: tuple[int, ...]
) -> None:
    """The event loop's own descriptors took their numbers, and libuv ended the process by SIGABRT when it closed them."""
    program = CLOSED.format("\n".join(f"os.close({number})" for number in closed))
    served = subprocess.Popen(
        [sys.executable, "-c", program, "serve", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / "data")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 30
        while not list(tmp_path.glob("data/meta.properties")):
            assert time.monotonic() < deadline
            os.sched_yield()
        if 1 not in closed:
            assert served.stdout is not None
            assert served.stdout.readline().startswith(b"ready ")
        served.send_signal(signal.SIGTERM)
        _, told = served.communicate(timeout=30)
        assert served.returncode in ((0,) if 1 not in closed else (0, 143)), told  # 143: it was not ready yet
        assert b"Assertion" not in told
    finally:
        served.kill()
        served.wait()


@needs_full
@pytest.mark.parametrize("arguments", [("serve", "--help"), ("topics", "--help"), ("--version",)])
def test_what_does_not_fit_is_said_in_one_line(arguments: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "oncelog", *arguments], stdout=full, stderr=subprocess.PIPE, timeout=60, check=False
        )
    assert (done.returncode, done.stderr) == (1, b"error: cannot write to stdout: No space left on device\n")


@needs_full
def test_a_broker_that_cannot_say_that_it_is_ready_stops() -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "oncelog", "serve", "--ephemeral", "--listen", "127.0.0.1:0"],
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
            check=False,
        )
    said = b"oncelog serve: stopped, since nobody can be told that it is ready: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)


def closed(number: int, *arguments: object) -> tuple[int, bytes]:
    """A command whose descriptor `number` was closed before it began: its exit status, and what it said."""
    command = [sys.executable, "-c", CLOSED.format(f"os.close({number})"), *map(str, arguments)]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = subprocess.run(command, timeout=60, check=False, **pipes)
    return done.returncode, done.stderr


SAID = (
    b"error: standard output is closed: nobody would get what this command writes"
    b" (send it somewhere: `> FILE`, or `> /dev/null` where nobody wants it)\n"
)


def test_what_writes_rows_ends_before_it_reads_anything_where_stdout_is_closed(tmp_path: pathlib.Path) -> None:
    """A group's positions went on behind records that nobody got, with exit status 0."""
    with TestBroker(data_dir=str(tmp_path / "data")) as broker:
        at = ("-b", broker.bootstrap_servers)
        cli = Cli(broker.bootstrap_servers)
        cli.create("t")
        cli("produce", "t", stdin="a\nb\n")
        for arguments in (
            (*at, "consume", "t", "-e", "--group", "g"),
            (*at, "consume", "t", "-e", "-o", "jsonl"),
            (*at, "topics", "list"),
            (*at, "topics", "list", "-o", "json"),
            (*at, "topics", "delete", "t", "--dry-run"),
            ("dump-log", tmp_path / "data"),
        ):
            assert closed(1, *arguments) == (1, SAID), arguments
        assert cli("groups", "list", "-o", "jsonl").stdout == ""
        assert closed(1, *at, "topics", "create", "u") == (0, b""), "it is for what it does"
        assert '"u"' in cli("topics", "list", "-o", "jsonl").stdout
