"""A command that is told to end while it still starts says so in one line, with the status of the signal."""

from __future__ import annotations

import os
import pathlib
import random
import signal
import socket
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator

import pytest

from oncelog.cli import entry_points
from oncelog.cli.signals import WORDS, status_after

ROOT = pathlib.Path(__file__).parents[2]
STARTS = int(os.environ.get("ONCELOG_LONG", "0"))  # of each case
DELAY_MS_MAX = 400
COMMANDS = [
    ("topics", "delete", "x", "--yes", "-o", "json"),
    ("produce", "x", "--transactional-id", "x"),
    ("consume", "x", "-o", "json"),
    ("groups", "list", "--watch"),
    ("transactions", "explain"),
    ("configs", "describe", "--topic", "x"),
    ("recover", "--prefix", "x", "--yes"),
]
SHORT = 3  # of them, where ONCELOG_LONG is not set


@pytest.fixture(scope="module")
def silent() -> Iterator[str]:
    """Where connections are accepted by the system and nobody ever answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


def signalled(code: str, arguments: tuple[str, ...], number: signal.Signals, delay_ms: float) -> tuple[int, str, str]:
    """Start it, wait until it hears signals (before that Python itself starts), and so long more; how it ended."""
    command = [sys.executable, "-c", code, *arguments]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            while not hears(process.pid, signal.SIGHUP):
                assert process.poll() is None
            time.sleep(delay_ms / 1000)
            process.send_signal(number)
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    return process.returncode, out.decode(), err.decode()


def hears(pid: int, number: signal.Signals) -> bool:
    """Whether the process has a handler of its own for the signal."""
    with open(f"/proc/{pid}/status", encoding="ascii") as file:
        caught = next(line for line in file if line.startswith("SigCgt:"))
    return bool(int(caught.split()[1], 16) >> (number - 1) & 1)


@pytest.mark.parametrize("index", range(len(COMMANDS) * STARTS or SHORT))
def test_it_ends_with_the_signals_status_and_one_line_wherever_it_is(silent: str, index: int) -> None:
    drawn = random.Random(f"start {index}")
    arguments, number = COMMANDS[index % len(COMMANDS)], drawn.choice(tuple(WORDS))
    delay_ms = drawn.uniform(0, DELAY_MS_MAX)
    code = "from oncelog.cli.entry_points import oncelog; oncelog()"
    status, out, err = signalled(code, ("-b", silent, *arguments), number, delay_ms)
    assert (status, err) == (status_after(number), f"{WORDS[number]}\n")
    assert out in ("", "[]\n")


@pytest.mark.parametrize("number", tuple(WORDS)[: len(WORDS) if STARTS else 1])
def test_so_does_the_tool_with_apaches_flags(silent: str, number: signal.Signals) -> None:
    code = "from oncelog.cli.entry_points import kafka_transactions; kafka_transactions()"
    delay_ms = random.Random(f"tool {number}").uniform(0, DELAY_MS_MAX)
    status, out, err = signalled(code, ("--bootstrap-server", silent, "list"), number, delay_ms)
    assert (status, out, err) == (status_after(number), "", f"{WORDS[number]}\n")


def test_these_are_what_a_shell_starts_and_nothing_slow_comes_before_the_handlers() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    for place in project["scripts"].values():
        module, _, name = place.partition(":")
        assert module == entry_points.__name__
        assert callable(getattr(entry_points, name))
    late = {"click", "asyncio", "socket", "threading", "oncelog.cli.plain_serve", "oncelog.cli.standard_streams"}
    code = f"import sys, oncelog.cli.entry_points; print(sorted({late} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
