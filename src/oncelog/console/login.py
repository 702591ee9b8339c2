"""`--login`: each person has a console of their own, with their own name and password at the brokers.

Nothing is shared between sessions: each has its own client, reader, looks and plans, so a page shows what that person may see.
What was given is held in memory for as long as the session lasts; it stands in no log, no answer and no address. Bounds:
`LOGINS_MAX` sessions, `LOGINS_OF_ONE_MAX` of them a person's (one more ends the one of theirs that was unused for longest), each
with `STREAMS_MAX` streams; one ends by itself when nobody asked anything for `IDLE_S`. Of each name one password is tried at a
time, and a wrong one takes its time, so that nobody tries many; who has another name does not wait for that.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import secrets
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import field
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from oncelog.cli.clients import arguments, patient
from oncelog.cli.command import Settings
from oncelog.client.admin.admin import Admin
from oncelog.client.config import AdminConfig, snake_case
from oncelog.console.plans import body_of
from oncelog.console.routes import STATIC, application, index, keep_session, page
from oncelog.console.security import SESSION_S, Gate, Guard, Session
from oncelog.console.watch import Watch
from oncelog.errors import AuthenticationFailed, ConfigurationError, InvalidArgument, RequestTimedOut
from oncelog.lazy_dataclass import dataclass

log = logging.getLogger("oncelog.console")

LOGINS_MAX = 16
LOGINS_OF_ONE_MAX = 4
STREAMS_MAX = 4
IDLE_S = 1800.0
SWEEP_S = 30.0
WAITING_MAX = 32
WAITING_OF_ONE_MAX = 3
WRONG_TAKES_S = 1.0
CONNECT_TIMEOUT_S = 10.0
TEXT_BYTES_MAX = 1024
MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")
OWN = ("sasl_username", "sasl_password", "sasl_jaas_config", "sasl_tokenauth", "sasl_oauth_token_provider")


class Given(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who somebody says to be."""

    user: str
    password: str

    def __repr__(self) -> str:
        return "Given(...)"


@dataclass
class Login(Session):
    """Somebody who logged in, with the console that is theirs."""

    user: str = ""
    console: Starlette = field(default_factory=Starlette)
    last_s: float = 0.0
    over: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_watching(self) -> bool:
        """Whether a stream is open."""
        gate: Gate = self.console.state.gate
        return gate.is_watched


@dataclass
class LoginGate(Gate):
    """A gate whose sessions are begun by a name and a password that the brokers know."""

    logins: dict[str, Login] = field(default_factory=dict, repr=False)

    def session_of(self, cookies: Mapping[str, str], user: str | None) -> Session | None:  # noqa: ARG002
        """The session that a request belongs to; it is not idle then."""
        self.end_old()
        found = self.logins.get(cookies.get(self.cookie, ""))
        if found is not None:
            found.last_s = self.clock()
        return found

    @property
    def way_in(self) -> tuple[str, str]:
        """What is said to whom nobody knows."""
        return "LoginNeeded", "log in with your name and password at the brokers"

    def end_old(self) -> None:
        """Sessions whose time is up, or that nobody has used for a while."""
        now_s = self.clock()
        for secret, each in list(self.logins.items()):
            if each.ends_s <= now_s or (each.last_s + IDLE_S <= now_s and not each.is_watching):
                self.end(secret)

    def end(self, secret: str) -> None:
        """One session: its client is closed, what it gave is forgotten."""
        if (found := self.logins.pop(secret, None)) is not None:
            found.console.state.end_streams()
            found.over.set()

    def make_room(self, user: str) -> bool:
        """Whether this person can have one more session; of too many of theirs the one goes that was not used for longest."""
        self.end_old()
        theirs = [(each.is_watching, each.last_s, secret) for secret, each in self.logins.items() if each.user == user]
        if len(theirs) >= LOGINS_OF_ONE_MAX:
            self.end(min(theirs)[2])
        return len(self.logins) < LOGINS_MAX

    def end_streams(self) -> None:
        """Of all."""
        for each in self.logins.values():
            each.console.state.end_streams()


def check_login(settings: Settings) -> None:
    """Whether people can log in with these settings. Raises ConfigurationError."""
    given = snake_case(settings.client_config())
    protocol, mechanism = (
        str(given.get("security_protocol", "")),
        given.get("sasl_mechanism", given.get("sasl_mechanisms")),
    )
    if not protocol.upper().startswith("SASL_") or mechanism not in MECHANISMS:
        raise ConfigurationError(
            f"--login needs security.protocol=SASL_SSL (or SASL_PLAINTEXT) and sasl.mechanism={' or '.join(MECHANISMS)}, "
            "with -X or in --command-config"
        )
    if named := [each for each in OWN if given.get(each)]:
        key = named[0].replace("_", ".")
        raise ConfigurationError(f"--login and {key} exclude each other: each person brings their own")


def login_application(settings: Settings, gate: LoginGate, **more: Any) -> Starlette:
    """The ASGI application: the page and the way in; everything else is answered by the console of whoever asks."""
    door = Door(settings, gate, more)

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            door.begin = group.create_task
            sweeper = group.create_task(door.sweep())
            yield
            for secret in list(gate.logins):
                gate.end(secret)
            sweeper.cancel()

    made = Starlette(
        lifespan=lifespan,
        middleware=[Middleware(Guard, gate=gate)],
        routes=[
            Route("/", index),
            Route("/api/v1/login", page(door.log_in), methods=["POST"]),
            Route("/api/v1/logout", page(door.log_out), methods=["POST"]),
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
    )
    nothing = made.router.default

    async def own_console(scope: Scope, receive: Receive, send: Send) -> None:
        login = scope.get("console_session")
        await (login.console if isinstance(login, Login) else nothing)(scope, receive, send)

    made.router.default = own_console
    made.state.settings, made.state.gate, made.state.end_streams = settings, gate, gate.end_streams
    return made


class Door:
    """Lets people in and out. `more`: what each console is made with."""

    def __init__(self, settings: Settings, gate: LoginGate, more: dict[str, Any]) -> None:
        self._settings, self._gate, self._more = settings, gate, more
        self._one_at_a_time = asyncio.Lock()
        self._of_a_name: dict[str, asyncio.Lock] = {}  # of those who wait
        self._waiting = Counter[str]()
        self.begin: Callable[[Any], Any]

    async def sweep(self) -> None:
        """Until it is cancelled: sessions that nobody uses end also where nobody asks anything."""
        while True:
            await asyncio.sleep(SWEEP_S)
            self._gate.end_old()

    async def log_in(self, request: Request) -> Response:
        """A name and a password become a cookie, if the brokers let them in."""
        given: Given = await body_of(request, Given)
        if not all(
            0 < len(each.encode()) <= TEXT_BYTES_MAX and "\0" not in each for each in (given.user, given.password)
        ):
            raise InvalidArgument("write your name and your password")
        name = given.user
        if self._waiting.total() >= WAITING_MAX or self._waiting[name] >= WAITING_OF_ONE_MAX:
            return _refused(429, "too many people are logging in: try again in a moment")
        self._waiting[name] += 1
        try:
            async with self._of_a_name.setdefault(name, asyncio.Lock()):
                return await self._tried(request, given)
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name], self._of_a_name[name]

    async def _tried(self, request: Request, given: Given) -> Response:
        own = {**self._settings.properties, "sasl.username": given.user, "sasl.password": given.password}
        settings = dataclasses.replace(self._settings, properties=own)
        address = request.client.host if request.client else "?"
        try:
            async with self._one_at_a_time, _admin_of(settings) as admin:
                await admin.describe_cluster()
        except AuthenticationFailed:
            log.warning("%r from %s: not let in", given.user, address)
            await _pause()
            return _refused(401, "the brokers do not know this name with this password")
        self._gate.end(request.cookies.get(self._gate.cookie, ""))  # one browser, one session
        if not self._gate.make_room(given.user):
            return _refused(429, f"{LOGINS_MAX} sessions are open: somebody has to log out, or be idle for 30 minutes")
        log.warning("%r from %s: logged in", given.user, address)
        answer = JSONResponse({"ok": True})
        keep_session(request, answer, self._gate, self._begun(settings, given.user))
        return answer

    def _begun(self, settings: Settings, user: str) -> str:
        """A console of their own, in a task of its own; the secret of its session."""
        inner = Gate(self._gate.hosts, is_open=True, name=user, streams_max=STREAMS_MAX)
        watch = Watch(settings, lambda: _admin_of(patient(settings)))
        console = application(settings, inner, watch=watch, **self._more)
        now_s, secret = self._gate.clock(), secrets.token_urlsafe(32)
        login = self._gate.logins[secret] = Login(now_s + SESSION_S, user=user, console=console, last_s=now_s)
        self.begin(_lived(login))
        return secret

    async def log_out(self, request: Request) -> Response:
        """The session ends now."""
        answer = JSONResponse({"ok": True})
        self._gate.end(request.cookies.get(self._gate.cookie, ""))
        answer.delete_cookie(self._gate.cookie, path=f"{request.scope.get('root_path', '')}/")
        return answer


async def _lived(login: Login) -> None:
    async with login.console.router.lifespan_context(login.console):
        await login.over.wait()


@asynccontextmanager
async def _admin_of(settings: Settings) -> AsyncIterator[Admin]:
    """A client of one person. Errors of several that connect at a time are not mixed here, as the command line's would be."""
    client = Admin(**arguments(AdminConfig, settings))
    try:
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await client.start()
        except TimeoutError as error:
            raise RequestTimedOut(f"no broker has answered within {CONNECT_TIMEOUT_S:g} s") from error
        yield client
    finally:
        await client.stop()


async def _pause() -> None:
    await asyncio.sleep(WRONG_TAKES_S)


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": "refused", "message": message}, status)
