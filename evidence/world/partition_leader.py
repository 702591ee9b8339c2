"""Drives a `Partition` as the broker's shell does: check, ask the coordinator, check again, append, sync."""

from __future__ import annotations

from oncelog.core.leader.partition import (
    Append,
    AskCoordinator,
    Duplicate,
    Guard,
    IsolationLevel,
    Partition,
    PartitionConfig,
    Refuse,
)
from oncelog.types import AbortedTransaction
from oncelog.wire.record_batch import RecordBatch, build_batch, build_end_txn_marker, set_offsets

READ_COMMITTED = IsolationLevel.READ_COMMITTED
READ_UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
NEW_PROTOCOL = 12  # Produce versions
OLD_PROTOCOL = 9


def data_batch(
    producer_id: int = 1,
    producer_epoch: int = 0,
    base_sequence: int = 0,
    count: int = 1,
    *,
    transactional: bool = True,
    base_offset: int = 0,
    timestamp: int = 1_000,
) -> RecordBatch:
    return RecordBatch(
        build_batch(
            [(timestamp, b"key", b"value", ())] * count,
            base_offset=base_offset,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            base_sequence=base_sequence,
            is_transactional=transactional,
        )
    )


def marker_batch(
    producer_id: int,
    producer_epoch: int,
    *,
    commit: bool,
    coordinator_epoch: int = 0,
    base_offset: int = 0,
    timestamp: int = 1_000,
) -> RecordBatch:
    data = build_end_txn_marker(
        commit=commit,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        coordinator_epoch=coordinator_epoch,
        timestamp_ms=timestamp,
    )
    set_offsets(data, base_offset, 0)
    return RecordBatch(data)


class Leader:
    """A partition with its log in memory. `sync=False` leaves what is appended above the high watermark."""

    def __init__(self, config: PartitionConfig | None = None) -> None:
        self.partition = Partition(config)
        self.batches: list[RecordBatch] = []
        self.aborted: list[AbortedTransaction] = []

    def check(
        self,
        batch: RecordBatch,
        *,
        transactional_id: str | None = "t",
        version: int = NEW_PROTOCOL,
        guard: Guard | None = None,
        now_ms: int = 1_000,
    ) -> Append | Duplicate | AskCoordinator | Refuse:
        return self.partition.check_produce(
            batch,
            transactional_id=transactional_id,
            supports_implicit_add=version >= NEW_PROTOCOL,
            guard=guard,
            now_ms=now_ms,
        )

    def produce(
        self,
        producer_id: int = 1,
        producer_epoch: int = 0,
        base_sequence: int = 0,
        count: int = 1,
        *,
        transactional: bool = True,
        transactional_id: str | None = "t",
        version: int = NEW_PROTOCOL,
        now_ms: int = 1_000,
        timestamp: int = 1_000,
        sync: bool = True,
    ) -> Append | Duplicate | Refuse:
        """The coordinator agrees to everything that it is asked."""
        batch = data_batch(
            producer_id,
            producer_epoch,
            base_sequence,
            count,
            transactional=transactional,
            base_offset=self.partition.log_end_offset,
            timestamp=timestamp,
        )
        guard = None
        verdict = self.check(batch, transactional_id=transactional_id, version=version, now_ms=now_ms)
        if isinstance(verdict, AskCoordinator):
            guard = verdict.guard
            verdict = self.check(batch, transactional_id=transactional_id, version=version, guard=guard, now_ms=now_ms)
            assert not isinstance(verdict, AskCoordinator)
        if isinstance(verdict, Append):
            self.append(batch, guard=guard, now_ms=now_ms, sync=sync)
        return verdict

    def marker(
        self,
        producer_id: int = 1,
        producer_epoch: int = 1,
        *,
        commit: bool = True,
        transaction_version: int = 2,
        coordinator_epoch: int = 0,
        start_offset: int | None = None,
        now_ms: int = 1_000,
        sync: bool = True,
    ) -> Append | Refuse:
        verdict = self.partition.check_marker(
            producer_id, producer_epoch, coordinator_epoch, transaction_version, start_offset, commit=commit
        )
        if isinstance(verdict, Append):
            batch = marker_batch(
                producer_id,
                producer_epoch,
                commit=commit,
                coordinator_epoch=coordinator_epoch,
                base_offset=self.partition.log_end_offset,
                timestamp=now_ms,
            )
            self.append(batch, now_ms=now_ms, transaction_version=transaction_version, sync=sync)
        return verdict

    def append(
        self,
        batch: RecordBatch,
        *,
        guard: Guard | None = None,
        now_ms: int = 1_000,
        transaction_version: int = 2,
        sync: bool = True,
    ) -> None:
        entry = self.partition.appended(batch, now_ms=now_ms, guard=guard, transaction_version=transaction_version)
        self.batches.append(batch)
        if entry is not None:
            self.aborted.append(entry)
        if sync:
            self.sync()

    def sync(self) -> None:
        self.partition.synced(self.partition.log_end_offset)

    def plain(self, count: int = 1, *, sync: bool = True) -> None:
        """Records of a producer without an id."""
        batch = data_batch(-1, -1, -1, count, transactional=False, base_offset=self.partition.log_end_offset)
        assert isinstance(self.check(batch, transactional_id=None), Append)
        self.append(batch, sync=sync)
