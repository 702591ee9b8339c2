"""Reading a partition in transaction order: whole transactions in the order of their markers, other records where they are.

The log's own order lets records of open transactions hold back everything behind them (up to the last stable offset).
Here the batches up to the high watermark are taken in, those of open transactions are kept aside, and a transaction
comes out when its COMMIT marker does: an open one delays nobody else, and transactions come out as they became true.

Where one stands is two numbers. `restart_offset`: from where the log must be read again, the first offset of what was not
handed out wholly. `OrderPosition`: what was handed out of that already. Both are needed to go on exactly.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Protocol

from oncelog.lazy_dataclass import dataclass
from oncelog.wire.record_batch import RecordBatch

METADATA_PREFIX = "oncelog.transaction.order:"


@dataclass(frozen=True, slots=True)
class OrderPosition:
    """The next thing to hand out: a marker's offset (its transaction) or a record's own, and the next record of it.

    Everything whose order point is lower was handed out; of the transaction at `order_point`, what lies below
    `from_offset` (0: nothing of it).
    """

    order_point: int = 0
    from_offset: int = 0

    def to_metadata(self) -> str:
        """For the metadata of a committed offset."""
        return f"{METADATA_PREFIX}{self.order_point}:{self.from_offset}"

    @classmethod
    def from_metadata(cls, metadata: str) -> OrderPosition | None:
        """What `to_metadata` wrote; None for anything else (somebody without this order committed)."""
        numbers = metadata.removeprefix(METADATA_PREFIX).split(":")
        if not metadata.startswith(METADATA_PREFIX) or len(numbers) != 2 or not all(map(str.isdecimal, numbers)):
            return None
        return cls(int(numbers[0]), int(numbers[1]))


class Batches(Protocol):
    """A transaction's batches in offset order, wherever they are kept."""

    def append(self, batch: RecordBatch) -> None: ...

    def current(self) -> RecordBatch | None: ...

    def advance(self) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class OpenRun:
    """The batches of a producer's open transaction."""

    first_offset: int
    batches: Batches


@dataclass(slots=True)
class Unit:
    """Something to hand out: records of `batches` from `from_offset` on (which moves as they are handed out)."""

    marker_offset: int | None  # None: records outside of transactions
    first_offset: int
    from_offset: int
    batches: Batches
    decoded: list[Any] | None = None  # of the current batch
    decoded_index: int = 0

    @property
    def order_point(self) -> int:
        """Where it stands in the order."""
        return self.from_offset if self.marker_offset is None else self.marker_offset

    @property
    def restart_offset(self) -> int:
        """From where the log must be read to have the rest of it again."""
        return self.from_offset if self.marker_offset is None else self.first_offset


class TransactionOrder:
    """One partition. Feed it every batch from `start_offset` on, once and in offset order."""

    def __init__(
        self, new_batches: Callable[[], Batches], start_offset: int, resume: OrderPosition | None = None
    ) -> None:
        self._new_batches = new_batches
        self._start_offset = start_offset
        self._resume = resume or OrderPosition(start_offset)
        self.next_offset = start_offset
        self.open: dict[int, OpenRun] = {}
        self.ready: deque[Unit] = deque()

    def take(self, batch: RecordBatch) -> None:
        """The next batch of the log. Raises CorruptBatch for a marker that cannot be read; nothing was taken then."""
        if batch.end_offset <= self.next_offset:
            return  # a fetch may begin inside a batch, and answers with all of it
        if batch.is_control:
            self._take_marker(batch)
        elif batch.is_transactional:
            run = self.open.get(batch.producer_id)
            if run is None:
                run = self.open[batch.producer_id] = OpenRun(batch.base_offset, self._new_batches())
            run.batches.append(batch)
        elif batch.end_offset > self._resume.order_point:
            batches = self._new_batches()
            batches.append(batch)
            from_offset = max(batch.base_offset, self._start_offset, self._resume.order_point)
            self.ready.append(Unit(None, batch.base_offset, from_offset, batches))
        self.next_offset = batch.end_offset  # not behind a marker that could not be read

    def _take_marker(self, batch: RecordBatch) -> None:
        marker = batch.end_txn_marker()
        run = self.open.pop(batch.producer_id, None) if marker is not None else None
        if run is None:
            return
        assert marker is not None
        if not marker.commit or batch.base_offset < self._resume.order_point:
            run.batches.close()  # aborted, or handed out before
            return
        is_begun = batch.base_offset == self._resume.order_point
        from_offset = max(run.first_offset, self._start_offset, self._resume.from_offset if is_begun else 0)
        self.ready.append(Unit(batch.base_offset, run.first_offset, from_offset, run.batches))

    def finish_first(self) -> None:
        """The first ready unit was handed out wholly."""
        self.ready.popleft().batches.close()

    @property
    def restart_offset(self) -> int:
        """From where the log must be read again to go on from here."""
        offsets = [unit.restart_offset for unit in self.ready]
        offsets += [run.first_offset for run in self.open.values()]
        return max(min(offsets, default=self.next_offset), self._start_offset)

    @property
    def position(self) -> OrderPosition:
        """What was handed out, as it would be committed beside `restart_offset`."""
        if not self.ready:
            return self._resume if self._resume.order_point >= self.next_offset else OrderPosition(self.next_offset)
        first = self.ready[0]
        return OrderPosition(first.order_point, first.from_offset)

    def close(self) -> None:
        """Give back what is kept."""
        for run in self.open.values():
            run.batches.close()
        for unit in self.ready:
            unit.batches.close()
        self.open.clear()
        self.ready.clear()
