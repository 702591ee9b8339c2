"""The addresses of the console and their answers. They read; only `plans` acts, where that is allowed (docs/console.md)."""

from __future__ import annotations

import asyncio
import pathlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import msgspec
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from oncelog import __version__
from oncelog.cli.clients import open_admin, patient
from oncelog.cli.command import Settings, hint_for
from oncelog.cli.output import error_row
from oncelog.console import group_pages, more, pages, past, plans
from oncelog.console.answers import lanes_answer
from oncelog.console.group_judging import GroupJudge
from oncelog.console.group_rounds import GroupRounds
from oncelog.console.long_look import BeingRead, LongLook
from oncelog.console.planned import Plans
from oncelog.console.record_filter import Mask
from oncelog.console.security import BODY_BYTES_MAX, SESSION_S, Gate, Guard
from oncelog.console.watch import View, Watch, view_of
from oncelog.errors import InvalidArgument, KafkaError, Network, OncelogError, RequestTimedOut

STATIC = pathlib.Path(__file__).parent / "static"
SEND_TIMEOUT_S = 20.0  # a reader that takes nothing for so long is dropped
BEAT_S = 15.0
FIRST_LOOK_S = 5.0
AGAIN_S = 2


def application(
    settings: Settings,
    gate: Gate,
    *,
    database_url: str | None = None,
    watch: Watch | None = None,
    mask: Mask | None = None,
    allow_writes: bool = False,
) -> Starlette:
    """The ASGI application of one console."""
    # A broker that does not answer is told soon, not when an operation's whole time is over.
    shared = watch or Watch(settings, lambda: open_admin(patient(settings)))

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(shared.run())
            yield
            shared.stop()
            task.cancel()
            await shared.tasks.close()

    made = Starlette(
        lifespan=lifespan,
        middleware=[Middleware(Guard, gate=gate)],
        routes=[
            Route("/", index),
            Route("/api/v1/session", _session, methods=["POST"]),
            Route("/api/v1/hello", _hello),
            Route("/api/v1/lanes", _lanes),
            Route("/api/v1/events", _events),
            Route("/api/v1/overview", page(pages.overview)),
            Route("/api/v1/open", page(pages.open_transactions)),
            Route("/api/v1/in-doubt", page(pages.in_doubt)),
            Route("/api/v1/groups", page(group_pages.groups)),
            Route("/api/v1/why", page(group_pages.why)),
            Route("/api/v1/plans", page(plans.plans), methods=["GET", "POST"]),
            Route("/api/v1/plans/{plan_id}", page(plans.act), methods=["POST"]),
            *[Route(f"/api/v1/{name}", page(body)) for name, body in more.PAGES.items()],
            Mount("/static", StaticFiles(directory=STATIC)),
        ],
    )
    made.state.settings, made.state.gate, made.state.watch = settings, gate, shared
    made.state.database_url, made.state.end_streams = database_url, shared.stop
    made.state.everything = LongLook(shared.tasks, "every partition", "partitions")
    made.state.past = past.PastLooks()
    made.state.group_judge = GroupJudge(settings)
    made.state.group_rounds = GroupRounds(made.state.group_judge)
    made.state.groups = LongLook(shared.tasks, "every group")
    made.state.mask = mask or Mask()
    made.state.plans = Plans() if allow_writes else None
    return made


class Packed(Response):
    """JSON by msgspec: a tenth of the time of `json` for ten thousand spans."""

    media_type = "application/json"

    def render(self, content: Any) -> bytes:
        """As bytes."""
        return msgspec.json.encode(content)


async def index(_: Request) -> Response:
    """The page itself: it holds no data."""
    return FileResponse(STATIC / "index.html")


async def _session(request: Request) -> Response:
    """A one-time token becomes a cookie."""
    gate: Gate = request.app.state.gate
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            return JSONResponse({"error": "refused", "message": "too long"}, 413)
    try:
        given = msgspec.json.decode(bytes(body), type=dict[str, str])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return JSONResponse({"error": "refused", "message": "no JSON"}, 400)
    secret = gate.new_session(given.get("token", ""))
    if secret is None:
        message = "this link was used before, or is none: take the last one that `oncelog console` has printed"
        return JSONResponse({"error": "refused", "message": message}, 401)
    answer = JSONResponse({"ok": True})
    keep_session(request, answer, gate, secret)
    return answer


def keep_session(request: Request, answer: Response, gate: Gate, secret: str) -> None:
    """As a cookie that no script reads and no other site's page sends."""
    # A proxy in front speaks HTTPS; who lies about that gets a cookie that is of no use.
    is_secure = "https" in (request.url.scheme, request.headers.get("x-forwarded-proto", "").partition(",")[0].strip())
    path = f"{request.scope.get('root_path', '')}/"
    answer.set_cookie(
        gate.cookie, secret, max_age=int(SESSION_S), path=path, secure=is_secure, httponly=True, samesite="strict"
    )


async def _hello(request: Request) -> Response:
    state = request.app.state
    watch: Watch = state.watch
    return Packed(
        {
            "version": __version__,
            "cluster": watch.cluster_id,
            "brokers": state.settings.client_config()["bootstrap.servers"],
            "has_database": state.database_url is not None,
            "is_read_only": not plans.may_write(request),
            "user": state.gate.user_of(request.headers),
            "has_login": state.gate.name is not None,
        }
    )


def _view(request: Request) -> View:
    asked = request.query_params
    return view_of(asked.get("topic", ""), asked.get("partition", ""), asked.get("window_ms", ""))


async def _lanes(request: Request) -> Response:
    """One whole answer: what `oncelog transactions lanes` shows, for the page's view."""
    if past.is_past(request.query_params):
        return await page(past.lanes)(request)
    try:
        view = _view(request)
    except ValueError as error:
        return JSONResponse({"error": "refused", "message": str(error)}, 400)
    watch: Watch = request.app.state.watch
    with watch.watched(view):
        await _first_look(watch, view)
        return Packed(lanes_answer(watch, view))


async def _first_look(watch: Watch, view: View) -> None:
    """Until all of the view's lanes were read, an error says why not, or a look that began after it saw that there are none.
    An error of before is none: nobody may have looked since, and the brokers may be well."""
    begun, before = watch.look_count, watch.error
    try:
        async with asyncio.timeout(FIRST_LOOK_S):
            while not watch.is_stopping and watch.look_count <= begun + 1:
                if watch.has_seen(view) if watch.error is None else watch.error is not before:
                    return
                await watch.changed.wait()
    except TimeoutError:
        pass


async def _events(request: Request) -> Response:
    """Server-sent events: `hello`, then `lanes` with what changed; a stream that comes back gets what it missed."""
    try:
        view = _view(request)
    except ValueError as error:
        return JSONResponse({"error": "refused", "message": str(error)}, 400)
    gate: Gate = request.app.state.gate
    session = request.scope["console_session"]
    if not gate.may_stream(session):
        return JSONResponse({"error": "refused", "message": "too many pages are open: close some"}, 429)
    return _Stream(request, view)


class _Stream(Response):
    """Written by hand, so that a reader that takes nothing is dropped instead of kept for ever."""

    def __init__(self, request: Request, view: View) -> None:
        self._request, self._view = request, view
        super().__init__()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """ASGI."""
        watch: Watch = self._request.app.state.watch
        session = scope["console_session"]
        session.streams += 1
        try:
            async with asyncio.TaskGroup() as group:
                gone = group.create_task(_until_gone(receive))
                writing = group.create_task(self._write(watch, send))
                await asyncio.wait((gone, writing), return_when=asyncio.FIRST_COMPLETED)
                gone.cancel()
                writing.cancel()
        except* (TimeoutError, OSError):
            pass  # it took nothing for too long, or its connection is gone
        finally:
            session.streams -= 1

    async def _write(self, watch: Watch, send: Send) -> None:
        kinds = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
        await send({"type": "http.response.start", "status": 200, "headers": kinds})
        last = self._request.headers.get("last-event-id", "").partition("-")
        version = int(last[2]) if last[0] == watch.nonce and last[2].isdecimal() and len(last[2]) < 19 else 0
        with watch.watched(self._view):
            await _first_look(watch, self._view)
            while not watch.is_stopping:
                changed = watch.changed
                answer = lanes_answer(watch, self._view, version)
                if answer["partitions"]:
                    version = answer["version"]
                data = msgspec.json.encode(answer).decode()
                text = f"id: {watch.nonce}-{version}\nevent: lanes\ndata: {data}\n\n"
                await _sent(send, text)
                while not changed.is_set():
                    try:
                        await asyncio.wait_for(changed.wait(), BEAT_S)
                    except TimeoutError:
                        await _sent(send, ": still here\n\n")
        await send({"type": "http.response.body", "body": b""})


async def _sent(send: Send, text: str) -> None:
    await asyncio.wait_for(
        send({"type": "http.response.body", "body": text.encode(), "more_body": True}), SEND_TIMEOUT_S
    )


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def _hint(error: KafkaError | OncelogError | OSError, settings: Settings) -> str:
    """The way out. Who sits at a browser gives no option: where brokers do not answer it is not the command line's."""
    if isinstance(error, RequestTimedOut | Network | ConnectionError | TimeoutError):
        return "do they run, and does the console reach them? it asks again by itself"
    return hint_for(error, settings)


def page(body: Callable[[Request], Awaitable[Any]]) -> Callable[[Request], Awaitable[Response]]:
    """A page's answer; an error is the same object as on the command line."""

    async def answered(request: Request) -> Response:
        settings: Settings = request.app.state.settings
        try:
            answer = await body(request)
            return answer if isinstance(answer, Response) else Packed(answer)
        except BeingRead as error:  # accepted, and not done: no error to a browser
            return JSONResponse(error_row(error), 202, {"retry-after": str(AGAIN_S)})
        except (KafkaError, OncelogError, OSError) as error:
            status = 400 if isinstance(error, InvalidArgument) else 502
            return JSONResponse(error_row(error, _hint(error, settings)), status)

    return answered
