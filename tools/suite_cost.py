"""A pytest plugin: what each test file costs of the processors, its child processes included.

`make suite-cost` runs the suite with it (`-p tools.suite_cost`, ONCELOG_SUITE_COST=DIRECTORY) and prints the files by CPU
seconds. A worker of pytest-xdist has one file at a time (`--dist loadfile`), so what its process and its ended children use in
a test is that file's (a JVM that lives on is not seen). A wall clock would blame whoever waits for the others.
"""

from __future__ import annotations

import collections
import json
import os
import pathlib
import resource
import sys
import time
from collections.abc import Iterator

import pytest

FOLDER = os.environ.get("ONCELOG_SUITE_COST", "")


def used_s() -> float:
    """CPU seconds of this process and of its children that have ended."""
    return sum(
        usage.ru_utime + usage.ru_stime
        for usage in (resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN))
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """A line for each test, into this process' file."""
    cpu_s, wall_s = used_s(), time.monotonic()
    try:
        return (yield)
    finally:
        line = [item.nodeid, used_s() - cpu_s, time.monotonic() - wall_s]
        with (pathlib.Path(FOLDER) / f"{os.getpid()}.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")


def main(folder: str) -> int:
    """The table: `CPU seconds, wall seconds, tests, file`, the dearest first, and the sums."""
    cpu, wall, count = collections.Counter[str](), collections.Counter[str](), collections.Counter[str]()
    for path in pathlib.Path(folder).glob("*.jsonl"):
        for line in path.read_text().splitlines():
            name, cpu_s, wall_s = json.loads(line)
            file = name.partition("::")[0]
            cpu[file] += cpu_s
            wall[file] += wall_s
            count[file] += 1
    for file, cpu_s in cpu.most_common():
        print(f"{cpu_s:8.1f} {wall[file]:8.1f} {count[file]:6} {file}")
    print(f"{sum(cpu.values()):8.1f} {sum(wall.values()):8.1f} {sum(count.values()):6} all")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
