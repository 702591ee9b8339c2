"""The world of the partition's transcripts: one leader, its log in memory, a coordinator that agrees unless told else.

Commands (a producer is written producer id/epoch; sequences as FIRST or FIRST+COUNT):
  produce ID/EPOCH SEQUENCE [v=12] [tid=pay] [timestamp=MS] [plain]   plain: outside of a transaction
  ask NAME ID/EPOCH SEQUENCE [v=12] [tid=pay]      what the coordinator is asked; the batch waits for its answer
  agreed NAME                                      the coordinator agreed: the waiting batch is judged again
  marker ID/EPOCH commit|abort [tv=2] [coordinator=0] [start=OFFSET]
  hold | sync [OFFSET]                             append without syncing; sync (up to an offset, exclusive)
  fetch FROM TO [uncommitted] | view [FROM]        a reader that gets [FROM, TO) of the log; all that may be seen
  log | index | offsets | producers | open | late
  delete OFFSET | clock +MS | expire | restart
`python -m tests.scenarios.partition_world --rewrite [FILE ...]` writes the present answers.
"""

from __future__ import annotations

import pathlib
import sys

from evidence.world.partition_leader import NEW_PROTOCOL, Leader, data_batch

from oncelog.core.leader.delete_records import DeleteTo, check_delete_records
from oncelog.core.leader.guards import Guard
from oncelog.core.leader.partition import IsolationLevel, Partition, PartitionConfig
from oncelog.core.leader.verdict import Append, AskCoordinator, Duplicate, Refuse
from oncelog.types import AbortedTransaction
from oncelog.wire.record_batch import RecordBatch
from tests.core.consumer.visible_batches import visible_batches
from tests.scenarios import scenario

TRANSCRIPTS = pathlib.Path(__file__).parent / "partition"
Verdict = Append | Duplicate | AskCoordinator | Refuse


def parsed_producer(text: str) -> tuple[int, int]:
    producer_id, _, producer_epoch = text.partition("/")
    return int(producer_id), int(producer_epoch or 0)


def parsed_sequence(text: str) -> tuple[int, int]:
    first, _, count = text.partition("+")
    return int(first), int(count or 1)


class PartitionWorld:
    """Does what the broker's shell does, one command at a time."""

    def __init__(self) -> None:
        self.leader = Leader(PartitionConfig())
        self.now_ms = 0
        self.holding = False
        self.waiting: dict[str, tuple[RecordBatch, Guard, int, str]] = {}

    @property
    def partition(self) -> Partition:
        return self.leader.partition

    def handle(self, words: list[str]) -> str:
        """Perform one command; what it answers."""
        command = getattr(self, f"do_{words[0]}")
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        return "\n".join(command(*(word for word in words[1:] if "=" not in word), **options))

    # -- appending

    def do_produce(
        self, producer: str, sequence: str, *flags: str, v: str = "12", tid: str = "pay", timestamp: str = "0"
    ) -> list[str]:
        batch = self._batch(producer, sequence, transactional="plain" not in flags, timestamp=int(timestamp))
        guard = None
        verdict = self._check(batch, int(v), tid, guard)
        if isinstance(verdict, AskCoordinator):
            guard = verdict.guard
            verdict = self._check(batch, int(v), tid, guard)
        return self._perform(batch, verdict, guard)

    def do_ask(self, name: str, producer: str, sequence: str, *, v: str = "12", tid: str = "pay") -> list[str]:
        batch = self._batch(producer, sequence, transactional=True, timestamp=0)
        verdict = self._check(batch, int(v), tid, None)
        if not isinstance(verdict, AskCoordinator):
            return self._perform(batch, verdict, None)
        self.waiting[name] = (batch, verdict.guard, int(v), tid)
        wish = "add" if verdict.add else "verify"
        return [f"ask {verdict.transactional_id} {verdict.producer_id}/{verdict.producer_epoch} {wish}"]

    def do_agreed(self, name: str) -> list[str]:
        asked, guard, version, transactional_id = self.waiting.pop(name)
        batch = data_batch(
            asked.producer_id,
            asked.producer_epoch,
            asked.base_sequence,
            asked.record_count,
            base_offset=self.partition.log_end_offset,
            timestamp=asked.max_timestamp,
        )
        return self._perform(batch, self._check(batch, version, transactional_id, guard), guard)

    def do_marker(
        self, producer: str, outcome: str, *, tv: str = "2", coordinator: str = "0", start: str | None = None
    ) -> list[str]:
        verdict = self.leader.marker(
            *parsed_producer(producer),
            commit={"commit": True, "abort": False}[outcome],
            transaction_version=int(tv),
            coordinator_epoch=int(coordinator),
            start_offset=None if start is None else int(start),
            now_ms=self.now_ms,
            sync=not self.holding,
        )
        if isinstance(verdict, Refuse):
            return [_told(verdict)]
        return [f"appended {outcome.upper()} at {self.partition.log_end_offset - 1}"]

    def do_hold(self) -> list[str]:
        self.holding = True
        return []

    def do_sync(self, end_offset: str | None = None) -> list[str]:
        self.partition.synced(self.partition.log_end_offset if end_offset is None else int(end_offset))
        return self.do_offsets()

    # -- reading

    def do_fetch(self, first: str, end: str, *flags: str) -> list[str]:
        isolation_level = IsolationLevel.READ_UNCOMMITTED if flags else IsolationLevel.READ_COMMITTED
        readable = self.partition.check_fetch(int(first), isolation_level)
        if isinstance(readable, Refuse):
            return [_told(readable)]
        end_offset = min(int(end), readable.end_offset)
        fetched = [batch for batch in self.leader.batches if int(first) <= batch.last_offset < end_offset]
        if flags:
            return ["aborted none asked", "seen " + _offsets(visible_batches(fetched, None))]
        aborted = aborted_between(self.leader.aborted, int(first), end_offset)
        named = [f"P{entry.producer_id} from {entry.first_offset}" for entry in aborted]
        return ["aborted " + (", ".join(named) or "-"), "seen " + _offsets(visible_batches(fetched, aborted))]

    def do_view(self, first: str | None = None) -> list[str]:
        start = self.partition.log_start_offset if first is None else int(first)
        return self.do_fetch(str(start), str(self.partition.log_end_offset))

    # -- looking in

    def do_log(self) -> list[str]:
        """As the seed prints it: one column per offset."""
        columns = []
        for batch in self.leader.batches:
            marker = batch.end_txn_marker()
            status = "" if marker is None else "C" if marker.commit else "A"
            name = "-" if batch.producer_id < 0 else f"P{batch.producer_id}"
            columns += [(str(offset), name, status) for offset in range(batch.base_offset, batch.end_offset)]
        return _rows(["Offset", "PID", "Status"], columns)

    def do_index(self) -> list[str]:
        """The transaction index; the seed's last stable offset is inclusive, Kafka's is one more."""
        columns = [
            (
                f"P{each.producer_id}",
                str(each.first_offset),
                str(each.last_offset),
                str(each.last_stable_offset - 1),
                str(each.last_stable_offset),
            )
            for each in self.leader.aborted
        ]
        return _rows(["PID", "FirstOffset", "LastOffset", "LSO (seed)", "LSO (Kafka)"], columns)

    def do_offsets(self) -> list[str]:
        partition = self.partition
        text = f"start {partition.log_start_offset} stable {partition.last_stable_offset} "
        return [text + f"watermark {partition.high_watermark} end {partition.log_end_offset}"]

    def do_producers(self) -> list[str]:
        return [
            f"P{row.producer_id} epoch {row.producer_epoch} sequence {row.last_sequence} timestamp {row.last_timestamp} "
            f"coordinator {row.coordinator_epoch} open {row.current_txn_start_offset}"
            for row in self.partition.describe_producers()
        ]

    def do_open(self) -> list[str]:
        return [
            f"P{each.producer_id}/{each.producer_epoch} from {each.first_offset} {each.transactional_id or 'unknown'}"
            for each in self.partition.open_transactions()
        ]

    def do_late(self) -> list[str]:
        late = self.partition.late_transactions(self.now_ms)
        return [f"late {', '.join(f'P{each.producer_id} from {each.first_offset}' for each in late) or '-'}"]

    # -- time, deletion, restart

    def do_clock(self, step: str) -> list[str]:
        self.now_ms += int(step)
        return []

    def do_expire(self) -> list[str]:
        return [f"forgot {self.partition.expire(self.now_ms)}"]

    def do_delete(self, offset: str) -> list[str]:
        verdict = check_delete_records(self.partition, int(offset), is_internal=False, may_delete=True)
        if not isinstance(verdict, DeleteTo):
            return [_told(verdict)]
        self.partition.delete_records_to(verdict.log_start_offset)
        return self.do_offsets()

    def do_restart(self) -> list[str]:
        """A clean one: the producer snapshot is the log end's."""
        old = self.partition
        self.leader.partition = Partition(old.config)
        self.partition.load_snapshot(old.snapshot_entries())
        self.partition.recovered(log_start_offset=old.log_start_offset, log_end_offset=old.log_end_offset)
        return self.do_offsets()

    # -- inside

    def _batch(self, producer: str, sequence: str, *, transactional: bool, timestamp: int) -> RecordBatch:
        producer_id, producer_epoch = parsed_producer(producer)
        first, count = parsed_sequence(sequence)
        return data_batch(
            producer_id,
            producer_epoch,
            first,
            count,
            transactional=transactional,
            base_offset=self.partition.log_end_offset,
            timestamp=timestamp,
        )

    def _check(self, batch: RecordBatch, version: int, transactional_id: str, guard: Guard | None) -> Verdict:
        return self.partition.check_produce(
            batch,
            transactional_id=transactional_id,
            supports_implicit_add=version >= NEW_PROTOCOL,
            guard=guard,
            now_ms=self.now_ms,
        )

    def _perform(self, batch: RecordBatch, verdict: Verdict, guard: Guard | None) -> list[str]:
        if isinstance(verdict, Append):
            self.leader.append(batch, guard=guard, now_ms=self.now_ms, sync=not self.holding)
        return [_told(verdict, batch)]


def aborted_between(index: list[AbortedTransaction], fetch_offset: int, upper_bound: int) -> list[AbortedTransaction]:
    """The seed's scan, in Kafka's exclusive numbers: stop at the first entry whose stable offset covers the range."""
    found = []
    for entry in index:
        if entry.last_offset >= fetch_offset and entry.first_offset < upper_bound:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound:
            break
    return found


def _told(verdict: object, batch: RecordBatch | None = None) -> str:
    match verdict:
        case Append():
            assert batch is not None
            return f"appended {batch.base_offset}..{batch.last_offset}"
        case Duplicate():
            return f"duplicate of {verdict.base_offset}..{verdict.last_offset}, reply at watermark {verdict.end_offset}"
        case Refuse():
            return f"{verdict.error_code.name}: {verdict.message}"
    raise AssertionError(verdict)


def _offsets(batches: object) -> str:
    assert hasattr(batches, "__iter__")
    return " ".join(str(offset) for batch in batches for offset in range(batch.base_offset, batch.end_offset)) or "-"


def _rows(names: list[str], columns: list[tuple[str, ...]]) -> list[str]:
    width = max(len(name) for name in names)
    return [
        (f"{name:<{width}} " + " ".join(f"{column[index]:>3}" for column in columns)).rstrip()
        for index, name in enumerate(names)
    ]


def files() -> list[pathlib.Path]:
    """The partition's transcripts."""
    return sorted(TRANSCRIPTS.glob("*.txt"))


def main(arguments: list[str]) -> None:
    assert arguments[:1] == ["--rewrite"], __doc__
    for path in [pathlib.Path(name) for name in arguments[1:]] or files():
        before = path.read_text()
        after = scenario.run(before, PartitionWorld().handle)
        path.write_text(after)
        print("same     " if before == after else "rewritten", path.name)


if __name__ == "__main__":
    main(sys.argv[1:])
