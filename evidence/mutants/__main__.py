"""`make mutants`: plant each mistake in a copy of the tree and see which test notices.

Stages from quick to slow; the first that fails kills the mutant. Ends with the survivors, and fails where more than two live.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from evidence.mutants.mutants import MUTANTS, Mutant
from evidence.mutants.tree import COPIED

ROOT = pathlib.Path(__file__).parents[2]
SURVIVORS_MAX = 2
STAGE_SECONDS_MAX = 900
PYTEST = ("-m", "pytest", "-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-m", "not spark and not compat")
STAGES: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("rules", (*PYTEST, "tests/core", "tests/scenarios", "tests/wire", "tests/log", "evidence/model", "tests/checker")),
    ("shells", (*PYTEST, "tests/broker", "tests/client", "tests/spark/test_backend.py", "tests/recipes")),
    ("simulator tests", (*PYTEST, "evidence/simulator", "evidence/crash/test_power_cut.py", "evidence/differential")),
    ("simulated seeds", ("-m", "evidence.simulator", "--seeds", "500")),
)


def main() -> int:
    parser = argparse.ArgumentParser(description="Plant mistakes, and see whether the suite notices.")
    parser.add_argument("--only", help="mutants whose name or file contains this")
    parser.add_argument("--stages", type=int, default=len(STAGES), help="how many stages, the quick ones first")
    parser.add_argument("--count", type=int, default=len(MUTANTS), help="as many of them, evenly drawn from the list")
    parser.add_argument("--seed", type=int, default=0, help="which of them, where --count is less")
    parser.add_argument("--json", type=pathlib.Path, default=ROOT / "build" / "mutants" / "mutants.json")
    options = parser.parse_args()
    named = [m for m in MUTANTS if not options.only or options.only in m.name or options.only in m.file]
    chosen = drawn(named, options.count, options.seed)
    tree = ROOT / "build" / "mutants" / "tree"
    copy_tree(tree)
    for stage, command in STAGES[: options.stages]:
        if failure := _failure(tree, stage, command):
            print(f"mutants: the suite fails without any mistake, so it proves nothing: {failure}")
            return 2
    results = []
    for number, mutant in enumerate(chosen, 1):
        began = time.monotonic()
        killer = killed_by(tree, mutant, STAGES[: options.stages])
        results.append(
            {
                "name": mutant.name,
                "file": mutant.file,
                "killed by": killer,
                "seconds": round(time.monotonic() - began),
            }
        )
        write(options.json, results, len(chosen), options.stages)
        print(
            f"{number}/{len(chosen)} {time.monotonic() - began:4.0f} s  {mutant.name}: {killer or 'SURVIVES'}",
            flush=True,
        )
    survivors = [each["name"] for each in results if not each["killed by"]]
    print(
        f"mutants: {len(results) - len(survivors)} of {len(results)} killed"
        + "".join(f"\n  survives: {s}" for s in survivors)
    )
    return int(len(survivors) > SURVIVORS_MAX)


def drawn(mutants: list[Mutant], count: int, seed: int) -> list[Mutant]:
    """`count` of them, evenly spread over the list; another seed begins elsewhere."""
    count = min(count, len(mutants))
    return [mutants[(seed + index * len(mutants) // count) % len(mutants)] for index in range(count)]


def write(path: pathlib.Path, results: list[dict[str, object]], chosen: int, stages: int) -> None:
    """For the report; after every mutant, so that what was killed before a Ctrl-C is known."""
    left_out = [f"{len(MUTANTS) - len(results)} of {len(MUTANTS)} mutants"] if len(results) < len(MUTANTS) else []
    left_out += [f"stage: {name}" for name, _ in STAGES[stages:]]
    summary = {
        "mutants": results,
        "chosen": chosen,
        "killed": sum(bool(each["killed by"]) for each in results),
        "left out": left_out,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(summary, indent=1) + "\n")


def copy_tree(tree: pathlib.Path) -> None:
    """What the tests need, compiled modules included."""
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir(parents=True)
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, tree / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
        elif source.exists():
            shutil.copy(source, tree / name)


def killed_by(tree: pathlib.Path, mutant: Mutant, stages: tuple[tuple[str, tuple[str, ...]], ...]) -> str:
    """The test, or the stage, that notices; "" where none does."""
    path = tree / "src" / "oncelog" / mutant.file
    text = path.read_text()
    path.write_text(planted(mutant, text))
    try:
        for stage, command in stages:
            found = _failure(tree, stage, command)
            if found:
                return found
        return ""
    finally:
        path.write_text(text)


def planted(mutant: Mutant, text: str) -> str:
    """The file with the mistake. Raises ValueError where the right line is no longer there."""
    if text.count(mutant.right) != 1:
        raise ValueError(f"{mutant.file}: {mutant.right!r} is there {text.count(mutant.right)} times: mend the mutant")
    return text.replace(mutant.right, mutant.wrong)


def _failure(tree: pathlib.Path, stage: str, command: tuple[str, ...]) -> str:
    environment = {**os.environ, "PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            [sys.executable, *command],
            cwd=tree,
            env=environment,
            capture_output=True,
            text=True,
            timeout=STAGE_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return f"{stage}: hangs"
    if done.returncode == 0:
        return ""
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE)
    return failed.group(1) if failed else f"{stage}: exit status {done.returncode}: {done.stdout[-150:]!r}"


if __name__ == "__main__":
    sys.exit(main())
