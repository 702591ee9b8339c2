"""For `oncelog.sync`: the transform runs in the thread that waits, between its calls the clients' loop goes on without it.

So a slow transform delays no heartbeat, and may use what belongs to its thread (a connection of sqlite3).
"""

from __future__ import annotations

import asyncio
import inspect
import queue
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any, Protocol, TypeVar

from oncelog.client import arguments
from oncelog.client.interceptors import ProducerRecord
from oncelog.client.metrics import ProcessMetrics
from oncelog.client.processing.processor import Processor
from oncelog.client.processing.results import Collector, Results
from oncelog.client.processing.sinks import NotWritten, Portion, Refused, RolledBack, Sink, database_failure
from oncelog.client.processing.transforming import Reading, Transformed, Transformer
from oncelog.core.processing.steps import Failure, Item
from oncelog.core.processing.verdicts import Verdict, verdict_of
from oncelog.errors import InvalidArgument
from oncelog.host.loop_thread import settle
from oncelog.host.signals import terminating_in_thread

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)

INTERRUPTED_TIMEOUT_S = 5.0

Job = Callable[[], None]


class Caller:
    """The thread that waits. Jobs are handed to it one at a time; `end` lets it go."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()

    def end(self) -> None:
        """There will be no more jobs."""
        self._jobs.put(None)

    def work(self) -> None:
        """In that thread: jobs, until `end`. What is no Exception (KeyboardInterrupt) leaves it."""
        while (job := self._jobs.get()) is not None:
            job()

    async def run(self, function: Callable[[], T]) -> T:
        """In the loop: have it called there, and wait. Raises what it raises."""
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[T] = loop.create_future()

        def job() -> None:
            try:
                result = function()
            except BaseException as error:
                if not isinstance(error, Exception):
                    raise
                loop.call_soon_threadsafe(settle, ended, None, error)
            else:
                loop.call_soon_threadsafe(settle, ended, result, None)

        self._jobs.put(job)
        return await ended


class CallerTransformer:
    """Calls the transform there."""

    def __init__(self, transform: Callable[..., Any], reading: Reading, results: Results, caller: Caller) -> None:
        if inspect.iscoroutinefunction(transform) or inspect.isasyncgenfunction(transform):
            raise InvalidArgument("oncelog.sync.process takes a transform without async; oncelog.process takes both")
        self._transform, self._reading, self._results, self._caller = transform, reading, results, caller

    async def each(self, items: Sequence[Item], budget_ms: int | None, is_stopping: Callable[[], bool]) -> Transformed:
        """One call for each."""
        now_s = asyncio.get_running_loop().time
        ends = None if budget_ms is None else now_s() + budget_ms / 1000
        found = Transformed()

        def calls() -> Transformed:
            for index, item in enumerate(items):
                if index and (is_stopping() or found.size_bytes > self._results.transaction_bytes_max):
                    break
                if index and ends is not None and now_s() >= ends:
                    break
                one = self.call(item)
                if isinstance(one, Failure):
                    found.failure = one
                    break
                found.outputs.append(one.records)
                found.size_bytes += one.size_bytes
            return found

        return await self._caller.run(calls)

    def call(self, item: Item, *more: Any) -> Collector | Failure:
        """In the caller's thread."""
        try:
            record = self._reading.record_of(item)
            collector = self._results.collector(record)
            collector.take(self._transform(record, *more))
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            return self._reading.failure_of(error)
        return collector

    async def together(self, items: Sequence[Item]) -> Transformed:
        """One call for all; its outputs are those of the last."""

        def call() -> Transformed:
            collector = self._results.collector(None)
            try:
                collector.take(self._transform([self._reading.record_of(item) for item in items]))
            except BaseException as error:
                if not isinstance(error, Exception):
                    raise
                return Transformed(failure=self._reading.failure_of(error))
            nothing: list[Sequence[ProducerRecord]] = [()] * (len(items) - 1)
            return Transformed([*nothing, collector.records], collector.size_bytes)

        return await self._caller.run(call)


class CallerDualWriterSink:
    """Rows, outputs and positions by a blocking dual writer, in the caller's thread."""

    def __init__(self, writer: Any, transformer: CallerTransformer, caller: Caller) -> None:
        self._writer, self._transformer, self._caller = writer, transformer, caller

    @property
    def transactional_id(self) -> str:
        """Who writes."""
        return str(self._writer.transactional_id)

    async def start(self) -> None:
        """Complete what an earlier life left."""
        await self._caller.run(self._writer.recover)

    async def write(self, portion: Portion) -> int:
        """As the writer's `transaction`: an exception means that nothing was written, or OutcomeUnknown."""
        return await self._caller.run(lambda: self._write(portion))

    def _write(self, portion: Portion) -> int:
        count = 0
        try:
            with self._writer.transaction() as transaction:
                for index, item in enumerate(portion.items):
                    outputs = self._outputs(portion, index, item, transaction.database)
                    count += self._send_all(transaction, index, outputs)
                transaction.send_offsets_to_transaction(portion.offsets, portion.group)
        except RolledBack:
            raise
        except Refused as refused:
            raise RolledBack(refused.index, Failure(refused.cause, is_final=True)) from refused
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            raise NotWritten(error, is_open=False) from error
        return count

    def _outputs(self, portion: Portion, index: int, item: Item, database: Any) -> Sequence[ProducerRecord]:
        if portion.outputs is not None:
            return portion.outputs[index]
        found = self._transformer.call(item, database)
        if not isinstance(found, Failure):
            return found.records
        raise RolledBack(index, database_failure(found))

    def _send_all(self, transaction: Any, index: int, outputs: Sequence[ProducerRecord]) -> int:
        for record in outputs:
            try:
                transaction.send(*record)
            except BaseException as error:
                if not isinstance(error, Exception) or verdict_of(error) is not Verdict.RECORD:
                    raise
                raise Refused(index, error) from error
        return len(outputs)

    async def abort(self) -> None:
        """A dual write that raised is over already."""

    async def renew(self) -> None:
        """Ask what became of it, and be ready again."""
        await self._caller.run(self._writer.recover)

    async def stop(self, timeout_ms: int) -> None:
        """It stays the application's."""


class BlockingProcessor(Processor):
    """A processor in the clients' loop whose transform is called by the thread in `caller.work()`."""

    _is_async = False

    def __init__(self, caller: Caller, *topics: Any, **options: Any) -> None:
        self._caller = caller
        super().__init__(*topics, **options)

    def _new_transformer(
        self, call: Callable[..., Any], reading: Reading, results: Results, timeout_ms: int, concurrency: int
    ) -> Transformer:
        arguments.integer("transform_timeout_ms", timeout_ms, low=1)  # nobody can take a thread back: it is not applied
        arguments.integer("concurrency", concurrency, low=1, high=1, hint="oncelog.process takes more")
        return CallerTransformer(call, reading, results, self._caller)

    def _new_dual_writer_sink(self, writer: Any) -> Sink:
        assert isinstance(self._transformer, CallerTransformer)
        return CallerDualWriterSink(writer, self._transformer, self._caller)

    @property
    def handles_sigterm(self) -> bool:
        """Whether SIGTERM ends it."""
        return self._handles_sigterm

    async def run_and_let_go(self) -> ProcessMetrics:
        """`run`; then nobody waits for jobs any more."""
        try:
            return await self.run()
        finally:
            self._caller.end()


class LoopThread(Protocol):
    """The clients' thread."""

    loop: asyncio.AbstractEventLoop

    def call(self, function: Callable[[], Coroutine[Any, Any, T]], /) -> T:
        """Run `function` there and wait."""
        ...


class Call(Protocol[T_co]):
    """A coroutine function in that thread's loop."""

    def begin(self) -> None:
        """Begin it."""
        ...

    def cancel(self) -> None:
        """Cancel it."""
        ...

    def wait(self, timeout_s: float = -1) -> None:
        """Until it has ended."""
        ...

    def result(self) -> T_co:
        """What it gave or raised."""
        ...


class ThreadProcessor:
    """`Processor` without async, but for the names of `oncelog.sync`, which says what a thread and a call are."""

    def __init__(
        self,
        owner: LoopThread,
        new_call: Callable[
            [Callable[[], Coroutine[Any, Any, ProcessMetrics]], asyncio.AbstractEventLoop], Call[ProcessMetrics]
        ],
        topics: str | Iterable[str],
        options: Mapping[str, Any],
    ) -> None:
        self._owner, self._new_call, self._caller = owner, new_call, Caller()

        async def made() -> BlockingProcessor:
            return BlockingProcessor(self._caller, topics, **options)

        self._processor = owner.call(made)

    def run(self) -> ProcessMetrics:
        """As the async one's, with the transform called in this thread. Ctrl-C leaves nothing open; SIGTERM is `stop`."""
        call = self._new_call(self._processor.run_and_let_go, self._owner.loop)
        with terminating_in_thread(self.stop) if self._processor.handles_sigterm else nullcontext():
            try:
                call.begin()
                self._caller.work()
                call.wait()
            except BaseException:  # an interrupt, here or in the transform
                call.cancel()
                call.wait(INTERRUPTED_TIMEOUT_S)
                raise
        return call.result()

    def stop(self) -> None:
        """End when the transaction that is begun has ended. Does not wait; from any thread, also from the transform."""
        self._owner.loop.call_soon_threadsafe(self._processor.stop)

    def metrics(self) -> ProcessMetrics:
        """What it counted, and where it stands; asks no broker. From any thread but the clients' own."""

        async def found() -> ProcessMetrics:
            return self._processor.metrics()

        return self._owner.call(found)
