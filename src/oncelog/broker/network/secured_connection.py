"""A connection that must say who it is: before that it is served three requests, in a bounded time and memory.

What may come and what follows is decided by `core/sasl`; here are its bytes, delays and timers. A connection of a
PLAINTEXT listener is a plain `Connection` and pays nothing for this.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any, Protocol

from oncelog.broker.network.connection import Connection, ConnectionOwner, Slot
from oncelog.broker.network.connection_limits import ConnectionLimits
from oncelog.broker.network.listener_security import ListenerSecurity, SecurityOwner
from oncelog.broker.requests.request import Reply
from oncelog.core.sasl.connection import SaslConnection, State, Step
from oncelog.errors import ErrorCode, MalformedMessage
from oncelog.host.tls import tls_version
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.frame import RequestHeader, decode_request_header
from oncelog.wire.schema import decode_message

_SASL_KEYS = (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE)
_SASL_STARTS = tuple(key.to_bytes(2, "big") for key in _SASL_KEYS)
SESSION_GRACE_S = 1.0  # after a session's end; a client that begins again has begun by then
# From the answer of a refusal to the end, unless the client ends it first: kafka-python throws away what it reads together with
# the end, and so would not know why.
LINGER_S = 0.1
IN_FLIGHT_BEFORE = 4  # requests of a connection that nobody knows


@lru_cache(maxsize=16)
def _limits_before(limits: ConnectionLimits, receive_bytes_max: int) -> ConnectionLimits:
    """What a connection may take before it has authenticated."""
    few_bytes = min(limits.frame_bytes_max, receive_bytes_max)
    count = min(limits.in_flight_count_max, IN_FLIGHT_BEFORE)
    return replace(limits, frame_bytes_max=few_bytes, first_frame_bytes_max=few_bytes, in_flight_count_max=count)


class SecuredOwner(ConnectionOwner, SecurityOwner, Protocol):
    """What it asks of its server."""


class SecuredConnection(Connection):
    """The server's end of a connection to a SASL listener."""

    may_send_much = False  # until it is known who it is

    def __init__(
        self, server: SecuredOwner, connection_id: int, limits: ConnectionLimits, listener: ListenerSecurity
    ) -> None:
        super().__init__(server, connection_id, _limits_before(limits, listener.config.receive_bytes_max))
        self._security: SecuredOwner = server
        self._limits_after = limits
        self._listener = listener
        self._sasl: SaslConnection = listener.new_sasl()
        self.listener_name = listener.config.name
        self._accepted_s = asyncio.get_running_loop().time()
        self.frame_limit = "sasl.server.max.receive.size"
        self._tls_version = ""
        self._is_stranger = True
        self._is_refused = False
        self._deadline: asyncio.TimerHandle | None = None
        self._session_end: asyncio.TimerHandle | None = None
        self._refusal: asyncio.TimerHandle | None = None  # one that is held back
        self._refused: tuple[Slot | None, Reply] = (None, None)

    # what the transport calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection; from its arrival on the time to authenticate runs."""
        super().connection_made(transport)
        if self._transport is not None:
            self._tls_version = tls_version(transport.get_extra_info("ssl_object"))
            self._security.strangers.came(self)
            self._set_deadline(self._accepted_s)

    def _take(self, receive: Callable[[Any], list[memoryview]], data: bytes | int) -> None:
        """As a plain one; what nobody answers for yet is counted."""
        super()._take(receive, data)
        if self._is_stranger:
            self._security.strangers.holds(self, self.partial_size_bytes + sum(map(len, self._frames)))

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._security.strangers.left(self)
        for timer in (self._deadline, self._session_end, self._refusal):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    # time

    def _set_deadline(self, begun_s: float) -> None:
        self._clear_deadline()
        self._deadline = self._loop.call_at(begun_s + self._listener.timeout_s, self._too_late)

    def _clear_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _too_late(self) -> None:
        self._server.metrics.limit_hit("oncelog.authentication.timeout.ms")
        self._note_failure("no authentication in time", self._sasl.user)
        self.refuse("it did not authenticate in time")

    def _set_session_end(self) -> None:
        if self._session_end is not None:
            self._session_end.cancel()
            self._session_end = None
        ends_ms = self._sasl.session_ends_ms
        if ends_ms is not None:
            self._session_end = self._loop.call_at(ends_ms / 1000 + SESSION_GRACE_S, self._end_session)

    def _end_session(self) -> None:
        if self._sasl.state is State.AGAIN:
            return  # the deadline of the authentication under way holds
        self._server.metrics.add("sessions_expired")
        self._security.audit.said("session ended", self.client_host, **self._who())
        self.close()

    # requests

    def _begin(self, frame: memoryview) -> None:
        sasl = self._sasl
        if sasl.state is State.RAW:
            self._take_raw_token(bytes(frame))
        elif bytes(frame[:2]) in _SASL_STARTS:
            self._begin_sasl(frame)
        elif sasl.may_ask(self._now_ms()) or (
            bytes(frame[:2]) == _API_VERSIONS and sasl.may_ask_versions(self._now_ms())
        ):
            super()._begin(frame)
        else:
            self._refuse_request()

    def _answer(self, slot: Slot, reply: Reply) -> None:
        if self._is_stranger and slot.header.api_key == ApiKey.API_VERSIONS and reply.error_code == ErrorCode.NONE:
            self._sasl.versions_told()
        super()._answer(slot, reply)

    def _refuse_request(self) -> None:
        is_expired = self._sasl.is_authenticated
        if is_expired:
            self._server.metrics.add("sessions_expired")
            self._security.audit.said("session ended", self.client_host, **self._who())
        self.refuse("its session has ended" if is_expired else "a request came before the authentication")

    def _begin_sasl(self, frame: memoryview) -> None:
        try:
            header, position = decode_request_header(frame)
            if not self._server.serves(header.api_key, header.api_version):
                self.refuse(f"request of API key {header.api_key} version {header.api_version} is not served")
                return
            request = APIS[header.api_key].request
            message: Any = decode_message(request, header.api_version, frame[position:], trailing="ignore")
        except MalformedMessage as error:
            self.refuse(f"malformed SASL request: {error}")
            return
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            step = self._sasl.handshake(header.api_version, message.mechanism, self._now_ms())
            if self._sasl.state is State.AGAIN:
                self._set_deadline(self._loop.time())
        else:
            step = self._sasl.authenticate(header.api_version, bytes(message.auth_bytes), self._now_ms())
        self._follow_step(header, step)

    def _take_raw_token(self, token: bytes) -> None:
        step = self._sasl.raw_token(token, self._now_ms())
        if step.is_over:
            self._follow_step(None, step)
            return
        if step.has_begun_session:
            self._session_begun()
        assert isinstance(step.reply, bytes)
        self._write([struct.pack(">i", len(step.reply)) + step.reply])

    def _follow_step(self, header: RequestHeader | None, step: Step) -> None:
        if step.has_begun_session:
            self._session_begun()
        if not step.is_over:
            assert header is not None
            slot = Slot(self, header, self.last_active)
            self._slots.append(slot)
            self._answer(slot, step.reply)
            return
        assert step.refused is not None
        self._note_failure(step.refused.reason, step.refused.user)
        delay_s = self._security.failures.delay_s(self.client_host, self._listener.failure_delay_s, self._loop.time())
        if header is None or step.reply is None:
            self._refuse_later(delay_s if header is None else 0.0)
            return
        slot = Slot(self, header, self.last_active)
        self._slots.append(slot)
        self._refuse_later(delay_s, slot, step.reply)

    def _refuse_later(self, delay_s: float, slot: Slot | None = None, reply: Reply = None) -> None:
        """Nothing that stands behind is begun; the answer, where there is one, and the end come after the delay."""
        self.is_draining = True
        self._security.strangers.is_over(self)
        self._forget_frames()
        self._clear_deadline()
        self.mute(delay_s)
        self._refused = (slot, reply)
        self._refusal = self._loop.call_later(delay_s, self._refuse_now)

    def drain(self) -> None:
        """As a plain one; a refusal that is held back, only to slow a guesser down, is told at once."""
        if self._refusal is not None:
            self._refusal.cancel()
            self._refuse_now()
        super().drain()

    def _refuse_now(self) -> None:
        self._refusal = None
        slot, reply = self._refused
        if self._transport is None:
            return
        if slot is None:
            self.close()
        else:
            self._is_refused = True
            self._answer(slot, reply)  # a draining connection closes when all is answered

    def _close_answered(self) -> None:
        if self._is_refused:
            self._loop.call_later(LINGER_S, self.close)
        else:
            super()._close_answered()

    # sessions

    def _session_begun(self) -> None:
        is_first = self._is_stranger
        self._clear_deadline()
        self._set_session_end()
        self.principal = f"User:{self._sasl.user}"
        self.is_by_token = bool(self._sasl.token_id)
        self._server.metrics.add("authentications" if is_first else "reauthentications")
        self._security.audit.said("login" if is_first else "re-login", self.client_host, **self._who())
        if is_first:
            self._is_stranger = False
            self._security.strangers.left(self)
            self._limits = self._limits_after
            self.frame_limit = Connection.frame_limit
            self._reader.allow(self._limits.frame_bytes_max)

    def _note_failure(self, reason: str, user: str) -> None:
        is_first = self._is_stranger
        self._server.metrics.add("authentications_failed" if is_first else "reauthentications_failed")
        who = {**self._who(), "principal": f"User:{user}" if user else ""}
        event = "login failed" if is_first else "re-login failed"
        self._security.audit.failed(event, self.client_host, reason=reason, **who)

    def _who(self) -> dict[str, str]:
        return {
            "principal": self.principal,
            "mechanism": self._sasl.mechanism,
            "listener": self.listener_name,
            **({"tls": self._tls_version} if self._tls_version else {}),
            **({"token": self._sasl.token_id} if self._sasl.token_id else {}),
        }

    def end_if_revoked(self) -> None:
        """End a session whose user's credentials, or whose token, are gone or others now; Kafka lets it go on."""
        if self._is_stranger:
            return
        reason = self._listener.why_revoked(self._sasl)
        if reason is not None:
            self._security.audit.said("session ended", self.client_host, reason=reason, **self._who())
            self.close()

    def _now_ms(self) -> float:
        return self._loop.time() * 1000


_API_VERSIONS = ApiKey.API_VERSIONS.to_bytes(2, "big")
