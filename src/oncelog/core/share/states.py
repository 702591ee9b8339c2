"""The share coordinator: what is stored of every share partition, for one partition of `__share_group_state`.

Most writes are updates; after so many of one share partition a snapshot says everything again, so that a start need not read all
that ever happened. Decisions look at what is appended (`appended` takes it over): the next update rests on the one before. If
the log then fails, its partition is offline and this object of no more use.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from oncelog.core.decision import NOTHING, Decision
from oncelog.core.share.runs import RecordState, Run, Runs
from oncelog.core.share.window import Change
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.log_records import share_state
from oncelog.wire.log_records.share_state import (
    NOT_UPDATED,
    UNINITIALIZED,
    ShareKey,
    ShareSnapshot,
    ShareStateDeleted,
    ShareStateRecord,
    ShareUpdate,
    StoredBatch,
)

RECORDS_PER_DECISION_MAX = 1_000  # one decision is one batch


@dataclass(slots=True)
class ShareState:
    """What is stored of one share partition. A start offset of -1: nobody has fetched yet."""

    snapshot_epoch: int = 0
    state_epoch: int = 0
    leader_epoch: int = 0
    start_offset: int = UNINITIALIZED
    complete_count: int = 0
    create_timestamp_ms: int = 0
    update_count: int = 0  # since the snapshot
    runs: Runs = field(default_factory=Runs)

    def batches(self) -> tuple[StoredBatch, ...]:
        """What is stored of single records."""
        return tuple(StoredBatch(run.first, run.last, run.state, run.delivery_count) for run in self.runs)

    def put(self, batches: Iterable[StoredBatch]) -> None:
        """Take over what changed."""
        for each in batches:
            self.runs.put(Run(each.first_offset, each.last_offset, RecordState(each.state), each.delivery_count))
        self.runs.cut_before(self.start_offset)


class ShareStates:
    """The states of one `__share_group_state` partition."""

    record_to_key_value = staticmethod(share_state.record_to_key_value)
    record_from_key_value = staticmethod(share_state.record_from_key_value)

    def __init__(self, updates_per_snapshot: int = 500) -> None:
        self.by_key: dict[ShareKey, ShareState] = {}
        self._updates_per_snapshot = updates_per_snapshot

    def __len__(self) -> int:
        return len(self.by_key)

    # -- the log ---------------------------------------------------------------------------------------------------

    @property
    def is_ahead(self) -> bool:
        """Always: the shell knows what of its log is committed, and waits for the rest."""
        return True

    def appended(self, records: Sequence[ShareStateRecord]) -> None:
        """A decision's records are in the log."""
        for record in records:
            self.replay(record)

    def apply(self, record: ShareStateRecord) -> None:
        """One committed record: it was taken over with its append."""

    def failed(self, records: Sequence[ShareStateRecord]) -> None:
        """They could not be appended or committed: the partition is offline, and nothing is decided here any more."""

    def replay(self, record: ShareStateRecord) -> None:
        """One record, in the log's order: live with its append, in recovery as it is read."""
        if isinstance(record, ShareStateDeleted):
            self.by_key.pop(record.key, None)
        elif isinstance(record, ShareSnapshot):
            state = self.by_key[record.key] = ShareState(
                record.snapshot_epoch,
                record.state_epoch,
                record.leader_epoch,
                record.start_offset,
                max(record.complete_count, 0),
                record.create_timestamp_ms,
            )
            state.put(record.batches)
        elif record.key in self.by_key:
            state = self.by_key[record.key]
            state.update_count += 1
            state.leader_epoch = max(state.leader_epoch, record.leader_epoch)
            state.complete_count = max(record.complete_count, 0)
            if record.start_offset != NOT_UPDATED:
                state.start_offset = record.start_offset
            state.put(record.batches)

    # -- decisions -------------------------------------------------------------------------------------------------

    def initialize(self, keys: Iterable[ShareKey], now_ms: int) -> Decision:
        """These share partitions begin; those that have begun stay as they are."""
        new = [key for key in dict.fromkeys(keys) if key not in self.by_key]
        return Decision(records=tuple(_snapshot(key, ShareState(create_timestamp_ms=now_ms), now_ms) for key in new))

    def begin_at(self, key: ShareKey, start_offset: int, now_ms: int) -> Decision:
        """From here on (a first fetch, or an operator): everything else that was stored is forgotten."""
        former = self.by_key.get(key, ShareState(create_timestamp_ms=now_ms))
        is_first = former.start_offset == UNINITIALIZED
        state = ShareState(
            former.snapshot_epoch + 1,
            former.state_epoch if is_first else former.state_epoch + 1,
            former.leader_epoch,
            start_offset,
            create_timestamp_ms=former.create_timestamp_ms,
        )
        return Decision(records=(_snapshot(key, state, now_ms),))

    def write(self, key: ShareKey, change: Change, now_ms: int) -> Decision:
        """Store what changed in a window."""
        state = self.by_key[key]
        batches = tuple(StoredBatch(*each) for each in change.batches)
        if state.update_count + 1 >= self._updates_per_snapshot:
            after = ShareState(
                state.snapshot_epoch + 1,
                state.state_epoch,
                state.leader_epoch,
                change.start_offset,
                change.complete_count,
                state.create_timestamp_ms,
                runs=Runs(state.runs),
            )
            after.put(batches)
            return Decision(records=(_snapshot(key, after, now_ms),))
        if not batches and change.start_offset == state.start_offset:
            return NOTHING
        update = ShareUpdate(
            key, state.snapshot_epoch, state.leader_epoch, change.start_offset, change.complete_count, batches
        )
        return Decision(records=(update,))

    def delete(self, keys: Iterable[ShareKey]) -> Decision:
        """The group or the topic is gone."""
        return Decision(records=tuple(ShareStateDeleted(key) for key in keys if key in self.by_key))

    def snapshots(self, now_ms: int) -> list[Decision]:
        """Everything again: nothing before it in the log is needed then."""
        records = []
        for key, state in self.by_key.items():
            again = ShareState(
                state.snapshot_epoch + 1,
                state.state_epoch,
                state.leader_epoch,
                state.start_offset,
                state.complete_count,
                state.create_timestamp_ms,
                runs=Runs(state.runs),
            )
            records.append(_snapshot(key, again, now_ms))
        return [
            Decision(records=tuple(records[begin : begin + RECORDS_PER_DECISION_MAX]))
            for begin in range(0, len(records), RECORDS_PER_DECISION_MAX)
        ]


def _snapshot(key: ShareKey, state: ShareState, now_ms: int) -> ShareSnapshot:
    return ShareSnapshot(
        key,
        state.snapshot_epoch,
        state.state_epoch,
        state.leader_epoch,
        state.start_offset,
        state.complete_count,
        state.create_timestamp_ms,
        now_ms,
        state.batches(),
    )
