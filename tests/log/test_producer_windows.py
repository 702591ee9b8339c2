"""The file of duplicate windows: its bytes, what of it is used, and what it holds at any time."""

from __future__ import annotations

import pytest
from evidence.world.files import Keep, SimFiles
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptIndex
from oncelog.log.producer_windows import (
    PRODUCER_WINDOWS,
    ProducerWindowsFile,
    SnapshotKey,
    bounded,
    completed,
    windows_from_bytes,
    windows_of,
    windows_to_bytes,
)
from oncelog.types import ProducerSnapshotEntry, WindowBatch

int32, int64 = st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1)
batches = st.lists(st.builds(WindowBatch, int32, int64, int32, int64), min_size=1, max_size=4).map(tuple)
windows = st.dictionaries(int64, st.tuples(st.integers(-(2**15), 2**15 - 1), batches), min_size=1, max_size=4)
keys = st.builds(SnapshotKey, st.binary(min_size=16, max_size=16), int32, int64)

A, B = b"a" * 16, b"b" * 16


def batch(number: int) -> WindowBatch:
    return WindowBatch(number, number, 0, 1000 + number)


@given(st.dictionaries(keys, windows, max_size=4))
def test_what_is_written_is_read(found):
    data = windows_to_bytes(found)
    assert windows_from_bytes(data) == found
    assert windows_to_bytes(dict(reversed(found.items()))) == data


@given(st.data())
def test_damage_is_seen(data):
    good = windows_to_bytes({SnapshotKey(A, 1, 10): {7: (0, (batch(1), batch(2)))}})
    bad, bit = bytearray(good), data.draw(st.integers(0, len(good) * 8 - 1))
    bad[bit // 8] ^= 1 << bit % 8
    for damaged in (bytes(bad), good[: bit // 8], good + b"\0"):
        with pytest.raises(CorruptIndex):
            windows_from_bytes(damaged)


def test_only_the_same_epoch_is_completed():
    entries = [ProducerSnapshotEntry(n, 3, 9, 9, 0, 0, -1, -1) for n in (1, 2, 3)]
    known = {1: (3, (batch(8),)), 2: (2, (batch(8),))}
    assert [each.earlier for each in completed(entries, known)] == [(batch(8),), (), ()]
    assert completed(entries, {}) == entries
    assert windows_of(completed(entries[:1], known)) == {1: known[1]}


def test_those_that_wrote_last_are_kept():
    first, second = SnapshotKey(A, 0, 5), SnapshotKey(B, 0, 5)
    found = {
        first: {n: (0, (batch(n),)) for n in range(0, 10, 2)},
        second: {n: (0, (batch(n),)) for n in range(1, 10, 2)},
    }
    assert bounded(found, 10) == found
    assert bounded(found, 3) == {first: {8: (0, (batch(8),))}, second: {n: (0, (batch(n),)) for n in (9, 7)}}


def test_the_former_ones_stay_until_the_recovery_points_are_stored():
    files = SimFiles()
    files.make_directory("d")
    files.sync_directory("")
    file = ProducerWindowsFile(files, "d")
    old, new = {SnapshotKey(A, 0, 5): {1: (0, (batch(1),))}}, {SnapshotKey(A, 0, 9): {1: (0, (batch(2),))}}
    file.keep({})
    assert not files.exists(f"d/{PRODUCER_WINDOWS}")
    file.keep(old)
    file.add(new)
    files.crash(Keep.NONE)
    after = ProducerWindowsFile(files, "d")
    after.read()
    assert after.of(A, 0) == {5: {1: (0, (batch(1),))}, 9: {1: (0, (batch(2),))}}
    assert after.of(B, 0) == after.of(A, 1) == {}
    after.keep(new)
    assert windows_from_bytes(files.read_whole(f"d/{PRODUCER_WINDOWS}")) == new
