"""Handing out what was fetched, as records or as rows of Arrow. Mixed into `Fetcher`.

Positions are those of what was handed out, whatever is raised on the way: what comes before a batch or record that cannot be
read is handed out first, and what raises is met again where the next ones are taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sized
from typing import TYPE_CHECKING, Any

from oncelog.client.config import ConsumerConfig
from oncelog.client.consumer.corrupt import corrupt
from oncelog.client.consumer.deserializing import Decode
from oncelog.client.consumer.handing_out import hand_out, reached
from oncelog.client.consumer.positions import Position, Positions
from oncelog.client.consumer.transaction_reader import add_rows, take_records, take_rows
from oncelog.client.records import ConsumerRecord
from oncelog.core.consumer.transaction_order import OrderPosition
from oncelog.errors import CorruptBatch
from oncelog.types import OffsetAndMetadata, TopicPartition
from oncelog.wire.record_batch import RecordBatch

if TYPE_CHECKING:
    import pyarrow as pa

    from oncelog.wire.arrow_records import ArrowRows

Places = Mapping[TopicPartition, OffsetAndMetadata]
Taker = Callable[..., bool]


class Supply:
    """Mixed into a fetcher."""

    # what the fetcher has
    _config: ConsumerConfig
    _positions: Positions
    decode: Decode | None
    _go_on: Callable[[], None]
    wake: Callable[[], None]

    def take(self, count_max: int) -> tuple[list[ConsumerRecord], bool]:
        """Up to `count_max` records; and whether any position moved (also past what is hidden).

        A record that is damaged or cannot be deserialized ends it; where it is the first, raises CorruptRecord,
        RecordDeserialization, or what a deserializer raised.
        """
        taken: list[ConsumerRecord] = []
        before = {} if self.decode is None else self.places()
        try:
            moved = _up_to_an_error(taken, lambda: self._take_into(taken, count_max))
        except BaseException:
            if taken:  # of no kind that waits: a deserializer's SystemExit
                self.go_back(before)
            raise
        if moved:
            self._go_on()
        return taken, moved

    def take_rows(self, count_max: int, *, include_headers: bool) -> tuple[list[pa.RecordBatch], bool]:
        """As `take`, as one Arrow batch; none where nothing is here. Raises CorruptRecord."""
        if not any(position.is_in_front for position in self._positions.by_partition.values()):
            return [], False
        from oncelog.wire.arrow_records import ArrowRows

        before, taken = self.places(), ArrowRows(*self._expected(count_max))
        try:
            moved = _up_to_an_error(taken, lambda: self._take_rows_into(taken, count_max))
            made = taken.finish(include_headers=include_headers)
        except BaseException:
            if taken:  # there was no memory for what they are kept in, say
                self.go_back(before)
            raise
        if moved:
            self._go_on()
        return [made], moved

    def places(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Where partitions that something is here of stand."""
        found = {tp: position.committable() for tp, position in self._supplied()}
        return {tp: place for tp, place in found.items() if place is not None}

    def go_back(self, places: Places) -> None:
        """What was handed out behind these places did not come to the application."""
        for topic_partition, place in places.items():
            position = self._positions.by_partition.get(topic_partition)
            if position is not None and position.committable() != place:
                position.jump(place.offset, resume=OrderPosition.from_metadata(place.metadata), topic_id=place.topic_id)
        self.wake()

    # -- records

    def _take_into(self, taken: list[ConsumerRecord], count_max: int) -> bool:
        moved = False
        for topic_partition, position in self._supplied():
            if position.order is not None:
                moved |= self._in_order(take_records, topic_partition, position, taken, count_max)
            while position.chunks and len(taken) < count_max:
                batch, is_visible = _first(position)
                moved = True
                if not is_visible:
                    _skip(position, batch)
                    continue
                self._take_records(topic_partition, position, batch, taken, count_max)
            _skip_hidden(position)
            self._give_way(topic_partition, position)
        return moved

    def _take_records(
        self,
        topic_partition: TopicPartition,
        position: Position,
        batch: RecordBatch,
        taken: list[ConsumerRecord],
        count_max: int,
    ) -> None:
        assert position.offset is not None
        try:
            if self._config.check_crcs and position.decoded is None:
                batch.check_crc()
            records = position.records_of(topic_partition, batch)
        except CorruptBatch as error:
            raise corrupt(topic_partition, position.offset, error) from error
        try:
            hand_out(position, position.offset, taken, count_max, self.decode)
        finally:  # a deserializer may raise: what came before is handed out
            position.offset = reached(position, position.offset)
        if position.decoded_index >= len(records):
            _skip(position, batch)

    # -- rows

    def _take_rows_into(self, taken: ArrowRows, count_max: int) -> bool:
        moved = False
        for topic_partition, position in self._supplied():
            if position.order is not None:
                moved |= self._in_order(take_rows, topic_partition, position, taken, count_max)
            while position.chunks and len(taken) < count_max:
                batch, is_visible = _first(position)
                moved = True
                if is_visible:
                    end_offset = self._add_rows(topic_partition, position, batch, taken, count_max - len(taken))
                    if end_offset < batch.end_offset:
                        position.offset, position.decoded = end_offset, None
                        break
                _skip(position, batch)
            _skip_hidden(position)
            self._give_way(topic_partition, position)
        return moved

    def _add_rows(
        self, where: TopicPartition, position: Position, batch: RecordBatch, taken: ArrowRows, count_max: int
    ) -> int:
        assert position.offset is not None
        try:
            return add_rows(taken, where, batch, position.offset, count_max, check_crcs=self._config.check_crcs)
        except CorruptBatch as error:
            raise corrupt(where, position.offset, error) from error

    def _expected(self, count_max: int) -> tuple[int, int]:
        """How many rows, and the bytes of their batches: at most, unless those are compressed."""
        record_count = size_bytes = 0
        for _, position in self._supplied():
            for batch in position.ahead():
                if record_count >= count_max:
                    break
                record_count += max(batch.record_count, 0)
                size_bytes += len(batch.data)
        return min(record_count, count_max), size_bytes

    # -- both

    def _supplied(self) -> list[tuple[TopicPartition, Position]]:
        return [(tp, p) for tp, p in self._positions.by_partition.items() if p.is_in_front]

    def _give_way(self, topic_partition: TopicPartition, position: Position) -> None:
        """A partition that was emptied goes behind the others."""
        if not position.is_supplied:
            del self._positions.by_partition[topic_partition]
            self._positions.by_partition[topic_partition] = position

    def _in_order(
        self, take: Taker, topic_partition: TopicPartition, position: Position, taken: Any, count_max: int
    ) -> bool:
        assert position.order is not None
        try:
            return take(
                topic_partition,
                position.order,
                taken,
                count_max,
                check_crcs=self._config.check_crcs,
                decode=self.decode,
            )
        except CorruptBatch as error:
            raise corrupt(topic_partition, position.reached, error) from error


def _up_to_an_error(taken: Sized, take: Callable[[], bool]) -> bool:
    """Whether anything moved. What is raised waits where something was taken before it: positions are behind that, and it is
    met again where the next ones are taken."""
    try:
        return take()
    except BaseException as error:
        if not taken or not isinstance(error, Exception):
            raise
        return True


def no_rows(*, include_headers: bool) -> pa.RecordBatch:
    """What there is where nothing came in time."""
    from oncelog.wire.arrow_records import decode_to_arrow

    return decode_to_arrow((), include_headers=include_headers)


def _skip(position: Position, batch: RecordBatch) -> None:
    assert position.offset is not None
    position.offset = max(position.offset, batch.end_offset)
    position.leader_epoch = batch.partition_leader_epoch
    position.next_batch()


def _skip_hidden(position: Position) -> None:
    """Step over what nobody sees, so that a position reaches the end although nothing more is delivered."""
    while position.chunks:
        batch, is_visible = _first(position)
        if is_visible and batch.end_offset > (position.offset or 0):
            return
        _skip(position, batch)


def _first(position: Position) -> tuple[RecordBatch, bool]:
    chunk = position.chunks[0]
    return chunk.batches[chunk.index]
