"""What a process did and was told, as JSON lines in the history format (docs/history.md), written outside the broker.

Only the broker is killed, so a line that was written stays: no fsync. Keys are "topic-partition"; every value is sent once.
"""

from __future__ import annotations

import json
import pathlib
import time
from typing import Any

Send = tuple[str, int | None, int]


class Journal:
    """The journal of one worker; `process` numbers of a worker's concurrent operations differ in the last two digits."""

    def __init__(self, path: pathlib.Path, worker: int) -> None:
        self._file = path.open("a", encoding="ascii", buffering=1)
        self._worker = worker

    def write(self, kind: str, steps: list[Any], slot: int = 0, function: str = "txn") -> None:
        """One event: invoke, ok (acknowledged), fail (certainly without effect), info (unknown)."""
        event = {
            "type": kind,
            "process": self._worker * 100 + slot,
            "time": time.monotonic_ns(),
            "f": function,
            "value": steps,
        }
        self._file.write(json.dumps(event) + "\n")

    def close(self) -> None:
        self._file.close()


def send_step(key: str, value: int, offset: int | None = None) -> list[Any]:
    return ["send", key, [offset, value]]


def merged(paths: list[pathlib.Path]) -> list[str]:
    """All journals in the order of their times, numbered. A last line that was cut short is left out."""
    events = []
    for path in paths:
        for line in path.read_text(encoding="ascii").splitlines():
            if line.endswith("}"):
                events.append(json.loads(line))
    events.sort(key=lambda event: event["time"])
    return [json.dumps({"index": index, **event}) for index, event in enumerate(events)]
