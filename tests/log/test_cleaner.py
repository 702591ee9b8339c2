"""Cleaning: what stays, what goes and when, by Apache Kafka's rules; then random lives compared with a model."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.errors import DamagedLog
from oncelog.log.cleaner import Cleaner
from oncelog.log.cleaning_plan import CompactionRules
from oncelog.wire.record_batch import Codec, RecordBatch, build_batch
from tests.log.cleaning_world import CONFIG, DIRECTORY, EAGER, CleaningWorld, Put

WIDE = replace(CONFIG, segment_bytes=100_000)


def cleaned(world: CleaningWorld) -> int:
    """Roll, so that all there is may be cleaned, and clean."""
    world.log.roll()
    return world.clean()


def shape(world: CleaningWorld) -> list[str]:
    """Each batch in a few letters: kind, offsets, count of records."""
    return [described(batch) for batch in world.batches()]


def described(batch: RecordBatch) -> str:
    if batch.is_control:
        marker = batch.end_txn_marker()
        kind = "marker" if marker is None else "commit" if marker.commit else "abort"
    else:
        kind = "transactional" if batch.is_transactional else "plain"
    horizon = " horizon" if batch.has_delete_horizon else ""
    return f"{kind} {batch.base_offset}-{batch.last_offset} x{batch.record_count}{horizon}"


def test_the_last_record_of_each_key_stays_with_its_offset_time_and_headers() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"), ("b", "1"))
    world.put(("a", "2"), ("c", "1"))
    world.put(("a", "3"))
    before = {record.offset: record for batch in world.batches() for record in batch.records()}
    assert cleaned(world) == 1
    left = [record for batch in world.batches() for record in batch.records()]
    assert [record.offset for record in left] == [1, 3, 4]
    assert all(record == before[record.offset] for record in left)
    assert all(batch.crc_is_valid for batch in world.batches())
    world.check()


def test_a_tombstone_goes_after_its_delete_horizon() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"), ("b", "1"))
    world.put(("a", None))
    world.put(("c", "1"))
    cleaned(world)
    assert shape(world) == ["plain 0-1 x1", "plain 2-2 x1 horizon", "plain 3-3 x1"]
    (tombstone,) = world.batches()[1].records()
    assert (tombstone.key, tombstone.value) == (b"a", None)
    assert world.batches()[1].base_timestamp == world.now_ms + 1000
    world.put(("d", "1"))
    cleaned(world)
    assert shape(world)[1] == "plain 2-2 x1 horizon", "readers have delete.retention.ms to see it"
    world.now_ms += 1001
    world.put(("e", "1"))
    cleaned(world)
    assert shape(world)[:2] == ["plain 0-1 x1", "plain 3-3 x1"]
    world.check()


def test_aborted_data_goes_and_its_marker_once_nothing_was_left_of_it() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"))
    world.put(("a", "never"), producer_id=7)
    world.mark(7, commit=False)
    world.put(("z", "1"), producer_id=7)
    world.mark(7, commit=True)
    cleaned(world)
    assert shape(world) == ["plain 0-0 x1", "abort 2-2 x1", "transactional 3-3 x1", "commit 4-4 x1"]
    assert world.committed() == {b"a": b"1", b"z": b"1"}
    world.put(("b", "1"))
    cleaned(world)
    assert shape(world)[1] == "abort 2-2 x1 horizon"
    world.now_ms += 1001
    world.put(("c", "1"))
    cleaned(world)
    assert shape(world)[:3] == ["plain 0-0 x1", "transactional 3-3 x1", "commit 4-4 x1"]
    world.check()


def test_an_aborted_record_does_not_hide_the_committed_one_before_it() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("k", "kept"), producer_id=1)
    world.mark(1, commit=True)
    world.put(("k", "never"), producer_id=2)
    world.mark(2, commit=False)
    cleaned(world)
    assert world.committed() == {b"k": b"kept"}


def test_markers_share_a_key_and_are_not_judged_by_it() -> None:
    """KAFKA-14055, Redpanda #6664: each transaction's marker stays as long as its data."""
    world = CleaningWorld(config=WIDE)
    for producer_id in (1, 2, 3):
        world.put((f"k{producer_id}", "v"), producer_id=producer_id)
        world.mark(producer_id, commit=True)
    cleaned(world)
    assert [each for each in shape(world) if each.startswith("commit")] == [f"commit {o}-{o} x1" for o in (1, 3, 5)]
    assert world.committed() == {b"k1": b"v", b"k2": b"v", b"k3": b"v"}


def test_the_last_sequence_of_a_producer_outlives_its_records() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("k", "1"), ("k", "2"), producer_id=5)
    world.mark(5, commit=True, bumps=False)  # the old protocol: the epoch stays
    world.put(("k", "3"))
    world.put(("other", "1"))
    for _ in range(3):
        cleaned(world)
        world.now_ms += 1001
        world.put(("other", str(world.now_ms)))
    assert shape(world)[0] == "transactional 0-1 x0"
    known = world.producers()
    replay_from_nothing(world)
    assert world.producers() == known == {5: (0, 1, -1)}


def test_the_last_sequence_of_a_producer_is_kept_at_offset_0_too() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("k", "1"), producer_id=5)
    world.mark(5, commit=True, bumps=False)
    world.put(("k", "2"))
    world.put(("other", "1"))
    cleaned(world)
    assert shape(world)[0] == "transactional 0-0 x0"
    replay_from_nothing(world)
    assert world.producers() == {5: (0, 0, -1)}


def test_the_last_epoch_of_a_producer_outlives_its_markers() -> None:
    """With the new protocol a marker raises the epoch: an emptied one keeps a fenced producer fenced."""
    world = CleaningWorld(config=WIDE)
    for value in ("1", "2"):
        world.put(("k", value), producer_id=5)
        world.mark(5, commit=True)
    world.put(("k", "3"))
    for _ in range(4):
        world.now_ms += 1001
        world.put(("other", str(world.now_ms)))
        cleaned(world)
    assert [each for each in shape(world) if not each.startswith("plain")] == ["marker 3-3 x0"]
    known = world.producers()
    replay_from_nothing(world)
    assert world.producers() == known == {5: (2, -1, -1)}


def test_of_the_markers_of_one_epoch_only_the_last_is_kept_for_its_epoch() -> None:
    """Offsets that a coordinator writes have no sequence: else every commit of an old client would leave a header."""
    world = CleaningWorld(config=WIDE)
    for value in range(6):
        world.put(("k", str(value)), producer_id=5)
        world.mark(5, commit=True, bumps=False)
    state = world.partition._producers[5]
    state.batches = ()
    for _ in range(4):
        world.now_ms += 1001
        world.put(("k", str(world.now_ms)))
        cleaned(world)
    assert [each for each in shape(world) if not each.startswith("plain")] == ["marker 11-11 x0"]


def test_nothing_is_cleaned_from_the_first_undecided_offset_on() -> None:
    world = CleaningWorld()
    for value in range(40):
        world.put(("k", str(value) * 20))
    world.put(("k", "open"), producer_id=9)
    world.sync()
    first_undecided = world.partition.last_stable_offset
    for value in range(40):
        world.put(("k", str(value) * 20))
    world.log.roll()
    world.clean()
    assert world.cleaned_offset is not None
    assert world.cleaned_offset <= first_undecided
    assert len([batch for batch in world.batches() if batch.last_offset >= first_undecided]) == 41
    world.mark(9, commit=False)
    cleaned(world)
    assert len(world.batches()) < 41
    world.check()


def test_a_transaction_over_several_groups_is_one() -> None:
    """KAFKA-8351: what is known of a transaction is carried from group to group."""
    world = CleaningWorld(config=replace(CONFIG, segment_bytes=600))
    world.put(("base", "1"))
    for index in range(12):
        world.put((f"k{index}", "x" * 120), producer_id=1)
        world.put((f"l{index}", "y" * 120), producer_id=2)
    world.mark(1, commit=False)
    world.mark(2, commit=True)
    for index in range(12):
        world.put((f"k{index}", "z" * 120))
    assert cleaned(world) >= 3
    assert len(world.log.segments) > 4
    assert not [b for b in world.batches() if b.producer_id == 1 and not b.is_control and b.record_count]
    world.check()


def test_a_map_that_is_too_small_cleans_a_part_and_goes_on() -> None:
    world = CleaningWorld(config=replace(CONFIG, segment_bytes=600))
    for index in range(60):
        world.put((f"k{index % 20}", f"{index}" * 10))
    world.log.roll()
    world.keys_max = 5
    ends: list[int | None] = [0]
    while ends[-1] != world.cleaned_offset:
        ends.append(world.cleaned_offset or 0)
        world.clean()
    assert len(ends) > 3
    assert ends == sorted(ends)
    world.check()
    assert sum(batch.record_count for batch in world.batches()) < 40
    world.keys_max = 1000
    world.cleaned_offset = None
    cleaned(world)
    assert sum(batch.record_count for batch in world.batches()) == 20


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_are_compressed_again_with_their_codec(codec: Codec) -> None:
    world = CleaningWorld(config=WIDE)
    world.codec = codec
    world.put(*[(f"k{index}", "v" * 50) for index in range(20)])
    world.put(*[(f"k{index}", "w" * 50) for index in range(10)], ("k3", None))
    cleaned(world)
    assert [batch.codec for batch in world.batches()] == [codec, codec]
    assert [batch.record_count for batch in world.batches()] == [10, 10]
    assert world.batches()[1].has_delete_horizon
    world.check()


def test_records_without_keys_are_older_than_the_topics_compaction() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"))
    world._append(build_batch([(world.now_ms, None, b"v", ())]), lambda last_offset: Put(last_offset, -1, ()))
    world.put(("b", "1"))
    cleaned(world)
    assert [record.key for batch in world.batches() for record in batch.records()] == [b"a", b"b"]


def test_long_keys_are_hashed() -> None:
    world = CleaningWorld(config=WIDE)
    long = "x" * 200
    world.put((long + "1", "1"), (long + "2", "1"), (long[:16], "1"))
    world.put((long + "1", "2"))
    cleaned(world)
    world.check()
    assert sum(batch.record_count for batch in world.batches()) == 3


def test_what_is_clean_is_left_alone() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"), ("b", "1"))
    assert cleaned(world) == 0, "nothing to remove: no file is written anew"
    world.check()
    assert not world.clean()


def test_a_segment_is_not_cleaned_before_its_min_lag_and_not_later_than_its_max_lag() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"))
    world.put(("a", "2"))
    world.log.roll()
    lazy = CompactionRules(min_cleanable_dirty_ratio=1.0)
    assert not world.clean(replace(EAGER, min_compaction_lag_ms=60_000))
    assert not world.clean(lazy)
    assert not world.clean(replace(lazy, max_compaction_lag_ms=60_000))
    world.now_ms += 60_001
    assert world.clean(replace(lazy, max_compaction_lag_ms=60_000)) == 1
    world.check()


def test_damage_is_said_and_changes_nothing() -> None:
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"))
    world.put(("a", "2"))
    world.log.roll()
    world.sync()
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 8 * 70)
    before = world.files.read_whole(f"{DIRECTORY}/{0:020d}.log")
    with pytest.raises(DamagedLog, match="checksum"):
        world.clean()
    assert world.files.read_whole(f"{DIRECTORY}/{0:020d}.log") == before


def test_of_what_is_clean_the_first_pass_reads_the_headers_alone() -> None:
    """Every byte is checked where it is written anew; what is whole in front of the damage is still cleaned."""
    world = CleaningWorld(config=WIDE)
    world.put(("a", "1"), producer_id=5)
    world.mark(5, commit=True)  # to a new epoch: its markers are looked for
    cleaned(world)
    world.put(("b", "1"))
    world.log.roll()
    world.sync()
    world.files.flip_bit(f"{DIRECTORY}/{0:020d}.log", 8 * 70)
    cleaners: list[Cleaner] = []
    world._perform = lambda cleaner: cleaners.append(cleaner) or 0  # type: ignore[method-assign,func-returns-value]
    world.clean()
    (cleaner,) = cleaners
    paced: list[int] = []
    (group,) = cleaner.groups(cleaner.read_dirty(paced.append))
    assert len(paced) > 2, "the clean part was gone through"
    with pytest.raises(DamagedLog, match="checksum"):
        cleaner.write(group, paced.append)


def replay_from_nothing(world: CleaningWorld) -> None:
    """Start without any snapshot: all that is known of producers comes from what the cleaner left."""
    world.sync()
    for name in world.files.list(DIRECTORY):
        if name.endswith(".snapshot"):
            world.files.remove(f"{DIRECTORY}/{name}")
    world.kill()


steps = st.one_of(
    st.tuples(st.just("put"), st.integers(-1, 2), st.lists(st.integers(0, 6), min_size=1, max_size=4), st.booleans()),
    st.tuples(st.just("mark"), st.integers(0, 2), st.booleans()),
    st.tuples(st.just("clean"), st.integers(0, 2000)),
    st.tuples(st.sampled_from(["roll", "kill", "crash", "forget"])),
)


def perform(world: CleaningWorld, step: tuple) -> None:
    match step:
        case "put", producer_id, keys, is_tombstone:
            value = None if is_tombstone else f"{len(world.history)}" * 9
            world.put(*[(f"k{key}", value) for key in keys], producer_id=producer_id)
        case "mark", producer_id, commit:
            if world.producers().get(producer_id, (0, 0, -1))[2] >= 0:
                world.mark(producer_id, commit=commit)
        case "clean", later_ms:
            world.now_ms += later_ms
            world.log.roll()
            world.clean()
            world.check()
        case ("roll",):
            world.log.roll()
        case ("kill",):
            world.kill()
        case ("crash",):
            world.crash()
        case ("forget",):
            before = world.producers()
            replay_from_nothing(world)
            assert world.producers() == before


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=4, max_size=40), st.integers(0, 3))
def test_a_life_with_cleanings(script: list[tuple], seed: int) -> None:
    world = CleaningWorld(seed)
    for step in script:
        perform(world, step)
    world.log.roll()
    world.clean()
    world.check()


@pytest.mark.parametrize("seed", range(8))
def test_longer_lives(seed: int) -> None:
    chosen = random.Random(seed)
    world = CleaningWorld(seed)
    for _ in range(250):
        kind = chosen.random()
        if kind < 0.6:
            keys = [chosen.randrange(12) for _ in range(chosen.randrange(1, 5))]
            perform(world, ("put", chosen.randrange(-1, 3), keys, chosen.random() < 0.2))
        elif kind < 0.85:
            perform(world, ("mark", chosen.randrange(3), chosen.random() < 0.6))
        elif kind < 0.95:
            perform(world, ("clean", chosen.randrange(1500)))
        else:
            perform(world, (chosen.choice(["roll", "kill", "crash", "forget"]),))
    world.check()
