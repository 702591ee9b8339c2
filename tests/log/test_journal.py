"""The journal's writer on a simulated disk: fills, splits, segments that are used again, its limits, and its failures."""

from __future__ import annotations

import pytest
from evidence.world.files import Fault, Keep, SimFiles

from oncelog.errors import StorageError
from oncelog.log import journal as module
from oncelog.log.files import DirectoryNames
from oncelog.log.journal import CLOSED_FILE, FILE_PREFIX, Journal, remove_journal
from oncelog.log.journal_entries import (
    ENTRY_HEADER_BYTES,
    PIECE_HEADER_BYTES,
    segment_header_from_bytes,
)
from oncelog.log.journal_reading import read_journal

DATA = "data"
DIRECTORY, BOOT, GENERATION = b"d" * 16, b"b" * 16, 77
SEGMENT_SIZE_BYTES = 2000
OVERHEAD = PIECE_HEADER_BYTES + ENTRY_HEADER_BYTES


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_SIZE_BYTES", SEGMENT_SIZE_BYTES)
    monkeypatch.setattr(module, "FILL_SIZE_BYTES", 600)
    monkeypatch.setattr(module, "COPIED_BYTES_MAX", 1000)
    monkeypatch.setattr(module, "SEGMENTS_KEPT", 3)


class World:
    def __init__(self, seed: int = 0, segments: int = 16) -> None:
        self.files = SimFiles(seed)
        self.files.make_directory(DATA)
        self.files.sync_directory("")
        self.journal = Journal(self.files, DATA, size_bytes_max=segments * SEGMENT_SIZE_BYTES)
        self.journal.begin(DIRECTORY, BOOT, GENERATION)
        self.end_offset = 0

    def add(self, size_bytes: int = 100, references=()) -> bytes:
        batch = bytes([self.end_offset % 251]) * size_bytes
        self.journal.reserve(size_bytes)
        self.end_offset += 1
        self.journal.add(
            b"t" * 16,
            0,
            segment_base_offset=0,
            position=0,
            end_offset=self.end_offset,
            batch=batch,
            references=references,
        )
        return batch

    def sync(self):
        taken = self.journal.take()
        self.journal.write(taken)
        for file in taken.files:
            file.sync()
        self.journal.synced(taken)
        return taken

    def write(self, *sizes: int):
        for size_bytes in sizes:
            self.add(size_bytes)
            self.sync()

    def names(self) -> list[str]:
        return [name for name in self.files.list(DATA) if name.startswith(FILE_PREFIX)]

    def found(self):
        """End offsets that a start would find now."""
        found = read_journal(self.files, DATA, DIRECTORY)
        return [piece.end_offset for entry in found.entries() for piece in entry.pieces] if found else None


class Reference:
    def sync(self) -> None:
        pass


def test_the_first_segment_is_durable_before_anything_is_added():
    world = World()
    world.files.crash(Keep.NONE)
    found = read_journal(world.files, DATA, DIRECTORY)
    assert (found.boot, found.generation, found.last_sequence) == (BOOT, GENERATION, 0)
    assert world.found() == []


def test_what_was_added_is_one_entry_and_what_comes_meanwhile_the_next():
    world = World()
    first, second = world.add(100), world.add(30)
    assert world.journal.pending_size_bytes == 130 + 2 * PIECE_HEADER_BYTES
    assert world.journal.bytes_since_data_sync == 130
    taken = world.journal.take()
    third = world.add(7)
    world.journal.write(taken)
    assert world.journal.pending_size_bytes == 7 + PIECE_HEADER_BYTES
    for file in taken.files:
        file.sync()
    assert (world.journal.written_sequence, world.journal.synced_sequence) == (1, 0)
    world.journal.synced(taken)
    assert world.journal.synced_sequence == 1
    world.sync()
    found = read_journal(world.files, DATA, DIRECTORY)
    assert [[bytes(each.kept) for each in entry.pieces] for entry in found.entries()] == [[first, second], [third]]
    assert [entry.synced_sequence for entry in found.entries()] == [0, 1]


def test_a_sync_writes_into_zeros_that_are_there():
    world = World()
    path = f"{DATA}/{world.names()[0]}"
    for _ in range(9):
        world.journal.reserve(100)
        before = world.files.size_of(path)
        world.add(100)
        world.sync()
        assert world.files.size_of(path) == before, "no write of an entry makes the file grow"
    assert world.files.size_of(path) <= SEGMENT_SIZE_BYTES


def test_what_is_taken_and_not_written_yet_has_its_room_reserved():
    """The references of an entry are synced before it is written; what is added meanwhile must not count on its zeros."""
    world = World()
    world.add(200)
    taken = world.journal.take()
    assert world.journal.pending_size_bytes == 200 + OVERHEAD, "an entry of its own"
    world.add(300)
    path = f"{DATA}/{world.names()[0]}"
    before = world.files.size_of(path)
    world.journal.write(taken)
    world.journal.write(world.journal.take())
    assert world.files.size_of(path) == before
    assert world.journal.pending_size_bytes == 0


def test_pieces_are_split_over_segments_in_their_order():
    world = World()
    for _ in range(9):
        world.add(400)
    operations = world.files.operation_count
    taken = world.sync()
    assert len(world.names()) >= 3
    assert not [each for each in world.names() if world.files.size_of(f"{DATA}/{each}") > SEGMENT_SIZE_BYTES]
    assert any(isinstance(file, DirectoryNames) for file in taken.files), "the names of new segments are synced with it"
    assert taken.sequence == world.journal.written_sequence > 2
    assert world.files.operation_count - operations < 40
    world.files.crash(Keep.NONE)
    assert world.found() == list(range(1, 10))


@pytest.mark.parametrize("left", range(0, 60, 7))
def test_an_entry_fits_into_its_segment_or_goes_into_the_next(left):
    world = World()
    world.write(SEGMENT_SIZE_BYTES - 512 - 2 * OVERHEAD - 400 - left, 400, 30)
    sizes = {name: world.files.size_of(f"{DATA}/{name}") for name in world.names()}
    assert max(sizes.values()) <= SEGMENT_SIZE_BYTES
    assert world.found() == [1, 2, 3]


def test_two_pieces_that_fill_a_segment_but_for_their_header_are_two_entries():
    world = World()
    for size_bytes in (700, SEGMENT_SIZE_BYTES - 512 - 700 - 2 * PIECE_HEADER_BYTES - 1):
        world.add(size_bytes)
    world.sync()
    assert world.journal.written_sequence == 2
    assert max(world.files.size_of(f"{DATA}/{name}") for name in world.names()) <= SEGMENT_SIZE_BYTES


def test_much_that_waits_is_filled_ahead_in_steps():
    """A disk that hangs while everything goes on being appended: each segment gets its zeros, in whole steps."""
    world = World()
    for _ in range(30):
        operations = world.files.operation_count
        world.add(600)
        assert world.files.operation_count - operations <= 8
    assert not [each for each in world.names() if world.files.size_of(f"{DATA}/{each}") > SEGMENT_SIZE_BYTES]
    world.sync()
    world.files.crash(Keep.NONE)
    assert world.found() == list(range(1, 31))


def test_a_piece_that_no_segment_has_room_for_gets_one_that_grows(monkeypatch):
    monkeypatch.setattr(module, "COPIED_BYTES_MAX", 5000)
    world = World()
    world.write(100, 4000, 100)
    world.files.crash(Keep.NONE)
    assert world.found() == [1, 2, 3]


def test_of_a_batch_above_the_bound_only_the_header_is_kept():
    world = World()
    reference = Reference()
    at_bound, above = world.add(1000), world.add(1001, [reference])
    assert (Journal.copies(1000), Journal.copies(1001)) == (True, False)
    taken = world.journal.take()
    assert taken.references == [reference]
    world.journal.write(taken)
    (entry,) = read_journal(world.files, DATA, DIRECTORY).entries()
    assert [bytes(each.kept) for each in entry.pieces] == [at_bound, above[:61]]
    assert [each.size_bytes for each in entry.pieces] == [1000, 1001]


def test_what_is_synced_before_a_copied_batch_takes_nothing_of_it_away():
    world = World()
    reference = Reference()
    batch = world.add(100, [reference, reference])
    taken = world.journal.take()
    assert taken.references == [reference], "once each"
    world.journal.write(taken)
    (entry,) = read_journal(world.files, DATA, DIRECTORY).entries()
    assert bytes(entry.pieces[0].kept) == batch


def filled(world: World, segments: int = 3) -> None:
    while len(world.journal._segments) < segments:
        world.write(600)


def test_a_segment_is_used_again_once_an_entry_that_says_so_is_synced():
    world = World()
    filled(world)
    oldest = world.journal._segments[0].last_sequence
    assert not world.journal.has_segment_to_free(oldest - 1)
    assert world.journal.has_segment_to_free(oldest)
    world.journal.checkpointed(oldest)
    assert not world.journal.has_segment_to_free(oldest), "it is on its way"
    assert len(world.journal._segments) == 3
    world.write(10)
    assert (len(world.journal._segments), len(world.journal._free)) == (2, 1)
    count = world.journal.segment_count
    filled(world)
    assert world.journal.segment_count == count
    world.files.crash(Keep.NONE)
    assert world.found() == list(range(oldest + 1, world.end_offset + 1))


def test_a_commit_of_nothing_frees_nothing():
    """No entry says yet that the segment is not needed: written over, a start would look for it and refuse."""
    world = World()
    filled(world)
    world.journal.checkpointed(world.journal._segments[0].last_sequence)
    world.sync()
    assert len(world.journal._free) == 0
    for size_bytes in (600, 600, 600, 600):
        world.add(size_bytes)
    taken = world.journal.take()
    world.journal.write(taken)
    for seed in range(20):
        # The power goes before the sync; any of these writes may be there.
        world.files.random.seed(seed)
    world.files.crash(Keep.RANDOM)
    assert world.found() is not None


@pytest.mark.parametrize("seed", range(30))
def test_the_power_goes_as_a_segment_is_used_again(seed):
    world = World(seed)
    filled(world)
    synced = world.end_offset
    oldest = world.journal._segments[0].last_sequence
    world.journal.checkpointed(oldest)
    for _ in range(3):
        world.sync()
    for _ in range(5):
        world.add(600)
    world.journal.write(world.journal.take())
    world.files.crash(Keep.RANDOM)
    found = world.found()
    assert set(range(oldest + 1, synced + 1)) <= set(found)
    assert found == list(range(found[0], found[0] + len(found)))


def test_pinned_segments_stay():
    world = World()
    filled(world)
    world.journal.pin()
    newest = world.journal.written_sequence
    assert not world.journal.has_segment_to_free(newest)
    world.journal.checkpointed(newest)
    world.write(10, 10)
    assert world.journal._free == []
    assert world.found() == list(range(1, world.end_offset + 1))


def test_the_one_that_is_written_is_never_freed():
    world = World()
    world.write(100)
    assert not world.journal.has_segment_to_free(world.journal.written_sequence)
    world.journal.checkpointed(world.journal.written_sequence)
    world.write(100)
    assert len(world.journal._segments) == 1
    assert world.found() == [2]


def test_free_segments_beyond_the_bound_are_removed_and_one_is_kept_for_what_waits():
    world = World()
    filled(world, 8)
    world.journal.checkpointed(world.journal.written_sequence)
    world.write(10)
    assert world.journal.segment_count >= 8
    world.journal.checkpointed(world.journal.written_sequence)
    assert world.journal.segment_count == len(world.names()) == 3
    filled(world, 4)
    found = world.found()
    assert found[-1] == world.end_offset


def test_what_is_reserved_is_not_removed(monkeypatch):
    monkeypatch.setattr(module, "SEGMENTS_KEPT", 1)
    world = World()
    filled(world, 2)
    world.write(600)
    world.add(900)
    assert len(world.journal._free) == 1
    world.journal.checkpointed(1)
    world.files.trace = trace = []
    world.sync()
    assert "create" not in [what for what, _ in trace], "a full disk would end the journal"
    assert world.found()[-1] == world.end_offset


def test_the_file_of_a_segment_that_goes_is_closed(monkeypatch):
    monkeypatch.setattr(module, "SEGMENTS_KEPT", 1)
    world = World()
    filled(world, 5)
    world.journal.checkpointed(world.journal.written_sequence)
    world.write(10)
    free = list(world.journal._free)
    world.journal.checkpointed(world.journal.written_sequence)
    assert [each.file._is_closed for each in free] == [False] + [True] * (len(free) - 1)
    assert len(free) > 2


def test_more_segments_than_the_bound_are_refused_before_anything_is_added():
    world = World(segments=4)
    assert not world.journal.is_nearly_full
    with pytest.raises(StorageError, match="4 segments that wait for the data files' sync"):
        for _ in range(100):
            world.write(600)
    assert world.journal.is_nearly_full
    assert len(world.names()) == 4
    assert world.journal.failure is None
    for _ in range(9):
        world.journal.checkpointed(world.journal.written_sequence - 1)
        world.write(600)
        assert len(world.names()) <= 5
    assert world.found()[-1] == world.end_offset


def test_a_full_disk_refuses_before_anything_is_added_and_leaves_nothing():
    world = World()
    before = world.names()
    world.files.is_full = True
    with pytest.raises(StorageError, match="DISK_FULL"):
        for _ in range(100):
            world.add(300)
            world.sync()
    assert world.journal.failure is None
    for _ in range(3):
        with pytest.raises(StorageError):
            world.journal.reserve(900)
    assert world.names() == before, "no half-filled file is left behind"
    world.files.is_full = False
    world.write(900)
    assert world.found()[-1] == world.end_offset


def test_a_disk_that_is_full_in_the_middle_of_a_new_segment_gets_its_bytes_back():
    world = World()
    world.write(600)
    before = world.names()
    handles = world.files.trace = []
    world.files.fail_at(3, Fault.DISK_FULL)
    opened, original = [], world.files.open
    world.files.open = lambda path, create=True: opened.append(original(path, create)) or opened[-1]
    with pytest.raises(StorageError):
        world.journal.reserve(900)
    world.files.open = original
    assert [each._is_closed for each in opened] == [True]
    assert [what for what, _ in handles] == ["create", "write", "write", "remove"]
    assert world.names() == before
    world.write(900)


@pytest.mark.parametrize("what", ["write", "fail"])
def test_a_failure_is_for_good(what):
    world = World()
    world.write(10)
    world.add(10)
    if what == "write":
        world.files.fail_at(1, Fault.IO_ERROR)
        with pytest.raises(StorageError, match="IO_ERROR"):
            world.journal.write(world.journal.take())
    else:
        world.journal.fail(StorageError("IO_ERROR of its sync"))
        world.journal.fail(StorageError("a later one"))
    for again in (lambda: world.journal.reserve(1), lambda: world.journal.write(world.journal.take())):
        with pytest.raises(StorageError, match="IO_ERROR"):
            again()


@pytest.mark.parametrize("is_written", [True, False])
def test_what_is_given_back_goes_with_the_next_one_and_before_it(is_written):
    world = World()
    reference = Reference()
    world.add(500, [reference])
    taken = world.journal.take()
    if is_written:
        world.journal.write(taken)
    file = world.journal._segments[-1].file
    world.add(600)
    world.add(600)
    world.journal.give_back(taken)
    given_back = 0 if is_written else 500 + PIECE_HEADER_BYTES
    assert world.journal.pending_size_bytes == given_back + 2 * (600 + PIECE_HEADER_BYTES)
    again = world.journal.take()
    assert reference in again.references
    world.journal.write(again)
    assert file in again.files, "what was written and perhaps not synced is synced with it"
    for each in again.files:
        each.sync()
    world.journal.synced(again)
    assert world.journal.pending_size_bytes == 0
    assert world.journal.synced_sequence == world.journal.written_sequence == again.sequence
    world.files.crash(Keep.NONE)
    assert world.found() == [1, 2, 3]


def test_each_segment_says_whose_it_is_and_what_is_needed():
    world = World()
    filled(world, 2)
    world.journal.checkpointed(1)
    filled(world, 3)
    headers = [segment_header_from_bytes(world.files.read_whole(f"{DATA}/{name}")) for name in world.names()]
    assert {each[:3] for each in headers} == {(DIRECTORY, BOOT, GENERATION)}
    assert [each.first_sequence for each in headers] == [1, *(s.last_sequence + 1 for s in world.journal._segments[:2])]
    assert headers[-1].needed_from == 2


def test_a_closed_journal_is_read_by_the_next_start():
    world = World()
    world.write(10)
    world.journal.close()
    world.files.kill()
    assert world.found() == [1]


def test_nothing_is_left_of_a_journal_that_was_removed():
    world = World()
    filled(world)
    world.files.trace = trace = []
    remove_journal(world.files, DATA)
    assert world.names() == []
    closed = f"{DATA}/{CLOSED_FILE}"
    removals = [path for what, path in trace if what == "remove"]
    assert removals[-1] == closed
    last = max(index for index, (what, path) in enumerate(trace) if what == "remove" and path != closed)
    assert trace[last + 1] == ("sync_directory", DATA), "before the mark goes, so that no file can come back alone"
    assert trace[-1] == ("sync_directory", DATA)
    world.files.trace = trace = []
    remove_journal(world.files, DATA)
    assert trace == [], "there is none"


def test_the_power_goes_at_every_step_of_a_removal():
    """Of files that go one by one any may be left: a start sees all of the journal, or none."""
    counts = set()
    for operation in range(1, 40):
        for seed in range(6):
            world = World(seed)
            filled(world)
            everything = list(range(1, world.end_offset + 1))
            world.files.cut_power_at(operation)
            is_cut = False
            try:
                remove_journal(world.files, DATA)
            except Exception:  # noqa: BLE001 - PowerCut
                is_cut = True
            world.files.crash(Keep.RANDOM)
            found = world.found()
            assert found in (None, everything), operation
            assert is_cut or found is None
            counts.add(found is None)
            world.files.cut_power_at(operation)
            try:
                remove_journal(world.files, DATA)
            except Exception:  # noqa: BLE001 - PowerCut
                world.files.crash(Keep.RANDOM)
            assert world.found() in (None, found), "also of a second one, after the first was cut short"
            world.files.heal()
            remove_journal(world.files, DATA)
            Journal(world.files, DATA, size_bytes_max=16 * SEGMENT_SIZE_BYTES).begin(DIRECTORY, BOOT, GENERATION + 1)
            assert world.found() == []
    assert counts == {True, False}
