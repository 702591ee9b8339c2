"""A time index held against the batches of its segment, in chunks of any size."""

from __future__ import annotations

import pytest

from oncelog.errors import CorruptIndex
from oncelog.log.time_index import TimeIndex
from oncelog.segments.headers import Batches, read_headers
from oncelog.segments.source import BytesFile
from oncelog.segments.time_indexes import TimeIndexCheck
from oncelog.wire.record_batch import build_batch, set_offsets

TIMES = [100, 200, 200, 150, 300]  # of batches of one record each
BASE = 50


def problem(*entries: tuple[int, int]) -> str:
    log = b""
    for offset, timestamp in enumerate(TIMES):
        batch = build_batch([(timestamp, b"k", b"v", ())])
        set_offsets(batch, BASE + offset, 0)
        log += bytes(batch)
    index = TimeIndex(BASE)
    for timestamp, offset in entries:
        index.maybe_add(timestamp, BASE + offset)
    check = TimeIndexCheck(BASE, index.to_bytes())
    for item in read_headers(BytesFile(log), len(log)):
        assert isinstance(item, Batches)
        for row in range(len(item)):
            check.take(item.rows(row, row + 1))
    found = check.end(BASE + len(TIMES))
    return "" if found is None else found[0]


def test_it_is_compared_both_ways() -> None:
    assert problem((100, 0), (200, 1), (300, 4)) == problem((300, 4)) == ""
    assert problem((100, 0), (2000, 1)) == "it names timestamp 2000 of offset 51, which the log does not"
    assert problem((90, 0), (300, 4)) == "it names timestamp 90 of offset 50, which the log does not"
    assert problem((150, 3), (300, 4)) == "it names timestamp 150 of offset 53; one before it has 200"
    assert problem((300, 4), (301, 77)) == "it names offset 127; the segment ends at 55"
    for short in ((), ((100, 0), (200, 1))):
        assert "largest timestamp, 300, is missing" in problem(*short)


def test_what_is_no_index_is_refused() -> None:
    with pytest.raises(CorruptIndex):
        TimeIndexCheck(BASE, b"\1" * 13)
