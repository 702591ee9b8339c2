"""What a time index says against what the log holds: a lie costs time, never a record."""

from __future__ import annotations

import pytest
from evidence.world.files import SimFiles
from evidence.world.naive_log import NaiveProducers, data_batch
from evidence.world.partition_log import DATA, DIRECTORY, PARTITION

from oncelog.errors import DamagedLog
from oncelog.log.checkpoint_files import create_partition_directory
from oncelog.log.config import LogConfig
from oncelog.log.partition_log import PartitionLog
from oncelog.log.recovery import recover
from oncelog.log.time_index import TimeIndex
from oncelog.log.time_proof import largest_timestamp_in

T_MS = 1_700_000_000_000
STEM = f"{DIRECTORY}/{0:020d}"


def opened(files: SimFiles, config: LogConfig, recovery_point: int = 0) -> PartitionLog:
    return recover(
        files, DIRECTORY, config, NaiveProducers(), recovery_point=recovery_point, is_clean=recovery_point > 0
    ).log


def closed(*timestamps: int, interval_bytes: int = 0) -> tuple[SimFiles, LogConfig]:
    """A segment with a batch for each of these, by `T_MS`, and an empty one behind it, after a clean stop."""
    files, config = SimFiles(0), LogConfig(index_interval_bytes=interval_bytes, retention_ms=1000)
    files.make_directory(DATA)
    create_partition_directory(files, DATA, PARTITION, b"T" * 16)
    log = opened(files, config)
    for offset, each in enumerate(timestamps):
        timestamp = T_MS + each
        data = data_batch(offset, count=1, value_bytes=100, producer_id=-1, timestamp_ms=timestamp)
        log.append(data, base_offset=offset, last_offset=offset, max_timestamp=timestamp, now_ms=T_MS)
    log.roll()
    log.close()
    return files, config


def write_times(files: SimFiles, *entries: tuple[int, int]) -> None:
    index = TimeIndex(0)
    for timestamp, offset in entries:
        index.maybe_add(T_MS + timestamp, offset)
    file = files.open(f"{STEM}.timeindex")
    file.truncate(0)
    file.write_at(0, index.to_bytes())
    file.close()


def test_two_entries_that_bear_each_other_out_delete_nothing() -> None:
    """Neither the entry nor what stands beside it tells: before a segment goes all its batches are looked at."""
    files, config = closed(100, 900, 200, 300)
    write_times(files, (200, 2), (300, 3))
    log = opened(files, config, recovery_point=4)
    segment = log.segments[0]
    assert segment.largest_timestamp == T_MS + 300
    assert (log.segments_past_retention(T_MS + 1400, 4), log.to_prove) == ([], segment)
    segment.note_proof(largest_timestamp_in(segment.opened(), segment.times.unproven_end_position, 3))
    assert segment.largest_timestamp == T_MS + 900
    assert (log.segments_past_retention(T_MS + 1400, 4), log.to_prove) == ([], None)
    assert (log.segments_past_retention(T_MS + 1901, 4), log.to_prove) == ([segment], None)


@pytest.mark.parametrize(
    "entries",
    [
        (),
        ((100, 0),),
        ((300, 3),),
        ((900, 3),),
        ((5000, 1),),
        ((900, 100),),
        ((100, 0), (901, 1)),
    ],
)
def test_an_index_that_lies_is_built_anew_at_the_first_look(
    entries: tuple[tuple[int, int], ...], caplog: pytest.LogCaptureFixture
) -> None:
    files, config = closed(100, 900, 200, 300)
    whole = files.read_whole(f"{STEM}.timeindex")
    write_times(files, *entries)
    for _ in range(2):
        log = opened(files, config, recovery_point=4)
        assert log.segments[0].largest_timestamp == T_MS + 900
        log.close()
    assert files.read_whole(f"{STEM}.timeindex") == whole
    assert caplog.text.count("built anew") == 1


def test_what_is_true_is_believed(caplog: pytest.LogCaptureFixture) -> None:
    for timestamps in ((100, 900, 200, 300), (5, 5, 5), (1, 2, 3), (9,), (-T_MS - 1, -T_MS - 1)):
        for interval_bytes in (0, 300, 4096):
            files, config = closed(*timestamps, interval_bytes=interval_bytes)
            log = opened(files, config, recovery_point=len(timestamps))
            assert log.segments[0].largest_timestamp == T_MS + max(timestamps)
            for each in timestamps:
                found = log.offset_for_timestamp(T_MS + each)
                expected = next(offset for offset, other in enumerate(timestamps) if other >= each)
                assert (found and found.offset) == expected
            segment = log.segments[0]
            end_position = segment.times.unproven_end_position
            segment.note_proof(largest_timestamp_in(segment.opened(), end_position, len(timestamps) - 1))
            assert segment.is_proven
    assert caplog.text == ""


def test_damage_is_no_proof() -> None:
    files, config = closed(1, 2, 3)
    segment = opened(files, config, recovery_point=3).segments[0]
    for position, bit in ((0, 0), (8, 6), (11, 7), (23, 7), (26, 1)):
        files.flip_bit(segment.log_path, position * 8 + bit)
        with pytest.raises(DamagedLog):
            largest_timestamp_in(segment.opened(), segment.times.unproven_end_position, 2)
        files.flip_bit(segment.log_path, position * 8 + bit)
    assert largest_timestamp_in(segment.opened(), segment.times.unproven_end_position, 2) == T_MS + 3


@pytest.mark.parametrize("entry", [(200, 3), (240, 3)])
def test_an_entry_between_is_checked_when_a_lookup_uses_it(entry: tuple[int, int]) -> None:
    """The last ones are right."""
    files, config = closed(100, 200, 300, 400, 500, 600)
    write_times(files, (100, 0), entry, (500, 4), (600, 5))
    log = opened(files, config, recovery_point=6)
    for timestamp, offset in ((250, 2), (201, 2), (200, 1), (301, 3), (450, 4), (100, 0)):
        found = log.offset_for_timestamp(T_MS + timestamp)
        assert found is not None
        assert found.offset == offset
