"""The broker as its own peer: requests to itself go to its own handlers, without connection, bytes or tasks.

A broker asks its own coordinators and partitions what it would ask another's, in the same messages: `Peer` sends them
over the wire, this hands them over. Where the network has no shortcut (the simulator's) only `Peer` is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from oncelog.broker.requests.request import (
    ANONYMOUS,
    UNKNOWN_SOFTWARE,
    CallbackListener,
    FutureListener,
    Later,
    Outcome,
    ReplyListener,
    Request,
)
from oncelog.host.tasks import Tasks
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.schema import Struct


class LocalPeer:
    """Asks `handle` as a connection would; `client_id` says what for. Nothing is ever lost on the way."""

    client_host = ""
    principal = ANONYMOUS
    is_by_token = False
    listener_name = ""
    connection_id = 0
    client_port = 0
    software = UNKNOWN_SOFTWARE
    is_of_broker = True

    def __init__(self, handle: Callable[[Request], Outcome], tasks: Tasks, *, client_id: str) -> None:
        self._handle = handle
        self.tasks = tasks
        self._client_id = client_id

    def hold(self, request: Request) -> None:
        """No other request can be in its way here."""

    def mute(self, delay_s: float) -> None:
        """The broker does not wait for itself."""

    def ask(
        self,
        api_key: ApiKey,
        message: Struct,
        then: Callable[[Any], None],
        failed: Callable[[BaseException | None], None],
    ) -> None:
        """Hand a request over in its newest version; `then` gets the response, often before this returns.

        A handler's mistake is raised here; one that its task makes later is reported, and `failed` hears of it (None: the broker
        ends).
        """
        self._ask(api_key, message, CallbackListener(then, failed))

    async def call(self, api_key: ApiKey, message: Struct) -> Any:
        """As `Peer.call`; a handler's mistake is raised."""
        listener = FutureListener()
        self._ask(api_key, message, listener)
        return await listener.future

    def _ask(self, api_key: ApiKey, message: Struct, listener: ReplyListener) -> None:
        outcome = self._handle(Request(api_key, APIS[api_key].max_version, 0, self._client_id, message, self))
        if not isinstance(outcome, Later):
            listener.given(outcome)
        elif outcome.is_given:
            listener.given(outcome.reply)
        else:
            outcome.listen(listener)

    def close(self) -> None:
        """Nothing is open."""
