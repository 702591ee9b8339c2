"""What a micro-batch of the sink cost: rows, bytes, transactions, ms of each step.

Spark takes no metrics from a sink in Python (`sink.metrics` of the progress stays empty). So they travel with the record that
marks the batch done, where anybody finds them by query and batch (progress.py); and those of this process are kept here, too,
for a dual write runs in the very process that listens.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from oncelog.core.two_phase.exactly_once_sink import Attempt
from oncelog.lazy_dataclass import dataclass

KEPT = 200
recent: OrderedDict[tuple[str, str], BatchNumbers] = OrderedDict()
"""(query, batch) -> what was counted in this process; the newest."""


@dataclass
class BatchNumbers:
    """Of one decision's completion.

    Attributes:
        row_count, byte_count: of the winners (bytes: keys and values), as far as this commit saw them written.
        tasks: how many reported.
        opened: transactions that these tasks opened.
        completed: winners that were committed.
        swept: transactions that were ended because they could no longer win.
        is_repeated: the batch had been decided before; this run only completed it.
        ms: of the steps `look`, `decide`, `complete`, `sweep`.
    """

    row_count: int = 0
    byte_count: int = 0
    tasks: int = 0
    opened: int = 0
    completed: int = 0
    swept: int = 0
    is_repeated: bool = False
    ms: dict[str, int] = field(default_factory=dict)

    def take(self, attempts: Iterable[Attempt]) -> None:
        """What the tasks reported."""
        for attempt in attempts:
            self.tasks += 1
            self.opened += not attempt.is_empty
            self.row_count += attempt.row_count
            self.byte_count += attempt.byte_count

    @contextlib.contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Adds what the block takes."""
        begin_s = time.monotonic()
        try:
            yield
        finally:
            self.ms[name] = self.ms.get(name, 0) + round((time.monotonic() - begin_s) * 1000)

    def to_json(self) -> dict[str, Any]:
        """As in a joined progress report."""
        return {
            "rows": self.row_count,
            "bytes": self.byte_count,
            "tasks": self.tasks,
            "transactionsOpened": self.opened,
            "transactionsCompleted": self.completed,
            "transactionsSwept": self.swept,
            "wasDecidedBefore": self.is_repeated,
            "ms": dict(self.ms),
        }

    def to_value(self) -> bytes:
        """The value of the record that marks the batch done; earlier versions of the sink do not look at it."""
        return json.dumps(self.to_json(), separators=(",", ":")).encode()


def keep(query_id: str, batch_id: str, numbers: BatchNumbers) -> None:
    """For who listens in this process."""
    recent[query_id, batch_id] = numbers
    while len(recent) > KEPT:
        recent.popitem(last=False)
