"""Calling the application's transform: record by record or several at once, what it raises caught and named.

In an event loop (`LoopTransformer`); `oncelog.sync` has the same for the thread that waits. What is decided about a failure
is decided in `core/processing/machine.py`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import field
from typing import Any, Protocol

from oncelog.client import arguments
from oncelog.client.interceptors import ProducerRecord
from oncelog.client.processing.results import Collector, Results
from oncelog.client.records import ConsumerRecord
from oncelog.core.processing.steps import Failure, Item
from oncelog.errors import RecordDeserialization, SchemaNotFound, SchemaRegistryError
from oncelog.lazy_dataclass import dataclass

BREATH_S = 0.01  # a transform that never waits lets the event loop run at least so often

Transform = Callable[..., Any]


class FailedForGood(Exception):
    """Raised by a transform of our own making: the cause is what its record failed of, and needs no second attempt."""


@dataclass(slots=True)
class Transformed:
    """What became of records: outputs for each, up to the first that failed."""

    outputs: list[Sequence[ProducerRecord]] = field(default_factory=list)
    size_bytes: int = 0
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Reading:
    """How a record is read before the transform gets it. Its failure is final: the bytes will not change."""

    decode: Callable[[ConsumerRecord], ConsumerRecord] | None
    permanent_errors: tuple[type[BaseException], ...]

    def failure_of(self, error: BaseException) -> Failure:
        """How a failure counts. What a schema registry says is no record's fault, but where it lacks that record's schema: it
        is away, it refuses who asks, something else answers in its place, or it refuses the schema that all are written under."""
        if isinstance(error, FailedForGood) and error.__cause__ is not None:
            return Failure(error.__cause__, is_final=True)
        is_final = isinstance(error, (RecordDeserialization, *self.permanent_errors))
        is_outage = isinstance(error, SchemaRegistryError) and not isinstance(error, SchemaNotFound) and not is_final
        return Failure(error, is_final=is_final, is_outage=is_outage)

    def record_of(self, item: Item) -> ConsumerRecord:
        """Decoded. Raises RecordDeserialization."""
        record: ConsumerRecord = item.record
        return record if self.decode is None else self.decode(record)


class Transformer(Protocol):
    """Calls the transform for items, in order."""

    async def each(self, items: Sequence[Item], budget_ms: int | None, is_stopping: Callable[[], bool]) -> Transformed:
        """One call for each."""
        ...

    async def together(self, items: Sequence[Item]) -> Transformed:
        """One call for all; its outputs are those of the last."""
        ...


class LoopTransformer:
    """Calls it in the running loop, async or not. `concurrency`: so many async calls at a time; outputs keep their order."""

    def __init__(
        self, transform: Transform, reading: Reading, results: Results, *, timeout_ms: int, concurrency: int = 1
    ) -> None:
        self._transform, self._reading, self._results = transform, reading, results
        self._timeout_s = arguments.integer("transform_timeout_ms", timeout_ms, low=1) / 1000
        self._concurrency = arguments.integer("concurrency", concurrency, low=1)

    async def each(self, items: Sequence[Item], budget_ms: int | None, is_stopping: Callable[[], bool]) -> Transformed:
        """One call for each."""
        loop, found = asyncio.get_running_loop(), Transformed()
        ends = None if budget_ms is None else loop.time() + budget_ms / 1000
        for first in range(0, len(items), self._concurrency):
            if first and (is_stopping() or found.size_bytes > self._results.transaction_bytes_max):
                break
            if first and ends is not None and loop.time() >= ends:
                break
            some = items[first : first + self._concurrency]
            if len(some) == 1:
                self._add(found, await self._call_one(some[0]))
            else:
                async with asyncio.TaskGroup() as group:
                    calls = [group.create_task(self._call_one(item)) for item in some]
                for call in calls:
                    self._add(found, call.result())
            if found.failure is not None:
                break
        return found

    def _add(self, found: Transformed, one: Collector | Failure) -> None:
        if found.failure is not None:
            return
        if isinstance(one, Failure):
            found.failure = one
        else:
            found.outputs.append(one.records)
            found.size_bytes += one.size_bytes

    _breathed_s = 0.0

    async def _call_one(self, item: Item, *more: Any) -> Collector | Failure:
        loop = asyncio.get_running_loop()
        if loop.time() - self._breathed_s > BREATH_S:
            await asyncio.sleep(0)
            self._breathed_s = loop.time()
        try:
            record = self._reading.record_of(item)
            collector = self._results.collector(record)
            await self._call(collector, record, *more)
        except BaseException as error:
            if not _is_the_transforms(error):
                raise
            return self._reading.failure_of(error)
        return collector

    async def _call(self, collector: Collector, *given: Any) -> None:
        result = self._transform(*given)
        if not isinstance(result, AsyncIterator) and not inspect.isawaitable(result):
            collector.take(result)
            return
        timeout = asyncio.timeout(self._timeout_s)
        try:
            async with timeout:
                if isinstance(result, AsyncIterator):
                    await collector.take_later(result)
                else:
                    collector.take(await result)
        except TimeoutError as error:
            if timeout.expired():
                text = f"the transform took longer than transform_timeout_ms={self._timeout_s * 1000:.0f}"
                raise TimeoutError(text) from error
            raise

    async def together(self, items: Sequence[Item]) -> Transformed:
        """One call for all; its outputs are those of the last."""
        collector = self._results.collector(None)
        try:
            records = [self._reading.record_of(item) for item in items]
            await self._call(collector, records)
        except BaseException as error:
            if not _is_the_transforms(error):
                raise
            return Transformed(failure=self._reading.failure_of(error))
        nothing: list[Sequence[ProducerRecord]] = [()] * (len(items) - 1)
        return Transformed([*nothing, collector.records], collector.size_bytes)

    async def inside(self, item: Item, database: Any) -> Collector | Failure:
        """One call within a dual write: the transform also gets the database's handle."""
        return await self._call_one(item, database)


def _is_the_transforms(error: BaseException) -> bool:
    """Whether it is the transform's failure. A CancelledError is, where nobody cancelled this task: it awaited something that
    was cancelled, and its record has failed, not the whole work."""
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and not task.cancelling()
    return isinstance(error, Exception)
