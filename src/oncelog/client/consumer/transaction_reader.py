"""Handing out what core/consumer/transaction_order.py has ready: as record objects, or as rows of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from oncelog.client.consumer.handing_out import hand_out, reached
from oncelog.client.records import ConsumerRecord
from oncelog.core.consumer.transaction_order import TransactionOrder, Unit
from oncelog.types import TopicPartition
from oncelog.wire.record_batch import RecordBatch

if TYPE_CHECKING:
    from oncelog.wire.arrow_records import ArrowRows


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


def take_rows(
    topic_partition: TopicPartition,
    order: TransactionOrder,
    taken: ArrowRows,
    count_max: int,
    *,
    check_crcs: bool,
    decode: object = None,  # noqa: ARG001 - columns stay bytes
) -> bool:
    """Add rows until there are `count_max`; whether anything moved. Raises CorruptBatch, OverflowError."""
    moved = False
    for unit, batch in _parts(order, lambda: len(taken) < count_max):
        end_offset = add_rows(
            taken, topic_partition, batch, unit.from_offset, count_max - len(taken), check_crcs=check_crcs
        )
        moved = True
        unit.from_offset, unit.decoded = max(end_offset, unit.from_offset), None
    return moved


def add_rows(
    taken: ArrowRows,
    topic_partition: TopicPartition,
    batch: RecordBatch,
    from_offset: int,
    count_max: int,
    *,
    check_crcs: bool,
) -> int:
    """Add up to `count_max` records of a batch from an offset on; the offset behind them. Raises CorruptBatch, OverflowError;
    nothing was added then."""
    start_offset = max(from_offset, batch.base_offset)
    end_offset: int = min(batch.end_offset, start_offset + count_max)
    if end_offset > start_offset:
        if check_crcs:
            batch.check_crc()
        taken.add(*topic_partition, batch, start_offset, end_offset)
    return end_offset


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
