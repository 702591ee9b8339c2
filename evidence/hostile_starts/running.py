"""Runs one start and judges it: an exit status that is documented, no traceback, JSON that parses, an end in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from click.testing import CliRunner

from evidence.hostile_starts.drawing import Start
from oncelog.cli.main import root

STATUSES = {0, 1, 2, 3}
SLOW_SECONDS = 20.0  # behind the 400 ms of --timeout and what connecting may take; a hang has no end at all
OUTPUT_WAYS = ("/dev/full", "closed", "no stderr", "no stdin", "pipe that is gone")


@dataclass(frozen=True)
class Finding:
    """A start that went wrong, and how."""

    start: Start
    what: str

    def __str__(self) -> str:
        words = " ".join(ascii(word) for word in self.start.arguments)
        return f"oncelog {words[:400]} < {self.start.stdin[:60]!r}\n  {self.what}"


class Hang(BaseException):
    """It did not end."""


@contextmanager
def _no_longer_than(seconds: float) -> Iterator[None]:
    def ring(_number: int, _frame: FrameType | None) -> None:
        raise Hang

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def run_inside(start: Start) -> Finding | None:
    """In this process: a hundred times faster than a process of its own."""
    began = time.monotonic()
    try:
        with _no_longer_than(SLOW_SECONDS):
            result = CliRunner().invoke(root, list(start.arguments), input=start.stdin, prog_name="oncelog")
    except Hang:
        if start.may_take_long:
            return None
        return Finding(start, f"no end within {SLOW_SECONDS:g} s")
    if isinstance(result.exception, Hang):
        if start.may_take_long:
            return None
        return Finding(start, f"no end within {SLOW_SECONDS:g} s: {_last_line(result.exc_info)}")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return Finding(start, "".join(traceback.format_exception(result.exception)[-3:]))
    return _judged(start, result.exit_code, result.stdout_bytes, result.stderr_bytes, time.monotonic() - began)


def _last_line(found: object) -> str:
    return "".join(traceback.format_exception(*found)[-4:]) if isinstance(found, tuple) else ""


def run_outside(start: Start, way: str) -> Finding | None:
    """As a process, with its standard files broken in one of `OUTPUT_WAYS`."""
    words = [word.encode("utf-8", "surrogateescape") for word in start.arguments if _may_be_typed(word)]
    script = {
        "/dev/full": 'exec "$@" > /dev/full',
        "closed": 'exec "$@" >&-',
        "no stderr": 'exec "$@" 2>&-',
        "no stdin": 'exec "$@" <&-',
        "pipe that is gone": '"$@" | true',
    }[way]
    command = ["sh", "-c", script, "sh", sys.executable, "-m", "oncelog", *words]
    # As a person's shell has it: an interpreter that buffers nothing hides what is said at its end.
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    try:
        ended = subprocess.run(
            command, input=start.stdin, capture_output=True, timeout=SLOW_SECONDS, check=False, env=environment
        )
    except subprocess.TimeoutExpired:
        return Finding(start, f"{way}: no end within {SLOW_SECONDS:g} s")
    finding = _judged(start, ended.returncode, b"", ended.stderr, 0.0)
    return Finding(start, f"{way}: {finding.what}") if finding is not None else None


def _may_be_typed(word: str) -> bool:
    try:
        word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return "\0" not in word and len(word) < 100_000


def _judged(start: Start, status: int, stdout: bytes, stderr: bytes, seconds: float) -> Finding | None:
    text = stderr.decode("utf-8", "replace")
    if "Traceback" in text or "Exception ignored" in text:
        return Finding(start, text[-1200:])
    if status not in STATUSES:
        return Finding(start, f"exit status {status}: {text[-300:]}")
    if seconds > SLOW_SECONDS:
        return Finding(start, f"{seconds:.1f} s")
    if any(byte < 32 and byte not in b"\n\t\r" for byte in stderr):
        return Finding(start, f"control characters on stderr: {stderr[-300:]!r}")
    if start.wants_json and stdout and status != 2 and start.arguments[0] not in ("completion", "produce"):
        try:
            json.loads(stdout)
        except ValueError as error:
            return Finding(start, f"stdout is no JSON: {error}: {stdout[:200]!r}")
    return None
