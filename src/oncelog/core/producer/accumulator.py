"""What waits to be produced: one queue of batches per partition, bounded in bytes.

Decides when a batch is ready (full, lingered, flushing, no room, or older ones waiting behind it) and in which order
batches of a partition leave; who may send where is `in_flight`, sequences are `sequences`.
Times are the loop's monotonic milliseconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Sequence

from oncelog.core.producer.batch import BATCH_OVERHEAD_BYTES, EncodedRecords, ProducedRecord, ProducerBatch
from oncelog.errors import KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

INT64_MAX = 2**63 - 1
GRANT_BYTES = 16384  # room that an open batch gets at once, or more: its partition alone uses it until the batch leaves


@dataclass(frozen=True, slots=True)
class AccumulatorConfig:
    """Bounds of the producer's buffer, Kafka's `batch.size`, `linger.ms`, `buffer.memory`, `delivery.timeout.ms`."""

    batch_size_bytes: int = 16384
    linger_ms: float = 5
    buffer_size_bytes: int = 33554432
    delivery_timeout_ms: int = 120000


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """Somebody's place among those who wait for room; `look` is called when it may be their turn."""

    size_bytes: int
    look: Callable[[], None]


class RecordAccumulator:
    """The producer's buffer."""

    def __init__(self, config: AccumulatorConfig) -> None:
        self._config = config
        self._queues: dict[TopicPartition, deque[ProducerBatch]] = {}
        self.open: dict[TopicPartition, ProducerBatch] = {}  # the last of a queue, where that takes records
        self._incomplete: dict[ProducerBatch, None] = {}  # in the order of their beginning
        self._begun_ms: dict[str, float] = {}  # by topic: when its last batch began
        self._begun_count = 0
        self._none_expires_before_ms = math.inf
        self._flushing_count = 0
        self._starved: dict[Place, None] = {}  # who waits for room, as they came: nothing lingers meanwhile
        self.used_bytes = 0

    # -- filling

    def has_room(self, size_bytes: int) -> bool:
        """Whether `size_bytes` fit now and nobody waits for room; what is larger than the whole buffer fits when it is empty."""
        return not self._starved and self._fits(size_bytes)

    def wait_for_room(self, place: Place) -> None:
        """Wait behind those who wait already, until `leave`. What waits for its linger_ms leaves now."""
        self._starved[place] = None

    def is_turn_of(self, place: Place) -> bool:
        """Whether there is room for who waits longest, and this is they."""
        return next(iter(self._starved)) is place and self._fits(place.size_bytes)

    def leave(self, place: Place) -> None:
        """Waits no more, whatever the reason; who takes the room now does so before anybody else looks."""
        del self._starved[place]
        self.room_may_be_there()

    def room_may_be_there(self) -> None:
        """Who waits longest may look."""
        if self._starved:
            next(iter(self._starved)).look()

    def _fits(self, size_bytes: int) -> bool:
        if self.used_bytes + size_bytes > self._config.buffer_size_bytes:
            for batch in self.open.values():
                self.used_bytes -= batch.give_back()
        return self.used_bytes + size_bytes <= self._config.buffer_size_bytes or not self.used_bytes

    def append(
        self, topic_partition: TopicPartition, record: ProducedRecord, size_bytes: int, now_ms: float
    ) -> tuple[ProducerBatch, int]:
        """Take a record of `record_size_bytes` for which there is room; gives its batch and its index there."""
        timestamp_ms, key, value, headers = record
        batch = self.open.get(topic_partition)
        if batch is not None:
            self.used_bytes -= batch.give_back()  # other threads put nothing into it any more, until it is granted room
            is_full = batch.size_bytes + size_bytes > self._config.batch_size_bytes
            if is_full or not spans(batch, timestamp_ms):
                self._close(batch)
                batch = None
        if batch is None:
            batch = self.open[topic_partition] = self._begin(topic_partition, now_ms)
            batch.limit_bytes = batch.size_bytes
        granted = self._grant(batch, size_bytes)
        limit_bytes = batch.size_bytes + granted
        self.used_bytes += granted
        try:
            index = batch.add(timestamp_ms, key, value, headers, size_bytes)
        except BaseException:
            self.used_bytes -= granted
            if not batch.record_count:  # no memory, say: nobody sends a batch of nothing
                self._queues[topic_partition].remove(batch)
                self._close(batch)
                self.completed(batch)
            raise
        batch.limit_bytes = limit_bytes
        if batch.size_bytes >= self._config.batch_size_bytes:
            self._close(batch)
        return batch, index

    def _grant(self, batch: ProducerBatch, size_bytes: int) -> int:
        """Room for a record, and for as much again as the batch has, so that not each has to ask, unless others wait for it."""
        if self._starved:
            return size_bytes
        left = min(self._config.batch_size_bytes - batch.size_bytes, self._config.buffer_size_bytes - self.used_bytes)
        return max(size_bytes, min(max(GRANT_BYTES, batch.size_bytes), left))

    def _close(self, batch: ProducerBatch) -> None:
        """No more records into it; the room that it did not need is free."""
        batch.is_closed = True
        if self.open.get(batch.topic_partition) is batch:
            del self.open[batch.topic_partition]
            self.used_bytes -= batch.give_back()
            batch.limit_bytes = 0

    def append_encoded(
        self, topic_partition: TopicPartition, source: EncodedRecords, record_count: int, size_bytes: int, now_ms: float
    ) -> ProducerBatch:
        """Take a whole batch that was made elsewhere (columns of Arrow); it is sent as it is, behind what waits."""
        if topic_partition in self.open:
            self._close(self.open[topic_partition])
        batch = self._begin(topic_partition, now_ms)
        batch.source, batch.record_count, batch.size_bytes = source, record_count, size_bytes
        self.used_bytes += size_bytes
        batch.is_closed = True
        return batch

    def _begin(self, topic_partition: TopicPartition, now_ms: float) -> ProducerBatch:
        batch = ProducerBatch(topic_partition, now_ms, (self._begun_count,))
        self._begun_count += 1
        self._begun_ms[topic_partition.topic] = now_ms
        self._waits(batch)
        self._queues.setdefault(topic_partition, deque()).append(batch)
        self._incomplete[batch] = None
        return batch

    # -- emptying

    def begin_flush(self) -> None:
        """Until `end_flush`, nothing lingers."""
        self._flushing_count += 1

    def end_flush(self) -> None:
        """One flush is over."""
        self._flushing_count -= 1

    def close_batches(self) -> None:
        """What waits takes no more records, and does not linger."""
        for batch in list(self.open.values()):
            self._close(batch)

    def ready(self, now_ms: float, *, may_send: Callable[[ProducerBatch], bool]) -> list[ProducerBatch]:
        """The first batch of each partition that should and may leave now (they stay until `take`)."""
        return [
            queue[0]
            for queue in self._queues.values()
            if queue and self._ready_at(queue, queue[0]) <= now_ms and may_send(queue[0])
        ]

    def _ready_at(self, queue: deque[ProducerBatch], batch: ProducerBatch) -> float:
        if batch.attempt_count or batch.not_before_ms:
            return batch.not_before_ms
        if batch.is_closed or len(queue) > 1 or self._flushing_count or self._starved:
            return batch.created_ms
        return batch.created_ms + self._config.linger_ms

    def take(self, batch: ProducerBatch) -> None:
        """Remove the first batch of its queue: it is about to be sent."""
        queue = self._queues[batch.topic_partition]
        assert queue[0] is batch
        queue.popleft()
        self._close(batch)

    def requeue(self, batch: ProducerBatch, *, not_before_ms: float) -> None:
        """Put a batch back for another attempt: what has a sequence before what has none, each as they were begun."""
        batch.not_before_ms = not_before_ms
        self._waits(batch)
        queue = self._queues.setdefault(batch.topic_partition, deque())
        position = 0
        while position < len(queue) and _place(queue[position]) < _place(batch):
            position += 1
        queue.insert(position, batch)

    def waiting(self, topic_partition: TopicPartition) -> list[ProducerBatch]:
        """What waits of a partition, in order."""
        return list(self._queues.get(topic_partition, ()))

    def put_in_order(self, topic_partition: TopicPartition) -> None:
        """Some of what waits lost its sequence."""
        self._queues[topic_partition] = deque(sorted(self._queues[topic_partition], key=_place))

    def was_split(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """The parts, which are not queued yet, take the place and the room of a batch that was on its way."""
        self.completed(batch)
        for part in parts:
            self._incomplete[part] = None
            self.used_bytes += part.size_bytes - BATCH_OVERHEAD_BYTES

    def next_timer(self, now_ms: float) -> float | None:
        """The next time after `now_ms` (milliseconds) at which something becomes ready or expires by itself."""
        times = []
        for queue in self._queues.values():
            if queue:
                times += [self._ready_at(queue, queue[0]), self.deadline_ms(queue[0])]
        return min((time for time in times if time > now_ms), default=None)

    def deadline_ms(self, batch: ProducerBatch) -> float:
        """When the batch must have ended."""
        return batch.created_ms + self._config.delivery_timeout_ms

    def expired(self, now_ms: float) -> list[ProducerBatch]:
        """Take out the waiting batches whose time is over, oldest first; the caller ends them."""
        found: list[ProducerBatch] = []
        if now_ms < self._none_expires_before_ms:
            return found  # each is looked at when the first may be late, not at each step of the sender
        self._none_expires_before_ms = math.inf
        for queue in self._queues.values():
            late = [batch for batch in queue if self.deadline_ms(batch) <= now_ms]
            for batch in late:
                queue.remove(batch)
                self._close(batch)
            for batch in queue:
                self._waits(batch)
            found.extend(late)
        return found

    def _waits(self, batch: ProducerBatch) -> None:
        self._none_expires_before_ms = min(self._none_expires_before_ms, self.deadline_ms(batch))

    def take_all_waiting(self) -> list[ProducerBatch]:
        """Take out everything that is not on its way (the transaction is being aborted); the caller ends them."""
        found = [batch for queue in self._queues.values() for batch in queue]
        for queue in self._queues.values():
            queue.clear()
        for batch in found:
            self._close(batch)
        return found

    def take_purged(self, *, in_queue: bool, in_flight: bool) -> list[ProducerBatch]:
        """Take out what was never sent, what was sent and has no answer yet, or both; the caller ends them.

        What waits for another attempt was sent: it may be stored. A batch keeps its sequence wherever it is.
        """
        found = [each for each in self._incomplete if (in_flight if each.attempt_count else in_queue)]
        gone = set(found)
        for topic_partition in {each.topic_partition for each in found}:
            queue = self._queues[topic_partition]
            self._queues[topic_partition] = deque(each for each in queue if each not in gone)
        for batch in found:
            self._close(batch)
        return found

    # -- what is not done yet

    def leaves_queue(self, batch: ProducerBatch) -> None:
        """It ended while it waited to be sent again."""
        queue = self._queues.get(batch.topic_partition)
        if queue is not None and batch in queue:
            queue.remove(batch)

    def completed(self, batch: ProducerBatch) -> None:
        """A batch ended: its room is free."""
        if batch in self._incomplete:
            self._close(batch)
            del self._incomplete[batch]
            self.used_bytes -= batch.size_bytes - (0 if batch.source is not None else BATCH_OVERHEAD_BYTES)
            assert self.used_bytes >= 0

    @property
    def has_incomplete(self) -> bool:
        """Whether any batch is waiting or on its way."""
        return bool(self._incomplete)

    def incomplete(self) -> Iterable[ProducerBatch]:
        """All batches that have not ended."""
        return tuple(self._incomplete)

    def topics(self) -> set[str]:
        """Topics of which something waits or is on its way."""
        return {batch.topic_partition.topic for batch in self._incomplete}

    def topics_since(self, since_ms: float) -> set[str]:
        """These, and those for which something was taken since then."""
        return self.topics().union(topic for topic, begun_ms in self._begun_ms.items() if begun_ms >= since_ms)

    def forget(self, topics: Collection[str]) -> None:
        """Nothing is sent to these any more; of none of them anything is here."""
        for topic in topics:
            self._begun_ms.pop(topic, None)
        for topic_partition in [each for each in self._queues if each.topic in topics and not self._queues[each]]:
            del self._queues[topic_partition]

    def fail_all(self, error: KafkaError) -> None:
        """The producer is over: everything that has not ended ends with `error`."""
        self.take_all_waiting()
        for batch in self.incomplete():
            batch.end(error)
            self.completed(batch)


def _place(batch: ProducerBatch) -> tuple[bool, tuple[int, ...]]:
    return not batch.has_sequence, batch.ordinal


def spans(batch: ProducerBatch, timestamp_ms: int) -> bool:
    """Whether 64 bits can hold the distance of a record's timestamp from the batch's first."""
    return not batch.record_count or -INT64_MAX <= timestamp_ms - batch.base_timestamp_ms <= INT64_MAX
