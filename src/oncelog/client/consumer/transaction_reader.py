"""Handing out what core/consumer/transaction_order.py has ready: as record objects, or as ranges of batches for Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from oncelog.client.consumer.handing_out import hand_out, reached
from oncelog.client.records import ConsumerRecord
from oncelog.core.consumer.transaction_order import TransactionOrder, Unit
from oncelog.errors import CorruptBatch
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch


def take_records(
    topic_partition: TopicPartition,
    order: TransactionOrder,
    taken: list[ConsumerRecord],
    count_max: int,
    *,
    check_crcs: bool,
    decode: Callable[[ConsumerRecord], ConsumerRecord] | None = None,
) -> bool:
    """Add records until there are `count_max`; whether anything moved. Raises CorruptBatch, RecordDeserialization."""
    moved = False
    for unit, batch in _parts(order, lambda: len(taken) < count_max):
        moved = True
        if unit.decoded is None:
            if check_crcs:
                batch.check_crc()
            unit.decoded, unit.decoded_index = batch.records_as(ConsumerRecord, *topic_partition), 0
        try:
            hand_out(unit, unit.from_offset, taken, count_max, decode)
        finally:
            unit.from_offset = reached(unit, unit.from_offset)
        if unit.decoded_index == len(unit.decoded):
            unit.from_offset = max(unit.from_offset, batch.end_offset)
    return moved


def take_ranges(
    topic_partition: TopicPartition,
    order: TransactionOrder,
    taken: list[tuple[TopicPartition, RecordBatch, int, int]],
    count_max: int,
    *,
    check_crcs: bool,
    decode: object = None,  # noqa: ARG001 - columns stay bytes
) -> bool:
    """Add (partition, batch, start offset, end offset) of together about `count_max` records; whether anything moved.

    Raises CorruptBatch where nothing was taken before it.
    """
    moved, left = False, count_max - sum(max(end - start, 0) for _, _, start, end in taken)

    def has_room() -> bool:
        return left > 0

    for unit, batch in _parts(order, has_room):
        if check_crcs and not is_whole(batch, taken):
            break
        moved = True
        start = max(unit.from_offset, batch.base_offset)
        end = min(batch.end_offset, start + left)
        if end > start:
            taken.append((topic_partition, batch, start, end))
            left -= end - start
        unit.from_offset, unit.decoded = max(end, unit.from_offset), None
    return moved


def is_whole(batch: RecordBatch, taken: Sequence[object]) -> bool:
    """Whether it is what was written, asked before it counts as handed out. Raises CorruptBatch where nothing was `taken`
    before it; else that comes first."""
    try:
        batch.check_crc()
    except CorruptBatch:
        if taken:
            return False
        raise
    return True


def _parts(order: TransactionOrder, has_room: Callable[[], bool]) -> Iterator[tuple[Unit, RecordBatch]]:
    """Batch after batch of what is ready, while there is room; a batch that was handed out wholly is given back."""
    while order.ready and has_room():
        unit = order.ready[0]
        batch = unit.batches.current()
        if batch is None:
            order.finish_first()
            continue
        yield unit, batch
        if unit.from_offset >= batch.end_offset:
            unit.batches.advance()
            unit.decoded = None
            if unit.batches.current() is None:
                order.finish_first()
