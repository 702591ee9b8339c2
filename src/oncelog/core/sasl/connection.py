"""One connection on its way to a principal: which requests may come, what they are answered, when a session ends.

Before authentication only ApiVersions, SaslHandshake and SaslAuthenticate are served, in this order; what else comes ends
the connection. Where a session has an end, it begins again with a handshake on the living connection (KIP-368). What is
told here is Kafka's, asked of Apache Kafka 4.3; times are milliseconds of a clock that never goes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from oncelog.core.sasl.exchange import Challenge, Exchange, Outcome, Proven, Refused
from oncelog.errors import ErrorCode
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.messages.sasl_authenticate import SaslAuthenticateResponse
from oncelog.wire.messages.sasl_handshake import SaslHandshakeResponse

AGAIN_AFTER_MS = 1_000  # a session that began again this short a time ago does not do it once more
NOBODY = "ANONYMOUS"  # who has not said who it is, and what rules may be about: no proof makes somebody this one
TOKENS_MAX = 3  # in one conversation
LIFETIME_SINCE_VERSION = 1


class State(Enum):
    """Where a connection stands."""

    NEW = "new"
    VERSIONS_KNOWN = "versions known"
    UNDER_WAY = "under way"  # the handshake is made, tokens come in SaslAuthenticate
    RAW = "raw"  # the same after SaslHandshake v0: tokens come without requests
    AUTHENTICATED = "authenticated"
    AGAIN = "again"  # as UNDER_WAY, of a connection that has a principal
    OVER = "over"


@dataclass(frozen=True, slots=True)
class Mechanism:
    """A mechanism of a listener; `session_ms` 0: its sessions have no end."""

    begin: Callable[[], Exchange]
    session_ms: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """What follows from what came: `reply` is a response or, after SaslHandshake v0, bytes.

    `is_over`: the connection ends after the reply, which waits for the delay of failures.
    """

    reply: SaslHandshakeResponse | SaslAuthenticateResponse | bytes | None = None
    is_over: bool = False
    refused: Refused | None = None
    has_begun_session: bool = False


class SaslConnection:
    """Who is at the other end of one connection to one listener."""

    def __init__(self, mechanisms: Mapping[str, Mechanism]) -> None:
        self._mechanisms = mechanisms
        self.state = State.NEW
        self.mechanism = ""
        self.user = ""  # of the session that has begun last
        self.token_id = ""  # of the delegation token that it came by
        self.stored_key = b""  # what its password was proved against, by SCRAM
        self.session_ends_ms: float | None = None
        self._began_again_ms: float | None = None
        self._is_again = False
        self._exchange: Exchange | None = None
        self._token_count = 0

    # requests that are not SASL's

    def may_ask_versions(self, now_ms: float) -> bool:
        """Whether ApiVersions is served now; once before the handshake, and as any other request later."""
        return self.state is State.NEW or self.may_ask(now_ms)

    def versions_told(self) -> None:
        """ApiVersions was answered without an error; after one the client asks again."""
        if self.state is State.NEW:
            self.state = State.VERSIONS_KNOWN

    def may_ask(self, now_ms: float) -> bool:
        """Whether a request of another API is served now; where not, the connection ends without an answer."""
        return self.state is State.AUTHENTICATED and not self.is_past(now_ms)

    def is_past(self, now_ms: float) -> bool:
        """Whether the session has ended."""
        return self.session_ends_ms is not None and now_ms > self.session_ends_ms

    @property
    def is_authenticated(self) -> bool:
        """Whether there is a principal, also while a session begins again."""
        return self._is_again or self.state is State.AUTHENTICATED

    # SASL's own

    def handshake(self, version: int, mechanism: str, now_ms: float) -> Step:
        """A SaslHandshake request."""
        if self.state is State.AUTHENTICATED:
            again_ms = self._began_again_ms
            is_soon = again_ms is not None and now_ms - again_ms < AGAIN_AFTER_MS and not self.is_past(now_ms)
            if self.session_ends_ms is None or is_soon:
                return Step(SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        elif self.state not in (State.NEW, State.VERSIONS_KNOWN):
            refused = Refused("", "SaslHandshake in the middle of an authentication", self.user)
            return self._over(refused, SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE))
        offered = sorted(self._mechanisms)
        found = self._mechanisms.get(mechanism)
        if found is None:
            code = ErrorCode.UNSUPPORTED_SASL_MECHANISM
            refused = Refused("", "a mechanism that the listener does not have")
            return self._over(refused, SaslHandshakeResponse(error_code=code, mechanisms=offered))
        self._is_again = self.state is State.AUTHENTICATED
        if self._is_again:
            self._began_again_ms = now_ms
            if mechanism != self.mechanism or version == 0:
                refused = Refused("", "another mechanism than the session's", self.user)
                return self._over(refused, SaslHandshakeResponse(mechanisms=offered))
        self.state = State.AGAIN if self._is_again else State.RAW if version == 0 else State.UNDER_WAY
        self.mechanism = mechanism
        self._exchange, self._token_count = found.begin(), 0
        return Step(SaslHandshakeResponse(mechanisms=offered))

    def authenticate(self, version: int, token: bytes, now_ms: float) -> Step:
        """A SaslAuthenticate request."""
        if self.state is State.AUTHENTICATED:
            if self.is_past(now_ms):
                return self._over(Refused("", "the session has ended", self.user))
            message = "SaslAuthenticate came after the authentication"
            return Step(SaslAuthenticateResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE, error_message=message))
        if self.state not in (State.UNDER_WAY, State.AGAIN):
            return self._over(Refused("", "SaslAuthenticate before SaslHandshake"))
        outcome = self._responded(token)
        if isinstance(outcome, Challenge):
            return Step(SaslAuthenticateResponse(auth_bytes=outcome.token))
        if isinstance(outcome, Proven):
            lifetime_ms = self._begin_session(outcome, now_ms)
            told_ms = lifetime_ms if version >= LIFETIME_SINCE_VERSION else 0
            reply = SaslAuthenticateResponse(auth_bytes=outcome.token, session_lifetime_ms=told_ms)
            return Step(reply, has_begun_session=True)
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        return self._over(outcome, SaslAuthenticateResponse(error_code=code, error_message=outcome.words))

    def raw_token(self, token: bytes, now_ms: float) -> Step:
        """A token without a request, after SaslHandshake v0: nobody is told of a failure."""
        assert self.state is State.RAW
        outcome = self._responded(token)
        if isinstance(outcome, Challenge):
            return Step(outcome.token)
        if isinstance(outcome, Proven):
            self._begin_session(outcome, now_ms)
            return Step(outcome.token, has_begun_session=True)
        return self._over(outcome)

    def _responded(self, token: bytes) -> Outcome:
        assert self._exchange is not None
        self._token_count += 1
        if self._token_count > TOKENS_MAX:
            return Refused("authentication failed: too many tokens", "too many tokens")
        outcome = self._exchange.respond(token)
        if isinstance(outcome, Proven) and outcome.user == NOBODY:
            return Refused("authentication failed: nobody is called ANONYMOUS", "the name ANONYMOUS", outcome.user)
        if isinstance(outcome, Proven) and self._is_again and outcome.user != self.user:
            return Refused(
                "authentication failed: a session cannot go on as another user", "another user", outcome.user
            )
        return outcome

    def _begin_session(self, proven: Proven, now_ms: float) -> int:
        """How long it is: as the listener says, and no longer than what was shown holds; 0 without an end."""
        session_ms = self._mechanisms[self.mechanism].session_ms
        if proven.lifetime_ms is not None:
            session_ms = min(session_ms or proven.lifetime_ms, proven.lifetime_ms)
        self.user, self.state, self._exchange = proven.user, State.AUTHENTICATED, None
        self.token_id, self.stored_key = proven.token_id, proven.stored_key
        self.session_ends_ms = now_ms + session_ms if session_ms else None
        return session_ms

    def _over(self, refused: Refused, reply: SaslHandshakeResponse | SaslAuthenticateResponse | None = None) -> Step:
        self.state, self._exchange = State.OVER, None
        return Step(reply, is_over=True, refused=refused)
