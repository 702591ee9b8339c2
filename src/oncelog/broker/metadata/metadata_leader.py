"""The controller's side of the cluster's metadata where several processes share the work (`oncelog serve --processes N`).

Each of the others has a connection here. It is sent the metadata's log as it is committed, and changes the metadata in its
turn: the turn is the same lock that this process's own changes take, so what was decided still holds when it is written. Who does
not use its turn loses it with its connection.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from oncelog.broker.metadata.metadata_store import MetadataStore, records_of
from oncelog.broker.metadata.offline_here import OfflineHere
from oncelog.core.metadata.refusal import ChangeTimedOut
from oncelog.errors import CorruptBatch, MalformedFrame, MalformedMessage, StorageError
from oncelog.host.network import Listener, Network
from oncelog.host.tasks import Tasks
from oncelog.types import TopicPartition
from oncelog.wire.metadata_link import (
    LINK_VERSION,
    Anew,
    Append,
    Appended,
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

_log = logging.getLogger("oncelog.metadata")

TURN_S = 10.0  # how long a follower may keep everybody else from changing the metadata
READ_SIZE_BYTES = 1_048_576
ASKED_MAX = 16  # a follower waits for each answer; what is more is no follower
UNSENT_BYTES_MAX = 16 * 1024 * 1024  # a follower that does not read begins anew


class MetadataLeader:
    """Everybody who follows."""

    def __init__(
        self, store: MetadataStore, tasks: Tasks, process_count: int, forgotten: Callable[[], Awaitable[None]]
    ) -> None:
        self.store = store
        self.tasks = tasks
        self.process_count = process_count
        self.cluster_id = ""
        self.forgotten = forgotten
        self.links: dict[FollowerLink, None] = {}
        self.own_offline = OfflineHere()
        self._listener: Listener | None = None
        store.when_applied = self._applied

    async def listen(self, network: Network, host: str, cluster_id: str) -> None:
        """Take followers from here on. Raises NetworkFailed."""
        self.cluster_id = cluster_id
        self._listener = await network.listen(host, 0, lambda: FollowerLink(self))

    def _applied(self) -> None:
        for link in tuple(self.links):
            link.send_what_is_new()

    def tell_offline(self, node_id: int, partitions: Sequence[TopicPartition]) -> None:
        """Which partitions of this process cannot be served: the others are told where that is news."""
        if (news := self.own_offline.news(node_id, partitions)) is not None:
            for link in tuple(self.links):
                link.tell(news)

    def was_told(self, told: Offline) -> None:
        """A follower's: known here, and told to all others."""
        self.store.offline.told(told.node_id, told.partitions)
        for link in tuple(self.links):
            link.tell(told)

    def close(self) -> None:
        """Nobody follows any more."""
        if self._listener is not None:
            self._listener.close()
        for link in tuple(self.links):
            link.abort()
        self.links.clear()


class FollowerLink(asyncio.Protocol):
    """The controller's end of a follower's connection."""

    def __init__(self, leader: MetadataLeader) -> None:
        self._leader = leader
        self._store = leader.store
        self._reader = LinkReader()
        self._transport: asyncio.Transport | None = None
        self._sent_offset = -1  # before Hello
        self._node_id = -1
        self._asked: asyncio.Queue[Change | Append | Done] = asyncio.Queue(ASKED_MAX)  # in their order
        self._turns: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Wait for its Hello."""
        self._transport = cast("asyncio.Transport", transport)
        self._leader.links[self] = None

    def connection_lost(self, _exc: Exception | None) -> None:
        """Its turn is over, too."""
        self._transport = None
        self._leader.links.pop(self, None)
        if self._turns is not None:
            self._turns.cancel()

    def abort(self) -> None:
        """End it."""
        if self._transport is not None:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        """Take what it says."""
        if self not in self._leader.links:  # it is over
            return
        try:
            for message in self._reader.receive(data):
                self._take(message)
        except (MalformedFrame, asyncio.QueueFull) as error:
            _log.warning(
                "a process that follows the metadata is cut off: %s", str(error) or "it does not wait for answers"
            )
            self.abort()

    def _take(self, message: LinkMessage) -> None:
        if isinstance(message, Hello):
            self._greet(message)
        elif self._sent_offset < 0:
            raise MalformedFrame("the first message is Hello")
        elif isinstance(message, Change | Append | Done):
            self._asked.put_nowait(message)
        elif isinstance(message, Offline) and message.node_id == self._node_id:
            self._leader.was_told(message)
        else:
            raise MalformedFrame(f"{type(message).__name__} is for followers")

    def _greet(self, hello: Hello) -> None:
        if hello.version != LINK_VERSION or hello.process_count != self._leader.process_count:
            self._send(Refused(f"process {hello.node_id} is of another version or another number of processes"))
            return
        if not self._store.start_offset <= hello.from_offset <= self._store.applied_offset:
            self._send(Anew())
            hello = Hello(hello.version, hello.node_id, hello.process_count, self._store.start_offset)
        self._send(Welcome(self._leader.cluster_id))
        self._sent_offset = hello.from_offset
        self.send_what_is_new()
        self._node_id = hello.node_id
        for node_id, partitions in self._store.offline.by_node.items():
            self.tell(Offline(node_id, tuple(sorted(partitions))))
        if self._leader.own_offline.told is not None:
            self.tell(self._leader.own_offline.told)
        self._send(CaughtUp(self._sent_offset))
        if self._turns is None:
            self._turns = self._leader.tasks.start(self._give_turns(), name="metadata-turns")

    def tell(self, offline: Offline) -> None:
        """What another process has told; who follows knows its own."""
        if self._node_id not in (-1, offline.node_id):
            self._send(offline)

    def send_what_is_new(self) -> None:
        """Send what was committed since."""
        if self._sent_offset < 0:
            return
        if self._sent_offset < self._store.start_offset:  # the log has begun anew, and what follows says the same
            self._sent_offset = self._store.start_offset
        while self._transport is not None and self._sent_offset < self._store.applied_offset:
            found = self._store.read(self._sent_offset, READ_SIZE_BYTES)
            if found is None:
                return
            self._send(Batches(found.data))
            self._sent_offset = found.end_offset

    def _send(self, message: LinkMessage) -> None:
        if self._transport is None:
            return
        if self._transport.get_write_buffer_size() > UNSENT_BYTES_MAX:
            self.abort()
            return
        self._transport.write(encode(message))

    async def _give_turns(self) -> None:
        try:
            while True:
                if not isinstance(await self._asked.get(), Change):
                    raise MalformedFrame("a change is made in a turn")
                async with self._store.changing():
                    self.send_what_is_new()
                    self._send(MayChange())
                    async with asyncio.timeout(TURN_S):
                        while isinstance(asked := await self._asked.get(), Append):
                            await self._append(asked)
                    if not isinstance(asked, Done):
                        raise MalformedFrame("a turn is asked for in a turn")
        except TimeoutError:
            _log.warning("a process had its turn to change the metadata for %.0f s and is cut off", TURN_S)
            self.abort()
        except (MalformedFrame, ChangeTimedOut) as error:
            _log.warning("a process that follows the metadata is cut off: %s", error)
            self.abort()

    async def _append(self, asked: Append) -> None:
        try:
            records = records_of(asked.data)
            if not records:
                raise CorruptBatch("a change without records")
            await self._store.append(records)
        except (StorageError, CorruptBatch, MalformedMessage) as error:
            self._send(Refused(str(error)))
            return
        await self._leader.forgotten()
        self._send(Appended())
