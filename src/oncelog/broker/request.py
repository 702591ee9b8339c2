"""One request on its way through the broker, and what its handler may answer with.

A handler is a function of (broker, request). It returns the reply message, or a future of it (its effects have been
made, only the commit is waited for: the connection goes on), or a coroutine (the connection's next request waits until
it ends). It must be safe to cancel at any await: effects are completed by the shells, not by the handler.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from oncelog.wire.api import ApiKey

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker


class NoReply:
    """A reply that is not sent (Produce with acks=0)."""


class CloseConnection:
    """Instead of a reply: the connection ends without an answer, as Kafka does; `reason` goes to the log."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


NO_REPLY = NoReply()


class RequestOwner(Protocol):
    """The connection a request came in on, as far as a handler may know it."""

    client_host: str
    connection_id: int

    def hold(self, request: Request) -> None:
        """Let this connection's EndTxn requests overtake `request`, which waits for a transaction to complete."""
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
    is_held: bool = False

    def hold(self) -> None:
        """Say that this request waits for the end of a previous transaction; its EndTxn must be able to come through."""
        if not self.is_held:
            self.is_held = True
            self.connection.hold(self)


Reply = Any  # a response Struct, NoReply or CloseConnection
Handler = Callable[["Broker", Request], "Reply | asyncio.Future[Reply] | Coroutine[Any, Any, Reply]"]
Waiting = Awaitable[Reply]
