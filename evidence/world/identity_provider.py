"""An identity provider: keys, tokens it signs, and an HTTP server on this machine that hands out both."""

from __future__ import annotations

import asyncio
import base64
import hmac
import json
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from joserfc.jwk import ECKey, RSAKey
from joserfc.jws import JWSRegistry

from oncelog.host.listening_sockets import stop_listening

TURNS = 10
ISSUER, AUDIENCE = "https://issuer.example", "oncelog"


@cache
def key(name: str = "first", kind: str = "RS256") -> Any:
    """A private key by its name, made once: RSA, or EC for ES256, ES384, ES512."""
    del name
    curves = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
    return ECKey.generate_key(curves[kind]) if kind in curves else RSAKey.generate_key(2048)


def public(name: str = "first", kind: str = "RS256", **members: object) -> dict[str, Any]:
    """The same as it stands in a set."""
    return {**key(name, kind).as_dict(private=False), "kid": name, **members}


def key_set(*keys: Mapping[str, Any]) -> bytes:
    """A document of keys."""
    return json.dumps({"keys": keys or [public()]}).encode()


def encoded(members: object) -> str:
    """Base64url of bytes, of text, or of anything as JSON."""
    if not isinstance(members, bytes):
        members = (members if isinstance(members, str) else json.dumps(members)).encode()
    return base64.urlsafe_b64encode(members).decode().rstrip("=")


def claims(now_s: float | None = None, **changes: object) -> dict[str, Any]:
    """What a good token says; a change to None leaves a claim out."""
    now_s = time.time() if now_s is None else now_s
    found = {"sub": "olga", "iss": ISSUER, "aud": AUDIENCE, "iat": now_s - 1, "exp": now_s + 600}
    return {name: value for name, value in {**found, **changes}.items() if value is not None}


def signed(
    what: object = None,
    *,
    algorithm: str = "RS256",
    header: Mapping[str, object] | None = None,
    name: str = "first",
    with_key: Any = None,
) -> str:
    """A token; `what` are claims, or any text in their place; `header` adds to alg and kid, None leaves one out.

    `with_key`: another key than the named one, bytes for HMAC.
    """
    members: dict[str, object] = {"alg": algorithm, "kid": name, **(header or {})}
    parts = (
        f"{encoded({k: v for k, v in members.items() if v is not None})}.{encoded(claims() if what is None else what)}"
    )
    signer = with_key or key(name, algorithm if algorithm.startswith("ES") else "RS256")
    if isinstance(signer, bytes):
        signature = hmac.digest(signer, parts.encode(), f"sha{algorithm[2:]}")
    else:
        signature = JWSRegistry.algorithms[algorithm].sign(parts.encode(), signer)
    return f"{parts}.{encoded(signature)}"


def message(token: str, *, name: str = "", extensions: str = "") -> bytes:
    """A client's first message."""
    return f"n,{f'a={name}' if name else ''},\x01auth=Bearer {token}\x01{extensions}\x01".encode()


Answer = bytes | Callable[[], bytes]


class Provider:
    """What the server answers, by path, and what it was asked."""

    def __init__(self) -> None:
        self.port = 0
        self.status = 200
        self.answers: dict[str, Answer] = {}
        self.raw: bytes | None = None  # said instead of any answer
        self.open: set[asyncio.StreamWriter] = set()
        self.asked: list[tuple[str, dict[str, str], dict[str, str]]] = []  # path, headers, form

    def url(self, path: str) -> str:
        """Of a path, on this machine."""
        return f"http://127.0.0.1:{self.port}{path}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request."""
        self.open.add(writer)
        try:
            await self._answer(reader, writer)
            writer.close()
            await writer.wait_closed()
        except (OSError, asyncio.IncompleteReadError):  # the other end has gone
            writer.close()
        finally:
            self.open.discard(writer)

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        path = head[0].split(" ")[1]
        form = dict(urllib.parse.parse_qsl(body.decode()))
        self.asked.append((path, headers, form))
        found = self.answers.get(path, b"")
        answer = found if isinstance(found, bytes) else found()
        fields = b"Content-Type: application/json\r\nContent-Length: %d" % len(answer)
        whole = b"HTTP/1.1 %d x\r\n%s\r\n\r\n%s" % (self.status, fields, answer)
        writer.write(whole if self.raw is None else self.raw)


@asynccontextmanager
async def provider(**context: Any) -> AsyncIterator[Provider]:
    """One that listens; `ssl` gives it TLS."""
    found = Provider()
    server = await asyncio.start_server(found.serve, "127.0.0.1", 0, **context)
    found.port = server.sockets[0].getsockname()[1]
    try:
        yield found
    finally:
        stop_listening(server)
        for _ in range(TURNS):  # of the loop, in which what was accepted becomes a connection, and an aborted one ends
            await asyncio.sleep(0)
            for writer in tuple(found.open):
                writer.transport.abort()
        await server.wait_closed()
