"""One client connection: frames in, requests in order, replies out in the same order.

A request begins when the one before it has made its effects; only waiting for a sync overlaps. So much may be in flight:
beyond it the socket is not read (back pressure), and while the client does not read, no further request begins. A
malformed frame ends this connection with one line in the log, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, cast

from oncelog.broker.metrics.metrics import Metrics
from oncelog.broker.network.connection_limits import Admission, ConnectionLimits
from oncelog.broker.network.overtaking import may_overtake
from oncelog.broker.network.peer import client_host_of, socket_address
from oncelog.broker.requests.request import (
    ANONYMOUS,
    UNKNOWN_SOFTWARE,
    CloseConnection,
    Later,
    NoReply,
    Outcome,
    Reply,
    Request,
)
from oncelog.broker.requests.unsupported import unsupported_api_versions
from oncelog.errors import MalformedFrame, MalformedMessage
from oncelog.host.tasks import Tasks
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import FrameReader, FrameTooLarge, RequestHeader, decode_request_header, encode_response
from oncelog.wire.messages.fetch import FetchResponse
from oncelog.wire.messages.share_fetch import ShareFetchResponse
from oncelog.wire.schema import TooManyItems, decode_message

_log = logging.getLogger("oncelog.connection")

STAGE_SIZE_BYTES = 16_384  # a `recv` of anything but a large Produce request
JOINED_SIZE_BYTES_MAX = 4096  # below it one buffer costs the loop less than a list of them
_API_KEYS = {int(key): key for key in ApiKey}
_API_VERSIONS = int(ApiKey.API_VERSIONS)
_WITH_RECORDS = (FetchResponse, ShareFetchResponse)
PARKED_APIS = frozenset((ApiKey.FETCH, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP))  # nothing is lost when they end early


def new_stage() -> memoryview:
    """Where all connections of an event loop receive what has no other place: nobody waits while bytes lie there."""
    return memoryview(bytearray(STAGE_SIZE_BYTES))


class ConnectionOwner(Protocol):
    """What a connection asks of the server that accepted it."""

    metrics: Metrics
    tasks: Tasks
    serves: Callable[[int, int], bool]
    handle: Callable[[Request], Outcome]
    stalled: dict[Connection, None]  # their clients do not read
    unsent: dict[Connection, None]  # were written to since somebody looked, or have something left
    queued_count: int  # requests that have come and are not begun
    stage: memoryview  # `new_stage()`

    def accepted(self, connection: Connection) -> Admission | None:
        """Take a new connection and say from when on it is to be read; None where it must close."""
        ...

    def lost(self, connection: Connection) -> None:
        """Forget a closed connection."""
        ...

    def is_own(self, peer_name: object) -> bool:
        """Whether a connection comes from the broker itself."""
        ...

    def note_for_log(self) -> str | None:
        """What to put behind a line about a client; None where there are too many such lines to say another."""
        ...


class Slot:
    """A reply's place in the order of requests; `reply` is filled in when it is known. It listens to a `Later`."""

    __slots__ = ("begun", "begun_at", "connection", "header", "held_bytes", "is_done", "keeps_turn", "reply", "request")

    def __init__(self, connection: Connection, header: RequestHeader, begun_at: float) -> None:
        self.connection = connection
        self.header = header
        self.begun_at = begun_at
        self.request: Request | None = None
        self.reply: Reply = None
        self.is_done = False
        self.held_bytes = 0  # of a reply that is known before the one in front of it
        self.keeps_turn = False
        self.begun: Later | None = None

    def given(self, reply: Reply) -> None:
        """The `Later` has its reply."""
        self.reply = reply
        self.is_done = True
        self.connection.reply_given(self)

    def turn_released(self) -> None:
        """The `Later` only waits for its commit."""
        self.connection.turn_released(self)

    def failed(self, _error: BaseException | None) -> None:
        """The `Later` will have no reply: the client learns it by losing its connection."""
        self.connection.abort()


class Connection(asyncio.BufferedProtocol):
    """The server's end of a connection."""

    may_send_much = True  # whether large frames get memory of their own from the first one on
    principal = ANONYMOUS
    is_by_token = False  # whether it came by a delegation token
    listener_name = ""
    software = UNKNOWN_SOFTWARE
    frame_limit = "socket.request.max.bytes"

    def __init__(self, server: ConnectionOwner, connection_id: int, limits: ConnectionLimits) -> None:
        self._server = server
        self._stage = server.stage
        self._limits = limits
        self.connection_id = connection_id
        self.tasks = server.tasks
        self.client_host = ""
        self._peer_name: object = None
        self.last_active = 0.0
        self.frame_begun: float | None = None
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(
            limits.frame_bytes_max, first_size_bytes_max=limits.first_frame_bytes_max, has_own_memory=self.may_send_much
        )
        self._frames: deque[memoryview] = deque()
        self._queued_count = 0  # of them, as the server knows it
        self._slots: deque[Slot] = deque()
        self._running: list[Request] = []
        self._is_sending_soon = False
        self._may_write = True
        self._held_bytes = 0  # of replies that wait for the one before them
        self._unsent_bytes = 0  # at the last sweep, while the client does not read
        self._stalled_since = 0.0
        self._is_reading = True
        self._is_delayed = False
        self._muted_until = 0.0
        self._is_advancing = False
        self.is_draining = False

    # what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection, or refuse it where there are too many."""
        self._transport = transport = cast("asyncio.Transport", transport)  # uvloop's is one without saying so
        transport.set_write_buffer_limits(high=self._limits.unsent_bytes_max)
        peer = transport.get_extra_info("peername")
        self.client_host = client_host_of(peer)
        self._peer_name = peer
        self._loop = asyncio.get_running_loop()
        self.last_active = self._loop.time()
        admission = self._server.accepted(self)
        if admission is None:
            transport.abort()
            self._transport = None
        elif admission.delay_s > 0:
            self._is_delayed = True
            self._regulate()
            until = self._loop.time() + admission.delay_s
            if admission.is_refused:
                self._loop.call_at(until, self.abort)
            else:
                self._loop.call_at(until, self._delay_is_over, until)

    def _delay_is_over(self, until: float) -> None:
        # Whether it is the last one is not asked of the clock: uvloop's timers may ring a little before their time.
        if until >= self._muted_until:
            self._is_delayed = False
            self._advance()

    def mute(self, delay_s: float) -> None:
        """The client is over a quota: begin nothing more and read nothing for this long; replies still go out."""
        if self._transport is not None:
            self._is_delayed = True
            self._muted_until = max(self._muted_until, self._loop.time() + delay_s)
            self._regulate()
            self._loop.call_at(self._muted_until, self._delay_is_over, self._muted_until)

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where the next bytes belong: in the large frame that is coming, else where this loop's connections take turns."""
        room = self._reader.room()
        return self._stage if room is None else room

    def buffer_updated(self, nbytes: int) -> None:
        """`nbytes` have come to where `get_buffer` said; nothing else was received in between."""
        if self._reader.has_room:
            self._take(self._reader.filled, nbytes)
        else:
            self._take(self._reader.receive, bytes(self._stage[:nbytes]))

    def _take(self, receive: Callable[[Any], list[memoryview]], data: bytes | int) -> None:
        """Cut what came into frames and begin what may begin."""
        if self._transport is None or self.is_draining:
            return
        now = self._loop.time()
        self.last_active = now
        try:
            frames = receive(data)
        except MalformedFrame as error:
            if isinstance(error, FrameTooLarge):
                is_first = self._reader.is_first and self._limits.first_frame_bytes_max < self._limits.frame_bytes_max
                limit = "oncelog.first.request.max.bytes" if is_first else self.frame_limit
                self._server.metrics.limit_hit(limit)
            self.refuse(f"malformed frame: {error}")
            return
        partial_size_bytes = self._reader.partial_size_bytes
        if frames or not partial_size_bytes:
            self.frame_begun = None
        if partial_size_bytes and self.frame_begun is None:
            self.frame_begun = now
        if frames:
            self._frames.extend(frames)
            self._advance()

    def connection_lost(self, _exc: Exception | None) -> None:
        """Drop what is held or waiting for this client; effects under way are completed by the shells."""
        self._transport = None
        self._held_bytes = 0
        self._forget_frames()
        for slot in self._slots:
            if slot.begun is not None and not slot.is_done:
                slot.begun.drop()
        self._slots.clear()
        self._server.lost(self)

    def pause_writing(self) -> None:
        """The client does not read: begin nothing more."""
        self._may_write = False
        self._server.metrics.limit_hit("oncelog.connection.max.unsent.bytes")
        self._server.stalled[self] = None
        self._regulate()

    def resume_writing(self) -> None:
        """The client reads again."""
        self._may_write = True
        self._unsent_bytes = 0
        self._server.stalled.pop(self, None)
        self._advance()

    # what the server calls

    @property
    def is_idle(self) -> bool:
        """True where nothing is in flight."""
        return not self._slots and not self._frames

    @property
    def partial_size_bytes(self) -> int:
        """What has come of a frame that is not whole yet."""
        return self._reader.partial_size_bytes

    @property
    def in_flight_count(self) -> int:
        """Requests received and not answered."""
        return len(self._slots) + len(self._frames)

    @property
    def unsent_bytes(self) -> int:
        """Bytes of replies that the system has not taken yet."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    @property
    def reply_bytes(self) -> int:
        """Bytes of replies that are in memory: unsent ones, and those that wait for the one before them."""
        return 0 if self._transport is None else self._transport.get_write_buffer_size() + self._held_bytes

    @property
    def client_port(self) -> int:
        """The port it comes from; 0 where it has none."""
        address = socket_address(self._peer_name)
        return address[1] if address is not None else 0

    def end_if_revoked(self) -> None:
        """End it where whoever it is may not come any more; nobody needs to be somebody here."""

    @property
    def is_of_broker(self) -> bool:
        """Whether the other end is one of this broker's own connections to itself."""
        return self._server.is_own(self._peer_name)

    def stalled_s(self, now: float) -> float:
        """For how long the client has read nothing of what waits for it."""
        if self._may_write:
            return 0.0
        unsent_bytes = self.unsent_bytes
        if not self._unsent_bytes or unsent_bytes < self._unsent_bytes:
            self._stalled_since = now
        self._unsent_bytes = unsent_bytes
        return now - self._stalled_since

    def close(self) -> None:
        """End the connection; replies already written are still delivered."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """End the connection now; what the client has not read is lost."""
        if self._transport is not None:
            self._transport.abort()

    def drain(self) -> None:
        """Begin nothing more; close once what is in flight has been answered."""
        self.is_draining = True
        self._forget_frames()
        self._close_if_answered()

    def _close_if_answered(self) -> None:
        waiting = [slot for slot in self._slots if not slot.is_done]
        if all(slot.header.api_key in PARKED_APIS for slot in waiting):
            self._close_answered()

    def _close_answered(self) -> None:
        self.close()

    def refuse(self, reason: str) -> None:
        """End the connection because of what the client sent."""
        if self._transport is None:
            return
        self._server.metrics.add("malformed_requests")
        note = self._server.note_for_log()
        if note is not None:
            _log.warning("closing connection %d from %s: %s%s", self.connection_id, self.client_host, reason, note)
        self._forget_frames()
        self._transport.abort()
        self._transport = None

    def _forget_frames(self) -> None:
        self._frames.clear()
        self._server.queued_count -= self._queued_count
        self._queued_count = 0

    # requests in order

    def hold(self, request: Request) -> None:
        """Called by a request that waits for a previous transaction: see `overtaking.py`."""
        assert request.held_for is not None
        asyncio.get_running_loop().call_soon(self._advance)

    def _advance(self) -> None:
        if self._is_advancing:
            return
        self._is_advancing = True
        try:
            while self._may_begin():
                self._begin(self._frames.popleft())
        except BaseException:
            self._server.metrics.add("handler_failures")
            if self._transport is not None:
                self._transport.abort()
            raise
        finally:
            self._is_advancing = False
        self._regulate()

    def _may_begin(self) -> bool:
        if not self._frames or self._transport is None or not self._may_write or self._is_delayed:
            return False
        if len(self._slots) >= self._limits.in_flight_count_max or self._held_bytes > self._limits.unsent_bytes_max:
            return False
        return not self._running or may_overtake(self._frames[0], self._running, self._server.serves)

    def _begin(self, frame: memoryview) -> None:
        try:
            header, position = decode_request_header(frame)
        except MalformedMessage as error:
            self.refuse(f"malformed request header: {error}")
            return
        slot = Slot(self, header, self.last_active)
        api = APIS.get(header.api_key)
        if api is None or not self._server.serves(header.api_key, header.api_version):
            if header.api_key == ApiKey.API_VERSIONS:
                self._slots.append(slot)
                self._answer(slot, unsupported_api_versions())
            else:
                self.refuse(f"request of API key {header.api_key} version {header.api_version} is not served")
            return
        try:
            message = decode_message(
                api.request,
                header.api_version,
                frame[position:],
                trailing="ignore",
                items_max=self._limits.items_max,
            )
        except MalformedMessage as error:
            if isinstance(error, TooManyItems):
                self._server.metrics.limit_hit("oncelog.request.max.items")
            self.refuse(f"malformed {api.name} v{header.api_version} request: {error}")
            return
        key = _API_KEYS[header.api_key]
        request = Request(key, header.api_version, header.correlation_id, header.client_id or "", message, self)
        self._slots.append(slot)
        self._follow(request, slot, self._server.handle(request))

    def _follow(self, request: Request, slot: Slot, outcome: Outcome) -> None:
        if not isinstance(outcome, Later):
            self._answer(slot, outcome)
        elif outcome.is_given:
            self._answer(slot, outcome.reply)
        else:
            slot.begun = outcome
            if outcome.keeps_turn:
                slot.keeps_turn = True
                slot.request = request
                self._running.append(request)
            outcome.listen(slot)

    def reply_given(self, slot: Slot) -> None:
        """Called by a slot, from whoever commits: queued, and sent on the next iteration of the loop with all that came."""
        if slot.keeps_turn:
            self._end_turn(slot)
        if self._transport is None:
            return
        if isinstance(slot.reply, _WITH_RECORDS):
            self._hold_back(slot, slot.reply)
        if not self._is_sending_soon:
            self._is_sending_soon = True
            self._loop.call_soon(self._send_soon)  # which also begins what may begin now

    def _send_soon(self) -> None:
        self._is_sending_soon = False
        try:
            self._send()
        except BaseException:
            self._server.metrics.add("handler_failures")
            if self._transport is not None:
                self._transport.abort()
            raise
        if self._frames or not self._is_reading:
            self._advance()

    def turn_released(self, slot: Slot) -> None:
        """Called by a slot whose effects are made: the next request may begin."""
        self._end_turn(slot)
        if self._frames:
            self._loop.call_soon(self._advance)

    def _end_turn(self, slot: Slot) -> None:
        assert slot.request is not None
        slot.keeps_turn = False
        self._running.remove(slot.request)

    def _answer(self, slot: Slot, reply: Reply) -> None:
        slot.reply = reply
        slot.is_done = True
        if isinstance(reply, _WITH_RECORDS):
            self._hold_back(slot, reply)
        self._send()

    def _hold_back(self, slot: Slot, reply: FetchResponse | ShareFetchResponse) -> None:
        """Records that wait for the reply before them are unsent too; `_may_begin` bounds them."""
        if not self._slots or self._slots[0] is slot:
            return
        found = (part.records for topic in reply.responses for part in topic.partitions)
        slot.held_bytes = sum(len(records) for records in found if records)
        self._held_bytes += slot.held_bytes
        self._server.unsent[self] = None

    def _send(self) -> None:
        """Answer what is done, as far as nothing before it is still to be answered."""
        parts: list[bytes | bytearray | memoryview] = []
        metrics, now = self._server.metrics, self._loop.time()
        while self._slots and self._slots[0].is_done and self._transport is not None:
            slot = self._slots.popleft()
            self._held_bytes -= slot.held_bytes
            metrics.answered(slot.header.api_key, slot.header.api_version, slot.reply, now - slot.begun_at)
            if isinstance(slot.reply, CloseConnection):
                self._write(parts)
                parts = []
                self.refuse(slot.reply.reason)
            elif not isinstance(slot.reply, NoReply):
                header = slot.header
                api_key, version = header.api_key, header.api_version
                if api_key == _API_VERSIONS and not self._server.serves(api_key, version):
                    version = 0
                parts += encode_response(api_key, version, header.correlation_id, slot.reply)
        self._write(parts)
        if self.is_draining:
            self._close_if_answered()

    def _write(self, parts: list[bytes | bytearray | memoryview]) -> None:
        if parts and self._transport is not None:
            self.last_active = self._loop.time()
            size_bytes = sum(map(len, parts))
            if size_bytes <= JOINED_SIZE_BYTES_MAX:
                self._transport.write(b"".join(parts))
            else:
                self._transport.writelines(parts)
            self._server.unsent[self] = None

    def _regulate(self) -> None:
        if self._transport is None:
            return
        queued_count = len(self._frames)
        has_room = queued_count + len(self._slots) < self._limits.in_flight_count_max
        wants_more = self._may_write and has_room and not self._is_delayed
        if not has_room and self._is_reading:
            self._server.metrics.limit_hit("oncelog.connection.max.in.flight")
        if queued_count or self._queued_count:
            server = self._server
            server.queued_count += queued_count - self._queued_count
            self._queued_count = queued_count
            if queued_count and server.queued_count >= self._limits.queued_count_max and wants_more:
                wants_more = False  # until its own have begun; each that begins comes here again
                if self._is_reading:
                    server.metrics.limit_hit("queued.max.requests")
        if wants_more and not self._is_reading:
            self._transport.resume_reading()
        elif not wants_more and self._is_reading:
            self._transport.pause_reading()
        self._is_reading = wants_more
