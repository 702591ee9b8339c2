"""What a start finds in a journal: all of it up to a torn tail, which it names; or damage, and nothing is served."""

from __future__ import annotations

import struct

import pytest
from evidence.world.files import Keep, PowerCut, SimFiles

from oncelog.log import journal as module
from oncelog.log.journal import BEGUN_FILE, CLOSED_FILE, FILE_PREFIX, Journal, remove_journal
from oncelog.log.journal_entries import (
    ENTRY_MAGIC,
    SEGMENT_HEADER_BYTES,
    UNKNOWN_BOOT,
    UnknownJournal,
    entry_from_bytes,
    segment_header_from_bytes,
)
from oncelog.log.journal_reading import DamagedJournal, MissingJournal, read_journal
from oncelog.wire.crc32c import crc32c

DATA = "data"
DIRECTORY, BOOT = b"d" * 16, b"b" * 16


@pytest.fixture(autouse=True)
def small(monkeypatch):
    monkeypatch.setattr(module, "SEGMENT_SIZE_BYTES", 2000)
    monkeypatch.setattr(module, "FILL_SIZE_BYTES", 500)


def written(entries: int, *, synced: int | None = None, seed: int = 0, files: SimFiles | None = None) -> SimFiles:
    """A journal of entries with one piece of 300 bytes each, of which the first `synced` are synced."""
    if files is None:
        files = SimFiles(seed)
        files.make_directory(DATA)
        files.sync_directory("")
    journal = Journal(files, DATA, size_bytes_max=32_000)
    journal.begin(DIRECTORY, BOOT, 7)
    for number in range(1, entries + 1):
        add(journal, number)
        taken = journal.take()
        journal.write(taken)
        if synced is None or number <= synced:
            for file in taken.files:
                file.sync()
            journal.synced(taken)
    journal.close()
    return files


def add(journal: Journal, number: int) -> None:
    journal.reserve(300)
    journal.add(b"t" * 16, 0, segment_base_offset=0, position=0, end_offset=number, batch=bytes([number]) * 300)


def places(files: SimFiles) -> dict[int, tuple[str, int, int]]:
    """Where each entry lies: path, position, end."""
    found = {}
    for name in files.list(DATA):
        path = f"{DATA}/{name}"
        data, position = files.read_whole(path), SEGMENT_HEADER_BYTES
        while (entry := entry_from_bytes(data, position, 7)) is not None:
            found[entry.sequence] = (path, position, entry.end_position)
            position = entry.end_position
    return found


def sequences(files: SimFiles) -> list[int]:
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    return [entry.sequence for entry in found.entries()]


def test_there_is_none():
    files = SimFiles()
    files.make_directory(DATA)
    assert read_journal(files, DATA) is None
    files.open(f"{DATA}/{FILE_PREFIX}0")
    assert read_journal(files, DATA) is None, "a file that was made, and the power went"
    files.open(f"{DATA}/{FILE_PREFIX}0").write_at(0, bytes(5000))
    assert read_journal(files, DATA) is None, "filled with zeros, and the power went"


def without_segments(entries: int = 3) -> SimFiles:
    files = written(entries)
    for name in files.list(DATA):
        if name.startswith(FILE_PREFIX):
            files.remove(f"{DATA}/{name}")
    return files


def test_one_that_was_begun_and_is_not_there_is_missed():
    files = without_segments()
    with pytest.raises(MissingJournal, match=f"the journal of {DATA} is missing .*: restore it") as raised:
        read_journal(files, DATA, DIRECTORY)
    assert raised.value.boot == BOOT
    assert f"or remove {DATA}/{BEGUN_FILE}" in str(raised.value)
    files.remove(f"{DATA}/{BEGUN_FILE}")
    assert read_journal(files, DATA, DIRECTORY) is None, "the way out"


def test_what_lies_in_its_place_is_named():
    files = without_segments()
    files.open(f"{DATA}/{FILE_PREFIX}0").write_at(0, b"something else")
    with pytest.raises(MissingJournal, match=f"is missing .{DATA}/{FILE_PREFIX}0 lies there, and is no file") as raised:
        read_journal(files, DATA, DIRECTORY)
    assert raised.value.instead == f" ({DATA}/{FILE_PREFIX}0 lies there, and is no file of a journal)"


def newest_of(files: SimFiles) -> str:
    headers = {name: files.read_whole(f"{DATA}/{name}") for name in files.list(DATA) if name.startswith(FILE_PREFIX)}
    first_sequences = {
        name: header.first_sequence for name, data in headers.items() if (header := segment_header_from_bytes(data))
    }
    return f"{DATA}/{max(first_sequences, key=first_sequences.__getitem__)}"


@pytest.mark.parametrize("zeros", [False, True])
def test_the_newest_file_that_is_missing_alone_is_missed(zeros: bool) -> None:
    """Its entries were synced and acknowledged; those before it look like a whole journal."""
    files = written(20)
    path = newest_of(files)
    if zeros:
        files.open(path).write_at(0, bytes(SEGMENT_HEADER_BYTES))
    else:
        files.remove(path)
    with pytest.raises(MissingJournal, match=r"the newest file .* entries from 19 on: restore it") as raised:
        read_journal(files, DATA, DIRECTORY)
    assert raised.value.boot == BOOT
    for name in [name for name in files.list(DATA) if name.startswith(FILE_PREFIX) or name == BEGUN_FILE]:
        files.remove(f"{DATA}/{name}")
    assert read_journal(files, DATA, DIRECTORY) is None, "the way out"


@pytest.mark.parametrize("synced", range(12))
@pytest.mark.parametrize("keep", list(Keep))
def test_a_file_that_is_told_of_is_always_there_after_a_power_cut(synced: int, keep: Keep) -> None:
    """Of what was not synced the disk keeps nothing, all or some of it: nothing is taken for missing that was just begun."""
    for seed in range(4):
        files = written(12, synced=synced, seed=seed)
        files.crash(keep)
        found = sequences(files)
        assert found == list(range(1, len(found) + 1))
        assert len(found) >= synced


def test_zeros_in_its_place_are_no_journal_either():
    files = without_segments()
    files.open(f"{DATA}/{FILE_PREFIX}0").write_at(0, bytes(5000))
    with pytest.raises(MissingJournal):
        read_journal(files, DATA, DIRECTORY)


def test_that_it_was_begun_is_believed_when_the_rest_of_it_cannot_be_read():
    files = written(3)
    files.flip_bit(f"{DATA}/{BEGUN_FILE}", 100)
    assert sequences(files) == [1, 2, 3], "the segments say it themselves"
    files = without_segments()
    files.flip_bit(f"{DATA}/{BEGUN_FILE}", 100)
    with pytest.raises(MissingJournal) as raised:
        read_journal(files, DATA, DIRECTORY)
    assert raised.value.boot == UNKNOWN_BOOT


def test_one_of_another_start_in_its_place_is_damage():
    files, older = written(3), written(5)
    remove_journal(files, DATA)
    journal = Journal(files, DATA, size_bytes_max=32_000)
    journal.begin(DIRECTORY, BOOT, 8)
    journal.close()
    files.open(f"{DATA}/{FILE_PREFIX}0").write_at(0, older.read_whole(f"{DATA}/{FILE_PREFIX}0"))
    with pytest.raises(DamagedJournal, match=f"{FILE_PREFIX}0 is of another start than {DATA}/{BEGUN_FILE}: restore"):
        read_journal(files, DATA, DIRECTORY)


def test_one_of_before_this_was_noted_is_read_as_it_was():
    files = written(3)
    files.remove(f"{DATA}/{BEGUN_FILE}")
    assert sequences(files) == [1, 2, 3]


def test_the_power_goes_at_every_step_of_a_beginning():
    """A start finds the journal or none that there must be, and the next one can begin."""
    seen = set()
    for operation in range(1, 30):
        for seed in range(6):
            files = SimFiles(seed)
            files.make_directory(DATA)
            files.sync_directory("")
            files.cut_power_at(operation)
            try:
                Journal(files, DATA, size_bytes_max=32_000).begin(DIRECTORY, BOOT, 7)
            except PowerCut:
                files.crash(Keep.RANDOM)
            found = read_journal(files, DATA, DIRECTORY)
            seen.add((found is None, files.exists(f"{DATA}/{BEGUN_FILE}")))
            files.heal()
            remove_journal(files, DATA)
            assert read_journal(files, DATA, DIRECTORY) is None
    assert seen == {(True, False), (False, False), (False, True)}


def test_entries_of_several_segments_are_found_in_order():
    files = written(12)
    assert len(files.list(DATA)) >= 4
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    assert (found.directory, found.boot, found.generation, found.needed_from) == (DIRECTORY, BOOT, 7, 1)
    assert (found.last_sequence, found.torn) == (12, "")
    assert sequences(files) == list(range(1, 13))
    assert read_journal(files, DATA) is not None, "whose it is need not be known"


def test_a_torn_tail_is_left_out_and_named():
    files = written(3)
    path, position, end = places(files)[3]
    files.flip_bit(path, (end - 1) * 8)
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    assert found.torn == f"{path}: position {position}: entry 3 was not synced and is torn; it is left out"
    assert (found.last_sequence, sequences(files)) == (2, [1, 2])


def test_a_tail_without_its_first_sector_is_left_out_without_a_word():
    files = written(3)
    path, position, _ = places(files)[3]
    files.open(path).write_at(position, b"\0" * 40)
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    assert (found.last_sequence, found.torn) == (2, "")


@pytest.mark.parametrize("sequence", [1, 2, 6, 10, 11])
def test_a_damaged_entry_that_was_synced_stops_the_start_and_is_named(sequence):
    files = written(12)
    path, position, end = places(files)[sequence]
    files.flip_bit(path, (position + end) // 2 * 8)
    with pytest.raises(
        DamagedJournal, match=f"entry {sequence} cannot be read, and entry 11 was synced: restore"
    ) as raised:
        read_journal(files, DATA, DIRECTORY)
    assert "dump-log --journal" in str(raised.value)
    if sequence in (10, 11):
        assert f"{path}: position {position}" in str(raised.value)


def test_damage_is_found_behind_an_entry_of_the_same_segment():
    """The one that is missing is not the last whole one's neighbour: everything behind it is looked for."""
    files = written(3)
    (path, first, _), (_, second, end) = places(files)[1], places(files)[2]
    for position in (first, second):
        files.flip_bit(path, (position + 60) * 8)
    with pytest.raises(DamagedJournal, match="entry 1 cannot be read, and entry 2 was synced"):
        read_journal(files, DATA, DIRECTORY)
    assert end


def test_a_segment_that_is_missing_is_damage():
    files = written(12)
    files.remove(places(files)[6][0])
    with pytest.raises(DamagedJournal, match="cannot be read"):
        read_journal(files, DATA, DIRECTORY)


@pytest.mark.parametrize("sequence", [1, 6, 12])
@pytest.mark.parametrize("entries", [2, 12])
def test_a_damaged_header_of_a_segment_is_damage(sequence, entries):
    """Also of the only one: it is no journal that was never begun."""
    files = written(entries)
    path = places(files)[min(sequence, entries)][0]
    files.flip_bit(path, 100)
    with pytest.raises(DamagedJournal):
        read_journal(files, DATA, DIRECTORY)


@pytest.mark.parametrize("seed", range(25))
def test_a_segment_whose_header_no_sync_covered_is_left_out(seed):
    files = written(12, synced=5, seed=seed)
    files.crash(Keep.RANDOM)
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    assert found.last_sequence >= 5
    assert sequences(files) == list(range(1, found.last_sequence + 1))


@pytest.mark.parametrize("seed", range(25))
def test_older_entries_of_a_segment_that_is_used_again_are_nothing(seed):
    files = SimFiles(seed)
    files.make_directory(DATA)
    files.sync_directory("")
    journal = Journal(files, DATA, size_bytes_max=32_000)
    journal.begin(DIRECTORY, BOOT, 7)
    synced = 0
    for number in range(1, 31):
        add(journal, number)
        taken = journal.take()
        journal.write(taken)
        if number == 30 and seed % 2:
            break
        for file in taken.files:
            file.sync()
        journal.synced(taken)
        synced = number
        if number % 3 == 0:
            journal.checkpointed(number - 2)
    newest = journal._segments[-1]
    stale = files.read_whole(newest.path)[newest.position :]
    files.crash(Keep.RANDOM)
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    assert found.needed_from >= 24
    assert found.last_sequence in (synced, 30)
    assert sequences(files) == list(range(found.needed_from, found.last_sequence + 1))
    assert ENTRY_MAGIC in stale or newest.position > 1200


def test_what_is_not_needed_is_not_given():
    files = SimFiles()
    files.make_directory(DATA)
    journal = Journal(files, DATA, size_bytes_max=32_000)
    journal.begin(DIRECTORY, BOOT, 7)
    for number in (1, 2, 3):
        add(journal, number)
        journal.checkpointed(number - 1)
        journal.write(journal.take())
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    assert (found.needed_from, found.last_sequence, sequences(files)) == (3, 3, [3])


def test_another_directory_s_is_refused():
    files = written(2)
    with pytest.raises(UnknownJournal) as refused:
        read_journal(files, DATA, b"x" * 16)
    said = str(refused.value)
    assert f"{FILE_PREFIX}0 belongs to another data directory than {DATA}/meta.properties names" in said
    assert "remove the journal only where it is from elsewhere" in said, "a flipped bit of cluster.id says the same"


def test_a_newer_format_is_refused_and_named():
    files = written(2)
    path = places(files)[1][0]
    data = bytearray(files.read_whole(path)[:66])
    struct.pack_into(">H", data, 8, 2)
    files.open(path).write_at(0, bytes(data) + struct.pack(">I", crc32c(bytes(data))))
    with pytest.raises(UnknownJournal, match=f"{path}: a journal of format 2"):
        read_journal(files, DATA, DIRECTORY)


def test_one_that_was_closed_is_none_whatever_is_left_of_it():
    files = written(12)
    files.flip_bit(places(files)[4][0], 4000)
    files.open(f"{DATA}/{CLOSED_FILE}")
    assert read_journal(files, DATA, DIRECTORY) is None


def test_a_segment_of_another_start_is_damage():
    files = written(12)
    old = files.read_whole(places(files)[12][0])
    remove_journal(files, DATA)
    journal = Journal(files, DATA, size_bytes_max=32_000)
    journal.begin(DIRECTORY, BOOT, 8)
    journal.close()
    files.open(f"{DATA}/{FILE_PREFIX}99").write_at(0, old)
    with pytest.raises(DamagedJournal, match="is of another start than"):
        read_journal(files, DATA, DIRECTORY)


def test_entries_of_an_older_start_in_the_same_file_are_nothing():
    files = written(4)
    path = places(files)[1][0]
    entries = files.read_whole(path)[SEGMENT_HEADER_BYTES:]
    remove_journal(files, DATA)
    journal = Journal(files, DATA, size_bytes_max=32_000)
    journal.begin(DIRECTORY, BOOT, 8)
    journal.close()
    files.open(path).write_at(SEGMENT_HEADER_BYTES, entries)
    found = read_journal(files, DATA, DIRECTORY)
    assert found is not None
    assert (found.last_sequence, found.torn, sequences(files)) == (0, "", [])
