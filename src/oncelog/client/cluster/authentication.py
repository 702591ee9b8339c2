"""Logging in on a connection, and again before the session's end (KIP-368): between requests, on the same connection.

What the broker refuses is AuthenticationFailed, which no retry mends; a connection that is lost on the way is not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from oncelog.client.security import SaslLogin
from oncelog.client.token_source import Token, TokenSource
from oncelog.core.login.mechanisms import NONCE_SIZE_BYTES, Login, LoginRefused, login_of
from oncelog.core.login.oauthbearer import BearerInvalid, BearerLogin
from oncelog.errors import AuthenticationFailed, ErrorCode, KafkaError, code_name
from oncelog.host.host import Host
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from oncelog.wire.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from oncelog.client.cluster.connection import Connection

AGAIN_FROM, AGAIN_UNTIL = 0.80, 0.90  # of a session


class Authentication:
    """One connection's way to its principal."""

    def __init__(
        self,
        connection: Connection,
        sasl: SaslLogin,
        host: Host,
        start: Callable[[Coroutine[Any, Any, None]], object],
        timeout_ms: int,
        tokens: TokenSource | None = None,
    ) -> None:
        self._connection = connection
        self._sasl = sasl
        self._host = host
        self._start = start
        self._timeout_ms = timeout_ms
        self._tokens = tokens  # of OAUTHBEARER
        self._token: Token | None = None

    async def login(self) -> None:
        """Raises AuthenticationFailed, Network, RequestTimedOut, UnsupportedVersion."""
        await self._log_in(await self._new_login())

    async def _new_login(self) -> Login:
        if self._tokens is None:
            nonce = self._host.random.token_bytes(NONCE_SIZE_BYTES)
            sasl = self._sasl
            return login_of(sasl.mechanism, sasl.user, sasl.password, nonce, is_token=sasl.is_token)
        self._token = await self._tokens.token()
        try:
            return BearerLogin(self._token.text, self._token.extensions)
        except BearerInvalid as error:
            raise self._failed(str(error)) from None

    async def _log_in(self, login: Login) -> None:
        connection, sasl = self._connection, self._sasl
        connection.is_login_unanswered = True
        answer, version = await connection.ask(
            SaslHandshakeRequest(mechanism=sasl.mechanism), version_min=1, timeout_ms=self._timeout_ms
        )
        if answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            raise self._failed(f"the listener does not have it, but {', '.join(answer.mechanisms) or 'none'}")
        if answer.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise self._failed(
                "the broker wants no authentication here: security_protocol says SASL, is this the port?"
            )
        if answer.error_code:
            raise self._failed(code_name(answer.error_code))
        token: bytes | None = login.first()
        while token is not None:
            answer, version = await connection.ask(
                SaslAuthenticateRequest(auth_bytes=token), timeout_ms=self._timeout_ms
            )
            if answer.error_code:
                raise self._failed(answer.error_message or code_name(answer.error_code))
            token = await self._next(login, bytes(answer.auth_bytes))
        connection.is_login_unanswered = False
        if version >= 1 and answer.session_lifetime_ms > 0:
            share = self._host.random.uniform(AGAIN_FROM, AGAIN_UNTIL)
            asyncio.get_running_loop().call_later(answer.session_lifetime_ms / 1000 * share, self._begin_again)

    async def _next(self, login: Login, token: bytes) -> bytes | None:
        try:
            return await self._host.worker.run(lambda _pace: login.next(token))  # a password is salted there
        except LoginRefused as error:
            raise self._failed(str(error)) from error

    def _failed(self, why: str) -> AuthenticationFailed:
        if self._tokens is not None and self._token is not None:
            self._tokens.forget(self._token)
        who = f" as {self._sasl.user!r}" if self._sasl.user else ""
        return AuthenticationFailed(f"{self._sasl.mechanism}{who} at {self._connection.name}: {why}")

    def _begin_again(self) -> None:
        if not self._connection.is_closed:
            self._start(self._login_again())

    async def _login_again(self) -> None:
        connection = self._connection
        try:
            login = await self._new_login()  # requests go on meanwhile: a token may be long in coming
            connection.hold_requests()
            await self._log_in(login)
        except KafkaError as error:
            connection.close(error)
        finally:
            connection.release_requests()
