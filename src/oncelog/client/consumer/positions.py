"""What a consumer reads and where it stands, per partition. Plain state, no I/O."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import field
from itertools import islice

from oncelog.client.consumer.read_replica import ReadReplica
from oncelog.client.consumer.transaction_buffer import BufferedBatches
from oncelog.client.records import ConsumerRecord
from oncelog.core.consumer.transaction_order import OrderPosition, TransactionOrder
from oncelog.errors import IllegalState
from oncelog.lazy_dataclass import dataclass
from oncelog.types import OffsetAndMetadata, TopicPartition
from oncelog.wire.record_batch import RecordBatch
from oncelog.wire.schema import ZERO_UUID

log = logging.getLogger("oncelog.client")


@dataclass(slots=True)
class Chunk:
    """What one fetch brought for one partition: batches in offset order, each with whether it is seen."""

    batches: list[tuple[RecordBatch, bool]]
    size_bytes: int = 0
    index: int = 0

    @property
    def end_offset(self) -> int:
        """Behind its last batch."""
        return self.batches[-1][0].end_offset


@dataclass(slots=True)
class Position:
    """Where one partition stands. `offset` None: not known yet; `reset_to` says which end (or time) it is looked up at.

    `version` grows with every jump, so that data fetched for an earlier place is recognised and dropped. `order` is
    there with order="transaction": then `offset` is the next one to fetch, and `order` knows what was handed out.
    """

    offset: int | None = None
    leader_epoch: int = -1
    reset_to: int | None = None
    is_paused: bool = False
    is_fetching: bool = False
    not_before_ms: float = 0.0
    version: int = 0
    chunks: list[Chunk] = field(default_factory=list)
    high_watermark: int = -1
    last_stable_offset: int = -1
    decoded: list[ConsumerRecord] | None = None  # of the batch that is being handed out
    decoded_index: int = 0
    order: TransactionOrder | None = None
    read_replica: ReadReplica | None = None
    topic_id: bytes | None = None  # of the topic that it is a place in; one that is made again has another

    @property
    def is_supplied(self) -> bool:
        """Whether something is here to be handed out."""
        return bool(self.chunks if self.order is None else self.order.ready)

    @property
    def is_in_front(self) -> bool:
        """Whether what is here may be handed out."""
        return self.is_supplied and not self.is_paused

    @property
    def fetch_offset(self) -> int | None:
        """Where the next fetch begins: behind what is here already."""
        return self.chunks[-1].end_offset if self.chunks else self.offset

    @property
    def reached(self) -> int | None:
        """How far the application has come."""
        if self.order is None or self.offset is None:
            return self.offset
        return self.order.position.order_point

    def committable(self) -> OffsetAndMetadata | None:
        """What a group stores of it; None while the place is not known."""
        if self.offset is None:
            return None
        if self.order is None:
            return OffsetAndMetadata(self.offset, leader_epoch=self.leader_epoch, topic_id=self.topic_id)
        metadata = self.order.position.to_metadata()
        return OffsetAndMetadata(self.order.restart_offset, metadata, self.leader_epoch, self.topic_id)

    def records_of(self, topic_partition: TopicPartition, batch: RecordBatch) -> list[ConsumerRecord]:
        """The records of the batch that is being handed out, decoded once."""
        if self.decoded is None:
            self.decoded, self.decoded_index = batch.records_as(ConsumerRecord, *topic_partition), 0
        return self.decoded

    def ahead(self) -> Iterator[RecordBatch]:
        """The batches that are to be handed out; of each transaction the first."""
        if self.order is not None:
            yield from (batch for unit in self.order.ready if (batch := unit.batches.current()) is not None)
            return
        for chunk in self.chunks:
            for batch, is_visible in islice(chunk.batches, chunk.index, None):
                if is_visible:
                    yield batch

    def next_batch(self) -> None:
        """The batch in front is done with."""
        self.decoded = None
        chunk = self.chunks[0]
        chunk.index += 1
        if chunk.index == len(chunk.batches):
            self.chunks.pop(0)

    def jump(
        self,
        offset: int | None,
        *,
        reset_to: int | None = None,
        resume: OrderPosition | None = None,
        topic_id: bytes | None = None,
    ) -> None:
        """Go elsewhere: what was prefetched is dropped. `resume`: with order="transaction", what was handed out.
        `topic_id`: of the topic that has this place; None: of whichever it is fetched from."""
        if self.order is not None:
            self.order.close()
            self.order = TransactionOrder(BufferedBatches, offset or 0, resume)
        self.offset, self.reset_to = offset, reset_to
        self.leader_epoch, self.topic_id = -1, topic_id
        self.version += 1
        self.chunks.clear()
        self.decoded = None
        self.not_before_ms = 0.0


class Positions:
    """The assigned partitions."""

    def __init__(self, *, in_transaction_order: bool = False) -> None:
        self.by_partition: dict[TopicPartition, Position] = {}
        self._in_transaction_order = in_transaction_order

    def _new_position(self) -> Position:
        return Position(order=TransactionOrder(BufferedBatches, 0) if self._in_transaction_order else None)

    def assign(self, partitions: Iterable[TopicPartition]) -> None:
        """Read exactly these from now on; those that stay keep their place and what was prefetched."""
        old = self.by_partition
        self.by_partition = {tp: old.get(tp) or self._new_position() for tp in partitions}
        for gone in old.keys() - self.by_partition.keys():
            old[gone].jump(None)

    def of(self, topic_partition: TopicPartition) -> Position:
        """The position of an assigned partition. Raises IllegalState."""
        found = self.by_partition.get(topic_partition)
        if found is None:
            text = f"{topic_partition} is not assigned to this consumer (subscribed topics are assigned inside poll)"
            raise IllegalState(text)
        return found

    def is_of_a_former_topic(self, topic_partition: TopicPartition, topic_id: bytes) -> bool:
        """Whether this was a place in a topic that was deleted and made again since; it is forgotten then."""
        position = self.of(topic_partition)
        if topic_id == ZERO_UUID or topic_id == position.topic_id:
            return False
        if position.topic_id is None:
            position.topic_id = topic_id
            return False
        log.warning("%s: the topic was deleted and made again, looking for a place in it", topic_partition)
        position.jump(None)
        return True

    def without_offset(self) -> list[TopicPartition]:
        """Assigned partitions whose place is not known yet."""
        return [tp for tp, position in self.by_partition.items() if position.offset is None]

    def fetchable(self, now_ms: float, ahead_bytes_max: int = 0) -> list[TopicPartition]:
        """Partitions for which data should be fetched now: nothing on its way, and nothing here, or one chunk only while
        all that is here together is less than `ahead_bytes_max`."""
        held_bytes = sum(chunk.size_bytes for position in self.by_partition.values() for chunk in position.chunks)
        chunks_max = 1 if held_bytes < ahead_bytes_max else 0
        return [
            tp
            for tp, position in self.by_partition.items()
            if position.offset is not None
            and not position.is_paused
            and not position.is_fetching
            and (len(position.chunks) <= chunks_max if position.order is None else not position.is_supplied)
            and position.not_before_ms <= now_ms
        ]

    def next_timer(self, now_ms: float) -> float | None:
        """When a partition that waits after an error may be fetched again (milliseconds)."""
        later = [p.not_before_ms for p in self.by_partition.values() if p.not_before_ms > now_ms]
        return min(later, default=None)
