"""Failures that nobody asked about: `flush` raises the first, and none vanishes without a word.

A failed batch keeps an `Unheard` for as long as somebody may still ask its deliveries. When the last of them is gone, and
there is a record that nobody asked about, it is told. What is kept for `flush` is bounded; so is what is told: the first, second,
fourth, eighth ...
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from oncelog.core.producer.batch import Failure, ProducerBatch, Unheard
from oncelog.errors import KafkaError

KEPT_MAX = 100


class UnheardFailures:
    """One producer's failures about which nobody asked; `tell` gets the lines."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._kept: deque[Failure] = deque()
        self._forgotten_count = 0
        self._is_quiet = False

    def add(self, batch: ProducerBatch, error: KafkaError) -> None:
        """A batch failed, and nobody waits for some of its records so far."""
        failure = Failure(error, batch.unheard_count, batch.topic_partition)
        batch.unheard = Unheard(failure, self._is_forgotten)
        if len(self._kept) == KEPT_MAX:
            self._kept = deque(each for each in self._kept if not each.is_heard)
        if len(self._kept) < KEPT_MAX:
            self._kept.append(failure)

    def _is_forgotten(self, failure: Failure) -> None:
        if self._is_quiet:
            return
        self._forgotten_count += 1
        count = self._forgotten_count
        if count & (count - 1) == 0:
            failure.is_told = True
            self._tell(f"{failure}; nobody waits for it" + (f" ({count} batches so far)" if count > 1 else ""))

    def take_first(self) -> KafkaError | None:
        """The first failure that nobody asked about; those that are kept with it count as told."""
        unheard = [each for each in self._kept if not each.is_heard]
        self._kept.clear()
        for each in unheard:
            each.is_heard = True
        return unheard[0].error if unheard else None

    def be_quiet(self) -> None:
        """What fails from now on is told by somebody else, all in one line; what failed before is told now."""
        self.end()
        self._is_quiet = True

    def end(self) -> None:
        """Nobody will flush any more: what is kept and was not told is told in one line."""
        unheard = [each for each in self._kept if not each.is_heard and not each.is_told]
        self._kept.clear()
        for each in unheard:
            each.is_heard = True
        if unheard and not self._is_quiet:
            more = f" (the first of {len(unheard)} such batches)" if len(unheard) > 1 else ""
            self._tell(f"{unheard[0]}; nobody waited for it{more}")
