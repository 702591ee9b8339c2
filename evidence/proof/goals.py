"""What the project set itself to show, beside what the recorded runs show: met, not met, or not run as large as that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from evidence.crash.recovery import RECOVERY_LIMIT_S, percentile
from evidence.proof.evidence import Evidence

MET, SHORT, BROKEN, NOT_RUN = "met", "smaller run", "NOT MET", "not run"
MIB = 2**20


@dataclass(frozen=True)
class Goal:
    """One line: what is wanted, what there is."""

    text: str
    wanted: str
    found: str
    state: str


def at_least(text: str, wanted: int, found: int | None) -> Goal:
    """A size of a run: less is a smaller run, nothing worse."""
    state = NOT_RUN if found is None else MET if found >= wanted else SHORT
    return Goal(text, f"≥ {wanted:,}", "" if found is None else f"{found:,}", state)


def at_most(text: str, wanted: float, found: float | None, unit: str = "") -> Goal:
    """A limit: more is a broken promise."""
    state = NOT_RUN if found is None else MET if found <= wanted else BROKEN
    sign = "" if wanted == 0 else "≤ "
    return Goal(text, f"{sign}{wanted:g}{unit}", "" if found is None else f"{found:g}{unit}", state)


def reached(text: str, missing: Any, seeds: int) -> Goal:
    """Coverage: a small run need not have all of it."""
    if missing is None:
        return Goal(text, "all", "", NOT_RUN)
    count = missing if isinstance(missing, int) else len(missing)
    state = MET if not count else BROKEN if seeds >= 5000 else SHORT
    return Goal(text, "all", f"{count} missing" if count else "all", state)


def goals(runs: Mapping[str, Evidence]) -> Iterator[Goal]:
    """`runs`: by part, those that came to an end."""

    def figures(part: str) -> Mapping[str, Any]:
        return runs[part].figures if part in runs else {}

    yield from _simulated(figures("sim"))
    mutants = figures("mutants")
    yield at_least("planted mistakes noticed", 38, mutants.get("killed"))
    yield from _searched(figures("model"))
    power = figures("power")
    yield at_least("crash points", 20_000, power.get("crash points"))
    yield at_most("crash points at which something was lost, exposed or changed", 0, power.get("failure count"))
    yield from _real([figures("crash"), figures("chaos")])
    fuzz = figures("fuzz")
    yield at_least("hostile inputs", 5_000_000, fuzz.get("inputs"))
    yield at_most("findings of hostile input", 0, fuzz.get("findings"))
    yield at_most("slowest step", 1000, fuzz.get("slowest step ms"), " ms")
    growth = fuzz.get("memory growth bytes")
    yield at_most("memory growth", 64, None if growth is None else round(growth / MIB, 1), " MiB")


def _simulated(sim: Mapping[str, Any]) -> Iterator[Goal]:
    seeds = sim.get("seeds", 0)
    yield at_least("simulated seeds over all profiles", 5000, sim.get("seeds"))
    yield at_most("anomalies in them", 0, sim.get("anomalies"))
    yield reached("steps of the coordinator's table", sim.get("transitions missing"), seeds)
    yield reached("error codes that this broker can give", sim.get("error codes missing"), seeds)


def _searched(model: Mapping[str, Any]) -> Iterator[Goal]:
    searches = model.get("searches")
    yield at_most(
        "searches of the model with an unexpected end",
        0,
        None if searches is None else sum(each["is wrong"] for each in searches),
    )
    slowest = max((each["seconds"] for each in searches), default=0.0) if searches else None
    yield at_most("the longest search", 600, slowest, " s")
    left = None if searches is None else sum(text.startswith("search ") for text in model.get("left out", ()))
    state = NOT_RUN if left is None else SHORT if left else MET
    yield Goal("searches", "all", "" if left is None else f"{left} left out" if left else "all", state)


def _real(both: list[Mapping[str, Any]]) -> Iterator[Goal]:
    """SIGKILLs count wherever they were done."""
    known = [each for each in both if each]

    def episodes(name: str) -> int | None:
        return sum(each.get("episodes", {}).get(name, 0) for each in known) if known else None

    yield at_least("SIGKILLs of the broker under load", 300, episodes("kills of the broker"))
    yield at_least("SIGKILLs of clients", 100, episodes("kills of clients"))
    yield at_least("network cuts", 50, episodes("network cuts"))
    yield at_least("full disks", 20, episodes("full disks"))
    yield at_most("anomalies in what they left", 0, sum(each.get("anomalies", 0) for each in known) if known else None)
    times = [second for each in known for second in each.get("recovery s", ())]
    yield at_most("recovery, p99", RECOVERY_LIMIT_S, round(percentile(times, 0.99), 2) if times else None, " s")
