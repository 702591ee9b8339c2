"""Promises of the disk: what must be durable before a name is given, taken away or believed.

Each rule is asked when a system call begins, of what a power cut at this moment would leave (`world.World`).
"""

from __future__ import annotations

from collections import Counter

from evidence.syscalls.journal import is_segment
from evidence.syscalls.logs import (
    FINAL_SUFFIXES,
    METADATA,
    Logs,
    base_offset_of,
    end_offset_of,
    is_whole_snapshot,
    partition_of,
    whole_batches,
)
from evidence.syscalls.recorder import BEGIN, END, Call
from evidence.syscalls.world import Node, World
from oncelog.errors import CorruptIndex
from oncelog.log.checkpoint_files import (
    CLEAN_SHUTDOWN,
    CLEANED_OFFSETS,
    LOG_START_OFFSETS,
    RECOVERY_POINTS,
    offsets_from_bytes,
)
from oncelog.log.failed_sync import MARKER
from oncelog.log.journal import CLOSED_FILE
from oncelog.log.leader_epoch_file import FILE_NAME as LEADER_EPOCH_FILE
from oncelog.log.transaction_index import ENTRY_SIZE_BYTES, aborted_from_bytes
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import RemoveTopicRecord, TopicRecord
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState, record_from_key_value

COMPLETED = {TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT}
SEGMENT_SUFFIXES = (".log", ".index", ".timeindex", ".txnindex")
PASSING_SUFFIXES = (".deleted", ".cleaned", ".tmp", ".aside", ".swap")


def _is_durable_below(node: Node, offset: int) -> bool:
    """Whether a transaction index lost nothing of the transactions that ended below an offset. An abort adds its entry at once,
    and a start that replays from the offset on adds it again."""
    entries = aborted_from_bytes(bytes(node.data), 0)
    size_bytes = ENTRY_SIZE_BYTES * sum(entry.last_offset < offset for entry in entries)
    return node.durable_data[:size_bytes] == bytes(node.data[:size_bytes])


class Rules:
    """Show it every call before the world takes it over."""

    def __init__(self, world: World, logs: Logs) -> None:
        self._world = world
        self._logs = logs
        self.problems: list[str] = []
        self.judged: Counter[str] = Counter()
        self._call: Call
        self._has_answered = False

    def process_begins(self, *, is_clean: bool, has_journal: bool) -> None:
        """Another broker on the same directory, with a journal of its own or without."""
        self._has_answered = False
        self._is_clean = is_clean
        self._has_journal = has_journal
        self._put_aside: set[str] = set()  # what a timer has replaced
        self._cleaned: set[TopicPartition] = set()  # whose segments the cleaner's timer replaces

    def before(self, call: Call) -> None:
        """Ask the rules for what begins here (for a write: what was done)."""
        self._call = call
        below = self._below(call)
        if below is None:
            return
        if call.phase == BEGIN and call.name == "rename":
            self._renames(below, self._world.paths(call)[1].removeprefix(f"{self._logs.directory}/"))
        elif call.phase == BEGIN and call.name == "unlink":
            self._unlinks(below)
        elif call.phase == END and call.name == "write":
            self._writes(below, call)
        elif call.phase == BEGIN and call.name == "sync":
            self._syncs(below)

    def _below(self, call: Call) -> str | None:
        if call.name not in ("rename", "unlink", "write", "sync"):
            return None
        path, prefix = self._world.paths(call)[0], f"{self._logs.directory}/"
        return path.removeprefix(prefix) if path.startswith(prefix) else None

    def must(self, is_so: bool, rule: str, what: object = "") -> None:
        """Note whether a rule holds."""
        self.judged[rule] += 1
        if not is_so:
            self.problems.append(f"{self._call}: {rule}: {what}")

    # names

    def _renames(self, old: str, new: str) -> None:
        node, (folder, _, name) = self._world.find(self._logs.path(old)), new.rpartition("/")
        old_name = old.rpartition("/")[2]
        parent = self._world.find(self._logs.path(folder) if folder else self._logs.directory)
        if node is None or parent is None:
            return
        if node.is_directory:
            self._renames_directory(node, old, new)
            return
        if not name.endswith((".deleted", ".torn")) and not old_name.endswith(".deleted"):
            self.must(node.is_durable, "a file is synced before it gets its name", new)
        partition = partition_of(folder)
        if old_name.endswith(".aside"):
            self._put_aside.add(new)
        if new == RECOVERY_POINTS:
            self._stores_recovery_points(bytes(node.data))
        elif new == CLEAN_SHUTDOWN:
            self._ends_clean()
        elif partition is not None and name.endswith(".swap"):
            self._announces(partition, parent, old_name, node)
        elif partition is not None and old_name.endswith(".swap"):
            self._finishes(parent, node, base_offset_of(name))
        elif partition is not None and name.endswith(".log.deleted"):
            self._gives_up(partition, parent, node, base_offset_of(name))

    def _renames_directory(self, node: Node, old: str, new: str) -> None:
        if new.endswith("-delete"):
            ids = {
                each.topic_id.hex() for each in self._logs.metadata(durable=True) if isinstance(each, RemoveTopicRecord)
            }
            self.must(
                new.split(".")[-1].removesuffix("-delete") in ids, "a topic is durably deleted before its files", new
            )

    # a cleaned segment takes its place

    def _announces(self, partition: TopicPartition, parent: Node, old_name: str, node: Node) -> None:
        self._cleaned.add(partition)
        self.must(
            parent.durable_names.get(old_name) is node,
            "cleaned files have durable names before they are announced",
            old_name,
        )
        end_offset = end_offset_of(whole_batches(bytes(node.data))) if ".log." in old_name else -1
        stored = self._logs.checkpoint(RECOVERY_POINTS).get(partition, 0)
        self.must(
            end_offset <= stored, "cleaning stays below the stored recovery point", (partition, end_offset, stored)
        )
        self.must(
            partition in self._logs.checkpoint(CLEANED_OFFSETS),
            "a log's first cleaning is noted before it has gaps",
            partition,
        )

    def _span_of(self, node: Node, base_offset: int) -> range:
        return range(base_offset, max(end_offset_of(whole_batches(bytes(node.data))), base_offset + 1))

    def _swaps(self, parent: Node, *, durable: bool = False) -> list[range]:
        names = parent.durable_names if durable else parent.names
        return [self._span_of(node, base_offset_of(name)) for name, node in names.items() if name.endswith(".log.swap")]

    def _is_announced(self, parent: Node, base_offset: int) -> bool:
        has_cleaned = any(
            name.endswith(".cleaned") and base_offset_of(name) <= base_offset for name in parent.durable_names
        )
        return not has_cleaned and any(base_offset in span for span in self._swaps(parent, durable=True))

    def _finishes(self, parent: Node, node: Node, base_offset: int) -> None:
        logs = {f"{base_offset:020d}.log.swap": node} | parent.names
        span = self._span_of(logs[f"{base_offset:020d}.log.swap"], base_offset) if node is not None else range(0)
        between = [
            name
            for name in parent.durable_names
            if name.endswith((".log", ".txnindex")) and base_offset_of(name) in span[1:]
        ]
        self.must(not between, "what a cleaned segment replaces is durably gone before it gets its name", between)

    # segments and snapshots that are given up

    def _gives_up(self, partition: TopicPartition, parent: Node, node: Node, base_offset: int) -> None:
        if any(base_offset in span for span in self._swaps(parent)):
            self.must(
                self._is_announced(parent, base_offset),
                "a segment is replaced when its successor is durably announced",
                base_offset,
            )
        elif partition.topic == METADATA:
            self._gives_up_metadata(parent, base_offset)
        else:
            start = self._logs.checkpoint(LOG_START_OFFSETS).get(partition, 0)
            end_offset = end_offset_of(whole_batches(bytes(node.data)))
            self.must(
                end_offset <= start, "a log start is durable before a segment goes", (partition, end_offset, start)
            )

    def _gives_up_metadata(self, parent: Node, base_offset: int) -> None:
        logs = {base_offset_of(name): node for name, node in parent.durable_names.items() if name.endswith(".log")}
        older = [each for each in logs if each < base_offset]
        self.must(not older, "segments of the metadata go one by one, the oldest first", (base_offset, older))
        newest = self._logs.batches_of(logs[max(logs)], durable=True)
        topics = {each.topic_id for each in self._metadata_of(newest)}
        gone = {each.topic_id for each in self._logs.metadata(durable=False) if isinstance(each, RemoveTopicRecord)}
        seen = {each.topic_id for each in self._logs.metadata(durable=False) if isinstance(each, TopicRecord)}
        self.must(
            seen - gone <= topics and max(logs) > base_offset,
            "what holds is durable before older metadata goes",
            base_offset,
        )

    @staticmethod
    def _metadata_of(found: list) -> list[TopicRecord]:
        from oncelog.wire.log_records.cluster_metadata import record_from_value

        records = (record_from_value(record.value) for batch in found for record in batch.records())
        return [each for each in records if isinstance(each, TopicRecord)]

    def _unlinks(self, path: str) -> None:
        folder, _, name = path.rpartition("/")
        node, parent = (
            self._world.find(self._logs.path(path)),
            self._world.find(self._logs.path(folder) if folder else self._logs.directory),
        )
        if node is None or parent is None:
            return
        if folder.endswith("-delete") or name.endswith("-delete"):
            top = self._world.find(self._logs.directory, durable=True)
            other = [
                each for each, found in top.durable_names.items() if found is parent and not each.endswith("-delete")
            ]
            self.must(
                not other or not self._has_answered,
                "a deleted topic's directory durably has its new name before it is emptied",
                other,
            )
            return
        partition = partition_of(folder)
        if not folder and name == MARKER:
            for directory in self._expected_to_fail().values():
                self._forgets_failed_sync(directory)
        if partition is None:
            return
        base_offset = base_offset_of(name)
        if name.endswith(".log.deleted"):
            self._removes_replaced(partition, parent, node, name.removesuffix(".deleted"))
        elif name.endswith(".log"):
            self._removes_log(partition, parent, node, base_offset)
        elif name.endswith(".snapshot"):
            self._removes_snapshot(partition, parent, base_offset)
        elif name.endswith(".cleaned"):
            swaps = [
                each for each in parent.durable_names if each.endswith(".swap") and base_offset_of(each) >= base_offset
            ]
            self.must(not swaps, "what was announced in part durably goes before what is not announced yet", swaps)
        elif name == MARKER:
            self._forgets_failed_sync(parent)

    def _removes_replaced(self, partition: TopicPartition, parent: Node, node: Node, old_name: str) -> None:
        start = self._logs.checkpoint(LOG_START_OFFSETS).get(partition, 0)
        end_offset = end_offset_of(whole_batches(bytes(node.data)))
        is_below = end_offset <= start or partition.topic == METADATA
        self.must(
            is_below or parent.durable_names.get(old_name) is not node,
            "a replaced segment durably has its new name before it is removed",
            (partition, old_name),
        )

    def _removes_log(self, partition: TopicPartition, parent: Node, node: Node, base_offset: int) -> None:
        start = self._logs.checkpoint(LOG_START_OFFSETS).get(partition, 0)
        found = whole_batches(bytes(node.data))
        is_free = not found or found[-1].end_offset <= start
        self.must(
            is_free or self._is_announced(parent, base_offset), "a segment is removed for a durable reason", base_offset
        )

    def _removes_snapshot(self, partition: TopicPartition, parent: Node, base_offset: int) -> None:
        stored = self._logs.checkpoint(RECOVERY_POINTS).get(partition, 0)
        if partition.topic == METADATA or base_offset > end_offset_of(
            list(self._logs.batches(partition, durable=False))
        ):
            return
        newer = [
            each
            for name, node in parent.durable_names.items()
            if name.endswith(".snapshot")
            and base_offset < (each := base_offset_of(name)) <= stored
            and is_whole_snapshot(node.durable_data)
        ]
        self.must(
            len(newer) > 1,
            "two newer snapshots are durable and of use before one goes",
            (partition, base_offset, stored),
        )

    def _forgets_failed_sync(self, parent: Node) -> None:
        self.must(
            not self._undurable(parent), "the mark of a failed sync stays until all is durable", self._undurable(parent)
        )

    def _expected_to_fail(self) -> dict[str, Node]:
        """The directories that a start lists as being synced together."""
        top = self._world.find(self._logs.directory)
        node = None if top is None else top.names.get(MARKER)
        names = [] if node is None else bytes(node.data).decode().splitlines()
        return {name: top.names[name] for name in names if name in top.names}

    def _undurable(self, directory: Node, log_start_offset: int = 0) -> list[str]:
        """Files of the directory that a power cut would take something of, or bring back, but for segments that were removed
        below a stored log start: whoever finds them there removes them again."""
        missing = [
            name
            for name, node in directory.names.items()
            if not name.endswith(PASSING_SUFFIXES)
            and name != MARKER
            and (directory.durable_names.get(name) is not node or not node.is_durable)
        ]
        # (a snapshot that comes back is one that a start may use)
        return missing + [
            name
            for name in directory.durable_names
            if name.endswith(SEGMENT_SUFFIXES)
            and name not in directory.names
            and (base_offset_of(name) or 0) >= log_start_offset
        ]

    # writing

    def _writes(self, path: str, call: Call) -> None:
        folder, _, name = path.rpartition("/")
        partition = partition_of(folder)
        if partition is not None and name.endswith(".snapshot") and partition.topic != METADATA:
            directory = self._world.find(self._logs.path(folder))
            stored = self._logs.checkpoint(RECOVERY_POINTS).get(partition, 0)
            if directory is not None and self._has_answered and stored == base_offset_of(name):
                self._snapshot_can_be_believed(directory, stored)
        if partition is None or not name.endswith(".log"):
            return
        mark = self._world.find(self._logs.path(CLEAN_SHUTDOWN), durable=True)
        self.must(mark is None, "the mark of a clean end is durably gone before a log is written", path)
        if partition.topic == "__transaction_state":
            for batch in whole_batches(call.data):
                for each in batch.records():
                    record = record_from_key_value(each.key, each.value)
                    if isinstance(record, TransactionRecord) and record.state in COMPLETED:
                        self._completes(record)

    def _completes(self, record: TransactionRecord) -> None:
        """Its markers are durable: this record is not waited for, and could be the first on the disk."""
        before = self._logs.transactions(durable=False).get(record.transactional_id)
        ids = {record.producer_id, record.previous_producer_id, *((before.producer_id,) if before else ())}
        for partition in before.partitions if before is not None else ():
            seen = [each for each in self._logs.batches(partition, durable=False) if each.producer_id in ids]
            durable = [each for each in self._logs.batches(partition, durable=True) if each.producer_id in ids]
            if seen:
                self.must(
                    bool(durable) and durable[-1].base_offset == seen[-1].base_offset and durable[-1].is_control,
                    "markers are durable before Complete is written",
                    (record.transactional_id, partition),
                )

    def _syncs(self, path: str) -> None:
        """A start marks a directory before it makes durable what a crash may have left there."""
        folder = path if partition_of(path) else path.rpartition("/")[0]
        partition = partition_of(folder)
        if self._has_answered or partition is None or partition.topic == METADATA or self._is_clean:
            return
        directory = self._world.find(self._logs.path(folder))
        is_of_log = path != folder and path.endswith(FINAL_SUFFIXES)
        if path.endswith(".log") and self._logs.journal.names(durable=True).keys() - {CLOSED_FILE}:
            return  # the journal is put back: it stays until all is durable, and recovery writes again what it lacks
        if is_of_log and directory is not None and any(name.endswith(".log") for name in directory.names):
            is_marked = MARKER in directory.names or folder in self._expected_to_fail()
            self.must(is_marked, "a start marks its sync before it tries", path)

    # moments

    def answers(self, call: Call) -> None:
        """A reply begins; with the first one of a process everything that it found is durable."""
        self._call = call
        if self._has_answered:
            return
        self._has_answered = True
        top = self._world.find(self._logs.directory)
        assert top is not None
        for name in top.names:
            # (the journal has rules of its own, and a timer need not wait for the first answer)
            is_passing = name.endswith(PASSING_SUFFIXES) or is_segment(name) or name in self._put_aside
            if partition_of(name) is not None or not is_passing:
                node = top.names[name]
                is_there = top.durable_names.get(name) is node and (node.is_directory or node.is_durable)
                self.must(is_there or name == ".lock", "what a broker found is durable before it answers", name)
        unnamed = [name for name in top.durable_names if partition_of(name) and name not in top.names]
        self.must(not unnamed, "strange directories durably have other names before it answers", unnamed)
        path = self._world.find("")
        for part in self._logs.directory.split("/"):
            assert path is not None
            self.must(part in path.durable_names, "the data directory and its parents are durable", part)
            path = path.names[part]
        stored, starts = self._logs.checkpoint(RECOVERY_POINTS), self._logs.checkpoint(LOG_START_OFFSETS)
        for partition, directory in self._logs.partitions().items():
            # (what the cleaner replaces meanwhile has rules of its own)
            undurable = [] if partition in self._cleaned else self._undurable(directory, starts.get(partition, 0))
            self.must(not undurable, "what was recovered is durable before it is served", (partition, undurable))
            end_offset = end_offset_of(list(self._logs.batches(partition, durable=False)))
            if partition.topic != METADATA and end_offset >= 0:
                self.must(
                    stored.get(partition, 0) == end_offset,
                    "how far a start got is stored",
                    (partition, stored.get(partition), end_offset),
                )

    def answers_after_failure(self, call: Call, path: str) -> None:
        """The directory is marked before anybody hears of it. With a journal the answers come from that, and need not wait for
        the mark of a data file."""
        self._call = call
        folder = path.rpartition("/")[0]
        if folder == self._logs.directory or self._has_journal:
            return
        directory = self._world.find(folder)
        self.must(
            directory is not None and MARKER in directory.names,
            "a failed sync leaves its mark before the answer",
            folder,
        )

    def _stores_recovery_points(self, data: bytes) -> None:
        try:
            offsets = offsets_from_bytes(data)
        except CorruptIndex as error:
            self.must(False, "a checkpoint is whole before it gets its name", error)
            return
        for partition, offset in offsets.items():
            directory = self._logs.partitions().get(partition)
            if directory is not None and offset > 0:
                self._is_recovered_to(partition, directory, offset)

    def _is_recovered_to(self, partition: TopicPartition, directory: Node, offset: int) -> None:
        logs = sorted((base_offset_of(name), name) for name in directory.names if name.endswith(".log"))
        for index, (base_offset, name) in enumerate(logs):
            node = directory.names[name]
            if base_offset >= offset:
                continue
            is_named = directory.durable_names.get(name) is node or self._is_swapped(directory, name, node)
            size_bytes = sum(
                batch.size_bytes for batch in whole_batches(bytes(node.data)) if batch.last_offset < offset
            )
            is_there = is_named and bytes(node.data[:size_bytes]) == node.durable_data[:size_bytes]
            self.must(is_there, "nothing below a recovery point can be lost", (partition, name, offset))
            if index + 1 < len(logs) and logs[index + 1][0] <= offset:
                for suffix in (".index", ".timeindex", ".txnindex"):
                    self._index_is_durable(directory, f"{base_offset:020d}{suffix}", offset)
        if partition.topic == METADATA:
            return  # it is read from its beginning, whatever is noted: no snapshot of producers belongs to it
        own = directory.durable_names.get(f"{offset:020d}.snapshot")
        is_there = own is not None and is_whole_snapshot(own.durable_data)
        if not self._has_journal:  # (a journal's data sync moves it to the log's end without one)
            self.must(is_there, "a recovery point has its snapshot", (partition, offset))
        self._snapshot_can_be_believed(directory, offset)
        snapshots = [base_offset_of(name) for name in directory.names if name.endswith(".snapshot")]
        # (a roll may write one where a journal's data sync had the recovery point already: until it is synced the one before it
        # serves, as the two that are kept and those that segments are removed for are others)
        newest = max((each for each in snapshots if each < offset + (not self._has_journal)), default=-1)
        if newest >= 0:
            name = f"{newest:020d}.snapshot"
            node = directory.names[name]
            is_there = directory.durable_names.get(name) is node and node.is_durable
            self.must(is_there, "the snapshot of a recovery point is durable", (partition, name, offset))

    def _snapshot_can_be_believed(self, directory: Node, offset: int) -> None:
        """A start that finds a snapshot at the recovery point replays nothing: it would not rebuild an index."""
        if f"{offset:020d}.snapshot" not in directory.names:
            return
        bases = [base_offset_of(name) for name in directory.names if name.endswith(".log")]
        base_offset = max((each for each in bases if each < offset), default=-1)
        for suffix in (".index", ".timeindex", ".txnindex"):
            node = directory.names.get(f"{base_offset:020d}{suffix}")
            if node is not None:
                is_named = directory.durable_names.get(f"{base_offset:020d}{suffix}") is node
                is_there = is_named and (node.is_durable or (suffix == ".txnindex" and _is_durable_below(node, offset)))
                what = (base_offset, suffix, offset)
                self.must(is_there, "indexes are durable before a snapshot at the recovery point is", what)

    @staticmethod
    def _is_swapped(directory: Node, name: str, node: Node) -> bool:
        return directory.durable_names.get(f"{name}.swap") is node

    def _index_is_durable(self, directory: Node, name: str, offset: int) -> None:
        node = directory.names.get(name)
        if node is not None:
            is_named = directory.durable_names.get(name) is node or self._is_swapped(directory, name, node)
            self.must(is_named and node.is_durable, "indexes below a recovery point are durable", (name, offset))

    def _ends_clean(self) -> None:
        """Everything is durable when the mark gets its name."""
        top = self._world.find(self._logs.directory)
        assert top is not None
        for name, node in top.names.items():
            if not node.is_directory and not name.endswith(PASSING_SUFFIXES) and name != ".lock":
                is_there = top.durable_names.get(name) is node and node.is_durable
                self.must(is_there, "checkpoints are durable before the mark of a clean end", name)
        for partition, directory in self._logs.partitions().items():
            found = self._undurable(directory)
            self.must(not found, "everything is durable before the mark of a clean end", (partition, found))
            end_offset = end_offset_of(list(self._logs.data_batches(partition, durable=True)))
            if end_offset >= 0:
                leader_epochs = directory.durable_names.get(LEADER_EPOCH_FILE)
                self.must(leader_epochs is not None, "a clean end leaves its leader epochs", partition)
                name = f"{end_offset:020d}.snapshot"
                node = directory.durable_names.get(name)
                self.must(
                    node is not None and is_whole_snapshot(node.durable_data),
                    "a clean end leaves its snapshot",
                    (partition, name),
                )

    def ended(self, *, is_clean: bool) -> None:
        """The process is gone; after a clean end its mark is durable."""
        mark = self._world.find(self._logs.path(CLEAN_SHUTDOWN))
        durable = self._world.find(self._logs.path(CLEAN_SHUTDOWN), durable=True)
        self.must((mark is not None) == is_clean, "the mark says how the process ended", is_clean)
        self.must(mark is durable, "the mark of a clean end is durable", is_clean)
