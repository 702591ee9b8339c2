"""Group commit with a journal: what is synced when, who waits for it, and what each failure does. Files are in memory."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.broker import run, until
from evidence.world.files import Fault, Keep

from oncelog.broker.partitions import journal_flusher
from oncelog.errors import ErrorCode, StorageError
from oncelog.log.failed_sync import MARKER
from oncelog.log.files import DirectoryNames
from oncelog.log.journal import BEGUN_FILE, FILE_PREFIX, Journal
from oncelog.log.journal_reading import MissingJournal
from oncelog.types import TopicPartition
from tests.broker.partitions.journal_world import DATA, SMALL, JournalWorld, turns

A = TopicPartition("a", 0)


class GatedSyncer:
    """Syncs when the test says so, until it is opened."""

    def __init__(self):
        self.calls = []
        self.running = set()
        self.is_open = True

    async def sync(self, files):
        gate = asyncio.get_running_loop().create_future()
        if not self.is_open:
            self.calls.append((files, gate))
            await gate
        for file in files:
            file.sync()

    async def next(self, count):
        await until(lambda: len(self.calls) >= count)
        return self.calls[count - 1]

    def open(self):
        self.is_open = True
        for _, gate in self.calls:
            if not gate.done():
                gate.set_result(None)


@pytest.fixture
def small(monkeypatch):
    for name, value in SMALL.items():
        monkeypatch.setattr(name, value)


async def started(**options) -> JournalWorld:
    world = JournalWorld(syncer=GatedSyncer(), **options)
    await world.start()
    return world


def kinds(files) -> list[str]:
    return [str(getattr(file, "path", type(file).__name__)).replace(f"{DATA}/", "") for file in files]


def test_one_sync_of_the_journal_commits_all_partitions():
    async def work():
        world = await started()
        for topic in "abc":
            world.append(topic)
        await world.flusher.commit()
        world.syncer.is_open = False
        for topic in "abc":
            world.append(topic)
        commit = asyncio.ensure_future(world.flusher.commit())
        files, gate = await world.syncer.next(1)
        assert kinds(files) == [f"{FILE_PREFIX}0"], "no data file is waited for"
        world.append("a")
        gate.set_result(None)
        await commit
        assert world.acknowledged == {TopicPartition(topic, 0): 2 for topic in "abc"}, "what came meanwhile is not"
        assert world.partition("a").rules.high_watermark == 2
        assert (world.flusher.sync_count, world.flusher.commits.count, world.flusher.commits.total) == (2, 2, 6)

    run(work())


def test_the_task_commits_what_somebody_waits_for():
    async def work():
        world = await started()
        task = asyncio.ensure_future(world.flusher.run())
        assert await world.partition("a").commit(world.append("a", waits=False)) is ErrorCode.NONE
        world.append("b", waits=False)
        await turns()
        assert world.partition("b").rules.high_watermark == 0, "nobody waits for it"
        assert await world.partition("a").commit(world.append("a", waits=False)) is ErrorCode.NONE
        assert world.partition("b").rules.high_watermark == 1
        task.cancel()

    run(work())


def test_one_commit_at_a_time():
    """The second one's sync could end first, and say of the first one's entry that it is durable."""

    async def work():
        world = await started()
        world.append("a")
        await world.flusher.commit()
        world.syncer.is_open = False
        world.append("a")
        first = asyncio.ensure_future(world.flusher.commit())
        await world.syncer.next(1)
        world.append("a")
        second = asyncio.ensure_future(world.flusher.commit())
        await turns()
        assert (len(world.syncer.calls), world.journal.written_sequence) == (1, 2)
        world.syncer.open()
        await asyncio.gather(first, second)
        assert world.acknowledged == {A: 3}

    run(work())


def test_others_have_their_turn_while_many_partitions_hand_out_their_files(monkeypatch):
    """The first data sync after a start writes a file for each of the coordinator's partitions."""
    monkeypatch.setattr(journal_flusher, "HANDED_OUT_TOGETHER_MAX", 2)

    async def work():
        world = await started(topics=8)
        for topic in "abcdefgh":
            world.append(topic)
        await world.flusher.commit()
        world.syncer.is_open = False
        sync = asyncio.ensure_future(world.flusher.sync_data())
        counts = []
        while not world.syncer.calls:
            await asyncio.sleep(0)
            counts.append(sum(world.partition(topic).log.is_syncing for topic in "abcdefgh"))
        assert [later - before for before, later in zip([0, *counts], counts, strict=False)][:5] == [1, 2, 2, 2, 1]
        world.append("a")  # what came meanwhile is of the next one
        world.syncer.open()
        await sync
        assert [world.partition(topic).log.recovery_point for topic in "abcdefgh"] == [1] * 8

    run(work())


def test_one_data_sync_at_a_time():
    """A log hands out its files once; and a second one would say that what the first has not synced yet is."""

    async def work():
        world = await started()
        world.append("a")
        await world.flusher.commit()
        world.syncer.is_open = False
        first = asyncio.ensure_future(world.flusher.sync_data())
        await world.syncer.next(1)
        second = asyncio.ensure_future(world.flusher.sync_data())
        await turns()
        assert not second.done()
        world.syncer.open()
        assert await asyncio.gather(first, second) == [1, 1]

    run(work())


def test_what_is_synced_is_not_synced_again():
    async def work():
        world = await started()
        world.append("a")
        await world.flusher.sync_data()
        world.syncer.is_open = False
        await world.flusher.sync_data()
        await world.flusher.commit()
        assert (world.syncer.calls, world.flusher._unsynced) == ([], {})

    run(work())


def test_a_new_partition_s_names_are_synced_before_its_first_entry():
    async def work():
        world = await started()
        world.syncer.is_open = False
        world.append("a")
        commit = asyncio.ensure_future(world.flusher.commit())
        files, gate = await world.syncer.next(1)
        assert kinds(files) == ["UnsyncedFile", "NewNames"]
        before = world.files.snapshot()[f"{DATA}/{FILE_PREFIX}0"]
        gate.set_result(None)
        files, gate = await world.syncer.next(2)
        assert kinds(files) == [f"{FILE_PREFIX}0"]
        assert world.files.snapshot()[f"{DATA}/{FILE_PREFIX}0"] != before
        gate.set_result(None)
        await commit
        world.append("a")
        commit = asyncio.ensure_future(world.flusher.commit())
        files, gate = await world.syncer.next(3)
        assert kinds(files) == [f"{FILE_PREFIX}0"], "once"
        world.syncer.open()
        await commit
        world.files.crash(Keep.NONE)
        await world.start()
        world.check(is_cut=True)
        assert world.files.exists(f"{DATA}/a-0/partition.metadata")

    run(work())


def test_a_big_batch_is_synced_in_its_file_before_the_entry_that_names_it(small):
    async def work():
        world = await started()
        world.append("a")
        await world.free()
        world.syncer.is_open = False
        world.append("a", 700)
        commit = asyncio.ensure_future(world.flusher.commit())
        files, gate = await world.syncer.next(1)
        assert kinds(files) == ["a-0/00000000000000000000.log"]
        world.append("b", 10)
        sequence = world.journal.written_sequence
        gate.set_result(None)
        files, gate = await world.syncer.next(2)
        assert (kinds(files), world.journal.written_sequence) == ([f"{FILE_PREFIX}0"], sequence + 1)
        world.syncer.open()
        await commit
        await world.crash(Keep.NONE)
        assert world.ends() == {A: 2}

    run(work())


def test_a_big_batch_in_a_new_segment_has_its_name_synced_too(small):
    async def work():
        world = await started()
        for _ in range(3):
            world.append("a", 700)
            await world.flusher.commit()
        await world.free()
        world.append("a", 900)
        assert len(world.partition("a").log.segments) == 2
        await world.flusher.commit()
        await world.crash(Keep.NONE)
        assert world.ends() == {A: 4}

    run(work())


@pytest.mark.parametrize("share", ["reference", "write", "sync"])
def test_a_journal_that_fails_takes_everything_that_waits_offline_and_nothing_more(share, small, caplog):
    async def work():
        world = await started()
        world.append("a")
        await world.flusher.commit()
        world.append("a", 700 if share == "reference" else 10)
        world.append("b")
        await world.flusher.commit()
        size_bytes = 700 if share == "reference" else 10
        world.append("a", size_bytes)
        world.append("c", waits=False) if share != "reference" else None
        world.files.fail_at(1, Fault.IO_ERROR if share == "write" else Fault.SYNC_ERROR)
        await world.flusher.commit()
        assert world.refused == [(A, ErrorCode.KAFKA_STORAGE_ERROR)]
        assert world.partition("a").is_offline
        assert not world.partition("b").is_offline, "what it has is committed"
        assert world.partition("a").rules.high_watermark == 2
        assert world.files.exists(f"{DATA}/a-0/sync-failed"), "names of its own may have gone with it"
        with pytest.raises(StorageError):
            world.append("b")
        assert world.partition("b").is_offline
        assert world.acknowledged == {A: 2, TopicPartition("b", 0): 1}
        await world.kill()
        await world.crash()

    run(work())
    assert "the journal takes nothing more until a restart" in caplog.text


@pytest.mark.parametrize("waits", [True, False])
def test_names_whose_sync_failed_elsewhere_are_named_by_no_entry(small, waits):
    """The cleaner syncs the names of a directory, and fails: the system calls them clean, and the sync before an entry that
    rests on a new segment's name would succeed."""

    async def work():
        world = await started()
        for _ in range(3):
            world.append("a", 700)
            await world.flusher.commit()
        await world.free()
        if waits:
            world.append("a", 900)
            assert len(world.partition("a").log.segments) == 2
        world.flusher.sync_failed([DirectoryNames(world.files, f"{DATA}/a-0")], StorageError("no disk"))
        if waits:
            await world.flusher.commit()
            with pytest.raises(StorageError):
                world.append("b")
        else:
            world.append("b")
            await world.flusher.commit()
        assert world.acknowledged == ({A: 3} if waits else {A: 3, TopicPartition("b", 0): 1})
        await world.kill()
        await world.crash(Keep.NONE)
        assert world.ends()[A] >= 3

    run(work())


def test_who_asks_after_the_journal_failed_is_refused():
    async def work():
        world = await started()
        task = asyncio.ensure_future(world.flusher.run())
        end_offset = world.append("a", waits=False)
        world.journal.fail(StorageError("no disk"))
        assert await world.partition("a").commit(end_offset) is ErrorCode.KAFKA_STORAGE_ERROR
        assert await world.flusher.sync_data() == 0
        task.cancel()

    run(work())


def test_a_data_sync_moves_the_recovery_point_to_the_end_and_frees_segments(small):
    async def work():
        world = await started()
        for _ in range(20):
            world.append("a", 400)
            await world.flusher.commit()
        assert len(world.journal._segments) > 3
        await world.free()
        assert world.partition("a").log.recovery_point == 20
        assert world.partition("a").log.stored_recovery_point == 20
        world.append("a")
        await world.flusher.commit()
        assert len(world.journal._segments) == 1
        assert world.journal.bytes_since_data_sync < 200
        await world.crash(Keep.NONE)

    run(work())


def test_a_recovery_point_never_lies_ahead_of_the_journal(small):
    """What others appended before could be lost, and this not."""

    async def work():
        world = await started()
        world.append("a", waits=False)
        world.syncer.is_open = False
        sync = asyncio.ensure_future(world.flusher.sync_data())
        await world.syncer.next(1)
        world.append("b", waits=False)
        for count in (1, 2, 3):
            _, gate = await world.syncer.next(count)
            assert world.partition("a").log.recovery_point == 0
            gate.set_result(None)
        world.syncer.open()
        assert await sync == 0, "what was written when it began: no entry"
        assert world.partition("a").log.recovery_point == 1
        await world.crash(Keep.NONE)
        assert world.ends() == {A: 1, TopicPartition("b", 0): 1}

    run(work())


def test_a_failed_data_sync_takes_its_partitions_offline_and_the_journal_keeps_what_they_have(small):
    async def work():
        world = await started()
        for topic in "aabbbbbb":
            world.append(topic, 500)
            await world.flusher.commit()
        world.files.fail_at(1, Fault.SYNC_ERROR)
        await world.free()
        assert world.partition("a").is_offline
        assert not world.files.is_off
        segments = len(world.journal._segments)
        assert segments > 1
        await world.free()
        assert len(world.journal._segments) == segments
        world.append("c")
        await world.flusher.commit()  # an entry says from where on the journal is needed
        assert world.acknowledged[A] == 2
        await world.crash(Keep.NONE)
        assert world.ends()[A] == 2
        assert not world.partition("a").is_offline

    run(work())


@pytest.mark.parametrize("is_gone", [True, False])
def test_a_partition_that_goes_offline_during_its_data_sync_has_what_was_synced(small, is_gone):
    async def work():
        world = await started()
        for _ in range(8):
            world.append("a", 500)
            await world.flusher.commit()
        world.syncer.is_open = False
        free = asyncio.ensure_future(world.free())
        await world.syncer.next(1)
        if is_gone:
            world.partition("a").go_away()
        else:
            world.partition("a").go_offline("a reader found damage")
        world.syncer.open()
        await free
        world.append("b", 500)
        await world.flusher.commit()
        assert len(world.journal._segments) == 1
        assert not world.journal._is_pinned
        if not is_gone:
            assert world.partition("a").log.recovery_point == 8
            await world.crash(Keep.NONE)
            assert world.ends()[A] == 8

    run(work())


@pytest.mark.parametrize("how", ["offline", "gone"])
def test_a_partition_that_takes_nothing_more_does_not_hold_the_journal(small, how):
    """What it has committed is synced in its own files, up to where the journal has it."""

    async def work():
        world = await started()
        for _ in range(8):
            world.append("a", 500)
            await world.flusher.commit()
        if how == "gone":
            world.partition("a").go_away()
        else:
            world.partition("a").go_offline("a reader found damage")
        await world.free()
        world.append("b", 500)
        await world.flusher.commit()
        assert len(world.journal._segments) == 1
        assert not world.journal._is_pinned
        if how == "offline":
            await world.crash(Keep.NONE)
            assert world.ends()[A] == 8

    run(work())


def test_an_append_that_failed_is_not_part_of_what_is_kept(small):
    """Half of it is in the file: below it everything counts as synced, and the next start cuts it."""

    async def work():
        world = await started()
        for _ in range(8):
            world.append("a", 500)
            await world.flusher.commit()
        world.files.fail_at(1, Fault.DISK_FULL)
        with pytest.raises(StorageError):
            world.append("a", 500)
        assert world.partition("a").is_offline
        await world.free()
        assert not world.journal._is_pinned
        assert world.partition("a").log.recovery_point == 8
        await world.crash(Keep.ALL)
        assert world.ends()[A] == 8
        assert not world.partition("a").is_offline

    run(work())


def test_a_partition_whose_sync_failed_keeps_its_journal(small):
    async def work():
        world = await started()
        for _ in range(8):
            world.append("a", 500)
            await world.flusher.commit()
        world.partition("a").go_offline("names were lost", is_sync=True)
        await world.free()
        assert world.journal._is_pinned
        assert not world.journal.has_segment_to_free(world.journal.synced_sequence)
        world.append("c")
        await world.flusher.commit()  # an entry says from where on the journal is needed
        await world.crash(Keep.NONE)
        assert world.ends()[A] == 8

    run(work())


@pytest.mark.parametrize("why", ["damage", "no room"])
def test_a_failed_sync_of_one_that_is_offline_already_is_known_to_the_next_start(small, why):
    """What it dropped of the names (of a transaction index, for one) no later sync would put on the disk."""

    async def work():
        world = await started()
        world.append("a", 500)
        await world.flusher.commit()
        if why == "damage":
            world.partition("a").go_offline("a reader found damage")
        else:
            world.files.fail_at(1, Fault.DISK_FULL)
            with pytest.raises(StorageError):
                world.append("a", 500)
        directory = world.partition("a").log.directory
        assert not world.files.exists(f"{directory}/{MARKER}")
        world.files.fail_at(1, Fault.SYNC_ERROR)
        await world.flusher.sync_data()
        assert world.files.exists(f"{directory}/{MARKER}")
        assert world.journal._is_pinned
        await world.kill()
        await world.crash(Keep.NONE)
        assert world.ends()[A] == 1

    run(work())


@pytest.mark.parametrize("outcome", [False, StorageError("no room")])
def test_without_stored_recovery_points_nothing_is_freed(small, outcome):
    async def work():
        world = await started()

        async def store():
            if isinstance(outcome, StorageError):
                raise outcome
            return False

        world.flusher._store_recovery_points = store
        for _ in range(8):
            world.append("a", 500)
            await world.flusher.commit()
        await world.free()
        assert world.journal.has_segment_to_free(world.journal.synced_sequence)
        await world.crash(Keep.NONE)
        assert world.ends()[A] == 8

    run(work())


@pytest.mark.parametrize("at", ["references", "the journal's sync"])
def test_a_commit_that_the_stop_cuts_short_is_made_good_at_its_end(at):
    async def work():
        world = await started()
        world.append("a")
        if at != "references":
            await world.flusher.commit()
            world.append("a")
        world.syncer.is_open = False
        commit = asyncio.ensure_future(world.flusher.commit())
        await world.syncer.next(1)
        commit.cancel()
        await turns()
        assert commit.cancelled()
        world.append("b", waits=False)
        world.syncer.open()
        await world.flusher.end()
        assert world.partition("a").rules.high_watermark == world.partition("a").log_end_offset
        assert world.acknowledged[A] == world.partition("a").log_end_offset
        assert world.journal.pending_size_bytes == 0
        await world.crash(Keep.NONE)
        assert world.ends() == {A: len([e for e in world.history if e.name == A]), TopicPartition("b", 0): 1}

    run(work())


def test_what_the_system_wrote_on_its_own_is_cut_where_the_journal_ends():
    async def work():
        world = await started()
        world.append("a")
        await world.flusher.commit()
        world.append("a", waits=False)
        world.append("b", waits=False)
        await world.crash(Keep.ALL)
        assert world.ends() == {A: 1, TopicPartition("b", 0): 0}

    run(work())


def test_no_recovery_point_passes_what_a_cut_short_stop_kept_from_the_journal():
    """`b` is closed with all it has, `a` is not: what was appended to `a` before must not be lost alone."""

    async def work():
        world = await started()
        world.append("a")
        world.append("b")
        await world.flusher.commit()
        world.syncer.is_open = False
        sync = asyncio.ensure_future(world.flusher.sync_data())
        await world.syncer.next(1)
        world.append("a", waits=False)
        sync.cancel()
        await turns()
        world.syncer.open()
        await world.flusher.commit()
        world.append("a", waits=False)
        world.append("c", waits=False)
        await world.stop_now()
        world.files.crash(Keep.NONE)
        await world.start()
        world.check(is_cut=True)
        assert world.ends() == {A: 3, TopicPartition("b", 0): 1, TopicPartition("c", 0): 1}

    run(work())


def test_a_stop_leaves_exactly_kafka_s_files():
    async def work():
        world = await started()
        for topic in "abc":
            world.append(topic)
        await world.flusher.commit()
        world.append("a")
        await world.stop()
        names = world.files.list(DATA)
        assert not [name for name in names if name.startswith(FILE_PREFIX) or name == BEGUN_FILE]
        assert ".kafka_cleanshutdown" in names
        await world.start(has_journal=False)
        world.check(is_cut=False, is_whole=True)
        assert not [name for name in world.files.list(DATA) if name.startswith(FILE_PREFIX)]
        world.append("b")
        await world.flusher.sync_all()
        world.files.crash(Keep.NONE)
        await world.start(has_journal=True)
        world.check(is_cut=False)

    run(work())


def removed_journal(world: JournalWorld) -> None:
    for name in world.files.list(DATA):
        if name.startswith(FILE_PREFIX):
            world.files.remove(f"{DATA}/{name}")
    world.files.sync_directory(DATA)


def test_a_journal_that_is_gone_costs_nothing_while_the_system_runs_on(caplog):
    async def work():
        world = await started()
        world.append("a")
        await world.flusher.commit()
        removed_journal(world)
        await world.kill()
        assert world.ends()[A] == 1
        world.append("a")
        await world.flusher.commit()
        await world.crash(Keep.NONE)
        assert world.ends()[A] == 2, "what was recovered without it was synced, and there is one again"

    run(work())
    (said,) = [each.getMessage() for each in caplog.records if "missing" in each.getMessage()]
    assert said.startswith(f"the journal of {DATA} is missing: the system ran on since it was begun")


@pytest.mark.parametrize("has_journal", [True, False])
def test_a_journal_that_is_gone_stops_the_start_after_a_power_cut(has_journal):
    """What it held was acknowledged and may be in no log. Who has it no more says so by removing the mark."""

    async def work():
        world = await started()
        world.append("a")
        await world.flusher.commit()
        removed_journal(world)
        world.files.crash(Keep.NONE)
        for _ in range(2):
            with pytest.raises(MissingJournal, match="is missing"):
                await world.start(has_journal=has_journal)
        world.files.remove(f"{DATA}/{BEGUN_FILE}")
        await world.start(has_journal=has_journal)
        assert world.ends().get(A, 0) == 0

    run(work())


def test_without_a_journal_none_is_missed():
    """Neither at the first start, nor after one with `journal=off`, nor before it is begun."""

    async def work():
        world = await started(has_journal=False)
        world.files.crash(Keep.NONE)
        await world.start(has_journal=True)
        world.append("a")
        await world.flusher.commit()
        world.files.crash(Keep.NONE)
        await world.start(has_journal=False)
        assert not world.files.exists(f"{DATA}/{BEGUN_FILE}")
        world.append("a")
        await world.flusher.sync_all()
        world.files.crash(Keep.NONE)
        await world.start(has_journal=True)
        assert world.ends()[A] == 2

    run(work())


def test_a_stop_with_a_partition_offline_keeps_the_journal_for_the_next_start():
    async def work():
        world = await started()
        for topic in "abc":
            world.append(topic)
        await world.flusher.commit()
        world.partition("a").go_offline("its disk is gone")
        await world.stop()
        assert [name for name in world.files.list(DATA) if name.startswith(FILE_PREFIX)]
        world.files.crash(Keep.NONE)
        await world.start(has_journal=False)
        world.check(is_cut=True)
        assert world.ends()[A] == 1

    run(work())


def test_many_partitions_are_synced_before_more_is_committed(small, monkeypatch):
    """Each has a file open until its data are synced."""
    monkeypatch.setattr(journal_flusher, "UNSYNCED_PARTITIONS_MAX", 2)

    async def work():
        world = await started()
        task = asyncio.ensure_future(world.flusher.run())
        for topic in "abc":
            world.append(topic, waits=False)
        assert await world.partition("a").commit(1) is ErrorCode.NONE
        assert [each.log.recovery_point for each in world.partitions] == [1, 1, 1]
        task.cancel()

    run(work())


@pytest.mark.parametrize("why", ["bytes", "partitions", "segments"])
def test_the_task_asks_for_a_data_sync(small, monkeypatch, why):
    monkeypatch.setattr(journal_flusher, "DATA_SYNC_BYTES", 1000 if why == "bytes" else 1 << 30)
    monkeypatch.setattr(journal_flusher, "UNSYNCED_PARTITIONS_MAX", 2 if why == "partitions" else 100)
    monkeypatch.setattr(journal_flusher, "DATA_SYNC_INTERVAL_S", 3600)
    if why != "segments":
        monkeypatch.setattr("oncelog.log.journal.SEGMENT_SIZE_BYTES", 1 << 20)

    async def work():
        world = await started()
        tasks = [asyncio.ensure_future(world.flusher.run()), asyncio.ensure_future(world.flusher.run_leftovers())]
        await turns()
        topics = "ab" if why == "partitions" else "a" * 12
        for topic in topics:
            end_offset = world.append(topic, 500 if why != "partitions" else 1, waits=False)
            await world.partition(topic).commit(end_offset)
        await until(lambda: world.partition("a").log.recovery_point > 0)
        for task in tasks:
            task.cancel()

    run(work())


def test_what_nobody_waits_for_is_committed_and_synced_from_time_to_time(monkeypatch):
    monkeypatch.setattr(journal_flusher, "DATA_SYNC_INTERVAL_S", 0.001)

    async def work():
        world = await started()
        task = asyncio.ensure_future(world.flusher.run_leftovers())
        world.append("a", waits=False)
        await until(lambda: world.partition("a").log.recovery_point == 1)
        assert world.partition("a").rules.high_watermark == 1
        task.cancel()

    run(work())


def test_a_journal_that_is_nearly_full_makes_room_first(small):
    async def work():
        world = await started(journal_bytes_max=4 * 3000)
        task = asyncio.ensure_future(world.flusher.run())
        for _ in range(60):
            assert await world.partition("a").commit(world.append("a", 500, waits=False)) is ErrorCode.NONE
        assert world.journal.segment_count <= 5
        assert world.metrics.limit_hits("oncelog.journal.max.bytes") > 0
        task.cancel()
        await world.crash()

    run(work())


def test_nobody_is_answered_while_a_full_journal_makes_room(small, monkeypatch):
    """Who is answered sends more: with recovery points still being stored there was no room for it, and its log went offline."""
    monkeypatch.setattr("oncelog.log.journal.COPIED_BYTES_MAX", 3000)

    async def work():
        world = await started(journal_bytes_max=4 * 3000)
        store = world.flusher._store_recovery_points

        async def store_slowly():
            for _ in range(50):
                await asyncio.sleep(0)
            return await store()

        world.flusher._store_recovery_points = store_slowly
        tasks = [asyncio.ensure_future(each) for each in (world.flusher.run(),)]
        for number in range(150):
            assert (
                await world.partition("ab"[number % 2]).commit(world.append("ab"[number % 2], 2000, waits=False))
                is ErrorCode.NONE
            ), number
        assert world.metrics.limit_hits("oncelog.journal.max.bytes") > 0
        for task in tasks:
            task.cancel()
        await world.crash()

    run(work())


def test_a_roll_waits_for_nothing_that_the_journal_has(small):
    """Rolls, and the first batch of a segment, while entries are in the journal: each comes back to its own file."""

    async def work():
        world = await started()
        for number in range(20):
            world.append("ab"[number % 2], 500)
            await world.flusher.commit()
        assert len(world.partition("a").log.segments) > 2
        for keep in (Keep.NONE, Keep.RANDOM, Keep.ALL):
            await world.crash(keep)
            assert sum(world.ends().values()) == 20

    run(work())


def test_a_damaged_log_stays_offline_and_its_next_start_says_the_same(small):
    async def work():
        world = await with_damage(kept=3, journaled=1)
        for _ in range(3):
            world.files.crash(Keep.NONE)
            await world.start()
            assert world.partitions.is_offline(A)
            assert world.partitions._recovery_points_now()[A] == 3, "its indexes go no further"
            assert world.partitions._checkpoints.offline_ends == {A: 4}, "nothing of it may be cut"
            assert world.ends() == {TopicPartition("b", 0): 1}

    run(work())


async def with_damage(*, kept: int, journaled: int) -> JournalWorld:
    """Partition a: batches below its stored recovery point, one of which is damaged, and some that only the journal has."""
    world = await started()
    for _ in range(kept):
        world.append("a", 100, timestamp=1_000)
    world.append("b", 100)
    await world.flusher.commit()
    await world.free()
    world.partitions.checkpoint()
    for count in range(journaled):
        world.append("a", 100, timestamp=2_000 + count)
    await world.flusher.commit()
    world.files.flip_bit(LOG, 800)
    return world


LOG = f"{DATA}/a-0/{0:020d}.log"


@pytest.mark.parametrize("ends", ["cut cut", "cut kill", "kill cut", "kill kill"])
def test_a_damaged_log_that_is_repaired_has_all_and_knows_its_times(small, ends):
    """Its indexes are built from where they were good: retention takes a segment without times for an old one."""

    async def work():
        world = await with_damage(kept=3, journaled=5)
        for repairs, end in zip((True, False), ends.split(), strict=True):
            if end == "cut":
                world.files.crash(Keep.NONE)
            else:
                world.files.kill()
            await world.start()
            assert world.partitions.is_offline(A) is repairs
            if repairs:
                world.files.flip_bit(LOG, 800)
        log = world.partition("a").log
        assert log.log_end_offset == 8
        assert log.segments[-1].largest_timestamp == 2_004
        assert [log.offset_for_timestamp(at).offset for at in (1_000, 2_000, 2_003)] == [0, 3, 6]
        assert world.partitions._checkpoints.offline_ends == {}
        world.append("a", 100)
        await world.flusher.commit()
        await world.crash(Keep.NONE)

    run(work())


def test_what_lies_behind_the_end_of_a_damaged_log_is_cut_when_it_is_repaired(small):
    """The power went, and every log was cut where the journal ended: this one could not be. What lies there may depend on what
    others lost, also where the next end is a kill."""

    async def work():
        world = await with_damage(kept=3, journaled=1)
        world.append("a", 100)
        world.files.crash(Keep.ALL)
        await world.start()
        assert world.partitions.is_offline(A)
        world.files.flip_bit(LOG, 800)
        world.files.kill()
        await world.start()
        assert world.partition("a").log_end_offset == 4

    run(work())


def test_a_second_damage_above_the_indexes_of_a_damaged_log_cuts_nothing(small):
    async def work():
        world = await with_damage(kept=3, journaled=3)
        world.files.crash(Keep.NONE)
        await world.start()
        world.files.flip_bit(LOG, 800)
        size_bytes = world.files.size_of(LOG)
        world.files.flip_bit(LOG, 8 * (size_bytes - 20))
        for _ in range(2):
            world.files.crash(Keep.NONE)
            await world.start()
            assert world.partitions.is_offline(A)
            assert world.files.size_of(LOG) == size_bytes
        world.files.flip_bit(LOG, 8 * (size_bytes - 20))
        world.files.kill()
        await world.start()
        assert world.partition("a").log_end_offset == 6

    run(work())


@pytest.mark.parametrize("is_kill", [True, False], ids=["kill", "power cut"])
def test_damage_in_what_the_journal_only_names_cuts_nothing_and_is_missed_when_it_is_gone(small, is_kill):
    """A big batch is in no entry whole: its file was synced before. No checkpoint has a recovery point of it."""

    async def work():
        world = await started()
        world.append("a", 700)
        await world.flusher.commit()
        size_bytes = world.files.size_of(LOG)
        world.files.flip_bit(LOG, 800)
        for _ in range(2):
            if is_kill:
                world.files.kill()
            else:
                world.files.crash(Keep.ALL)
            await world.start()
            assert world.partitions.is_offline(A)
            assert world.files.size_of(LOG) == size_bytes
        for name in world.files.list(f"{DATA}/a-0"):
            world.files.remove(f"{DATA}/a-0/{name}")
        world.files.remove(f"{DATA}/a-0")
        world.files.kill()
        await world.start()
        assert "is missing, but it was synced up to 1" in world.partitions.damaged()[0]

    run(work())


def test_a_topic_made_again_has_nothing_of_a_damaged_one_of_its_name(small):
    async def work():
        world = await with_damage(kept=3, journaled=2)
        world.files.crash(Keep.NONE)
        await world.start()
        assert world.partitions.is_offline(A)
        world.partitions.remove(world.metadata.topics.pop("a"))
        world.make_topic("a", b"n" * 16)
        del world.acknowledged[A]
        world.history = [each for each in world.history if each.name != A]
        world.append("a", 100)
        await world.flusher.commit()
        await world.crash(Keep.NONE)
        assert world.partition("a").log_end_offset == 1

    run(work())


def test_what_belongs_to_a_damaged_log_is_durable(small):
    """Damage may heal. The journal that had it is gone then, and what was written of it is all that there is."""

    async def work():
        world = await with_damage(kept=3, journaled=1)
        world.partition("a").log.roll()
        world.append("a", 100)
        await world.flusher.commit()
        world.files.kill()
        names = world.files.list(f"{DATA}/a-0")
        assert any(world.files.read_synced(f"{DATA}/a-0/{name}") is None for name in names)
        await world.start()
        assert world.partitions.is_offline(A)
        assert world.partitions._checkpoints.offline_ends == {A: 5}
        for name in names:
            assert world.files.read_synced(f"{DATA}/a-0/{name}") == world.files.read_whole(f"{DATA}/a-0/{name}")

    run(work())


def test_a_topic_that_was_deleted_and_made_again_gets_nothing_of_the_old_one(small):
    async def work():
        world = await started()
        for _ in range(5):
            world.append("a", 300)
        await world.flusher.commit()
        old = world.metadata.topics.pop("a")
        world.partitions.remove(old)
        world.history.clear()
        world.acknowledged.clear()
        world.make_topic("a", b"new topic's id  ")
        world.append("a", 20)
        await world.flusher.commit()
        await world.crash(Keep.NONE)
        assert world.ends() == {A: 1}

    run(work())


def test_retention_and_deleted_records_are_not_put_back(small):
    async def work():
        world = await started()
        for _ in range(12):
            world.append("a", 500)
            await world.flusher.commit()
        await world.flusher.sync_data()
        partition = world.partition("a")
        world.partitions.log_starts.delete_records(partition, 12)
        await world.flusher.sync_data()
        first = partition.log.segments[0].base_offset
        assert first > 0
        for keep in (Keep.ALL, Keep.RANDOM, Keep.NONE):
            await world.crash(keep)
            assert world.partition("a").log.log_start_offset == 12

    run(work())


def test_each_start_has_a_generation_of_its_own(small):
    """What an earlier life left is removed before: `begin` over it would mix their entries."""

    async def work():
        world = await started()
        world.append("a")
        await world.flusher.commit()
        generation = world.journal._header.generation
        await world.kill()
        assert world.journal._header.generation != generation
        assert isinstance(world.journal, Journal)
        assert world.journal.written_sequence == 0

    run(work())
