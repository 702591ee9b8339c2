"""Who may ask: known hosts and origins, a one-time token for a session, bounds on what one session may have at once.

A page of another site must not read from here, by a name that it points to 127.0.0.1 (DNS rebinding), by a form, or by a frame:
so Host and Origin are compared, the cookie is SameSite=Strict and HttpOnly, posts need JSON and a header of ours. Files of the
page itself hold no data and need no session.
"""

from __future__ import annotations

import hmac
import ipaddress
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import field

from starlette.datastructures import Headers
from starlette.requests import cookie_parser
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from oncelog.lazy_dataclass import dataclass

SESSIONS_MAX = 32
SESSION_S = 12 * 3600.0
STREAMS_PER_SESSION_MAX = 12
STREAMS_MAX = 64
BODY_BYTES_MAX = 4096
HEADER = "x-oncelog-console"
COOKIE = "oncelog_console"
PUBLIC = ("/api/v1/session", "/api/v1/login")
HEADERS = {
    "content-security-policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; form-action 'none'; "
        "frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


@dataclass
class Session:
    """Somebody who came by a link. Times are the clock's, in seconds."""

    ends_s: float
    streams: int = 0


@dataclass
class Gate:
    """Decides who may ask. `hosts`: known values of Host, in lower case; None where the application around it knows.

    `user_header`: the proxies in `trusted_proxies` say there who the user is, and nobody else may come. `operators`: who of these
    may act, everybody else may look; None: whoever may look may act, where the console acts at all. `name`: who all here are.
    """

    hosts: frozenset[str] | None
    is_open: bool = False
    user_header: str | None = None
    trusted_proxies: frozenset[str] = frozenset()
    operators: frozenset[str] | None = None
    on_link_used: Callable[[], None] | None = None
    clock: Callable[[], float] = time.monotonic
    cookie: str = COOKIE
    name: str | None = None
    streams_max: int = STREAMS_MAX
    _tokens: set[str] = field(default_factory=set)
    _sessions: dict[str, Session] = field(default_factory=dict)
    _everybody: Session = field(default_factory=lambda: Session(float("inf")))

    def new_link_token(self) -> str:
        """A token that opens one session; the one before it is void."""
        self._tokens = {secrets.token_urlsafe(24)}
        return next(iter(self._tokens))

    def new_session(self, token: str) -> str | None:
        """A session's secret for a token that was not used yet; None for any other."""
        known = [each for each in self._tokens if hmac.compare_digest(each.encode(), token.encode())]
        if not known:
            return None
        self._tokens.clear()
        now_s = self.clock()
        self._sessions = {key: each for key, each in self._sessions.items() if each.ends_s > now_s}
        while len(self._sessions) >= SESSIONS_MAX:  # the oldest has to come by a new link
            del self._sessions[next(iter(self._sessions))]
        secret = secrets.token_urlsafe(32)
        self._sessions[secret] = Session(now_s + SESSION_S)
        if self.on_link_used is not None:
            self.on_link_used()
        return secret

    def session_of(self, cookies: Mapping[str, str], user: str | None) -> Session | None:
        """The session that a request belongs to; None where it has none."""
        if self.is_open or user is not None:
            return self._everybody
        found = self._sessions.get(cookies.get(self.cookie, ""))
        return found if found is not None and found.ends_s > self.clock() else None

    @property
    def way_in(self) -> tuple[str, str]:
        """What is said to whom nobody knows: a kind of error, and the way out."""
        return "refused", "open the link that `oncelog console` printed; each opens one browser"

    @property
    def is_watched(self) -> bool:
        """Whether somebody who needs no session of their own has a stream open."""
        return self._everybody.streams > 0

    def may_stream(self, session: Session) -> bool:
        """Whether one more stream may begin."""
        if session is self._everybody:
            return session.streams < self.streams_max
        running = sum(each.streams for each in self._sessions.values())
        return session.streams < STREAMS_PER_SESSION_MAX and running < self.streams_max

    def refusal(self, method: str, headers: Headers, client: str | None, path: str) -> tuple[int, str] | None:
        """Why a request may not pass, before anybody asks who it is from; None where it may."""
        host = headers.get("host", "").lower()
        if self.hosts is not None and host not in self.hosts:
            return (
                421,
                f"this console is not reached by the name {host!r}: use the address of its link, or --public-name",
            )
        origin = headers.get("origin")
        if origin is not None and origin.lower().partition("://")[2] != host:
            return 403, "asked by a page of another site"
        if headers.get("sec-fetch-site") == "cross-site" and path.startswith("/api/"):
            return 403, "asked by a page of another site"
        if method not in ("GET", "HEAD", "POST"):
            return 405, "the console only reads"
        if method == "POST" and (HEADER not in headers or headers.get("content-type") != "application/json"):
            return 415, f"a POST needs JSON and the header {HEADER}"
        return None if self.user_header is None else self._stranger(self.user_header, headers, client)

    def _stranger(self, name: str, headers: Headers, client: str | None) -> tuple[int, str] | None:
        given = headers.getlist(name)
        is_trusted = client is not None and _address(client) in map(_address, self.trusted_proxies)
        if not is_trusted or not any(given):
            return 403, "come by the proxy that says who you are"
        if len(given) > 1:  # one of them may be the client's own
            return 403, f"the proxy sent {name} {len(given)} times: it has to replace what a client sends"
        return None

    def user_of(self, headers: Headers) -> str | None:
        """Who the trusted proxy says that it is, or who logged in; ask `refusal` first."""
        if self.name is not None:
            return self.name
        name = None if self.user_header is None else headers.get(self.user_header)
        return None if name is None else name.encode("latin-1").decode("utf-8", "backslashreplace")

    def may_act(self, headers: Headers) -> bool:
        """Whether it is an operator; ask `refusal` first. Names are compared as bytes: none is like another."""
        if self.operators is None:
            return True
        name = "" if self.user_header is None else headers.get(self.user_header, "")
        return name.encode("latin-1") in {each.encode("utf-8", "surrogateescape") for each in self.operators}


class Guard:
    """The gate around an application: refuses, adds the headers that keep a page from being misused, finds the session."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app, self._gate = app, gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", "")) or "/"
        client = scope["client"][0] if scope.get("client") else None

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                known = {name.lower() for name, _ in message["headers"]}
                more = [(k.encode(), v.encode()) for k, v in HEADERS.items() if k.encode() not in known]
                message["headers"] = [*message["headers"], *more]
            await send(message)

        kind, refused = "refused", self._gate.refusal(scope["method"], headers, client, path)
        if refused is None and path.startswith("/api/") and path not in PUBLIC:
            session = self._gate.session_of(cookie_parser(headers.get("cookie", "")), self._gate.user_of(headers))
            scope["console_session"] = session
            if session is None:
                kind, text = self._gate.way_in
                refused = 401, text
            elif scope["method"] == "POST" and not self._gate.may_act(headers):
                refused = 403, f"{self._gate.user_of(headers)!r} is a viewer here: copy the command, or ask an operator"
        if refused is not None:
            status, text = refused
            await JSONResponse({"error": kind, "message": text}, status)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)


def _address(text: str) -> str:
    """An address as it is compared: in its short form, and IPv4 as such where it came by a socket of IPv6."""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        return text
    return str(getattr(found, "ipv4_mapped", None) or found)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def hosts_of(host: str, port: int, public_names: tuple[str, ...] = ()) -> frozenset[str]:
    """The values of Host by which a console on this address is reached."""
    shown = f"[{host}]" if ":" in host else host
    names = {shown, *public_names}
    if is_loopback(host):
        names |= {"localhost", "127.0.0.1", "[::1]"}
    with_port = {name if _has_port(name) else f"{name}:{port}" for name in names}
    return frozenset(each.lower() for each in with_port | set(public_names))


def _has_port(name: str) -> bool:
    return name.rpartition(":")[2].isdigit() and not name.endswith("]")
