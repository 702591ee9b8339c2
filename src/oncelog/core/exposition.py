"""Numbers as Prometheus reads them: its text format, version 0.0.4."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from oncelog.lazy_dataclass import dataclass


class Family(Protocol):
    """A metric: its name, `counter`, `gauge` or `histogram`, and what it says."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def kind(self) -> str:
        """Its type."""
        ...

    @property
    def help(self) -> str:
        """One line."""
        ...


@dataclass(frozen=True, slots=True)
class NamedFamily:
    """One that is nothing else."""

    name: str
    kind: str
    help: str


def _no_pace(_size_bytes: int) -> None:
    pass


def exposition(
    families: Iterable[tuple[Family, Iterable[tuple[str, Mapping[str, str], float]]]],
    pace: Callable[[int], object] = _no_pace,
) -> str:
    """All metrics as text. A sample is the suffix of the name, labels, and the value. `pace` is called after each of them."""
    lines = []
    for family, samples in families:
        lines.append(f"# HELP {family.name} {family.help}")
        lines.append(f"# TYPE {family.name} {family.kind}")
        for suffix, labels, value in samples:
            shown = ",".join(f'{name}="{_escaped(text)}"' for name, text in labels.items())
            lines.append(
                f"{family.name}{suffix}{{{shown}}} {_number(value)}"
                if shown
                else f"{family.name}{suffix} {_number(value)}"
            )
            pace(0)
    return "\n".join(lines) + "\n"


def merged(pages: Mapping[str, str]) -> str:
    """Pages of several processes as one: each sample has a label `process` with its page's name. Families as they come first."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for process, page in pages.items():
        family = ""
        for line in page.splitlines():
            if line.startswith("# "):
                family = line.split(" ", 3)[2]
                if process == next(iter(pages)) or line not in heads.setdefault(family, []):
                    heads.setdefault(family, []).append(line)
                samples.setdefault(family, [])
            elif line:
                samples.setdefault(family, []).append(_with_process(line, process))
    return "\n".join(line for family in samples for line in (*heads.get(family, ()), *samples[family])) + "\n"


def _with_process(line: str, process: str) -> str:
    name, brace, rest = line.partition("{")
    if brace and " " not in name:
        return f'{name}{{process="{process}",{rest}'
    name, _, value = line.partition(" ")
    return f'{name}{{process="{process}"}} {value}'


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    if not math.isfinite(value):
        return "NaN" if math.isnan(value) else "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value == int(value) else repr(float(value))
