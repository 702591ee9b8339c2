"""Consume, transform, produce, exactly once: `oncelog.process`, and `Processor`, which shows how far it is.

What is done next, and after which failure, is decided in `core/processing/machine.py`; here it is carried out.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self, Unpack

from oncelog.client import arguments
from oncelog.client.config import snake_case
from oncelog.client.consumer.consumer import Consumer
from oncelog.client.consumer.group import RebalanceListener
from oncelog.client.interceptors import ProducerRecord
from oncelog.client.metrics import ProcessMetrics, report
from oncelog.client.option_types import ProcessClientOptions, ProcessOptions
from oncelog.client.processing.options import (
    STOP_TIMEOUT_MS,
    TRANSFORM_TIMEOUT_MS,
    check_writer,
    checked_limits,
    client_options,
    dead_letter_of,
    how_to_read,
    how_to_write,
    into_of,
    one_function,
)
from oncelog.client.processing.results import Results
from oncelog.client.processing.sinks import (
    DualWriterSink,
    NotWritten,
    Portion,
    ProducerSink,
    Refused,
    RolledBack,
    Sink,
)
from oncelog.client.processing.transforming import LoopTransformer, Reading, Transformer
from oncelog.client.records import ConsumerRecord
from oncelog.core.processing.dead_letter import dead_letter_headers
from oncelog.core.processing.machine import Processing
from oncelog.core.processing.steps import (
    OUTAGE_TIMEOUT_MS,
    TRANSACTION_BYTES_MAX,
    TRANSACTION_INTERVAL_MS,
    TRANSACTION_RECORDS_MAX,
    TRANSFORM_BACKOFF_MAX_MS,
    TRANSFORM_BACKOFF_MS,
    TRANSFORM_RETRIES,
    Abort,
    CheckEnd,
    End,
    Item,
    Limits,
    Poll,
    Renew,
    Rewind,
    Step,
    Transform,
    Write,
)
from oncelog.core.processing.verdicts import Verdict, verdict_of
from oncelog.errors import IllegalState, InstanceFenced, KafkaError, ProducerFenced, UnreleasedInstanceId, WakeupError
from oncelog.host.host import Host, real_host
from oncelog.host.signals import terminating_in_loop
from oncelog.host.tasks import Tasks
from oncelog.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("oncelog.client")

NO_PARTITIONS_MS = (
    3000  # until_end: how long a member waits for partitions before it takes it that others have them all
)


class Processor(RebalanceListener):
    """`oncelog.process` as an object: `await processor.run()`, with `metrics()` and `stop()` beside it. Runs once.

    Args:
        topics: what is read, read_committed; one or several.
        into: where outputs go that name no topic.
        group_id: of the consumer group; each of its members, in whatever process, works on partitions of its own.
        transform: called with each ConsumerRecord, async or not. It gives None, bytes (with the record's key, timestamp
            and `into`), (key, value), a ProducerRecord, or a list or generator of these.
        transform_batch: instead, called with a list of records; gives the same, where bytes have no key.
        dead_letter_topic: where a record goes that failed `transform_retries` times after the first; without one it ends
            the work.
        permanent_errors: what the transform raises for a record that needs no second attempt.
        writer: a started DualWriter; the transform is then called with (record, the database's handle).
        concurrency: so many async calls of the transform at a time; outputs keep their order.
        transform_timeout_ms: how long one async call may take.
        transform_retries, transform_backoff_ms, transform_backoff_max_ms: attempts after the first; the pause before the
            second attempt, which doubles, and the longest.
        transaction_records_max, transaction_bytes_max, transaction_interval_ms: a transaction takes at most so many input
            records, so many bytes of inputs and of outputs, and what comes within so many milliseconds.
        outage_timeout_ms: how long failing brokers are borne. stop_timeout_ms: how long the end may take.
        restart_when_fenced: go on with a new producer; None: only where nobody named a transactional id.
        handle_sigterm: SIGTERM is `stop`. until_end, max_records: end by itself, at the end or after so many records.
        stats_cb, statistics_interval_ms: called with `metrics()` so often.
        host: clocks, randomness, network; for simulations.
        config: the keys of both clients in snake case (bootstrap_servers ...), which see; docs/processing.md has all.

    Raises:
        ConfigurationError, InvalidArgument: an option that nobody knows, or takes.
    """

    def __init__(
        self,
        topics: str | Iterable[str],
        *,
        group_id: str,
        into: str | None = None,
        transform: Callable[..., Any] | None = None,
        transform_batch: Callable[[list[ConsumerRecord]], Any] | None = None,
        dead_letter_topic: str | None = None,
        permanent_errors: type[BaseException] | Iterable[type[BaseException]] = (),
        writer: Any = None,
        concurrency: int = 1,
        transform_timeout_ms: int = TRANSFORM_TIMEOUT_MS,
        transform_retries: int = TRANSFORM_RETRIES,
        transform_backoff_ms: int = TRANSFORM_BACKOFF_MS,
        transform_backoff_max_ms: int = TRANSFORM_BACKOFF_MAX_MS,
        transaction_records_max: int = TRANSACTION_RECORDS_MAX,
        transaction_bytes_max: int = TRANSACTION_BYTES_MAX,
        transaction_interval_ms: int = TRANSACTION_INTERVAL_MS,
        outage_timeout_ms: int = OUTAGE_TIMEOUT_MS,
        stop_timeout_ms: int = STOP_TIMEOUT_MS,
        restart_when_fenced: bool | None = None,
        handle_sigterm: bool = True,
        until_end: bool = False,
        max_records: int | None = None,
        stats_cb: Callable[[ProcessMetrics], None] | None = None,
        statistics_interval_ms: int = 1000,
        host: Host | None = None,
        **config: Unpack[ProcessClientOptions],
    ) -> None:
        self._topics = arguments.texts("topics", topics)
        options = client_options(group_id, config, (host or real_host()).random)
        self._group_id = group_id
        self._dead_letter_topic = dead_letter_of(dead_letter_topic, self._topics)
        self._stop_timeout_ms = arguments.duration_ms("stop_timeout_ms", stop_timeout_ms)
        self._handles_sigterm = arguments.boolean("handle_sigterm", handle_sigterm)
        if restart_when_fenced is None:
            restart_when_fenced = options.chooses_id and writer is None
        limits = Limits(
            transaction_records_max=transaction_records_max,
            transaction_bytes_max=transaction_bytes_max,
            transaction_interval_ms=transaction_interval_ms,
            transform_retries=transform_retries,
            transform_backoff_ms=transform_backoff_ms,
            transform_backoff_max_ms=transform_backoff_max_ms,
            outage_timeout_ms=outage_timeout_ms,
            max_poll_interval_ms=options.max_poll_interval_ms,
            max_records=max_records,
            until_end=until_end,
            has_dead_letter_topic=dead_letter_topic is not None,
            restarts_when_fenced=arguments.boolean("restart_when_fenced", restart_when_fenced),
            transforms_inside=writer is not None,
        )
        self._machine = Processing(checked_limits(limits))
        self._is_batch = transform_batch is not None
        if writer is not None:
            check_writer(writer, config, is_async=self._is_async)
        call = one_function(transform, transform_batch, writer)
        results = how_to_write(options, into_of(into, self._topics), transaction_bytes_max)
        reading = how_to_read(options, permanent_errors)
        self._transformer = self._new_transformer(call, reading, results, transform_timeout_ms, concurrency)
        self._sink = ProducerSink(options.producer, host) if writer is None else self._new_dual_writer_sink(writer)
        self._new_consumer: Callable[[], Consumer] = lambda: Consumer(host=host, **options.consumer)
        self._consumer = self._new_consumer()
        if stats_cb is not None and not callable(stats_cb):
            raise arguments.refuse("stats_cb", stats_cb, "a function")
        self._stats_cb = stats_cb
        self._started = asyncio.Event()
        self._statistics_interval_ms = arguments.integer("statistics_interval_ms", statistics_interval_ms, low=1)

    _is_async = True
    _sink: Sink
    _transformer: Transformer
    _outputs: Sequence[Sequence[ProducerRecord]] | None = None  # of what is written next
    _transform_ms = 0.0
    _loop: asyncio.AbstractEventLoop | None = None
    _running: asyncio.Task[Any] | None = None
    _without_partitions_since_ms: float | None = None
    _has_given_up = _has_ended = False

    def _new_transformer(
        self, call: Callable[..., Any], reading: Reading, results: Results, timeout_ms: int, concurrency: int
    ) -> Transformer:
        return LoopTransformer(call, reading, results, timeout_ms=timeout_ms, concurrency=concurrency)

    def _new_dual_writer_sink(self, writer: Any) -> Sink:
        assert isinstance(self._transformer, LoopTransformer)
        return DualWriterSink(writer, self._transformer)

    @classmethod
    def from_config(cls, config: Mapping[str, Any], topics: str | Iterable[str], **more: Any) -> Self:
        """From Kafka's dotted keys, `group.id` among them; `more` are keyword arguments beside them."""
        return cls(topics, **{**snake_case(config), **more})

    # -- life

    async def run(self) -> ProcessMetrics:
        """Until `stop`, SIGTERM, an end that was asked for, or an error; what it counted.

        Cancelled, it leaves nothing open: a commit that was begun is finished, else the transaction is aborted.

        Raises:
            ProcessingFailed: a record that failed too often, and no dead-letter topic; it is where the next start begins.
            ProducerFenced: a newer member with this transactional id took over.
            KafkaError: brokers were out of reach for outage_timeout_ms, or will not let this member read or write.
        """
        if self._loop is not None:
            raise IllegalState("this processor was run before: make a new one")
        self._loop, self._running = asyncio.get_running_loop(), asyncio.current_task()
        tasks = Tasks()
        try:
            if self._handles_sigterm:
                with terminating_in_loop(self.stop):
                    await self._run(tasks)
            else:
                await self._run(tasks)
        except asyncio.CancelledError:
            if not self._has_given_up:
                raise
            assert self._running is not None
            self._running.uncancel()
            log.warning("group %r: not ended within stop_timeout_ms=%d", self._group_id, self._stop_timeout_ms)
        finally:
            self._running = None
            await tasks.close()
        return self.metrics()

    async def _run(self, tasks: Tasks) -> None:
        self._consumer.subscribe(self._topics, listener=self)
        left_by: type[BaseException] | None = None
        try:
            await self._sink.start()
            await self._consumer.start()
            self._started.set()
            if self._stats_cb is not None:
                tasks.start(
                    report(self._statistics_interval_ms, self.metrics, self._stats_cb), name="oncelog-statistics"
                )
            while not isinstance(step := self._machine.next_step(self._now_ms()), End):
                await self._carry_out(step)
        except BaseException as error:
            left_by = type(error)
            raise
        finally:
            await self._end(left_by)
        if step.error is not None:
            raise self._explained(step.error)

    async def _end(self, left_by: type[BaseException] | None) -> None:
        """Both clients' within one time, which is as short as a client's own where it was cancelled or interrupted."""
        self._has_ended = True
        ends_ms = self._now_ms() + min(
            self._stop_timeout_ms, arguments.stop_timeout_ms(left_by) or self._stop_timeout_ms
        )
        try:
            await self._sink.stop(self._left_ms(ends_ms))
        finally:
            await self._consumer.stop(self._left_ms(ends_ms))

    def _left_ms(self, ends_ms: float) -> int:
        return max(0, round(ends_ms - self._now_ms()))

    async def started(self) -> None:
        """Wait until `run`, in another task, has reached the brokers and may write; for ever where it ends before."""
        await self._started.wait()

    def stop(self) -> None:
        """End when the transaction that is begun has ended; after `stop_timeout_ms` cancel what is left. Does not wait."""
        self._machine.stop()
        self._consumer.wakeup()
        if self._loop is not None and self._running is not None:
            self._loop.call_later(self._stop_timeout_ms / 1000, self._give_up)

    def _give_up(self) -> None:
        if self._running is not None:
            self._has_given_up = True
            self._running.cancel()

    def _explained(self, error: BaseException) -> BaseException:
        # Which code says it depends on which request asked first: the leader has another than the coordinator (KIP-360).
        if isinstance(error, InstanceFenced) or verdict_of(error) is not Verdict.FENCED:
            return error
        fenced = ProducerFenced(
            f"a newer member took over transactional_id={self._sink.transactional_id!r} (or this one slept through its "
            "transaction timeout); nothing of the open transaction was written. Give each member an id of its own, or "
            "restart_when_fenced=True"
        )
        fenced.__cause__ = error
        return fenced

    def metrics(self) -> ProcessMetrics:
        """What it counted, and where it stands; asks no broker. See also `stats_cb`."""
        consumer, machine = self._consumer.metrics(), self._machine
        lags = [each.readable_lag for each in consumer.partitions if each.readable_lag is not None]
        return ProcessMetrics(
            group_id=self._group_id,
            transactional_id=self._sink.transactional_id,
            phase=machine.phase.name,
            **dataclasses.asdict(machine.counts),
            rebalance_count=consumer.rebalance_count,
            assigned_partition_count=len(consumer.partitions),
            in_hand_record_count=machine.hand_count,
            in_hand_bytes=machine.hand_bytes,
            readable_lag=sum(lags) if lags else None,
            last_error=None if machine.last_trouble is None else str(machine.last_trouble),
        )

    # -- the group

    def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        """Nothing of theirs is written yet, and is not by this member."""
        if not self._has_ended:
            self._machine.gone(revoked)

    def on_partitions_lost(self, lost: Sequence[TopicPartition]) -> None:
        """Others read them already."""
        self._machine.gone(lost)

    # -- steps

    def _now_ms(self) -> float:
        assert self._loop is not None
        return self._loop.time() * 1000

    async def _carry_out(self, step: Step) -> None:
        if isinstance(step, Poll):
            await self._poll(step)
        elif isinstance(step, Transform):
            await self._transform(step)
        elif isinstance(step, Write):
            await self._write(step)
        elif isinstance(step, CheckEnd):
            await self._check_end()
        elif isinstance(step, Abort):
            await self._mend("abort", self._sink.abort(), self._machine.aborted)
        elif isinstance(step, Renew):
            await self._mend("renew the producer", self._sink.renew(), self._machine.renewed)
        elif isinstance(step, Rewind):
            await self._mend("rewind", self._rewind(step), self._machine.rewound)

    async def _poll(self, step: Poll) -> None:
        paused = self._consumer.assignment() if step.pauses else set()
        self._consumer.pause(*paused)
        try:
            records = await self._consumer.poll(step.timeout_ms, step.records_max)
        except WakeupError:
            return  # `stop`: the machine knows
        except KafkaError as error:
            log.warning("group %r: reading: %s", self._group_id, error)
            self._machine.poll_failed(error, self._now_ms())
            if isinstance(error, UnreleasedInstanceId):
                await self._replace_consumer()
            return
        finally:
            self._consumer.resume(*(paused & self._consumer.assignment()))
        items = [Item(record.topic_partition, record.offset, _size_bytes(record), record) for record in records]
        self._machine.polled(items, self._now_ms(), pauses=step.pauses)

    async def _replace_consumer(self) -> None:
        """A static member of KIP-848 whose former life was killed is refused until the group has forgotten that one."""
        await self._consumer.stop(self._stop_timeout_ms)
        self._consumer = self._new_consumer()
        self._consumer.subscribe(self._topics, listener=self)
        try:
            await self._consumer.start()
        except KafkaError as error:
            self._machine.poll_failed(error, self._now_ms())

    async def _check_end(self) -> None:
        consumer, now_ms, held_back = self._consumer, self._now_ms(), 0
        try:
            if consumer.assignment():
                self._without_partitions_since_ms = None
                is_at_end = await consumer.at_end()
                held_back = sum(each.blocked for each in (await consumer.lag()).values()) if is_at_end else 0
            else:
                since_ms = self._without_partitions_since_ms or now_ms
                self._without_partitions_since_ms = since_ms
                has_waited = now_ms - since_ms >= NO_PARTITIONS_MS and consumer.group_metadata().generation_id >= 0
                is_at_end = has_waited and await consumer._is_settled()
        except KafkaError as error:
            self._machine.poll_failed(error, now_ms)
            return
        if self._machine.checked_end(is_at_end, now_ms, is_held_back=held_back > 0) and held_back:
            log.warning(
                "the end was reached; %d offsets behind it are in open transactions, and not processed", held_back
            )

    async def _transform(self, step: Transform) -> None:
        began_ms = self._now_ms()
        if self._is_batch:
            found = await self._transformer.together(step.items)
        else:
            found = await self._transformer.each(step.items, step.budget_ms, lambda: self._machine.is_stopping)
        now_ms = self._now_ms()
        self._transform_ms = now_ms - began_ms
        self._outputs = found.outputs
        if found.failure is not None:
            log.warning(
                "group %r: the transform of %s failed: %.1000r",
                self._group_id,
                step.items[len(found.outputs)].place if not self._is_batch else f"{len(step.items)} records",
                found.failure.error,
            )
        if self._is_batch and found.failure is not None:
            self._machine.batch_failed(len(step.items), found.failure, now_ms)
        else:
            self._machine.transformed(len(found.outputs), found.failure, now_ms)

    async def _write(self, step: Write) -> None:
        began_ms = self._now_ms()
        outputs, self._outputs = self._outputs, None
        if step.dead is not None:
            outputs = [[self._dead_letter(step)]]
            log.error("group %r: %s goes to %s", self._group_id, step.items[0].place, self._dead_letter_topic)
        portion = Portion(step.items, outputs, self._offsets_of(step), self._consumer.group_metadata())
        try:
            count = await self._sink.write(portion)
        except Refused as refused:
            log.warning("group %r: %s: %.1000s", self._group_id, step.items[refused.index].place, refused.cause)
            self._machine.refused(refused.index, refused.cause, self._now_ms())
        except RolledBack as rolled_back:
            place, error = step.items[rolled_back.index].place, rolled_back.failure.error
            log.warning("group %r: %s failed, and was rolled back: %.1000r", self._group_id, place, error)
            self._machine.rolled_back(rolled_back.index, rolled_back.failure, self._now_ms())
        except NotWritten as failed:
            log.warning("group %r: a transaction was not committed: %s", self._group_id, failed.cause)
            now_ms = self._now_ms()
            took_ms = now_ms - began_ms if self._machine.limits.transforms_inside else self._transform_ms
            self._machine.failed(failed.cause, now_ms, is_open=failed.is_open, transform_ms=took_ms)
        else:
            self._machine.committed(count)

    def _offsets_of(self, step: Write) -> dict[TopicPartition, OffsetAndMetadata]:
        positions = self._consumer.current_positions()
        return {
            tp: positions[tp] if tp in step.read_out and tp in positions else OffsetAndMetadata(offset)
            for tp, offset in step.next_offsets.items()
        }

    def _dead_letter(self, step: Write) -> ProducerRecord:
        item, failure = step.items[0], step.dead
        assert failure is not None
        assert self._dead_letter_topic is not None
        record: ConsumerRecord = item.record
        headers = dead_letter_headers(
            record.headers, item.place, failure, group_id=self._group_id, timestamp_ms=record.timestamp_ms
        )
        return ProducerRecord(self._dead_letter_topic, record.value, record.key, headers)

    async def _mend(self, what: str, work: Any, done: Callable[[], None]) -> None:
        """A step of the way back. Whatever it raises, the machine knows what to do."""
        try:
            await work
        except BaseException as error:
            if not isinstance(error, Exception):
                raise
            log.warning("group %r: could not %s: %s", self._group_id, what, error)
            self._machine.failed(error, self._now_ms(), is_open=False)
        else:
            done()

    async def _rewind(self, step: Rewind) -> None:
        assigned = self._consumer.assignment()
        wanted = [each for each in step.first_offsets if each in assigned]
        stored = await self._consumer.committed(wanted) if wanted else {}
        for topic_partition in wanted:
            if topic_partition in self._consumer.assignment():
                self._consumer.seek(topic_partition, stored.get(topic_partition, step.first_offsets[topic_partition]))


async def process(topics: str | Iterable[str], **options: Unpack[ProcessOptions]) -> ProcessMetrics:
    """Read `topics`, call `transform` for each record, write what it gives, exactly once: outputs and positions are in
    one transaction. Runs until it is stopped; the arguments, and what it raises, are `Processor`'s.

    `await oncelog.process("orders", into="totals", group_id="totals", transform=total, bootstrap_servers=...)`
    """
    return await Processor(topics, **options).run()


def _size_bytes(record: ConsumerRecord) -> int:
    return len(record.key or b"") + len(record.value or b"")
