"""What a run of drawn mutants says: figures of each package, each survivor as a diff, docs/mutants.md, one last line."""

from __future__ import annotations

import json
import pathlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from evidence.mutants.drawing import DANGEROUS, KILLED_PERCENT, KILLED_PERCENT_DANGEROUS, SHARES, TOP
from evidence.mutants.operators import flat
from evidence.mutants.planting import KILLED, NOT_COVERED, Result

BEGIN, END = "<!-- figures: written by make mutants -->", "<!-- end of figures -->"
TESTS_SHOWN = 3
Reasons = Mapping[tuple[str, str], str]


@dataclass(frozen=True)
class Figures:
    """One package. `explained` mutants are nobody's to kill, so the percentage is of the others."""

    package: str
    drawn: int
    killed: int
    explained: int
    not_covered: int

    @property
    def survived(self) -> int:
        return self.drawn - self.killed - self.explained

    @property
    def percent(self) -> float:
        return 100 * self.killed / max(1, self.drawn - self.explained) if self.drawn else 100.0

    @property
    def percent_of_all(self) -> float:
        return 100 * self.killed / max(1, self.drawn) if self.drawn else 100.0

    @property
    def aim(self) -> int:
        return KILLED_PERCENT_DANGEROUS if self.package in DANGEROUS else KILLED_PERCENT

    @property
    def is_met(self) -> bool:
        return self.percent >= self.aim


def is_explained(result: Result, reasons: Reasons) -> bool:
    return result.state != KILLED and result.key in reasons


def figures(results: Sequence[Result], reasons: Reasons) -> list[Figures]:
    found = []
    for package in SHARES:
        own = [each for each in results if each.package == package]
        if own:
            explained = sum(is_explained(each, reasons) for each in own)
            states = Counter(each.state for each in own)
            found.append(Figures(package, len(own), states[KILLED], explained, states[NOT_COVERED]))
    return found


def table(found: Sequence[Figures]) -> str:
    rows = [
        "| package | drawn | killed | equivalent | survived | of them not covered | killed % | aim |",
        "|---|" + "--:|" * 7,
    ]
    for each in found:
        name = "sync, errors, types" if each.package == TOP else each.package
        rows.append(
            f"| {name} | {each.drawn} | {each.killed} | {each.explained} | {each.survived} | {each.not_covered}"
            f" | {each.percent:.0f} | {each.aim}{'' if each.is_met else ' missed'} |"
        )
    return "\n".join(rows)


def diff(result: Result) -> str:
    before = [f"-    {line.strip()}" for line in result.before.splitlines()]
    return "\n".join([*before, *(f"+    {line.strip()}" for line in result.after.splitlines())])


def survivors(results: Iterable[Result], reasons: Reasons) -> str:
    """Each in full, for whoever writes the test."""
    parts = []
    for each in results:
        if each.state != KILLED and each.key not in reasons:
            beside = f"; {each.left_out} more cover it" if each.left_out else ""
            tests = ", ".join(each.tests[:TESTS_SHOWN]) + (" ..." if len(each.tests) > TESTS_SHOWN else "")
            parts.append(
                f"{each.file}:{each.line} {each.state} ({each.operator})\n{each.name}\n{diff(each)}\n"
                f"  {len(each.tests)} tests{beside}: {tests}\n"
            )
    return "\n".join(parts)


def summary(results: Sequence[Result], wanted: int, reasons: Reasons, seed: int) -> str:
    """The closing line."""
    found = figures(results, reasons)
    killed, explained = sum(each.killed for each in found), sum(each.explained for each in found)
    missed = [f"{each.package} {each.percent:.0f} % (aim {each.aim})" for each in found if not each.is_met]
    open_count = len(results) - killed - explained
    said = f"mutants: {killed} of {len(results)} drawn were killed, {explained} are equivalent, {open_count} survive"
    said += f" (seed {seed})"
    if len(results) < wanted:
        said += f"; {wanted - len(results)} not tried yet"
    return said + (f"; below the aim: {', '.join(missed)}" if missed else "; every aim is met")


def is_good(results: Sequence[Result], wanted: int, reasons: Reasons) -> bool:
    return len(results) == wanted > 0 and all(each.is_met for each in figures(results, reasons))


def write_json(path: pathlib.Path, results: Sequence[Result], wanted: int, reasons: Reasons, seed: int) -> None:
    said = {
        "seed": seed,
        "wanted": wanted,
        "packages": [
            {**asdict(each), "survived": each.survived, "percent": round(each.percent, 1), "aim": each.aim}
            for each in figures(results, reasons)
        ],
        "killed": sum(each.state == KILLED for each in results),
        "only killed with a JVM": sum(each.starts_jvm and each.state == KILLED for each in results),
        "mutants": [{**asdict(each), "because": reasons.get(each.key, "")} for each in results],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(said, indent=1) + "\n")


def page(text: str, results: Sequence[Result], wanted: int, reasons: Reasons, seed: int, day: str) -> str:
    """docs/mutants.md with these figures between its two marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    said = f"Drawn on {day}. {summary(results, wanted, reasons, seed)}."
    lines = [BEGIN, said, "", table(figures(results, reasons)), "", "| survivor | mistake | because |", "|---|---|---|"]
    for each in sorted(results, key=lambda result: (result.file, result.line)):
        if each.state != KILLED:
            because = reasons.get(each.key, f"**open** ({each.state})")
            where = f"`{each.file.removeprefix('src/oncelog/')}` {each.name.partition(' | ')[0]}"
            lines.append(f"| {where} | `{_cell(each.mistake)}` | {_cell(because)} |")
    return before + "\n".join([*lines, END]) + after


def _cell(text: str) -> str:
    return flat(text).replace("|", "\\|")
