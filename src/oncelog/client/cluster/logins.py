"""How one client logs in on its connections, and what is to be said of it while it waits.

A broker answers a failed login late (`connection.failed.authentication.delay.ms`), perhaps later than who waits for it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from oncelog.client.cluster.authentication import Authentication
from oncelog.client.cluster.connection import LOGIN_UNANSWERED, Connection
from oncelog.client.security import SaslLogin
from oncelog.client.token_source import TokenSource
from oncelog.errors import AuthenticationFailed, KafkaError, RequestTimedOut
from oncelog.host.host import Host


class Logins:
    """Those of all connections of a client."""

    def __init__(
        self, sasl: SaslLogin, host: Host, start: Callable[[Coroutine[Any, Any, None]], object], timeout_ms: int
    ) -> None:
        self._sasl, self._host, self._start, self._timeout_ms = sasl, host, start, timeout_ms
        self._tokens = None if sasl.tokens is None else TokenSource(sasl.tokens, host)
        self._under_way: set[Connection] = set()
        self._refused: dict[str, AuthenticationFailed] = {}  # by the connection's name, until it is let in

    async def log_in(self, connection: Connection) -> None:
        """Raises AuthenticationFailed, Network, RequestTimedOut, UnsupportedVersion."""
        self._under_way.add(connection)
        try:
            await Authentication(
                connection, self._sasl, self._host, self._start, self._timeout_ms, self._tokens
            ).login()
        except AuthenticationFailed as error:
            self._refused[connection.name] = error
            raise
        finally:
            self._under_way.discard(connection)
        self._refused.pop(connection.name, None)

    def why_waiting(self) -> KafkaError | None:
        """Why who waits for a connection may have to: a login was refused there, or is not answered. None: for none of both."""
        refused = next(iter(self._refused.values()), None)
        if refused is not None:
            return refused
        unanswered = sorted(each.name for each in self._under_way if each.is_login_unanswered)
        return RequestTimedOut(f"{unanswered[0]} {LOGIN_UNANSWERED}") if unanswered else None
