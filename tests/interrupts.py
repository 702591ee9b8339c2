"""KeyboardInterrupt at each place where the interpreter may raise it: counted in a clean run, then struck one by one.

CPython looks for signals when a function begins, at a jump backwards, and when a call of something that is not Python has
returned; nowhere else. So an assignment of what a Python function returned cannot be torn apart, and one of what a method
of C returned can.
"""

from __future__ import annotations

import dis
import sys
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

_LOOKS = {"RESUME", "CALL", "CALL_FUNCTION_EX", "JUMP_BACKWARD"}


class Interrupts:
    """Of the running thread, in frames of the code of `files` (parts of paths)."""

    def __init__(self, files: Collection[str]) -> None:
        self._files = files
        self._left: set[int] = set()
        self.count = 0
        self._codes: dict[CodeType, dict[int, str]] = {}
        self._last: dict[FrameType, int] = {}
        self._returned: FrameType | None = None  # into which a Python function has just returned
        self.struck: list[str] = []

    @contextmanager
    def at(self, *numbers: int) -> Iterator[None]:
        """Raise at the so many-th places of the block; `struck` says where that was."""
        self._left, self.count, self.struck = set(numbers), 0, []
        self._last.clear()
        before = sys.gettrace()
        sys.settrace(self._called)
        try:
            yield
        finally:
            sys.settrace(before)
            self._last.clear()
            self._returned = None

    def _called(self, frame: FrameType, event: str, _: Any) -> Any:
        if not any(part in frame.f_code.co_filename for part in self._files):
            return self._elsewhere
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._traced

    def _elsewhere(self, frame: FrameType, event: str, _: Any) -> Any:
        frame.f_trace_lines = False
        if event == "return":
            self._note_return(frame)
        return self._elsewhere

    def _traced(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "return":
            self._last.pop(frame, None)
            self._note_return(frame)
        elif event == "opcode":
            last, self._last[frame] = self._last.get(frame), frame.f_lasti
            returned, self._returned = self._returned is frame, None
            if self._is_place(frame.f_code, last, frame.f_lasti) and not returned:
                self._look(frame)
        return self._traced

    def _is_place(self, code: CodeType, last: int | None, now: int) -> bool:
        """Between these two instructions. (CPython 3.11 calls C in PRECALL, once it knows the way.)"""
        if last is None:
            return True
        name = self._name_of(code, last)
        return name in _LOOKS or (name == "PRECALL" and self._name_of(code, now) != "CALL")

    def _note_return(self, frame: FrameType) -> None:
        """(A class is called by C, and so is what it makes: `__init__` returns to there.)"""
        self._returned = None if frame.f_code.co_name == "__init__" else frame.f_back

    def _look(self, frame: FrameType) -> None:
        self.count += 1
        if self.count in self._left:
            self._left.discard(self.count)
            self.struck.append(f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno} {frame.f_code.co_name}")
            raise KeyboardInterrupt(self.struck[-1])

    def _name_of(self, code: CodeType, offset: int) -> str:
        if code not in self._codes:
            self._codes[code] = {each.offset: each.opname for each in dis.get_instructions(code)}
        return self._codes[code][offset]
