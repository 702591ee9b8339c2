"""Records leave a batch in order and once, in parts of any size, whatever a deserializer raises."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.client.consumer.handing_out import hand_out, reached
from oncelog.client.records import ConsumerRecord


def batch(offsets):
    records = [ConsumerRecord("t", 0, offset, 0, 0, None, b"%d" % offset, ()) for offset in offsets]
    return SimpleNamespace(decoded=records, decoded_index=0)


def refuses(bad):
    def decode(record):
        if record.offset in bad:
            raise ValueError(record.offset)
        return record

    return decode


OFFSETS = st.sets(st.integers(0, 40), min_size=1).map(sorted)


@given(OFFSETS, st.integers(0, 45), st.lists(st.integers(1, 9), min_size=50, max_size=50), st.booleans())
def test_in_parts_of_any_size(offsets, from_offset, sizes, decodes):
    place, position, found = batch(offsets), from_offset, []
    for size in sizes:
        taken = []
        hand_out(place, position, taken, size, (lambda record: record) if decodes else None)
        position = reached(place, position)
        assert len(taken) <= size
        found += [record.offset for record in taken]
    assert found == [offset for offset in offsets if offset >= from_offset]
    assert position == max(from_offset, offsets[-1] + 1)
    assert place.decoded_index == len(offsets)


@given(OFFSETS, st.integers(0, 40))
def test_what_comes_before_a_record_that_cannot_be_read_is_handed_out(offsets, bad):
    place, taken = batch(offsets), []
    if bad in offsets:
        with pytest.raises(ValueError, match=str(bad)):
            hand_out(place, 0, taken, 100, refuses({bad}))
        assert reached(place, 0) <= bad, "it is still to be read"
    else:
        hand_out(place, 0, taken, 100, refuses({bad}))
    assert [record.offset for record in taken] == [each for each in offsets if bad not in offsets or each < bad]
