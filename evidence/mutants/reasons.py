"""Why a surviving mutant is none: evidence/mutants/equivalent.txt, by file and by the line's text, never by its number.

file: src/oncelog/core/leader/partition.py
mutant: Partition.appended | self._end = end | dropped statement: self._end = end -> pass
because: why nobody can tell the difference.
    It may go on in indented lines.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Mapping

PATH = pathlib.Path(__file__).with_name("equivalent.txt")
Key = tuple[str, str]


def read(text: str) -> dict[Key, str]:
    """Reasons by file and mutant. Raises ValueError where a line is not understood, or a mutant has no reason."""
    reasons: dict[Key, str] = {}
    file = mutant = ""
    last: Key | None = None
    for number, line in enumerate(text.splitlines(), 1):
        word, _, rest = line.partition(": ")
        if not line.strip() or line.startswith("#"):
            last = None
        elif line[0] == " " and last:
            reasons[last] += " " + line.strip()
        elif word == "file" and not mutant:
            file = rest
        elif word == "mutant" and file and not mutant:
            mutant = rest
        elif word == "because" and mutant and rest:
            last = (file, mutant)
            if last in reasons:
                raise ValueError(f"line {number}: this mutant has a reason already: {mutant}")
            reasons[last] = rest
            mutant = ""
        else:
            raise ValueError(f"line {number}: not understood: {line!r}")
    if mutant:
        raise ValueError(f"no reason for {mutant}")
    return reasons


def known(path: pathlib.Path = PATH) -> Mapping[Key, str]:
    return read(path.read_text()) if path.exists() else {}


def without_a_line(reasons: Iterable[Key], names: Mapping[str, Iterable[str]]) -> list[Key]:
    """Reasons whose line has changed or is gone; `names`: the mutants that each file has."""
    return [(file, name) for file, name in reasons if name not in set(names.get(file, ()))]
