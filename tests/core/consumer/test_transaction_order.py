"""Transaction order equals a model on random histories, wherever the reader stops and goes on again."""

from __future__ import annotations

import random

import pytest

from oncelog.client.consumer.transaction_buffer import BufferedBatches, bound
from oncelog.client.consumer.transaction_reader import take_records, take_rows
from oncelog.core.consumer.transaction_order import OrderPosition, TransactionOrder
from oncelog.types import TopicPartition
from oncelog.wire.arrow_records import ArrowRows
from oncelog.wire.record_batch import RecordBatch, build_batch, build_end_txn_marker, set_offsets

HERE = TopicPartition("t", 0)


class MemorySpill:
    """A temporary file in memory that counts what goes through it."""

    written_bytes = 0

    def __init__(self) -> None:
        self.data = bytearray()
        self.is_closed = False

    def append(self, data: bytes | memoryview) -> int:
        position = len(self.data)
        self.data += data
        MemorySpill.written_bytes += len(data)
        return position

    def read_at(self, position: int, size_bytes: int) -> bytes:
        assert not self.is_closed
        return bytes(self.data[position : position + size_bytes])

    def close(self) -> None:
        self.is_closed = True


def history(seed: int) -> tuple[list[RecordBatch], list[int]]:
    """A log, and the offsets of its records in transaction order."""
    random_numbers = random.Random(seed)
    log: list[RecordBatch] = []
    open_offsets: dict[int, list[int]] = {}
    expected: list[int] = []
    offset = 0
    for _ in range(random_numbers.randrange(1, 60)):
        producer_id = random_numbers.randrange(5)
        kind = random_numbers.random()
        if kind < 0.25 and open_offsets:
            producer_id = random_numbers.choice(list(open_offsets))
            commit = random_numbers.random() < 0.7
            marker = build_end_txn_marker(
                commit=commit, producer_id=producer_id, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1
            )
            set_offsets(marker, offset, 0)
            log.append(RecordBatch(bytes(marker)))
            ended = open_offsets.pop(producer_id)
            expected += ended if commit else []
            offset += 1
            continue
        count = random_numbers.randrange(1, 5)
        offset += random_numbers.choice([0, 0, 0, 2])  # what a cleaner took away
        is_transactional = kind < 0.8
        batch = build_batch(
            [(1, None, b"%d" % n, ()) for n in range(offset, offset + count)],
            base_offset=offset,
            producer_id=producer_id if is_transactional else -1,
            producer_epoch=0 if is_transactional else -1,
            base_sequence=0 if is_transactional else -1,
            is_transactional=is_transactional,
        )
        log.append(RecordBatch(bytes(batch)))
        offsets = list(range(offset, offset + count))
        if is_transactional:
            open_offsets.setdefault(producer_id, []).extend(offsets)
        else:
            expected += offsets
        offset += count
    return log, expected


def reader_from(log: list[RecordBatch], start_offset: int, resume: OrderPosition | None) -> TransactionOrder:
    return TransactionOrder(BufferedBatches, start_offset, resume)


@pytest.mark.parametrize("block", range(20))
def test_any_reading_with_any_stops_equals_the_model(block: int) -> None:
    for seed in range(block * 50, block * 50 + 50):
        log, expected = history(seed)
        random_numbers = random.Random(-seed)
        found: list[int] = []
        start_offset, resume = 0, None
        while True:
            order = reader_from(log, start_offset, resume)
            is_over = _read_some(order, log, random_numbers, found)
            start_offset = order.restart_offset
            resume = OrderPosition.from_metadata(order.position.to_metadata())
            order.close()
            if is_over:
                break
        assert found == expected, seed


def _read_some(
    order: TransactionOrder, log: list[RecordBatch], random_numbers: random.Random, found: list[int]
) -> bool:
    """Feed and hand out at random; sometimes stop in the middle. Whether everything was handed out."""
    waiting = [batch for batch in log if batch.end_offset > order.next_offset]
    while waiting or order.ready:
        if random_numbers.random() < 0.03:
            return False
        if waiting and random_numbers.random() < 0.6:
            order.take(waiting.pop(0))
            if random_numbers.random() < 0.5:
                limit = random_numbers.choice([0, 200, 10_000])
                bound([order], memory_bytes_max=limit, disk_bytes_max=10**9, new_spill=MemorySpill)
            continue
        count_max = random_numbers.randrange(1, 6)
        if random_numbers.random() < 0.5:
            records: list[object] = []
            take_records(HERE, order, records, count_max, check_crcs=True)  # type: ignore[arg-type]
            assert len(records) <= count_max
            found += [record.offset for record in records]  # type: ignore[attr-defined]
        else:
            rows = ArrowRows(0, 0)
            take_rows(HERE, order, rows, count_max, check_crcs=True)
            assert len(rows) <= count_max
            found += rows.finish().column("offset").to_pylist()
    return True


def test_the_random_histories_go_through_the_disk() -> None:
    before = MemorySpill.written_bytes
    test_any_reading_with_any_stops_equals_the_model(0)
    assert MemorySpill.written_bytes > before + 1000


def test_an_open_transaction_delays_no_other() -> None:
    order = TransactionOrder(BufferedBatches, 0)
    for producer_id, offset in ((1, 0), (2, 1)):
        data = build_batch(
            [(1, None, b"x", ())],
            base_offset=offset,
            producer_id=producer_id,
            producer_epoch=0,
            base_sequence=0,
            is_transactional=True,
        )
        order.take(RecordBatch(data))
    marker = build_end_txn_marker(commit=True, producer_id=2, producer_epoch=0, coordinator_epoch=0, timestamp_ms=1)
    set_offsets(marker, 2, 0)
    order.take(RecordBatch(marker))
    records: list[object] = []
    assert take_records(HERE, order, records, 10, check_crcs=True)  # type: ignore[arg-type]
    assert [record.offset for record in records] == [1]  # type: ignore[attr-defined]
    assert (order.restart_offset, order.position) == (0, OrderPosition(3))


@pytest.mark.parametrize("metadata", ["", "x", "oncelog.transaction.order:1", "oncelog.transaction.order:1:-2"])
def test_metadata_of_somebody_else_is_no_position(metadata: str) -> None:
    assert OrderPosition.from_metadata(metadata) is None


def test_from_the_end_only_what_ends_later_comes() -> None:
    for seed in range(100):
        log, expected = history(seed)
        middle = log[len(log) // 2].base_offset
        handed_out = TransactionOrder(BufferedBatches, 0)
        for batch in log:
            if batch.end_offset <= middle:
                handed_out.take(batch)
        before = sum(len(_offsets(unit.batches)) for unit in handed_out.ready)
        first_open = min((run.first_offset for run in handed_out.open.values()), default=middle)
        later = TransactionOrder(BufferedBatches, first_open, OrderPosition(middle))
        for batch in log:
            if batch.end_offset > first_open:
                later.take(batch)
        records: list[object] = []
        take_records(HERE, later, records, 10_000, check_crcs=True)  # type: ignore[arg-type]
        assert [record.offset for record in records] == expected[before:], seed  # type: ignore[attr-defined]


def _offsets(batches: object) -> list[int]:
    assert isinstance(batches, BufferedBatches)
    return [record.offset for batch in batches._in_memory for record in batch.records()]
