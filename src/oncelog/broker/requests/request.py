"""One request on its way through the broker, and what its handler may answer with.

A handler is a function of (node, request). Its outcome is the reply message, or a `Later`, given by callbacks; while that
keeps its turn, the connection's next request waits. A handler may be a coroutine: `handler_task` makes a `Later` of it. It
must be safe to cancel at any await: effects are completed by the shells, not by the handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol

from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.api import ApiKey

UNKNOWN_SOFTWARE = ("unknown", "unknown")
ANONYMOUS = "User:ANONYMOUS"  # who has not said who it is

Reply = Any  # a response Struct, NoReply or CloseConnection
Measured = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


class NoReply:
    """A reply that is not sent (Produce with acks=0)."""


class CloseConnection:
    """Instead of a reply: the connection ends without an answer, as Kafka does; `reason` goes to the log."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


NO_REPLY = NoReply()


class ReplyListener(Protocol):
    """Who waits for a `Later`."""

    def given(self, reply: Reply) -> None:
        """The reply is there."""
        ...

    def turn_released(self) -> None:
        """Its effects are made: what follows may begin."""
        ...

    def failed(self, error: BaseException | None) -> None:
        """There will be no reply: an error, which has been reported, or the broker ends (None)."""
        ...


class Later:
    """A reply that is given later, to one listener, by a plain call.

    A transaction of one record takes a dozen waits; as futures and tasks they were a third of the broker's work for it.
    `on_drop` hears that nobody waits any more.
    """

    __slots__ = ("_listener", "is_given", "keeps_turn", "on_drop", "reply")

    def __init__(self, *, keeps_turn: bool = False) -> None:
        self.reply: Reply = None
        self.is_given = False
        self.keeps_turn = keeps_turn
        self.on_drop: Callable[[], object] | None = None
        self._listener: ReplyListener | None = None

    def listen(self, listener: ReplyListener) -> None:
        """Tell `listener`; only while the reply is not given."""
        assert not self.is_given
        assert self._listener is None
        self._listener = listener

    def give(self, reply: Reply) -> None:
        """The reply, once."""
        assert not self.is_given
        self.reply = reply
        self.is_given = True
        if self._listener is not None:
            self._listener.given(reply)

    def release_turn(self) -> None:
        """The effects are made, only the commit is waited for."""
        self.keeps_turn = False
        if self._listener is not None:
            self._listener.turn_released()

    def fail(self, error: BaseException | None) -> None:
        """There will be no reply, because of an error that has been reported, or because the broker ends (None)."""
        if self._listener is not None:
            self._listener.failed(error)

    def drop(self) -> None:
        """Nobody waits any more; effects that were begun are completed all the same."""
        self._listener = None
        if self.on_drop is not None and not self.is_given:
            self.on_drop()


class CallbackListener:
    """A listener that is two functions: one of them is called, once."""

    __slots__ = ("failed", "given")

    def __init__(self, given: Callable[[Reply], None], failed: Callable[[BaseException | None], None]) -> None:
        self.given = given
        self.failed = failed

    def turn_released(self) -> None:
        """Nothing follows."""


class FutureListener:
    """A listener whose `future` is the reply; it fails with the error, and is cancelled where the broker ends."""

    __slots__ = ("future",)

    def __init__(self) -> None:
        self.future: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def given(self, reply: Reply) -> None:
        """The reply is there."""
        if not self.future.done():
            self.future.set_result(reply)

    def turn_released(self) -> None:
        """Nothing follows."""

    def failed(self, error: BaseException | None) -> None:
        """There will be no reply."""
        if error is None:
            self.future.cancel()
        elif not self.future.done():
            self.future.set_exception(error)


async def reply_of(outcome: Any) -> Reply:
    """The reply of what a shell answered, waited for in a handler; who is cancelled here waits for nothing any more."""
    if isinstance(outcome, Awaitable):
        return await outcome
    if not isinstance(outcome, Later):
        return outcome
    if outcome.is_given:
        return outcome.reply
    listener = FutureListener()
    outcome.listen(listener)
    try:
        return await listener.future
    except asyncio.CancelledError:
        outcome.drop()
        raise


class RequestOwner(Protocol):
    """The connection a request came in on, as far as a handler may know it."""

    client_host: str
    principal: str  # "User:alice"
    is_by_token: bool  # whether it came by a delegation token
    listener_name: str  # by which it came; "" where that makes no difference
    connection_id: int
    software: tuple[str, str]  # name and version, as ApiVersions told (KIP-511)
    tasks: Tasks  # of handlers that have to wait

    @property
    def client_port(self) -> int:
        """The port it comes from; 0 where it has none."""
        ...

    @property
    def is_of_broker(self) -> bool:
        """Whether the broker asks itself: then it may do everything, and no quota holds."""
        ...

    def hold(self, request: Request) -> None:
        """Let EndTxn requests of other transactional ids overtake `request`, which waits for a transaction to complete."""
        ...

    def mute(self, delay_s: float) -> None:
        """Begin nothing more and read nothing for this long; replies still go out."""
        ...


@dataclass(slots=True, eq=False)
class Request:
    """A decoded request. `message` is the wire object of `api_key`."""

    api_key: ApiKey
    api_version: int
    correlation_id: int
    client_id: str
    message: Any
    connection: RequestOwner
    held_for: str | None = None  # the transactional id
    measured: Measured | None = None  # makes the steps of a handler's task count
    is_noted: bool = False  # its deed is in the log, before its answer (`broker/admission/deeds.py`)

    def hold(self, transactional_id: str) -> None:
        """Say that this request waits for the end of a previous transaction: those of others must be able to end."""
        if self.held_for is None:
            self.held_for = transactional_id
            self.connection.hold(self)


Outcome = Reply | Later  # of a request
