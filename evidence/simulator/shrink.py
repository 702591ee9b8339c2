"""Makes a run that fails smaller: fewer kinds of faults, fewer clients, fewer single faults, the same kind of finding.

Greedy: whatever can be left out, so that the same checker still complains and less happens, is left out for good. Bounded
by runs and by time; what is found then is repeated by one line.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace

from evidence.simulator.changes import changes_between
from evidence.simulator.faults import FaultOptions, calm, draw
from evidence.simulator.simulation import Verdict, run_seed
from evidence.world.network import NetworkFaults

RUNS_MAX = 200
SECONDS_MAX = 120.0
COUNTS = ("clients", "old_clients", "two_phase_clients", "operations")
KEPT = {
    "profile",
    "seconds",
    "network",
    "groups",
    "strangers",
    "skipped",
    "knobs",
    "first_epoch",
    "transaction_version",
    *COUNTS,
}
Candidates = Iterator[FaultOptions]


@dataclass
class Shrunk:
    """The smallest run found, and how many were tried. `first_event_count`: of the run it began with."""

    verdict: Verdict
    options: FaultOptions
    first_event_count: int
    run_count: int


class _Shrinking:
    def __init__(self, verdict: Verdict, options: FaultOptions, runs_max: int, seconds_max: float) -> None:
        self.verdict, self.options = verdict, options
        self.drawn = draw(int(verdict.seed), verdict.profile)
        self.checkers = {finding.checker for finding in verdict.findings}
        self.runs_left, self.ends = runs_max, time.monotonic() + seconds_max
        self.run_count = 0

    @property
    def is_over(self) -> bool:
        return self.runs_left <= 0 or time.monotonic() >= self.ends

    def attempt(self, options: FaultOptions) -> bool:
        """Whether this run is smaller and fails alike; then it is the one to go on with."""
        if self.is_over or options == self.options:
            return False
        self.runs_left -= 1
        self.run_count += 1
        verdict = run_seed(int(self.verdict.seed), self.verdict.profile, options=options)
        if verdict.event_count >= self.verdict.event_count:
            return False
        if not self.checkers & {finding.checker for finding in verdict.findings}:
            return False
        verdict.changes = changes_between(self.drawn, options)
        self.verdict, self.options = verdict, options
        return True

    def any_of(self, candidates: Callable[[FaultOptions], Candidates]) -> bool:
        """Try all; whether one was taken. Each begins from the best so far."""
        taken = False
        for number in range(sum(1 for _ in candidates(self.options))):
            left = list(candidates(self.options))
            taken |= number < len(left) and self.attempt(left[number])
        return taken

    def leave_out_faults(self) -> bool:
        """Single faults, many at once first."""
        taken, size = False, max(len(self.verdict.events) // 2, 1)
        while not self.is_over:
            start = 0
            while start < len(self.verdict.events) and not self.is_over:
                names = self.verdict.events[start : start + size]
                skipped = tuple(dict.fromkeys([*self.options.skipped, *names]))
                if self.attempt(replace(self.options, skipped=skipped)):
                    taken = True
                else:
                    start += size
            if size == 1:
                break
            size //= 2
        return taken


def shrink(
    verdict: Verdict,
    options: FaultOptions | None = None,
    *,
    runs_max: int = RUNS_MAX,
    seconds_max: float = SECONDS_MAX,
) -> Shrunk:
    """`verdict` has findings; `options` are those of its run, where they are not what the seed draws."""
    assert verdict.findings
    begun = options or draw(int(verdict.seed), verdict.profile)
    shrinking = _Shrinking(verdict, begun, runs_max, seconds_max)
    again = True
    while again and not shrinking.is_over:
        again = shrinking.any_of(_without_parts)
        again |= shrinking.any_of(_without_kinds)
        again |= shrinking.any_of(_with_fewer)
        again |= shrinking.leave_out_faults()
    return Shrunk(shrinking.verdict, shrinking.options, verdict.event_count, shrinking.run_count)


def _without_parts(options: FaultOptions) -> Candidates:
    """All knobs, half of them, each of them; all strangers, each of them, each group."""
    size = len(options.knobs)
    while size > 0:
        for start in range(0, len(options.knobs), size):
            yield replace(options, knobs=options.knobs[:start] + options.knobs[start + size :])
        size //= 2
    if options.strangers:
        yield replace(options, strangers=())
    for kind in options.strangers:
        yield replace(options, strangers=tuple(each for each in options.strangers if each != kind))
    if len(options.groups) > 1:
        for place in range(len(options.groups)):
            yield replace(options, groups=options.groups[:place] + options.groups[place + 1 :])
    if len(options.sharers) > 1:
        for place in range(len(options.sharers)):
            yield replace(options, sharers=options.sharers[:place] + options.sharers[place + 1 :])


def _without_kinds(options: FaultOptions) -> Candidates:
    """Each kind of fault, and each setting, as in a calm run."""
    quiet = calm()
    for each in fields(NetworkFaults):
        if getattr(options.network, each.name) != getattr(quiet.network, each.name):
            yield replace(options, network=replace(options.network, **{each.name: getattr(quiet.network, each.name)}))
    for option in fields(FaultOptions):
        if option.name not in KEPT and getattr(options, option.name) != getattr(quiet, option.name):
            yield replace(options, **{option.name: getattr(quiet, option.name)})


def _with_fewer(options: FaultOptions) -> Candidates:
    """Fewer clients, fewer operations of each."""
    for name in COUNTS:
        least = 0 if name.endswith("_clients") else 1
        for value in _smaller(getattr(options, name), least):
            yield replace(options, **{name: value})


def _smaller(value: int, least: int) -> Sequence[int]:
    return tuple(dict.fromkeys(each for each in (least, value // 2, value - 1) if least <= each < value))
