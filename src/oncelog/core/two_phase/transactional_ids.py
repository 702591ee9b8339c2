"""Transactional ids that a process of the sink uses again, so that a stream makes no new ones for every batch.

An id belongs to one process (a Python worker of Spark), which does one task at a time, so no zombie ever initialises
another's. It is used again only for a *later* batch of the same run: that batch was planned only after the driver's commit of
the one before had returned, which it does only after the batch is marked done. So whatever the id has open belongs to a batch
that is done: a winner that was committed, or an attempt that can no longer win and may be aborted. Each use begins with an
initialisation, which raises the producer's epoch: what anybody still sends for an earlier use (records, a commit, an abort,
all of which name producer id and epoch) is refused.
Why: docs/decisions/006-ids-of-one-process.md.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from oncelog.core.two_phase.decision_homes import NOT_SAID, home_of_worker, worker_of_home
from oncelog.lazy_dataclass import dataclass

RUNS_REMEMBERED = 16  # of which a process keeps ids; a run that is over needs none


@dataclass(frozen=True, slots=True)
class LeasedName:
    """What a transactional id that is used again says: not the batch, which changes."""

    query_id: str
    run_start: str
    worker: str
    number: int

    @property
    def decision_home(self) -> str:
        """Where its query decides (decision_homes.py)."""
        return home_of_worker(self.worker)


def leased_name(prefix: str, transactional_id: str) -> LeasedName | None:
    """The parts of an id made by `TransactionalIds`, or None where it is not one of this prefix."""
    parts = transactional_id.split(".")
    if len(parts) != 5 or parts[0] != prefix or not re.fullmatch("[0-9a-f]{32}[.][0-9]{1,40}", ".".join(parts[3:])):
        return None
    return LeasedName(parts[1], parts[2], parts[3], int(parts[4]))


class TransactionalIds:
    """The ids of one process. `worker` is its name (32 hex digits), which no other process has, anywhere, at any time."""

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._made_count = 0  # numbers are never given twice, also when a run was forgotten
        self._last_batches: OrderedDict[str, dict[str, int]] = OrderedDict()  # run's start of ids -> id -> last batch

    def lease(self, prefix: str, query_id: str, run_start: str, batch_id: int, home: str = NOT_SAID) -> str:
        """An id for one task attempt: one that this process used for an earlier batch of the run, or a new one.

        An id of an attempt that failed is free again with the next batch, not in its own: the driver may have heard of it.

        Args:
            home: where the query decides, which the id says then.
        """
        start = f"{prefix}.{query_id}.{run_start}.{worker_of_home(self._worker, home)}."
        last_batches = self._last_batches.setdefault(start, {})
        self._last_batches.move_to_end(start)
        while len(self._last_batches) > RUNS_REMEMBERED:
            self._last_batches.popitem(last=False)
        transactional_id = next((i for i, last in last_batches.items() if last < batch_id), None)
        if transactional_id is None:
            transactional_id = f"{start}{self._made_count}"
            self._made_count += 1
        last_batches[transactional_id] = batch_id
        return transactional_id
