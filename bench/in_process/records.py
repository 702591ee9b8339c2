"""The recorded ratios: what an operation cost in calibration rounds when somebody last looked, for each build of the interpreter.

`python -m bench.in_process --record` writes them anew, for the interpreter that runs it.
"""

from __future__ import annotations

import hashlib
import json
import pathlib
import platform
import statistics
import sys
from collections.abc import Mapping, Sequence

PATH = pathlib.Path(__file__).with_name("ratios.json")
CALIBRATION = pathlib.Path(__file__).with_name("calibration.py")
SLOWER_MAX_PERCENT = 15.0


class NotRecorded(Exception):
    """There are no ratios for this interpreter, or they were recorded with another calibration loop."""


def version() -> str:
    """The interpreter's kind and version, "cpython-3.11"."""
    return f"{sys.implementation.name}-{sys.version_info.major}.{sys.version_info.minor}"


def build() -> str:
    """The very build: one with profile-guided optimisation gains more in the calibration loop than in the broker."""
    return f"{platform.python_version()}, {' '.join(platform.python_build()).strip()}"


def calibration_hash() -> str:
    """Of the calibration loop's text: ratios to another loop mean nothing."""
    return hashlib.sha256(CALIBRATION.read_bytes()).hexdigest()[:16]


def recorded(path: pathlib.Path = PATH) -> dict[str, float]:
    """The ratios of this build, by work; of another build of this version, the largest that any had.

    Raises NotRecorded.
    """
    if not path.exists():
        raise NotRecorded("no ratios were recorded")
    kept = json.loads(path.read_text())
    if kept["calibration"] != calibration_hash():
        raise NotRecorded("the calibration loop was changed since the ratios were recorded")
    builds: dict[str, dict[str, float]] = kept["ratios"].get(version(), {})
    if not builds:
        raise NotRecorded(f"no ratios of {version()} were recorded")
    found: dict[str, float] = {}
    for ratios in [builds[build()]] if build() in builds else builds.values():
        for name, ratio in ratios.items():
            found[name] = max(ratio, found.get(name, ratio))
    return found


def record(ratios: Mapping[str, float], path: pathlib.Path = PATH) -> None:
    """Keep the ratios of this build; those of others too, while the calibration loop is the same."""
    kept = json.loads(path.read_text()) if path.exists() else {}
    others = kept.get("ratios", {}) if kept.get("calibration") == calibration_hash() else {}
    builds = others.setdefault(version(), {})
    builds[build()] = builds.get(build(), {}) | {name: round(ratio, 4) for name, ratio in ratios.items()}
    kept = {"calibration": calibration_hash(), "ratios": others}
    path.write_text(json.dumps(kept, indent=1, sort_keys=True) + "\n")


def typical(several: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median ratio of each work: the very best would leave no room for the usual."""
    return {name: statistics.median(ratios[name] for ratios in several) for name in several[0]}


def slower_percent(ratios: Mapping[str, float], kept: Mapping[str, float]) -> dict[str, float]:
    """By how much each work costs more than was recorded, negative where it costs less. Raises NotRecorded."""
    missing = sorted(set(ratios) - set(kept))
    if missing:
        raise NotRecorded(f"no ratios of {', '.join(missing)} were recorded")
    return {name: (ratio / kept[name] - 1) * 100 for name, ratio in ratios.items()}


def too_slow(ratios: Mapping[str, float], kept: Mapping[str, float]) -> list[str]:
    """The works that are slower than may be. Raises NotRecorded."""
    return [name for name, percent in slower_percent(ratios, kept).items() if percent > SLOWER_MAX_PERCENT]
