"""What `send` gives: a record that was taken, and what becomes of it.

Compiled by Cython where a compiler is there (`delivery.pxd` has the C types), the same source in plain Python else.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator

from oncelog.client.records import CREATE_TIME, LOG_APPEND_TIME, RecordMetadata
from oncelog.core.producer.batch import NO_RECORD, Acknowledged, ProducerBatch
from oncelog.core.producer.transaction_manager import again
from oncelog.errors import IllegalState, KafkaError


class Delivery:
    """What `send` gives: await it for the RecordMetadata, or the error.

    It need not be awaited: a failure that nobody asks about is raised by the next `flush`, and logged.

    All records of a batch share one future, made when the first of them is awaited.
    """

    def __init__(self, batch: ProducerBatch, index: int, timestamp_ms: int) -> None:
        self._batch, self._index, self._timestamp_ms = batch, index, timestamp_ms

    def __reduce__(self) -> str:
        raise TypeError("a Delivery belongs to its producer: it can be neither copied nor pickled")

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._now()[0].outcome is not None

    def _now(self) -> tuple[ProducerBatch, int]:
        """Where the record is: a batch that the broker refused may have been split."""
        return self._batch.part_of(self._index) if self._batch.parts else (self._batch, self._index)

    def add_done_callback(self, callback: Callable[[Delivery], None]) -> None:
        """Call back soon after the outcome is known: `result()` has it then. As a future does it: from the event loop, which
        also takes what the callback raises."""
        batch, index = self._now()
        self._call_back(callback, index)
        batch.watch(index)

    def look_on(self, callback: Callable[[Delivery], None]) -> None:
        """As `add_done_callback`, for who is not responsible: a failure still counts as one that nobody asked about."""
        self._call_back(callback, NO_RECORD)

    def _call_back(self, callback: Callable[[Delivery], None], watched_index: int) -> None:
        loop = self._loop()
        if self.done():
            loop.call_soon(callback, self)
        else:
            self._now()[0].on_done.append(Calling(loop, callback, self, watched_index))

    def remove_done_callback(self, callback: Callable[[Delivery], None]) -> int:
        """As of a future, for `asyncio.wait` and its like: call `callback` no more; how many times it would have been."""
        count = 0
        for batch in {self._batch, self._now()[0]}:  # before it was split, and since
            its = [each for each in batch.on_done if isinstance(each, Calling) and each.is_of(callback, self)]
            for each in its:
                batch.on_done.remove(each)
            count += len(its)
        return count

    def result(self) -> RecordMetadata:
        """The outcome, once `done`. Raises the error of a failed record."""
        batch, index = self._now()
        outcome = batch.outcome
        if outcome is None:
            raise asyncio.InvalidStateError("the record is not acknowledged yet")
        if isinstance(outcome, KafkaError):
            batch.watch(index)
            raise again(outcome)
        return self._metadata(outcome, index)

    @property
    def error(self) -> KafkaError | None:
        """The error of a failed record; None for one that was acknowledged, or whose outcome is not known yet."""
        batch, index = self._now()
        if not isinstance(batch.outcome, KafkaError):
            return None
        batch.watch(index)
        return again(batch.outcome)

    def _loop(self) -> asyncio.AbstractEventLoop:
        running = asyncio.get_running_loop()
        home = self._batch.home
        if home is not None and home is not running:
            raise IllegalState(
                "this record was sent in another event loop: its end is told there, and would not be heard here"
            )
        return running

    def seen(self) -> tuple[RecordMetadata, KafkaError | None]:
        """Metadata and error, for who only looks on."""
        outcome = self._now()[0].outcome
        return self.metadata, again(outcome) if isinstance(outcome, KafkaError) else None

    @property
    def metadata(self) -> RecordMetadata:
        """As `result()`, without raising: the offset is -1 where there is none (yet)."""
        batch, index = self._now()
        outcome = batch.outcome
        return self._metadata(outcome if isinstance(outcome, Acknowledged) else Acknowledged(-1), index)

    def _metadata(self, outcome: Acknowledged, index: int) -> RecordMetadata:
        topic, partition = self._batch.topic_partition
        offset = outcome.base_offset + index if outcome.base_offset >= 0 else -1
        if outcome.log_append_time_ms >= 0:
            return RecordMetadata(topic, partition, offset, outcome.log_append_time_ms, LOG_APPEND_TIME)
        return RecordMetadata(topic, partition, offset, self._timestamp_ms, CREATE_TIME)

    def __await__(self) -> Generator[object, None, RecordMetadata]:
        batch, index = self._now()
        if batch.outcome is None:
            ended: asyncio.Future[None] = self._loop().create_future()
            batch.on_done.append(Waiting(ended, index))
            yield from ended.__await__()
        return self.result()


class Waiting:
    """Who waits until a batch has ended, for one of its records."""

    def __init__(self, ended: asyncio.Future[None], index: int) -> None:
        self._ended, self._index = ended, index

    @property
    def watched_index(self) -> int:
        """The record; none for who was cancelled, after a time of the caller's perhaps."""
        return NO_RECORD if self._ended.done() else self._index

    def __call__(self, _: ProducerBatch) -> None:
        if not self._ended.done():
            self._ended.set_result(None)


class Calling:
    """Who is called when a batch has ended, about one of its records."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        callback: Callable[[Delivery], None],
        delivery: Delivery,
        watched_index: int,
    ) -> None:
        self.loop, self.callback, self.delivery, self.watched_index = loop, callback, delivery, watched_index

    def is_of(self, callback: Callable[[Delivery], None], delivery: Delivery) -> bool:
        """Whether this is what `add_done_callback` of that record was given."""
        return self.delivery is delivery and self.callback == callback

    def __call__(self, _: ProducerBatch) -> None:
        self.loop.call_soon(self.callback, self.delivery)


def delivery_of(batch: ProducerBatch, index: int, timestamp_ms: int) -> Delivery:
    """`Delivery(...)`, compiled without the call of `__init__`: a tenth of a record's cost."""
    delivery = Delivery.__new__(Delivery)
    delivery._batch, delivery._index, delivery._timestamp_ms = batch, index, timestamp_ms
    return delivery
