"""build/proof/report.html from what was recorded: what failed first, what is old or was not run in so many words."""

from __future__ import annotations

import datetime as dt
import pathlib
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from evidence.proof.drawing import facts, table
from evidence.proof.evidence import (
    FAILED,
    INTERRUPTED,
    PASSED,
    RUNNING,
    Evidence,
    Source,
    all_runs,
    commits_between,
    load,
    machine,
    source_now,
)
from evidence.proof.goals import BROKEN, MET, NOT_RUN, SHORT, Goal, goals
from evidence.proof.parts import PARTS
from evidence.proof.sections import section
from evidence.proof.style import STYLE

SOAK = "soak"
RUNS_SHOWN_MAX = 60
WORDS = {PASSED: "ok", FAILED: "failed-word", INTERRUPTED: "partial-word", RUNNING: "partial-word"}
GOAL_WORDS = {MET: "ok", SHORT: "partial-word", BROKEN: "failed-word", NOT_RUN: "partial-word"}


def write_report(folder: pathlib.Path) -> pathlib.Path:
    """Write it; the path."""
    folder.mkdir(parents=True, exist_ok=True)
    found = {name: load(name, folder) for name in (*PARTS, SOAK)}
    runs = {name: evidence for name, evidence in found.items() if evidence is not None}
    path = folder / "report.html"
    path.write_text(page(runs, all_runs(folder), source_now()), encoding="utf-8")
    return path


def page(runs: Mapping[str, Evidence], history: Sequence[Evidence], now: Source) -> str:
    """The whole page."""
    shown = [name for name in (*PARTS, SOAK) if name in runs]
    at = dt.datetime.now(dt.UTC).strftime("%Y-%m-%d %H:%M UTC")
    sections = ""
    for name in shown:
        body = section(runs[name])
        if body:
            sections += f'<h2 id="{name}">{escape(title(name))}</h2>{age_note(runs[name], now)}{body}'
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>oncelog: evidence</title><style>{STYLE}</style><main>
<h1>oncelog: evidence</h1>
<p>Machines that try to break what is promised, and what they found.
Commit <code>{escape(now.name)}</code>, {at}, {escape(machine())}.</p>
{verdict(runs, history, now)}
{facts(figures_at_a_glance(runs))}
<h2>What was run</h2>{parts_table(runs, now)}
<h2>What it was to show</h2>
<p>The sizes are those of a full run; a smaller one says so. A limit that is not kept stands out.</p>
{goals_table(list(goals({name: each for name, each in runs.items() if each.figures})))}
{sections}
<h2>Every run there was</h2><p>The newest first. A failure stays here, whatever a repeat says.</p>{history_table(history)}
</main></html>
"""


def title(name: str) -> str:
    return PARTS[name].title if name in PARTS else "Soak"


def target(name: str) -> str:
    return PARTS[name].target if name in PARTS else "make soak"


def age(evidence: Evidence, now: Source) -> tuple[str, bool]:
    """How its source differs from that of now, in words; True when src/ is another one."""
    then = evidence.source
    if "unknown" in (then.commit, now.commit):
        return "of a source that nobody named (no git)", False
    if then == now:
        return "", False
    count = commits_between(then.commit, now.commit)
    before = f", {count} commit{'s' * (count != 1)} ago" if count else ""
    if then.tree == now.tree and then.tree != "unknown" and not then.is_changed and not now.is_changed:
        return f"commit {then.name}{before}; src/ is the same", False
    return f"OLDER SOURCE: {then.name}{before}", True


def age_note(evidence: Evidence, now: Source) -> str:
    text, is_older = age(evidence, now)
    return f'<p class="missing">These figures are of an older source: {escape(text)}.</p>' if is_older else ""


def verdict(runs: Mapping[str, Evidence], history: Sequence[Evidence], now: Source) -> str:
    """The first thing to see: what failed, then what is missing or old."""
    failed = [each for each in runs.values() if each.verdict == FAILED]
    healed = [each for each in history if each.verdict == FAILED and each.source == now and each not in failed]
    hidden = [each for each in healed if each.begun_at not in {other.begun_at for other in failed}]
    not_run = [name for name in PARTS if name not in runs]
    unfinished = [name for name, each in runs.items() if each.verdict in (INTERRUPTED, RUNNING)]
    older = [name for name, each in runs.items() if age(each, now)[1]]
    passed = sum(each.is_good for each in runs.values())
    if failed:
        pill = f'<span class="verdict failed">FAILED: {escape(", ".join(each.part for each in failed))}</span>'
    elif not runs:
        pill = '<span class="verdict partial">nothing was run yet</span>'
    elif not_run or unfinished or older or hidden:
        pill = f'<span class="verdict partial">nothing found by {passed} tools, but see what is missing</span>'
    else:
        pill = f'<span class="verdict">nothing found by {passed} tools</span>'
    alarms = "".join(_alarm(each) for each in failed)
    alarms += "".join(
        f'<div class="alarm"><b>{escape(each.part)} failed earlier on this source</b><p>A run that went well later does '
        f"not undo it: {escape(each.line)} (<code>{escape(each.log)}</code>)</p></div>"
        for each in hidden
    )
    notes = [
        f"Not run: {', '.join(not_run)}." if not_run else "",
        f"Not run to its end: {', '.join(unfinished)}." if unfinished else "",
        f"Run with an older source: {', '.join(older)}." if older else "",
    ]
    text = "".join(f"<p>{escape(note)}</p>" for note in notes if note)
    return pill + alarms + (f'<div class="note">{text}</div>' if text else "")


def _alarm(evidence: Evidence) -> str:
    return (
        f'<div class="alarm"><b>{escape(title(evidence.part))}: FAILED</b><p>{escape(evidence.line or "no last line")}</p>'
        f"<p><code>{escape(evidence.command)}</code>, exit status {evidence.exit_status}; its words: "
        f'<a href="{escape(evidence.log)}"><code>{escape(evidence.log)}</code></a></p></div>'
    )


def figures_at_a_glance(runs: Mapping[str, Evidence]) -> list[tuple[str, str, bool]]:
    """(value, name, whether it is wrong); a dash for what was not run."""
    figures = {name: each.figures for name, each in runs.items() if each.figures}

    def total(*wanted: tuple[str, str]) -> int | None:
        """Of those figures that are there; of mappings and lists, the sum of what they hold."""
        found = [figures[part][name] for part, name in wanted if name in figures.get(part, {})]
        return sum(_sum(each) for each in found) if found else None

    anomalies = total(
        ("sim", "anomalies"),
        ("sim-dual-writes", "divergences"),
        ("power", "failure count"),
        ("crash", "anomalies"),
        ("chaos", "anomalies"),
        ("compaction", "problems"),
        ("fuzz", "findings"),
        ("damaged-starts", "findings"),
        ("soak", "anomalies"),
        ("soak", "findings"),
    )
    killed, tried = total(("mutants", "killed")), total(("mutants", "mutants"))
    rows = [
        ("anomalies and findings", anomalies, bool(anomalies)),
        ("simulated seeds", total(("sim", "seeds"), ("sim-dual-writes", "seeds"), ("soak", "simulated seeds")), False),
        ("faults in the simulated clusters", total(("sim", "faults")), False),
        ("states of the model", total(("model", "searches")), False),
        ("crash points", total(("power", "crash points")), False),
        ("kills, cuts, full disks of real processes", total(("crash", "episodes"), ("chaos", "episodes")), False),
        ("hostile inputs", total(("fuzz", "inputs"), ("soak", "hostile inputs")), False),
    ]
    found = [("-" if value is None else f"{value:,}", name, is_wrong) for name, value, is_wrong in rows]
    mutants = "-" if tried is None else f"{killed} of {tried}"
    return [*found, (mutants, "planted mistakes noticed", killed != tried)]


def _sum(value: Any) -> int:
    """A number, or what a mapping's values come to; a list counts its entries, or their states."""
    if isinstance(value, Mapping):
        return sum(value.values())
    if isinstance(value, list):
        return sum(each.get("states", 1) if isinstance(each, Mapping) else 1 for each in value)
    return int(value)


def parts_table(runs: Mapping[str, Evidence], now: Source) -> str:
    rows, classes = [], []
    for name in (*PARTS, SOAK):
        head = (
            f'<a href="#{name}">{escape(title(name))}</a>'
            if name in runs and section(runs[name])
            else escape(title(name))
        )
        head += f'<br><code class="soft">{escape(target(name))}</code>'
        if name not in runs:
            rows.append([head, '<span class="partial-word">NOT RUN</span>', "", "", ""])
            classes.append("")
            continue
        each = runs[name]
        word = each.verdict.upper() if each.verdict != PASSED else each.verdict
        text, is_older = age(each, now)
        aged = f'<span class="{"older" if is_older else "same"}">{escape(text)}</span>' if text else ""
        left_out = "".join(f'<span class="older">left out: {escape(what)}</span>' for what in each.left_out)
        when = escape(each.begun_at[:16].replace("T", " "))
        rows.append(
            [
                head,
                f'<span class="{WORDS[each.verdict]}">{escape(word)}</span>',
                f"{escape(each.line[:600])}{left_out}",
                f"{each.seconds:,.0f} s",
                f"{when}{aged}",
            ]
        )
        classes.append("failed" if each.verdict == FAILED else "")
    return table(["tool", "verdict", "what it says~", "time#", "when (UTC), of what"], rows, classes, "parts")


def goals_table(found: list[Goal]) -> str:
    rows = [
        [escape(goal.text), goal.wanted, goal.found, f'<span class="{GOAL_WORDS[goal.state]}">{goal.state}</span>']
        for goal in found
    ]
    return table(["", "wanted#", "shown#", ""], rows, ["failed" if goal.state == BROKEN else "" for goal in found])


def history_table(history: Sequence[Evidence]) -> str:
    newest = list(reversed(history))[:RUNS_SHOWN_MAX]
    rows = [
        [
            escape(each.begun_at[:19].replace("T", " ")),
            escape(each.part),
            f'<span class="{WORDS.get(each.verdict, "")}">{escape(each.verdict)}</span>',
            f"<code>{escape(each.source.name)}</code>",
            f"{each.seconds:,.0f} s",
            escape(each.line[:200]),
        ]
        for each in newest
    ]
    classes = ["failed" if each.verdict == FAILED else "" for each in newest]
    more = f"<p>{len(history) - len(newest)} older ones are in runs.jsonl.</p>" if len(history) > len(newest) else ""
    return table(["when (UTC)", "tool", "verdict", "source", "time#", "its last line~"], rows, classes) + more
