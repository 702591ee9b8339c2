"""The cluster's metadata in a process that does not keep it: followed from the controller (`oncelog serve --processes N`).

The same methods as `MetadataStore`. A change takes its turn at the controller, is written there, and is here when `append`
returns. Nothing is kept on disk: a start asks for everything. Where the controller is away, what is known stays in force, and a
change is refused as one that may be tried again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import cast

from oncelog.broker.metadata.metadata_store import (
    UNCOUNTED,
    ControllerAway,
    OnChange,
    TurnWait,
    batch_of,
    late,
    records_in,
    take_turn,
)
from oncelog.broker.metadata.offline_elsewhere import OfflineElsewhere
from oncelog.broker.metadata.offline_here import OfflineHere
from oncelog.core.metadata.cluster import ClusterMetadata, removed_topics
from oncelog.core.metadata.refusal import Refusal
from oncelog.errors import CorruptBatch, ErrorCode, MalformedFrame, MalformedMessage, StorageError
from oncelog.host.clock import Clock
from oncelog.host.network import ConnectFailed, Network
from oncelog.host.tasks import Tasks
from oncelog.types import TopicPartition
from oncelog.wire.log_records.cluster_metadata import MetadataRecord
from oncelog.wire.metadata_link import (
    LINK_VERSION,
    Anew,
    Append,
    Batches,
    CaughtUp,
    Change,
    Done,
    Hello,
    LinkMessage,
    LinkReader,
    MayChange,
    Offline,
    Refused,
    Welcome,
    encode,
)
from oncelog.wire.record_batch import batches

_log = logging.getLogger("oncelog.metadata")

TURN_WAIT_S = 10.0  # for a turn, and for what is written in it
RETRY_S = 0.05
RETRY_S_MAX = 1.0
START_WAIT_S = 60.0  # for the controller, which may have much to recover before it listens


class FollowedMetadata:
    """Keeps `metadata` in step with the controller's log."""

    def __init__(
        self,
        network: Network,
        host: str,
        node_id: int,
        process_count: int,
        clock: Clock,
        tasks: Tasks,
        turn_wait: TurnWait = UNCOUNTED,
    ) -> None:
        self._turn_wait = turn_wait
        self.metadata = ClusterMetadata()
        self.on_change: OnChange | None = None
        self._network = network
        self._host = host
        self._node_id = node_id
        self._process_count = process_count
        self._clock = clock
        self._tasks = tasks
        self._lock = asyncio.Lock()
        self._link: _Link | None = None
        self._fresh: ClusterMetadata | None = None  # while everything comes again
        self._next_offset = 0
        self._has_caught_up = asyncio.Event()
        self._refusal = ""  # why the controller will never have us
        self._has_link = asyncio.Event()
        self._in_turn: _Link | None = None
        self._appending: asyncio.Task[StorageError | None] | None = None
        self._is_over = False
        self._is_away = False  # the controller, when a turn was asked for last
        self.cluster_id = ""
        self.offline = OfflineElsewhere()
        self._own_offline = OfflineHere()

    async def open(self) -> None:
        """Follow from now on; everything is there when this returns. Raises StorageError."""
        self._tasks.start(self._follow(), name="metadata-follower")
        try:
            async with asyncio.timeout(START_WAIT_S):
                await self._has_caught_up.wait()
        except TimeoutError:
            raise ControllerAway(
                f"the process that keeps the cluster's metadata was not there in {START_WAIT_S:.0f} s"
            ) from None
        if self._refusal:
            raise StorageError(self._refusal)

    async def _follow(self) -> None:
        pause_s = RETRY_S
        while not self._refusal:
            try:
                _, protocol = await self._network.connect(self._host, 0, lambda: _Link(self._take))
            except ConnectFailed as error:
                if pause_s == RETRY_S:
                    _log.info("waiting for the process that keeps the cluster's metadata: %s", error)
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
                continue
            pause_s = RETRY_S
            assert isinstance(protocol, _Link)
            self._link = protocol
            protocol.send(Hello(LINK_VERSION, self._node_id, self._process_count, self._next_offset))
            if self._own_offline.told is not None:
                protocol.send(self._own_offline.told)
            self._has_link.set()
            await protocol.lost.wait()
            self._link = None
            await asyncio.sleep(RETRY_S)

    def _take(self, message: LinkMessage) -> None:
        if self._is_over:
            return
        if isinstance(message, Batches):
            self._apply(message.data)
        elif isinstance(message, Anew):
            _log.info("the cluster's metadata is followed anew from the start of its log")
            self._fresh, self._next_offset = ClusterMetadata(), 0
        elif isinstance(message, Welcome):
            self.cluster_id = message.text
        elif isinstance(message, Offline):
            self.offline.told(message.node_id, message.partitions)
        elif isinstance(message, CaughtUp):
            if self._fresh is not None:
                self._become(self._fresh)
                self._fresh = None
            self._has_caught_up.set()
        elif isinstance(message, Refused) and self._link is not None and not self._link.was_asked:
            self._refusal = message.text
            self._has_caught_up.set()
        elif self._link is not None:
            self._link.answered(message)

    def _apply(self, data: bytes) -> None:
        for batch in batches(data):
            records = records_in(batch)
            self._next_offset = batch.end_offset
            if self._fresh is not None:
                for each in records:
                    self._fresh.apply(each)
                continue
            removed = removed_topics(self.metadata, records)
            for each in records:
                self.metadata.apply(each)
            if self.on_change is not None and self._has_caught_up.is_set():
                self.on_change(records, removed)

    def _become(self, fresh: ClusterMetadata) -> None:
        removed = [
            topic for topic_id, topic in self.metadata.topics_by_id.items() if topic_id not in fresh.topics_by_id
        ]
        self.metadata.become(fresh)
        if self.on_change is not None:
            self.on_change((), removed)

    @property
    def end_offset(self) -> int:
        """The offset after the last change that is known here."""
        return self._next_offset

    @asynccontextmanager
    async def changing(self, timeout_ms: int | None = None) -> AsyncIterator[ClusterMetadata]:
        """As of `MetadataStore`; where the controller stays away, what is decided inside cannot be appended.

        Whoever waits behind others does not wait for them first and then as long once more: `TURN_WAIT_S` are for both.
        Raises ChangeTimedOut as `MetadataStore` does.
        """
        with self._turn_wait.bounded(timeout_ms) as wait_ms:
            await self._take_turn(wait_ms)
        try:
            yield self.metadata
        finally:
            self._end_turn()
            self._lock.release()

    async def _take_turn(self, timeout_ms: int) -> None:
        began = asyncio.get_running_loop().time()
        await take_turn(self._lock, self.last_change_over, timeout_ms)
        try:
            asking = self._tasks.start(self._turn(began + TURN_WAIT_S if self._is_away else None))
        except RuntimeError:  # the broker ends
            self._lock.release()
            raise
        try:
            # The question goes on without who waits no longer: to break it off would cost the connection.
            async with asyncio.timeout_at(began + timeout_ms / 1000):
                await asyncio.wait((asking,))
            self._in_turn = asking.result()
        except BaseException as error:
            asking.add_done_callback(self._turn_unused)
            if isinstance(error, TimeoutError):
                raise late(timeout_ms) from None
            raise

    def _turn_unused(self, asking: asyncio.Task[_Link | None]) -> None:
        link = None if asking.cancelled() or asking.exception() else asking.result()
        if link is not None:
            link.send(Done())
        self._lock.release()

    async def _turn(self, until: float | None) -> _Link | None:
        """The connection by which this may be changed now; None where the controller is away for longer than a restart takes.
        `until`: of the loop's time, where it was away for whoever waited before."""
        now = asyncio.get_running_loop().time()
        until = now + TURN_WAIT_S if until is None else until
        if until > now:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    while True:
                        link = await self._connected()
                        with contextlib.suppress(ControllerAway):
                            if isinstance(await link.ask(Change()), MayChange):
                                self._is_away = False
                                return link
        if not self._is_away:
            _log.warning("the cluster's metadata cannot be changed: the process that keeps it is away")
        self._is_away = True
        return None

    async def _connected(self) -> _Link:
        while self._link is None or self._link.lost.is_set():
            self._has_link.clear()
            await self._has_link.wait()
        return self._link

    def _end_turn(self) -> None:
        link, appending, self._in_turn = self._in_turn, self._appending, None
        if link is None:
            return
        if appending is not None and not appending.done():  # its caller was cancelled, and it goes on
            appending.add_done_callback(lambda _: link.send(Done()))
        else:
            link.send(Done())

    async def last_change_over(self) -> None:
        """Until the last change is over: where its caller was cancelled, it goes on."""
        if self._appending is not None:
            await asyncio.wait((self._appending,))

    async def append(self, records: Sequence[MetadataRecord]) -> None:
        """Have one change written; the caller holds `changing()`. Raises ControllerAway, StorageError. Runs to its end even when
        the caller is cancelled."""
        assert self._lock.locked(), "decide and append under changing()"
        if self._in_turn is None:
            raise ControllerAway("the process that keeps the cluster's metadata is away")
        self._appending = self._tasks.start(self._append(self._in_turn, records))
        error = await asyncio.shield(self._appending)
        if error is not None:
            raise error

    async def _append(self, link: _Link, records: Sequence[MetadataRecord]) -> StorageError | None:
        try:
            async with asyncio.timeout(TURN_WAIT_S):
                answer = await link.ask(Append(bytes(batch_of(records, self._clock.now_ms()))))
        except ControllerAway as error:
            return error
        except TimeoutError:
            self._is_away = True
            return ControllerAway(f"it did not answer in {TURN_WAIT_S:.0f} s")
        return StorageError(answer.text) if isinstance(answer, Refused) else None

    async def append_or_refuse(self, records: Sequence[MetadataRecord]) -> Refusal | None:
        """`append`; where it cannot be, what a client is told."""
        try:
            await self.append(records)
        except ControllerAway as error:
            return Refusal(ErrorCode.NOT_CONTROLLER, str(error))
        except StorageError as error:
            _log.error("a change of the cluster's metadata was refused: %s", error)
            return Refusal(ErrorCode.KAFKA_STORAGE_ERROR, "The change could not be stored.")
        return None

    def tell_offline(self, partitions: Sequence[TopicPartition]) -> None:
        """Which partitions of this process cannot be served: the others are told where that is news."""
        news = self._own_offline.news(self._node_id, partitions)
        if news is not None and self._link is not None:
            self._link.send(news)

    def unfollow(self) -> None:
        """Take no more changes: this process ends."""
        self._is_over = True
        if self._link is not None:
            self._link.abort()

    def close(self) -> bool:
        """Nothing of it is on disk here, so it is closed cleanly."""
        return True


class _Link(asyncio.Protocol):
    """The follower's end; one question is open at a time."""

    def __init__(self, take: Callable[[LinkMessage], None]) -> None:
        self._take = take
        self._reader = LinkReader()
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[LinkMessage] | None = None
        self.lost = asyncio.Event()

    @property
    def was_asked(self) -> bool:
        """Whether an answer is waited for."""
        return self._answer is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Ready."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Take what the controller says."""
        try:
            for message in self._reader.receive(data):
                self._take(message)
        except (MalformedFrame, MalformedMessage, CorruptBatch) as error:
            _log.error("the cluster's metadata comes damaged from the process that keeps it: %s", error)
            self.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Whoever waits is told."""
        self._transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(ControllerAway("the connection to it was lost"))
        self.lost.set()

    def send(self, message: LinkMessage) -> None:
        """Say something."""
        if self._transport is not None:
            self._transport.write(encode(message))

    async def ask(self, message: LinkMessage) -> LinkMessage:
        """Say something and wait for its answer. Raises ControllerAway. Whoever waits no longer ends the connection: an answer
        that comes too late must not be taken for another's."""
        if self._transport is None:
            raise ControllerAway("the connection to it was lost")
        self._answer = asyncio.get_running_loop().create_future()
        self.send(message)
        try:
            return await self._answer
        except asyncio.CancelledError:
            self.abort()
            raise
        finally:
            self._answer = None

    def answered(self, message: LinkMessage) -> None:
        """The answer of what was asked."""
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(message)

    def abort(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.abort()
