"""What an application sees of fetched batches, for tests that look at all of them at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from oncelog.core.consumer.aborted_filter import AbortedFilter, AbortedRange
from oncelog.wire.record_batch import RecordBatch


def visible_batches(
    batches: Iterable[RecordBatch], aborted_transactions: Iterable[AbortedRange] | None
) -> Iterator[RecordBatch]:
    """The batches with data for the application; `aborted_transactions` is None for read_uncommitted."""
    if aborted_transactions is None:
        yield from (batch for batch in batches if not batch.is_control)
        return
    aborted = AbortedFilter(aborted_transactions)
    yield from (batch for batch in batches if aborted.is_visible(batch))
