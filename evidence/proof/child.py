"""A tool as a child process in a session of its own: its words kept, its end certain, nothing of it left behind."""

from __future__ import annotations

import contextlib
import os
import pathlib
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import IO, Any, Self

from evidence.proof.evidence import ROOT

GRACE_S = 60.0  # after Ctrl-C: brokers and workers are ended, a small disk is unmounted


@dataclass(frozen=True)
class Ended:
    """How it ended. `status` is None when it was interrupted or did not end in time."""

    status: int | None
    line: str
    seconds: float
    is_interrupted: bool = False
    is_hung: bool = False


class _Interrupts:
    """Counts Ctrl-C and SIGTERM while a child runs: an exception could come between its start and its being known."""

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[signal.Signals, Any] = {}

    def _came(self, *_: object) -> None:
        self.count += 1

    def __enter__(self) -> Self:
        for number in (signal.SIGINT, signal.SIGTERM):
            self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class Child:
    """One run. `told(text, is_error)` gets every line of stdout and stderr, from threads."""

    def __init__(self, command: list[str], log: pathlib.Path, told: Callable[[str, bool], None] | None = None) -> None:
        self._command, self._log, self._told = command, log, told
        self.last_line = ""  # of stdout
        self.last_word = ""  # of either
        self._lock = threading.Lock()

    def run(self, timeout_s: float, beat: Callable[[], None] | None = None, beat_s: float = 1.0) -> Ended:
        """Until it ends, Ctrl-C comes or the time is over; `beat` is called now and then."""
        with _Interrupts() as interrupts:
            return self._run(timeout_s, beat, beat_s, interrupts)

    def _run(self, timeout_s: float, beat: Callable[[], None] | None, beat_s: float, interrupts: _Interrupts) -> Ended:
        begun = time.monotonic()
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with self._log.open("w", encoding="utf-8") as log:
            log.write(f"$ {' '.join(self._command)}\n")
            process = subprocess.Popen(
                self._command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            assert process.stdout is not None
            assert process.stderr is not None
            pumps = [
                threading.Thread(target=self._pump, args=(stream, log, is_error), daemon=True)
                for stream, is_error in ((process.stdout, False), (process.stderr, True))
            ]
            for pump in pumps:
                pump.start()
            is_over = False
            try:
                is_over = _ends(process, timeout_s, interrupts, 1, beat, beat_s)
            finally:
                _end(process, interrupts, is_over=is_over)
                for pump in pumps:
                    pump.join(10)
                for stream in (process.stdout, process.stderr):
                    stream.close()
        is_interrupted = interrupts.count > 0
        is_hung = not is_over and not is_interrupted
        status = process.returncode if is_over else None
        return Ended(status, self.last_line, time.monotonic() - begun, is_interrupted, is_hung)

    def _pump(self, stream: IO[str], log: IO[str], is_error: bool) -> None:
        with contextlib.suppress(ValueError):  # the log was closed: something of the child outlived it
            for text in stream:
                line = text.rstrip("\n")
                with self._lock:
                    log.write(text)
                    log.flush()
                    if line.strip():
                        self.last_word = line.strip()
                        if not is_error:
                            self.last_line = line.strip()
                if self._told is not None:
                    self._told(line, is_error)


def _has_ended(process: subprocess.Popen[str]) -> bool:
    """Without reaping it: so long its number is that of its group, and of nobody else."""
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _ends(
    process: subprocess.Popen[str],
    timeout_s: float,
    interrupts: _Interrupts,
    interrupts_max: int,
    beat: Callable[[], None] | None = None,
    beat_s: float = 1.0,
) -> bool:
    """False when the time was over first, or as many interrupts had come."""
    deadline = time.monotonic() + timeout_s
    next_beat = time.monotonic() + beat_s
    while not _has_ended(process):
        now = time.monotonic()
        if now > deadline or interrupts.count >= interrupts_max:
            return False
        if beat is not None and now > next_beat:
            beat()
            next_beat = now + beat_s
        time.sleep(0.05)
    return True


def _end(process: subprocess.Popen[str], interrupts: _Interrupts, *, is_over: bool) -> None:
    """Ctrl-C for all of its group, time to clean up, then SIGKILL for whatever is left. A second Ctrl-C does not wait."""
    try:
        if not is_over:
            _signal_group(process.pid, signal.SIGINT)
            _ends(process, GRACE_S, interrupts, 2)
    finally:
        _signal_group(process.pid, signal.SIGKILL)
        process.wait()


def _signal_group(group: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
