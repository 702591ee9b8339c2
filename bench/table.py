"""Collects figures and prints them as a table with ratios; JSON beside it."""

from __future__ import annotations

import json
import pathlib
from dataclasses import asdict, dataclass


@dataclass
class Row:
    """One figure: ours, theirs, and what is aimed at. `better` says whether less or more is better."""

    name: str
    unit: str
    oncelog: float | None
    other: float | None = None
    other_name: str = "Apache Kafka 4.3"
    better: str = "less"
    aim: str = ""
    note: str = ""

    @property
    def ratio(self) -> float | None:
        if not self.oncelog or not self.other:
            return None
        return self.other / self.oncelog if self.better == "less" else self.oncelog / self.other


def show(rows: list[Row], facts: dict[str, str]) -> str:
    """The table as text: ratio > 1 means that oncelog is better."""
    lines = [f"{key}: {value}" for key, value in facts.items()]
    head = ("figure", "oncelog", "other", "ratio", "aim", "")
    body = [
        (r.name, number(r.oncelog, r.unit), f"{number(r.other, r.unit)} {r.other_name}" if r.other is not None else "-",
         f"{r.ratio:.2f}x" if r.ratio else "-", r.aim, r.note)
        for r in rows
    ]  # fmt: skip
    widths = [max(len(row[i]) for row in [head, *body]) for i in range(len(head))]
    for row in [head, *body]:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return "\n".join(lines)


def number(value: float | None, unit: str) -> str:
    if value is None:
        return "-"
    text = f"{value:,.0f}" if value >= 100 else f"{value:.2f}"
    return f"{text} {unit}"


def save(rows: list[Row], facts: dict[str, str], path: pathlib.Path) -> None:
    path.write_text(json.dumps({"facts": facts, "rows": [{**asdict(r), "ratio": r.ratio} for r in rows]}, indent=1))
