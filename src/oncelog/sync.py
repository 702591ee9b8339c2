"""The clients without async: the same names, for scripts, notebooks, threads and Spark workers.

One background thread per process runs an event loop for all of them, so a loop that already runs here (a notebook) does
not matter. A client belongs to the process that made it: after a fork it refuses to work, a new one works. A producer that
nobody stopped is stopped when the interpreter ends (not by a signal that kills it): what it has is sent, or it is said.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterable, Iterator, Mapping, Sequence
from functools import partial
from threading import get_ident
from typing import Any, Concatenate, Generic, ParamSpec, Self, TypeVar, Unpack

from oncelog.client import arguments
from oncelog.client.admin.admin import Admin as AsyncAdmin
from oncelog.client.consumer.consumer import POLL_TIMEOUT_MS
from oncelog.client.consumer.consumer import Consumer as AsyncConsumer
from oncelog.client.consumer.group import RebalanceListener
from oncelog.client.consumer.iteration import Lent
from oncelog.client.delivery import Delivery
from oncelog.client.ending import behind
from oncelog.client.metrics import ProcessMetrics
from oncelog.client.option_types import (
    AdminOptions,
    ConsumerOptions,
    ProcessOptions,
    ProducerOptions,
    ShareConsumerOptions,
)
from oncelog.client.processing.blocking import ThreadProcessor
from oncelog.client.producer.producer import Headers
from oncelog.client.producer.producer import Producer as AsyncProducer
from oncelog.client.records import ConsumerRecord, RecordMetadata, ShareRecord
from oncelog.client.sharing.share_consumer import ShareConsumer as AsyncShareConsumer
from oncelog.errors import IllegalState, KafkaError
from oncelog.host.loop_thread import BEFORE_A_FORK, BegunCall, Call, LoopThread, called_beside, loop_thread
from oncelog.host.tasks import Tasks
from oncelog.types import PreparedTxnState, TopicPartition

P = ParamSpec("P")
T = TypeVar("T")
C = TypeVar("C", AsyncProducer, AsyncConsumer, AsyncShareConsumer, AsyncAdmin)

__all__ = ["Admin", "Consumer", "Processor", "Producer", "ShareConsumer", "process"]


class _Blocking(Generic[C]):
    """A client and the thread it lives in."""

    _client: C
    _owner: LoopThread

    def __init__(self, make: Callable[[], C]) -> None:
        self._owner = loop_thread()

        async def made() -> C:
            return make()

        self._client = self._owner.call(made)
        if isinstance(self._client, AsyncProducer):
            self._owner.hear_at_exit(self._client)

    def _call(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._here().call(function, *args, **kwargs)

    def _here(self) -> LoopThread:
        if os.getpid() != self._owner.process_id:
            raise IllegalState(BEFORE_A_FORK)
        return self._owner

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, left_by: type[BaseException] | None, *_: object) -> None:
        with behind(left_by):
            self._stop_within(arguments.stop_timeout_ms(left_by))

    def _stop_within(self, _timeout_ms: int | None) -> None:
        """The end of a `with`."""
        self.stop()

    def start(self) -> None:
        """As the async client's."""
        self._call(self._client.start)

    def stop(self) -> None:
        """As the async client's. In a forked child nothing: the connections are the parent's."""
        if os.getpid() == self._owner.process_id:
            self._call(self._client.stop)


def _blocking(
    method: Callable[Concatenate[Any, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[_Blocking[Any], P], T]:
    """The blocking form of an async method."""

    def call(self: _Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._call(method, self._client, *args, **kwargs)

    call.__name__, call.__qualname__, call.__doc__ = method.__name__, method.__qualname__, method.__doc__
    return call


def _in_loop(method: Callable[Concatenate[Any, P], T]) -> Callable[Concatenate[_Blocking[Any], P], T]:
    """A method that does not wait, run in the client's own thread, where its state is touched."""

    def call(self: _Blocking[Any], /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def run() -> T:
            return method(self._client, *args, **kwargs)

        return self._call(run)

    call.__name__, call.__qualname__, call.__doc__ = method.__name__, method.__qualname__, method.__doc__
    return call


class SentRecord:
    """What `Producer.send` gives: `result()` waits for the RecordMetadata, or raises the record's error."""

    __slots__ = ("_delivery", "_owner")

    def __init__(self, delivery: Delivery, owner: LoopThread) -> None:
        self._delivery, self._owner = delivery, owner

    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._delivery.done()

    @property
    def error(self) -> KafkaError | None:
        """The error of a failed record; None for one that was acknowledged, or whose outcome is not known yet."""
        return self._delivery.error

    def add_done_callback(self, callback: Callable[[SentRecord], None]) -> None:
        """Call back once the outcome is known: `result()` has it then. From the clients' own thread, where a blocking call of
        a client would wait for itself."""
        self._owner.loop.call_soon_threadsafe(self._delivery.add_done_callback, lambda _: callback(self))

    def result(self, timeout_ms: int | None = None) -> RecordMetadata:
        """Wait for the outcome. Raises TimeoutError after `timeout_ms`."""

        async def wait() -> RecordMetadata:
            try:
                async with asyncio.timeout(None if timeout_ms is None else timeout_ms / 1000):
                    return await self._delivery
            except TimeoutError:
                raise TimeoutError(f"no outcome within {timeout_ms} ms; the record is still on its way") from None

        return self._delivery.result() if self._delivery.done() else self._owner.call(wait)


def _nobody_waits(_error: BaseException | None) -> None:
    """For the end of it."""


class Begun:
    """A call that runs in the clients' thread while its caller goes on."""

    def __init__(self, call: BegunCall, owner: LoopThread) -> None:
        self._begun, self._owner = call, owner

    def wait(self, timeout_ms: int | None = None) -> bool:
        """Whether it ends within `timeout_ms`. An interrupt ends the waiting only. Raises IllegalState after a fork."""
        if os.getpid() != self._owner.process_id:
            raise IllegalState(BEFORE_A_FORK)
        if not self._begun.has_ended:
            self._owner.check_thread()
        return self._begun.wait(-1 if timeout_ms is None else timeout_ms / 1000)

    def error(self) -> BaseException | None:
        """What it raised; to be asked when it has ended."""
        return self._begun.error()


class Producer(_Blocking[AsyncProducer]):
    """`oncelog.Producer` without async."""

    def __init__(self, **config: Unpack[ProducerOptions]) -> None:
        super().__init__(lambda: AsyncProducer(**config))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        made = cls.__new__(cls)
        _Blocking.__init__(made, lambda: AsyncProducer.from_config(config, **more))
        return made

    def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> SentRecord:
        """Buffer one record; `result()` of what it gives waits for the acknowledgement, `add_done_callback` does not.

        Where its batch is open and has room the record is put into it here, in the caller's thread. After RecordTooLarge
        an open transaction can only be aborted.
        """
        beside = self._append_beside
        sent = beside(topic, value, key, headers, partition, timestamp_ms) if beside and self._owner.is_here else None
        if sent is None:
            sent = self._call(self._client.send, topic, value, key, headers, partition, timestamp_ms)
            self._append_beside = self._client.append_beside
        return SentRecord(sent, self._owner)

    _append_beside: Callable[..., Delivery | None] | None = None

    def send_many(
        self, topic: str, records: Iterable[tuple[Any, Any]], *, partition: int | None = None
    ) -> list[SentRecord]:
        """Buffer (key, value) pairs: one change of threads for all of them. As the async client's: after RecordTooLarge an
        open transaction can only be aborted."""
        sent = self._call(self._client.send_many, topic, records, partition=partition)
        return [SentRecord(each, self._owner) for each in sent]

    def stop(self, timeout_ms: int | None = None) -> None:
        """As the async client's. In a forked child nothing: the connections are the parent's."""
        if os.getpid() == self._owner.process_id:
            self._call(self._client.stop, timeout_ms)

    def _stop_within(self, timeout_ms: int | None) -> None:
        self.stop(timeout_ms)

    def send_soon(self) -> None:
        """As the async client's; does not wait for the clients' thread."""
        if os.getpid() == self._owner.process_id:
            self._owner.loop.call_soon_threadsafe(self._client.send_soon)

    send_and_wait = _blocking(AsyncProducer.send_and_wait)
    send_arrow = _blocking(AsyncProducer.send_arrow)
    flush = _blocking(AsyncProducer.flush)
    purge = _in_loop(AsyncProducer.purge)
    metrics = _in_loop(AsyncProducer.metrics)
    client_instance_id = _blocking(AsyncProducer.client_instance_id)
    init_transactions = _blocking(AsyncProducer.init_transactions)
    begin_transaction = _in_loop(AsyncProducer.begin_transaction)
    commit_transaction = _blocking(AsyncProducer.commit_transaction)
    abort_transaction = _blocking(AsyncProducer.abort_transaction)
    prepare_transaction = _blocking(AsyncProducer.prepare_transaction)
    complete_transaction = _blocking(AsyncProducer.complete_transaction)

    def begin_completing(
        self, state: PreparedTxnState, when_ended: Callable[[BaseException | None], None] | None = None
    ) -> Begun:
        """`complete_transaction` without waiting for it. Until it has ended nothing else may be called but `stop`.

        `when_ended` is called with what it raised, in the clients' thread.
        """
        owner = self._here()
        ended = when_ended or _nobody_waits
        return Begun(owner.begin(partial(self._client.complete_transaction, state), ended), owner)

    detach_transaction = _blocking(AsyncProducer.detach_transaction)
    send_offsets_to_transaction = _blocking(AsyncProducer.send_offsets_to_transaction)
    partitions_for = _blocking(AsyncProducer.partitions_for)

    @property
    def prepared_state(self) -> PreparedTxnState:
        """The prepared (or kept) transaction; none where there is none."""
        return self._client.prepared_state

    @property
    def announced_state(self) -> PreparedTxnState:
        """As the async client's."""
        return self._client.announced_state

    @contextlib.contextmanager
    def transaction(self) -> Generator[Self, None, None]:
        """Commit at the end of the block; abort when it raises. A prepared transaction is left prepared."""
        before, block = self._block, _Block(self._client.transaction())
        if before is None or before.error is not None:
            self._block = block  # else somebody is inside of that one, and this one is refused
        try:
            self._call(block.enter, before)
            yield self
            self._call(block.leave)
        except BaseException as error:
            block.error = error
            self._call(block.leave)
            raise
        finally:
            if block.is_ended and self._block is block:
                self._block = None

    _block: _Block | None = None


class _Block:
    """A transaction's block, entered and left in the clients' thread; `error`: what ended it.

    An interrupt may come anywhere, also before a call has begun or behind it, when nobody was told: what was entered and
    not left is left by the next transaction.
    """

    def __init__(self, context: contextlib.AbstractAsyncContextManager[Any]) -> None:
        self._context = context
        self._turn = asyncio.Lock()
        self._is_entered = self._is_left = False
        self.is_ended = False
        self.error: BaseException | None = None

    async def enter(self, before: _Block | None) -> None:
        if before is not None and before.error is not None:
            await before.leave()
        async with self._turn:
            await self._context.__aenter__()
            self._is_entered = True

    async def leave(self) -> None:
        async with self._turn:
            if not self._is_entered or self._is_left:
                self.is_ended = True
                return
            self._is_left = True
            error = self.error
            try:
                await self._context.__aexit__(
                    type(error) if error else None, error, error.__traceback__ if error else None
                )
            except BaseException as raised:
                if raised is not error:
                    raise
            finally:
                self.is_ended = True


class _Beside(RebalanceListener):
    """A listener of the application's, called where blocking calls of its consumer are answered: not in the clients' thread."""

    def __init__(self, listener: RebalanceListener) -> None:
        self._listener = listener
        self._running: asyncio.Task[None] | None = None
        self._tasks = Tasks()

    async def on_partitions_revoked(self, revoked: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_partitions_revoked, revoked)

    async def on_partitions_assigned(self, assigned: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_partitions_assigned, assigned)

    async def on_partitions_lost(self, lost: Sequence[TopicPartition]) -> None:
        await self._call(self._listener.on_partitions_lost, lost)

    async def _call(
        self, method: Callable[[Sequence[TopicPartition]], Awaitable[None] | None], partitions: Sequence[TopicPartition]
    ) -> None:
        if inspect.iscoroutinefunction(method):
            await method(partitions)
            return
        while self._running is not None and not self._running.done():  # of a poll that was interrupted
            await asyncio.wait((self._running,))
        self._running = self._tasks.start(self._called(method, partitions), name="oncelog-listener")
        await asyncio.shield(self._running)

    async def _called(
        self, method: Callable[[Sequence[TopicPartition]], Awaitable[None] | None], partitions: Sequence[TopicPartition]
    ) -> None:
        answer = await called_beside(lambda: method(partitions), name="oncelog-listener")
        if answer is not None:
            await answer


class Consumer(_Blocking[AsyncConsumer]):
    """`oncelog.Consumer` without async; iterate it with `for record in consumer`."""

    def __init__(self, *topics: str, **config: Unpack[ConsumerOptions]) -> None:
        super().__init__(lambda: AsyncConsumer(*topics, **config))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *topics: str, **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        made = cls.__new__(cls)
        _Blocking.__init__(made, lambda: AsyncConsumer.from_config(config, *topics, **more))
        return made

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return self

    def __next__(self) -> ConsumerRecord:
        client, owner = self._client, self._owner
        lent = client.lent  # for every record: what `_lent` asks is asked here, a call less
        if lent is not None and not client.is_woken and owner.is_here and get_ident() != owner.thread_id:
            record = lent.take()
            if record is not None:
                return record
        try:
            return self._call(self._client.next_and_lend)
        except StopAsyncIteration:  # another thread stopped it
            raise StopIteration from None

    def poll(self, timeout_ms: int = POLL_TIMEOUT_MS, max_records: int | None = None) -> list[ConsumerRecord]:
        """As the async client's. What is left of a batch is handed out without a change of threads."""
        lent = self._lent()
        is_right = timeout_ms.__class__ is int and (max_records is None or max_records.__class__ is int)
        if lent is not None and is_right and timeout_ms >= 0 and (max_records is None or max_records > 0):
            records = lent.take_many(max_records)
            if records and lent.is_over:  # taken back by another thread's call meanwhile
                self._in_client(lambda: self._client.polled(records[-1]))
            if records:
                return records
        return self._call(self._client.poll_and_lend, timeout_ms, max_records)

    def _lent(self) -> Lent | None:
        lent = self._client.lent
        if lent is None or self._client.is_woken:
            return None
        return lent if self._owner.is_here and not self._owner.is_this_thread() else None

    def _call(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._here().call(self._behind_lent, function, *args, **kwargs)

    async def _behind_lent(
        self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
    ) -> T:
        self._client.take_back()
        return await function(*args, **kwargs)

    def subscribe(
        self, topics: Iterable[str] = (), *, pattern: str | None = None, listener: RebalanceListener | None = None
    ) -> None:
        """Read these topics, or those whose whole name matches `pattern`. The listener runs in a thread of its own while this
        consumer's `poll` waits for it: it may call `commit` and the like. An async one runs in the clients' thread, and may not.
        """
        heard = _Beside(listener) if isinstance(listener, RebalanceListener) else listener
        self._in_client(lambda: self._client.subscribe(topics, pattern=pattern, listener=heard))

    def _in_client(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self._call(run)

    def stop(self, timeout_ms: int | None = None) -> None:
        """As the async client's. In a forked child nothing: the connections are the parent's."""
        if os.getpid() == self._owner.process_id:
            self._call(self._client.stop, timeout_ms)

    def _stop_within(self, timeout_ms: int | None) -> None:
        self.stop(timeout_ms)

    def wakeup(self) -> None:
        """As the async client's, from any thread, also from a signal handler; does not wait. In a forked child nothing."""
        if os.getpid() == self._owner.process_id:
            self._client.wakeup()

    unsubscribe = _in_loop(AsyncConsumer.unsubscribe)
    assign = _in_loop(AsyncConsumer.assign)
    assignment = _in_loop(AsyncConsumer.assignment)
    subscription = _in_loop(AsyncConsumer.subscription)
    poll_arrow = _blocking(AsyncConsumer.poll_arrow)
    seek = _in_loop(AsyncConsumer.seek)
    seek_to_beginning = _blocking(AsyncConsumer.seek_to_beginning)
    seek_to_end = _blocking(AsyncConsumer.seek_to_end)
    seek_to_timestamp = _blocking(AsyncConsumer.seek_to_timestamp)
    position = _blocking(AsyncConsumer.position)
    pause = _in_loop(AsyncConsumer.pause)
    resume = _in_loop(AsyncConsumer.resume)
    paused = _in_loop(AsyncConsumer.paused)
    current_positions = _in_loop(AsyncConsumer.current_positions)
    commit = _blocking(AsyncConsumer.commit)
    committed = _blocking(AsyncConsumer.committed)
    group_metadata = _in_loop(AsyncConsumer.group_metadata)
    beginning_offsets = _blocking(AsyncConsumer.beginning_offsets)
    end_offsets = _blocking(AsyncConsumer.end_offsets)
    lag = _blocking(AsyncConsumer.lag)
    at_end = _blocking(AsyncConsumer.at_end)
    offsets_for_times = _blocking(AsyncConsumer.offsets_for_times)
    partitions_for_topic = _blocking(AsyncConsumer.partitions_for_topic)
    topics = _blocking(AsyncConsumer.topics)
    metrics = _in_loop(AsyncConsumer.metrics)
    client_instance_id = _blocking(AsyncConsumer.client_instance_id)


class ShareConsumer(_Blocking[AsyncShareConsumer]):
    """`oncelog.ShareConsumer` without async; iterate it with `for record in consumer`."""

    def __init__(self, *topics: str, **config: Unpack[ShareConsumerOptions]) -> None:
        super().__init__(lambda: AsyncShareConsumer(*topics, **config))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], *topics: str, **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        made = cls.__new__(cls)
        _Blocking.__init__(made, lambda: AsyncShareConsumer.from_config(config, *topics, **more))
        return made

    def __iter__(self) -> Iterator[ShareRecord]:
        return self

    def __next__(self) -> ShareRecord:
        async def following() -> ShareRecord | None:
            try:
                return await self._client.__anext__()
            except StopAsyncIteration:
                return None

        record = self._call(following)
        if record is None:
            raise StopIteration
        return record

    def stop(self, timeout_ms: int | None = None) -> None:
        """As the async client's. In a forked child nothing: the connections are the parent's."""
        if os.getpid() == self._owner.process_id:
            self._call(self._client.stop, timeout_ms)

    def _stop_within(self, timeout_ms: int | None) -> None:
        self.stop(timeout_ms)

    subscribe = _in_loop(AsyncShareConsumer.subscribe)
    poll = _blocking(AsyncShareConsumer.poll)
    acknowledge = _in_loop(AsyncShareConsumer.acknowledge)
    commit = _blocking(AsyncShareConsumer.commit)


class Processor(ThreadProcessor):
    """`oncelog.Processor` without async; the transform is called by the thread that calls `run`."""

    def __init__(self, topics: str | Iterable[str], **options: Unpack[ProcessOptions]) -> None:
        super().__init__(loop_thread(), Call, topics, options)


def process(topics: str | Iterable[str], **options: Unpack[ProcessOptions]) -> ProcessMetrics:
    """`oncelog.process` without async: reads `topics`, calls `transform` in this thread, writes exactly once."""
    return Processor(topics, **options).run()


class Admin(_Blocking[AsyncAdmin]):
    """`oncelog.Admin` without async."""

    def __init__(self, **config: Unpack[AdminOptions]) -> None:
        super().__init__(lambda: AsyncAdmin(**config))

    @classmethod
    def from_config(cls, config: Mapping[str, Any], **more: Any) -> Self:
        """From Kafka's dotted keys; `more` are keyword arguments beside them."""
        made = cls.__new__(cls)
        _Blocking.__init__(made, lambda: AsyncAdmin.from_config(config, **more))
        return made

    client_instance_id = _blocking(AsyncAdmin.client_instance_id)
    describe_cluster = _blocking(AsyncAdmin.describe_cluster)
    describe_features = _blocking(AsyncAdmin.describe_features)
    update_features = _blocking(AsyncAdmin.update_features)
    create_topics = _blocking(AsyncAdmin.create_topics)
    delete_topics = _blocking(AsyncAdmin.delete_topics)
    create_partitions = _blocking(AsyncAdmin.create_partitions)
    list_topics = _blocking(AsyncAdmin.list_topics)
    describe_topics = _blocking(AsyncAdmin.describe_topics)
    list_offsets = _blocking(AsyncAdmin.list_offsets)
    offline_coordinators = _blocking(AsyncAdmin.offline_coordinators)
    delete_records = _blocking(AsyncAdmin.delete_records)
    describe_configs = _blocking(AsyncAdmin.describe_configs)
    describe_broker_configs = _blocking(AsyncAdmin.describe_broker_configs)
    alter_configs = _blocking(AsyncAdmin.alter_configs)
    list_config_resources = _blocking(AsyncAdmin.list_config_resources)
    describe_acls = _blocking(AsyncAdmin.describe_acls)
    create_acls = _blocking(AsyncAdmin.create_acls)
    delete_acls = _blocking(AsyncAdmin.delete_acls)
    describe_client_quotas = _blocking(AsyncAdmin.describe_client_quotas)
    alter_client_quotas = _blocking(AsyncAdmin.alter_client_quotas)
    describe_user_scram_credentials = _blocking(AsyncAdmin.describe_user_scram_credentials)
    alter_user_scram_credential = _blocking(AsyncAdmin.alter_user_scram_credential)
    create_delegation_token = _blocking(AsyncAdmin.create_delegation_token)
    renew_delegation_token = _blocking(AsyncAdmin.renew_delegation_token)
    expire_delegation_token = _blocking(AsyncAdmin.expire_delegation_token)
    describe_delegation_tokens = _blocking(AsyncAdmin.describe_delegation_tokens)
    describe_log_dirs = _blocking(AsyncAdmin.describe_log_dirs)
    describe_metadata_quorum = _blocking(AsyncAdmin.describe_metadata_quorum)
    elect_leaders = _blocking(AsyncAdmin.elect_leaders)
    list_groups = _blocking(AsyncAdmin.list_groups)
    describe_groups = _blocking(AsyncAdmin.describe_groups)
    delete_groups = _blocking(AsyncAdmin.delete_groups)
    list_consumer_group_offsets = _blocking(AsyncAdmin.list_consumer_group_offsets)
    list_share_group_offsets = _blocking(AsyncAdmin.list_share_group_offsets)
    alter_share_group_offsets = _blocking(AsyncAdmin.alter_share_group_offsets)
    delete_share_group_offsets = _blocking(AsyncAdmin.delete_share_group_offsets)
    list_pending_offset_commits = _blocking(AsyncAdmin.list_pending_offset_commits)
    alter_consumer_group_offsets = _blocking(AsyncAdmin.alter_consumer_group_offsets)
    delete_consumer_group_offsets = _blocking(AsyncAdmin.delete_consumer_group_offsets)
    list_transactions = _blocking(AsyncAdmin.list_transactions)
    describe_transactions = _blocking(AsyncAdmin.describe_transactions)
    describe_producers = _blocking(AsyncAdmin.describe_producers)
    end_transaction = _blocking(AsyncAdmin.end_transaction)
    abort_transaction = _blocking(AsyncAdmin.abort_transaction)
    fence_producers = _blocking(AsyncAdmin.fence_producers)
    force_terminate_transaction = _blocking(AsyncAdmin.force_terminate_transaction)
    find_hanging_transactions = _blocking(AsyncAdmin.find_hanging_transactions)
    why_owners_may_be_hidden = _blocking(AsyncAdmin.why_owners_may_be_hidden)
