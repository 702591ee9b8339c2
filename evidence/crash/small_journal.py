"""A journal whose segments are soon full: used again while a workload of seconds lasts, and cheap to copy at every operation."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncelog.log import journal

SEGMENT_SIZE_BYTES, FILL_SIZE_BYTES = 16_384, 2_048


@contextmanager
def small_journal() -> Iterator[None]:
    """While this lasts new segments are small."""
    before = journal.SEGMENT_SIZE_BYTES, journal.FILL_SIZE_BYTES
    journal.SEGMENT_SIZE_BYTES, journal.FILL_SIZE_BYTES = SEGMENT_SIZE_BYTES, FILL_SIZE_BYTES
    try:
        yield
    finally:
        journal.SEGMENT_SIZE_BYTES, journal.FILL_SIZE_BYTES = before
