"""What the transaction coordinators' logs say: the last state of each transactional id, and each decision that is still there.

`__transaction_state` is compacted, so old decisions are gone. Behind its last gap it is whole: what a producer did since its
first record there is known (`first_known_ms`), and only that is judged by its absence. Where records are damaged or gone, the
last one that can be read need not be the last one: nothing that follows from it is believed (`is_damaged_for`).
"""

from __future__ import annotations

from typing import NamedTuple

from oncelog.wire.log_records.transaction_state import (
    TransactionLogRecord,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
)

PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
COMPLETED = (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
NEVER_MS = 2**63 - 1
BUMPING_CLIENT_VERSION = 2  # KIP-890: the decision's record carries the epoch after the transaction's


class Decision(NamedTuple):
    """A Prepare record, for one of its partitions. `offset` is the record's, in partition `log_partition` of the coordinators."""

    producer_id: int
    producer_epoch: int
    is_bumped: bool
    commit: bool
    topic: str
    partition: int
    prepared_ms: int
    log_partition: int
    offset: int


class Known(NamedTuple):
    """What is known of one producer id. `first_known_ms`: since when nothing of it is missing; -1 where that cannot be said.

    `state` is None where the coordinators' logs, whole from their beginning, never named it. `is_damaged`: records of its
    coordinator are damaged or gone.
    """

    producer_id: int
    first_known_ms: int
    state: int
    producer_epoch: int
    start_ms: int
    transactional_id: str
    is_damaged: bool = False


class Current(NamedTuple):
    """The last record of a transactional id and where it stands."""

    record: TransactionRecord
    log_partition: int
    offset: int


class CoordinatorLog:
    """Take the records of all partitions of `__transaction_state`, each partition in its order."""

    def __init__(self) -> None:
        self.current: dict[str, Current] = {}
        self.newest_ms = -1
        self.partitions: set[int] = set()
        self._damaged: set[int] = set()
        self._owner: dict[int, str] = {}  # producer id: the transactional id that had it last
        self._first_ms: dict[
            int, dict[int, int]
        ] = {}  # log partition: producer id: first time seen behind the last gap
        self._gaps: set[int] = set()
        self._begins_ms: dict[int, int] = {}  # log partition: its first record's time
        self._decisions: list[Decision] = []
        self._decided: dict[str, Current] = {}
        self._moved: set[int] | None = None

    def begin(self, log_partition: int) -> None:
        """A partition's log is there, if only empty."""
        self.partitions.add(log_partition)
        self._first_ms.setdefault(log_partition, {})

    def gap(self, log_partition: int, *, is_damage: bool = False) -> None:
        """Records are missing here: compaction took them, or they cannot be read."""
        self.begin(log_partition)
        self._gaps.add(log_partition)
        self._first_ms[log_partition].clear()
        if is_damage:
            self._damaged.add(log_partition)

    def follow(self) -> None:
        """From now on records are news of a running broker: who writes them is not judged by what was read before."""
        self._moved = set()

    def take(self, log_partition: int, offset: int, record: TransactionLogRecord) -> None:
        """The next record of a partition."""
        transactional_id = record.transactional_id
        if isinstance(record, TransactionTombstone):
            self.current.pop(transactional_id, None)
            return
        self._begins_ms.setdefault(log_partition, record.last_update_ms)
        here = Current(record, log_partition, offset)
        self.current[transactional_id] = here
        self.newest_ms = max(self.newest_ms, record.last_update_ms)
        for producer_id in {record.producer_id, record.previous_producer_id, record.next_producer_id} - {-1}:
            self._owner[producer_id] = transactional_id
            self._first_ms[log_partition].setdefault(producer_id, record.last_update_ms)
            if self._moved is not None:
                self._moved.add(producer_id)
        if record.state in PREPARED:
            self._decided[transactional_id] = here
            self._note_decision(here)

    def take_decisions(self) -> list[Decision]:
        """The decisions since the last call."""
        taken, self._decisions = self._decisions, []
        return taken

    def has_moved(self, producer_id: int) -> bool:
        """Whether a running broker went on with it while its directory was read."""
        return self._moved is not None and producer_id in self._moved

    @property
    def is_damaged(self) -> bool:
        """Whether records of any partition are damaged or gone."""
        return bool(self._damaged)

    def is_damaged_for(self, current: Current | None) -> bool:
        """Whether records that may be about this transactional id are; of one that is not known any may be."""
        return self.is_damaged if current is None else current.log_partition in self._damaged

    @property
    def is_whole(self) -> bool:
        """Whether every record ever written is there: no gap in any partition, from offset 0."""
        return bool(self.partitions) and not self._gaps

    def begins_ms(self, partition_count: int) -> int:
        """Since when the logs of all partitions are there; the end of time where one of them has nothing. One may have been begun
        anew then: an internal topic's partition is, where no copy of it is left."""
        wanted = {*range(partition_count), *self.partitions}
        return max((self._begins_ms.get(each, NEVER_MS) for each in wanted), default=NEVER_MS)

    def owner_of(self, producer_id: int) -> Current | None:
        """The present record of the transactional id that has this producer id; None where no coordinator knows it."""
        transactional_id = self._owner.get(producer_id)
        found = None if transactional_id is None else self.current.get(transactional_id)
        if found is None:
            return None
        record = found.record
        ours = (record.producer_id, record.previous_producer_id, record.next_producer_id)
        return found if producer_id in ours else None

    def last_decision_of(self, transactional_id: str) -> Current | None:
        """The last Prepare record of an id that is still in the log."""
        return self._decided.get(transactional_id)

    def known(self) -> list[Known]:
        """What is known of each producer id in these logs."""
        found = []
        for producer_id in self._owner:
            if self.has_moved(producer_id):
                continue
            first_ms = min(
                (times[producer_id] for times in self._first_ms.values() if producer_id in times), default=-1
            )
            current = self.owner_of(producer_id)
            if current is None:
                found.append(Known(producer_id, first_ms, -1, -1, -1, "", self.is_damaged_for(None)))
                continue
            record = current.record
            found.append(
                Known(
                    producer_id,
                    first_ms,
                    int(record.state) if record.producer_id == producer_id else -1,
                    record.producer_epoch if record.producer_id == producer_id else -1,
                    record.start_ms,
                    record.transactional_id,
                    self.is_damaged_for(current),
                )
            )
        return found

    def _note_decision(self, here: Current) -> None:
        record = here.record
        for topic, partition in record.partitions:
            self._decisions.append(
                Decision(
                    record.producer_id,
                    record.producer_epoch,
                    record.client_transaction_version >= BUMPING_CLIENT_VERSION,
                    record.state is TransactionState.PREPARE_COMMIT,
                    topic,
                    partition,
                    record.last_update_ms,
                    here.log_partition,
                    here.offset,
                )
            )
