import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.leader.batch_checks import Refused, TimestampRules, ValidBatch, validate_produced
from oncelog.errors import ErrorCode
from oncelog.wire.compression import Codec, Compression, compress
from oncelog.wire.crc32c import crc32c
from oncelog.wire.record_batch import (
    CREATE_TIME,
    LOG_APPEND_TIME,
    RecordBatch,
    build_batch,
    build_end_txn_marker,
    set_offsets,
)
from tests.wire.record_values import HEADERS, RECORDS
from tests.wire.worlds import WORLDS

NOW_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
SMALL = [(NOW_MS, b"k", b"value", [("h", b"x")]), (NOW_MS + 1, None, None, [])]


def judge(data, validate=validate_produced, **options):
    options = {
        "api_version": 12,
        "size_bytes_max": 1_048_588,
        "compacted": False,
        "now_ms": NOW_MS,
        "timestamp_rules": TimestampRules(),
    } | options
    return validate(data, **options)


def refusal(data, **options):
    verdict = judge(data, **options)
    assert isinstance(verdict, Refused), verdict
    return verdict.error_code


def patched(batch, position, layout, value):
    """The batch with one field changed and its CRC made right again."""
    struct.pack_into(layout, batch, position, value)
    struct.pack_into(">I", batch, 17, crc32c(batch[21:]))
    return batch


@pytest.mark.parametrize("codec", Codec)
def test_a_good_batch_is_copied_unchanged_and_can_be_placed(codec):
    produced = bytes(build_batch(SMALL, producer_id=1, producer_epoch=0, base_sequence=0, codec=codec))
    verdict = judge(produced)
    assert isinstance(verdict, ValidBatch)
    assert verdict.data == produced
    verdict.batch.set_offsets(70, 4)
    placed = RecordBatch(verdict.data)
    placed.check_crc()
    assert (placed.base_offset, placed.partition_leader_epoch) == (70, 4)
    assert [record.offset for record in placed.records()] == [70, 71]


@pytest.mark.parametrize("compression", [None, Compression(Codec.LZ4)])
@pytest.mark.parametrize("time_type", [CREATE_TIME, LOG_APPEND_TIME])
def test_what_can_be_written_is_placed_where_it_lies_and_what_cannot_is_copied(time_type, compression):
    produced = bytes(build_batch(SMALL))
    given_away = bytearray(b"before" + produced + b"behind")
    lent = memoryview(bytes(given_away))
    rules = TimestampRules(time_type)
    placed = []
    for data in (memoryview(given_away)[6:-6], lent[6:-6]):
        verdict = judge(data, timestamp_rules=rules, compression=compression)
        assert isinstance(verdict, ValidBatch)
        verdict.batch.set_offsets(70, 4)
        placed.append(bytes(verdict.data))
    assert placed[0] == placed[1]
    assert lent == b"before" + produced + b"behind"
    assert given_away[:6] + given_away[-6:] == b"beforebehind", "and nothing around it"
    if compression is None:
        assert given_away[6:-6] == placed[0]


def test_null_and_empty_records_are_refused():
    """Kafka 4.3 never answers null records (kafka-notes P17); an empty set is 87 (kafka-notes P15)."""
    assert refusal(None) == ErrorCode.INVALID_RECORD
    assert refusal(b"") == ErrorCode.INVALID_RECORD


def test_every_truncation_of_the_only_batch_is_no_batch():
    """kafka-notes P15; within the first 12 bytes there is no length yet."""
    batch = bytes(build_batch(SMALL))
    for size in range(len(batch)):
        assert refusal(batch[:size]) == ErrorCode.INVALID_RECORD


def test_bytes_after_the_batch():
    """kafka-notes P15: a cut second batch is ignored, zeros are corrupt, a second batch is too many."""
    batch = bytes(build_batch(SMALL))
    for tail in (b"\x01", bytes(11), batch[:16], batch[:-1]):
        verdict = judge(batch + tail)
        assert isinstance(verdict, ValidBatch)
        assert verdict.data == batch
    assert refusal(batch + bytes(20)) == ErrorCode.CORRUPT_MESSAGE
    assert refusal(batch + batch) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("magic", "error_code"),
    [
        (0, ErrorCode.INVALID_RECORD),
        (1, ErrorCode.INVALID_RECORD),
        (3, ErrorCode.CORRUPT_MESSAGE),
        (127, ErrorCode.CORRUPT_MESSAGE),
        (255, ErrorCode.CORRUPT_MESSAGE),
    ],
)
def test_other_formats(magic, error_code):
    """kafka-notes P16."""
    batch = build_batch(SMALL)
    batch[16] = magic
    assert refusal(batch) == error_code


@pytest.mark.parametrize(
    ("length", "error_code"),
    [
        (-1, ErrorCode.CORRUPT_MESSAGE),
        (0, ErrorCode.CORRUPT_MESSAGE),
        (13, ErrorCode.CORRUPT_MESSAGE),
        (14, ErrorCode.CORRUPT_MESSAGE),
        (48, ErrorCode.CORRUPT_MESSAGE),
        (49, ErrorCode.CORRUPT_MESSAGE),
        (1_000_000, ErrorCode.INVALID_RECORD),
        (2**31 - 1, ErrorCode.INVALID_RECORD),
    ],
)
def test_batch_lengths_that_lie(length, error_code):
    """kafka-notes P16, where 2^31-1 is an UNKNOWN_SERVER_ERROR."""
    batch = build_batch(SMALL)
    struct.pack_into(">i", batch, 8, length)
    assert refusal(batch) == error_code


@pytest.mark.parametrize(("shift", "error_code"), [(-1, ErrorCode.CORRUPT_MESSAGE), (1, ErrorCode.INVALID_RECORD)])
def test_batch_lengths_that_are_off_by_one(shift, error_code):
    batch = build_batch(SMALL)
    struct.pack_into(">i", batch, 8, len(batch) - 12 + shift)
    assert refusal(batch) == error_code


def test_any_flipped_bit_is_refused_or_lies_outside_the_crc():
    batch = build_batch(SMALL, producer_id=1, producer_epoch=0, base_sequence=0)
    for bit in range(8 * len(batch)):
        batch[bit >> 3] ^= 1 << (bit & 7)
        verdict = judge(batch)
        if 12 <= bit >> 3 < 16:
            assert isinstance(verdict, ValidBatch)  # the leader overwrites the leader epoch (kafka-notes P20)
        else:
            assert isinstance(verdict, Refused)
            assert verdict.error_code in (ErrorCode.CORRUPT_MESSAGE, ErrorCode.INVALID_RECORD)
        batch[bit >> 3] ^= 1 << (bit & 7)


def test_base_offset_must_be_zero():
    """kafka-notes P20."""
    batch = build_batch(SMALL)
    set_offsets(batch, 1, -1)
    verdict = judge(batch)
    assert verdict.error_code == ErrorCode.INVALID_RECORD
    assert verdict.found_in_log


def test_the_size_limit_counts_the_whole_batch_as_sent():
    """kafka-notes P21."""
    batch = build_batch(SMALL)
    assert isinstance(judge(batch, size_bytes_max=len(batch)), ValidBatch)
    verdict = judge(batch, size_bytes_max=len(batch) - 1)
    assert verdict.error_code == ErrorCode.MESSAGE_TOO_LARGE
    assert not verdict.found_in_log
    squeezed = build_batch([(NOW_MS, None, bytes(100_000), ())], codec=Codec.GZIP)
    assert isinstance(judge(squeezed, size_bytes_max=len(squeezed)), ValidBatch)


def test_control_batches_are_refused():
    marker = build_end_txn_marker(
        commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=NOW_MS
    )
    verdict = judge(marker)
    assert verdict.error_code == ErrorCode.INVALID_RECORD
    assert verdict.found_in_log


@pytest.mark.parametrize("bit", [3, *range(6, 16)])
def test_attribute_bits_that_are_not_a_clients_are_refused(bit):
    """Kafka 4.3 takes them (kafka-notes P19)."""
    batch = build_batch(SMALL)
    assert refusal(patched(batch, 21, ">H", 1 << bit)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec):
    """Kafka 4.3: UNKNOWN_SERVER_ERROR (kafka-notes P18)."""
    assert refusal(patched(build_batch(SMALL), 21, ">H", codec)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("payload", [b"", b"\x00", b"nonsense" * 20])
def test_what_cannot_be_decompressed_is_refused(codec, payload):
    """Kafka 4.3: UNKNOWN_SERVER_ERROR (kafka-notes P18)."""
    batch = build_batch(SMALL)[:61] + payload
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    verdict = judge(patched(batch, 21, ">H", codec))
    assert verdict.error_code == ErrorCode.INVALID_RECORD
    assert verdict.found_in_log


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_bomb_is_too_large(codec):
    bomb = build_batch([(NOW_MS, None, bytes(2_000_000), ())], codec=codec)
    assert refusal(bomb, decompressed_bytes_max=1_000_000) == ErrorCode.MESSAGE_TOO_LARGE


def test_zstd_needs_produce_7():
    batch = build_batch(SMALL, codec=Codec.ZSTD)
    assert refusal(batch, api_version=6) == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert isinstance(judge(batch, api_version=7), ValidBatch)


@pytest.mark.parametrize("count", [-1, 0, 1, 3])
def test_the_record_count_must_be_right(count):
    assert refusal(patched(build_batch(SMALL), 57, ">i", count)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("delta", [-1, 0, 2, 2**31 - 1])
def test_the_last_offset_delta_must_be_right(delta):
    assert refusal(patched(build_batch(SMALL), 23, ">i", delta)) == ErrorCode.INVALID_RECORD


def test_count_and_delta_that_agree_must_still_match_the_records():
    batch = patched(build_batch(SMALL), 57, ">i", 1)
    assert refusal(patched(batch, 23, ">i", 0)) == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize(
    ("producer_id", "sequence", "good"), [(1, -1, False), (1, -2, False), (-1, -1, True), (-2, -1, True)]
)
def test_a_producer_id_needs_a_sequence(producer_id, sequence, good):
    """kafka-notes P11: producer id -2 is none."""
    verdict = judge(build_batch(SMALL, producer_id=producer_id, producer_epoch=0, base_sequence=sequence))
    assert isinstance(verdict, ValidBatch) is good
    assert good or verdict.error_code == ErrorCode.INVALID_RECORD


def test_a_compacted_topic_names_every_record_without_a_key():
    """kafka-notes P23."""
    records = [(NOW_MS, key, b"v", ()) for key in (None, b"", b"k", None)]
    assert isinstance(judge(build_batch(records)), ValidBatch)
    verdict = judge(build_batch(records), compacted=True)
    assert verdict.error_code == ErrorCode.INVALID_RECORD
    assert [index for index, _ in verdict.record_errors] == [0, 3]
    assert verdict.found_in_log


def test_timestamps_ahead_of_the_clock_are_named():
    """kafka-notes P23: more than an hour ahead is 32; -1 and -5 are fine."""
    times = [NOW_MS + HOUR_MS, NOW_MS + HOUR_MS + 1, -1, -5, NOW_MS + 10 * HOUR_MS]
    verdict = judge(build_batch([(timestamp, None, b"v", ()) for timestamp in times]))
    assert verdict.error_code == ErrorCode.INVALID_TIMESTAMP
    after = f"the timestamp is after {NOW_MS + HOUR_MS}"
    assert verdict.record_errors == ((1, after), (4, after))
    good = [(timestamp, None, b"v", ()) for timestamp in (NOW_MS + HOUR_MS, -1, -5)]
    assert isinstance(judge(build_batch(good)), ValidBatch)


def test_timestamps_behind_the_clock_are_named_where_the_topic_says_so():
    rules = TimestampRules(before_ms_max=1000)
    records = [(timestamp, None, b"v", ()) for timestamp in (NOW_MS - 1000, NOW_MS - 1001, -1)]
    verdict = judge(build_batch(records), timestamp_rules=rules)
    assert verdict.error_code == ErrorCode.INVALID_TIMESTAMP
    assert verdict.record_errors[0] == (1, f"the timestamp is not between {NOW_MS - 1000} and {NOW_MS + HOUR_MS}")
    assert [index for index, _ in verdict.record_errors] == [1]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("claimed", [-1, 0, NOW_MS + 99 * HOUR_MS])
def test_a_lying_largest_timestamp_is_corrected(codec, claimed):
    """kafka-notes P23."""
    verdict = judge(patched(build_batch(SMALL, codec=codec), 35, ">q", claimed))
    assert isinstance(verdict, ValidBatch)
    assert verdict.batch.max_timestamp == NOW_MS + 1
    RecordBatch(verdict.data).check_crc()
    assert RecordBatch(verdict.data).max_timestamp == NOW_MS + 1


def test_log_append_time_topics_take_any_timestamp_and_stamp_the_batch():
    """kafka-notes P24."""
    records = [(NOW_MS + 99 * HOUR_MS, None, b"v", ()), (5, None, b"v", ())]
    verdict = judge(build_batch(records), timestamp_rules=TimestampRules(timestamp_type=LOG_APPEND_TIME))
    assert isinstance(verdict, ValidBatch)
    verdict.batch.check_crc()
    assert verdict.batch.timestamp_type == LOG_APPEND_TIME
    assert verdict.batch.max_timestamp == NOW_MS
    assert verdict.batch.first_timestamp == NOW_MS + 99 * HOUR_MS
    assert [record.timestamp for record in verdict.batch.records()] == [NOW_MS, NOW_MS]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.ZSTD])
def test_offset_deltas_are_checked_compressed_or_not(codec):
    """Kafka 4.3 takes 0, 0 uncompressed and fails on it compressed (kafka-notes P18)."""
    one = build_batch(SMALL[:1])
    twice = one[61:] * 2
    batch = build_batch(SMALL, codec=codec)

    batch = batch[:61] + (twice if codec is Codec.NONE else compress(codec, twice))
    struct.pack_into(">i", batch, 8, len(batch) - 12)
    verdict = judge(patched(batch, 21, ">H", codec))
    assert verdict.error_code == ErrorCode.INVALID_RECORD
    assert "offset delta 0" in verdict.message


@settings(deadline=None)
@given(RECORDS, st.sampled_from(Codec), st.booleans())
def test_both_worlds_judge_alike(records, codec, compacted):
    batch = build_batch(records, codec=codec)
    verdicts = []
    for world in WORLDS:
        verdict = judge(
            batch,
            world.batch_checks.validate_produced,
            compacted=compacted,
            timestamp_rules=world.batch_checks.TimestampRules(),
        )
        if hasattr(verdict, "error_code"):
            verdicts.append((verdict.error_code, verdict.message, verdict.record_errors, verdict.found_in_log))
        else:
            verdicts.append(bytes(verdict.data))
    assert verdicts[0] == verdicts[1]


@settings(deadline=None)
@given(st.binary(max_size=120), st.integers(3, 13))
def test_any_bytes_are_refused(data, api_version):
    assert isinstance(judge(data, api_version=api_version), Refused)


@settings(deadline=None)
@given(RECORDS, HEADERS, st.data())
def test_nonsense_under_a_right_crc_is_valid_or_refused(records, headers, data):
    batch = build_batch([*records, (NOW_MS, b"k", b"v", headers)])
    for _ in range(data.draw(st.integers(1, 4))):
        position = data.draw(st.integers(21, len(batch) - 1))
        batch = patched(batch, position, "B", data.draw(st.integers(0, 255)))
    verdict = judge(batch)
    if isinstance(verdict, ValidBatch):
        assert len(verdict.batch.records()) == verdict.batch.record_count


LEVELS = {
    Codec.NONE: (None,),
    Codec.GZIP: (-1, 1, 9),
    Codec.SNAPPY: (None,),
    Codec.LZ4: (1, 9, 17),
    Codec.ZSTD: (-5, 3, 22),
}


@settings(deadline=None, max_examples=60)
@given(RECORDS, st.sampled_from(Codec), st.sampled_from(Codec), st.booleans(), st.data())
def test_a_topics_own_compression_changes_nothing_but_the_codec(records, produced, wanted, append_time, data):
    """Producer, sequence, timestamps, headers and the records' bytes stay; the checksum is right."""
    compression = Compression(wanted, data.draw(st.sampled_from(LEVELS[wanted])))
    sent = bytes(
        build_batch(records, codec=produced, producer_id=7, producer_epoch=2, base_sequence=5, is_transactional=True)
    )
    rules = TimestampRules(LOG_APPEND_TIME if append_time else 0, 2**62, 2**62)
    for world in WORLDS:
        plain = judge(sent, world.batch_checks.validate_produced, timestamp_rules=rules)
        found = judge(sent, world.batch_checks.validate_produced, timestamp_rules=rules, compression=compression)
        if isinstance(plain, world.batch_checks.Refused):
            assert found == plain
            continue
        assert found.batch.codec is wanted
        assert found.batch.size_bytes == len(found.data)
        assert found.produced_size_bytes == len(sent)
        found.batch.check_crc()
        assert found.batch.section() == plain.batch.section()
        assert found.batch.records() == plain.batch.records()
        same = set(RecordBatch.__slots__) - {"attributes", "size_bytes", "crc", "data"}
        assert {name: getattr(found.batch, name) for name in same} == {
            name: getattr(plain.batch, name) for name in same
        }
        assert found.batch.attributes & ~7 == plain.batch.attributes & ~7
        if produced is wanted:
            assert found.data == plain.data, "a level alone is no reason to touch a batch"


def test_what_a_batch_becomes_is_judged_by_its_size_too():
    """Kafka looks before and after; a batch that came too large is not saved by compression."""
    zeros = [(NOW_MS, None, bytes(5000), [])]
    packed, plain = bytes(build_batch(zeros, codec=Codec.GZIP)), bytes(build_batch(zeros))
    size = {"size_bytes_max": 1000}
    verdict = judge(packed, compression=Compression(Codec.NONE), **size)
    assert (verdict.error_code, verdict.found_in_log) == (ErrorCode.MESSAGE_TOO_LARGE, False)
    assert refusal(plain, compression=Compression(Codec.ZSTD, 3), **size) == ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(judge(packed, compression=Compression(Codec.ZSTD, 3), **size), ValidBatch)


def test_nothing_is_compressed_where_the_topic_has_no_compression_of_its_own(monkeypatch):
    calls = []
    for module in (WORLDS[1].batch_checks, WORLDS[1].record_batch):
        for name in ("compress", "recompressed"):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, lambda *given: calls.append(given))
    assert isinstance(judge(bytes(build_batch(SMALL))), ValidBatch)
    assert isinstance(judge(bytes(build_batch(SMALL)), compression=Compression(Codec.NONE)), ValidBatch)
    assert calls == []
