"""Collects figures and prints them as a table with ratios and what they cost in CPU; JSON beside it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass


@dataclass(frozen=True)
class Cpu:
    """What one `per` (a transaction, a MB ...) costs, in microseconds: broker and client, ours and the other's."""

    per: str
    broker_us: float | None = None
    other_broker_us: float | None = None
    client_us: float | None = None
    other_client_us: float | None = None


@dataclass
class Row:
    """One figure: ours, theirs, and what is aimed at. `better` says whether less or more is better.

    `measures` is what decides the figure where that is not the broker or our client: "librdkafka", "the disk".
    """

    name: str
    unit: str
    oncelog: float | None
    other: float | None = None
    other_name: str = "Apache Kafka 4.3"
    better: str = "less"
    aim: str = ""
    note: str = ""
    cpu: Cpu | None = None
    measures: str = ""

    @property
    def ratio(self) -> float | None:
        if not self.oncelog or not self.other:
            return None
        return self.other / self.oncelog if self.better == "less" else self.oncelog / self.other


HEAD = ("figure", "oncelog", "other", "ratio", "aim", "broker's CPU", "client's CPU", "")


def cells(row: Row) -> tuple[str, ...]:
    """A row's cells in the order of HEAD."""
    cpu = row.cpu or Cpu("")
    note = "; ".join(part for part in (f"measures {row.measures}" if row.measures else "", row.note) if part)
    return (
        row.name,
        number(row.oncelog, row.unit),
        f"{number(row.other, row.unit)} {row.other_name}" if row.other is not None else "-",
        f"{row.ratio:.2f}x" if row.ratio else "-",
        row.aim,
        costs(cpu.broker_us, cpu.other_broker_us, cpu.per),
        costs(cpu.client_us, cpu.other_client_us, cpu.per),
        note,
    )


def costs(ours_us: float | None, theirs_us: float | None, per: str) -> str:
    """Both figures of CPU time in one cell, ours first; empty where neither was measured."""
    if ours_us is None and theirs_us is None:
        return ""
    return f"{' / '.join('-' if each is None else _short(each) for each in (ours_us, theirs_us))} us/{per}"


def show(rows: list[Row], facts: dict[str, str]) -> str:
    """The table as text: ratio > 1 means that oncelog is better."""
    body = _without_empty_columns([HEAD, *map(cells, rows)])
    widths = [max(map(len, column)) for column in zip(*body, strict=True)]
    lines = [f"{key}: {value}" for key, value in facts.items()]
    for row in body:
        lines.append("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return "\n".join(lines)


def markdown(rows: list[Row]) -> str:
    """The same table as a page has it."""
    head, *body = _without_empty_columns([HEAD, *map(cells, rows)])
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, ["---"] * len(head), *body))


def _without_empty_columns(table: list[tuple[str, ...]]) -> list[Sequence[str]]:
    kept = [i for i in range(len(HEAD)) if not HEAD[i].endswith("CPU") or any(row[i] for row in table[1:])]
    return [[row[i] for i in kept] for row in table]


def number(value: float | None, unit: str) -> str:
    return "-" if value is None else f"{_short(value)} {unit}"


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def save(rows: list[Row], facts: dict[str, str], path: pathlib.Path) -> None:
    path.write_text(json.dumps({"facts": facts, "rows": [{**asdict(r), "ratio": r.ratio} for r in rows]}, indent=1))
