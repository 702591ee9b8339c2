"""Batches with fewer records: what is kept is kept exactly."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import CorruptBatch
from oncelog.log.retained_records import emptied, record_spans, with_records
from oncelog.wire.record_batch import Codec, RecordBatch, build_batch, set_log_append_time

NOW_MS = 1_700_000_000_000
data = st.none() | st.binary(max_size=20)
rows = st.lists(
    st.tuples(
        st.integers(-1, 2**41), data, data, st.lists(st.tuples(st.text(max_size=5), data), max_size=2).map(tuple)
    ),
    min_size=1,
    max_size=12,
)


def batch_of(records, **fields) -> RecordBatch:
    batch = RecordBatch(build_batch(records, producer_id=7, producer_epoch=3, base_sequence=11, **fields))
    batch.set_offsets(1000, 4)
    return batch


def identity(batch: RecordBatch) -> tuple:
    return (
        *(batch.base_offset, batch.last_offset, batch.partition_leader_epoch, batch.is_transactional),
        *(batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.timestamp_type),
    )


@given(rows, st.data(), st.sampled_from(Codec), st.none() | st.integers(NOW_MS, NOW_MS + 10**10))
def test_kept_records_are_unchanged(records, choice, codec, horizon_ms):
    batch = batch_of(records, codec=codec, is_transactional=True)
    before = batch.records()
    kept = sorted(choice.draw(st.sets(st.integers(0, len(records) - 1), min_size=1)))
    max_timestamp = max(before[index].timestamp for index in kept)
    after = RecordBatch(
        with_records(batch, batch.section(), kept, max_timestamp=max_timestamp, delete_horizon_ms=horizon_ms)
    )
    assert after.crc_is_valid
    assert after.records() == [before[index] for index in kept]
    assert identity(after) == identity(batch)
    assert (after.codec, after.max_timestamp) == (codec, max_timestamp)
    assert after.has_delete_horizon is (horizon_ms is not None)
    if horizon_ms is not None:
        assert after.base_timestamp == horizon_ms
        again = RecordBatch(with_records(after, after.section(), [0], max_timestamp=before[kept[0]].timestamp))
        assert (again.base_timestamp, again.has_delete_horizon) == (horizon_ms, True), "a horizon is set once"
        assert again.records() == [before[kept[0]]]


def test_an_emptied_batch_is_its_header():
    batch = batch_of([(NOW_MS + step, b"k", b"v", ()) for step in range(5)], codec=Codec.ZSTD)
    after = RecordBatch(emptied(batch))
    assert identity(after) == identity(batch)
    assert (after.record_count, after.size_bytes, after.codec) == (0, 61, Codec.NONE)
    assert (after.base_timestamp, after.max_timestamp) == (-1, NOW_MS + 4)
    assert after.last_sequence == batch.last_sequence == 15
    assert after.crc_is_valid
    assert after.records() == []


def test_log_append_time_stays_what_it_is():
    batch = batch_of([(NOW_MS, b"a", b"1", ()), (NOW_MS + 9, b"b", b"1", ())])
    set_log_append_time(batch.data, NOW_MS + 500)
    batch = RecordBatch(batch.data)
    after = RecordBatch(with_records(batch, batch.section(), [0], max_timestamp=NOW_MS))
    assert [record.timestamp for record in after.records()] == [NOW_MS + 500]


def test_records_that_do_not_fit_are_corrupt():
    with pytest.raises(CorruptBatch):
        record_spans(b"\x0e1234567", 2)
    with pytest.raises(CorruptBatch):
        record_spans(b"\x01", 1)
