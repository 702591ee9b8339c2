"""Liveness, checked like safety: every request that a broker has received, and what it waits for.

Seen from outside, as bytes: a request is open from its last byte's arrival until the broker writes its answer, or the
connection ends. Two clocks run for the first open request of each connection (those behind it wait their turn):

* its *rest*: time in which the broker has nothing under way: no sync, no message to itself, not paused. Nothing but a
  timer can end that, so it is allowed only where a rule names the timer (`allowance_ms`), and REST_MS more;
* the whole time since the last fault ended: a hang in a broker that is never at rest.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from threading import get_ident
from typing import Any

from evidence.world.network import SimTransport
from oncelog.broker.coordinators.transaction_gate import TransactionGate
from oncelog.broker.network import secured_connection
from oncelog.broker.network.connection import Connection
from oncelog.broker.network.connection_limits import Admission
from oncelog.broker.network.secured_connection import SecuredConnection
from oncelog.broker.network.server import Server
from oncelog.errors import MalformedMessage
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import decode_request, decode_request_header

REST_MS = 50.0  # beside what the rules allow: timers of the loop and of connecting to itself
# Where the broker is never at rest: a time, and so many syncs of a file. With one lane there are two rounds; a full journal
# of small segments syncs all data files meanwhile, again and again where only one may be open (compaction, seed 733: 119 syncs).
BUSY_SECONDS, BUSY_SYNCS = 0.5, 180
LOOK_SECONDS = 0.01
HELD = frozenset(  # at most add.partitions.to.txn.retry.backoff.max.ms, for the end of the transaction before (KIP-890)
    {
        ApiKey.PRODUCE,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.END_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
    }
)
GROUPS = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})  # for the other members, at most the rebalance timeout
Found = Callable[[str, str], None]


@dataclass(slots=True, eq=False)
class OpenRequest:
    """One request. Its clocks begin when its turn comes: `turn_at`, and the rest clock then."""

    frame: bytes
    received_at: float
    turn_at: float = 0.0
    turn_rest: float = 0.0
    allowance_ms: float | None = None
    is_reported: bool = False
    passed: list[str] = field(default_factory=list)

    @property
    def correlation_id(self) -> int:
        """Its number on the connection."""
        return int.from_bytes(self.frame[4:8], "big", signed=True)


class _Frames:
    """Cuts a stream into frames, and knows nothing else."""

    def __init__(self) -> None:
        self._data = bytearray()

    def receive(self, data: bytes) -> Iterator[bytes]:
        self._data += data
        while len(self._data) >= 4:
            end = 4 + int.from_bytes(self._data[:4], "big", signed=True)
            if end <= 4 or len(self._data) < end:
                return  # not whole; or no frame at all, and the broker ends the connection
            yield bytes(self._data[4:end])
            del self._data[:end]


class _Conversation:
    """One connection: what was asked and not answered, in order."""

    def __init__(self) -> None:
        self.asked, self.answered = _Frames(), _Frames()
        self.open: list[OpenRequest] = []
        self.mute_until = 0.0


@dataclass
class Bounds:
    """What the rules need of the configuration."""

    sync_seconds: float
    held_ms: float
    first_rebalance_ms: float


class OpenRequests:
    """All requests of the broker's present life. The network says what comes and goes, the loop when time moves."""

    def __init__(self, found: Found, bounds: Callable[[], Bounds], is_under_way: Callable[[], bool | None]) -> None:
        self._found, self._bounds = found, bounds
        self._is_under_way = is_under_way  # None: there is no broker, or it does not run
        self.now = 0.0
        self.rest = 0.0
        self.trouble_until = 0.0  # a fault is there that makes the broker slow
        self.answered_count = 0
        self._next_look = 0.0
        self._by_connection: dict[SimTransport, _Conversation] = {}
        self._rebalance_ms: dict[str, int] = {}

    # what the network says

    def received(self, transport: SimTransport, data: bytes, now: float) -> None:
        """Bytes arrived at the broker."""
        conversation = self._by_connection.setdefault(transport, _Conversation())
        for frame in conversation.asked.receive(data):
            request = OpenRequest(frame, now)
            if not _needs_answer(request):
                continue
            if not conversation.open:
                request.turn_at, request.turn_rest = max(now, conversation.mute_until), self.rest
            conversation.open.append(request)
            if frame[:2] == ApiKey.JOIN_GROUP.to_bytes(2, "big"):
                self._note_rebalance_timeout(request)

    def answered(self, transport: SimTransport, data: bytes, now: float) -> None:
        """The broker wrote bytes."""
        conversation = self._by_connection.get(transport)
        if conversation is None:
            return
        for frame in conversation.answered.receive(data):
            correlation_id = int.from_bytes(frame[:4], "big", signed=True)
            if conversation.open and conversation.open[0].correlation_id == correlation_id:
                self.answered_count += 1
                del conversation.open[0]
            elif any(each.correlation_id == correlation_id for each in conversation.open):
                self._found("unanswered", f"{describe(conversation.open[0])} was passed over by a later one's answer")
                conversation.open.clear()
        if conversation.open:
            conversation.open[0].turn_at, conversation.open[0].turn_rest = now, self.rest

    def lost(self, transport: SimTransport) -> None:
        """The connection is gone, and who asked knows it."""
        self._by_connection.pop(transport, None)

    # what passes

    def passed(self, transport: object, correlation_id: int, what: str) -> None:
        """A step on a request's way: for its history."""
        conversation = self._by_connection.get(transport)  # type: ignore[call-overload]
        for request in conversation.open if conversation is not None else ():
            if request.correlation_id == correlation_id:
                request.passed.append(f"{self.now:.4f} {what}")
                return

    def muted(self, transport: object, until: float) -> None:
        """A quota holds this connection."""
        conversation = self._by_connection.setdefault(transport, _Conversation())  # type: ignore[call-overload]
        conversation.mute_until = max(conversation.mute_until, until)
        for request in conversation.open:
            request.turn_at = max(request.turn_at, until)

    def slow_until(self, then: float) -> None:
        """A fault makes the broker slow until then."""
        self.trouble_until = max(self.trouble_until, then)

    # when time moves

    def time_moves(self, now: float, then: float) -> None:
        """Nothing can run before `then`."""
        under_way = self._is_under_way()
        if under_way is None:
            self.trouble_until = max(self.trouble_until, then)
        elif not under_way:
            self.rest += then - now
        self.now = then
        if then >= self._next_look:
            self._next_look = then + LOOK_SECONDS
            if under_way is not None:
                self._look()

    def _look(self) -> None:
        bounds: Bounds | None = None
        for transport, conversation in self._by_connection.items():
            request = conversation.open[0] if conversation.open else None
            if request is None or request.is_reported or transport.is_closing():
                continue
            if conversation.mute_until > request.turn_at:
                request.turn_at = conversation.mute_until
            if request.turn_at > self.now:
                request.turn_rest = self.rest
                continue
            # Time may have jumped over the end of a mute: what rested before it is not this request's (sessions, seed 967).
            request.turn_rest = max(request.turn_rest, self.rest - (self.now - request.turn_at))
            if (self.rest - request.turn_rest) * 1000 < REST_MS and self.now - request.turn_at < BUSY_SECONDS:
                continue
            bounds = bounds or self._bounds()
            self._judge(transport, request, bounds)

    def _judge(self, transport: SimTransport, request: OpenRequest, bounds: Bounds) -> None:
        if request.allowance_ms is None:
            request.allowance_ms = self._allowance_ms(request, bounds)
        rest_ms = (self.rest - request.turn_rest) * 1000 - request.allowance_ms
        busy_seconds = self.now - max(request.turn_at, self.trouble_until) - request.allowance_ms / 1000
        if rest_ms > REST_MS:
            why = f"the broker rested {rest_ms:.0f} ms more than the rules allow"
        elif busy_seconds > BUSY_SECONDS + BUSY_SYNCS * bounds.sync_seconds:
            why = f"{busy_seconds:.2f} s without a fault, more than the rules allow"
        else:
            return
        request.is_reported = True
        where = _where(transport, request)
        self._found("unanswered", f"{describe(request)} from {transport.peer.owner.name}: {why}; {where}")

    # the rules

    def _allowance_ms(self, request: OpenRequest, bounds: Bounds) -> float:
        """How long a timer may hold this request, by its protocol's rules."""
        try:
            header, position = decode_request_header(memoryview(request.frame))
            api_key = ApiKey(header.api_key)
            if api_key in HELD:
                return bounds.held_ms
            if api_key in (ApiKey.FETCH, ApiKey.SHARE_FETCH):
                message: Any = decode_request(header, memoryview(request.frame), position)
                return max(float(message.max_wait_ms), 0.0)
            if api_key in GROUPS:
                message = decode_request(header, memoryview(request.frame), position)
                return self._rebalance_ms.get(message.group_id, 0) + bounds.first_rebalance_ms
        except (MalformedMessage, ValueError):
            pass  # to be refused at once
        return 0.0

    def _note_rebalance_timeout(self, request: OpenRequest) -> None:
        try:
            header, position = decode_request_header(memoryview(request.frame))
            message: Any = decode_request(header, memoryview(request.frame), position)
        except (MalformedMessage, ValueError):
            return
        longest = max(message.rebalance_timeout_ms, message.session_timeout_ms)
        self._rebalance_ms[message.group_id] = max(self._rebalance_ms.get(message.group_id, 0), longest)


def _needs_answer(request: OpenRequest) -> bool:
    """All do but Produce with acks=0."""
    if request.frame[:2] != b"\0\0":
        return True
    try:
        header, position = decode_request_header(memoryview(request.frame))
        message: Any = decode_request(header, memoryview(request.frame), position)
    except (MalformedMessage, ValueError, KeyError):
        return True
    return bool(message.acks != 0)


def describe(request: OpenRequest) -> str:
    """Which request, since when, and what it passed."""
    try:
        header, _ = decode_request_header(memoryview(request.frame))
    except MalformedMessage:
        return f"a malformed request received at {request.received_at:.4f}"
    api = APIS.get(header.api_key)
    name = api.name if api is not None else f"API {header.api_key}"
    history = ", ".join(request.passed) or "never begun"
    return (
        f"{name} v{header.api_version} of {header.client_id!r}, correlation id {header.correlation_id}, "
        f"received {request.received_at:.4f} ({history})"
    )


def _where(transport: SimTransport, request: OpenRequest) -> str:
    """What the broker's own connection knows of it."""
    connection = transport.protocol
    if not isinstance(connection, Connection):
        return "not a broker's connection"
    for slot in connection._slots:
        if slot.header.correlation_id != request.correlation_id:
            continue
        if isinstance(slot.begun, asyncio.Task):
            frames = [f"{each.f_code.co_qualname}:{each.f_lineno}" for each in slot.begun.get_stack()]
            return f"a task at {' < '.join(frames)}"
        return f"its reply is {'there' if slot.is_done else 'to be given by a callback'}"
    return "it is not begun"


@contextmanager
def watching(requests: OpenRequests) -> Iterator[None]:
    """While this lasts, the steps of requests inside the broker are noted: the simulated one, all of it in this thread."""
    with ExitStack() as taps:
        for owner, name, tap in (
            (Connection, "_begin", lambda self, frame: (self._transport, _id_of(frame), "begun")),
            (Connection, "hold", lambda self, request: (self._transport, request.correlation_id, "held")),
            (
                Connection,
                "turn_released",
                lambda self, slot: (self._transport, slot.header.correlation_id, "its effects are made"),
            ),
            (
                Connection,
                "reply_given",
                lambda self, slot: (self._transport, slot.header.correlation_id, "its reply is given"),
            ),
            (
                TransactionGate,
                "begin",
                lambda self, request, *_: (
                    getattr(request.connection, "_transport", None),
                    request.correlation_id,
                    "in the gate",
                ),
            ),
        ):
            taps.enter_context(_tapped(requests, owner, name, tap))
        taps.enter_context(_mutes_noted(requests))
        yield


def _id_of(frame: memoryview) -> int:
    return int.from_bytes(frame[4:8], "big", signed=True)


@contextmanager
def _tapped(requests: OpenRequests, owner: type, name: str, tap: Callable[..., tuple[Any, int, str]]) -> Iterator[None]:
    original, thread = owner.__dict__[name], get_ident()

    @wraps(original)
    def tapped(self: Any, *args: Any, **more: Any) -> Any:
        if get_ident() == thread:
            requests.passed(*tap(self, *args))
        return original(self, *args, **more)

    setattr(owner, name, tapped)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def _mutes_noted(requests: OpenRequests) -> Iterator[None]:
    mute, accepted, close_answered = Connection.mute, Server.accepted, SecuredConnection._close_answered
    thread = get_ident()

    def noted_mute(self: Connection, delay_s: float) -> None:
        if get_ident() == thread:
            requests.muted(self._transport, requests.now + delay_s)
        mute(self, delay_s)

    def noted_accepted(self: Server, connection: Connection) -> Admission | None:
        admission = accepted(self, connection)
        if admission is not None and admission.delay_s > 0 and get_ident() == thread:
            requests.muted(connection._transport, requests.now + admission.delay_s)
        return admission

    def noted_close_answered(self: SecuredConnection) -> None:
        if (
            self._is_refused and get_ident() == thread
        ):  # what comes behind a refused login is not begun, and ends with the connection
            requests.muted(self._transport, requests.now + secured_connection.LINGER_S)
        close_answered(self)

    Connection.mute, Server.accepted = noted_mute, noted_accepted  # type: ignore[method-assign]
    SecuredConnection._close_answered = noted_close_answered  # type: ignore[method-assign]
    try:
        yield
    finally:
        Connection.mute, Server.accepted = mute, accepted  # type: ignore[method-assign]
        SecuredConnection._close_answered = close_answered  # type: ignore[method-assign]
