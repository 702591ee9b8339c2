"""The recorded ratios: what an operation cost in calibration rounds when somebody last looked, for each build of the interpreter
on each kind of processor. `python -m bench.in_process --record` writes them anew, for those that it runs on.

A processor changes the ratios as a build does: the loop and the broker do not gain alike from wider cores and larger caches
(22 to 48 % were seen between two). On one that nobody recorded, operations are held to what the others of them say.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PATH = pathlib.Path(__file__).with_name("ratios.json")
CALIBRATION = pathlib.Path(__file__).with_name("calibration.py")
CPU_PATH = pathlib.Path("/proc/cpuinfo")
CPU_FIELDS = (
    "vendor_id",
    "cpu family",
    "model",
    "cache size",
)  # the last: hypervisors give one model's number to several
SLOWER_MAX_PERCENT = 15.0
# On a processor without a record. Between the two that were compared an operation was up to 19 % over the factor of all.
SLOWER_MAX_PERCENT_ELSEWHERE = 30.0
OPERATIONS_MIN_ELSEWHERE = 5  # with fewer, two slow ones would decide what is usual


class NotRecorded(Exception):
    """There is nothing to compare with: no ratios for this interpreter, or another calibration loop, or too few operations."""


@dataclass(frozen=True)
class Held:
    """What measured ratios are held to: by work, and by how much they may be over it. `said` tells how, if not as usual."""

    kept: Mapping[str, float]
    bound_percent: float = SLOWER_MAX_PERCENT
    said: str = ""

    def slower_percent(self, ratios: Mapping[str, float]) -> dict[str, float]:
        """By how much each work costs more than it may be expected to, negative where it costs less. Raises NotRecorded."""
        _require_all(ratios, self.kept)
        return {name: (ratio / self.kept[name] - 1) * 100 for name, ratio in ratios.items()}

    def too_slow(self, ratios: Mapping[str, float]) -> list[str]:
        """The works that are slower than may be. Raises NotRecorded."""
        return [name for name, percent in self.slower_percent(ratios).items() if percent > self.bound_percent]


@dataclass(frozen=True)
class Recorded:
    """The ratios that measured ones may be compared with: this processor's, else those of each build and processor asked."""

    of_this_cpu: Mapping[str, float] | None
    of_others: Mapping[str, Mapping[str, float]]

    def held(self, ratios: Mapping[str, float]) -> Held:
        """What these are held to: the record of this processor. Without one, the nearest record times the machine's factor, the
        median of measured against recorded over the operations (of two in the middle the lower). Raises NotRecorded."""
        if self.of_this_cpu is not None:
            return Held(self.of_this_cpu)
        if len(ratios) < OPERATIONS_MIN_ELSEWHERE:
            raise NotRecorded(
                f"no ratios of {cpu()} were recorded, and {len(ratios)} operations are too few to compare them with one another"
            )
        for kept in self.of_others.values():
            _require_all(ratios, kept)
        name, kept = min(self.of_others.items(), key=lambda item: _spread(ratios, item[1]))
        factor = statistics.median_low([ratio / kept[work] for work, ratio in ratios.items()])
        bound_percent = SLOWER_MAX_PERCENT_ELSEWHERE
        said = (
            f"no record of this processor ({cpu()}): an operation may cost {bound_percent:g} % more than {factor:.2f} times the "
            f"nearest record ({name}), which is the median of all; what slows most of them alike is not seen"
        )
        return Held({work: ratio * factor for work, ratio in kept.items()}, bound_percent, said)

    def slower_percent(self, ratios: Mapping[str, float]) -> dict[str, float]:
        """See Held."""
        return self.held(ratios).slower_percent(ratios)

    def too_slow(self, ratios: Mapping[str, float]) -> list[str]:
        """See Held."""
        return self.held(ratios).too_slow(ratios)


def version() -> str:
    """The interpreter's kind and version, "cpython-3.11"."""
    return f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"


def build() -> str:
    """The very build: one with profile-guided optimisation gains more in the calibration loop than in the broker."""
    return f"{platform.python_version()}, {' '.join(platform.python_build()).strip()}"


def calibration_hash() -> str:
    """Of the calibration loop's text: ratios to another loop mean nothing."""
    return hashlib.sha256(CALIBRATION.read_bytes()).hexdigest()[:16]


def cpu() -> str:
    """The kind of processor, "GenuineIntel 6 167 491520 KB"; where the system does not tell, the machine's, "arm64"."""
    try:
        told = CPU_PATH.read_text().split("\n\n")[0]
    except OSError:
        return platform.machine()
    fields = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in told.splitlines())}
    return (
        " ".join(fields[name] for name in CPU_FIELDS)
        if all(name in fields for name in CPU_FIELDS)
        else platform.machine()
    )


def recorded(path: pathlib.Path = PATH) -> Recorded:
    """The ratios of this build, by work; of another build of this version, the largest that any had. Raises NotRecorded."""
    if not path.exists():
        raise NotRecorded("no ratios were recorded")
    kept = json.loads(path.read_text())
    if kept["calibration"] != calibration_hash():
        raise NotRecorded("the calibration loop was changed since the ratios were recorded")
    builds: dict[str, dict[str, dict[str, float]]] = kept["ratios"].get(version(), {})
    if not builds:
        raise NotRecorded(f"no ratios of {version()} were recorded")
    found: dict[str, float] = {}
    known = {build(): builds[build()]} if build() in builds else builds
    for cpus in known.values():
        for name, ratio in cpus.get(cpu(), {}).items():
            found[name] = max(ratio, found.get(name, ratio))
    others = {f"{of_build} on {of_cpu}": ratios for of_build, cpus in known.items() for of_cpu, ratios in cpus.items()}
    return Recorded(found or None, others)


def record(ratios: Mapping[str, float], path: pathlib.Path = PATH) -> None:
    """Keep the ratios of this build and processor; those of others too, while the calibration loop is the same."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    others = kept.get("ratios", {}) if kept.get("calibration") == calibration_hash() else {}
    cpus = others.setdefault(version(), {}).setdefault(build(), {})
    cpus[cpu()] = cpus.get(cpu(), {}) | {name: round(ratio, 4) for name, ratio in ratios.items()}
    kept = {"calibration": calibration_hash(), "ratios": others}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def typical(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median ratio of each work: the very best would leave no room for the usual."""
    return {name: statistics.median(ratios[name] for ratios in several) for name in several[0]}


def _require_all(ratios: Mapping[str, float], kept: Mapping[str, float]) -> None:
    missing = sorted(set(ratios) - set(kept))
    if missing:
        raise NotRecorded(f"no ratios of {', '.join(missing)} were recorded")


def _spread(ratios: Mapping[str, float], kept: Mapping[str, float]) -> float:
    factors = [ratio / kept[name] for name, ratio in ratios.items()]
    return max(factors) / min(factors)
