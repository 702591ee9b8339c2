import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import CorruptBatch
from oncelog.wire.compression import Codec
from oncelog.wire.control_records import EndTxnMarker
from oncelog.wire.record_batch import (
    HEADER_BYTES,
    LOG_APPEND_TIME,
    RecordBatch,
    batches,
    build_batch,
    build_end_txn_marker,
    next_sequence,
    set_log_append_time,
    set_offsets,
)
from tests.wire.record_values import RECORDS, as_records
from tests.wire.worlds import WORLDS

SMALL = [(1000, b"k", b"value", [("h", b"x")]), (1001, None, None, [])]
# Where the CRC does not reach: offset, length, leader epoch, magic, the CRC itself.
UNCOVERED_BYTES = 21


@settings(deadline=None)
@given(RECORDS, st.sampled_from(Codec), st.integers(0, 2**60), st.booleans())
def test_round_trip_and_both_worlds_agree(records, codec, base_offset, is_transactional):
    built = set()
    for world in WORLDS:
        batch = world.record_batch.build_batch(
            records,
            base_offset=base_offset,
            producer_id=2**40,
            producer_epoch=7,
            base_sequence=2**31 - 2,
            is_transactional=is_transactional,
            codec=codec,
            partition_leader_epoch=3,
        )
        built.add(bytes(batch))
        (view,) = world.record_batch.batches(batch)
        view.check_crc()
        assert view.records() == as_records(records, base_offset)
        assert (view.base_offset, view.last_offset) == (base_offset, base_offset + len(records) - 1)
        assert view.end_offset == base_offset + len(records)
        assert view.record_count == len(records)
        assert (view.producer_id, view.producer_epoch, view.base_sequence) == (2**40, 7, 2**31 - 2)
        assert view.last_sequence == (2**31 - 2 + len(records) - 1) % 2**31
        assert view.is_transactional is is_transactional
        assert not view.is_control
        assert view.codec is codec
        assert view.first_timestamp == records[0][0]
        assert view.max_timestamp == max(record[0] for record in records)
        assert view.partition_leader_epoch == 3
        assert view.size_bytes == len(batch)
    assert len(built) == 1


def test_layout_of_the_header():
    """Kafka's `DefaultRecordBatch`, KIP-98 "Message Format"."""
    batch = build_batch(SMALL, base_offset=9, producer_id=5, producer_epoch=6, base_sequence=8, is_transactional=True)
    assert struct.unpack_from(">qiib", batch) == (9, len(batch) - 12, -1, 2)
    assert struct.unpack_from(">hiqqqhii", batch, 21) == (0x10, 1, 1000, 1001, 5, 6, 8, 2)


def test_a_batch_without_a_producer():
    view = RecordBatch(build_batch(SMALL))
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.last_sequence) == (-1, -1, -1, -1)


@pytest.mark.parametrize("codec", Codec)
def test_any_flipped_bit_is_found(codec):
    batch = build_batch(SMALL, codec=codec, producer_id=1, producer_epoch=0, base_sequence=0)
    for bit in range(8 * len(batch)):
        batch[bit >> 3] ^= 1 << (bit & 7)
        try:
            RecordBatch(batch).check_crc()
            found = False
        except CorruptBatch:
            found = True
        # A batch is given its offset and leader epoch after its CRC was made: those 12 bytes are not covered.
        assert found is (not (bit >> 3 < 8 or 12 <= bit >> 3 < 16)), f"bit {bit}"
        batch[bit >> 3] ^= 1 << (bit & 7)


@pytest.mark.parametrize("codec", Codec)
def test_any_flipped_bit_gives_records_or_corrupt_even_unchecked(codec):
    """A reader may skip the CRC, and a CRC may be right over nonsense."""
    batch = build_batch(SMALL * 5, codec=codec)
    for world in WORLDS:
        for bit in range(8 * len(batch)):
            batch[bit >> 3] ^= 1 << (bit & 7)
            try:
                for view in world.record_batch.batches(batch):
                    view.records(100_000)
                    assert view.codec in Codec
                    view.end_txn_marker()
            except CorruptBatch:
                pass
            batch[bit >> 3] ^= 1 << (bit & 7)


@pytest.mark.parametrize("codec", Codec)
def test_a_cut_at_any_byte_leaves_the_batch_out(codec):
    batch = bytes(build_batch(SMALL, codec=codec))
    for size in range(len(batch)):
        assert list(batches(batch[:size])) == []
        assert [view.size_bytes for view in batches(batch + batch[:size])] == [len(batch)]
        with pytest.raises(CorruptBatch):
            RecordBatch(batch[:size]).check_crc()
        with pytest.raises(CorruptBatch):
            RecordBatch(batch[:size]).records()


def test_batches_follow_one_another_from_a_position():
    data = (
        build_batch(SMALL)
        + build_batch(SMALL, base_offset=2)
        + build_end_txn_marker(commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    )
    views = list(batches(data))
    assert [view.base_offset for view in views] == [0, 2, 0]
    assert [view.is_control for view in views] == [False, False, True]
    assert [view.base_offset for view in batches(data, views[0].size_bytes)] == [2, 0]


@pytest.mark.parametrize(("position", "value"), [(8, -1), (8, 0), (8, 48), (8, -(2**31))])
def test_an_impossible_length_is_corrupt(position, value):
    batch = build_batch(SMALL)
    struct.pack_into(">i", batch, position, value)
    with pytest.raises(CorruptBatch):
        list(batches(batch))


@pytest.mark.parametrize("magic", [0, 1, 3, 127, 255])
def test_other_formats_are_corrupt(magic):
    batch = build_batch(SMALL)
    batch[16] = magic
    with pytest.raises(CorruptBatch, match="format"):
        list(batches(batch))


@pytest.mark.parametrize("count", [-1, 1, 3, 2**31 - 1])
def test_a_wrong_record_count_is_corrupt(count):
    batch = build_batch(SMALL)
    struct.pack_into(">i", batch, 57, count)
    with pytest.raises(CorruptBatch):
        RecordBatch(batch).records()


def test_decompression_stops_at_the_readers_limit():
    batch = build_batch([(0, None, bytes(1_000_000), ())], codec=Codec.GZIP)
    assert len(batch) < 2000
    with pytest.raises(CorruptBatch, match="limit of 10000 bytes"):
        RecordBatch(batch).records(bytes_max=10_000)


def test_unknown_codec_is_corrupt():
    batch = build_batch(SMALL)
    batch[22] |= 7
    view = RecordBatch(batch)
    with pytest.raises(CorruptBatch):
        view.records()
    with pytest.raises(CorruptBatch):
        assert view.codec


def test_offsets_are_set_in_place_and_outside_the_crc():
    batch = build_batch(SMALL)
    view = RecordBatch(batch)
    view.set_offsets(4000, 12)
    assert (view.base_offset, view.end_offset, view.partition_leader_epoch) == (4000, 4002, 12)
    fresh = RecordBatch(batch)
    fresh.check_crc()
    assert (fresh.base_offset, fresh.partition_leader_epoch) == (4000, 12)
    set_offsets(batch, 5000, 13)
    assert RecordBatch(batch).base_offset == 5000


def test_log_append_time_replaces_timestamps_and_mends_the_crc():
    """Only the type bit and the largest timestamp change (kafka-notes P24)."""
    batch = build_batch(SMALL)
    set_log_append_time(batch, 77_000)
    view = RecordBatch(batch)
    view.check_crc()
    assert view.timestamp_type == LOG_APPEND_TIME
    assert (view.first_timestamp, view.max_timestamp) == (1000, 77_000)
    assert [record.timestamp for record in view.records()] == [77_000, 77_000]


@pytest.mark.parametrize("commit", [True, False])
def test_end_transaction_markers(commit):
    batch = build_end_txn_marker(
        commit=commit, producer_id=42, producer_epoch=3, coordinator_epoch=9, timestamp_ms=1234
    )
    assert len(batch) == 78  # as Kafka's own
    view = RecordBatch(batch)
    view.check_crc()
    assert view.is_control
    assert view.is_transactional
    assert view.base_sequence == -1
    assert (view.producer_id, view.producer_epoch, view.max_timestamp) == (42, 3, 1234)
    assert view.end_txn_marker() == EndTxnMarker(commit, 9)
    assert repr(view) == "<RecordBatch control offsets 0..0 producer 42:3 sequence -1 78 bytes>"


def test_batches_of_data_have_no_marker():
    assert RecordBatch(build_batch(SMALL)).end_txn_marker() is None


def test_control_batches_of_other_types_have_no_marker():
    batch = build_batch([(0, struct.pack(">hh", 0, 2), b"leader", ())], is_control=True)
    assert RecordBatch(batch).end_txn_marker() is None


def test_an_empty_control_batch_has_no_marker():
    """The cleaner may leave a batch without records behind."""
    batch = build_batch([(0, b"k", b"v", ())], is_control=True)[:HEADER_BYTES]
    struct.pack_into(">i", batch, 8, HEADER_BYTES - 12)
    struct.pack_into(">i", batch, 57, 0)
    assert RecordBatch(batch).end_txn_marker() is None


@pytest.mark.parametrize(
    ("sequence", "increment", "following"),
    [(0, 1, 1), (2**31 - 1, 1, 0), (2**31 - 1, 2, 1), (2**31 - 2, 1, 2**31 - 1), (5, 0, 5)],
)
def test_sequences_wrap_to_zero(sequence, increment, following):
    assert next_sequence(sequence, increment) == following
