import datetime as dt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.producer.partitioner import partition_for_key
from oncelog.errors import CorruptBatch
from oncelog.wire.compression import Codec
from oncelog.wire.record_batch import (
    batches,
    build_batch,
    build_batch_of_section,
    build_end_txn_marker,
    set_log_append_time,
)
from tests.wire.record_values import RECORDS, as_records
from tests.wire.worlds import WORLDS

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")

each_world = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
NOW_MS = 1_700_000_000_000
INT64_MAX = 2**63 - 1


def ranges_of(world, built, *, topic="t", partition=0, start_offset=0, end_offset=INT64_MAX):
    return [
        world.arrow_records.BatchRange(topic, partition, view, start_offset, end_offset)
        for view in world.record_batch.batches(built)
    ]


def microseconds(timestamp_ms):
    if abs(timestamp_ms) > INT64_MAX // 1000:
        return INT64_MAX if timestamp_ms > 0 else -INT64_MAX
    return timestamp_ms * 1000


def rows_of(arrow_batch):
    """Offsets, µs, key, value, headers as plain values."""
    headers = arrow_batch.column("headers").to_pylist()
    return list(
        zip(
            arrow_batch.column("offset").to_pylist(),
            arrow_batch.column("timestamp").cast(pa.int64()).to_pylist(),
            arrow_batch.column("key").to_pylist(),
            arrow_batch.column("value").to_pylist(),
            [tuple((header["key"], header["value"]) for header in row or ()) for row in headers],
            strict=True,
        )
    )


def expected_rows(records, base_offset=0):
    return [
        (offset, microseconds(timestamp), key, value, headers)
        for offset, timestamp, key, value, headers in as_records(records, base_offset)
    ]


@each_world
def test_the_schema_is_that_of_sparks_kafka_source(world):
    arrow_batch = world.arrow_records.decode_to_arrow(ranges_of(world, build_batch([(NOW_MS, b"k", b"v", ())])))
    assert arrow_batch.schema.equals(
        pa.schema(
            [
                ("key", pa.binary()),
                ("value", pa.binary()),
                ("topic", pa.string()),
                ("partition", pa.int32()),
                ("offset", pa.int64()),
                ("timestamp", pa.timestamp("us", tz="UTC")),
                ("timestampType", pa.int32()),
                ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
            ]
        )
    )
    assert all(field.nullable for field in arrow_batch.schema)
    assert arrow_batch.schema.equals(world.arrow_records.kafka_schema())
    (row,) = arrow_batch.to_pylist()
    assert row == {
        "key": b"k",
        "value": b"v",
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": dt.datetime(2023, 11, 14, 22, 13, 20, tzinfo=dt.UTC),
        "timestampType": 0,
        "headers": None,
    }


@each_world
def test_headers_can_be_left_out(world):
    built = build_batch([(NOW_MS, b"k", b"v", [("h", b"x")])])
    arrow_batch = world.arrow_records.decode_to_arrow(ranges_of(world, built), include_headers=False)
    assert arrow_batch.schema.names[-1] == "timestampType"
    assert arrow_batch.schema.equals(world.arrow_records.kafka_schema(include_headers=False))


@settings(deadline=None)
@given(st.lists(st.tuples(RECORDS, st.sampled_from(Codec)), max_size=4))
def test_many_batches_become_one(groups):
    built = bytearray()
    expected = []
    for records, codec in groups:
        built += build_batch(records, base_offset=len(expected), codec=codec)
        expected += expected_rows(records, len(expected))
    decoded = []
    for world in WORLDS:
        arrow_batch = world.arrow_records.decode_to_arrow(ranges_of(world, built))
        arrow_batch.validate(full=True)
        assert rows_of(arrow_batch) == expected
        decoded.append(arrow_batch)
    assert decoded[0].equals(decoded[1])


@settings(deadline=None)
@given(RECORDS, st.integers(-2, 14), st.integers(-2, 14))
def test_only_offsets_of_the_range_are_read(records, start_offset, end_offset):
    built = build_batch(records, codec=Codec.LZ4)
    for world in WORLDS:
        parts = ranges_of(world, built, start_offset=start_offset, end_offset=end_offset)
        arrow_batch = world.arrow_records.decode_to_arrow(parts)
        arrow_batch.validate(full=True)
        assert rows_of(arrow_batch) == [row for row in expected_rows(records) if start_offset <= row[0] < end_offset]
        assert arrow_batch.column("topic").to_pylist() == ["t"] * arrow_batch.num_rows


@each_world
def test_topics_partitions_and_timestamp_types_follow_their_batches(world):
    stamped = build_batch([(5, b"a", None, ())] * 2)
    set_log_append_time(stamped, 77)
    parts = [
        *ranges_of(world, build_batch([(1, None, b"x", ())]), topic="één", partition=3),
        *ranges_of(world, stamped, topic="één", partition=3),
        *ranges_of(world, build_batch([(2, None, b"y", ())]), topic="b", partition=0, start_offset=1),
        *ranges_of(world, build_batch([(3, None, b"z", ())]), topic="b", partition=1),
    ]
    arrow_batch = world.arrow_records.decode_to_arrow(parts)
    assert arrow_batch.column("topic").to_pylist() == ["één", "één", "één", "b"]
    assert arrow_batch.column("partition").to_pylist() == [3, 3, 3, 1]
    assert arrow_batch.column("timestampType").to_pylist() == [0, 1, 1, 0]
    assert arrow_batch.column("timestamp").cast(pa.int64()).to_pylist() == [1000, 77_000, 77_000, 3000]


@each_world
def test_control_batches_are_left_out(world):
    marker = build_end_txn_marker(commit=True, producer_id=1, producer_epoch=0, coordinator_epoch=0, timestamp_ms=0)
    built = build_batch([(1, None, b"x", ())]) + marker
    assert world.arrow_records.decode_to_arrow(ranges_of(world, built)).num_rows == 1
    empty = world.arrow_records.decode_to_arrow(ranges_of(world, marker))
    assert empty.num_rows == 0
    assert empty.schema.equals(world.arrow_records.kafka_schema())


@each_world
def test_columns_grow_far_beyond_the_first_guess(world):
    records = [(n, b"k" * 50, b"v" * 200, [("name", b"h" * 30)] * 3) for n in range(200)]
    built = build_batch(records, codec=Codec.ZSTD) * 3
    assert len(built) < 10_000
    arrow_batch = world.arrow_records.decode_to_arrow(ranges_of(world, built))
    arrow_batch.validate(full=True)
    assert rows_of(arrow_batch) == expected_rows(records) * 3


@each_world
def test_header_keys_that_are_no_utf8_are_replaced(world):
    section = bytearray(world.record_codec.encode_records([(0, None, None, [("abcd", b"v")] * 2)], 0))
    section = section.replace(b"abcd", b"\xff\xffcd")
    built = build_batch_of_section(section, record_count=1, base_timestamp=0, max_timestamp=0)
    arrow_batch = world.arrow_records.decode_to_arrow(ranges_of(world, built))
    arrow_batch.validate(full=True)
    assert arrow_batch.column("headers").to_pylist() == [[{"key": "\ufffd\ufffdcd", "value": b"v"}] * 2]


@settings(deadline=None)
@given(RECORDS, st.data())
def test_damaged_sections_are_corrupt_or_read_as_the_record_reader_does(records, data):
    section = bytearray(WORLDS[0].record_codec.encode_records(records, 0))
    for _ in range(data.draw(st.integers(1, 3))):
        section[data.draw(st.integers(0, len(section) - 1))] = data.draw(st.integers(0, 255))
    built = build_batch_of_section(section, record_count=len(records), base_timestamp=0, max_timestamp=0)
    try:
        expected = [
            (offset, microseconds(timestamp), key, value, headers)
            for offset, timestamp, key, value, headers in next(batches(built)).records()
            if offset >= 0
        ]
    except CorruptBatch:
        expected = None
    for world in WORLDS:
        try:
            arrow_batch = world.arrow_records.decode_to_arrow(ranges_of(world, built))
            arrow_batch.validate(full=True)
            got = rows_of(arrow_batch)
        except CorruptBatch:
            got = None
        # What lies outside the offset range is not looked into, so more may be readable than by records().
        if expected is not None:
            assert got == expected


@each_world
def test_a_bad_checksum_is_found_unless_unwanted(world):
    built = build_batch([(1, None, b"x", ())])
    built[-2] ^= 1
    with pytest.raises(CorruptBatch):
        world.arrow_records.decode_to_arrow(ranges_of(world, built))
    assert world.arrow_records.decode_to_arrow(ranges_of(world, built), check_crc=False).num_rows == 1


@each_world
def test_decompression_stops_at_the_limit(world):
    built = build_batch([(1, None, bytes(100_000), ())], codec=Codec.GZIP)
    with pytest.raises(CorruptBatch, match="limit"):
        world.arrow_records.decode_to_arrow(ranges_of(world, built), decompressed_bytes_max=1000)


@each_world
@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(RECORDS, st.one_of(st.none(), st.tuples(st.integers(61), st.integers(1, 255)))), max_size=6))
def test_a_batch_that_cannot_be_read_leaves_no_trace(world, groups):
    rows, expected, base_offset = world.arrow_records.ArrowRows(0, 0), [], 0
    for records, damage in groups:
        built = build_batch(records, base_offset=base_offset)
        if damage is not None and len(built) > 61:
            built[61 + damage[0] % (len(built) - 61)] ^= damage[1]
        base_offset += len(records)
        for view in world.record_batch.batches(built):
            alone = world.arrow_records.ArrowRows(0, 0)
            try:
                alone.add("t", 0, view, 0, INT64_MAX)
            except CorruptBatch:
                with pytest.raises(CorruptBatch):
                    rows.add("t", 0, view, 0, INT64_MAX)
            else:
                rows.add("t", 0, view, 0, INT64_MAX)
                expected += rows_of(alone.finish())
            assert len(rows) == len(expected)
    made = rows.finish()
    made.validate(full=True)
    assert rows_of(made) == expected


@each_world
def test_a_column_never_has_more_than_its_offsets_can_say(world, monkeypatch):
    monkeypatch.setattr(world.arrow_records, "COLUMN_BYTES_MAX", 2_500)
    first, second, third = (build_batch([(1, None, b"%d" % n * 1000, ())], base_offset=n) for n in range(3))
    rows = world.arrow_records.ArrowRows(3, 1_000_000)  # however much was to be expected
    for built in (first, second):
        rows.add("t", 0, *world.record_batch.batches(built), 0, INT64_MAX)
    for _ in range(2):
        with pytest.raises(OverflowError, match="2 GiB"):
            rows.add("t", 0, *world.record_batch.batches(third), 0, INT64_MAX)
    assert rows.finish().column("offset").to_pylist() == [0, 1]


# From columns to batches


def encode(world, arrow_batch, **options):
    """The records of all sections, and how many each has."""
    options = {"timestamp_ms": NOW_MS} | options
    sections = list(world.arrow_records.encode_from_arrow(arrow_batch, **options))
    records = []
    for section in sections:
        batch = build_batch_of_section(**section._asdict())
        (view,) = world.record_batch.batches(batch)
        read = view.records()
        assert [record.offset for record in read] == list(range(section.record_count))
        records += [(timestamp, key, value, list(headers)) for _, timestamp, key, value, headers in read]
        assert view.max_timestamp == max(record[0] for record in records[-section.record_count :])
        assert len(section.section) == view.size_bytes - 61
    return records, [section.record_count for section in sections]


def arrow_of(records, headers_type=None):
    headers = [[{"key": key, "value": value} for key, value in row] or None for _, _, _, row in records]
    headers_type = headers_type or pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    return pa.RecordBatch.from_arrays(
        [
            pa.array([record[2] for record in records], pa.binary()),
            pa.array([record[1] for record in records], pa.binary()),
            pa.array([record[0] for record in records], pa.int64()),
            pa.array(headers, headers_type),
            pa.array(range(len(records))),
        ],
        names=["value", "key", "timestamp", "headers", "ignored"],
    )


@settings(deadline=None)
@given(RECORDS, st.integers(1, 400), st.integers(1, 5), st.integers(0, 5))
def test_columns_become_sections_within_the_limits(records, size_bytes_max, count_max, cut):
    """Also of a slice, whose buffers start elsewhere."""
    arrow_batch = arrow_of(records).slice(cut)
    outs = []
    for world in WORLDS:
        sections = list(
            world.arrow_records.encode_from_arrow(
                arrow_batch, timestamp_ms=NOW_MS, size_bytes_max=size_bytes_max, count_max=count_max
            )
        )
        outs.append([(bytes(section.section), *section[1:]) for section in sections])
        for section in sections:
            assert section.record_count <= count_max
            assert len(section.section) <= size_bytes_max or section.record_count == 1
        got, _ = encode(world, arrow_batch, size_bytes_max=size_bytes_max, count_max=count_max)
        assert got == [(t, k, v, [tuple(header) for header in h]) for t, k, v, h in records[cut:]]
    assert outs[0] == outs[1]


@settings(deadline=None)
@given(RECORDS)
def test_what_is_decoded_encodes_to_the_same_bytes(records):
    records = [(max(-(2**53), min(2**53, timestamp)), *rest) for timestamp, *rest in records]
    built = build_batch(records)
    for world in WORLDS:
        arrow_batch = world.arrow_records.decode_to_arrow(ranges_of(world, built))
        (section,) = world.arrow_records.encode_from_arrow(arrow_batch, timestamp_ms=NOW_MS)
        assert build_batch_of_section(**section._asdict()) == built


@settings(deadline=None)
@given(RECORDS, st.data())
def test_rows_are_taken_in_the_order_asked_for(records, data):
    chosen = data.draw(st.lists(st.integers(0, len(records) - 1), max_size=10))
    for world in WORLDS:
        got, _ = encode(world, arrow_of(records), rows=pa.array(chosen, pa.int32()))
        assert got == [(t, k, v, [tuple(header) for header in h]) for t, k, v, h in (records[row] for row in chosen)]


@each_world
def test_value_alone_is_enough_and_strings_are_utf8(world):
    for value_type in (pa.string(), pa.large_string()):
        arrow_batch = pa.RecordBatch.from_arrays([pa.array(["é", None, ""], value_type)], names=["value"])
        got, counts = encode(world, arrow_batch)
        assert got == [(NOW_MS, None, "é".encode(), []), (NOW_MS, None, None, []), (NOW_MS, None, b"", [])]
        assert counts == [3]
    for value_type in (pa.large_binary(), pa.binary(2), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())):
        arrow_batch = pa.RecordBatch.from_arrays([pa.array([b"ab", None], value_type)], names=["value"])
        assert [record[2] for record in encode(world, arrow_batch)[0]] == [b"ab", None]


@each_world
def test_columns_of_nulls_are_no_columns(world):
    arrow_batch = pa.RecordBatch.from_arrays(
        [pa.array([b"v"]), pa.nulls(1), pa.nulls(1), pa.nulls(1, pa.timestamp("us"))],
        names=["value", "key", "headers", "timestamp"],
    )
    assert encode(world, arrow_batch)[0] == [(NOW_MS, None, b"v", [])]


@each_world
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit(world, unit):
    moment = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    arrow_batch = pa.RecordBatch.from_arrays(
        [pa.array([b"v", b"w"]), pa.array([moment, None], pa.timestamp(unit, tz="UTC"))], names=["value", "timestamp"]
    )
    assert [record[0] for record in encode(world, arrow_batch)[0]] == [int(moment.timestamp() * 1000), NOW_MS]


@each_world
def test_other_header_types_are_converted(world):
    headers_type = pa.large_list(pa.struct([("key", pa.large_string()), ("value", pa.large_binary())]))
    records = [(NOW_MS, b"k", b"v", [("a", b"1"), ("b", None)]), (NOW_MS, None, None, [])]
    assert encode(world, arrow_of(records, headers_type))[0] == records


@each_world
def test_null_header_keys_and_null_headers_are_refused(world):
    headers_type = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    for header in ({"key": None, "value": b""}, None):
        arrow_batch = pa.RecordBatch.from_arrays(
            [pa.array([b"v"]), pa.array([[header]], headers_type)], names=["value", "headers"]
        )
        with pytest.raises(ValueError, match="header"):
            encode(world, arrow_batch)


@each_world
def test_a_column_named_value_is_needed(world):
    with pytest.raises(KeyError):
        encode(world, pa.RecordBatch.from_arrays([pa.array([b"v"])], names=["payload"]))


@each_world
@pytest.mark.parametrize("rows", [[0, 1], [-1]])
def test_row_indexes_outside_are_refused(world, rows):
    with pytest.raises(IndexError):
        encode(world, pa.RecordBatch.from_arrays([pa.array([b"v"])], names=["value"]), rows=pa.array(rows))


@each_world
def test_an_empty_batch_gives_nothing(world):
    empty = pa.RecordBatch.from_arrays([pa.array([], pa.binary())], names=["value"])
    assert encode(world, empty) == ([], [])
    one = pa.RecordBatch.from_arrays([pa.array([b"v"])], names=["value"])
    assert encode(world, one, rows=pa.array([], pa.int64())) == ([], [])


# Which row goes to which partition


@settings(deadline=None)
@given(st.lists(st.tuples(st.one_of(st.none(), st.binary(max_size=20)), st.one_of(st.none(), st.integers(0, 6)))))
def test_rows_go_where_the_java_producer_sends_them(rows):
    keys = [key for key, _ in rows]
    explicit = [partition for _, partition in rows]
    hashed = [5 if key is None else partition_for_key(key, 7) for key in keys]
    for names, columns, wanted in (
        (["key"], [pa.array(keys, pa.binary())], hashed),
        (
            ["key", "partition"],
            [pa.array(keys, pa.binary()), pa.array(explicit, pa.int32())],
            [h if e is None else e for h, e in zip(hashed, explicit, strict=True)],
        ),
    ):
        arrow_batch = pa.RecordBatch.from_arrays(columns, names=names)
        for world in WORLDS:
            chosen = world.arrow_records.rows_by_partition(arrow_batch, 7, keyless_partition=5)
            got = {partition: indexes.to_pylist() for partition, indexes in chosen}
            assert got == {
                partition: [index for index, other in enumerate(wanted) if other == partition]
                for partition in set(wanted)
            }
            assert list(got) == sorted(got)


@each_world
def test_rows_without_a_key_column_share_a_partition(world):
    arrow_batch = pa.RecordBatch.from_arrays([pa.array([b"a", b"b"])], names=["value"])
    ((partition, rows),) = world.arrow_records.rows_by_partition(arrow_batch, 3, keyless_partition=2)
    assert (partition, rows.to_pylist()) == (2, [0, 1])
    assert encode(world, arrow_batch, rows=rows)[1] == [2]


@each_world
@pytest.mark.parametrize("partition", [-1, 3])
def test_partitions_that_do_not_exist_are_refused(world, partition):
    columns = [pa.array([b"a"] * 3), pa.array([None, partition, 7], pa.int32())]
    arrow_batch = pa.RecordBatch.from_arrays(columns, names=["value", "partition"])
    with pytest.raises(ValueError, match=rf"row 1 of 3 names partition {partition}, outside 0\.\.2"):
        world.arrow_records.rows_by_partition(arrow_batch, 3, keyless_partition=0)


HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@each_world
@pytest.mark.parametrize(("wrong", "says"), [(None, "is null"), ({"key": None, "value": b"v"}, "has a null key")])
def test_the_row_of_a_wrong_header_is_named(world, wrong, says):
    good = {"key": "k", "value": None}
    columns = [pa.array([b"a"] * 5), pa.array([[wrong], None, [good, good], [good, wrong], []], HEADERS)]
    whole = pa.RecordBatch.from_arrays(columns, names=["value", "headers"])
    for arrow_batch, row, count in ((whole, 0, 5), (whole.slice(1), 2, 4)):
        with pytest.raises(ValueError, match=f"^row {row} of {count}: a record header {says}"):
            encode(world, arrow_batch)
    for arrow_batch in (whole.slice(1, 2), whole.slice(4)):
        assert encode(world, arrow_batch), "what a slice leaves out is not looked at"
