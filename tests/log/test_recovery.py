"""Recovery of what a crash, a bad disk or a person left: made whole, or refused; never wrong, never different twice."""

from __future__ import annotations

import os
import pathlib
import random
from dataclasses import replace

import pytest
from evidence.world.files import Fault, Keep, SimFiles
from evidence.world.naive_log import NOW_MS, NaiveProducers, data_batch
from evidence.world.partition_log import DATA, DIRECTORY, PARTITION, SMALL, World

from oncelog.errors import DamagedLog, StorageError
from oncelog.log import producer_snapshot
from oncelog.log.aborted_checksums import snapshot_key
from oncelog.log.checkpoint_files import LOG_START_OFFSETS, RECOVERY_POINTS, write_offsets
from oncelog.log.config import INT32_MAX, LogConfig
from oncelog.log.files import DirectoryNames
from oncelog.log.recovery import RecoveryReport, recover
from oncelog.log.torn_tail import valid_batches
from oncelog.log.transaction_index import aborted_from_bytes

LONG = int(os.environ.get("ONCELOG_LONG", "0"))
KAFKA = pathlib.Path(__file__).parent.parent / "data" / "kafka_log"


def filled(*, is_stored: bool = True) -> World:
    """Four segments with transactions, closed cleanly; `is_stored`: the recovery point is the end."""
    world = World()
    for i in range(12):
        world.append(value_bytes=400, producer_id=1 + i % 2)
        if i % 3 == 2:
            world.mark(1 + i % 2, commit=i % 2 == 0)
    world.close()
    if not is_stored:
        write_offsets(world.files, DATA, RECOVERY_POINTS, {})
    return world


def log_path(world: World, index: int) -> str:
    return f"{DIRECTORY}/{world.log.segments[index].base_offset:020d}.log"


def overwrite(files: SimFiles, path: str, data: bytes) -> None:
    file = files.open(path)
    file.truncate(0)
    file.write_at(0, data)
    file.sync()
    file.close()


def test_a_torn_tail_is_cut_kept_and_reported() -> None:
    world = World()
    for i in range(4):
        world.append(value_bytes=100 + i)
    path = log_path(world, 0)
    position = sum(len(batch.data) for batch in world.model[:2])
    world.files.flip_bit(path, (position + 90) * 8)
    cut_bytes = world.files.read_whole(path)[position:]
    lost = [(batch.base_offset, batch.last_offset) for batch in world.model[3:]]
    world.files.kill()
    report = world._after(world.open())
    assert world.log.log_end_offset == 2
    assert report.cut is not None
    assert (report.cut.offset, report.cut.position, report.cut.size_bytes) == (2, position, len(cut_bytes))
    assert list(report.cut.valid_batches_behind) == lost
    assert world.files.read_whole(f"{DIRECTORY}/{2:020d}.torn") == cut_bytes
    assert "checksum" in report.notes[0]
    world.check_recovery_is_idempotent()


def test_segments_behind_a_torn_one_are_kept_aside_whole() -> None:
    world = filled(is_stored=False)
    path = log_path(world, 1)
    whole = {segment.log_path: world.files.read_whole(segment.log_path) for segment in world.log.segments[2:]}
    world.files.flip_bit(path, 8 * 700)
    world.files.kill()
    world.synced = 0
    report = world._after(world.open())
    assert len(world.log.segments) == 2
    for name, data in whole.items():
        assert world.files.read_whole(f"{name}.torn") == data
    assert report.cut is not None
    assert len(report.cut.side_files) == 1 + len(whole)
    assert len(report.cut.valid_batches_behind) > 4
    names = world.files.list(DIRECTORY)
    assert all(
        name.endswith((".torn", ".metadata")) or name[:20] <= f"{world.log.log_end_offset:020d}"
        for name in names
        if name[0] == "0"
    )
    world.check_recovery_is_idempotent()


def test_side_files_are_bounded() -> None:
    world = World(config=replace(SMALL, torn_files_max=3))
    for _ in range(6):
        world.append()
        world.sync()
        world.log._open_files.get(log_path(world, 0)).append(b"\x02" * 100)
        world.crash(Keep.ALL)
        torn = [name for name in world.files.list(DIRECTORY) if name.endswith(".torn")]
    assert torn == [f"{offset:020d}.torn" for offset in (4, 5, 6)]


@pytest.mark.parametrize("is_clean", [False, True])
def test_damage_below_the_recovery_point_is_never_cut(is_clean: bool) -> None:
    """Kafka would cut acknowledged records there without a word; on a single copy that is loss."""
    world = World()
    for _ in range(4):
        world.append(value_bytes=100)
    world.close()
    world.files.remove(f"{DIRECTORY}/{4:020d}.snapshot")  # so that the replay comes by
    world.files.flip_bit(log_path(world, 0), 8 * 100)
    before = world.files.read_whole(log_path(world, 0))
    with pytest.raises(DamagedLog, match=r"offset 0.*synced, nothing is cut"):
        world.open(is_clean=is_clean)
    assert world.files.read_whole(log_path(world, 0)) == before
    assert not [name for name in world.files.list(DIRECTORY) if name.endswith(".torn")]


def test_nothing_is_cut_behind_a_damaged_batch_that_nobody_checked() -> None:
    """Replay begins behind it: its header, with more records than it has, leads past the first batch that is replayed."""
    world = World(config=replace(SMALL, segment_bytes=100_000))
    for _ in range(2):
        world.append(value_bytes=100)
    world.sync(checkpoint=True)
    world.store_recovery_point()
    for _ in range(5):
        world.append(value_bytes=100)
    world.sync()
    world.files.replace_whole(f"{DIRECTORY}/{producer_snapshot.file_name(2)}", producer_snapshot.snapshot_to_bytes([]))
    last_offset_delta_bits = 8 * 26
    world.files.flip_bit(log_path(world, 0), last_offset_delta_bits)
    world.files.kill()
    before = world.files.read_whole(log_path(world, 0))
    with pytest.raises(DamagedLog, match=r"position 0: .*checksum; it was synced, nothing is cut"):
        world.open()
    assert world.files.read_whole(log_path(world, 0)) == before


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("what", ["shorter", "missing", "all"])
def test_a_log_shorter_than_what_was_synced_is_damage(what: str, is_clean: bool) -> None:
    world = filled()
    last = log_path(world, -1)
    if what == "shorter":
        overwrite(world.files, last, world.files.read_whole(last)[:-10])
    elif what == "missing":
        world.files.remove(last)
    else:
        for segment in world.log.segments:
            world.files.remove(segment.log_path)
    with pytest.raises(DamagedLog):
        world.open(is_clean=is_clean)


def test_a_segment_missing_in_the_middle_is_damage() -> None:
    world = filled()
    for name in world.files.list(DIRECTORY):
        if name.endswith(".snapshot"):
            world.files.remove(f"{DIRECTORY}/{name}")
    world.files.remove(log_path(world, 1))
    with pytest.raises(DamagedLog, match="next segment begins"):
        world.open()


def test_compaction_may_leave_gaps_below_the_recovery_point() -> None:
    world = filled()
    path = log_path(world, 1)
    last = len(world.files.read_whole(path)) - 461
    overwrite(world.files, path, world.files.read_whole(path)[: last // 473 * 473])
    producers = NaiveProducers()
    end_offset = world.log.log_end_offset
    config = replace(SMALL, may_have_gaps=True)
    for name in world.files.list(DIRECTORY):
        if name.endswith((".snapshot", "index")):
            world.files.remove(f"{DIRECTORY}/{name}")
    overwrite(
        world.files, path, b"".join(b.data for b in world.model if world.log.segments[1].base_offset == b.base_offset)
    )
    log = recover(world.files, DIRECTORY, config, producers, recovery_point=end_offset).log
    assert log.log_end_offset == end_offset
    offset, seen = 0, 0
    while (read := log.read(offset, 1, end_offset)) is not None:
        seen += 1
        offset = read.end_offset
    assert len(world.model) - 6 < seen < len(world.model)


@pytest.mark.parametrize("is_clean", [False, True])
@pytest.mark.parametrize("is_stored", [False, True])
def test_broken_side_files_cost_time_but_nothing_else(is_stored: bool, is_clean: bool) -> None:
    """Every index, snapshot and epoch file removed, emptied, cut, zeroed, padded, flipped: the log reads as before."""
    if is_clean and not is_stored:
        return
    world = filled(is_stored=is_stored)
    rng = random.Random(7)
    names = [name for name in world.files.list(DIRECTORY) if not name.endswith((".log", ".metadata"))]
    good = world.files.snapshot(DIRECTORY)
    states = 0
    for name in names:
        path = f"{DIRECTORY}/{name}"
        data = good[path]
        broken = [b"", data[:-1], bytes(len(data)), data + bytes(24), data + b"\x01" * 7, None]
        if not name.endswith(".txnindex"):
            for _ in range(6 + 60 * LONG):
                flipped = bytearray(data)
                if flipped:
                    flipped[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
                broken.append(bytes(flipped))
        else:
            broken = [data[:-1], data + b"\x01" * 7, b"\x01" + data[1:]]
        for bad in broken:
            for other, content in good.items():
                overwrite(world.files, other, content)
            if bad is None:
                world.files.remove(path)
            else:
                overwrite(world.files, path, bad)
            world.open(is_clean=is_clean)
            world.check()
            world.log.close()
            states += 1
    assert states > 100


@pytest.mark.parametrize("is_stored", [False, True])
def test_a_bit_flipped_in_the_log_is_never_served(is_stored: bool) -> None:
    world = filled(is_stored=is_stored)
    good = world.files.snapshot(DIRECTORY)
    rng = random.Random(5)
    model = list(world.model)
    outcomes = set()
    for _ in range(60 + 600 * LONG):
        for path, content in good.items():
            overwrite(world.files, path, content)
        for name in world.files.list(DIRECTORY):
            if f"{DIRECTORY}/{name}" not in good:
                world.files.remove(f"{DIRECTORY}/{name}")
        path = log_path(world, rng.randrange(len(world.log.segments)))
        world.files.flip_bit(path, rng.randrange(8 * len(good[path])))
        try:
            report = world.open()
            world.model = [batch for batch in model if batch.last_offset < world.log.log_end_offset]
            outcomes.add("cut" if report.cut else "whole")
            offset, read = 0, b""
            while (part := world.log.read(offset, 1, world.log.log_end_offset)) is not None:
                read += part.data
                offset = part.end_offset
            # The two fields outside the checksum: offsets are checked by order, the leader epoch is not.
            expected = b"".join(batch.data for batch in world.model)
            assert len(read) == len(expected)
            differ = [i for i in range(len(expected)) if expected[i] != read[i]]
            assert not differ or (len(differ) == 1 and is_outside_crc(world, differ[0])), differ
        except DamagedLog:
            outcomes.add("damaged")
    assert outcomes >= ({"damaged"} if is_stored else {"cut"})


def is_outside_crc(world: World, index: int) -> bool:
    position = 0
    for batch in world.model:
        if index < position + len(batch.data):
            return 12 <= index - position < 16
        position += len(batch.data)
    return False


def test_the_newest_readable_snapshot_is_taken_and_unreadable_ones_are_removed() -> None:
    world = filled()
    snapshots = sorted(name for name in world.files.list(DIRECTORY) if name.endswith(".snapshot"))
    assert len(snapshots) == 2
    overwrite(world.files, f"{DIRECTORY}/{snapshots[1]}", b"\0\1nonsense")
    report = world.open()
    world.check()
    assert report.replayed_from_offset == int(snapshots[0][:20])
    assert any("an older one is tried" in note for note in report.notes)


def test_leftovers_of_an_interrupted_run_are_put_right() -> None:
    world = filled()
    base = world.log.segments[1].base_offset
    good = world.files.snapshot(DIRECTORY)
    stem, first = f"{DIRECTORY}/{base:020d}", f"{DIRECTORY}/{0:020d}"
    leftovers = [
        f"{first}.log.deleted",
        f"{first}.index.deleted",
        f"{stem}.log.cleaned",
        f"{stem}.index.cleaned",
        f"{stem}.log.swap",  # from the .cleaned one on, not all were renamed
        f"{DIRECTORY}/{777:020d}.index",
        f"{DIRECTORY}/{777:020d}.txnindex",
        f"{DIRECTORY}/leader-epoch-checkpoint.tmp",
    ]
    for path in leftovers:
        overwrite(world.files, path, b"x" * 30)
    overwrite(world.files, f"{first}.log.swap", good[f"{first}.log"])
    overwrite(world.files, f"{first}.log", b"what the cleaner replaced")
    world.open(is_clean=True)
    world.check()
    # The indexes of the swapped segment come with it or are rebuilt when they are first needed.
    world.log.close()
    left = world.files.snapshot(DIRECTORY)
    assert [path for path in good if left.get(path) != good[path] and "index" not in path] == []
    assert [path for path in left if path not in good] == []


def test_apache_kafkas_directory_is_read_and_rebuilt_byte_for_byte() -> None:
    """The files of a partition of Apache Kafka 4.3 with three transactional producers, closed cleanly."""
    original = {path.name: path.read_bytes() for path in KAFKA.iterdir()}
    files = SimFiles()
    files.make_directory("k")
    for name, data in original.items():
        overwrite(files, f"k/{name}", data)
    config = LogConfig(segment_bytes=1 << 20)
    clean = recover(files, "k", config, NaiveProducers(), recovery_point=5615, is_clean=True)
    assert (clean.replayed_batch_count, clean.notes, clean.cut) == (0, [], None)
    assert clean.log.log_end_offset == 5615
    aborted = clean.log.aborted_between(5599, 5615)
    assert aborted == aborted_from_bytes(original[f"{5599:020d}.txnindex"], 5599)
    assert len(aborted) == 2
    clean.log.close()
    assert files.snapshot("k") == {f"k/{name}": data for name, data in sorted(original.items())}
    for name in original:
        if name.endswith("index"):
            files.remove(f"k/{name}")
    rebuilt = recover(files, "k", config, NaiveProducers(), recovery_point=5599, log_start_offset=5599)
    assert rebuilt.replayed_from_offset == 5599
    now = files.snapshot("k")
    for name, data in original.items():
        if name != f"{5615:020d}.snapshot":  # the plain producers of this test know less than Kafka's
            assert now[f"k/{name}"] == data, name


def test_a_clean_start_reads_no_data_and_writes_nothing() -> None:
    world = filled()
    world.files.trace = []
    reads = world.files.read_count
    report = world.open(is_clean=True)
    assert (report.replayed_batch_count, world.files.trace) == (0, [])
    assert world.files.read_count - reads < 20
    world.log.close()
    assert world.files.trace == []


def test_valid_batches_are_found_between_garbage() -> None:
    first, second = data_batch(7, count=2, timestamp_ms=NOW_MS), data_batch(9, value_bytes=60)
    data = b"\x02" * 33 + first + b"\0\x02\x02" * 40 + second + first[:80]
    assert valid_batches(data, 0) == [(7, 8), (9, 9)]
    assert valid_batches(data, 9) == [(9, 9)]
    assert valid_batches(b"", 0) == []


def test_a_snapshot_that_a_kill_left_is_durable_before_it_stands_for_removed_segments() -> None:
    """Written at a roll, found by a start, never synced: the segments below it go with the log start that lies at it."""
    world = World()
    for _ in range(6):
        world.append(value_bytes=700, producer_id=7)  # two in a segment
    world.append(value_bytes=700, producer_id=8)
    start = world.log.segments[2].base_offset
    assert start == 4
    world.files.kill()
    world.open()
    write_offsets(world.files, DATA, LOG_START_OFFSETS, {PARTITION: start})
    world.log.delete_records_before(start)
    world.log.sync_now()
    assert world.log.segments[0].base_offset == start
    world.files.crash(Keep.NONE)  # before the recovery point was stored
    report = world.open()
    assert report.replayed_from_offset == start
    assert not report.notes
    assert world.producers.entries[7].current_txn_first_offset == 0


def test_so_is_one_that_a_roll_left_where_a_journal_s_data_sync_had_the_recovery_point_already() -> None:
    world = World()
    for _ in range(2):
        world.append(value_bytes=300, producer_id=7)
    world.sync(moves_to_end=True)
    world.store_recovery_point()
    world.log.roll()
    world.files.kill()
    world.open()
    world.log.sync_now()
    write_offsets(world.files, DATA, LOG_START_OFFSETS, {PARTITION: 2})
    world.log.delete_records_before(2)
    world.log.sync_now()
    assert world.log.segments[0].base_offset == 2
    world.files.crash(Keep.NONE)
    world.open()
    assert world.producers.entries[7].current_txn_first_offset == 0


def test_segments_that_are_kept_aside_are_durable_with_their_new_names() -> None:
    world = World()
    for _ in range(7):
        world.append(value_bytes=700)
    last = log_path(world, -1)
    whole = world.files.read_whole(last)
    world.files.kill()
    world.files.remove(log_path(world, 1))
    report = world.open()
    assert report.cut is not None
    assert len(report.cut.side_files) == 2
    world.files.crash(Keep.NONE)
    assert world.files.read_whole(f"{last}.torn") == whole


def snapshots(world: World) -> list[str]:
    return [f"{DIRECTORY}/{name}" for name in world.files.list(DIRECTORY) if name.endswith(".snapshot")]


@pytest.mark.parametrize("gone", ["newest", "all", "newest damaged"])
@pytest.mark.parametrize("lost_batches", [1, 3])
@pytest.mark.parametrize("is_clean", [False, True])
def test_a_log_shorter_than_its_recovery_point_is_damage_without_its_newest_snapshot_too(
    gone: str, lost_batches: int, is_clean: bool
) -> None:
    """It ends with a whole batch, so nothing but the recovery point tells."""
    world = filled()
    end_offset = world.log.log_end_offset
    while lost_batches:
        batch = world.model.pop()
        path = next(each.log_path for each in reversed(world.log.segments) if each.base_offset <= batch.base_offset)
        data = world.files.read_whole(path)
        assert data.endswith(batch.data)
        overwrite(world.files, path, data[: -len(batch.data)])
        lost_batches -= 1
    for path in snapshots(world)[0 if gone == "all" else -1 :]:
        if gone == "newest damaged":
            overwrite(world.files, path, world.files.read_whole(path)[:-1])
        else:
            world.files.remove(path)
    before = {path: data for path, data in world.files.snapshot(DIRECTORY).items() if path.endswith(".log")}
    with pytest.raises(
        DamagedLog, match=f"synced up to {end_offset}|everything below .* was synced|what lies between is missing"
    ):
        world.open(is_clean=is_clean)
    after = {path: data for path, data in world.files.snapshot(DIRECTORY).items() if path.endswith(".log")}
    assert after == before


@pytest.mark.parametrize("is_stored", [False, True])
def test_an_unreadable_snapshot_that_no_recovery_needs_goes_after_a_crash(is_stored: bool) -> None:
    """It would stand in reconcile and dump-log for ever."""
    world = filled(is_stored=is_stored)
    older, newest = snapshots(world)
    overwrite(world.files, older if is_stored else newest, b"\0\1\2")
    world.files.kill()
    report = world.open()
    assert [note for note in report.notes if "this start does not need it" in note]
    for path in snapshots(world):
        producer_snapshot.snapshot_from_bytes(world.files.read_whole(path))
    world.check()
    world.check_recovery_is_idempotent()


def test_a_snapshot_ahead_of_the_log_goes_and_its_producers_are_not_believed() -> None:
    """A power cut kept it and lost the batches that it knows; other batches get their offsets later."""
    world = World()
    world.append(value_bytes=100, producer_id=1)
    world.sync(checkpoint=True)
    world.store_recovery_point()
    world.append(value_bytes=100, producer_id=2)
    world.log._write_snapshot()
    ahead = f"{DIRECTORY}/{producer_snapshot.file_name(2)}"
    data = world.files.read_whole(ahead)
    world.files.crash(Keep.NONE)
    world.files.replace_whole(ahead, data)
    world._after(world.open())
    assert world.log.log_end_offset == 1
    assert set(world.producers.entries) == {1}
    assert not world.files.exists(ahead)
    world.files.crash(Keep.NONE)
    assert not world.files.exists(ahead), "else it would be taken for the state behind other batches"


def test_a_snapshot_ahead_of_a_log_that_was_closed_cleanly_is_damage() -> None:
    world = filled()
    newest = snapshots(world)[-1]
    world.files.replace_whole(f"{DIRECTORY}/{producer_snapshot.file_name(10**6)}", world.files.read_whole(newest))
    with pytest.raises(DamagedLog, match="synced up to 1000000"):
        world.open(is_clean=True)


@pytest.mark.parametrize("is_clean", [False, True])
def test_with_every_snapshot_damaged_the_whole_log_is_replayed(is_clean: bool) -> None:
    world = filled()
    for path in snapshots(world):
        overwrite(world.files, path, world.files.read_whole(path)[::-1])
    report = world._after(world.open(is_clean=is_clean))
    assert (report.replayed_from_offset, report.replayed_batch_count) == (0, len(world.model))
    world.check_recovery_is_idempotent()


@pytest.mark.parametrize("is_clean", [False, True])
def test_index_files_newer_than_the_log_are_cut_with_it(is_clean: bool) -> None:
    """The disk kept the indexes of batches whose bytes it lost: no entry may lead behind the end of the log."""
    world = World(config=replace(SMALL, segment_bytes=100_000))
    for _ in range(4):
        world.append(value_bytes=300)
    world.sync(checkpoint=True)
    world.store_recovery_point()
    end_position = len(world.files.read_whole(log_path(world, 0)))
    for index in range(6):
        world.append(value_bytes=300, producer_id=1)
        world.mark(1, commit=index % 2 == 0)
    world.log._active.flush_indexes()
    newer = world.files.snapshot(DIRECTORY)
    world.files.crash(Keep.NONE)
    for path in newer:
        if path.endswith("index"):
            overwrite(world.files, path, newer[path])
    world.producers = NaiveProducers()
    report = world._after(world.open(is_clean=is_clean))
    assert world.log.log_end_offset == 4
    assert report.cut is None
    assert world.log._active.size_bytes == end_position
    for _ in range(8):
        world.append(value_bytes=290, producer_id=2)
        world.mark(2, commit=True)
    world.check()
    assert [entry.producer_id for entry in world.log.aborted_between(0, world.log.log_end_offset)] == []


@pytest.mark.parametrize("is_clean", [False, True])
def test_a_recovery_point_ahead_of_the_log_is_damage(is_clean: bool) -> None:
    world = filled()
    end_offset = world.log.log_end_offset
    before = world.files.snapshot(DIRECTORY)
    write_offsets(world.files, DATA, RECOVERY_POINTS, {PARTITION: end_offset + 1})
    with pytest.raises(DamagedLog, match=rf"ends at offset {end_offset}, but it was synced up to {end_offset + 1}"):
        world.open(is_clean=is_clean)
    assert world.files.snapshot(DIRECTORY) == before


def test_batches_behind_the_last_checkpoint_are_read_where_a_clean_end_is_claimed() -> None:
    world = filled()
    for index in range(5):
        world.append(value_bytes=400, producer_id=3)
        world.mark(3, commit=index % 2 == 1)
    world.files.kill()
    report = world._after(world.open(is_clean=True))
    assert report.replayed_batch_count > 0
    assert report.cut is None


@pytest.mark.parametrize("what", ["torn", "zeros", "flipped"])
def test_a_torn_log_with_the_mark_of_a_clean_end_is_damage_and_not_cut(what: str) -> None:
    world = filled()
    world.append(value_bytes=400)
    path = log_path(world, -1)
    good = world.files.read_whole(path)
    world.files.kill()
    bad = {"torn": good[:-9], "zeros": good + bytes(100), "flipped": good[:-1] + bytes([good[-1] ^ 1])}[what]
    overwrite(world.files, path, bad)
    with pytest.raises(DamagedLog, match="everything below the end was synced, nothing is cut"):
        world.open(is_clean=True)
    assert world.files.read_whole(path) == bad
    assert not [name for name in world.files.list(DIRECTORY) if name.endswith(".torn")]


def test_a_segment_below_the_recovery_point_has_its_largest_timestamp() -> None:
    """Found by the simulator, coordinator 2631: the last entry of the time index was only written at the roll.

    The roll came after the checkpoint, and a power cut before its sync (the names were durable already): nobody replays
    that segment any more, and a lookup by time passed it over.
    """
    world = World()
    world.append()
    largest = world.timestamp_ms
    world.sync(checkpoint=True)
    world.store_recovery_point()
    world.log.roll()
    world.files.sync_directory(DIRECTORY)
    world.files.crash(Keep.NONE)
    world.open()
    world.timestamp_ms += 1000
    world.append()
    assert [segment.base_offset for segment in world.log.segments] == [0, 1]
    assert world.log.segments[0].largest_timestamp == largest
    found = world.log.offset_for_timestamp(largest)
    assert found is not None
    assert found.offset == 0


@pytest.mark.parametrize("seed", range(40))
def test_what_a_failed_sync_left_in_the_page_cache_is_on_the_disk_after_a_recovery(seed: int) -> None:
    """The process is killed between the failure and the marker that tells of it: the kernel takes the pages for saved, the
    next process reads them, and the power cut after it must not take back what that one has served."""
    draw = random.Random(seed)
    world = World(seed)
    for _ in range(draw.randrange(6)):
        world.append(value_bytes=draw.choice((10, 700)), producer_id=draw.choice((-1, 7)))
        world.sync(checkpoint=draw.random() < 0.3)
        if draw.random() < 0.3:
            world.store_recovery_point()
    for _ in range(draw.randrange(1, 8)):
        world.append(value_bytes=draw.choice((10, 700)), producer_id=7)
        if draw.random() < 0.3:
            world.mark(7, commit=draw.random() < 0.5)
    syncables = world.log.files_to_sync(checkpoint=draw.random() < 0.3)
    for syncable in syncables:
        if not isinstance(syncable, DirectoryNames):
            world.files.fail_at(1, Fault.SYNC_ERROR)
            with pytest.raises(StorageError):
                syncable.sync()
        else:
            syncable.sync()
    world.kill()
    world.crash(Keep.NONE)


def test_an_abort_that_was_cut_aborts_nothing_afterwards() -> None:
    """Its entry of the transaction index may reach the disk without its marker: kept, it would hide a transaction that
    commits instead."""
    world = World()
    world.append(producer_id=7)
    world.sync(checkpoint=True)
    world.store_recovery_point()
    world.append(producer_id=7)
    position = world.log.segments[0].size_bytes
    world.mark(7, commit=False)
    world.files.flip_bit(log_path(world, 0), 8 * (position + 65))
    world.files.kill()
    report = world.open()
    assert report.cut is not None
    assert report.cut.position == position
    assert world.log.aborted_between(0, INT32_MAX) == []
    world.mark(7, commit=True)
    world.sync()
    world.files.crash(Keep.NONE)
    world.open()
    assert world.log.log_end_offset == 3
    assert world.log.aborted_between(0, INT32_MAX) == []


def cut_where_the_journal_ends(world: World, journal_end_offset: int | None, recovery_point: int = 0) -> RecoveryReport:
    world.files.kill()
    return recover(
        world.files,
        DIRECTORY,
        world.config,
        NaiveProducers(),
        recovery_point=recovery_point,
        journal_end_offset=journal_end_offset or 0,
        is_cut=journal_end_offset is not None,
    )


@pytest.mark.parametrize("end_offset", [0, 1, 3, 4, 7])
def test_what_lies_behind_the_journal_s_end_is_cut_and_kept(end_offset: int) -> None:
    """It is whole: the system wrote it on its own, and what it depends on may be lost elsewhere."""
    world = World()
    for _ in range(8):
        world.append(value_bytes=600)
    assert len(world.log.segments) > 2
    report = cut_where_the_journal_ends(world, end_offset)
    assert report.log.log_end_offset == end_offset
    assert report.cut is not None
    assert report.cut.problem == "it lies behind the end of the journal"
    assert report.cut.valid_batches_behind == tuple((offset, offset) for offset in range(end_offset, 8))
    assert report.log.segments[-1].base_offset <= end_offset
    again = cut_where_the_journal_ends(world, end_offset)
    assert (again.log.log_end_offset, again.cut) == (end_offset, None)


def test_a_log_that_ends_with_the_journal_is_whole() -> None:
    world = World()
    for _ in range(4):
        world.append(value_bytes=600)
    report = cut_where_the_journal_ends(world, 4)
    assert (report.log.log_end_offset, report.cut) == (4, None)
    assert cut_where_the_journal_ends(world, None).log.log_end_offset == 4


def test_below_the_recovery_point_nothing_is_cut_for_the_journal() -> None:
    """A journal names only what it still has: what was synced before is in no entry."""
    world = World()
    for _ in range(6):
        world.append(value_bytes=600)
    world.sync(moves_to_end=True)
    world.append(value_bytes=600)
    report = cut_where_the_journal_ends(world, 0, recovery_point=6)
    assert report.log.log_end_offset == 6
    assert report.cut is not None


def test_a_log_that_ends_before_the_journal_is_damaged() -> None:
    """What the journal has was put back and synced: where it is missing all the same, it was not the power."""
    world = World()
    for _ in range(4):
        world.append(value_bytes=600)
    world.files.flip_bit(log_path(world, 0), 800)
    with pytest.raises(
        DamagedLog, match="offset 0: the batch at offset 0 fails its checksum; everything below 4 was synced"
    ):
        cut_where_the_journal_ends(world, 4)
    assert world.files.size_of(log_path(world, 0)) > 600, "nothing is cut"
    shorter = World()
    shorter.append(value_bytes=600)
    with pytest.raises(DamagedLog, match="ends at offset 1, but it was synced up to 4"):
        cut_where_the_journal_ends(shorter, 4)


def journaled(count: int = 3, value_bytes: int = 10) -> World:
    """As a journal's data sync leaves a log: synced to its end, which the recovery point is, without a snapshot there."""
    world = World()
    for _ in range(count):
        world.append(value_bytes=value_bytes, producer_id=1)
    world.sync(moves_to_end=True)
    world.store_recovery_point()
    world.files.crash(Keep.NONE)
    return world


def test_of_little_that_is_synced_nothing_is_written() -> None:
    """Thousands of partitions would get three files each, for what the next start reads as fast."""
    world = journaled()
    for _ in range(3):
        before = world.files.operation_count
        report = world._after(world.open())
        assert report.replayed_batch_count == 3
        assert (world.files.operation_count, world.log.recovery_point) == (before, 3)
        assert not world.log.has_unsynced
        world.files.kill()


def test_what_was_not_written_then_is_part_of_the_next_checkpoint() -> None:
    world = journaled(count=6, value_bytes=200)
    world.open()
    assert not world.log.is_at_rest
    world.append(value_bytes=200, producer_id=1)
    world.sync(checkpoint=True)
    world.store_recovery_point()
    assert world.log.is_at_rest
    entries = world.files.size_of(log_path(world, 0).replace(".log", ".index")) // 8
    assert entries == len(world.log.segments[0].offset_index) > 0
    report = world.crash(Keep.NONE)
    assert report.replayed_batch_count == 0
    assert world.log.log_end_offset == 7


def test_what_is_read_again_and_again_counts_for_the_next_checkpoint() -> None:
    world = journaled(count=6, value_bytes=200)
    world.config = replace(world.config, recovery_bytes_max=1_500)
    world.open()
    world.append(value_bytes=10, producer_id=1)
    world.sync()
    world.store_recovery_point()
    world.files.kill()
    assert world.open().replayed_batch_count < 7, "the sync wrote a checkpoint: what had been read was counted"


def test_much_is_written_and_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("oncelog.log.recovery.READ_AGAIN_SIZE_BYTES_MAX", 500)
    world = journaled(count=6, value_bytes=200)
    assert world.open().replayed_batch_count == 6
    assert world.log.is_at_rest
    world.store_recovery_point()
    world.files.crash(Keep.NONE)
    assert world._after(world.open()).replayed_batch_count == 0


@pytest.mark.parametrize("damage", ["lost", "stale", "broken", "none"])
def test_aborted_transactions_are_written_where_the_disk_has_others(damage: str) -> None:
    world, path = World(), f"{DIRECTORY}/{0:020d}.txnindex"
    world.append(producer_id=7)
    if damage != "stale":
        world.mark(7, commit=False)
    world.sync(moves_to_end=True)
    world.store_recovery_point()
    if damage == "stale":  # its marker was lost with the power: the index is written through, and may outlive it
        world.mark(7, commit=False)
        stale = world.files.read_whole(path)
    world.files.crash(Keep.NONE if damage == "stale" else Keep.ALL)
    if damage == "lost":
        world.files.remove(path)
    elif damage != "none":
        overwrite(world.files, path, stale if damage == "stale" else b"x")
    world._after(world.open())
    assert len(world.aborted) == (damage != "stale")
    if damage == "stale":
        assert not world.files.exists(path)
        world.mark(7, commit=False)
        assert len(world.log.aborted_between(0, 3)) == 1
    else:
        assert aborted_from_bytes(world.files.read_whole(path), 0) == world.aborted


def test_what_the_journal_put_back_is_synced_and_little_of_it_is_read_again() -> None:
    world = World()
    for _ in range(4):
        world.append(value_bytes=100)
    world.files.kill()
    before = world.files.operation_count
    report = recover(world.files, DIRECTORY, world.config, NaiveProducers(), journal_end_offset=4, sync=False)
    assert world.files.operation_count == before
    assert report.log.recovery_point == 4
    world.files.kill()
    report = recover(world.files, DIRECTORY, world.config, NaiveProducers(), journal_end_offset=3, sync=False)
    assert report.log.recovery_point == 0, "what lies behind it may not be on the disk: it is written again"
    assert report.log.has_unsynced


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("what", ["gone", "empty", "shorter", "torn"])
@pytest.mark.parametrize("which", [0, 1, 2])
def test_a_segment_that_is_missing_before_the_last_is_missed(which: int, what: str, is_clean: bool) -> None:
    """Nobody reads it again after a clean stop, or below a snapshot: its border with the next one tells."""
    if which == 0 and what == "gone":
        pytest.skip("where the log began is told by no border")
    world = filled()
    paths = [segment.log_path for segment in world.log.segments]
    assert len(paths) >= 4
    data = world.files.read_whole(paths[which])
    if what == "gone":
        world.files.remove(paths[which])
    else:
        last = max(valid_batches(data, world.log.segments[which].base_offset))
        size = len(next(batch.data for batch in world.model if batch.base_offset == last[0]))
        overwrite(world.files, paths[which], data[: {"empty": 0, "shorter": -size, "torn": -7}[what]])
    before = world.files.snapshot(DIRECTORY)
    for _ in range(2):
        world.files.kill()
        with pytest.raises(DamagedLog, match=r"is missing|bytes|no batch|is due"):
            world.open(is_clean=is_clean)
        assert world.files.snapshot(DIRECTORY) == before, "nothing is removed: it may be put back"
    overwrite(world.files, paths[which], data)
    world.files.kill()
    world._after(world.open(is_clean=is_clean))


@pytest.mark.parametrize("damage", ["all gone", "last gone", "last empty"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_log_that_is_put_back_finds_its_aborted_transactions(damage: str, is_clean: bool) -> None:
    """A start that found it missing has not removed its indexes: a transaction index that is gone looks like an empty one."""
    world = filled()
    segments = world.log.segments if damage == "all gone" else world.log.segments[-1:]
    kept = {segment.log_path: world.files.read_whole(segment.log_path) for segment in segments}
    for path in kept:
        if damage == "last empty":
            overwrite(world.files, path, b"")
        else:
            world.files.remove(path)
    for _ in range(2):
        world.files.kill()
        with pytest.raises(DamagedLog):
            world.open(is_clean=is_clean)
    for path, data in kept.items():
        overwrite(world.files, path, data)
    world.files.kill()
    world._after(world.open(is_clean=is_clean))
    assert world.aborted
    assert world.log.aborted_between(0, INT32_MAX) == world.aborted


@pytest.mark.parametrize("damage", ["gone", "changed", "none"])
def test_after_a_crash_a_transaction_index_begins_as_the_last_clean_stop_left_it(damage: str) -> None:
    world = World()
    for _ in range(2):
        world.append(producer_id=7)
        world.mark(7, commit=False)
    world.close()
    noted = world.log.aborted_checksums()
    path = f"{DIRECTORY}/{0:020d}.txnindex"
    world.append(producer_id=7)
    world.mark(7, commit=False)
    world.sync()
    expected = list(world.aborted)
    data = world.files.read_whole(path)
    if damage == "gone":
        world.files.remove(path)
    elif damage == "changed":
        overwrite(world.files, path, data[:5] + bytes([data[5] ^ 4]) + data[6:])
    world.files.kill()
    world.producers = NaiveProducers()
    report = recover(
        world.files, DIRECTORY, world.config, world.producers, recovery_point=4, aborted=noted
    )  # fmt: skip
    assert report.log.aborted_between(0, INT32_MAX) == expected
    assert bool(report.notes) is (damage != "none")


def test_another_logs_snapshot_is_not_believed() -> None:
    """Its checksum is right. With its producers an open transaction was forgotten, and its records read as committed."""
    world = filled()
    newest, expected = snapshots(world)[-1], dict(world.producers.entries)
    entries = producer_snapshot.snapshot_from_bytes(world.files.read_whole(newest))
    far = replace(entries[0], producer_id=99, last_offset=world.log.log_end_offset)
    world.files.replace_whole(newest, producer_snapshot.snapshot_to_bytes([far]))
    report = world._after(world.open())
    assert world.producers.entries == expected
    assert any("lies above it; removed, an older one is tried" in note for note in report.notes)


def test_another_logs_snapshot_is_not_what_a_clean_stop_left() -> None:
    world = filled()
    newest, expected = snapshots(world)[-1], dict(world.producers.entries)
    noted = world.log.aborted_checksums()
    assert snapshot_key(world.log.log_end_offset) in noted
    world.files.replace_whole(newest, producer_snapshot.snapshot_to_bytes([]))
    world.producers = NaiveProducers()
    report = recover(world.files, DIRECTORY, world.config, world.producers, is_clean=True, aborted=noted)
    assert world.producers.entries == expected
    assert any("not what the clean stop left; removed" in note for note in report.notes)


def test_what_is_missing_at_a_segments_beginning_is_damage_below_the_recovery_point() -> None:
    """Another log's segment took the place of this one, and began behind what was synced: nobody had missed that."""
    world = World()
    for _ in range(4):
        world.append(value_bytes=100)
    world.close()
    path = log_path(world, 0)
    overwrite(world.files, path, world.files.read_whole(path)[len(world.model[0].data) :])
    with pytest.raises(DamagedLog, match=r"offset 1 where 0 is due"):
        recover(world.files, DIRECTORY, world.config, NaiveProducers(), recovery_point=3)
