"""What each tool has to show, as HTML from its figures. A figure that is not there is left out, not made up."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from html import escape
from typing import Any

from evidence.proof.drawing import bars, chips, number, recovery, table
from evidence.proof.evidence import Evidence
from oncelog.core.transactions.transaction import MAY_FOLLOW, TransactionState
from oncelog.errors import ErrorCode

STATES = (
    TransactionState.EMPTY,
    TransactionState.ONGOING,
    TransactionState.PREPARE_COMMIT,
    TransactionState.PREPARE_ABORT,
    TransactionState.COMPLETE_COMMIT,
    TransactionState.COMPLETE_ABORT,
)
Figures = Mapping[str, Any]


def simulation(figures: Figures) -> str:
    """Seeds, faults by kind, the coordinator's table, the error table."""
    hours = figures.get("virtual seconds", 0) / 3600
    outcomes = ", ".join(f"{count:,} {name}" for name, count in figures.get("transactions", {}).items())
    return (
        f"<p>{number(figures.get('seeds', 0))} seeds over all profiles, {hours:.1f} simulated hours, "
        f"{number(figures.get('anomalies', 0))} anomalies. Transactions: {escape(outcomes)}.</p>"
        f"<h3>Faults injected, by kind</h3>{bars(figures.get('faults', {}), 'faults by kind')}"
        f"<h3>Steps of the coordinator's table</h3>{transitions(figures.get('steps', {}))}"
        f"<h3>Error codes of transactions</h3>{error_codes(figures)}"
    )


def transitions(steps: Mapping[str, int]) -> str:
    """From (rows) to (columns): how often each step of the table was taken; a legal one that was not stands out."""
    head = "<tr><th>from \\ to</th>" + "".join(f"<th>{state.name}</th>" for state in STATES) + "</tr>"
    body, missing = "", 0
    for before in STATES:
        cells = ""
        for after in STATES:
            count = steps.get(f"{before.name} -> {after.name}", 0)
            is_legal = before in MAY_FOLLOW[after]
            missing += is_legal and not count
            if is_legal:
                cells += f'<td class="hit">{count:,}</td>' if count else '<td class="gap">not reached</td>'
            else:
                cells += f'<td class="gap">{count:,} (illegal)</td>' if count else '<td class="none">·</td>'
        body += f"<tr><th>{before.name}</th>{cells}</tr>"
    legal = sum(before in MAY_FOLLOW[after] for before in STATES for after in STATES)
    word = (
        f'<span class="failed-word">{missing} not reached</span>' if missing else '<span class="ok">all reached</span>'
    )
    return f'<p>{legal} legal steps: {word}.</p><div class="scroll"><table class="grid">{head}{body}</table></div>'


def error_name(code: str | int) -> str:
    """Of a code or a name, as a summary has it."""
    text = str(code)
    try:
        return ErrorCode(int(text)).name
    except ValueError:
        return text


def _named(value: Any) -> dict[str, str]:
    """Names, and what is said of each: from a mapping or a list."""
    if isinstance(value, Mapping):
        return {error_name(key): f"{said:,}" if isinstance(said, int) else str(said) for key, said in value.items()}
    return {error_name(each): "" for each in value} if isinstance(value, list | tuple) else {}


def error_codes(figures: Figures) -> str:
    """Reached, missing, and those that this broker cannot give, with the reason."""
    given = _named(figures.get("error codes", {}))
    reached = {
        name: given.get(name, said) for name, said in _named(figures.get("error codes reached", [])).items()
    } or given
    missing = _named(figures.get("error codes missing", []))
    impossible = _named(figures.get("error codes impossible", []))
    parts = [f'<p>{len(reached)} reached, with how often:</p><div class="chips">{chips(reached)}</div>']
    if missing:
        parts.append(
            f'<p><span class="failed-word">{len(missing)} not reached</span> in this run (a short one cannot reach all):</p>'
            f'<div class="chips">{chips(missing, "failed")}</div>'
        )
    elif "error codes missing" in figures:
        parts.append('<p><span class="ok">None is missing.</span></p>')
    if impossible:
        parts.append(
            f'<p>{len(impossible)} that one node cannot give:</p><div class="chips">{chips(impossible, "grey")}</div>'
        )
    return "".join(parts)


def dual_writes(figures: Figures) -> str:
    counts = {str(name): count for name, count in figures.get("counts", {}).items()}
    return (
        f"<p>{number(figures.get('seeds', 0))} seeds, {number(figures.get('divergences', 0))} divergences "
        "between database and log.</p>" + bars(counts, "what happened in simulated dual writes")
    )


def model(figures: Figures) -> str:
    rows, classes = [], []
    for each in figures.get("searches", []):
        found = each["violation"] or ("nothing found" if each["is complete"] else "nothing found, NOT COMPLETE")
        expected = f"violation of {each['expected violation']}" if each["expected violation"] else "nothing"
        word = '<span class="failed-word">NOT SO</span>' if each["is wrong"] else '<span class="ok">as expected</span>'
        numbers = [number(each[key]) for key in ("states", "transitions", "ends", "depth")]
        rows.append([escape(each["name"]), *numbers, f"{each['seconds']:.0f} s", expected, escape(found), word])
        classes.append("failed" if each["is wrong"] else "")
    heads = ["search", "states#", "transitions#", "ends#", "deep#", "time#", "to be found", "found~", ""]
    return (
        "<p>Every order of events within the limits, over the real functions of core/. The old protocol must show "
        "KAFKA-17754.</p>" + table(heads, rows, classes)
    )


def mutants(figures: Figures) -> str:
    rows, classes = [], []
    for each in figures.get("mutants", []):
        killer = each["killed by"]
        word = f"<code>{escape(killer)}</code>" if killer else '<span class="failed-word">SURVIVES</span>'
        rows.append([escape(each["name"]), f"<code>{escape(each['file'])}</code>", word])
        classes.append("" if killer else "failed")
    said = f"<p>{figures.get('killed', 0)} of {len(rows)} planted mistakes were noticed, each by the first that failed.</p>"
    return said + table(["mistake", "file", "killed by~"], rows, classes)


def crash_points(figures: Figures) -> str:
    points: dict[str, dict[str, int]] = {}
    for name, count in figures.get("by operation and moment", {}).items():
        operation, _, moment = name.rpartition(" ")
        points.setdefault(operation, {})[moment] = count
    moments = ("before", "middle", "after")
    rows = [
        [escape(operation), *(number(found.get(moment, 0)) for moment in moments), number(sum(found.values()))]
        for operation, found in sorted(points.items(), key=lambda item: -sum(item[1].values()))
    ]
    failures = "".join(f"<p class='failed-word'>{escape(text)}</p>" for text in figures.get("failures", []))
    return (
        f"<p>{number(figures.get('crash points', 0))} power cuts, {number(figures.get('starts', 0))} starts, "
        f"{number(figures.get('acknowledged records compared', 0))} acknowledged records compared, "
        f"{number(figures.get('failure count', 0))} failures.</p>{failures}"
        + table(["operation cut", "before#", "in the middle#", "after#", "all#"], rows)
        + '<div class="two"><div><h3>Cuts by file</h3>'
        + bars(figures.get("by file", {}), "crash points by file")
        + "</div><div><h3>Operations that failed instead</h3>"
        + bars(figures.get("failing operations", {}), "failing operations")
        + "</div></div>"
    )


def kills(figures: Figures) -> str:
    done = ", ".join(f"{count:,} {name}" for name, count in figures.get("episodes", {}).items())
    outcome = ", ".join(
        f"{number(figures.get(name, 0))} {name}"
        for name in (
            "acknowledged records",
            "committed",
            "aborted",
            "unknown",
            "lost",
            "duplicated",
            "aborted visible",
            "torn",
            "open",
        )
    )
    problems = "".join(f"<p class='failed-word'>{escape(text)}</p>" for text in figures.get("problems", []))
    seconds = figures.get("recovery s", [])
    return (
        f"<p>{escape(done)}: {number(figures.get('anomalies', 0))} anomalies. {escape(outcome)}. "
        f"Seed {figures.get('seed')}.</p>{problems}"
        f"<h3>{len(seconds)} recoveries: from the start of the process to the first acknowledged record</h3>"
        + recovery(seconds, "times of recovery")
    )


def compaction(figures: Figures) -> str:
    names = {
        "cleanings": "cleanings",
        "kills": "SIGKILLs",
        "rounds": "views compared",
        "committed": "committed and",
        "aborted": "aborted transactions",
        "segments": "cleaned segments,",
        "dumped": "of them read by Apache Kafka's own tool",
    }
    said = ", ".join(f"{number(figures.get(name, 0))} {word}" for name, word in names.items())
    said = said.replace(" and,", " and").replace(",,", ",")
    problems = "".join(f"<p class='failed-word'>{escape(text)}</p>" for text in figures.get("problems", []))
    return f"<p>{said}; {len(figures.get('problems', []))} problems.</p>{problems}"


def fuzz(figures: Figures) -> str:
    texts = "".join(f"<p class='failed-word'>{escape(text)}</p>" for text in figures.get("finding texts", []))
    return (
        f"<p>{number(figures.get('inputs', 0))} inputs, {number(figures.get('findings', 0))} findings, slowest step "
        f"{number(figures.get('slowest step ms', 0))} ms, memory growth "
        f"{figures.get('memory growth bytes', 0) / 2**20:.1f} MiB.</p>{texts}"
        + bars(figures.get("by target", {}), "inputs by target")
    )


def soak(figures: Figures) -> str:
    finding = figures.get("finding")
    alarm = (
        f'<div class="alarm"><b>Found by {escape(finding["step"])}</b><p>again with <code>{escape(finding["again"])}</code>; '
        f"kept in <code>{escape(finding['kept'])}</code></p></div>"
        if finding
        else ""
    )
    counts = {name: value for name, value in figures.items() if isinstance(value, int) and name != "first seed"}
    said = ", ".join(f"{count:,} {name}" for name, count in counts.items())
    seconds = figures.get("recovery s", [])
    chart = f"<h3>{len(seconds)} recoveries</h3>{recovery(seconds, 'times of recovery')}" if seconds else ""
    return (
        f"{alarm}<p>Seeds from {figures.get('first seed')}: {escape(said)}.</p>"
        f"<h3>Faults of the whole soak</h3>{bars(figures.get('faults', {}), 'faults of the soak')}{chart}"
    )


SECTIONS: dict[str, Callable[[Figures], str]] = {
    "sim": simulation,
    "sim-dual-writes": dual_writes,
    "model": model,
    "mutants": mutants,
    "power": crash_points,
    "crash": kills,
    "chaos": kills,
    "compaction": compaction,
    "fuzz": fuzz,
    "soak": soak,
}


def section(evidence: Evidence) -> str:
    """What a run has to show beside its line in the table; "" where it has no figures."""
    show = SECTIONS.get(evidence.part)
    return show(evidence.figures) if show is not None and evidence.figures else ""
