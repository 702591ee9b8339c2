"""Producer snapshots: Kafka's bytes, and nothing broken is believed."""

from __future__ import annotations

import pathlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptIndex
from oncelog.log.producer_snapshot import file_name, snapshot_from_bytes, snapshot_to_bytes
from oncelog.types import ProducerSnapshotEntry

KAFKA = pathlib.Path(__file__).parent.parent / "data" / "kafka_log"

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
entries = st.builds(
    ProducerSnapshotEntry, int64, st.integers(-(2**15), 2**15 - 1), int32, int64, int32, int64, int32, int64
)


@given(st.lists(entries, max_size=5, unique_by=lambda entry: entry.producer_id))
def test_what_is_written_is_read(written: list[ProducerSnapshotEntry]) -> None:
    data = snapshot_to_bytes(written)
    assert len(data) == 10 + 46 * len(written)
    assert snapshot_from_bytes(data) == sorted(written, key=lambda entry: entry.producer_id)


@given(st.data())
def test_any_flipped_bit_or_cut_is_noticed(data: st.DataObject) -> None:
    good = snapshot_to_bytes([ProducerSnapshotEntry(1, 2, 3, 4, 5, 6, 7, 8)])
    bit = data.draw(st.integers(0, len(good) * 8 - 1))
    bad = bytearray(good)
    bad[bit // 8] ^= 1 << bit % 8
    with pytest.raises(CorruptIndex):
        snapshot_from_bytes(bytes(bad))
    with pytest.raises(CorruptIndex):
        snapshot_from_bytes(good[: bit // 8])


def test_apache_kafkas_own_file() -> None:
    data = (KAFKA / file_name(5615)).read_bytes()
    read = snapshot_from_bytes(data)
    assert read[0] == ProducerSnapshotEntry(0, 0, 1755, 5612, 3, 1795230838885, 0, -1)
    assert snapshot_to_bytes(reversed(read)) == data
