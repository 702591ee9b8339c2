"""Other people's record builders and readers against ours, both directions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.wire.compression import Codec
from oncelog.wire.record_batch import RecordBatch, build_batch, build_end_txn_marker
from tests.wire.record_values import as_records
from tests.wire.worlds import WORLDS

aiokafka_records = pytest.importorskip("aiokafka.record.default_records", reason="aiokafka is not installed")
aiokafka_memory = pytest.importorskip("aiokafka.record.memory_records", reason="aiokafka is not installed")
kafka_records = pytest.importorskip("kafka.record.default_records", reason="kafka-python is not installed")

BYTES = st.one_of(st.none(), st.binary(max_size=40))
HEADERS = st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=5)), max_size=2)
RECORDS = st.lists(st.tuples(st.integers(0, 2**41), BYTES, BYTES, HEADERS), min_size=1, max_size=8)
# kafka-python wants python-snappy, which is not among our development dependencies.
KAFKA_PYTHON_CODECS = [Codec.NONE, Codec.GZIP, Codec.LZ4, Codec.ZSTD]


def read_by_peer(batch):
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(tuple(header) for header in record.headers))
        for record in batch
    ]


@given(RECORDS, st.sampled_from(Codec))
@settings(max_examples=60, deadline=None)
def test_aiokafka_reads_what_we_build(records, codec):
    batch = build_batch(records, base_offset=50, producer_id=9, producer_epoch=1, base_sequence=2, codec=codec)
    theirs = aiokafka_memory.MemoryRecords(bytes(batch)).next_batch()
    assert theirs.validate_crc()
    assert (theirs.producer_id, theirs.producer_epoch, theirs.base_sequence) == (9, 1, 2)
    assert read_by_peer(theirs) == as_records(records, 50)


@given(RECORDS, st.sampled_from(Codec))
@settings(max_examples=60, deadline=None)
def test_we_read_what_aiokafka_builds(records, codec):
    builder = aiokafka_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=1,
        producer_id=9,
        producer_epoch=1,
        base_sequence=2,
        batch_size=1_000_000,
    )
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(index, timestamp, key, value, headers) is not None
    built = bytes(builder.build())
    for world in WORLDS:
        view = world.record_batch.RecordBatch(built)
        view.check_crc()
        assert view.is_transactional
        assert view.base_sequence == 2
        assert view.records() == as_records(records)


@given(RECORDS, st.sampled_from(KAFKA_PYTHON_CODECS))
@settings(max_examples=60, deadline=None)
def test_kafka_python_reads_what_we_build(records, codec):
    theirs = kafka_records.DefaultRecordBatch(bytes(build_batch(records, base_offset=50, codec=codec)))
    assert theirs.validate_crc()
    assert read_by_peer(theirs) == as_records(records, 50)


@given(RECORDS, st.sampled_from(KAFKA_PYTHON_CODECS))
@settings(max_examples=60, deadline=None)
def test_we_read_what_kafka_python_builds(records, codec):
    builder = kafka_records.DefaultRecordBatchBuilder(
        magic=2,
        compression_type=codec,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1_000_000,
    )
    for index, (timestamp, key, value, headers) in enumerate(records):
        assert builder.append(index, timestamp, key, value, headers) is not None
    view = RecordBatch(builder.build())
    view.check_crc()
    assert view.records() == as_records(records)


@pytest.mark.parametrize("commit", [True, False])
def test_aiokafka_sees_our_markers(commit):
    batch = build_end_txn_marker(commit=commit, producer_id=1, producer_epoch=2, coordinator_epoch=3, timestamp_ms=4)
    theirs = aiokafka_memory.MemoryRecords(bytes(batch)).next_batch()
    assert theirs.is_control_batch
    (record,) = theirs
    assert record.key[3] == commit
