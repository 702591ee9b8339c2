"""`Partition` against a naive model: the plain list of what is in the log, from which every answer is computed anew."""

from __future__ import annotations

from dataclasses import dataclass

from evidence.world.partition_leader import NEW_PROTOCOL, OLD_PROTOCOL, READ_COMMITTED, Leader
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog.core.leader.partition import Append, Duplicate, Partition, Refuse
from oncelog.errors import ErrorCode

SEQUENCES = 2**31
OUT_OF_ORDER = ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
FENCED = ErrorCode.INVALID_PRODUCER_EPOCH
INVALID_STATE = ErrorCode.INVALID_TXN_STATE


@dataclass
class Entry:
    """One batch of the log."""

    producer_id: int
    producer_epoch: int
    base_offset: int
    count: int
    sequence: int | None = None  # None: a marker
    transactional: bool = True
    commit: bool = False
    is_remembered: bool = True  # after a restart only each producer's last batch is in the duplicate window

    @property
    def is_marker(self) -> bool:
        return self.sequence is None

    @property
    def end_offset(self) -> int:
        return self.base_offset + self.count


class Model:
    """Slow and plain: no state but the log, the high watermark and the log start."""

    def __init__(self) -> None:
        self.log: list[Entry] = []
        self.high_watermark = 0
        self.log_start_offset = 0
        self.knows_markers_from = 0  # offset of the last restart: older markers' results are forgotten

    @property
    def end_offset(self) -> int:
        return self.log[-1].end_offset if self.log else 0

    def of(self, producer_id: int) -> list[Entry]:
        return [entry for entry in self.log if entry.producer_id == producer_id]

    def producer_epoch(self, producer_id: int) -> int:
        return max((entry.producer_epoch for entry in self.of(producer_id)), default=-1)

    def window(self, producer_id: int) -> list[Entry]:
        current = self.producer_epoch(producer_id)
        entries = [entry for entry in self.of(producer_id) if entry.producer_epoch == current and not entry.is_marker]
        return [entry for entry in entries if entry.is_remembered][-5:]

    def open_transaction(self, producer_id: int) -> Entry | None:
        found = None
        for entry in self.of(producer_id):
            if entry.is_marker:
                found = None
            elif entry.transactional and found is None:
                found = entry
        return found

    def transactions(self) -> list[tuple[Entry, Entry | None]]:
        """(first batch, marker or None) of every transaction."""
        found: list[tuple[Entry, Entry | None]] = []
        for entry in self.log:
            mine = [
                at for at, (first, marker) in enumerate(found) if first.producer_id == entry.producer_id and not marker
            ]
            if entry.is_marker and mine:
                found[mine[0]] = (found[mine[0]][0], entry)
            elif not entry.is_marker and entry.transactional and not mine:
                found.append((entry, None))
        return found

    def last_stable_offset(self) -> int:
        unstable = [
            first.base_offset
            for first, marker in self.transactions()
            if marker is None or marker.base_offset >= self.high_watermark
        ]
        return min([max(offset, self.log_start_offset) for offset in unstable] + [self.high_watermark])

    def aborted(self) -> list[tuple[int, int, int, int]]:
        """Transaction index entries, in marker order."""
        found = []
        for first, marker in self.transactions():
            if marker is not None and not marker.commit:
                others = [
                    other.base_offset
                    for other, its_marker in self.transactions()
                    if other.base_offset < marker.base_offset
                    and (its_marker is None or its_marker.base_offset > marker.base_offset)
                ]
                stable = min(others, default=marker.end_offset)
                found.append((first.producer_id, first.base_offset, marker.base_offset, stable))
        return sorted(found, key=lambda entry: entry[2])

    def judge(self, new: Entry, *, is_new_protocol: bool) -> ErrorCode | Entry | None:
        """The error, the original of a duplicate, or None: append."""
        current, window = self.producer_epoch(new.producer_id), self.window(new.producer_id)
        opened = self.open_transaction(new.producer_id)
        for stored in reversed(window):
            if (stored.producer_epoch, stored.sequence, stored.count) == (new.producer_epoch, new.sequence, new.count):
                is_of_ended = opened is None or stored.base_offset < opened.base_offset
                return OUT_OF_ORDER if new.transactional and is_new_protocol and is_of_ended else stored
        if new.producer_epoch < current:
            return FENCED
        if new.transactional and opened is not None and new.producer_epoch > current:
            return ErrorCode.CONCURRENT_TRANSACTIONS if is_new_protocol else ErrorCode.NOT_ENOUGH_REPLICAS
        last = window[-1] if window else None
        if current == -1:
            expected = 0 if is_new_protocol and new.transactional else new.sequence
        elif new.producer_epoch > current or last is None:
            expected = 0
        else:
            expected = ((last.sequence or 0) + last.count) % SEQUENCES
        if new.sequence != expected:
            return OUT_OF_ORDER
        return INVALID_STATE if opened is not None and not new.transactional else None

    def judge_marker(self, new: Entry, *, transaction_version: int) -> ErrorCode | None:
        current, opened = self.producer_epoch(new.producer_id), self.open_transaction(new.producer_id)
        if transaction_version < 2:
            return FENCED if new.producer_epoch < current else None
        if new.producer_epoch < current or (new.producer_epoch == current and opened is not None):
            return FENCED
        markers = [
            entry
            for entry in self.of(new.producer_id)
            if entry.is_marker and entry.producer_epoch == new.producer_epoch
            if entry.base_offset >= self.knows_markers_from
        ]
        return INVALID_STATE if markers and markers[-1].commit != new.commit else None


producer_ids = st.integers(1, 2)
produce = st.tuples(
    st.just("produce"),
    producer_ids,
    st.integers(-1, 1),  # epoch, relative to the current one
    st.sampled_from(["next", "next", "next", "repeat", "zero", "far"]),
    st.integers(1, 5),  # which batch of the window is repeated; records otherwise
    st.booleans(),  # transactional
    st.booleans(),  # new protocol
)
marker = st.tuples(st.just("marker"), producer_ids, st.integers(-1, 1), st.booleans(), st.sampled_from([0, 2, 2]))
sync = st.tuples(st.just("sync"), st.integers(0, 3))
delete = st.tuples(st.just("delete"), st.integers(0, 3))
restart = st.tuples(st.just("restart"))
steps = st.lists(st.one_of(produce, produce, produce, marker, sync, delete, restart), max_size=40)


class Pair:
    """Both, doing the same."""

    def __init__(self) -> None:
        self.leader, self.model = Leader(), Model()

    def do_produce(self, producer_id, relative_epoch, which, number, transactional, is_new_protocol) -> None:
        model = self.model
        producer_epoch = max(0, model.producer_epoch(producer_id) + relative_epoch)
        window, count = model.window(producer_id), number
        if which == "repeat" and len(window) >= number:
            sequence, count = window[-number].sequence or 0, window[-number].count
        elif which == "next" and window and producer_epoch == model.producer_epoch(producer_id):
            sequence = ((window[-1].sequence or 0) + window[-1].count) % SEQUENCES
        else:
            sequence = SEQUENCES - 2 if which == "far" else 0
        new = Entry(producer_id, producer_epoch, model.end_offset, count, sequence, transactional)
        verdict = self.leader.produce(
            producer_id,
            producer_epoch,
            sequence,
            count,
            transactional=transactional,
            version=NEW_PROTOCOL if is_new_protocol else OLD_PROTOCOL,
            sync=False,
        )
        expected = model.judge(new, is_new_protocol=is_new_protocol)
        if expected is None:
            assert isinstance(verdict, Append), verdict
            model.log.append(new)
        elif isinstance(expected, Entry):
            assert verdict == Duplicate(expected.base_offset, expected.end_offset - 1, 1_000)
        else:
            assert isinstance(verdict, Refuse), (verdict, expected)
            assert verdict.error_code is expected

    def do_marker(self, producer_id, relative_epoch, commit, transaction_version) -> None:
        producer_epoch = max(0, self.model.producer_epoch(producer_id) + relative_epoch)
        new = Entry(producer_id, producer_epoch, self.model.end_offset, 1, commit=commit)
        verdict = self.leader.marker(
            producer_id, producer_epoch, commit=commit, transaction_version=transaction_version, sync=False
        )
        expected = self.model.judge_marker(new, transaction_version=transaction_version)
        assert (verdict.error_code if isinstance(verdict, Refuse) else None) is expected
        if expected is None:
            self.model.log.append(new)

    def do_sync(self, short_by: int) -> None:
        end_offset = max(0, self.model.end_offset - short_by)
        self.leader.partition.synced(end_offset)
        self.model.high_watermark = max(self.model.high_watermark, end_offset)

    def do_delete(self, short_by: int) -> None:
        offset = max(self.model.log_start_offset, self.model.high_watermark - short_by)
        self.leader.partition.delete_records_to(offset)
        self.model.log_start_offset = offset

    def do_restart(self) -> None:
        partition = Partition()
        partition.load_snapshot(self.leader.partition.snapshot_entries())
        partition.recovered(log_start_offset=self.model.log_start_offset, log_end_offset=self.model.end_offset)
        self.leader.partition = partition
        self.model.high_watermark = self.model.knows_markers_from = self.model.end_offset
        for producer_id in (1, 2):
            for entry in self.model.window(producer_id)[:-1]:
                entry.is_remembered = False

    def check(self) -> None:
        partition, model = self.leader.partition, self.model
        assert partition.log_end_offset == model.end_offset
        assert partition.high_watermark == model.high_watermark
        assert partition.readable_to(READ_COMMITTED) == model.last_stable_offset()
        stable = partition.last_stable_offset
        assert partition.log_start_offset <= stable <= partition.high_watermark <= partition.log_end_offset
        found = [
            (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
            for entry in self.leader.aborted
        ]
        assert found == model.aborted()


@settings(max_examples=200, deadline=None)
@given(steps)
def test_partition_agrees_with_the_list_of_its_log(steps):
    pair, stable = Pair(), 0
    for name, *arguments in steps:
        getattr(pair, f"do_{name}")(*arguments)
        pair.check()
        assert pair.leader.partition.last_stable_offset >= stable  # never back
        stable = pair.leader.partition.last_stable_offset


@settings(max_examples=60, deadline=None)
@given(steps)
def test_replaying_the_log_gives_the_live_state(steps):
    pair = Pair()
    for name, *arguments in steps:
        if name != "restart":
            getattr(pair, f"do_{name}")(*arguments)
    replayed = Partition()
    entries = [entry for batch in pair.leader.batches if (entry := replayed.replay(batch)) is not None]
    assert entries == pair.leader.aborted
    assert replayed.describe_producers() == pair.leader.partition.describe_producers()
    assert replayed.snapshot_entries() == pair.leader.partition.snapshot_entries()
