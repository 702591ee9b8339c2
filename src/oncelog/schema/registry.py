"""A client of the Schema Registry's REST API, blocking and async; both run the same steps (`Exchange`).

What was found is kept, at most `cache_size_max` of each kind: an id's schema never changes. Nothing waits longer than
`timeout_ms`, retries included; an answer has at most `response_bytes_max` bytes.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, Generic, Self, TypeVar
from urllib.parse import quote

import httpx

from oncelog.errors import ConfigurationError, SchemaRegistryError

T = TypeVar("T")
RETRIED = {408, 429, 500, 502, 503, 504}
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
REFERENCES_MAX = 200  # of one schema, those of references included


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


class Cache(Generic[T]):
    """At most `size_max` entries; the one unused for longest goes."""

    def __init__(self, size_max: int) -> None:
        self._size_max, self._entries = size_max, OrderedDict[Any, T]()
        self._lock = threading.Lock()

    def get(self, key: Any) -> T | None:
        with self._lock:
            if key not in self._entries:
                return None
            self._entries.move_to_end(key)
            return self._entries[key]

    def put(self, key: Any, value: T) -> None:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._size_max:
                self._entries.popitem(last=False)

    def __len__(self) -> int:
        return len(self._entries)


class Registry:
    """What both clients share. `url` may have a path; `transport` is for tests.

    `basic_auth` is user and password, `bearer_token` a token; `ssl_context` has a private authority and, for mTLS, the
    client's certificate (`ssl.SSLContext.load_cert_chain`).
    """

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
        if not url.startswith(("http://", "https://")):
            raise ConfigurationError(f"schema registry: {url!r} is no address: expected http://HOST:PORT or https://")
        if basic_auth is not None and bearer_token is not None:
            raise ConfigurationError("schema registry: basic_auth and bearer_token exclude one another")
        lows = {"timeout_ms": 1, "retries": 0, "retry_backoff_ms": 1, "cache_size_max": 1, "response_bytes_max": 1}
        for name, low in lows.items():
            given = locals()[name]
            if not isinstance(given, int) or isinstance(given, bool) or given < low:
                raise ConfigurationError(f"schema registry: {name}={given!r}: expected a whole number, {low} or more")
        self.url = url.rstrip("/")
        self._timeout_s, self._retries, self._backoff_s = timeout_ms / 1000, retries, retry_backoff_ms / 1000
        self._response_bytes_max = response_bytes_max
        headers = {"Accept": f"{CONTENT_TYPE}, application/json", "Content-Type": CONTENT_TYPE}
        if bearer_token is not None:
            headers["Authorization"] = f"Bearer {bearer_token}"
        self._options: dict[str, Any] = {"headers": headers, "auth": basic_auth, "timeout": self._timeout_s}
        self._options |= {"verify": ssl_context or True, "transport": transport}
        self._schemas: Cache[Schema] = Cache(cache_size_max)
        self._ids: Cache[int] = Cache(cache_size_max)
        self._named: Cache[Schema] = Cache(cache_size_max)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.url!r})"

    # -- the steps

    def at_hand(self, identity: int | str) -> Schema | None:
        """A schema that needs no request."""
        return self._schemas.get(identity)

    def schema_steps(self, identity: int | str) -> Exchange[Schema]:
        """The schema of an id or a GUID. Raises SchemaRegistryError."""
        found = self._schemas.get(identity)
        if found is None:
            kind = "ids" if isinstance(identity, int) else "guids"
            found = _schema(_checked((yield Request("GET", f"/schemas/{kind}/{identity}")), f"schema {identity}"))
            self._schemas.put(identity, found)
        return found

    def id_steps(self, subject: str, schema: Schema, *, register: bool) -> Exchange[int]:
        """The id of a schema under a subject, which `register` puts there."""
        found = self._ids.get((subject, schema, register))
        if found is None:
            path = f"/subjects/{quote(subject, safe='')}" + ("/versions" if register else "")
            body = _body(schema)
            found = _number(_checked((yield Request("POST", path, body)), f"subject {subject!r}"), "id")
            self._ids.put((subject, schema, register), found)
        return found

    def version_steps(self, subject: str, version: int | str = "latest") -> Exchange[Registered]:
        """A version of a subject."""
        path = f"/subjects/{quote(subject, safe='')}/versions/{version}"
        fields = _checked((yield Request("GET", path)), f"subject {subject!r}, version {version}")
        return Registered(_number(fields, "id"), _schema(fields))

    def number_steps(self, subject: str, schema: Schema) -> Exchange[int]:
        """The version that a schema has under a subject: what a reference to it says."""
        path, body = f"/subjects/{quote(subject, safe='')}", _body(schema) | {"schemaType": schema.kind}
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

    # -- what both ways of asking decide alike

    def _content(self, request: Request) -> bytes | None:
        return None if request.body is None else json.dumps(request.body).encode()

    def _retry_s(self, attempt: int, answer: Answer | None) -> float | None:
        """How long to wait before the next attempt; None: this was the last."""
        if attempt >= self._retries or (answer is not None and answer.status not in RETRIED):
            return None
        return float(min(self._backoff_s * 2**attempt, 5.0))

    def _unreachable(self, error: BaseException | None) -> SchemaRegistryError:
        why = f"{type(error).__name__}: {error}" if error is not None else "no answer in time"
        return SchemaRegistryError(f"the schema registry {self.url} did not answer within {self._timeout_s:g} s: {why}")

    def _taken(self, body: bytearray, chunk: bytes) -> None:
        body += chunk
        if len(body) > self._response_bytes_max:
            raise SchemaRegistryError(
                f"the schema registry {self.url} answers with more than response_bytes_max={self._response_bytes_max}"
            )


class SchemaRegistry(Registry):
    """The blocking client: for `oncelog.sync`, scripts, and serializers that may hold up their thread for one request."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._client = httpx.Client(**self._options)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close its connections."""
        self._client.close()

    def run(self, steps: Exchange[T]) -> T:
        """Carry out steps. Raises SchemaRegistryError."""
        until_s = time.monotonic() + self._timeout_s
        try:
            request = next(steps)
            while True:
                request = steps.send(self._answer(request, until_s))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def _answer(self, request: Request, until_s: float) -> Answer:
        for attempt in range(self._retries + 1):
            answer, failure = None, None
            try:
                answer = self._ask(request, until_s)
            except httpx.HTTPError as error:
                failure = error
            wait_s = self._retry_s(attempt, answer)
            if wait_s is None or time.monotonic() + wait_s >= until_s:
                break
            threading.Event().wait(wait_s)
        if answer is None:
            raise self._unreachable(failure) from failure
        return answer

    def _ask(self, request: Request, until_s: float) -> Answer:
        left_s = until_s - time.monotonic()
        if left_s <= 0:
            raise self._unreachable(None)
        body, asked = bytearray(), self._content(request)
        with self._client.stream(request.method, self.url + request.path, content=asked, timeout=left_s) as response:
            for chunk in response.iter_bytes():
                self._taken(body, chunk)
                if time.monotonic() > until_s:
                    raise self._unreachable(None)
            return Answer(response.status_code, bytes(body))

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
    """The client of an event loop."""

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, **options)
        self._client = httpx.AsyncClient(**self._options)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close its connections."""
        await self._client.aclose()

    async def run(self, steps: Exchange[T]) -> T:
        """Carry out steps. Raises SchemaRegistryError."""
        try:
            async with asyncio.timeout(self._timeout_s):
                request = next(steps)
                while True:
                    request = steps.send(await self._answer(request))
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]
        except TimeoutError as error:
            raise self._unreachable(None) from error

    async def _answer(self, request: Request) -> Answer:
        for attempt in range(self._retries + 1):
            answer, failure = None, None
            try:
                answer = await self._ask(request)
            except httpx.HTTPError as error:
                failure = error
            wait_s = self._retry_s(attempt, answer)
            if wait_s is None:
                break
            await asyncio.sleep(wait_s)
        if answer is None:
            raise self._unreachable(failure) from failure
        return answer

    async def _ask(self, request: Request) -> Answer:
        body, asked = bytearray(), self._content(request)
        async with self._client.stream(request.method, self.url + request.path, content=asked) as response:
            async for chunk in response.aiter_bytes():
                self._taken(body, chunk)
            return Answer(response.status_code, bytes(body))

    async def schema(self, identity: int | str) -> Schema:
        """The schema of an id or a GUID. Raises SchemaRegistryError."""
        return await self.run(self.schema_steps(identity))

    async def register(self, subject: str, schema: Schema) -> int:
        """Put a schema under a subject, if it is not there; its id. Raises SchemaRegistryError, also where it is incompatible."""
        return await self.run(self.id_steps(subject, schema, register=True))

    async def latest(self, subject: str) -> Registered:
        """A subject's newest version."""
        return await self.run(self.version_steps(subject))


def _body(schema: Schema) -> dict[str, Any]:
    """A schema as the registry takes it; a kind that is not said is AVRO."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [{"name": r.name, "subject": r.subject, "version": r.version} for r in schema.references]
    return body


def _checked(answer: Answer, what: str) -> dict[str, Any]:
    """An answer's fields. Raises SchemaRegistryError, one line, with the registry's own words and code."""
    try:
        fields = json.loads(answer.body or b"{}")
    except ValueError:
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
        raise SchemaRegistryError(
            f"{what}: the registry refuses: {line} (HTTP {answer.status}): see basic_auth, bearer_token"
        )
    raise SchemaRegistryError(f"{what}: {line or 'no answer that can be read'} (HTTP {answer.status}, code {code})")


def _number(fields: dict[str, Any], name: str) -> int:
    found = fields.get(name)
    if not isinstance(found, int) or isinstance(found, bool):
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
