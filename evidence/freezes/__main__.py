"""`python -m evidence.freezes`: a line for each way, one at the end; exit 1 where one is not named, or not with its command."""

from __future__ import annotations

import argparse
import contextlib
import shlex
import signal
import sys
import time
from collections.abc import Sequence
from typing import Any

from evidence.freezes import worlds
from evidence.freezes.planting import AGAIN, LOOK, PLANTS, YES, Plant, topic
from evidence.freezes.worlds import LOST, World
from oncelog.core.diagnosis import causes as kinds

WATCH_S = 3.0
MENDED_S_MAX = 120.0
HEALTHY = "healthy"


def say(line: str) -> None:
    print(line, flush=True)


def look(world: World, name: str, older_than: str) -> list[dict[str, Any]]:
    """The causes that `oncelog why NAME` tells."""
    found = world.json("why", name, "--older-than", older_than, status=None)
    return list(found["causes"])


def problems_of(world: World, plant: Plant) -> list[str]:
    """Plant it, ask, type what is printed, ask again. What was wrong of it."""
    with plant.plant(world):
        began = time.monotonic()
        causes = look(world, plant.name, plant.older_than)
        took_s = time.monotonic() - began
        cause = next((each for each in causes if each["kind"] == plant.kind), None)
        told = ", ".join(each["kind"] for each in causes) or "nothing"
        say(f"  {plant.name:16} {told:48} {took_s:4.1f} s  {cause['command'] if cause else '-'}")
        if cause is None:
            return [f"{plant.name}: {plant.kind} is not named: {told}"]
        wanted = (plant.command,) if isinstance(plant.command, str) else plant.command
        if not any(each in cause["command"] for each in wanted):
            return [f"{plant.name}: the command is {cause['command']!r}, expected {' or '.join(wanted)}"]
        found = typed(world, plant, cause["command"])
        if plant.typed != LOOK and any(each["kind"] == plant.kind for each in look(world, plant.name, "0s")):
            found.append(f"{plant.name}: after the command it is {plant.kind} as before")
        return found


def typed(world: World, plant: Plant, command: str) -> list[str]:
    """Run what was printed, as somebody would who read the line above it."""
    words = shlex.split(command)
    assert words[:3] == ["oncelog", "-b", world.bootstrap], words
    words = [word for word in words[3:] if plant.typed != YES or word != "--dry-run"]
    words += {YES: ["-y"], AGAIN: ["--commit", "-y"], LOOK: []}[plant.typed]
    is_watch = "--watch" in words
    done = world.command(*words, status=None, ends_s=WATCH_S if is_watch else None)
    if done.returncode not in ((130,) if is_watch else plant.statuses):
        return [f"{plant.name}: {shlex.join(words)} ended with {done.returncode}: {done.stderr.strip()}"]
    return []


def mended(world: World) -> list[str]:
    """The lost broker comes back, and its partition with it."""
    if world.mend is None:
        return []
    world.mend()
    ends = time.monotonic() + MENDED_S_MAX
    while causes := look(world, LOST, "0s"):
        if time.monotonic() > ends:
            return [f"{LOST} came back, and is still said to be {causes}"]
    say(f"  {LOST} came back, and nothing holds it back")
    return []


def run(world: World, plants: Sequence[Plant]) -> tuple[int, list[str]]:
    """How many were named, and what was wrong."""
    say(f"{world.name}:")
    named, found = 0, list[str]()
    for plant in plants:
        with contextlib.ExitStack() as ends:
            place = world
            if plant.kind == kinds.RIGHTS and world.guarded is not None:
                place = ends.enter_context(world.guarded())
            new = problems_of(place, plant)
        named, found = named + (not new), found + new
    name = topic(world, HEALTHY)
    if causes := look(world, name, "0s"):
        found.append(f"{name}: a false alarm: {causes}")
    is_lost = any(plant.kind == kinds.OFFLINE for plant in plants)
    return named, found + (mended(world) if is_lost else [])


def main() -> int:
    # A shell starts what it puts in the background with SIGINT ignored, and so would be the `--watch` that Ctrl-C is to end.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    parser = argparse.ArgumentParser(prog="evidence.freezes", description=__doc__)
    parser.add_argument("--against", choices=("oncelog", "kafka", "both"), default="both")
    parser.add_argument("--only", help="the name that one of them asks about")
    options = parser.parse_args()
    plants = [each for each in PLANTS if options.only in (None, each.name)]
    if not plants:
        parser.error(f"--only {options.only}: there are {', '.join(each.name for each in PLANTS)}")
    starts = {"oncelog": worlds.oncelog, "kafka": worlds.kafka}
    status, told = 0, []
    for name, start in starts.items():
        if options.against not in (name, "both"):
            continue
        with start() as world:
            named, found = run(world, plants)
        for line in found:
            say(f"WRONG {line}")
        told.append(f"{world.name}: {named} of {len(plants)} named with the right command")
        status |= bool(found)
    say(f"freezes: {'; '.join(told)}")
    return status


if __name__ == "__main__":
    sys.exit(main())
