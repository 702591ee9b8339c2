"""The lines of a Java properties file, as `java.util.Properties.load` reads them: continuation, separators, escapes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "f": "\f"}
_ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_PAIR = re.compile(r"((?:\\.|[^\\=:\s])*)(\s*[=:]?\s*)(.*)", re.DOTALL)
_BYTE_ORDER_MARK = "\ufeff"


class Property(NamedTuple):
    """One pair."""

    line_number: int
    """Where it begins, counted from 1."""
    key: str
    value: str
    has_separator: bool
    """False where the line is a key and nothing else."""


def each_property(text: str) -> Iterator[Property]:
    """All pairs in their order; a key may come twice."""
    for number, line in _logical_lines(text.removeprefix(_BYTE_ORDER_MARK)):
        match = _PAIR.match(line)
        assert match is not None, "the pattern matches every line"
        yield Property(number, _unescaped(match[1]), _unescaped(match[3]), bool(match[2]))


def _logical_lines(text: str) -> Iterator[tuple[int, str]]:
    pending, begun = "", 0
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.lstrip()
        if not pending and (not line or line[0] in "#!"):
            continue
        begun = begun or number
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending += line[:-1]
            continue
        yield begun, pending + line if pending else line.rstrip()
        pending, begun = "", 0
    if pending:
        yield begun, pending


def _unescaped(text: str) -> str:
    def replaced(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else _ESCAPES.get(code, code)

    return _ESCAPED.sub(replaced, text)
