"""The invariants S4-S7, S9 and S10 of the logs (docs/simulator.md), found by walking the raw files.

The coordinator's log says which transactions there were, with which partitions and which end. Every partition must show
exactly those ends, in that order, around data of exactly those producers and epochs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby

from evidence.simulator.checkers.raw_log import RawLogs, data_partitions
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import TransactionRecord, TransactionState
from oncelog.wire.record_batch import RecordBatch, next_sequence

S = TransactionState
COMPLETE = {S.COMPLETE_COMMIT, S.COMPLETE_ABORT}
FINISHED = {None, S.EMPTY, *COMPLETE}
# Written down here once more on purpose: the coordinator's own table is what is judged (S9).
TRANSITIONS: dict[TransactionState, set[TransactionState | None]] = {
    S.EMPTY: {*FINISHED},
    S.ONGOING: {S.EMPTY, S.ONGOING, *COMPLETE},
    S.PREPARE_COMMIT: {S.ONGOING},
    S.PREPARE_ABORT: {S.ONGOING, S.EMPTY, *COMPLETE},
    S.COMPLETE_COMMIT: {S.PREPARE_COMMIT},
    S.COMPLETE_ABORT: {S.PREPARE_ABORT},
}
Marker = tuple[int, bool]  # producer epoch, commit


@dataclass
class Decided:
    """Per (partition, producer id): the ends in the order they were decided; how many of them must be there."""

    ends: dict[tuple[TopicPartition, int], list[Marker]] = field(default_factory=dict)
    completed: dict[tuple[TopicPartition, int], int] = field(default_factory=dict)


def check_logs(logs: RawLogs, *, is_final: bool) -> Iterator[str]:
    """`is_final`: everything is healed and quiet, so every decision has been carried out."""
    yield from logs.corrupt
    decided = Decided()
    yield from _coordinator(logs.coordinator, decided, is_final=is_final)
    shown: dict[tuple[TopicPartition, int], list[Marker]] = {}
    for name, found in data_partitions(logs):
        yield from _partition(name, found, shown, is_final=is_final)
    yield from _ends(decided, shown, is_final=is_final)


def _coordinator(records: list[TransactionRecord], decided: Decided, *, is_final: bool) -> Iterator[str]:
    last: dict[str, TransactionRecord] = {}
    for record in records:
        before = last.get(record.transactional_id)
        name = record.transactional_id
        if (before.state if before is not None else None) not in TRANSITIONS.get(record.state, set()):
            yield f"S9: {name} went from {before and before.state.name} to {record.state.name}"
        is_same_id = before is not None and before.producer_id == record.producer_id
        if before is not None and is_same_id and record.producer_epoch < before.producer_epoch:
            yield f"S9: {name} went from epoch {before.producer_epoch} to {record.producer_epoch}"
        if record.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT):
            if before is not None and before.state is S.ONGOING and before.partitions != record.partitions:
                lost = sorted(map(str, before.partitions ^ record.partitions))
                yield f"S10: {name} was ended without the partitions {lost}"
            for partition in record.partitions:
                end = record.producer_epoch, record.state is S.PREPARE_COMMIT
                decided.ends.setdefault((partition, record.producer_id), []).append(end)
        if record.state in COMPLETE and before is not None:
            for partition in before.partitions:
                of = partition, before.producer_id
                decided.completed[of] = len(decided.ends.get(of, ()))
        last[name] = record
    if is_final:
        for name, record in sorted(last.items()):
            if record.state in (S.PREPARE_COMMIT, S.PREPARE_ABORT, S.ONGOING):
                yield f"L2: {name} is still {record.state.name}"


def _partition(
    name: TopicPartition,
    found: list[RecordBatch],
    shown: dict[tuple[TopicPartition, int], list[Marker]],
    *,
    is_final: bool,
) -> Iterator[str]:
    open_epochs: dict[int, int] = {}
    epochs: dict[int, int] = {}
    sequences: dict[int, tuple[int, int]] = {}
    end_offset = 0
    for batch in found:
        at, producer = f"{name}@{batch.base_offset}", batch.producer_id
        if batch.base_offset < end_offset:
            yield f"{at}: offsets go back"
        end_offset = batch.end_offset
        if producer < 0:
            continue
        if batch.producer_epoch < epochs.get(producer, -1):
            yield f"S7: {at}: producer {producer} writes with epoch {batch.producer_epoch} after {epochs[producer]}"
        epochs[producer] = batch.producer_epoch
        if batch.is_control:
            marker = batch.end_txn_marker()
            assert marker is not None
            opened = open_epochs.pop(producer, None)
            if opened is not None and batch.producer_epoch not in (opened, opened + 1):
                yield f"S4: {at}: epoch {opened} of producer {producer} is ended by epoch {batch.producer_epoch}"
            shown.setdefault((name, producer), []).append((batch.producer_epoch, marker.commit))
            continue
        yield from _sequence(at, batch, sequences)
        if batch.is_transactional:
            if open_epochs.get(producer, batch.producer_epoch) != batch.producer_epoch:
                yield f"S4: {at}: producer {producer} writes epoch {batch.producer_epoch} inside another's transaction"
            open_epochs[producer] = batch.producer_epoch
    if is_final:
        for producer, producer_epoch in sorted(open_epochs.items()):
            yield f"S4: {name}: the transaction of producer {producer}, epoch {producer_epoch}, hangs"


def _sequence(at: str, batch: RecordBatch, sequences: dict[int, tuple[int, int]]) -> Iterator[str]:
    if batch.base_sequence < 0:
        return
    of_epoch, expected = sequences.get(batch.producer_id, (-1, 0))
    if of_epoch != batch.producer_epoch:
        expected = 0
    if batch.base_sequence != expected:
        yield (
            f"S6: {at}: producer {batch.producer_id}, epoch {batch.producer_epoch}: "
            f"sequence {batch.base_sequence} where {expected} comes next"
        )
    sequences[batch.producer_id] = batch.producer_epoch, next_sequence(batch.last_sequence, 1)


def _ends(decided: Decided, shown: dict[tuple[TopicPartition, int], list[Marker]], *, is_final: bool) -> Iterator[str]:
    for of in sorted({*decided.ends, *shown}):
        name, producer = of
        # A marker whose answer was lost is written once more.
        ends, markers = _distinct(decided.ends.get(of, [])), _distinct(shown.get(of, []))
        must = _distinct(decided.ends.get(of, [])[: decided.completed.get(of, 0)])
        if is_final:
            must = ends
        if markers != ends[: len(markers)] or len(markers) < len(must):
            yield (
                f"S4/S10: {name}: producer {producer} has markers {_words(markers)}, "
                f"decided were {_words(ends)}, completed {len(must)}"
            )


def _distinct(markers: list[Marker]) -> list[Marker]:
    return [marker for marker, _ in groupby(markers)]


def _words(markers: list[Marker]) -> str:
    return ", ".join(f"{'commit' if commit else 'abort'} {producer_epoch}" for producer_epoch, commit in markers)
