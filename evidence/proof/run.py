"""One part, recorded; and a whole profile: every part in turn, whatever becomes of the one before."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import pathlib
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from evidence.proof.child import Child, Ended
from evidence.proof.evidence import (
    FAILED,
    FOLDER,
    INTERRUPTED,
    PASSED,
    Evidence,
    machine,
    save,
    source_now,
)
from evidence.proof.parts import Part

HANGS_AFTER = 10  # times what was expected, and half an hour
SAY_EVERY_S = 30.0


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def recorded(
    part: str,
    arguments: Sequence[str],
    *,
    folder: pathlib.Path = FOLDER,
    timeout_s: float = 86_400.0,
    told: Callable[[str, bool], None] | None = None,
    beat: Callable[[Child], None] | None = None,
    keep: bool = True,
) -> Evidence:
    """Run `python ARGUMENTS`, `{json}` in them being a file for its figures; the evidence, saved if `keep`."""
    evidence = Evidence(part, source=source_now(), machine=machine(), log=f"logs/{part}.log")
    evidence.begun_at = dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
    evidence.command = "python " + " ".join(word for word in arguments if word not in ("--json", "{json}"))
    with tempfile.TemporaryDirectory(prefix="oncelog-proof-") as temporary:
        figures = pathlib.Path(temporary) / "figures.json"
        command = [sys.executable, *(word.replace("{json}", str(figures)) for word in arguments)]
        child = Child(command, folder / evidence.log, told)
        ended = child.run(timeout_s, (lambda: beat(child)) if beat is not None else None)
        evidence.figures = read_figures(figures)
    _judge(evidence, ended)
    if not evidence.is_good and ended.status is not None:
        kept = f"logs/{part}-failed-{evidence.begun_at.replace(':', '')[:17]}.log"
        shutil.copy(folder / evidence.log, folder / kept)  # the next run writes over the first
        evidence.log = kept
    if keep:
        save(evidence, folder)
    return evidence


def read_figures(path: pathlib.Path) -> dict[str, Any]:
    """{} where the tool wrote none: it failed before, or has none."""
    with contextlib.suppress(OSError, ValueError):
        found = json.loads(path.read_text(encoding="utf-8"))
        return found if isinstance(found, dict) else {}
    return {}


def _judge(evidence: Evidence, ended: Ended) -> None:
    evidence.seconds, evidence.exit_status = round(ended.seconds, 1), ended.status
    evidence.line = ended.line[:2000]
    if ended.is_interrupted:
        evidence.verdict = INTERRUPTED
    elif ended.is_hung:
        evidence.verdict, evidence.line = (
            FAILED,
            f"did not end in {ended.seconds:.0f} s and was killed; {ended.line}"[:2000],
        )
    else:
        evidence.verdict = PASSED if ended.status == 0 else FAILED


def run_profile(parts: Sequence[Part], profile: str, *, folder: pathlib.Path = FOLDER) -> tuple[list[Evidence], bool]:
    """Every part; what came of it, and whether Ctrl-C ended it before its time."""
    expected_s = sum(part.expected_s(profile) for part in parts)
    names = ", ".join(part.name for part in parts)
    say(f"proof: profile {profile}, {len(parts)} parts, about {minutes(expected_s)}: {names}")
    done: list[Evidence] = []
    with contextlib.suppress(KeyboardInterrupt):  # between two parts
        for number, part in enumerate(parts, 1):
            say(f"[{number}/{len(parts)}] {part.name}: {part.title} (about {minutes(part.expected_s(profile))})")
            done.append(_one(part, profile, folder))
            if done[-1].verdict == INTERRUPTED:
                return done, True
        return done, False
    return done, True


def _one(part: Part, profile: str, folder: pathlib.Path) -> Evidence:
    evidence = recorded(
        part.name,
        part.command(profile),
        folder=folder,
        timeout_s=part.expected_s(profile) * HANGS_AFTER + 1800,
        beat=Progress(),
    )
    word = "passed" if evidence.is_good else evidence.verdict.upper()
    say(f"    {word} in {evidence.seconds:.0f} s: {evidence.line}")
    if not evidence.is_good:
        say(f"    its words: {folder / evidence.log}")
    return evidence


class Progress:
    """The tool's last word: on a terminal all the time in one line, elsewhere now and then."""

    def __init__(self) -> None:
        self._said_at = self._begun = time.monotonic()

    def __call__(self, child: Child) -> None:
        now = time.monotonic()
        text = f"    {now - self._begun:4.0f} s  {child.last_word}"
        if sys.stderr.isatty():
            width = shutil.get_terminal_size().columns - 1
            print(f"\r{text[:width]:{width}}\r", end="", file=sys.stderr, flush=True)
        elif now - self._said_at >= SAY_EVERY_S:
            self._said_at = now
            say(text[:160])


def minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
