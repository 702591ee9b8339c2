"""The producer: idempotent by default, transactional with a transactional id, two-phase commit with KIP-939.

`send` gives back pressure and returns once the record is buffered; its result is awaited separately. Errors say what
may be done: `.retriable` was tried already, `.abortable` wants `abort_transaction`, `.fatal` a new producer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext
from typing import TYPE_CHECKING, Any, Self, Unpack

from oncelog.client import arguments
from oncelog.client.backoff import Deadline, one_deadline
from oncelog.client.cluster.cluster import Cluster
from oncelog.client.cluster.instance_id import HasInstanceId
from oncelog.client.config import ProducerConfig, snake_case
from oncelog.client.delivery import Delivery
from oncelog.client.interceptors import ProducerInterceptor, call_each, interceptors_of
from oncelog.client.metrics import ProducerMetrics, start_reports
from oncelog.client.option_types import ProducerOptions
from oncelog.client.producer.appending import Appender, SendsNow
from oncelog.client.producer.arguments import Headers as Headers
from oncelog.client.producer.arguments import checked_group, checked_state, each_pair
from oncelog.client.producer.produced_topics import ProducedTopics
from oncelog.client.producer.sender import Sender, all_ended
from oncelog.client.producer.sending import JAVAS, START_FAILED, STOPPED, Sending
from oncelog.client.producer.tracing import ProducerTracing
from oncelog.client.producer.unsent import Unsent, waits_for
from oncelog.client.records import RecordMetadata
from oncelog.client.telemetry_points import producer_points
from oncelog.core.producer.accumulator import AccumulatorConfig, RecordAccumulator
from oncelog.core.producer.batch import ProducerBatch
from oncelog.core.producer.partitioner import StickyPartitioner
from oncelog.core.producer.requests import PendingResult
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager, TransactionManagerConfig, again
from oncelog.errors import IllegalState, KafkaError, ProducerStopped, RequestTimedOut, UnknownServer
from oncelog.host.host import Host, real_host
from oncelog.types import GroupMetadata, OffsetAndMetadata, PreparedTxnState, TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


log = logging.getLogger("oncelog.client")

ELSEWHERE = (
    "this producer was started in another event loop: use it there, one for each loop, or oncelog.sync in threads"
)
RESTS = "the event loop that this producer was started in does not run now: send from what runs in it, or oncelog.sync"
NOT_STARTED = "this producer is not running: use `async with`, or call start()"
_OPEN = (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR)


class Producer(SendsNow, HasInstanceId):
    """Writes records. Use it as `async with Producer(...)`, or call `start` and `stop`.

    Keyword arguments are Kafka's producer keys in snake case. Raises ConfigurationError for what it does not know.
    """

    def __init__(self, *, host: Host | None = None, **config: Unpack[ProducerOptions]) -> None:
        self._config = ProducerConfig.of(config)
        self._host = host or real_host()
        self._cluster = Cluster(self._config, self._host, self._broken, lambda: self._sender.wake())
        self._cluster.telemetry.tells(lambda: producer_points(self.metrics()))
        self._manager = TransactionManager(
            TransactionManagerConfig(
                transactional_id=self._config.transactional_id,
                transaction_timeout_ms=self._config.transaction_timeout_ms,
                two_phase_commit_enable=self._config.transaction_two_phase_commit_enable,
                retry_backoff_ms=self._config.retry_backoff_ms,
                retry_backoff_max_ms=self._config.retry_backoff_max_ms,
                way_out=self._cluster.rights.way_out,
            )
        )
        self._accumulator = RecordAccumulator(
            AccumulatorConfig(
                batch_size_bytes=self._config.batch_size_bytes,
                linger_ms=self._config.linger_ms,
                buffer_size_bytes=self._config.buffer_memory,
                delivery_timeout_ms=self._config.delivery_timeout_ms,
            )
        )
        self._sender = Sender(self._cluster, self._config, self._manager, self._accumulator)
        self._unsent = Unsent(self._config.client_id, self._manager, self._accumulator, self._sender.unheard)
        sticky = StickyPartitioner(self._host.random.below, batch_size_bytes=self._config.batch_size_bytes)
        self._appender = Appender(
            self._cluster.view,
            self._manager,
            self._accumulator,
            sticky,
            choose_partition=self._config.choose_partition,
            is_javas=self._config.partitioner == JAVAS,
            batch_size_bytes=self._config.batch_size_bytes,
            record_size_bytes_max=self._config.max_request_size,
            now_ms=self._host.clock.now_ms,
            loop_now_ms=self._cluster.now_ms,
            wake=self._sender.wake,
        )
        self._cluster.topics.user = ProducedTopics(self._manager, self._accumulator, sticky, self._appender)
        self._tracing = ProducerTracing(self._config)
        self._interceptors = interceptors_of(self._config.interceptor_classes, ProducerInterceptor)
        self._sending = Sending(
            self._cluster,
            self._config,
            self._manager,
            self._accumulator,
            self._sender,
            sticky,
            self._appender,
            self._interceptors,
            self._tracing,
            now_ms=self._host.clock.now_ms,
            check_may_send=self._check_may_send,
            is_stopping=lambda: self._is_stopping,
        )
        has_serializer = self._config.key_serializer is not None or self._config.value_serializer is not None
        has_partitioner = callable(self._config.partitioner)
        self._is_plain = not (self._interceptors or has_serializer or has_partitioner or self._tracing.is_on)
        self._send_with(self._appender if self._is_plain else None, self._sending)
        self._home: asyncio.AbstractEventLoop | None = None
        self._is_started = self._is_stopped = False
        self._is_stopping = self._start_failed = False  # the first: it takes no more records
        self._stopped = asyncio.Event()

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *, host: Host | None = None, **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        return cls(host=host, **{**snake_case(config), **more})

    # -- life

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, left_by: type[BaseException] | None, *_: object) -> None:
        await self.stop(arguments.stop_timeout_ms(left_by))

    async def start(self) -> None:
        """Connect, within default_api_timeout_ms; with a transactional id also `init_transactions`, both within max_block_ms.
        Raises RequestTimedOut, ProducerFenced ..."""
        if self._is_started:
            raise IllegalState(self._why_not_running() if self._is_stopping else "this producer was started before")
        self._is_started = True
        self._home = asyncio.get_running_loop()
        self._appender.begin(self._home)
        self._unsent.begin(self)
        whole = one_deadline(self._config.max_block_ms, "start")  # Kafka's bound of initTransactions, which connects
        try:
            with whole if self._manager.is_transactional else nullcontext():
                await self._cluster.start()
                self._cluster.tasks.start(self._sender.run(), name="oncelog-sender", on_end=self._sender_ended)
                start_reports(self._cluster.tasks, self._config, self.metrics)
                if self._manager.is_transactional:
                    await self.init_transactions(keep_prepared_txn=self._config.keeps_prepared)
        except BaseException:
            self._start_failed = True
            await self._close()
            raise

    async def stop(self, timeout_ms: int | None = None) -> None:
        """Send what is buffered, finish a commit or abort that was begun, abort an open transaction, leave a prepared one
        prepared, close. Raises nothing but IllegalState in another event loop than that of `start`.

        From its beginning `send` is refused; what was taken before is sent, or fails where that is not done within
        `timeout_ms` (default: delivery_timeout_ms; five seconds where a cancellation or Ctrl-C leaves `async with`).
        Cancelled itself it closes at once; an open transaction is the next life's to abort, or its timeout's."""
        arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        self._check_home()
        if self._is_stopping:
            await self._stopped.wait()
            return
        self._is_stopping = True
        self._appender.end()
        patience_ms = self._config.delivery_timeout_ms if timeout_ms is None else timeout_ms
        try:
            async with asyncio.timeout(patience_ms / 1000):
                await self._finish()
        except KafkaError as error:
            log.warning("the producer was stopped with unfinished work: %s", error)
        except TimeoutError:
            log.warning(
                "the producer was stopped with unfinished work: it was not done within %d ms%s",
                patience_ms,
                self._unsent.take(),
            )
        finally:
            await self._close()

    async def _finish(self) -> None:
        unfinished = self._manager.unfinished_end
        if unfinished is not None and self._is_started:
            try:
                await self._complete(unfinished)
            except KafkaError as error:
                log.warning("%s: %s", unfinished.name, error)
        state = self._manager.state
        if not self._is_started or state is TransactionState.FATAL_ERROR:
            return
        if state in _OPEN:
            await self.abort_transaction()
        else:
            await self._flushed()

    async def _close(self) -> None:
        self._is_stopping = self._is_stopped = True
        self._unsent.end(self)
        self._appender.end()
        self._sender.end_all(ProducerStopped("the producer was stopped before the answer was there"))
        self._sender.unheard.end()
        try:
            self._tracing.end()
            await self._cluster.close()
            call_each([each.close for each in self._interceptors])
        finally:
            self._stopped.set()

    def _broken(self, error: BaseException) -> None:
        if isinstance(error, KafkaError):
            return  # whoever asked was told
        log.error("the producer met an error of its own", exc_info=error)
        self._sender.end_all(UnknownServer(f"the producer met an error of its own: {error!r}"))

    def _sender_ended(self, _: object) -> None:
        """`asyncio.run` cancels all tasks where a handler of the application's own raised KeyboardInterrupt: a `stop` that
        waited for records then would wait for nobody."""
        if not self._is_stopped:
            self.say_unsent("its event loop ended, or whoever ran it cancelled its tasks")
            self._sender.end_all(
                ProducerStopped("the producer's tasks were ended from outside, with the event loop's perhaps")
            )

    # -- an end that nobody asked for

    def __del__(self) -> None:
        if getattr(self, "_is_stopped", True) or not self._is_started:
            return  # perhaps not even wholly made
        self.say_unsent("nobody holds it any more")

    def say_unsent(self, why: str) -> None:
        """One line, where records or a transaction are left."""
        self._unsent.say(why)

    def had_failed_before(self, error: KafkaError) -> bool:
        """For `oncelog.process`: whether what `send` raised is the error of the transaction, from a batch before its record."""
        return self._manager.has_error and self._manager.last_error is not error

    @property
    def has_last_words(self) -> bool:
        """For `oncelog.sync`: whether it was started and not stopped."""
        return self._is_started and not self._is_stopped

    async def say_last_words(self, timeout_ms: int) -> None:
        """For `oncelog.sync`, at the interpreter's exit: `stop`, and what that ended is said."""
        aborted_count = self._sender.counts.aborted_transaction_count
        await self.stop(timeout_ms)  # it says what it could not do
        if self._sender.counts.aborted_transaction_count > aborted_count:
            name = self._config.transactional_id
            log.warning("the interpreter ended inside a transaction of %r: it was aborted, its records are void", name)

    def was_heard(self) -> None:
        """For `oncelog.sync`, from the main thread: the loop may be held up by a callback."""
        if not self._is_stopped:
            self.say_unsent("the interpreter ended")

    # -- sending

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """Buffer one record; waits for metadata and room at most `max_block_ms`. Await the result for its metadata.

        `key` and `value` are bytes or None, or what `key_serializer` and `value_serializer` make bytes of. `partition`
        None: as `partitioner` says, by Java's hash of the key unless told otherwise, sticky where there is no key.
        `timestamp_ms` None: now. Raises InvalidArgument (a TypeError and ValueError), RecordTooLarge, RequestTimedOut, the
        error of the transaction, IllegalState, and whatever a serializer raises; nothing was buffered then. Cancelled, it has
        buffered nothing either. RecordTooLarge ends an open transaction, also where it is caught: abort it.
        """
        delivery = self._taken_on(topic, value, key, headers, partition, timestamp_ms)
        if delivery is None:
            if self._appender.owes_turn:
                # Before the record is taken: a send that is cancelled has sent nothing. Who begins meanwhile waits behind it.
                await asyncio.sleep(0)
                self._appender.owes_turn = False
                delivery = self._taken_on(topic, value, key, headers, partition, timestamp_ms)
            if delivery is None:
                return await self._sending.send(topic, value, key, headers, partition, timestamp_ms)
        return delivery

    @property
    def append_beside(self) -> Callable[..., Delivery | None] | None:
        """For `oncelog.sync`: `send` by another thread, of a record whose batch is open; it gives None where nothing was taken,
        and never raises for the record. None where each record is serialized, intercepted or placed by the application's code.
        """
        return self._appender.append_beside if self._is_plain else None

    def _check_home(self) -> None:
        """What this producer waits for is set in the loop of `start`: in another one it would wait for ever."""
        if self._home is not None:
            try:
                running: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
            except RuntimeError:
                running = None
            if running is not self._home:
                raise IllegalState(ELSEWHERE if running is not None or self._home.is_running() else RESTS)

    async def send_and_wait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> RecordMetadata:
        """`send`, and wait until the record is acknowledged."""
        return await (await self.send(topic, value, key, headers, partition, timestamp_ms))

    async def send_many(
        self, topic: str, records: Iterable[tuple[Any, Any]], *, partition: int | None = None
    ) -> list[Delivery]:
        """Buffer (key, value) pairs, in order. What `send` refuses ends it: those before are buffered. A transaction in which
        it raised RecordTooLarge can only be aborted; any other refused record (InvalidArgument ...) is yours to leave out."""
        return [await self.send(topic, value, key, partition=partition) for key, value in each_pair(records)]

    async def send_arrow(self, topic: str | None, batch: pa.RecordBatch, *, partition: int | None = None) -> None:
        """Buffer the rows of an Arrow batch: `value`, and if present `key`, `headers`, `partition`, `timestamp`.

        `topic` None: each row says its own in a column `topic`. No Python object per record is made. Rows of one
        partition keep their order. Waits for room at most `max_block_ms` each time; errors come with `flush` or the
        end of the transaction. Raises InvalidArgument for columns that cannot be written, or that neither a record nor
        `poll_arrow` has, and RecordTooLarge, after which an open transaction can only be aborted.
        """
        await self._sending.send_arrow(topic, batch, partition)

    async def flush(self) -> None:
        """Wait until everything buffered so far is acknowledged or failed.

        Raises the transaction's error, if any; without transactions the first error of records whose own deliveries nobody
        waits for, since the last `flush`.
        """
        self._check_home()
        waiting = await self._flushed()
        error = self._sender.unheard.take_first()
        if error is None:
            failed = (batch.outcome for batch in waiting if batch.unheard_count and not batch.parts)
            error = next((each for each in failed if isinstance(each, KafkaError)), None)
        if self._manager.is_transactional:
            self._manager.raise_error()
        elif error is not None:
            raise again(error)

    async def _flushed(self) -> list[ProducerBatch]:
        waiting = list(self._accumulator.incomplete())
        if waiting:
            self._accumulator.begin_flush()
            try:
                self._sender.wake()
                await all_ended(waiting)
            finally:
                self._accumulator.end_flush()
        return waiting

    def purge(self, in_queue: bool = True, in_flight: bool = True) -> int:
        """Give up records that are not acknowledged, at once: those never sent, those on their way, or both. How many.

        Their deliveries (and callbacks) fail with PurgedInQueue (certainly not stored) or PurgedInFlight (stored or not:
        nobody knows); rows of `send_arrow` say so at the next `flush`. Nothing is renumbered: the producer goes on under
        another epoch. An open transaction that lost records so can only be aborted; `abort_transaction` waits until what
        is on its way was answered or lost. Where there is nothing to give up, nothing changes; nor while a commit is on its way
        right behind them: they are in that transaction, or it tells what became of them.
        """
        self._check_home()
        return self._sender.purge(in_queue=in_queue, in_flight=in_flight)

    def send_soon(self) -> None:
        """What is buffered leaves before its linger_ms are over: now, or when what is on its way has arrived."""
        self._check_home()
        on_its_way = next((batch for batch in self._accumulator.incomplete() if batch.attempt_count), None)
        if on_its_way is None:
            self._accumulator.close_batches()
            self._sender.wake()
        elif not self._sends_soon:
            self._sends_soon = True
            on_its_way.on_done.append(self._send_soon_again)

    _sends_soon = False

    def _send_soon_again(self, _: ProducerBatch) -> None:
        self._sends_soon = False
        self.send_soon()

    def _check_may_send(self) -> None:
        if self._is_stopping or not self._is_started:
            raise IllegalState(self._why_not_running())
        self._check_home()
        if self._manager.is_transactional:
            self._manager.check_in_transaction("send")
        else:
            self._manager.raise_error()

    # -- transactions

    async def init_transactions(self, keep_prepared_txn: bool = False) -> None:
        """Fence older producers with this transactional id and abort their open transaction, or keep it (KIP-939).

        `start` does this. After a kept transaction only commit, abort and complete are allowed.
        """
        self._check_transactional()
        manager = self._manager
        if manager.state is TransactionState.PREPARED_TRANSACTION and keep_prepared_txn:
            return
        manager.forget_initialization()
        await self._wait(manager.initialize(keep_prepared_txn=keep_prepared_txn))

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises IllegalState where one is open, or the producer's fatal error."""
        self._check_transactional()
        if self._is_stopping:
            raise IllegalState(STOPPED)
        if self._manager.state is TransactionState.FATAL_ERROR:
            self._manager.raise_error()
        self._manager.begin_transaction()
        self._tracing.began()

    async def commit_transaction(self) -> None:
        """Wait for all records, then commit. After RequestTimedOut, or when it was cancelled, the outcome is not known yet:
        call it again (IllegalState then says that it has ended). It goes on meanwhile, and `stop` waits for it;
        ProducerStopped where that does not wait so long: nobody knows the outcome."""
        self._check_transactional()
        await self._complete(self._manager.begin_commit())
        self._sender.counts.committed_transaction_count += 1

    async def abort_transaction(self) -> None:
        """Abort; records that were not sent yet fail. After RequestTimedOut call it again."""
        self._check_transactional()
        await self._complete(self._manager.begin_abort())
        self._sender.counts.aborted_transaction_count += 1

    async def prepare_transaction(self, timeout_ms: int | None = None) -> PreparedTxnState:
        """Flush, then promise to wait for an outside decision (KIP-939). Store the state with that decision.
        TimeoutError where the flush takes longer than `timeout_ms`: nothing is prepared, the transaction goes on."""
        self._check_transactional()
        self._manager.check_in_transaction("prepare_transaction")
        limit_ms = arguments.duration_ms_or_none("timeout_ms", timeout_ms)
        async with asyncio.timeout(limit_ms and limit_ms / 1000):
            await self.flush()
        state = self._manager.prepare()
        self._tracing.prepared()
        return state

    async def complete_transaction(self, state: PreparedTxnState) -> None:
        """Commit if `state` is the prepared transaction, else abort it; nothing where none was kept."""
        self._check_transactional()
        was_prepared = self._manager.prepared_state
        await self._complete(self._manager.begin_complete(checked_state(state)))
        if was_prepared == state and not was_prepared.is_none:
            self._sender.counts.committed_transaction_count += 1
        elif not was_prepared.is_none:
            self._sender.counts.aborted_transaction_count += 1

    async def detach_transaction(self) -> PreparedTxnState:
        """Flush and leave the transaction open: another process ends it with `Admin.end_transaction`.

        The broker's transaction timeout runs on. The state is none where nothing was sent. Needs transaction.version 2.
        """
        self._check_transactional()
        self._manager.check_in_transaction("detach_transaction")
        await self.flush()
        state = self._manager.suspend()
        self._tracing.end("detached")
        return state

    @property
    def prepared_state(self) -> PreparedTxnState:
        """The prepared (or kept) transaction; none where there is none."""
        return self._manager.prepared_state

    @property
    def announced_state(self) -> PreparedTxnState:
        """What `prepare_transaction` will give, if it succeeds; none where no transaction is open, or it has failed."""
        is_open = self._manager.state is TransactionState.IN_TRANSACTION
        return PreparedTxnState.of(*self._manager.identity) if is_open else PreparedTxnState()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata | int], group: GroupMetadata | str
    ) -> None:
        """Commit positions of a consumer group with the transaction; `group` is `consumer.group_metadata()`."""
        self._check_transactional()
        await self._wait(self._manager.send_offsets(arguments.offsets("offsets", offsets), checked_group(group)))

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Self]:
        """Commit at the end of the block; abort when it raises. A prepared transaction is left prepared.

        Where the end of the one before was cancelled, or its abort not done in time, that is waited for first.
        """
        await self._end_what_was_cancelled()
        self.begin_transaction()
        try:
            yield self
            if self._manager.is_in_transaction and self._manager.state is not TransactionState.PREPARED_TRANSACTION:
                await self.commit_transaction()
        except BaseException as error:
            if self._manager.state in _OPEN and not self._is_stopped:
                await self._abort_quietly(arguments.stop_timeout_ms(type(error)))
            raise

    async def _end_what_was_cancelled(self) -> None:
        unfinished, self._cancelled_end = self._cancelled_end, None
        if unfinished is None or unfinished is not self._manager.unfinished_end:
            return
        try:
            await self._complete(unfinished)
        except KafkaError:
            self._cancelled_end = self._manager.unfinished_end
            if self._manager.state in _OPEN:
                await self._abort_quietly()
            raise

    async def _abort_quietly(self, patience_ms: int | None = None) -> None:
        try:
            async with asyncio.timeout(patience_ms and patience_ms / 1000):
                await self.abort_transaction()
        except (KafkaError, TimeoutError) as error:
            self._cancelled_end = self._manager.unfinished_end
            why = str(error) or f"not done within {patience_ms} ms; the next one, or `stop`, waits for it"
            log.warning("the transaction could not be aborted: %s", why)

    def _check_transactional(self) -> None:
        if not self._manager.is_transactional:
            raise IllegalState("transactions need a transactional_id")
        self._check_home()
        if self._is_stopped or not self._is_started:
            raise IllegalState(self._why_not_running())

    def _why_not_running(self) -> str:
        return NOT_STARTED if not self._is_started else START_FAILED if self._start_failed else STOPPED

    _cancelled_end: PendingResult | None = None

    async def _complete(self, result: PendingResult) -> None:
        self._accumulator.begin_flush()
        try:
            with self._tracing.ending(self._manager.state):
                await self._wait(result)
        except asyncio.CancelledError:
            self._cancelled_end = result  # it goes on; the next transaction, or the stop, waits for it
            raise
        finally:
            self._accumulator.end_flush()

    async def _wait(self, result: PendingResult) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        result.when_done(lambda: None if ended.done() else ended.set_result(None))
        self._sender.wake()
        limit = self._config.max_block_ms
        result.waiter_count += 1
        try:
            async with asyncio.timeout(Deadline(limit, result.name).left_ms / 1000):
                await ended
        except TimeoutError as error:
            what = waits_for(self._accumulator, self._manager)
            raise RequestTimedOut(f"{result.name} not done within max_block_ms={limit}; waiting for {what}") from error
        finally:
            result.waiter_count -= 1
        self._manager.result_taken(result)
        if result.error is not None:
            raise again(result.error)

    # -- what is known

    def metrics(self) -> ProducerMetrics:
        """What this producer counted since it was made; asks no broker. See also `stats_cb`."""
        counts = self._sender.counts
        return ProducerMetrics(
            client_id=self._config.client_id,
            transaction_state=self._manager.state.name,
            incomplete_record_count=sum(batch.record_count for batch in self._accumulator.incomplete()),
            buffered_bytes=self._accumulator.used_bytes,
            requests_in_flight_count=self._sender.requests_in_flight_count,
            **vars(counts),
            brokers=self._cluster.traffic.snapshot(),
        )

    async def partitions_for(self, topic: str) -> list[int]:
        """The partitions of a topic."""
        self._check_home()
        return sorted((await self._sending.topic(topic, may_create=False)).partitions)
