"""`make soak`: simulated clusters, kills, chaos and hostile input in turns, with new seeds, until the time or a promise is over.

Every seed follows from the first one, which follows from the date and the commit and is printed. The first anomaly ends
it, and what that run left (data directories, journals, logs) is moved aside before anything can write over it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import pathlib
import shutil
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from evidence.proof.child import Child
from evidence.proof.evidence import (
    FAILED,
    FOLDER,
    INTERRUPTED,
    PASSED,
    ROOT,
    RUNNING,
    Evidence,
    git,
    machine,
    replace,
    save,
    source_now,
)
from evidence.proof.run import recorded, say

MINUTE_S = 60.0
STEP_TIMEOUT_S = 3600.0
RECOVERIES_MAX = 5000
SEEDS_OF_A_STEP = 40
FOUND = "FAILED; again with"  # a simulation says so at once, its last line comes much later


@dataclass(frozen=True)
class Step:
    """One tool with a seed: what `python` is given, and where it leaves what a finding needs."""

    name: str
    command: Callable[[int], str]
    leaves: str = ""  # below build/


STEPS: Mapping[str, Step] = {
    step.name: step
    for step in (
        Step("sim", lambda seed: f"-m evidence.simulator --no-shrink --first {seed} --seeds {SEEDS_OF_A_STEP}"),
        Step(
            "chaos",
            lambda seed: (
                f"-m evidence.chaos --cuts 3 --full-disks 1 --broker-kills 2 --client-kills 4 --pauses 1 --clock-steps 2"
                f" --seed {seed}"
            ),
            "chaos",
        ),
        Step(
            "sim-dual-writes", lambda seed: f"-m evidence.dual_writes.simulate --first {seed} --seeds {SEEDS_OF_A_STEP}"
        ),
        Step("crash", lambda seed: f"-m evidence.crash --kills 8 --seed {seed}", "crash"),
        Step("fuzz", lambda seed: f"-m evidence.fuzz --seconds 30 --seed {seed}", "fuzz"),
    )
}


@dataclass
class Totals:
    """What all steps together did."""

    steps: Counter[str] = field(default_factory=Counter)
    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    recovery_s: list[float] = field(default_factory=list)

    def add(self, step: str, figures: Mapping[str, Any]) -> None:
        """One step's figures."""
        self.steps[step] += 1
        counts, get = self.counts, figures.get
        if step == "sim":
            counts["simulated seeds"] += get("seeds", 0)
            counts["simulated seconds"] += get("virtual seconds", 0)
            counts["anomalies"] += get("anomalies", 0)
            self.faults.update({f"simulated: {name}": count for name, count in get("faults", {}).items()})
        elif step == "sim-dual-writes":
            counts["simulated dual-write seeds"] += get("seeds", 0)
            counts["anomalies"] += get("divergences", 0)
        elif step == "fuzz":
            counts["hostile inputs"] += get("inputs", 0)
            counts["findings"] += get("findings", 0)
        else:
            counts["acknowledged records"] += get("acknowledged records", 0)
            counts["committed transactions"] += get("committed", 0)
            counts["anomalies"] += get("anomalies", 0)
            self.faults.update(get("episodes", {}))
            self.recovery_s = (self.recovery_s + list(get("recovery s", ())))[-RECOVERIES_MAX:]

    def figures(self) -> dict[str, Any]:
        return {
            "steps": dict(self.steps),
            **{name: self.counts[name] for name in sorted({*self.counts, "anomalies", "findings"})},
            "faults": dict(self.faults),
            "recovery s": self.recovery_s,
        }

    def line(self) -> str:
        counts = self.counts
        kills = self.faults["kills of the broker"] + self.faults["kills of clients"]
        return (
            f"{counts['simulated seeds']:,} simulated seeds, {counts['simulated dual-write seeds']:,} of dual writes, "
            f"{kills:,} kills, {self.faults['network cuts']:,} cuts, {self.faults['full disks']:,} full disks, "
            f"{counts['acknowledged records']:,} acknowledged records, {counts['hostile inputs']:,} hostile inputs: "
            f"{counts['anomalies']} anomalies, {counts['findings']} findings"
        )


def first_seed(given: int | None) -> int:
    """The one that was asked for, else one of this day and commit."""
    if given is not None:
        return given
    day = dt.datetime.now(dt.UTC).date().isoformat()
    digest = hashlib.sha256(f"{day} {git('rev-parse', 'HEAD')}".encode()).digest()
    return int.from_bytes(digest[:4]) % 900_000_000 + 100_000


class Soak:
    """One soak of `seconds`; `steps` in turn, over and over."""

    def __init__(
        self,
        seconds: float,
        seed: int,
        *,
        only: str = "",
        steps: Mapping[str, Step] = STEPS,
        folder: pathlib.Path = FOLDER,
        build: pathlib.Path = ROOT / "build",
    ) -> None:
        self._seconds, self._seed, self._folder, self._build = seconds, seed, folder, build
        self._steps = [steps[name] for name in only.split(",")] if only else list(steps.values())
        self._totals = Totals()
        self._evidence = Evidence("soak", f"make soak SECONDS={seconds:g} SEED={seed}", source_now(), machine=machine())

    def run(self) -> Evidence:
        """Until the time is over, something is found, or Ctrl-C."""
        evidence = self._evidence
        evidence.begun_at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
        evidence.verdict = RUNNING
        self._begun = self._said_at = time.monotonic()
        say(f"soak: {self._seconds:g} s, seeds from {self._seed}; again with: {evidence.command}")
        turn, seed = 0, self._seed
        with contextlib.suppress(KeyboardInterrupt):
            while evidence.verdict == RUNNING and self._elapsed_s() < self._seconds:
                self._one(self._steps[turn % len(self._steps)], seed)
                turn += 1
                seed += SEEDS_OF_A_STEP if turn % len(self._steps) == 0 else 0
        if evidence.verdict == RUNNING:
            evidence.verdict = PASSED if self._elapsed_s() >= self._seconds else INTERRUPTED
        self._note()
        evidence.line += {INTERRUPTED: f"; ended by hand after {self._elapsed_s():.0f} s"}.get(evidence.verdict, "")
        if not save(evidence, self._folder):
            say("soak: a longer one of this source stays the one that counts")
        return evidence

    def _one(self, step: Step, seed: int) -> None:
        arguments = [*step.command(seed).split(), "--json", "{json}"]
        words: list[str] = []

        def told(line: str, is_error: bool) -> None:
            if FOUND in line:
                words.append(line.strip())

        found = recorded(
            f"soak-{step.name}",
            arguments,
            folder=self._folder,
            timeout_s=STEP_TIMEOUT_S,
            told=told,
            beat=lambda child: self._minute(step, child),
            keep=False,
        )
        if found.verdict == INTERRUPTED and not words:
            raise KeyboardInterrupt
        self._totals.add(step.name, found.figures)
        self._note()
        if found.verdict == FAILED or words:
            found.line = "; ".join([*words[:3], found.line]) if words else found.line
            self._evidence.verdict = FAILED
            kept = self._keep(step, found)
            self._evidence.figures["finding"] = {"step": step.name, "again": found.command, "kept": kept}
            self._evidence.line += f"; {step.name} FAILED: {found.line}; again with: {found.command}; kept: {kept}"
            say(f"soak: FOUND by {step.name}: {found.line}\n  again with: {found.command}\n  kept: {kept}")
        else:
            replace(self._evidence, self._folder)

    def _keep(self, step: Step, found: Evidence) -> str:
        """Move what the step left out of the next run's way."""
        kept = self._build / "soak-findings" / f"{step.name}-{found.begun_at.replace(':', '')[:17]}"
        kept.mkdir(parents=True, exist_ok=True)
        shutil.copy(self._folder / found.log, kept / "words.log")
        if step.leaves and (self._build / step.leaves).exists():
            (self._build / step.leaves).rename(kept / step.leaves)
        return str(kept)

    def _note(self) -> None:
        evidence = self._evidence
        evidence.seconds = round(self._elapsed_s(), 1)
        finding = {key: evidence.figures[key] for key in ("finding",) if key in evidence.figures}
        evidence.figures = {"first seed": self._seed, **self._totals.figures(), **finding}
        if evidence.verdict != FAILED:
            evidence.line = self._totals.line()

    def _minute(self, step: Step, child: Child) -> None:
        """A line per minute: the totals, and what is running."""
        if time.monotonic() - self._said_at >= MINUTE_S:
            self._said_at = time.monotonic()
            now = dt.timedelta(seconds=round(self._elapsed_s()))
            say(f"soak: {now}: {self._totals.line()}; now {step.name}: {child.last_word[:60]}")

    def _elapsed_s(self) -> float:
        return time.monotonic() - self._begun
