"""Verification guards (KIP-890, "Race Condition"): the coordinator's answer holds only until the next marker.

A guard is handed out before the coordinator is asked and must still be valid when the batch is appended; a marker that
ends the transaction voids it, so a late batch cannot open a transaction that nobody will end.

Unlike Apache Kafka: guards belong to (producer id, producer epoch, transactional id), so a request with a wrong epoch
or id disturbs nobody else's; and a duplicate never gets here, so it cannot leave a lower sequence behind that stops
the batches after it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from oncelog.lazy_dataclass import dataclass

VERIFICATION_COUNT_MAX = 10_000  # nobody has that many under way; who floods voids the oldest, not our memory
VERIFICATION_MS_MAX = 300_000  # far beyond every request timeout


@dataclass(frozen=True, eq=False, slots=True)
class Guard:
    """One verification of one producer's transaction on one partition; compared by identity."""

    producer_id: int
    producer_epoch: int
    transactional_id: str


@dataclass(slots=True)
class VerificationEntry:
    """A verification under way: `lowest_sequence` is the smallest first sequence that asked (-1: none had one)."""

    guard: Guard
    lowest_sequence: int
    supports_implicit_add: bool
    started_ms: int


class Verifications:
    """The verifications under way on one partition."""

    def __init__(self) -> None:
        self._entries: OrderedDict[int, list[VerificationEntry]] = OrderedDict()  # by producer id; the lists are short
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def start(
        self,
        producer_id: int,
        producer_epoch: int,
        transactional_id: str,
        *,
        base_sequence: int,
        supports_implicit_add: bool,
        now_ms: int,
    ) -> Guard:
        """The guard for these batches: one for all that ask while the same verification is under way."""
        entries = self._entries.setdefault(producer_id, [])
        for entry in entries:
            guard = entry.guard
            if guard.producer_epoch == producer_epoch and guard.transactional_id == transactional_id:
                entry.lowest_sequence = min(entry.lowest_sequence, base_sequence)
                entry.supports_implicit_add |= supports_implicit_add
                return guard
        guard = Guard(producer_id, producer_epoch, transactional_id)
        entries.append(VerificationEntry(guard, base_sequence, supports_implicit_add, now_ms))
        self._count += 1
        while self._count > VERIFICATION_COUNT_MAX:
            _, voided = self._entries.popitem(last=False)
            self._count -= len(voided)
        return guard

    def entry(self, guard: Guard) -> VerificationEntry | None:
        """The verification that this guard belongs to, None once it is void."""
        return next((entry for entry in self._entries.get(guard.producer_id, ()) if entry.guard is guard), None)

    def appended(self, producer_id: int, producer_epoch: int) -> None:
        """A batch was appended: its transaction is open now, nothing up to its epoch needs a guard any more."""
        if producer_id in self._entries:
            self._keep(producer_id, lambda entry: entry.guard.producer_epoch > producer_epoch)

    def marker_appended(self, producer_id: int, producer_epoch: int, *, ends_previous: bool) -> None:
        """A marker was appended: void what it ends.

        `ends_previous`: the marker carries the epoch after the transaction's (transaction version 2). Then a
        verification at the marker's own epoch is the next transaction's and stays (KAFKA-18575).
        """
        if producer_id in self._entries:
            self._keep(
                producer_id,
                lambda entry: (
                    entry.guard.producer_epoch > producer_epoch
                    or (ends_previous and entry.supports_implicit_add and entry.guard.producer_epoch == producer_epoch)
                ),
            )

    def expire(self, now_ms: int) -> int:
        """Forget verifications that led to no append; how many."""
        count = self._count
        for producer_id in list(self._entries):
            self._keep(producer_id, lambda entry: entry.started_ms > now_ms - VERIFICATION_MS_MAX)
        return count - self._count

    def _keep(self, producer_id: int, wanted: Callable[[VerificationEntry], bool]) -> None:
        entries = self._entries[producer_id]
        kept = [entry for entry in entries if wanted(entry)]
        self._count -= len(entries) - len(kept)
        if kept:
            self._entries[producer_id] = kept
        else:
            del self._entries[producer_id]
