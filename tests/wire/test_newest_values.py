"""What a load reads without an object for each batch, against reading the same batches one by one."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import CorruptBatch
from oncelog.wire.record_batch import Codec, RecordBatch, build_batch, set_offsets
from tests.wire.worlds import WORLDS

each_world = pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
KEYS = st.sampled_from([b"a", b"b", b"c", b"", b"a longer key"])
VALUES = st.one_of(st.none(), st.binary(max_size=80))
SECTIONS = st.lists(st.tuples(st.integers(0, 9000), KEYS, VALUES, st.just(())), min_size=1, max_size=3)


def placed(*batches: bytearray, base_offset: int = 0) -> bytes:
    for batch in batches:
        set_offsets(batch, base_offset, 3)
        base_offset = RecordBatch(batch).end_offset
    return b"".join(batches)


def plain(key: bytes | None = b"k", value: bytes | None = b"v") -> bytearray:
    return build_batch([(5, key, value, ())])


@each_world
def test_the_last_value_of_each_key_counts_in_the_order_of_last_writes(world):
    data = placed(plain(b"a", b"1"), plain(b"b", b"2"), plain(b"a", b"3"), base_offset=7)
    newest: dict[bytes, bytes | None] = {}
    assert world.newest_values.take_newest(data, 0, 7, newest) == (len(data), 10)
    assert list(newest.items()) == [(b"b", b"2"), (b"a", b"3")]


NOT_PLAIN = {
    "compressed": build_batch([(5, b"k", b"v" * 50, ())], codec=Codec.LZ4),
    "transactional": build_batch([(5, b"k", b"v", ())], producer_id=1, producer_epoch=0, is_transactional=True),
    "control": build_batch([(5, b"k", b"v", ())], is_control=True),
    "without a key": plain(None),
    "with headers": build_batch([(5, b"k", b"v", [("h", b"v")])]),
    "of a key that was deleted before": plain(b"gone"),
}


@each_world
@pytest.mark.parametrize("other", NOT_PLAIN.values(), ids=NOT_PLAIN)
def test_others_are_left_to_the_reader_of_batches(world, other):
    before = placed(plain(b"gone", None), plain())
    data = before + placed(bytearray(other), plain(), base_offset=2)
    newest: dict[bytes, bytes | None] = {}
    assert world.newest_values.take_newest(data, 0, 0, newest) == (len(before), 2)
    assert newest[b"k"] == b"v"
    assert newest[b"gone"] is None


@each_world
def test_offsets_may_have_gaps_and_not_go_back(world):
    data = placed(plain(b"a")) + placed(plain(b"b"), base_offset=9) + placed(plain(b"c"), base_offset=8)
    newest: dict[bytes, bytes | None] = {}
    assert world.newest_values.take_newest(data, 0, 0, newest) == (len(data) // 3 * 2, 10)
    assert list(newest) == [b"a", b"b"]


def one_by_one(data: bytes, due_offset: int) -> tuple[int, int, dict[bytes | None, bytes | None]]:
    """Up to the first batch that cannot be read: where that is, the offset due there, and what was read."""
    position, found = 0, {}
    while position < len(data):
        try:
            batch = RecordBatch(data, position)
            batch.check_crc()
            records = batch.records()
        except CorruptBatch:
            break
        if batch.base_offset < due_offset or batch.last_offset_delta < 0:
            break
        for record in records:
            found.pop(record.key, None)
            found[record.key] = record.value
        position, due_offset = position + batch.size_bytes, batch.end_offset
    return position, due_offset, found


@settings(deadline=None)
@given(st.lists(SECTIONS, min_size=1, max_size=4), st.integers(0, 2**40), st.data())
def test_whatever_the_bytes_are_it_reads_no_more_than_one_by_one_and_the_same(sections, base_offset, data):
    whole = placed(*(build_batch(section) for section in sections), base_offset=base_offset)
    broken = bytearray(whole)
    broken[data.draw(st.integers(0, len(whole) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    for given_bytes in (whole, bytes(broken), whole[: data.draw(st.integers(0, len(whole)))]):
        expected = one_by_one(given_bytes, 0)
        ends = set()
        for world in WORLDS:
            newest: dict[bytes, bytes | None] = {}
            position, due_offset = world.newest_values.take_newest(given_bytes, 0, 0, newest)
            ends.add((position, due_offset))
            assert position <= expected[0]
            if position == expected[0]:
                assert (due_offset, list(newest.items())) == (expected[1], list(expected[2].items()))
        assert len(ends) == 1
