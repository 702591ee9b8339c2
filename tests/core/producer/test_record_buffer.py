"""Records are encoded as they come: the same bytes as when all are encoded together, and no half of one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.wire.record_codec import encode_records, parse_records
from tests.wire.record_values import RECORDS
from tests.wire.worlds import WORLDS

each_world = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)


def filled(world, records):
    buffer = world.record_buffer.RecordBuffer(61)
    for index, record in enumerate(records):
        assert buffer.add(*record, 10) == index
    return buffer


@each_world
@given(records=RECORDS)
def test_one_by_one_or_all_together(world, records):
    buffer = filled(world, records)
    assert bytes(buffer.section()) == bytes(encode_records(records, records[0][0]))
    assert (buffer.record_count, buffer.size_bytes) == (len(records), 61 + 10 * len(records))
    assert buffer.base_timestamp_ms == records[0][0]
    assert buffer.max_timestamp_ms == max(record[0] for record in records)


@each_world
@given(sizes=st.lists(st.integers(0, 3000), min_size=1, max_size=30))
def test_it_grows_as_it_must(world, sizes):
    values = [bytes([size % 251]) * size for size in sizes]
    buffer = filled(world, [(5, None, value, ()) for value in values])
    read = parse_records(bytes(buffer.section()), len(values), 0, 5, None)
    assert [record.value for record in read] == values


@each_world
def test_a_record_is_there_as_a_whole_or_not_at_all(world):
    buffer = filled(world, [(-5, b"key", b"value", (("h", b"1"),))])
    before = bytes(buffer.section())
    for wrong in ((2**63 - 1, None, b"too far away", ()), (1, None, b"x", ((5, b"no name"),)), (1, "text", b"x", ())):
        with pytest.raises((OverflowError, AttributeError, TypeError)):
            buffer.add(*wrong, 10)
    assert (bytes(buffer.section()), buffer.record_count, buffer.size_bytes) == (before, 1, 71)
    assert buffer.add(7, None, None, (), 10) == 1
    assert parse_records(bytes(buffer.section()), 2, 0, -5, None)[1][1:] == (7, None, None, ())


@each_world
def test_what_it_forgot_leaves_its_counts(world):
    buffer = filled(world, [(1, None, b"v", ())] * 3)
    buffer.forget()
    assert (bytes(buffer.section()), buffer.record_count, buffer.size_bytes) == (b"", 3, 91)
