"""Entries put back into the data files: to their very places, once or twice the same, and nowhere else."""

from __future__ import annotations

import pytest
from evidence.world.files import Fault, Keep, SimFiles

from oncelog.errors import StorageError
from oncelog.log import journal_replay
from oncelog.log.files import sync_all
from oncelog.log.journal import Journal
from oncelog.log.journal_reading import read_journal
from oncelog.log.journal_replay import LogPlace, put_back

DATA = "data"
A, B = b"a" * 16, b"b" * 16
DIRECTORIES = {(A, 0): f"{DATA}/a-0", (B, 1): f"{DATA}/b-1"}


class World:
    """A journal and the logs beside it; `points` are recovery points."""

    def __init__(self, seed: int = 0) -> None:
        self.files = SimFiles(seed)
        self.files.make_directory(DATA)
        self.files.sync_directory("")
        for directory in DIRECTORIES.values():
            self.files.make_directory(directory)
        self.files.sync_directory(DATA)
        self.journal = Journal(self.files, DATA, size_bytes_max=1 << 30)
        self.journal.begin(b"d" * 16, b"b" * 16, 7)
        self.points: dict[tuple[bytes, int], int] = {}
        self.deleted: set[tuple[bytes, int]] = set()

    def add(self, key, base_offset, position, end_offset, batch, references=()):
        self.journal.reserve(len(batch))
        self.journal.add(
            *key,
            segment_base_offset=base_offset,
            position=position,
            end_offset=end_offset,
            batch=batch,
            references=references,
        )

    def sync(self):
        taken = self.journal.take()
        self.journal.write(taken)
        for file in taken.files:
            file.sync()
        self.journal.synced(taken)

    def put_back(self):
        found = read_journal(self.files, DATA)

        def place_of(key):
            return None if key in self.deleted else LogPlace(DIRECTORIES[key], self.points.get(key, 0))

        ends = {}
        for written in put_back(self.files, found, place_of, ends):
            sync_all(written.files)
        return ends

    def log(self, key=(A, 0), base_offset=0):
        path = f"{DIRECTORIES[key]}/{base_offset:020d}.log"
        return self.files.read_whole(path) if self.files.exists(path) else None


@pytest.fixture
def world():
    world = World()
    world.add((A, 0), 0, 0, 2, b"aa")
    world.add((B, 1), 40, 100, 50, b"bbb")
    world.add((A, 0), 0, 2, 5, b"AAA")
    world.sync()
    world.add((A, 0), 5, 0, 6, b"next")
    world.sync()
    return world


def test_each_batch_goes_to_its_place_and_is_durable_there(world):
    world.files.crash(Keep.NONE)
    assert world.put_back() == {(A, 0): 6, (B, 1): 50}
    world.files.crash(Keep.NONE)
    assert (world.log(), world.log(base_offset=5)) == (b"aaAAA", b"next")
    assert world.log((B, 1), 40) == bytes(100) + b"bbb"


def test_twice_is_once(world):
    world.put_back()
    before = world.files.snapshot()
    assert world.put_back() == {(A, 0): 6, (B, 1): 50}
    assert world.files.snapshot() == before


def test_the_power_goes_at_every_step_and_the_next_start_does_it_again():
    for operation in range(1, 16):
        for seed in range(4):
            world = World(seed)
            world.add((A, 0), 0, 0, 2, b"aa")
            world.add((B, 1), 0, 0, 3, b"bbb")
            world.add((A, 0), 2, 0, 4, b"next")
            world.sync()
            world.files.cut_power_at(operation)
            try:
                world.put_back()
            except Exception:  # noqa: BLE001 - PowerCut
                assert world.files.is_off
            world.files.crash(Keep.RANDOM)
            assert world.put_back() == {(A, 0): 4, (B, 1): 3}
            world.files.crash(Keep.NONE)
            assert (world.log(), world.log(base_offset=2), world.log((B, 1))) == (b"aa", b"next", b"bbb")


def test_what_lies_below_the_recovery_point_is_left_alone(world):
    """It was synced, and may have been cleaned or removed since."""
    world.points = {(A, 0): 5, (B, 1): 50}
    assert world.put_back() == {(A, 0): 6, (B, 1): 50}, "where the journal ends is known all the same"
    assert (world.log(), world.log((B, 1), 40), world.log(base_offset=5)) == (None, None, b"next")


def test_at_the_recovery_point_is_below_it_and_one_offset_above_is_not(world):
    world.points = {(A, 0): 4}
    world.put_back()
    assert world.log() == b"\0\0AAA"
    assert world.log(base_offset=5) == b"next"


def test_of_a_deleted_topic_nothing_is_written(world):
    world.deleted = {(A, 0)}
    assert world.put_back() == {(B, 1): 50}
    assert world.files.list(DIRECTORIES[A, 0]) == []


def test_a_segment_ends_where_the_next_one_was_begun(world):
    """What the power left behind it was never part of it."""
    path = f"{DIRECTORIES[A, 0]}/{0:020d}.log"
    world.files.open(path).write_at(0, b"xxxxxxxxxxxx")
    newest = f"{DIRECTORIES[A, 0]}/{5:020d}.log"
    world.files.open(newest).write_at(0, b"yyyyyyyyy")
    world.put_back()
    world.files.crash(Keep.NONE)
    assert world.log() == b"aaAAA"
    assert world.log(base_offset=5) == b"nextyyyyy", "where the newest one ends is for recovery to cut"


def test_of_a_batch_by_reference_the_rest_is_in_its_file(world):
    path = f"{DIRECTORIES[A, 0]}/{6:020d}.log"
    batch = b"h" * 61 + b"r" * 70_000
    file = world.files.open(path)
    file.write_at(0, batch)
    world.add((A, 0), 6, 0, 9, batch, [file])
    file.sync()
    world.files.sync_directory(DIRECTORIES[A, 0])
    world.sync()
    world.files.flip_bit(path, 8)  # in what the journal has
    world.files.crash(Keep.NONE)
    assert world.put_back()[A, 0] == 9
    assert world.log(base_offset=6) == batch


@pytest.mark.parametrize("what", ["write", "sync"])
def test_a_disk_that_refuses_is_told(world, what):
    world.files.kill()
    world.files.fail_at(2 if what == "write" else 1, Fault.IO_ERROR if what == "write" else Fault.SYNC_ERROR)
    with pytest.raises(StorageError):
        world.put_back()


def test_many_files_are_synced_before_their_handles_are_closed(monkeypatch):
    monkeypatch.setattr(journal_replay, "WRITTEN_MAX", 3)
    world = World()
    for index in range(10):
        world.add((A, 0), index, 0, index + 1, b"x" * (index + 1))
    world.sync()
    world.files.crash(Keep.NONE)
    world.files.trace = trace = []
    world.put_back()
    unsynced, most = set(), 0
    for what, path in trace:
        if what in ("write", "truncate"):
            unsynced.add(path)
        elif what == "sync":
            unsynced.discard(path)
        most = max(most, len(unsynced))
    assert most == 4
    world.files.crash(Keep.NONE)
    assert [world.log(base_offset=index) for index in range(10)] == [b"x" * (index + 1) for index in range(10)]


def test_a_segment_that_was_synced_and_then_cut_is_synced_again(monkeypatch):
    monkeypatch.setattr(journal_replay, "WRITTEN_MAX", 1)
    world = World()
    path = f"{DIRECTORIES[A, 0]}/{0:020d}.log"
    file = world.files.open(path)
    file.write_at(0, b"xxxxxxxxxxxx")
    file.sync()
    world.files.sync_directory(DIRECTORIES[A, 0])
    world.add((A, 0), 0, 0, 2, b"aa")
    world.add((A, 0), 2, 0, 4, b"next")
    world.sync()
    world.files.crash(Keep.NONE)
    assert world.put_back() == {(A, 0): 4}
    world.files.crash(Keep.NONE)
    assert (world.log(), world.log(base_offset=2)) == (b"aa", b"next")


def test_a_handle_stays_open_until_its_sync_however_few_may_be_open(monkeypatch):
    """What was closed is not synced: an error that the system finds later would be told to nobody."""
    monkeypatch.setattr("oncelog.log.open_files.OPEN_FILES_MAX", 1)
    world = World()
    for index in range(6):
        world.add((A, 0), index, 0, index + 1, b"x" * (index + 1))
    world.sync()
    world.files.crash(Keep.NONE)
    world.put_back()
    world.files.crash(Keep.NONE)
    assert [world.log(base_offset=index) for index in range(6)] == [b"x" * (index + 1) for index in range(6)]
