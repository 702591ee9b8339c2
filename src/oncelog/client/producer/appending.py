"""The way of most records into the buffer: nothing to wait for, nothing to refuse.

Compiled by Cython where a compiler is there (`appending.pxd` has the C types), the same source in plain Python else.
Rule: what is not plainly right is not judged here. `append` gives None then, nothing was taken, and the producer's slower
way, which knows every case, waits or says what is wrong.

Other threads than the loop's put records into batches that are open and have room (`append_beside`), without a lock: from
the look at the producer's state to the record's being there nothing runs but C, so the loop's thread sees all of it or
nothing (under the GIL), and so does an interrupt. Without the compiled code they go the slower way.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, _get_running_loop
from collections.abc import Callable, Mapping
from typing import Any

from oncelog.client.cluster.view import ClusterView, TopicView
from oncelog.client.delivery import Delivery
from oncelog.client.producer.arguments import Headers, header_pairs
from oncelog.core.producer.accumulator import RecordAccumulator
from oncelog.core.producer.batch import RECORD_OVERHEAD_BYTES, ProducedRecord, record_size_bytes
from oncelog.core.producer.partitioner import Partitioner, StickyPartitioner
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.errors import InvalidArgument
from oncelog.host.clock import RealClock, time_ns
from oncelog.types import TopicPartition

try:
    import cython
except ImportError:
    from oncelog.wire import uncompiled as cython

if not cython.compiled:  # compiled, they come as C functions through the .pxd
    from oncelog.client.delivery import delivery_of
    from oncelog.wire.murmur2 import murmur2
    from oncelog.wire.record_codec import encode_headers

# C variables when compiled, so not for others to import.
IN_TRANSACTION = TransactionState.IN_TRANSACTION
ABORTABLE_ERROR = TransactionState.ABORTABLE_ERROR
FATAL_ERROR = TransactionState.FATAL_ERROR
TIMESTAMP_MAX_MS = 0x7FFFFFFFFFFFFFFF
RECORD_BYTES = RECORD_OVERHEAD_BYTES
NO_HEADERS = b"\x00"
KEYLESS = -2


class Lane:
    """What was found out about a topic, for as long as its metadata stays: where its records go, without asking again."""

    def __init__(self, topic: str, view: TopicView, topics: dict[str, TopicView]) -> None:
        self.topic = topic
        self.topics = topics  # those of the cluster's view, which are never changed, but exchanged whole
        self.view = view
        self.partition_count = len(view.partitions)
        self.partitions = [TopicPartition(topic, number) for number in range(self.partition_count)]
        self.keyless_partition = -1
        self.keyless_left_bytes = 0  # until keyless records go to another partition


class Appender:
    """Puts records into the accumulator's open batches."""

    def __init__(
        self,
        view: ClusterView,
        manager: TransactionManager,
        accumulator: RecordAccumulator,
        sticky: StickyPartitioner,
        *,
        choose_partition: Partitioner,
        is_javas: bool,
        batch_size_bytes: int,
        record_size_bytes_max: int,
        now_ms: Callable[[], int],
        loop_now_ms: Callable[[], float],
        wake: Callable[[], None],
    ) -> None:
        self.view, self.manager, self.accumulator, self.sticky = view, manager, accumulator, sticky
        self.open = accumulator.open
        self.choose_partition, self.is_javas = choose_partition, is_javas
        self.batch_size_bytes, self.record_size_bytes_max = batch_size_bytes, record_size_bytes_max
        self.now_ms, self.loop_now_ms, self.wake = now_ms, loop_now_ms, wake
        self.is_real_time = getattr(now_ms, "__func__", None) is RealClock.now_ms
        self.is_transactional = manager.is_transactional
        self.home: AbstractEventLoop | None = None
        self.lanes: dict[str, Lane] = {}
        self.owes_turn = False  # a record has begun or ended a batch: a loop that only sends must let the sender run

    def append(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> Delivery | None:
        """Take a record whose batch is open; None where it is not as simple as that, and nothing was taken."""
        return self.taken(topic, value, key, headers, partition, timestamp_ms, False) if self.is_home() else None

    def append_beside(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> Delivery | None:
        """`append` of any other thread: only where the batch is open and has room."""
        if not cython.compiled or self.is_home_thread():
            return None
        return self.taken(topic, value, key, headers, partition, timestamp_ms, True)

    def taken(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any, is_beside: bool
    ) -> Delivery | None:
        if type(topic) is not str:
            return None
        lane = self.lanes.get(topic)
        if lane is None or lane.topics is not self.view.topics:
            lane = None if is_beside else self.new_lane(topic)
            if lane is None:
                return None
        pairs = () if headers is None else checked_pairs(headers)
        if pairs is None or not is_content(key) or not is_content(value):
            return None
        size_bytes = record_size_bytes(key, value, pairs) if pairs else RECORD_BYTES + size_of(key) + size_of(value)
        if size_bytes > self.record_size_bytes_max:
            return None
        if timestamp_ms is None:
            moment_ms = self.moment_ms()
        elif type(timestamp_ms) is not int or not 0 <= timestamp_ms <= TIMESTAMP_MAX_MS:
            return None
        else:
            moment_ms = timestamp_ms
        section = bytes(encode_headers(pairs)) if pairs else NO_HEADERS
        number = self.partition_of(lane, key, partition)
        is_keyless = number == KEYLESS
        if is_keyless:
            number = self.keyless_partition(lane, size_bytes, is_beside)
        if number < 0:
            return None
        where = lane.partitions[number]
        # From here to the record's being there nothing may run but C: no call of Python code, nothing for the collector.
        if not self.takes_records():
            return None
        batch = self.open.get(where)
        if batch is None or batch.size_bytes + size_bytes >= batch.limit_bytes:  # also who fills it: it is closed then
            return None if is_beside else self.append_slowly(where, moment_ms, key, value, pairs, size_bytes)
        try:
            index = batch.put(moment_ms, key, value, section, size_bytes)
        except OverflowError:  # 64 bits cannot hold how far it is from the batch's first: in another batch they can
            return None if is_beside else self.append_slowly(where, moment_ms, key, value, pairs, size_bytes)
        if is_beside and is_keyless:
            lane.keyless_left_bytes -= size_bytes
        return delivery_of(batch, index, moment_ms)

    def append_slowly(
        self, where: TopicPartition, timestamp_ms: Any, key: Any, value: Any, pairs: Any, size_bytes: int
    ) -> Delivery | None:
        """Where a batch begins, is full, or has used its room; None where there is none."""
        if not self.accumulator.has_room(size_bytes):
            return None
        return self.put(where, (timestamp_ms, key, value, pairs), size_bytes)

    def put(self, where: TopicPartition, record: ProducedRecord, size_bytes: int) -> Delivery:
        """Take a record that may be sent, and for which there is room."""
        if self.is_transactional:
            self.manager.add_partition(where)
        batch, index = self.accumulator.append(where, record, size_bytes, self.loop_now_ms())
        if index == 0:
            batch.home = self.home
        if index == 0 or batch.is_closed:
            self.owes_turn = True
            self.wake()
        return Delivery(batch, index, record[0])

    def moment_ms(self) -> int:
        """Now. The machine's clock is read without its door: that costs as much again as the clock."""
        if not self.is_real_time:
            return self.now_ms()
        now_ns = time_ns()
        return now_ns // 1_000_000

    def begin(self, home: AbstractEventLoop) -> None:
        """From now on records are taken, in this event loop."""
        self.home = home
        self.home_is_running = home.is_running
        if cython.compiled:
            self.home_thread = PyThread_get_thread_ident()  # type: ignore[name-defined] # noqa: F821

    def end(self) -> None:
        """No more records are taken."""
        self.home = None

    def takes_records(self) -> bool:
        """Whether the producer takes records now."""
        state = self.manager.state
        if self.is_transactional:
            return self.home is not None and state is IN_TRANSACTION
        return self.home is not None and state is not ABORTABLE_ERROR and state is not FATAL_ERROR

    def is_home(self) -> bool:
        """Whether the producer's loop runs in this thread."""
        if self.home is None:
            return False
        if cython.compiled:  # a third of what asking for the running loop costs
            return self.is_home_thread() and bool(self.home_is_running())
        return _get_running_loop() is self.home

    def is_home_thread(self) -> bool:
        thread = PyThread_get_thread_ident()  # type: ignore[name-defined] # noqa: F821
        return thread == self.home_thread  # type: ignore[no-any-return]

    def new_lane(self, topic: str) -> Lane | None:
        """The lane of a topic under new metadata; None where the slower way has to look at it."""
        view = self.view.topics.get(topic)
        known = self.lanes.get(topic)
        if known is not None and known.view is view:
            known.topics = self.view.topics
            return known
        for gone in [each for each in self.lanes if each == topic or each not in self.view.topics]:
            del self.lanes[gone]
        if view is None or not view.can_be_written:
            return None
        if sorted(view.partitions) != list(range(len(view.partitions))):
            return None  # the broker does not know all of them
        lane = self.lanes[topic] = Lane(topic, view, self.view.topics)
        return lane

    def forget(self, topics: Any) -> None:
        """Nothing was sent to these for long."""
        for topic in topics:
            self.lanes.pop(topic, None)

    def partition_of(self, lane: Lane, key: Any, partition: Any) -> int:
        """The partition of a record; -1 where the slower way has to say what is wrong, -2 where nobody chose one."""
        count = lane.partition_count
        if partition is not None:
            if type(partition) is not int or not 0 <= partition < count:
                return -1
            return int(partition)
        if self.is_javas:
            if key is not None:
                return (murmur2(key) & 0x7FFFFFFF) % count
        else:
            chosen: Any = self.choose_partition(key, count)
            if chosen is not None:
                if type(chosen) is not int or not 0 <= chosen < count:
                    return -1
                return chosen
        return KEYLESS

    def keyless_partition(self, lane: Lane, size_bytes: int, is_beside: bool) -> int:
        """One for a batch's worth; who is beside only follows, and counts what it adds when it has added it."""
        if is_beside:
            return lane.keyless_partition if lane.keyless_left_bytes > 0 else -1
        if lane.keyless_left_bytes <= 0:
            lane.keyless_left_bytes = self.batch_size_bytes
            lane.keyless_partition = self.sticky.partition(lane.topic, lane.view.led_partitions, self.batch_size_bytes)
        lane.keyless_left_bytes -= size_bytes
        return lane.keyless_partition


class SendsNow:
    """What `Producer.send` and `send_nowait` begin with, where it is compiled: one more call of Python is a fifth of what a
    record costs, and a look at an attribute a twentieth."""

    def _send_with(self, appender: Appender | None, sending: Any) -> None:
        """`appender`: where nobody else has a say in each record; `sending` knows all the rest."""
        check_is_sender(self)
        self._appends, self._sends_else = appender, sending

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        headers: Headers | Mapping[str, bytes | None] | None = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
    ) -> Delivery:
        """`send`, for a loop that must not wait: WouldBlock where it would have to, for room or for metadata.

        Nothing is sent while the event loop does not run: a loop of `send_nowait` comes to WouldBlock when the buffer is
        full, and `await send(...)` of that record waits for room. Raises what `send` raises; WouldBlock ends no transaction.
        """
        check_is_sender(self)
        appender = self._appends
        if appender is not None:
            delivery = appender.append(topic, value, key, headers, partition, timestamp_ms)
            if delivery is not None:
                return delivery
        slowly: Delivery = self._sends_else.send_nowait(topic, value, key, headers, partition, timestamp_ms)
        return slowly

    def _taken_on(
        self, topic: Any, value: Any, key: Any, headers: Any, partition: Any, timestamp_ms: Any
    ) -> Delivery | None:
        """Take a record where nothing has to be waited for, not even for a turn of the loop; None where it was not taken."""
        check_is_sender(self)
        appender = self._appends
        if appender is None or appender.owes_turn:
            return None
        return appender.append(topic, value, key, headers, partition, timestamp_ms)


def check_is_sender(sender: object) -> None:
    """A compiled method that is called on its class believes in whatever stands in the place of `self`: the process crashed."""
    if not isinstance(sender, SendsNow):
        raise TypeError(
            f"this is a method of a producer: `producer.send_nowait(...)`, not of {type(sender).__name__!r}"
        )


def is_content(content: Any) -> bool:
    return content is None or type(content) is bytes


def size_of(content: bytes | None) -> int:
    return 0 if content is None else len(content)


def checked_pairs(headers: Any) -> Any:
    """The headers as pairs, None where something is wrong; what can be read once only is left for the slower way."""
    if type(headers) is not list and type(headers) is not tuple and type(headers) is not dict:
        return None
    try:
        return header_pairs(headers)
    except InvalidArgument:
        return None
