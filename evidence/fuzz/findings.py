"""What counts as a finding, and how it is told: what happened, where, and the line that repeats it."""

from __future__ import annotations

import contextlib
import faulthandler
import gc
import logging
import re
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from evidence.world.loop import SimLoop

SLOW_S = 1.0
STUCK_S = 120.0  # then the process ends with every thread's stack
READ_EVERY_S = 0.05
FINDINGS_SHOWN_MAX = 20


@dataclass
class Findings:
    """Of one run. `inputs` counts by target; the same finding (by its first line) is told once."""

    inputs: Counter[str] = field(default_factory=Counter)
    texts: dict[str, str] = field(default_factory=dict)
    count: int = 0
    slowest_s: float = 0.0

    def add(self, what: str, repeat: str, detail: str = "") -> None:
        """Something that must not be. `repeat` is the command that shows it again."""
        self.count += 1
        what = re.sub(r"-?\d{2,}", "N", what)  # the same thing with other numbers is told once
        if what not in self.texts and len(self.texts) < FINDINGS_SHOWN_MAX:
            self.texts[what] = f"{what}\n  repeat: {repeat}\n{detail}".rstrip()

    def add_error(self, error: BaseException, repeat: str, detail: str = "") -> None:
        """An exception that no caller is told to expect."""
        frames = traceback.extract_tb(error.__traceback__)
        where = f"{frames[-1].filename.rpartition('/')[2]}:{frames[-1].lineno}" if frames else "?"
        stack = "".join(traceback.format_exception(error))[-3000:]
        self.add(f"{type(error).__name__} at {where}: {str(error)[:120]}", repeat, f"{detail}\n{stack}")

    def add_internal_errors(self, loop: SimLoop, logged: list[str], repeat: str, detail: str) -> None:
        """What the code under test logged as errors, and what its tasks died of, since the last call."""
        for line in logged:
            self.add(f"logged: {line.splitlines()[0][:150]}", repeat, f"{detail}\n{line}")
        for context in loop.errors:
            error = context.get("exception")
            if error is not None:
                self.add_error(error, repeat, f"{context.get('message')}\n{detail}")
            else:
                self.add(str(context.get("message")), repeat, detail)
        loop.errors.clear()

    def merge(self, other: Findings) -> None:
        """Take over what another process found."""
        self.inputs += other.inputs
        self.texts = other.texts | self.texts
        self.count += other.count
        self.slowest_s = max(self.slowest_s, other.slowest_s)

    def __bool__(self) -> bool:
        return self.count > 0


class _Clock:
    """When the thread was last asked for its own time: that costs a system call, so not for every input."""

    read_s = 0.0  # by the wall's clock; none yet
    cpu_s = 0.0


@contextlib.contextmanager
def timed(findings: Findings, what: str, repeat: str) -> Iterator[None]:
    """A step that must be over within a second of this thread's own time (told to `READ_EVERY_S`)."""
    begun_s = time.perf_counter()
    if begun_s - _Clock.read_s > READ_EVERY_S:
        _Clock.read_s, _Clock.cpu_s = begun_s, time.thread_time()
        faulthandler.dump_traceback_later(STUCK_S, exit=True)
    yield
    taken_s = time.perf_counter() - begun_s
    if taken_s > findings.slowest_s:  # of the wall's clock: the machine may be busy
        taken_s = min(taken_s, time.thread_time() - _Clock.cpu_s)
        findings.slowest_s = max(findings.slowest_s, taken_s)
        if taken_s > SLOW_S:
            findings.add(f"{what} took {taken_s:.1f} s", repeat)


def watch_no_more() -> None:
    """The last step is over."""
    faulthandler.cancel_dump_traceback_later()
    _Clock.read_s = 0.0


class LoggedErrors(logging.Handler):
    """Errors that the code under test logs: a broker that answers and logs an internal error has failed too."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text += "\n" + "".join(traceback.format_exception(record.exc_info[1]))[-2500:]
        self.lines.append(f"{record.name}: {text}")

    def take(self) -> list[str]:
        lines, self.lines = self.lines, []
        return lines


@contextlib.contextmanager
def logged_errors() -> Iterator[LoggedErrors]:
    """Listen to oncelog's log, which is silent meanwhile."""
    root = logging.getLogger("oncelog")
    handler, before = LoggedErrors(), (root.handlers, root.level, root.propagate)
    root.handlers, root.propagate = [handler], False
    root.setLevel(logging.ERROR)
    try:
        yield handler
    finally:
        root.handlers, root.propagate = before[0], before[2]
        root.setLevel(before[1])


def resident_bytes() -> int:
    """What this process holds, after a collection."""
    gc.collect()
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * 4096
