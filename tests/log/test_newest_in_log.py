"""What a log says last of each key, against all of its batches."""

from __future__ import annotations

import pytest
from evidence.world.partition_log import DIRECTORY, World

from oncelog.errors import DamagedLog
from oncelog.log.newest_in_log import newest_in_log
from oncelog.wire.record_batch import RecordBatch


def test_plain_batches_come_together_and_others_between_them() -> None:
    world = World()
    for producer_id in (-1, -1, 1, 1, -1):
        world.append(producer_id=producer_id)
    world.mark(1, commit=True)
    parts = list(newest_in_log(world.log))
    kinds = [type(part) for part in parts]
    assert kinds == [dict, RecordBatch, RecordBatch, dict, RecordBatch]
    stored = {each.key: each.value for batch in world.log.all_batches() for each in batch.records()}
    assert parts[0].keys() | parts[3].keys() <= stored.keys()


def test_all_segments_from_the_log_start_on() -> None:
    world = World()
    for _ in range(8):
        world.append(value_bytes=600)
    assert len(world.log.segments) > 2
    world.log.delete_records_before(world.log.segments[1].base_offset + 1)
    expected = {each.key: each.value for batch in world.log.all_batches() for each in batch.records()}
    found: dict[bytes | None, bytes | None] = {}
    for part in newest_in_log(world.log):
        found |= part if isinstance(part, dict) else {each.key: each.value for each in part.records()}
    assert found == expected


def test_data_of_an_earlier_run_is_checked() -> None:
    world = World()
    for _ in range(8):
        world.append(value_bytes=600)
    world.close()
    world.open(is_clean=True)
    list(newest_in_log(world.log))
    assert [segment.unchecked_end_position for segment in world.log.segments] == [0] * len(world.log.segments)
    world.close()
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 8 * 300)
    world.open(is_clean=True)
    with pytest.raises(DamagedLog, match="checksum"):
        list(newest_in_log(world.log))
    assert world.log.failure is not None
