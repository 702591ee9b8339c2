"""Steps of the log's own code, one after the other, in a process that is recorded: what no broker's life reaches.

`python -m evidence.syscalls.steps ROOT` is started by `direct.run`. After a step it says in the file `said` what must be
durable now: one line "tree PATH", "file PATH" or "gone PATH", below ROOT; "point PATH" names a snapshot that is to come.
What else a step has to do is asserted here.
"""

from __future__ import annotations

import os
import pathlib
import sys
from collections.abc import Callable
from typing import Any

from evidence.syscalls.recorder import fail_next_sync
from evidence.world.naive_log import NOW_MS, NaiveProducers, data_batch, marker_batch, only
from oncelog.errors import StorageError
from oncelog.host.files import RealFiles
from oncelog.log.aborted_checksums import ABORTED_CHECKSUMS, AbortedChecksumsFile, checksums_from_bytes
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    PARTITION_METADATA,
    RECOVERY_POINTS,
    create_partition_directory,
    partition_metadata_from_bytes,
    read_offsets,
    take_clean_shutdown,
    write_clean_shutdown,
    write_offsets,
)
from oncelog.log.config import LogConfig
from oncelog.log.failed_sync import MARKER
from oncelog.log.files import sync_all
from oncelog.log.journal import CLOSED_FILE, FILE_PREFIX, Journal, remove_journal
from oncelog.log.journal_reading import read_journal
from oncelog.log.journal_replay import LogPlace, PartitionKey, put_back
from oncelog.log.leader_epoch_file import FILE_NAME as LEADER_EPOCH_FILE
from oncelog.log.leader_epoch_file import LeaderEpochs
from oncelog.log.open_files import OpenFiles
from oncelog.log.partition_log import PartitionLog
from oncelog.log.producer_windows import PRODUCER_WINDOWS, ProducerWindowsFile, SnapshotKey, windows_from_bytes
from oncelog.log.recovery import RecoveryReport, recover
from oncelog.types import TopicPartition, WindowBatch

PARTITION = TopicPartition("t", 0)
TOPIC_ID = b"T" * 16
BYTES = 700
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)  # two batches of BYTES in a segment
CHECKS_OFTEN = LogConfig(segment_bytes=1_000_000, index_interval_bytes=200, recovery_bytes_max=1)


class Driven:
    """One partition in a data directory of its own."""

    def __init__(self, root: str, name: str, config: LogConfig = SMALL) -> None:
        self.root, self.data = root, f"{root}/{name}"
        self.files = RealFiles()
        self.files.make_directory(self.data)
        self.files.sync_directory(root)
        self.config = config
        self.directory = create_partition_directory(self.files, self.data, PARTITION, TOPIC_ID)
        self.producers = NaiveProducers()
        self.leader_epoch = 0
        self.log: PartitionLog

    def say(self, kind: str, path: str) -> None:
        """What a power cut would have to leave now."""
        with open(f"{self.root}/said", "ab", buffering=0) as file:
            file.write(f"{kind} {os.path.relpath(path, self.root)}\n".encode())

    def is_durable(self) -> None:
        """All of the partition, just as it is."""
        self.say("tree", self.directory)

    def open(self, **options: Any) -> RecoveryReport:
        """As a start does; a recovery point that is not given is 0."""
        self.producers = NaiveProducers()
        report = recover(self.files, self.directory, self.config, self.producers, **options)
        self.log = report.log
        return report

    def open_again(self, recovery_point: int, sync: bool) -> None:
        """And make it durable: the start itself, or its caller."""
        self.open(recovery_point=recovery_point, sync=sync)
        if not sync:
            self.sync_plainly()

    def append(self, count: int, *, leader_epoch: int | None = None, producer_id: int = -1) -> None:
        """Batches of one record; another leader epoch stays for those behind them."""
        self.leader_epoch = self.leader_epoch if leader_epoch is None else leader_epoch
        for _ in range(count):
            offset = self.log.log_end_offset
            options = {"producer_id": producer_id, "leader_epoch": self.leader_epoch}
            self._append(data_batch(offset, count=1, value_bytes=BYTES, **options))

    def abort(self, producer_id: int) -> None:
        """A transaction of one record, aborted."""
        self.append(1, producer_id=producer_id)
        offset = self.log.log_end_offset
        self._append(marker_batch(offset, producer_id, commit=False, leader_epoch=self.leader_epoch))

    def _append(self, data: bytes) -> None:
        batch = only(data)
        self.log.append(
            data,
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            max_timestamp=batch.max_timestamp,
            now_ms=NOW_MS,
            leader_epoch=batch.partition_leader_epoch,
        )
        entry = self.producers.replay(batch)
        if entry is not None:
            self.log.add_aborted(entry)

    def leave(self) -> int:
        """Killed: everything is written, and no sync follows; where the log ended."""
        self.log.close(clean=False)
        return self.log.log_end_offset

    def sync_plainly(self) -> None:
        """As the flusher does: no checkpoint, which would ask for more than is needed."""
        sync_all(self.log.files_to_sync())
        self.log.mark_synced(self.log.log_end_offset)

    def names(self, suffix: str) -> list[str]:
        """Files of the partition."""
        return [name for name in self.files.list(self.directory) if name.endswith(suffix)]

    def leader_epochs(self) -> list[tuple[int, int]]:
        """What their file says."""
        return LeaderEpochs.from_bytes(self.files.read_whole(f"{self.directory}/{LEADER_EPOCH_FILE}")).entries

    def cut_file(self, name: str, count: int) -> bytes:
        """Take the last bytes off a file, durably; what they were."""
        file = self.files.open(f"{self.directory}/{name}", False)
        size = file.size()
        data = file.read_at(size - count, count)
        file.truncate(size - count)
        file.sync()
        file.close()
        return data


def small_files(root: str) -> None:
    """Checkpoints, the directory of a partition, the mark of a clean end, duplicate windows, checksums of indexes."""
    driven = Driven(root, "small")
    files, data = driven.files, driven.data
    assert partition_metadata_from_bytes(files.read_whole(f"{driven.directory}/{PARTITION_METADATA}")) == TOPIC_ID
    driven.is_durable()
    write_offsets(files, data, RECOVERY_POINTS, {PARTITION: 7})
    assert read_offsets(files, data, RECOVERY_POINTS) == {PARTITION: 7}
    driven.say("file", f"{data}/{RECOVERY_POINTS}")
    assert not take_clean_shutdown(files, data)
    write_clean_shutdown(files, data)
    driven.say("file", f"{data}/{CLEAN_SHUTDOWN}")
    assert take_clean_shutdown(files, data)
    driven.say("gone", f"{data}/{CLEAN_SHUTDOWN}")
    found = {SnapshotKey(TOPIC_ID, 0, 9): {1: (0, (WindowBatch(0, 8, 0, NOW_MS),))}}
    ProducerWindowsFile(files, data).add(found)
    assert windows_from_bytes(files.read_whole(f"{data}/{PRODUCER_WINDOWS}")) == found
    driven.say("file", f"{data}/{PRODUCER_WINDOWS}")
    noted = {(TOPIC_ID, 0): {0: 7}}
    AbortedChecksumsFile(files, data).write(noted)
    assert checksums_from_bytes(files.read_whole(f"{data}/{ABORTED_CHECKSUMS}")) == noted
    driven.say("file", f"{data}/{ABORTED_CHECKSUMS}")


def living(root: str) -> None:
    """The first segment, plain syncs, rolls, checkpoints, names that came, segments that go, a clean end."""
    driven = Driven(root, "living")
    driven.open(sync=False)
    driven.is_durable()  # before anything is written: see `recovery._segments`
    log = driven.log
    driven.append(1)
    log.sync_now()
    driven.is_durable()
    driven.append(5, leader_epoch=1)  # rolls
    driven.abort(2)
    driven.append(3)
    log.sync_now()
    assert f"{log.segments[-1].base_offset:020d}.snapshot" in driven.names(".snapshot")
    driven.is_durable()
    driven.files.open(f"{driven.directory}/came").close()
    log.names_changed()
    log.sync_now()
    driven.is_durable()
    driven.append(1)
    log.sync_now(checkpoint=True)
    driven.is_durable()
    assert driven.leader_epochs() == [(0, 0), (1, 1)], driven.leader_epochs()
    log.recovery_point_stored(log.recovery_point)
    assert log.delete_records_before(4)
    log.sync_now()
    driven.is_durable()
    log.close()
    assert driven.leader_epochs() == [(1, 4)], driven.leader_epochs()
    driven.is_durable()


def checkpoints(root: str) -> None:
    """In the midst of one segment: by size, with aborted transactions; more leader epochs than fit into a sector."""
    driven = Driven(root, "checkpoints", CHECKS_OFTEN)
    driven.open()
    driven.abort(1)
    driven.log.sync_now()
    assert driven.log.recovery_point == driven.log.log_end_offset
    driven.is_durable()
    for leader_epoch in range(1, 100):
        driven.append(1, leader_epoch=leader_epoch)
    driven.log.sync_now()
    driven.is_durable()
    assert len(driven.leader_epochs()) == 100
    assert len(driven.names(".snapshot")) == 2
    driven.append(1, leader_epoch=100)
    driven.log.close()
    assert driven.log.is_at_rest
    assert driven.names(".snapshot")[-1] == f"{driven.log.log_end_offset:020d}.snapshot"
    driven.is_durable()


def killed(root: str) -> None:
    """Nothing was synced: a start makes all of it durable, whether it syncs itself or its caller does."""
    for name, sync in (("killed", True), ("killed aside", False)):
        driven = Driven(root, name.replace(" ", "_"))
        driven.open()
        driven.append(1)
        driven.log.sync_now(checkpoint=True)
        driven.append(2)
        driven.abort(1)
        driven.append(4)
        driven.leave()
        report = driven.open(sync=sync)
        assert report.replayed_batch_count == 9
        if not sync:
            driven.sync_plainly()
        driven.is_durable()


def torn(root: str) -> None:
    """The end of a segment is torn, and there are later ones; or a whole segment is missing behind what is known."""
    driven = Driven(root, "torn")
    driven.open()
    driven.append(7)
    driven.log.sync_now()
    driven.leave()
    lost = driven.cut_file(driven.names(".log")[1], 7)
    whole = driven.files.read_whole(f"{driven.directory}/{driven.names('.log')[2]}")
    report = driven.open()
    assert report.cut is not None
    kept = [driven.files.read_whole(f"{driven.directory}/{name}") for name in report.cut.side_files]
    assert len(kept[0]) > BYTES - len(lost)
    assert whole in kept
    driven.is_durable()
    driven = Driven(root, "missing")
    driven.open()
    driven.append(2)
    driven.log.sync_now(checkpoint=True)
    driven.append(5)
    driven.leave()
    for name in [*driven.names(".snapshot")[1:], *(each for each in driven.names("") if each[:20] == f"{2:020d}")]:
        if name != driven.names(".snapshot")[0]:
            driven.files.remove(f"{driven.directory}/{name}")
    report = driven.open(recovery_point=2, sync=False)
    assert report.cut is not None
    assert report.cut.side_files
    driven.sync_plainly()
    driven.is_durable()


def below_the_start(root: str) -> None:
    """Segments below the log start: removed by a start, before its replay; after it where that had to begin further down."""
    for name, is_broken in (("below", False), ("below_and_broken", True)):
        driven = Driven(root, name)
        driven.open()
        for count in (5, 1):
            driven.append(count)
            driven.log.sync_now(checkpoint=True)
        driven.log.recovery_point_stored(0)
        end_offset = driven.leave()
        if is_broken:
            for each in driven.names(".snapshot")[:-2]:
                driven.files.remove(f"{driven.directory}/{each}")
            driven.files.replace_whole(f"{driven.directory}/{4:020d}.txnindex", b"broken")
        report = driven.open(recovery_point=end_offset, log_start_offset=5)
        assert report.replayed_batch_count == (6 if is_broken else 0)
        assert driven.log.segments[0].base_offset == 4
        driven.is_durable()


def ahead(root: str) -> None:
    """A snapshot and an index of what was lost: they do not come back, whether the start syncs itself or its caller does."""
    for name, sync in (("ahead", True), ("ahead_aside", False)):
        driven = Driven(root, name)
        driven.open()
        driven.append(1)
        driven.log.sync_now(checkpoint=True)
        end_offset = driven.leave()
        stale = driven.files.read_whole(f"{driven.directory}/{end_offset:020d}.snapshot")
        driven.files.replace_whole(f"{driven.directory}/{99:020d}.snapshot", stale)
        driven.open_again(end_offset, sync)
        assert len(driven.names(".snapshot")) == 1
        driven.is_durable()
        driven.append(1)
        driven.log.roll()
        driven.log.sync_now(checkpoint=True)
        end_offset = driven.leave()
        index = f"{driven.directory}/{end_offset:020d}.index"
        driven.files.replace_whole(index, b"stale   ")
        driven.open_again(end_offset, sync)
        assert not driven.files.exists(index) or not driven.files.size_of(index)
        driven.is_durable()


def without_indexes(root: str) -> None:
    """All batches are durable, an index is not there: one that a start makes anew stays, though it has nothing else to sync."""
    driven = Driven(root, "without_indexes", CHECKS_OFTEN)
    driven.open()
    driven.abort(1)
    driven.append(2)
    driven.log.sync_now(checkpoint=True)
    end_offset = driven.leave()
    for name in [*driven.names("index"), *driven.names(".snapshot")]:
        if not name.endswith(".txnindex"):
            driven.files.remove(f"{driven.directory}/{name}")
    driven.files.replace_whole(f"{driven.directory}/{0:020d}.txnindex", b"broken")
    report = driven.open(recovery_point=end_offset, sync=False)
    assert report.replayed_batch_count == 4
    driven.sync_plainly()
    driven.is_durable()


def failing(root: str) -> None:
    """A sync fails while the log lives, and while it is opened: a mark is left, and the next start writes anew."""
    driven = Driven(root, "failing")
    driven.open()
    driven.append(3)
    driven.log.sync_now(checkpoint=True)
    driven.append(1)
    fail_sync_of(".log")
    try:
        driven.log.sync_now()
    except StorageError:
        pass
    else:
        raise AssertionError("this sync failed")
    assert driven.names(MARKER)
    driven.leave()
    driven.open()
    assert not driven.names(MARKER)
    assert driven.log.log_end_offset == 4
    driven.is_durable()
    driven.leave()
    driven.cut_file(driven.names(".log")[-1], 7)
    fail_sync_of(".torn.tmp")
    try:
        driven.open()
    except StorageError:
        pass
    else:
        raise AssertionError("this sync failed")
    assert driven.names(MARKER)
    driven.open()
    driven.is_durable()


def swapped(root: str) -> None:
    """A finished swap, whose last sync of names may have failed: what it replaces never comes back."""
    for name, is_failed in (("swapped", False), ("swap_forgotten", True)):
        driven = Driven(root, name)
        driven.open()
        driven.append(7)
        driven.log.close()
        files, directory = driven.files, driven.directory
        logs = driven.names(".log")[:2]
        joined = b"".join(files.read_whole(f"{directory}/{each}") for each in logs)
        files.replace_whole(f"{directory}/{logs[0]}.swap", joined)
        for each in [each for log in logs for each in driven.names("") if each.startswith(log[:20])]:
            if each.endswith((".log", "index")):
                files.rename(f"{directory}/{each}", f"{directory}/{each}.deleted")
        if is_failed:
            fail_sync_of(directory)
            try:
                files.sync_directory(directory)
            except StorageError:
                files.open(f"{directory}/{MARKER}").close()
        driven.open(recovery_point=driven.log.log_end_offset)
        assert len(driven.names(".log")) == 3, driven.names("")
        assert not driven.names(".deleted")
        driven.is_durable()


def many(root: str) -> None:
    """Files are closed to make room, and what is not synced stays open."""
    files = OpenFiles(RealFiles(), files_max=1)
    driven = Driven(root, "many")
    report = recover(files, driven.directory, SMALL, driven.producers)
    driven.log = report.log
    driven.append(9)
    driven.log.sync_now()
    driven.is_durable()


def behind_a_journal(root: str) -> None:
    """A snapshot, at a roll and at a clean end, where a journal's data sync had the recovery point already."""
    for name in ("rolled_behind", "closed_behind"):
        driven = Driven(root, name)
        driven.open()
        driven.append(1)
        driven.abort(1)
        end_offset = driven.log.log_end_offset
        sync_all(driven.log.files_to_sync(moves_to_end=True))
        driven.log.mark_synced(end_offset)
        assert driven.log.recovery_point == end_offset
        driven.say("point", f"{driven.directory}/{end_offset:020d}.snapshot")
        if name == "rolled_behind":
            driven.log.roll()
        driven.log.close()
        assert f"{end_offset:020d}.snapshot" in driven.names(".snapshot")
        driven.is_durable()


def journaled(root: str) -> None:
    """A journal's first segment; what it commits; put back into files that lack it; removed."""
    driven = Driven(root, "journaled")
    driven.open()
    files, data, directory = driven.files, driven.data, driven.directory
    journal = Journal(files, data, size_bytes_max=1 << 30)
    journal.begin(b"D" * 16, b"B" * 16, 1)
    segment = f"{data}/{FILE_PREFIX}0"
    driven.say("file", segment)
    for _ in range(5):
        driven.append(1)
        active = driven.log.segments[-1]
        count = active.end_offset - active.base_offset
        position = active.size_bytes - active.size_bytes // count  # (they are of one size)
        batch = files.read_whole(active.log_path)[position:]
        journal.add(
            TOPIC_ID, 0, segment_base_offset=active.base_offset, position=position, end_offset=active.end_offset, batch=batch
        )  # fmt: skip
    taken = journal.take()
    journal.write(taken)
    sync_all(taken.files)
    journal.synced(taken)
    driven.say("file", segment)
    driven.leave()
    journal.close()
    first, *later = driven.names(".log")
    driven.cut_file(first, 7)
    for name in later:
        files.remove(f"{directory}/{name}")
    files.sync_directory(directory)
    found = read_journal(files, data)
    assert found is not None
    ends: dict[PartitionKey, int] = {}
    for written in put_back(files, found, lambda _: LogPlace(directory, 0), ends):
        sync_all(written.files)
    assert ends == {(TOPIC_ID, 0): 5}
    assert driven.names(".log") == [first, *later]
    for name in (first, *later):
        driven.say("file", f"{directory}/{name}")
    driven.open()
    assert driven.log.log_end_offset == 5
    driven.is_durable()
    remove_journal(files, data)
    driven.say("gone", segment)
    driven.say("gone", f"{data}/{CLOSED_FILE}")


def fail_sync_of(part_of_path: str) -> None:
    """The next one of such a file."""
    fail_next_sync(pathlib.Path(os.environ["ONCELOG_SYSCALLS_TRACE"]), part_of_path)


STEPS: tuple[Callable[[str], None], ...] = (
    small_files, living, checkpoints, killed, torn, below_the_start, ahead, without_indexes, failing, swapped, many,
    behind_a_journal, journaled,
)  # fmt: skip

if __name__ == "__main__":
    for step in STEPS:
        step(sys.argv[1])
