"""One run of one evidence tool as JSON below build/proof: what was asked, on which source, what came out.

`PART.json` is the run that counts: the newest, but a good run is not replaced by a shorter good one of the same source.
`runs.jsonl` has a line for every run there was, so that a failure stays to be seen after a repeat went well.
"""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import platform
import subprocess
from dataclasses import dataclass, field
from typing import Any

ROOT = pathlib.Path(__file__).parents[2]
FOLDER = ROOT / "build" / "proof"
PASSED, FAILED, INTERRUPTED, RUNNING, NOT_RUN = "passed", "failed", "interrupted", "running", "not run"


@dataclass(frozen=True)
class Source:
    """What was examined: a commit, and the tree of src/ in it (another commit may have the same one)."""

    commit: str = "unknown"
    tree: str = "unknown"
    is_changed: bool = False  # src/ or tests/ have changes that are in no commit

    @property
    def name(self) -> str:
        return self.commit[:10] + (" + changes" if self.is_changed else "")


@dataclass
class Evidence:
    """One run."""

    part: str
    command: str = ""
    source: Source = field(default_factory=Source)
    begun_at: str = ""  # UTC, ISO 8601
    seconds: float = 0.0
    verdict: str = NOT_RUN
    line: str = ""  # the tool's own last line
    exit_status: int | None = None
    figures: dict[str, Any] = field(default_factory=dict)
    log: str = ""  # relative to the folder
    machine: str = ""

    @property
    def is_good(self) -> bool:
        return self.verdict == PASSED

    @property
    def left_out(self) -> list[str]:
        """What the tool could not do here, in its own words."""
        found = list(self.figures.get("left out", ()))
        if "NOT (ALL) RUN" in self.line:
            found.append(self.line.partition("NOT (ALL) RUN")[2].strip(" ,"))
        return found


def git(*arguments: str, root: pathlib.Path = ROOT) -> str:
    """What git says; "" where there is none, or no repository."""
    try:
        done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def source_now() -> Source:
    """The source as it is now."""
    commit, tree = git("rev-parse", "HEAD"), git("rev-parse", "HEAD:src")
    changes = git("status", "--porcelain", "--", "src") + git("status", "--porcelain", "-uno", "--", "tests")
    return Source(commit or "unknown", tree or "unknown", bool(changes))


def commits_between(older: str, newer: str) -> int | None:
    """How many commits `newer` is ahead of `older`; None where that cannot be told."""
    count = git("rev-list", "--count", f"{older}..{newer}") if older != "unknown" else ""
    return int(count) if count else None


def machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}"


def save(evidence: Evidence, folder: pathlib.Path = FOLDER) -> bool:
    """Write it; False where an older, longer run of the same source stays the one that counts."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "runs.jsonl").open("a", encoding="utf-8") as runs:
        summary = dataclasses.asdict(evidence)
        del summary["figures"]
        runs.write(json.dumps(summary) + "\n")
    before = load(evidence.part, folder)
    if before is not None and before.is_good and before.source == evidence.source and evidence.verdict != FAILED:
        weaker = evidence.verdict != PASSED or before.seconds > evidence.seconds
        if weaker:
            return False
    replace(evidence, folder)
    return True


def replace(evidence: Evidence, folder: pathlib.Path = FOLDER) -> None:
    """`PART.json` becomes this, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f"{evidence.part}.json.tmp"
    aside.write_text(json.dumps(dataclasses.asdict(evidence), indent=1) + "\n", encoding="utf-8")
    aside.rename(folder / f"{evidence.part}.json")


def _from_json(found: dict[str, Any]) -> Evidence:
    return Evidence(**{**found, "source": Source(**found["source"])})


def load(part: str, folder: pathlib.Path = FOLDER) -> Evidence | None:
    """None where it was not run, or its file cannot be read."""
    try:
        return _from_json(json.loads((folder / f"{part}.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def all_runs(folder: pathlib.Path = FOLDER) -> list[Evidence]:
    """Every run that was recorded, the oldest first, without figures."""
    try:
        lines = (folder / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        try:
            found.append(_from_json(json.loads(line)))
        except (ValueError, KeyError, TypeError):
            continue  # cut short by a kill
    return found
