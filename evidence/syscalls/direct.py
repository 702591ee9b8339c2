"""`steps` in a recorded process, judged: after each step what it promised is durable, and nothing comes back."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

from evidence.syscalls.logs import base_offset_of
from evidence.syscalls.recorder import BEGIN, END, Call, build, calls, environment
from evidence.syscalls.rules import PASSING_SUFFIXES
from evidence.syscalls.world import Node, World
from oncelog.log.failed_sync import MARKER

SAID = "said"
NOT_MEANT = (MARKER, *PASSING_SUFFIXES)  # (what a start removes or renames next)
HANG_S = 60
REPOSITORY = pathlib.Path(__file__).parents[2]


class Promises:
    """What the steps say, held against the world."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.problems: list[str] = []
        self.judged: Counter[str] = Counter()
        self._points: set[str] = set()  # snapshots where a recovery point lies without one

    def before(self, call: Call) -> None:
        """A call that is not applied yet."""
        path = self._world.paths(call)[0] if call.name in ("unlink", "write") else ""
        if call.name == "unlink" and call.phase == BEGIN and path.endswith(f"/{MARKER}"):
            folder = path.rpartition("/")[0]
            seen = dict(self._world.files(folder))
            found = [each for each in self._lost(folder) if each in seen and not each.endswith(NOT_MEANT)]
            self._must(not found, "the mark of a failed sync stays until all is durable", (folder, found))
        elif call.name == "write" and call.phase == END and path == SAID:
            for line in call.data.decode().splitlines():
                self._judge(*line.split(" ", 1))
        elif call.name == "write" and call.phase == END and path in self._points:
            folder, _, name = path.rpartition("/")
            lost = ((each, each.rpartition("/")[2]) for each in self._lost(folder))
            found = [
                each
                for each, its_name in lost
                if its_name.endswith("index") and base_offset_of(its_name) < base_offset_of(name)
            ]
            self._must(not found, "indexes are durable before a snapshot at the recovery point is", (path, found))

    def _must(self, is_so: bool, rule: str, what: object) -> None:
        self.judged[f"a step: {rule}"] += 1
        if not is_so:
            self.problems.append(f"step {self.judged.total()}: /: a step, {rule}: {what}")

    def _judge(self, kind: str, path: str) -> None:
        if kind == "point":
            self._points.add(path)
        elif kind == "gone":
            node = self._world.find(path, durable=True)
            self._must(node is None, "what is removed is durably gone", path)
        elif kind == "file":
            node = self._world.find(path)
            is_there = node is not None and node.is_durable and self._world.find(path, durable=True) is node
            self._must(is_there, "a file is durable when the call returns", path)
        else:
            found = self._lost(path)
            self._must(not found, "all of a partition is durable, and nothing comes back", (path, found))

    def _lost(self, path: str) -> list[str]:
        """What a power cut would change below a directory."""
        seen, durable = dict(self._tree(path, durable=False)), dict(self._tree(path, durable=True))
        changed = [each for each, node in seen.items() if durable.get(each) is not node or not node.is_durable]
        return sorted({*changed, *(durable.keys() - seen.keys())})

    def _tree(self, path: str, *, durable: bool) -> Iterator[tuple[str, Node]]:
        node = self._world.find(path, durable=durable)
        if node is not None:
            yield path, node
        yield from self._world.files(path, durable=durable)


def run(folder: pathlib.Path, source: str = "") -> Promises:
    """All steps; `folder` is empty. With `source`, oncelog is imported from there. A step that fails is a problem too."""
    root = folder / "root"
    root.mkdir()
    trace = folder / "trace"
    variables = {**os.environ, **environment(build(folder), trace, root)}
    if source:
        variables["PYTHONPATH"] = source
    done = subprocess.run(
        [sys.executable, "-m", "evidence.syscalls.steps", str(root)],
        cwd=REPOSITORY,
        env=variables,
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=False,
    )
    world = World(root)
    promises = Promises(world)
    for call in calls(trace):
        promises.before(call)
        world.apply(call)
    if done.returncode:
        words = done.stderr.strip().splitlines() or ["no word"]
        where = [line.split(", in ")[-1] for line in words if "steps.py" in line and ", in " in line]
        promises.problems.append(f"step: /: a step fails: in {where[-1:]}, {words[-1]}")
    else:
        different = world.differences()
        assert not different, f"calls were not seen: {different}"
    return promises
