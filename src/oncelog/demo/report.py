"""The HTML report: verdict, timeline with the kills drawn in, delays by carrier. One file, no network, light and dark."""

from __future__ import annotations

import contextlib
import pathlib
import sqlite3
from collections.abc import Sequence
from html import escape
from typing import Any

from oncelog.demo.chart import Lane, Span, bars, timeline
from oncelog.demo.flights import read_airlines
from oncelog.lazy_dataclass import dataclass

STYLE = """
:root { --ink:#1b1f24; --soft:#5c6670; --page:#ffffff; --card:#f5f6f8; --line:#d9dde2; --ok:#1a7f4b; --bad:#c0292b;
  --stable:#2466b8; --visible:#2466b82e; --held:#d9822b66; --high:#8a939c; --kill:#c0292b; --commit:#2e9e6b; --abort:#d9822b;
  --bar:#2466b8; --early:#2e9e6b; }
@media (prefers-color-scheme: dark) { :root { --ink:#e8eaed; --soft:#a3adb8; --page:#14171b; --card:#1d2127; --line:#343b44;
  --ok:#4cc38a; --bad:#ff6b6b; --stable:#6aa9ff; --visible:#6aa9ff33; --held:#f0a35e66; --high:#7d8792; --kill:#ff6b6b;
  --commit:#4cc38a; --abort:#f0a35e; --bar:#6aa9ff; --early:#4cc38a; } }
* { box-sizing:border-box } body { margin:0; background:var(--page); color:var(--ink); font:16px/1.5 system-ui,sans-serif }
main { max-width:1080px; margin:0 auto; padding:32px 20px 60px } h1 { font-size:28px; margin:0 0 4px } h2 { font-size:20px; margin:40px 0 8px }
p { margin:6px 0 14px; color:var(--soft); max-width:75ch } .verdict { display:inline-block; padding:3px 14px; border-radius:999px;
  color:var(--page); background:var(--ok); font-weight:600 } .verdict.wrong { background:var(--bad) }
.facts { display:grid; grid-template-columns:repeat(auto-fit,minmax(150px,1fr)); gap:12px; margin:22px 0 }
.fact { background:var(--card); border:1px solid var(--line); border-radius:8px; padding:12px 14px } .fact b { display:block; font-size:24px }
.fact span { color:var(--soft); font-size:14px } table { border-collapse:collapse; width:100%; font-variant-numeric:tabular-nums }
th,td { text-align:left; padding:6px 10px; border-bottom:1px solid var(--line) } td.n,th.n { text-align:right }
.ok { color:var(--ok); font-weight:600 } .wrong { color:var(--bad); font-weight:600 }
svg { width:100%; height:auto; display:block } svg text { font:12px system-ui,sans-serif; fill:var(--ink) } .label { font-size:13px }
.tick { fill:var(--soft) !important } .lane { fill:var(--card) } .visible { fill:var(--visible) } .held { fill:var(--held) }
.stable { fill:none; stroke:var(--stable); stroke-width:2 } .high { fill:none; stroke:var(--high); stroke-width:1; stroke-dasharray:3 3 }
.kill { stroke:var(--kill); stroke-width:1.5; stroke-dasharray:5 3 } .kill-name { fill:var(--kill) !important; font-weight:600 }
.span.committed,.span.batch { fill:var(--commit) } .span.aborted { fill:var(--abort) } .span.killed { fill:var(--kill) } .span { opacity:.85 }
.bar { fill:var(--bar) } .bar.early { fill:var(--early) } .scroll { overflow-x:auto } .scroll svg { min-width:760px }
.key i { display:inline-block; width:12px; height:12px; border-radius:2px; margin:0 6px 0 16px; vertical-align:-1px } .key { color:var(--soft); font-size:14px }
"""


@dataclass(frozen=True)
class AirlineDelay:
    """One row of the delay table."""

    airline: str
    flights: int
    delayed_share: float
    mean_delay: float


def airline_delays(database: pathlib.Path) -> list[AirlineDelay]:
    """By carrier, the most delayed first; read from the database that the job wrote."""
    names = read_airlines()
    with contextlib.closing(sqlite3.connect(database)) as connection:
        rows = connection.execute(
            "SELECT carrier, sum(flights), sum(delayed_flights), sum(delay_minutes) FROM delay_totals GROUP BY carrier"
        ).fetchall()
    found = [AirlineDelay(names.get(c, c), n, late / n, minutes / n) for c, n, late, minutes in rows]
    return sorted(found, key=lambda row: -row.mean_delay)


def write_report(
    folder: pathlib.Path,
    result: dict[str, Any],
    events: Sequence[dict[str, Any]],
    samples: Sequence[dict[str, Any]],
    started_ms: int,
) -> list[AirlineDelay]:
    """Write report.html; returns the delays, the most delayed airline first."""
    delays = airline_delays(folder / "demo.sqlite3")
    chart = _chart(events, samples, started_ms, result["seconds"])
    bar_rows = [
        (d.airline, d.mean_delay, f"{d.mean_delay:.1f} min, {d.delayed_share:.0%} late, {d.flights:,} flights")
        for d in delays
    ]
    page = f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>oncelog: flights, exactly once</title><style>{STYLE}</style><main>
<h1>Flights, exactly once</h1>
<p>{result["input_records"]:,} flights through a log, a Spark job and a database, with processes killed on the way.</p>
<span class="verdict {"" if result["verdict"] == "exact" else "wrong"}">verdict: {escape(result["verdict"])}</span>
<div class="facts">{_facts(result)}</div>
<h2>What was compared</h2>
<p>The check reads the log and the database anew and knows the source data; it trusts nothing that the job said.</p>
<table><tr><th>check</th><th class="n">expected</th><th class="n">found</th><th></th></tr>{_checks(result)}</table>
<h2>What happened when</h2>
<p>Loader transactions and micro-batches above; below, each partition: what readers may see (up to the last stable offset), what
an undecided transaction still holds back, under it the transactions or micro-batches that wrote there; the kills go through all.</p>
<p class="key"><i style="background:var(--commit)"></i>committed<i style="background:var(--abort)"></i>aborted on purpose
<i style="background:var(--kill)"></i>killed<i style="background:var(--visible)"></i>visible<i style="background:var(--held)"></i>held back</p>
<div class="scroll">{chart}</div>
<h2>Mean arrival delay by airline</h2><p>From the totals in the database; negative is early.</p>
<div class="scroll">{bars(bar_rows, "mean arrival delay by airline")}</div></main></html>
"""
    (folder / "report.html").write_text(page)
    return delays


def _facts(result: dict[str, Any]) -> str:
    facts = [
        (f"{result['output_records']:,}", "flights enriched"),
        (str(result["duplicates"]), "duplicates"),
        (str(result["losses"]), "losses"),
        (
            f"{result['driver_kills']} + {result['broker_kills']} + {result['loader_kills']}",
            "kills: driver, broker, loader",
        ),
        (
            f"{result['raw_output_records'] - result['output_records']:,}",
            "output records aborted on the way, seen by nobody",
        ),
        (f"{result['seconds']:.0f} s", "from start to verdict"),
    ]
    return "".join(
        f'<div class="fact"><b>{escape(value)}</b><span>{escape(name)}</span></div>' for value, name in facts
    )


def _checks(result: dict[str, Any]) -> str:
    rows = []
    for check in result["checks"]:
        holds = check["expected"] == check["found"]
        mark = '<td class="ok">ok</td>' if holds else '<td class="wrong">WRONG</td>'
        rows.append(
            f'<tr><td>{escape(check["name"])}</td><td class="n">{check["expected"]:,}</td><td class="n">{check["found"]:,}</td>{mark}</tr>'
        )
    return "".join(rows)


def _chart(events: Sequence[dict[str, Any]], samples: Sequence[dict[str, Any]], started_ms: int, seconds: float) -> str:
    def at(time_ms: int) -> float:
        return (time_ms - started_ms) / 1000

    transactions = [
        Span(at(e["begun_ms"]), at(e["time_ms"]), e["outcome"], f"{e['rows']:,} flights {e['outcome']}")
        for e in events
        if e.get("event") == "transaction"
    ]
    batches = [
        Span(at(e["begun_ms"]), at(e["time_ms"]), "batch", f"micro-batch {e['batch_id']}")
        for e in events
        if e.get("event") == "batch"
    ]
    kills = [(at(e["time_ms"]), str(e["what"])) for e in events if e.get("event") == "kill"]
    names = sorted({name for sample in samples for name in sample["high"]})
    lanes = [
        Lane(
            n,
            [(at(s["time_ms"]), s["stable"][n], s["high"][n]) for s in samples if n in s["high"]],
            batches if n.startswith("flights.enriched-") else transactions,
        )
        for n in names
    ]
    return timeline({"loader": transactions, "micro-batches": batches}, lanes, kills, seconds)
