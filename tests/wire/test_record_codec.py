import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.client.records import ConsumerRecord
from oncelog.errors import CorruptBatch
from oncelog.hot_paths import compiled
from oncelog.wire.record import Record
from oncelog.wire.record_codec import check_records
from tests.wire.record_values import RECORDS, as_records
from tests.wire.worlds import WORLDS

each_world = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
BOUNDS = (-(2**63) + 1, 2**63 - 1)


def parse(world, section, count, base_offset=0, base_timestamp=0, append_timestamp=None):
    try:
        return world.record_codec.parse_records(section, count, base_offset, base_timestamp, append_timestamp)
    except CorruptBatch as error:
        return str(error)


def check(world, section, count, needs_key=False):
    """What is found, which is the same wherever the section lies."""
    around = memoryview(b"\x7f" + section + b"\x7f")
    found = []
    for lies in (section, around[1:-1]):
        try:
            found.append(world.record_codec.check_records(lies, count, 0, needs_key, *BOUNDS))
        except CorruptBatch as error:
            found.append(str(error))
    assert found[0] == found[1]
    return found[0]


@each_world
def test_layout_of_a_record(world):
    """length, attributes, timestamp delta, offset delta, key, value, headers."""
    section = world.record_codec.encode_records([(1000, b"k", None, [("h", b"v"), ("n", None)])], 999)
    assert section.hex(" ") == "1c 00 02 00 02 6b 01 04 02 68 02 76 02 6e 01"
    assert parse(world, bytes(section), 1, 5, 999) == [Record(5, 1000, b"k", None, (("h", b"v"), ("n", None)))]


@settings(deadline=None)
@given(RECORDS, st.integers(0, 2**60), st.one_of(st.none(), st.integers(-1, 2**60)))
def test_round_trip_and_both_worlds_agree(records, base_offset, append_timestamp):
    base_timestamp = records[0][0]
    sections = set()
    for world in WORLDS:
        section = bytes(world.record_codec.encode_records(records, base_timestamp))
        sections.add(section)
        read = world.record_codec.parse_records(section, len(records), base_offset, base_timestamp, append_timestamp)
        assert read == as_records(records, base_offset, append_timestamp)
        assert all(type(record) is Record for record in read)
        largest, keyless, untimely = world.record_codec.check_records(
            section, len(records), base_timestamp, True, *BOUNDS
        )
        assert largest == max(-1, *(record[0] for record in records))
        assert keyless == [index for index, record in enumerate(records) if record[1] is None]
        assert untimely == []
    assert len(sections) == 1


@settings(deadline=None)
@given(RECORDS, st.data())
def test_damaged_sections_are_corrupt_or_read_alike(records, data):
    section = bytearray(WORLDS[0].record_codec.encode_records(records, 0))
    for _ in range(data.draw(st.integers(1, 3))):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    count = data.draw(st.sampled_from([len(records), len(records) + 1, max(1, len(records) - 1)]))
    damaged = bytes(section[: data.draw(st.sampled_from([len(section), len(section) - 1]))])
    plain, installed = WORLDS
    assert parse(plain, damaged, count) == parse(installed, damaged, count)
    assert check(plain, damaged, count) == check(installed, damaged, count)
    if not isinstance(check(plain, damaged, count), str):
        assert not isinstance(parse(plain, damaged, count), str), "the broker must refuse what a reader cannot read"


@settings(deadline=None)
@given(st.binary(max_size=60), st.integers(-(2**31), 2**31 - 1), st.integers(-(2**63), 2**63 - 1))
def test_any_bytes_are_corrupt_or_read_alike(section, count, base):
    plain, installed = WORLDS
    assert parse(plain, section, count, base, base) == parse(installed, section, count, base, base)
    assert check(plain, section, count) == check(installed, section, count)


@each_world
def test_a_count_is_not_believed(world):
    assert parse(world, bytes(700), 2**31 - 1) == "2147483647 records cannot be in 700 bytes"
    assert parse(world, b"", -1) == "-1 records cannot be in 0 bytes"


RECORD = "00 00 00 02 6b 02 76 00"  # attributes, deltas 0 and 0, key k, value v, no headers


@each_world
@pytest.mark.parametrize(
    ("record", "fault"),
    [
        ("01 00 00 02 6b 02 76 00", "unknown attributes"),
        ("00 00 02 02 6b 02 76 00", "offset delta 1"),
        ("00 00 01 02 6b 02 76 00", "offset delta -1"),
        ("00 00 00 0d 02 76 00", "impossible key length"),
        ("00 00 00 02 6b 03 00", "impossible value length"),
        ("00 00 00 02 6b 02 76 01", "impossible header count"),
        ("00 00 00 02 6b 02 76 02 01 00", "impossible header key length"),
        ("00 00 00 02 6b 02 76 02 00 03", "impossible header value length"),
        ("00 00 00 02 6b 02 76 00 00", "wrong length"),
        ("00 00 00 7e 6b 02 76 00", "passes the end"),
        ("00 00 00 01 01", "cannot be in 6 bytes"),
    ],
)
def test_a_produced_section_is_checked_in_every_field(world, record, fault):
    """Kafka 4.3 takes the first four uncompressed (kafka-notes P18)."""
    good = bytes.fromhex(RECORD)
    assert check(world, bytes([2 * len(good)]) + good, 1) == (0, [], [])
    body = bytes.fromhex(record)
    assert fault in check(world, bytes([2 * len(body)]) + body, 1)


@each_world
@pytest.mark.parametrize("shift", [-1, 1])
def test_a_record_length_that_lies_is_refused(world, shift):
    good = bytes.fromhex(RECORD)
    two = bytes([2 * len(good)]) + good + bytes([2 * (len(good) + shift)]) + good
    assert isinstance(check(world, two, 2), str)


@each_world
def test_a_reader_takes_gaps_and_strange_nulls(world):
    """Compaction leaves gaps; Java reads every negative length as null."""
    body = bytes.fromhex("00 00 0a 0d 03 00")
    assert parse(world, bytes([2 * len(body)]) + body, 1, base_offset=100) == [Record(105, 0, None, None, ())]


@each_world
def test_header_keys_that_are_no_utf8_are_replaced(world):
    body = bytes.fromhex("00 00 00 01 01 02 02 ff 01")
    (record,) = parse(world, bytes([2 * len(body)]) + body, 1)
    assert record.headers == (("\ufffd", None),)


@each_world
def test_timestamp_bounds_name_each_record_outside(world):
    records = [(timestamp, None, b"", ()) for timestamp in (10, -1, 9, 20, 21)]
    section = bytes(world.record_codec.encode_records(records, 10))
    assert world.record_codec.check_records(section, 5, 10, False, 10, 20) == (21, [], [2, 4])


@each_world
def test_timestamps_too_far_apart_for_one_batch_are_refused(world):
    with pytest.raises(OverflowError):
        world.record_codec.encode_records([(2**63 - 1, None, None, ())], -(2**62))


@each_world
def test_deltas_that_pass_64_bits_are_corrupt(world):
    section = bytes(world.record_codec.encode_records([(5, None, None, ())], 0))
    assert "passes 64 bits" in parse(world, section, 1, 0, 2**63 - 3)


@each_world
@given(records=RECORDS, base_offset=st.integers(0, 2**40), append_timestamp=st.one_of(st.none(), st.integers(0, 2**50)))
def test_records_with_their_place(world, records, base_offset, append_timestamp):
    """The same records, as named tuples that are as good as others."""
    section = bytes(world.record_codec.encode_records(records, records[0][0]))
    place = (ConsumerRecord, "t", 3, 1)
    read = world.record_codec.parse_records(section, len(records), base_offset, records[0][0], append_timestamp, place)
    wanted = [
        ConsumerRecord("t", 3, offset, timestamp, 1, key, value, headers)
        for offset, timestamp, key, value, headers in as_records(records, base_offset, append_timestamp)
    ]
    assert read == wanted
    assert {type(each) for each in read} == {ConsumerRecord}
    assert [each._replace(value=[each]).key for each in read] == [each.key for each in wanted]
    assert [hash(each) for each in read] == [hash(each) for each in wanted]


@each_world
def test_a_place_of_another_shape_is_refused(world):
    for kind in (Record, list, tuple):
        with pytest.raises((TypeError, AttributeError)):
            world.record_codec.parse_records(b"", 0, 0, 0, None, (kind, "t", 0, 0))


@each_world
def test_records_with_their_place_are_freed(world):
    section = bytes(world.record_codec.encode_records([(1, b"k", b"v", [("h", b"1")])] * 100, 1))
    place = (ConsumerRecord, "t" * 10, 300, 0)
    before = sys.getrefcount(ConsumerRecord), sys.getrefcount(place[1])
    for _ in range(20):
        world.record_codec.parse_records(section, 100, 0, 1, None, place)
    assert (sys.getrefcount(ConsumerRecord), sys.getrefcount(place[1])) == before


@pytest.mark.parametrize("section", ["text", None, 7, memoryview(b"abcd")[::2], bytearray(b"abcd")])
def test_a_section_is_bytes_or_a_contiguous_view(section):
    """The compiled reader would read memory that is not the section's."""
    if not compiled()["record_codec"]:
        pytest.skip("record_codec is not compiled here")
    with pytest.raises((TypeError, BufferError)):
        check_records(section, 1, 0, False, *BOUNDS)
