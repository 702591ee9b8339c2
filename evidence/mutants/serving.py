"""A pytest process that has imported and collected everything once, and forks for each mutant: the pytest side.

Most of a mutant's time would go into importing what has not changed. Here the mutated function's code is put into the
forked process's own functions (the file in the copy is changed as well, for processes that a test starts). That is the
same thing as long as the function has not run before: lines that run on import, or while tests are collected, are
for a process of their own (`planting.py`).
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import pathlib
import resource
import signal
import sys
import types
from collections.abc import Generator
from typing import Any

import pytest

REQUESTS, REPLIES = "ONCELOG_MUTANTS_REQUESTS", "ONCELOG_MUTANTS_REPLIES"  # two inherited file descriptors
FUNCTION_FLAGS = 0x3  # CO_OPTIMIZED, CO_NEWLOCALS: a function's code, not a class body's
NOT_PATCHED = "not patched"
PR_SET_PDEATHSIG = 1


class Server:
    """One request a line: {"file", "text", "tests", ...}; one reply a line: {"failed"}."""

    def __init__(self) -> None:
        self.requests = os.fdopen(int(os.environ[REQUESTS]))
        self.replies = int(os.environ[REPLIES])
        self.failed = ""
        self.cpu_seconds = 0.0

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        items = {item.nodeid: item for item in session.items}
        gc.freeze()
        os.write(self.replies, b"ready\n")
        for line in self.requests:
            request = json.loads(line)
            child = os.fork()
            if child == 0:
                self._serve(session, items, request)
            os.write(self.replies, f"{child}\n".encode())
            _, status = os.waitpid(child, 0)
            os.write(self.replies, f"{os.waitstatus_to_exitcode(status)}\n".encode())
        session.items.clear()
        return True

    def _serve(self, session: pytest.Session, items: dict[str, pytest.Item], request: dict[str, Any]) -> None:
        """In the child, which never returns."""
        status = 3
        try:
            os.setsid()
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            resource.setrlimit(resource.RLIMIT_DATA, (request["memory"], request["memory"]))
            session.config._env_timeout = request["seconds"]  # type: ignore[attr-defined] # pytest-timeout's
            self.cpu_seconds = request["cpu_seconds"]
            said = NOT_PATCHED
            is_clean = not request["file"]
            if is_clean or patch(request["file"], pathlib.Path(request["text"]).read_text()):
                session.items[:] = [items[name] for name in request["tests"] if name in items]
                session.testscollected = len(session.items)
                session.testsfailed = 0  # files that cannot be imported are no failures of the mutant's
                session.config.option.maxfail = 1
                said = self._run(session)
            pathlib.Path(request["said"]).write_text(said)
            status = 0
        finally:
            sys.stdout.flush()
            os._exit(status)

    def _run(self, session: pytest.Session) -> str:
        from _pytest.main import pytest_runtestloop

        with contextlib.suppress(pytest.Session.Failed, pytest.Session.Interrupted):
            pytest_runtestloop(session)
        return self.failed

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """What loops for ever is ended (SIGPROF) after computing for so long, however busy the machine is."""
        signal.setitimer(signal.ITIMER_PROF, self.cpu_seconds)
        try:
            return (yield)
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed and not self.failed:
            self.failed = report.nodeid


def functions_of(code: types.CodeType) -> list[types.CodeType]:
    """The code of a module's functions and methods, without those inside functions, in the order of the text."""
    found = []
    for each in code.co_consts:
        if isinstance(each, types.CodeType):
            is_function = each.co_flags & FUNCTION_FLAGS == FUNCTION_FLAGS
            found += [each] if is_function else functions_of(each)
    return sorted(found, key=lambda each: each.co_firstlineno)


def patch(file: str, right_text: str) -> bool:
    """Give every function made from code that differs in the file as it is now that code; whether all of it is there.

    (By what differs, not by the line: a default of an argument may be a function, which begins behind the one it is of.)
    """
    before = functions_of(compile(right_text, file, "exec", dont_inherit=True))
    after = functions_of(compile(pathlib.Path(file).read_text(), file, "exec", dont_inherit=True))
    changed = [(old, new) for old, new in zip(before, after, strict=False) if old != new]
    if not changed or len(before) != len(after) or any(old.co_freevars != new.co_freevars for old, new in changed):
        return False
    gc.unfreeze()
    functions = [each for each in gc.get_objects() if isinstance(each, types.FunctionType)]
    made = [[each for each in functions if each.__code__ == old] for old, _ in changed]
    for same, (_, new) in zip(made, changed, strict=True):
        for function in same:
            function.__code__ = new
    return all(made)
