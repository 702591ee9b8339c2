"""Which records of a refused batch go on without the others (KIP-126, KIP-467): those of one that is too large in halves,
those beside records that the broker names without them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from oncelog.core.producer.batch import ProducerBatch, record_size_bytes
from oncelog.errors import ErrorCode

TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
NAMES_RECORDS = frozenset({ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP})


def ranges_after(batch: ProducerBatch, error_code: int, refused: Iterable[int]) -> list[range]:
    """How to divide a batch that was refused with `error_code`, which names the records `refused`; [] where all failed."""
    if batch.record_count < 2:
        return []
    if error_code in TOO_LARGE:
        return halves([record_size_bytes(*record[1:]) for record in batch.produced_records()])
    if error_code in NAMES_RECORDS:
        return around({index for index in refused if 0 <= index < batch.record_count}, batch.record_count)
    return []


def halves(sizes: Sequence[int]) -> list[range]:
    """Two ranges of about the same bytes, none of them empty."""
    half, count = sum(sizes) / 2, len(sizes)
    middle, taken = 0, 0
    while middle < count - 1 and (not middle or taken + sizes[middle] <= half):
        taken += sizes[middle]
        middle += 1
    return [range(middle), range(middle, count)]


def around(refused: set[int], count: int) -> list[range]:
    """Each refused record for itself, and what lies between them; [] where that is nothing."""
    if not refused or len(refused) == count:
        return []
    found = []
    first = 0
    for index in sorted(refused):
        if first < index:
            found.append(range(first, index))
        found.append(range(index, index + 1))
        first = index + 1
    if first < count:
        found.append(range(first, count))
    return found
