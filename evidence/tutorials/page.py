"""A tutorial as steps: files that its reader saves, and commands with what they print.

A fenced block after "Save as `NAME`" is a file. In a `console` block each line behind `$ ` is a command (`> ` continues it)
and what follows is its output. `<!-- needs X -->` begins a part that is left out where X cannot be had, `<!-- end -->` ends it.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass, field

FENCE = re.compile(r"^```(\w*)$")
SAVE_AS = re.compile(r"[Ss]ave (?:this )?as `([\w./-]+)`")
NEEDS = re.compile(r"^<!-- needs (.+) -->$")
END = "<!-- end -->"


@dataclass
class Step:
    """A file to write (`name`, `text`), or a command with the lines that are shown below it."""

    line_number: int
    needs: str | None = None
    name: str = ""
    text: str = ""
    command: str = ""
    output: list[str] = field(default_factory=list)


def steps(path: pathlib.Path) -> list[Step]:
    """What a reader of the page does, in order."""
    found: list[Step] = []
    needs, kind, name, before = None, None, "", ""
    for number, line in enumerate(path.read_text().splitlines(), 1):
        fence = FENCE.match(line)
        if kind is None:
            if fence is not None:
                saved = SAVE_AS.search(before)
                kind, name = fence[1] or "text", saved[1] if saved else ""
                if name:
                    found.append(Step(number, needs, name=name))
            elif (asked := NEEDS.match(line)) or line == END:
                needs = asked[1] if asked else None
            before = line or before
        elif line == "```":
            kind, before = None, ""
        elif name:
            found[-1].text += line + "\n"
        elif kind == "console":
            _add(found, line, number, needs)
    return found


def _add(found: list[Step], line: str, number: int, needs: str | None) -> None:
    if line.startswith("$ "):
        found.append(Step(number, needs, command=line[2:]))
    elif line.startswith("> ") and not found[-1].output:
        found[-1].command += "\n" + line[2:]
    else:
        found[-1].output.append(line)


VOLATILE = (
    (re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z?"), "TIME"),
    (re.compile(r"\b\d+(\.\d+)?(ms|us|s|m(\d\ds)?|h(\d\dm)?)\b"), "DURATION"),
    (re.compile(r"\b\d+:\d{1,5}\b"), "ID:EPOCH"),
    (re.compile(r"cluster=\S+"), "cluster=ID"),
    (re.compile(r'("\w+_ms"): -?\d+'), r"\1: N"),
    (re.compile(r"\s+"), " "),
)


def comparable(line: str) -> str:
    """A line without what differs from run to run: times, durations, widths of columns."""
    for pattern, instead in VOLATILE:
        line = pattern.sub(instead, line)
    return line.strip()


def matches(shown: list[str], printed: list[str]) -> bool:
    """Whether the output is what the page shows; `...` there stands for anything, alone on a line for any lines."""
    lines = [comparable(line) for line in shown]
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else re.escape(line).replace(re.escape("..."), ".*") + r"\n" for line in lines
    )
    text = "".join(comparable(line) + "\n" for line in printed)
    return re.fullmatch(pattern, text) is not None
