"""Which rows are wanted: `make bench ONLY="sockets/fetch"`, parts and rows by comma, `*` for any text.

A part is a function that measures; a row of a part has a short key of its own, `part/key`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase


class Wanted:
    """The rows of one part that were asked for; without any pattern, all."""

    def __init__(self, patterns: Sequence[str] = ("*",)) -> None:
        self._patterns = patterns

    def __call__(self, key: str) -> bool:
        """Whether the row is to be measured."""
        return any(fnmatchcase(key, pattern) for pattern in self._patterns)

    def of(self, keys: Iterable[str]) -> list[str]:
        """Those that are to be measured."""
        return [key for key in keys if self(key)]


class NothingChosen(Exception):
    """No part or row has such a name."""


def choose(only: str, parts: Mapping[str, Sequence[str]]) -> dict[str, Wanted]:
    """The parts to run, in their order, with the rows wanted of each; `parts` has the keys of each part's rows.

    Raises NothingChosen.
    """
    patterns: dict[str, list[str]] = {}
    for word in filter(None, (word.strip() for word in only.split(","))):
        part, _, key = word.partition("/")
        found = [name for name in parts if fnmatchcase(name, part)]
        found = [name for name in found if not key or any(fnmatchcase(each, key) for each in parts[name])]
        if not found:
            raise NothingChosen(f"no row is called {word}; there are: {'; '.join(_described(parts))}")
        for name in found:
            patterns.setdefault(name, []).append(key or "*")
    if not only.strip():
        return {name: Wanted() for name in parts}
    return {name: Wanted(patterns[name]) for name in parts if name in patterns}


def _described(parts: Mapping[str, Sequence[str]]) -> Iterable[str]:
    for name, keys in parts.items():
        yield f"{name} ({', '.join(keys)})" if keys else name
