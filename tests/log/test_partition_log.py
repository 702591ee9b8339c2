"""A partition's log against a list of batches: append, read, roll, delete, close, kill, crash."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from unittest import mock

import pytest
from evidence.world.files import Fault, Keep, PowerCut, SimFiles
from evidence.world.naive_log import NOW_MS, NaiveProducers, data_batch, naive_read, only
from evidence.world.partition_log import DIRECTORY, SMALL, World
from hypothesis import example, given, settings
from hypothesis import strategies as st

from oncelog.errors import DamagedLog, OffsetOutOfRange, StorageError
from oncelog.log import partition_log
from oncelog.log.config import LogConfig
from oncelog.log.failed_sync import MARKER
from oncelog.log.open_files import OpenFiles
from oncelog.log.recovery import recover
from oncelog.wire.record_batch import batches

LONG = int(os.environ.get("ONCELOG_LONG", "0"))

steps = st.one_of(
    st.tuples(
        st.just("append"), st.integers(1, 4), st.sampled_from([1, 40, 300, 1200]), st.sampled_from([-1, -1, 1, 2, 3])
    ),
    st.tuples(st.just("mark"), st.sampled_from([1, 2, 3]), st.booleans()),
    st.tuples(st.sampled_from(["sync", "move", "checkpoint", "store", "roll", "kill", "crash", "restart"])),
    st.tuples(st.just("delete"), st.floats(0, 1)),
)


def perform(world: World, step: tuple[object, ...]) -> None:
    match step:
        case ("append", int(count), int(value_bytes), int(producer_id)):
            world.append(count, value_bytes, producer_id)
        case ("mark", int(producer_id), bool(commit)):
            world.mark(producer_id, commit=commit)
        case ("sync",):
            world.sync()
        case ("move",):
            world.sync(moves_to_end=True)
        case ("checkpoint",):
            world.sync(checkpoint=True)
        case ("store",):
            world.store_recovery_point()
        case ("roll",):
            world.log.roll()
        case ("kill",):
            world.kill()
        case ("crash",):
            world.crash()
            world.check_recovery_is_idempotent()
        case ("restart",):
            world.close()
            report = world.open(is_clean=True)
            assert report.replayed_batch_count == 0, "a clean start reads no data"
            assert not world.log.has_unsynced
        case ("delete", float(share)):
            world.delete_before(int(share * world.synced))


BIG_BATCH = ("append", 2, 1200, 1)


@settings(max_examples=120 + 3000 * LONG, deadline=None)
@given(st.lists(steps, max_size=30), st.integers(0, 1000))
# Found by this test: a segment removed, its producers with it, before any snapshot was durable; the same with a power cut.
@example([BIG_BATCH, ("sync",), ("mark", 2, False), ("delete", 1.0), ("kill",)], 0)
@example([BIG_BATCH, ("sync",), ("roll",), ("delete", 1.0), ("crash",)], 0)
@example([("mark", 1, False), ("sync",), ("roll",), ("delete", 1.0), ("crash",)], 0)
# Where a journal's data sync had moved the recovery point to the roll already, its snapshot was not synced.
@example([BIG_BATCH, ("move",), ("roll",), ("delete", 1.0), ("crash",)], 1)
@example([BIG_BATCH, ("move",), ("store",), ("roll",), ("delete", 1.0), ("crash",)], 1)
def test_the_log_is_a_list_of_batches(script: list[tuple[object, ...]], seed: int) -> None:
    world = World(seed)
    for step in script:
        perform(world, step)
        world.check()
    world.close()
    written = world.files.snapshot(DIRECTORY)
    for path in written:
        if path.endswith("index"):
            world.files.remove(path)
    for segment in world.open(is_clean=True).log.segments:
        assert segment.offset_index.to_bytes() == written.get(segment.index_path, b""), "as if built from scratch"


later_steps = st.one_of(steps, st.tuples(st.sampled_from(["append"] * 3 + ["begin", "write", "end", "begin", "end"])))


@settings(max_examples=120 + 3000 * LONG, deadline=None)
@given(st.lists(later_steps, max_size=30), st.integers(0, 1000), st.booleans(), st.sampled_from((1, 400)))
def test_a_log_whose_batches_are_written_later_loses_none_that_was_written(
    script: list[tuple[object, ...]], seed: int, looks: bool, later_size_bytes_min: int
) -> None:
    """Killed at any moment, with what was on its way written in part and in any order: a prefix is left, all that was
    written in it."""
    with mock.patch.object(partition_log, "WRITTEN_LATER_SIZE_BYTES_MIN", later_size_bytes_min):
        world = World(seed, may_be_later=True)
        for step in script:
            match step:
                case ("append",):
                    world.append(1 + seed % 3, 300)
                case ("begin",):
                    world.begin_writes()
                case ("write",):
                    world.write_some()
                case ("end",):
                    world.end_writes()
                case _:
                    perform(world, step)
            world.check_written()
            if looks:
                world.check()
                assert not world.log.has_later_writes
        world.check()
        world.close()


def test_batches_that_cannot_be_written_are_none_of_the_log() -> None:
    with mock.patch.object(partition_log, "WRITTEN_LATER_SIZE_BYTES_MIN", 400):
        world = World(may_be_later=True)
        world.append(value_bytes=100)
        assert not world.log.has_later_writes, "a small one is written at once"
        world.append(2, 500)
        world.append(1, 10)
        assert world.written_end_offset == 1, "one behind a large one is not"
        world.begin_writes()
        world.append(1, 500)
        assert world.writes is not None
        world.files.fail_at(1, Fault.DISK_FULL)
        with pytest.raises(StorageError, match="DISK_FULL") as caught:
            world.writes.sync()
        world.log.fail(caught.value)
        assert (world.log.log_end_offset, world.log.has_later_writes) == (1, False)
        assert world.log.segments[-1].largest_timestamp == world.timestamp_ms - 15
        with pytest.raises(StorageError):
            world.append()
        del world.model[1:]
        read = world.log.read(0, 9999, 1)
        assert read is not None
        assert read.data == world.model[0].data
        world.log.close()
        world.files.kill()
        world.open()
        world.producers.replay(only(world.model[0].data))
        world.append()
        world.sync()
        world.check()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 40), st.integers(0, 3000), st.integers(0, 42), st.booleans())
def test_read_gives_whole_batches_within_both_bounds(
    offset: int, size_bytes_max: int, end_offset: int, at_least_one: bool
) -> None:
    world = World()
    for i in range(14):
        world.append(count=1 + i % 4, value_bytes=[5, 400, 90][i % 3])
    offset = min(offset, world.log.log_end_offset)
    read = world.log.read(offset, size_bytes_max, end_offset, at_least_one=at_least_one)
    expected = naive_read(world.model, offset, end_offset)
    if read is None:
        assert not expected or (not at_least_one and len(expected[0].data) > size_bytes_max)
        return
    got = list(batches(read.data))
    assert [b.base_offset for b in got] == [b.base_offset for b in expected[: len(got)]]
    assert read.data == b"".join(batch.data for batch in expected[: len(got)])
    assert read.end_offset == got[-1].end_offset
    assert len(read.data) <= size_bytes_max or (at_least_one and len(got) == 1)
    if len(got) < len(expected):
        is_full = len(read.data) + len(expected[len(got)].data) > size_bytes_max
        is_segment_end = any(segment.base_offset == read.end_offset for segment in world.log.segments)
        assert is_full or is_segment_end


def test_reads_outside_the_log_are_refused() -> None:
    world = World()
    for _ in range(5):
        world.append(value_bytes=900)
    world.sync()
    world.delete_before(3)
    for offset in (2, 6):
        with pytest.raises(OffsetOutOfRange):
            world.log.read(offset, 100, 5)
    assert world.log.read(5, 100, 5) is None
    with pytest.raises(OffsetOutOfRange):
        world.log.delete_records_before(6)


def rolled_at(config: LogConfig, *appends: tuple[int, int, int]) -> list[int]:
    """Segment bases after appending (offset, timestamp_ms, value_bytes) batches."""
    files = SimFiles()
    files.make_directory("d")
    log = recover(files, "d", config, NaiveProducers()).log
    for offset, timestamp_ms, value_bytes in appends:
        data = data_batch(offset, timestamp_ms=timestamp_ms, value_bytes=value_bytes)
        log.append(data, base_offset=offset, last_offset=offset, max_timestamp=timestamp_ms, now_ms=NOW_MS)
    return [segment.base_offset for segment in log.segments]


BIG = LogConfig()


def test_a_segment_is_rolled_by_size() -> None:
    size = len(data_batch(0))
    config = replace(BIG, segment_bytes=2 * size)
    assert rolled_at(config, *((i, NOW_MS, 10) for i in range(4))) == [0, 2]
    assert rolled_at(config, (0, NOW_MS, 999), (1, NOW_MS, 999)) == [0, 1], "a batch larger than a segment has its own"


def test_a_segment_is_rolled_by_batch_timestamps() -> None:
    """kafka-notes P25: the clock does not matter, and a segment may hold exactly segment.ms."""
    week = BIG.segment_ms
    assert rolled_at(BIG, (0, NOW_MS, 1), (1, NOW_MS + week, 1), (2, NOW_MS + week + 1, 1)) == [0, 2]
    assert rolled_at(BIG, (0, NOW_MS, 1), (1, NOW_MS - week * 9, 1)) == [0]
    assert rolled_at(BIG, (0, -1, 1), (1, NOW_MS + 2 * week, 1)) == [0], (
        "a first batch without a timestamp: by the clock"
    )


def test_a_segment_without_timestamps_is_rolled_by_the_clock() -> None:
    """As Apache Kafka 4.3.0 does it: from the segment's creation, or since this process opened it."""
    world = World(config=replace(BIG, segment_ms=1000))

    def append(timestamp_ms: int, now_ms: int) -> int:
        offset = world.log.log_end_offset
        data = data_batch(offset, timestamp_ms=timestamp_ms)
        world.log.append(
            data, base_offset=offset, last_offset=offset, max_timestamp=timestamp_ms, now_ms=NOW_MS + now_ms
        )
        return len(world.log.segments)

    assert [append(-1, 0), append(-1, 1000)] == [1, 1]
    assert append(-1, 1001) == 2, "and the new one begins now"
    assert [append(-1, 2001), append(NOW_MS, 2002)] == [2, 3]
    assert [append(-1, 9000), append(NOW_MS + 1000, 9001)] == [3, 3], "a first timestamp alone counts then"
    assert append(NOW_MS + 1001, 9001) == 4
    assert append(-1, 9002) == 4
    world.log.roll()
    append(-1, 10_000)
    world.log.close()
    world.open(is_clean=True)
    assert append(-1, 50_000) == len(world.log.segments)
    before = len(world.log.segments)
    assert [append(-1, 51_000), append(-1, 51_001)] == [before, before + 1]


def test_a_segment_is_rolled_when_an_index_is_full_or_offsets_grow_too_far() -> None:
    config = replace(BIG, index_interval_bytes=0, index_bytes_max=24)
    assert rolled_at(config, *((i, -1, 1) for i in range(6))) == [0, 4], "three entries of eight bytes"
    assert rolled_at(config, *((i, NOW_MS + i, 1) for i in range(4))) == [0, 2, 4][:2], "the time index keeps one free"
    far = 2**31
    assert rolled_at(BIG, (0, -1, 1), (far - 1, -1, 1), (far, -1, 1)) == [0, far]


def test_roll_of_an_empty_segment_is_nothing() -> None:
    world = World()
    world.log.roll()
    world.append()
    world.log.roll()
    world.log.roll()
    assert [segment.base_offset for segment in world.log.segments] == [0, 1]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.lists(st.integers(0, 60), min_size=1, max_size=3), st.integers(1, 300)), max_size=15),
    st.integers(-1, 62),
    st.floats(0, 1),
    st.booleans(),
)
def test_offset_for_timestamp_is_a_linear_scan(
    appended: list[tuple[list[int], int]], timestamp: int, start: float, is_reopened: bool
) -> None:
    from oncelog.wire.record_batch import build_batch, set_offsets

    world = World(config=replace(SMALL, segment_bytes=900, index_interval_bytes=100))
    records: list[tuple[int, int]] = []
    for timestamps, value_bytes in appended:
        offset = world.log.log_end_offset
        batch = build_batch([(t, None, bytes(value_bytes), ()) for t in timestamps])
        set_offsets(batch, offset, 0)
        world._append(bytes(batch))
        records += [(t, offset + i) for i, t in enumerate(timestamps)]
    log_start_offset = int(start * len(records))
    world.delete_before(log_start_offset)
    if is_reopened:
        world.close()
        world.open(is_clean=True)
    found = world.log.offset_for_timestamp(timestamp)
    expected = next(((t, o) for t, o in records if t >= timestamp and o >= log_start_offset), None)
    assert (found and found[:2]) == expected
    best = world.log.offset_of_max_timestamp()
    first = next((s for s in world.log.segments if s.end_offset > log_start_offset), world.log.segments[-1])
    kept = [(t, o) for t, o in records if o >= first.base_offset]
    assert (best and best[:2]) == max(kept, key=lambda r: (r[0], -r[1]), default=None)


def test_retention_by_time_and_size_spares_what_is_above_the_high_watermark() -> None:
    world = World(config=replace(SMALL, segment_bytes=500, retention_ms=1000, retention_bytes=-1))
    for _ in range(6):
        world.append(value_bytes=400)
    log = world.log
    last = [segment.largest_timestamp for segment in log.segments]
    past = log.segments_past_retention(last[2] + 1001, 6)
    assert [segment.base_offset for segment in past] == [0, 1, 2]
    assert [s.base_offset for s in log.segments_past_retention(last[2] + 1001, 2)] == [0, 1]
    assert len(log.segments_past_retention(last[5] + 5000, 5)) == 5
    assert len(log.segments_past_retention(last[5] + 5000, 6)) == 6, "the active one as well, once it is rolled"
    log.config = replace(log.config, retention_ms=-1, retention_bytes=log.segments[0].size_bytes * 4)
    assert [s.base_offset for s in log.segments_past_retention(0, 6)] == [0, 1]
    world.sync()
    world.delete_before(past[-1].end_offset)
    world.check()
    gone = tuple(f"{offset:020d}" for offset in range(3))
    left = [name for name in world.files.list(DIRECTORY) if name.startswith(gone)]
    assert all(name.endswith((".snapshot", ".deleted")) for name in left), left
    deleted = sorted(path.rpartition("/")[2] for path in log.take_deleted())
    assert deleted == [name for name in left if name.endswith(".deleted")]
    assert not log.take_deleted()


def test_a_failed_log_refuses_appends_and_serves_what_was_acknowledged() -> None:
    world = World()
    world.append(value_bytes=100)
    world.sync()
    world.files.fail_at(1, Fault.DISK_FULL)
    with pytest.raises(StorageError, match="DISK_FULL"):
        world.append(value_bytes=700)
    for refused in (world.append, world.sync, world.log.files_to_sync):
        with pytest.raises(StorageError):
            refused()
    del world.model[1:]
    read = world.log.read(0, 9999, 1)
    assert read is not None
    assert read.data == world.model[0].data
    world.log.close()
    world.crash()
    world.append()
    world.sync()
    world.check()


def test_a_failed_sync_is_never_tried_again() -> None:
    """After a failed fsync the page cache calls lost pages clean: a second one would say all is well."""
    world = World()
    world.append()
    world.files.fail_at(1, Fault.SYNC_ERROR)
    with pytest.raises(StorageError, match="SYNC_ERROR"):
        world.sync()
    with pytest.raises(StorageError, match="SYNC_ERROR"):
        world.sync()


def test_data_of_an_earlier_run_is_checked_when_it_is_read() -> None:
    world = World()
    for _ in range(8):
        world.append(value_bytes=600)
    world.close()
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 8 * 300)
    world.open(is_clean=True)
    with pytest.raises(DamagedLog, match="checksum"):
        world.log.read(0, 10, 8)
    assert world.log.failure is not None
    assert world.log.read(6, 10, 8) is not None


@pytest.mark.parametrize(
    "byte", [3, 9, 11, 16, 26, 300], ids=["offset", "length", "length too", "magic", "delta", "value"]
)
def test_what_lies_before_and_behind_a_damaged_batch_is_given(byte: int) -> None:
    world = World(config=replace(SMALL, segment_bytes=100_000))
    starts = []
    for _ in range(8):
        starts.append(world.log.size_bytes)
        world.append(value_bytes=600)
    world.close()
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 8 * (starts[4] + byte))
    world.open(is_clean=True)
    read = world.log.read(0, 100_000, 8)
    assert read is not None
    # An offset that is wrong may be that of either of two that do not follow each other: then both are damaged.
    intact = 3 if read.end_offset == 3 else 4
    assert [batch.base_offset for batch in batches(read.data)] == list(range(intact))
    assert world.log.failure is None
    with pytest.raises(DamagedLog):
        while (read := world.log.read(read.end_offset, 100_000, 8)) is not None:
            assert read.end_offset <= 4
    assert world.log.failure is not None


@pytest.mark.parametrize("byte", [11, 16, 61], ids=["length", "magic", "record"])
def test_a_time_behind_a_damaged_batch_is_not_answered(byte: int) -> None:
    """A reader would begin behind it, and never hear of it; who owns the log hears of it at once."""
    world = World(config=replace(SMALL, segment_bytes=100_000, index_interval_bytes=100_000))
    for _ in range(4):
        world.append(value_bytes=60)
    second = len(world.model[0].data)
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 8 * (second + byte))
    told: list[object] = []
    world.log.when_failed = lambda: told.append(world.log.failure)
    for _ in range(2):
        with pytest.raises(DamagedLog):
            world.log.offset_for_timestamp(world.timestamp_ms - 10)
    assert told == [world.log.failure] != [None], "once"


def test_data_of_an_earlier_run_is_checked_in_one_pass() -> None:
    world = World()
    for _ in range(8):
        world.append(value_bytes=600)
    world.close()
    world.open(is_clean=True)
    assert [batch.base_offset for batch in world.log.all_batches()] == list(range(8))
    assert [segment.unchecked_end_position for segment in world.log.segments] == [0] * len(world.log.segments)
    world.close()
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 8 * 300)
    world.open(is_clean=True)
    with pytest.raises(DamagedLog, match="checksum"):
        list(world.log.all_batches())
    assert world.log.failure is not None


def test_the_recovery_point_follows_within_its_bounds() -> None:
    world = World(config=replace(SMALL, segment_bytes=100_000, recovery_bytes_max=3000))
    size = 0
    for _ in range(60):
        world.append(value_bytes=500)
        size += len(world.model[-1].data)
        world.sync()
        behind = [b for b in world.model if b.last_offset >= world.log.recovery_point]
        assert sum(len(batch.data) for batch in behind) <= 3000 + 600
    world.append(value_bytes=500)
    world.store_recovery_point()
    assert len([name for name in world.files.list(DIRECTORY) if name.endswith(".snapshot")]) == 2
    report = world.kill()
    assert 0 < report.replayed_size_bytes <= 3600


def test_producers_outlive_the_segments_they_wrote() -> None:
    """A removal can reach the disk before the snapshot that was written earlier."""
    for seed in range(40):
        world = World(seed)
        world.append(2, 1200, producer_id=1)
        world.sync()
        world.log.roll()
        world.delete_before(2)
        world.crash()
        assert [entry.producer_id for entry in world.producers.snapshot_entries()] == [1]


def test_the_indexes_of_rolled_segments_are_synced_with_the_data() -> None:
    """Else a power cut would make the next start read gigabytes to rebuild them."""
    world = World()
    for i in range(12):
        world.append(value_bytes=300, producer_id=1)
        if i == 2:
            world.mark(1, commit=False)
    expected = {segment.base_offset: segment.offset_index.to_bytes() for segment in world.log.segments[:-1]}
    world.sync()
    world.files.crash(Keep.NONE)
    for base_offset, data in expected.items():
        assert data
        assert world.files.read_whole(f"{DIRECTORY}/{base_offset:020d}.index") == data
    assert world.files.read_whole(f"{DIRECTORY}/{0:020d}.txnindex")


def test_an_append_is_one_write() -> None:
    world = World(config=LogConfig())
    world.append()
    world.files.trace = []
    for _ in range(100):
        world.append(value_bytes=1000)
    assert world.files.trace == [("write", f"{DIRECTORY}/{0:020d}.log")] * 100


def test_thousands_of_logs_share_a_few_open_files() -> None:
    files = SimFiles()
    open_files = OpenFiles(files, files_max=10)
    logs = []
    for i in range(100):
        files.make_directory(f"d/{i}")
        logs.append(recover(open_files, f"d/{i}", SMALL, NaiveProducers()).log)
    assert len(open_files) <= 10
    for log in logs:
        log.append(data_batch(0), base_offset=0, last_offset=0, max_timestamp=NOW_MS, now_ms=NOW_MS)
    assert len(open_files) >= 100, "unsynced files stay open"
    for log in logs:
        for file in log.files_to_sync():
            file.sync()
        log.mark_synced(1)
    assert len(open_files) <= 10
    for log in logs:
        read = log.read(0, 100, 1)
        assert read is not None
        assert only(read.data).base_offset == 0


def test_changed_configuration_takes_effect_with_the_next_append() -> None:
    world = World(config=BIG)
    world.append(value_bytes=500)
    world.log.config = replace(BIG, segment_bytes=600)
    world.append(value_bytes=500)
    assert len(world.log.segments) == 2


def test_who_appends_without_a_leader_epoch_appends_in_the_first_as_batches_have_it() -> None:
    files = SimFiles()
    files.make_directory("d")
    log = recover(files, "d", SMALL, NaiveProducers()).log
    log.append(data_batch(0), base_offset=0, last_offset=0, max_timestamp=NOW_MS, now_ms=NOW_MS)
    assert log.leader_epoch == only(data_batch(0)).partition_leader_epoch


def test_names_that_may_be_lost_with_the_leader_epochs_are_made_anew_by_the_next_start() -> None:
    files = SimFiles()
    files.make_directory("d")
    log = recover(files, "d", BIG, NaiveProducers()).log
    log.append(data_batch(0), base_offset=0, last_offset=0, max_timestamp=NOW_MS, now_ms=NOW_MS)
    for n in range(200):  # more than a sector of leader epochs
        log.leader_epochs.assign(n, n)
    log._leader_epochs_changed = True
    with pytest.MonkeyPatch.context() as patch, pytest.raises(StorageError):
        patch.setattr(files, "sync_directory", refused)
        patch.setattr(files, "replace_whole", refused)
        log.files_to_sync(checkpoint=True)
    assert files.exists(f"d/{MARKER}")


def refused(*_: object) -> None:
    raise StorageError("Input/output error")


# Behind a journal the recovery point moves to the log's end, without indexes and snapshot


def test_a_journal_s_data_sync_moves_the_recovery_point_to_the_end() -> None:
    world = World()
    world.append(value_bytes=300)
    world.sync()
    assert world.log.recovery_point == 0
    world.append(value_bytes=300)
    world.sync(moves_to_end=True)
    assert world.log.recovery_point == 2
    assert not [name for name in world.files.list(DIRECTORY) if name.endswith(".snapshot")]


def test_indexes_are_synced_before_a_snapshot_where_the_recovery_point_is_already() -> None:
    """A start that found the snapshot would not rebuild them, and what they lack would be missing for ever."""
    world = World()
    world.append(value_bytes=300, producer_id=1)
    world.mark(1, commit=False)
    assert world.log.files_before_snapshot() == [], "below the end, a start replays all of it"
    world.sync(moves_to_end=True)
    before = world.log.files_before_snapshot()
    stem = f"{DIRECTORY}/{0:020d}"
    paths = [getattr(each, "path", "") for each in before]
    assert paths == [f"{stem}.index", f"{stem}.timeindex", f"{stem}.txnindex", DIRECTORY]
    world.sync(checkpoint=True)
    assert world.log.files_before_snapshot() == [], "there is a snapshot"


def test_a_new_log_has_nothing_to_sync_before_a_snapshot() -> None:
    assert World().log.files_before_snapshot() == []


def test_indexes_are_synced_also_while_the_sync_that_moves_the_recovery_point_is_under_way() -> None:
    world = World()
    world.append(value_bytes=300)
    end_offset = world.log.log_end_offset
    world.log.files_to_sync(moves_to_end=True)
    assert len(world.log.files_before_snapshot()) == 3
    world.log.mark_synced(end_offset)


@pytest.mark.parametrize("step", ["roll", "close", "checkpoint"])
@pytest.mark.parametrize("keep", [Keep.NONE, Keep.RANDOM])
def test_the_power_goes_around_a_snapshot_where_the_recovery_point_was(step: str, keep: Keep) -> None:
    for operation in range(1, 30):
        world = World(f"{step} {operation}")
        for _ in range(3):
            world.append(value_bytes=300, producer_id=1)
            world.mark(1, commit=False)
        world.sync(moves_to_end=True)
        world.store_recovery_point()
        world.files.cut_power_at(operation)
        with contextlib.suppress(PowerCut):
            if step == "roll":
                world.log.roll()
            elif step == "close":
                world.log.close()
            else:
                world.log.sync_now(checkpoint=True)
        world.crash(keep)


def test_a_sync_before_a_roll_that_fails_leaves_its_mark() -> None:
    """Names that waited for it may be lost: the next start makes them anew."""
    world = World()
    world.append(value_bytes=300)
    world.sync(moves_to_end=True)
    world.files.fail_at(1, Fault.SYNC_ERROR)
    with pytest.raises(StorageError):
        world.log.roll()
    assert world.files.exists(f"{DIRECTORY}/{MARKER}")
    world.kill()


def test_a_segment_stays_until_the_snapshot_of_its_end_is_synced() -> None:
    world = World()
    world.append(2, 1200, 1)
    world.sync(moves_to_end=True)
    world.store_recovery_point()
    world.log.roll()
    world.delete_before(2)
    assert world.log.segments[0].base_offset == 0
    world.log.files_to_sync()
    assert world.log._remove_segments() == [], "it is on its way"
    world.log.mark_synced(2)
    world.store_recovery_point()
    assert world.log.segments[0].base_offset == 2
    world.crash(Keep.NONE)


def test_a_snapshot_goes_when_two_newer_ones_are_synced() -> None:
    """A roll's own is not yet, where a journal's data sync had moved the recovery point there."""
    world = World()
    for _ in range(2):
        world.append(value_bytes=300, producer_id=1)
        world.sync(checkpoint=True)
    world.append(value_bytes=300, producer_id=1)
    world.sync(moves_to_end=True)
    world.log.roll()
    world.store_recovery_point()
    names = [name for name in world.files.list(DIRECTORY) if name.endswith(".snapshot")]
    assert [int(name[:20]) for name in names] == [1, 2, 3]
    world.sync()
    world.store_recovery_point()
    names = [name for name in world.files.list(DIRECTORY) if name.endswith(".snapshot")]
    assert [int(name[:20]) for name in names] == [2, 3]


def test_of_the_newest_batch_its_file_is_synced_and_names_that_it_lacks() -> None:
    world = World()
    world.append(value_bytes=300)
    log_path = f"{DIRECTORY}/{0:020d}.log"
    assert [each.path for each in world.log.newest_batch_files()] == [log_path, DIRECTORY]  # type: ignore[attr-defined]
    world.log.files_to_sync()
    assert len(world.log.newest_batch_files()) == 2, "the sync of the names is under way, and may fail"
    world.log.mark_synced(1)
    world.append(value_bytes=300)
    assert [each.path for each in world.log.newest_batch_files()] == [log_path]  # type: ignore[attr-defined]
