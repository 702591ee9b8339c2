"""Which offsets of a partition are not decided yet: the first of them bounds what read_committed may see.

A transaction is unstable from its first batch until the high watermark has passed its marker: a marker that a power cut
can still take back decides nothing. The seed draft counts the last stable offset inclusively (first open offset minus
one); here and on the wire it is Kafka's exclusive form, one more.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable


class OpenTransactions:
    """First offsets of open transactions, and of those whose marker is not yet below the high watermark."""

    def __init__(self, first_offsets: Iterable[int] = ()) -> None:
        # Both ordered by first offset: a transaction opens at the log's end. An OrderedDict gives its first key at once
        # even after many removals at the front; a dict would walk over the holes.
        self._open: OrderedDict[int, None] = OrderedDict.fromkeys(sorted(first_offsets))
        self._unstable: OrderedDict[int, None] = self._open.copy()
        self._completed: deque[tuple[int, int]] = deque()  # (marker offset, first offset), in marker order

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, first_offset: int) -> None:
        """A transaction's first batch was appended at `first_offset`."""
        self._open[first_offset] = None
        self._unstable[first_offset] = None

    def completed(self, first_offset: int, marker_offset: int) -> int:
        """Its marker was appended; the last stable offset for the transaction index, ignoring the high watermark."""
        del self._open[first_offset]
        self._completed.append((marker_offset, first_offset))
        return next(iter(self._open), marker_offset + 1)

    def synced(self, high_watermark: int) -> None:
        """The high watermark moved: transactions whose marker lies below it are decided for good."""
        while self._completed and self._completed[0][0] < high_watermark:
            _, first_offset = self._completed.popleft()
            del self._unstable[first_offset]

    def first_unstable_offset(self) -> int | None:
        """The first offset that is not decided, None where all is."""
        return next(iter(self._unstable), None)
