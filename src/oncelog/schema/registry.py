"""A client of the Schema Registry's REST API, blocking and async; both run the same steps (`Exchange`) in an event loop, the
blocking one in that of a thread: only there a deadline also ends an answer that comes byte by byte.

What was found is kept, at most `cache_size_max` of each kind: an id's schema never changes. Nothing waits longer than
`timeout_ms`, retries included; an answer has at most `response_bytes_max` bytes.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
from collections.abc import Generator
from typing import Any, Self, TypedDict, TypeVar, Unpack
from urllib.parse import quote

from oncelog.client import arguments
from oncelog.errors import (
    ConfigurationError,
    IllegalState,
    SchemaNotFound,
    SchemaRegistryError,
    SchemaRegistryRefused,
    SchemaRegistryUnavailable,
    missing,
)
from oncelog.host.loop_thread import BEFORE_A_FORK, loop_thread
from oncelog.host.recently_used import RecentlyUsed
from oncelog.lazy_dataclass import dataclass

try:
    import httpx
except ImportError as error:
    raise missing("oncelog.schema", error, httpx="schema") from error

T = TypeVar("T")
RETRIED = {408, 429, 500, 502, 503, 504}
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
REFERENCES_MAX = 200  # of one schema, those of references included
NO_SUCH_SCHEMA = 40403
ID_MAX = 2**31 - 1  # four bytes in a record, an int of Java
LOWS = {"timeout_ms": 1, "retries": 0, "retry_backoff_ms": 1, "cache_size_max": 1, "response_bytes_max": 1}


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema names: `name` as it is named there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text; `kind` AVRO, JSON or PROTOBUF."""

    text: str
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()


@dataclass(frozen=True, slots=True)
class Registered:
    """A version of a subject."""

    schema_id: int
    schema: Schema


@dataclass(frozen=True, slots=True)
class Request:
    """What a step asks: a path below the registry's address."""

    method: str
    path: str
    body: dict[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    body: bytes


Exchange = Generator[Request, Answer, T]


class RegistryOptions(TypedDict, total=False):
    """What both clients take beside the address; `transport` (of httpx, async) is for tests.

    `basic_auth` is user and password, `bearer_token` a token; `ssl_context` has a private authority and, for mTLS, the
    client's certificate (`ssl.SSLContext.load_cert_chain`).
    """

    basic_auth: tuple[str, str] | None
    bearer_token: str | None
    ssl_context: ssl.SSLContext | None
    timeout_ms: int
    retries: int
    retry_backoff_ms: int
    cache_size_max: int
    response_bytes_max: int
    transport: Any


class Registry:
    """What both clients share. `url` may have a path."""

    def __init__(
        self,
        url: str,
        *,
        basic_auth: tuple[str, str] | None = None,
        bearer_token: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
        timeout_ms: int = 10_000,
        retries: int = 3,
        retry_backoff_ms: int = 100,
        cache_size_max: int = 1000,
        response_bytes_max: int = 16 * 1024 * 1024,
        transport: Any = None,
    ) -> None:
        for name, low in LOWS.items():
            given = locals()[name]
            if not isinstance(given, int) or isinstance(given, bool) or not low <= given <= arguments.INT32_MAX:
                raise _refuse(f"{name}={given!r}: expected a whole number, {low} to {arguments.INT32_MAX}")
        if ssl_context is not None and not isinstance(ssl_context, ssl.SSLContext):
            raise _refuse(f"ssl_context={ssl_context!r}: expected an ssl.SSLContext")
        self.url, told = _checked_url(url)
        if told is not None and (basic_auth is not None or bearer_token is not None):
            raise _refuse("the address has a user, and basic_auth or bearer_token too: give one of them")
        basic_auth = basic_auth or told
        self._timeout_s, self._retries, self._backoff_s = timeout_ms / 1000, retries, retry_backoff_ms / 1000
        self._response_bytes_max = response_bytes_max
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        headers |= _authorization(basic_auth, bearer_token)
        self._client = httpx.AsyncClient(
            headers=headers, timeout=self._timeout_s, verify=ssl_context or True, transport=transport
        )
        self._schemas: RecentlyUsed[Schema] = RecentlyUsed(cache_size_max)
        self._ids: RecentlyUsed[int] = RecentlyUsed(cache_size_max)
        self._named: RecentlyUsed[Schema] = RecentlyUsed(cache_size_max)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # -- the steps

    def at_hand(self, identity: int | str) -> Schema | None:
        """A schema that needs no request."""
        return self._schemas.get(identity)

    def schema_steps(self, identity: int | str) -> Exchange[Schema]:
        """The schema of an id or a GUID. Raises SchemaNotFound, SchemaRegistryError."""
        found = self._schemas.get(identity)
        if found is None:
            kind = "ids" if isinstance(identity, int) else "guids"
            answer, what = (yield Request("GET", f"/schemas/{kind}/{identity}")), f"schema {identity}"
            found = _schema(_checked(answer, what, not_found=SchemaNotFound))
            self._schemas.put(identity, found)
        return found

    def id_steps(self, subject: str, schema: Schema, *, register: bool) -> Exchange[int]:
        """The id of a schema under a subject, which `register` puts there."""
        found = self._ids.get((subject, schema, register))
        if found is None:
            path = _subject_path(subject) + ("/versions" if register else "")
            body = _body(schema)
            found = _number(_checked((yield Request("POST", path, body)), f"subject {subject!r}"), "id")
            self._ids.put((subject, schema, register), found)
        return found

    def version_steps(self, subject: str, version: int | str = "latest") -> Exchange[Registered]:
        """A version of a subject."""
        path = f"{_subject_path(subject)}/versions/{version}"
        fields = _checked((yield Request("GET", path)), f"subject {subject!r}, version {version}")
        return Registered(_number(fields, "id"), _schema(fields))

    def number_steps(self, subject: str, schema: Schema) -> Exchange[int]:
        """The version that a schema has under a subject: what a reference to it says."""
        path, body = _subject_path(subject), _body(schema) | {"schemaType": schema.kind}
        return _number(_checked((yield Request("POST", path, body)), f"subject {subject!r}"), "version")

    def references_steps(self, schema: Schema) -> Exchange[dict[str, Schema]]:
        """What a schema names, and what that names: by name, those without references first."""
        found: dict[str, Schema] = {}
        started: set[str] = set()

        def follow(each: Schema) -> Exchange[None]:
            for reference in each.references:
                if reference.name in started:
                    continue
                started.add(reference.name)
                if len(started) > REFERENCES_MAX:
                    raise SchemaRegistryError(f"a schema has more than {REFERENCES_MAX} references")
                key = reference.subject, reference.version
                named = self._named.get(key)
                if named is None:
                    named = (yield from self.version_steps(*key)).schema
                    self._named.put(key, named)
                yield from follow(named)
                found[reference.name] = named

        yield from follow(schema)
        return found

    # -- asking

    async def _run(self, steps: Exchange[T]) -> T:
        """Carry out steps, in the one event loop that the connections belong to. Raises SchemaRegistryError."""
        if self._client.is_closed:
            raise IllegalState(f"the client of the schema registry {self.url} is closed: make a new one")
        failures: list[httpx.HTTPError] = []
        try:
            async with asyncio.timeout(self._timeout_s):
                request = next(steps)
                while True:
                    request = steps.send(await self._answer(request, failures))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        except TimeoutError as error:
            raise self._unreachable(failures) from error

    async def _answer(self, request: Request, failures: list[httpx.HTTPError]) -> Answer:
        for attempt in range(self._retries + 1):
            answer = None
            try:
                answer = await self._ask(request)
            except httpx.HTTPError as error:
                failures[:] = [error]
            if attempt == self._retries or (answer is not None and answer.status not in RETRIED):
                break
            await asyncio.sleep(min(self._backoff_s * 2**attempt, 5.0))
        if answer is None:
            raise self._unreachable(failures) from failures[0]
        return answer

    async def _ask(self, request: Request) -> Answer:
        body, asked = bytearray(), None if request.body is None else json.dumps(request.body).encode()
        async with self._client.stream(request.method, self.url + request.path, content=asked) as response:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > self._response_bytes_max:
                    raise SchemaRegistryError(
                        f"the schema registry {self.url} answers with more than "
                        f"response_bytes_max={self._response_bytes_max}"
                    )
            return Answer(response.status_code, bytes(body))

    def _unreachable(self, failures: list[httpx.HTTPError]) -> SchemaRegistryUnavailable:
        why = f"{type(failures[0]).__name__}: {failures[0]}" if failures else "no answer in time"
        text = f"the schema registry {self.url} did not answer within {self._timeout_s:g} s: {why}"
        return SchemaRegistryUnavailable(text)


class SchemaRegistry(Registry):
    """The blocking client: for `oncelog.sync`, scripts, and serializers that may hold up their thread for one request.

    It belongs to the process that made it: after a fork it refuses to work, a new one works.
    """

    def __init__(self, url: str, **options: Unpack[RegistryOptions]) -> None:
        super().__init__(url, **options)
        self._owner = loop_thread("oncelog-registry")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections. In a forked child nothing: they are the parent's."""
        if self._owner.is_here:
            self._owner.call(self._client.aclose)

    def run(self, steps: Exchange[T]) -> T:
        """Carry out steps. Raises SchemaRegistryError, and IllegalState after `close` or a fork."""
        if not self._owner.is_here:
            raise IllegalState(BEFORE_A_FORK)
        return self._owner.call(self._run, steps)

    def schema(self, identity: int | str) -> Schema:
        """The schema of an id or a GUID. Raises SchemaRegistryError."""
        return self.run(self.schema_steps(identity))

    def register(self, subject: str, schema: Schema) -> int:
        """Put a schema under a subject, if it is not there; its id. Raises SchemaRegistryError, also where it is incompatible."""
        return self.run(self.id_steps(subject, schema, register=True))

    def latest(self, subject: str) -> Registered:
        """A subject's newest version."""
        return self.run(self.version_steps(subject))


class AsyncSchemaRegistry(Registry):
    """The client of an event loop: of the one that uses it first. Another one is refused."""

    def __init__(self, url: str, **options: Unpack[RegistryOptions]) -> None:
        super().__init__(url, **options)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections. Raises IllegalState in another event loop than the one that made them."""
        self._check_loop()
        await self._client.aclose()

    async def run(self, steps: Exchange[T]) -> T:
        """Carry out steps. Raises SchemaRegistryError, and IllegalState after `close` or in another event loop."""
        self._check_loop()
        return await self._run(steps)

    def _check_loop(self) -> None:
        running = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = running
        if self._loop is not running:
            raise IllegalState(
                "this schema registry's client belongs to another event loop: make one in each, as its connections do"
            )

    async def schema(self, identity: int | str) -> Schema:
        """The schema of an id or a GUID. Raises SchemaRegistryError."""
        return await self.run(self.schema_steps(identity))

    async def register(self, subject: str, schema: Schema) -> int:
        """Put a schema under a subject, if it is not there; its id. Raises SchemaRegistryError, also where it is incompatible."""
        return await self.run(self.id_steps(subject, schema, register=True))

    async def latest(self, subject: str) -> Registered:
        """A subject's newest version."""
        return await self.run(self.version_steps(subject))


def _refuse(what: str) -> ConfigurationError:
    return ConfigurationError(f"schema registry: {what}")


def _checked_url(url: Any) -> tuple[str, tuple[str, str] | None]:
    """The registry's address, without a slash at its end, and the user and password that stand in it: no error and no log line
    shows these. Raises ConfigurationError."""
    expected = "expected http://HOST:PORT or https://HOST:PORT"
    if not isinstance(url, str):
        raise _refuse(f"{arguments.shown(url)} is no address: {expected}")
    shown = arguments.shown(
        re.sub("//.*@", "//", url)
    )  # a slash in a password that is not quoted ends the host, to a parser
    if not url.startswith(("http://", "https://")) or len(url.split()) != 1:
        raise _refuse(f"{shown} is no address: {expected}")
    try:
        parsed = httpx.URL(url)
    except httpx.InvalidURL:
        raise _refuse(f"{shown} is no address: {expected}") from None
    if not parsed.host or not 0 < (parsed.port or 80) < 2**16:
        raise _refuse(f"{shown} is no address: {expected}")
    user = (parsed.username, parsed.password) if parsed.userinfo else None
    return re.sub("//[^/?#]*@", "//", url, count=1).rstrip("/"), user


def _authorization(basic_auth: Any, bearer_token: Any) -> dict[str, str]:
    """The header that says who asks. Raises ConfigurationError, in which no secret stands."""
    if basic_auth is not None and bearer_token is not None:
        raise _refuse("basic_auth and bearer_token exclude one another")
    if bearer_token is not None:
        if not isinstance(bearer_token, str) or not bearer_token.isascii() or not bearer_token.isprintable():
            raise _refuse("bearer_token must be text of printable ASCII characters, as it was given out")
        return {"Authorization": f"Bearer {bearer_token}"}
    if basic_auth is None:
        return {}
    is_pair = isinstance(basic_auth, tuple | list) and len(basic_auth) == 2
    if not is_pair or not all(isinstance(each, str) and arguments.is_wire_text(each) for each in basic_auth):
        raise _refuse("basic_auth must be a pair of user and password, both text")
    return {"Authorization": "Basic " + base64.b64encode(":".join(basic_auth).encode()).decode()}


def _subject_path(subject: Any) -> str:
    """A subject's place below the address. Raises InvalidArgument."""
    return f"/subjects/{quote(arguments.text('the subject', subject), safe='')}"


def _body(schema: Schema) -> dict[str, Any]:
    """A schema as the registry takes it; a kind that is not said is AVRO."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [{"name": r.name, "subject": r.subject, "version": r.version} for r in schema.references]
    return body


def _checked(
    answer: Answer, what: str, *, not_found: type[SchemaRegistryError] = SchemaRegistryError
) -> dict[str, Any]:
    """An answer's fields. Raises SchemaRegistryError, one line, with the registry's own words and code; `not_found` for 404."""
    try:
        fields = json.loads(answer.body or b"{}")
    except (ValueError, RecursionError):
        fields = None
    if 200 <= answer.status < 300 and isinstance(fields, dict):
        return fields
    said = (
        fields.get("message", "") if isinstance(fields, dict) else bytes(answer.body[:200]).decode("utf-8", "replace")
    )
    line = " ".join(str(said).split())[:1000]
    code = fields.get("error_code", answer.status) if isinstance(fields, dict) else answer.status
    if answer.status == 409:
        raise SchemaRegistryError(f"{what}: the schema is incompatible with what is registered: {line} (code {code})")
    if answer.status in (401, 403):
        raise SchemaRegistryRefused(
            f"{what}: the registry refuses: {line} (HTTP {answer.status}): see basic_auth, bearer_token"
        )
    kind = SchemaRegistryUnavailable if answer.status in RETRIED else SchemaRegistryError
    if (
        answer.status == 404 and code == NO_SUCH_SCHEMA
    ):  # any other 404 (a wrong path, a proxy's page) says nothing of it
        kind = not_found
    raise kind(f"{what}: {line or 'no answer that can be read'} (HTTP {answer.status}, code {code})")


def _number(fields: dict[str, Any], name: str) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found <= ID_MAX:
        raise SchemaRegistryError(f"the registry's answer has no {name}: is this a schema registry's address?")
    return found


def _schema(fields: dict[str, Any]) -> Schema:
    text, kind, references = fields.get("schema"), fields.get("schemaType") or "AVRO", fields.get("references") or []
    try:
        named = tuple(Reference(str(r["name"]), str(r["subject"]), int(r["version"])) for r in references)
    except (KeyError, TypeError, ValueError):
        named, text = (), None
    if not isinstance(text, str):
        raise SchemaRegistryError("the registry's answer has no schema: is this a schema registry's address?")
    return Schema(text, str(kind), named)
