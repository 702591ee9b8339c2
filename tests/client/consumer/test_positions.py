"""A position is a place in one topic, from its first moment: where another one has the name, it is looked for anew."""

from __future__ import annotations

import pytest

from oncelog import OffsetAndMetadata
from tests.client.cluster.test_group_offsets import ZERO, make_again, read, served


@pytest.mark.parametrize("begins", ["committed", "earliest", "sought"])
def test_a_position_that_nothing_was_fetched_from_yet_is_not_taken_for_one_in_the_new_topic(begins):
    async def work(admin, producer, reader):
        for value in (b"old 1", b"old 2"):
            await producer.send_and_wait("t", value)
        if begins == "earliest":
            await admin.delete_records({ZERO: 2})
        else:
            await reader.commit({ZERO: 2})
        reader.assign([ZERO])
        reader.pause(ZERO)
        assert await reader.position(ZERO) == 2
        at = reader.current_positions()[ZERO]
        assert at == OffsetAndMetadata(2)
        assert at.topic_id
        await make_again(admin, producer, [b"1", b"2", b"3"])
        if begins == "sought":
            reader.seek(ZERO, at)
        reader.resume(ZERO)
        assert await read(reader, 3) == [b"1", b"2", b"3"]

    served(work)


def test_what_was_fetched_of_the_old_topic_is_handed_out_and_the_new_one_is_read_from_its_beginning():
    async def work(admin, producer, reader):
        for value in (b"old 1", b"old 2", b"old 3"):
            await producer.send_and_wait("t", value)
        reader.assign([ZERO])
        assert [record.value for record in await reader.poll(timeout_ms=5_000, max_records=1)] == [b"old 1"]
        await make_again(admin, producer, [b"1", b"2", b"3", b"4"])
        found: list[bytes] = []
        while b"4" not in found:
            found += await read(reader, 1)
        assert [value for value in found if not value.startswith(b"old")] == [b"1", b"2", b"3", b"4"]

    served(work)
