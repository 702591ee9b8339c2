"""The records of coordinators' logs on their way into what is judged: decisions, group offsets, the Spark sink's decisions."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator

from oncelog.core.reconciliation.coordinator_log import CoordinatorLog
from oncelog.core.reconciliation.findings import DAMAGED, Finding
from oncelog.core.reconciliation.group_offsets import GroupOffsets
from oncelog.core.reconciliation.partition_replay import Ended
from oncelog.core.two_phase.exactly_once_sink import DecisionLog
from oncelog.errors import CorruptBatch, MalformedMessage
from oncelog.segments.headers import Batches
from oncelog.segments.partition_reading import Listener
from oncelog.segments.rows import Rows, put_decision, put_ended
from oncelog.segments.runs import marker_of
from oncelog.wire.log_records import consumer_offsets, transaction_state
from oncelog.wire.record import Record
from oncelog.wire.record_batch import RecordBatch

TRANSACTION_STATE = "__transaction_state"
CONSUMER_OFFSETS = "__consumer_offsets"


class Markers(Listener):
    """Spills the markers of one log; `place` is its number."""

    def __init__(self, rows: Rows, place: int) -> None:
        self._rows, self._place = rows, place

    def ended(self, ended: Ended) -> None:
        """As Listener."""
        put_ended(self._rows, self._place, ended)


class Decoding(Listener, ABC):
    """Decodes records one after the other; those that cannot be decoded are findings."""

    def __init__(self, rows: Rows, place: int) -> None:
        self._markers = Markers(rows, place)
        self.findings: list[Finding] = []

    def ended(self, ended: Ended) -> None:
        """As Listener."""
        self._markers.ended(ended)

    def batches(self, batches: Batches) -> None:
        """As Listener."""
        for batch, record in self._records(batches):
            try:
                self.record(batch, record)
            except MalformedMessage as error:
                self._bad(batch, str(error))

    @abstractmethod
    def record(self, batch: RecordBatch, record: Record) -> None:
        """One record that is none of control. Raises MalformedMessage."""

    def _records(self, batches: Batches) -> Iterator[tuple[RecordBatch, Record]]:
        for row in range(len(batches)):
            if batches.is_control[row] or row in batches.problems:
                continue
            batch = RecordBatch(batches.bytes_of(row))
            try:
                records = batch.records()
            except CorruptBatch as error:
                self._bad(batch, str(error))
                continue
            for record in records:
                yield batch, record

    def _bad(self, batch: RecordBatch, text: str) -> None:
        self.findings.append(Finding(DAMAGED, text, first_offset=batch.base_offset, last_offset=batch.last_offset))


class TransactionStates(Decoding):
    """A partition of `__transaction_state`."""

    def __init__(
        self, log: CoordinatorLog, rows: Rows, decided: Rows, topics: dict[str, int], place: int, log_partition: int
    ) -> None:
        super().__init__(rows, place)
        self._log, self._decided, self._topics, self._partition = log, decided, topics, log_partition
        log.begin(log_partition)

    def record(self, batch: RecordBatch, record: Record) -> None:  # noqa: ARG002
        """As Decoding."""
        decoded = transaction_state.record_from_key_value(record.key, record.value)
        if decoded is None:
            raise MalformedMessage("a version of transaction state that this oncelog does not know")
        self._log.take(self._partition, record.offset, decoded)
        for decision in self._log.take_decisions():
            put_decision(self._decided, self._topics.setdefault(decision.topic, len(self._topics)), decision)

    def missing(self, *, is_damage: bool) -> None:
        """As Listener."""
        self._log.gap(self._partition, is_damage=is_damage)

    def _bad(self, batch: RecordBatch, text: str) -> None:
        super()._bad(batch, text)
        self.missing(is_damage=True)

    def batches(self, batches: Batches) -> None:
        """As Listener; a batch with fewer records than offsets was cleaned."""
        counts, deltas = batches.header["record_count"], batches.header["last_offset_delta"]
        if (counts != deltas + 1).any():
            self._log.gap(self._partition)
        super().batches(batches)


class Offsets(Decoding):
    """A partition of `__consumer_offsets`. Its batches and markers have to be seen in turn."""

    def __init__(self, offsets: GroupOffsets, rows: Rows, place: int, log_partition: int) -> None:
        super().__init__(rows, place)
        self._offsets, self._partition = offsets, log_partition

    def batches(self, batches: Batches) -> None:
        """As Listener: up to each marker."""
        begin = 0
        for row in [*batches.is_control.nonzero()[0].tolist(), len(batches)]:
            if row > begin:
                super().batches(batches.rows(begin, row))
            if row < len(batches):
                self._control(batches, row)
            begin = row + 1

    def _control(self, batches: Batches, row: int) -> None:
        marker = marker_of(batches, row)
        if marker is not None and marker.commit is not None:
            self._offsets.take_marker(self._partition, marker.producer_id, commit=marker.commit)

    def record(self, batch: RecordBatch, record: Record) -> None:
        """As Decoding."""
        decoded = consumer_offsets.record_from_key_value(
            record.key,
            record.value,
            producer_id=batch.producer_id if batch.is_transactional else -1,
            producer_epoch=batch.producer_epoch,
        )
        if decoded is not None:
            self._offsets.take(self._partition, record.offset, decoded)


class SinkDecisions(Decoding):
    """A partition of the Spark sink's decision topic."""

    def __init__(self, decisions: DecisionLog, rows: Rows, place: int) -> None:
        super().__init__(rows, place)
        self._decisions = decisions

    def record(self, batch: RecordBatch, record: Record) -> None:  # noqa: ARG002
        """As Decoding."""
        try:
            self._decisions.apply(record.key or b"", record.value)
        except ValueError as error:
            raise MalformedMessage(f"a decision that cannot be read: {error}") from error
