"""The evidence tools: what each is asked in a short profile (ten minutes together) and in a full one (hours)."""

from __future__ import annotations

from dataclasses import dataclass

PROFILES = ("short", "full")


@dataclass(frozen=True)
class Part:
    """One tool. Commands are what `python` is given; `{json}` stands for where its figures go."""

    name: str
    title: str
    target: str  # of make
    short: tuple[str, ...]
    full: tuple[str, ...]
    seconds: tuple[int, int]  # about how long each takes on two cores

    def command(self, profile: str) -> tuple[str, ...]:
        return self.short if profile == "short" else self.full

    def expected_s(self, profile: str) -> int:
        return self.seconds[PROFILES.index(profile)]


def _part(name: str, title: str, target: str, module: str, short: str, full: str, seconds: tuple[int, int]) -> Part:
    json = "" if module in WITHOUT_FIGURES else " --json {json}"
    return Part(
        name,
        title,
        target,
        ("-m", *f"{module} {short}{json}".split()),
        ("-m", *f"{module} {full}{json}".split()),
        seconds,
    )


WITHOUT_FIGURES = ("pytest", "evidence.compat.conformance")  # they have their closing line only
CHECKER = "-q -p no:randomly tests/checker"
SCENARIOS = "-q -p no:randomly tests/scenarios"
PARTS: dict[str, Part] = {
    part.name: part
    for part in (
        _part(
            "sim",
            "Simulated clusters",
            "make sim",
            "evidence.simulator",
            "--seeds 200",
            "--seeds 5000",
            (100, 3600),
        ),
        _part(
            "sim-dual-writes",
            "Simulated dual writes",
            "make sim-dual-writes",
            "evidence.dual_writes.simulate",
            "--seeds 200",
            "--seeds 2000",
            (30, 300),
        ),
        _part(
            "model",
            "The model, every order of events",
            "make model",
            "evidence.model",
            "--only TV1 --only 2PC --only leader",
            "--seconds 1200",
            (30, 900),
        ),
        _part(
            "mutants",
            "Planted mistakes",
            "make mutants",
            "evidence.mutants",
            "--stages 1 --count 2",
            "",
            (90, 5400),
        ),
        _part(
            "power",
            "Crash points and failing operations",
            "make power",
            "evidence.crash.points",
            "--points 300",
            "--points 20000",
            (60, 1500),
        ),
        _part(
            "crash", "SIGKILLs of the broker", "make crash", "evidence.crash", "--kills 10", "--kills 300", (60, 1500)
        ),
        _part(
            "damaged-starts",
            "Starts of damaged directories",
            "make damaged-starts",
            "evidence.damaged_starts",
            "--seeds 150",
            "--seeds 3000 --every",
            (30, 600),
        ),
        _part(
            "chaos",
            "Kills, cuts, pauses, full disks, clock steps",
            "make chaos",
            "evidence.chaos",
            "--cuts 6 --full-disks 2 --broker-kills 3 --client-kills 6 --pauses 2 --clock-steps 4",
            "",
            (90, 1500),
        ),
        _part(
            "compaction",
            "Cleaning under kills",
            "make compaction",
            "evidence.compaction",
            "--cleanings 10",
            "--cleanings 100",
            (40, 400),
        ),
        _part("fuzz", "Hostile input", "make fuzz", "evidence.fuzz", "--seconds 90", "--seconds 1800", (95, 1830)),
        _part(
            "conformance",
            "Apache Kafka's answers and clients",
            "make conformance",
            "evidence.compat.conformance",
            "",
            "",
            (0, 1800),
        ),
        _part("checker", "The checker's own calibration", "pytest tests/checker", "pytest", CHECKER, CHECKER, (10, 10)),
        _part(
            "scenarios",
            "Named scenarios, upstream's bugs among them",
            "pytest tests/scenarios",
            "pytest",
            SCENARIOS,
            SCENARIOS,
            (60, 60),
        ),
        _part(
            "conversations",
            "Recorded conversations with Apache Kafka",
            "pytest evidence/differential",
            "pytest",
            "-q evidence/differential",
            "-q evidence/differential",
            (60, 60),
        ),
    )
}
NOT_IN = {"short": ("conformance",), "full": ()}


def parts_of(profile: str, only: str = "") -> list[Part]:
    """The parts of a profile in their order; `only`: names, by comma. Raises KeyError for a name that is none."""
    if only:
        return [PARTS[name] for name in only.split(",")]
    return [part for part in PARTS.values() if part.name not in NOT_IN[profile]]
