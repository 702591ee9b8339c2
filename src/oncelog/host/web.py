"""One HTTP request to a URL, through the network's door: for key sets and tokens of an identity provider.

`https:`, and `http:` to this machine only. Everything is bounded: time from the first to the last byte, size. Redirects
are not followed; the connection ends with its answer.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from dataclasses import field
from typing import cast
from urllib.parse import urlsplit

from oncelog.host.network import Network, NetworkFailed
from oncelog.host.tls import TlsContext
from oncelog.lazy_dataclass import dataclass

HEAD_BYTES_MAX = 65_536
ANSWER_BYTES_MAX = 1 << 20
TIMEOUT_S = 5.0
RETRIABLE = (408, 425, 429, 500, 502, 503, 504)


class WebFailed(Exception):
    """No answer that can be used; one line that names the URL without what stands behind its path."""

    def __init__(self, message: str, *, retriable: bool = True) -> None:
        super().__init__(message)
        self.retriable = retriable


class UrlInvalid(ValueError):
    """A URL that is not asked; the message says why."""


@dataclass(frozen=True, slots=True)
class WebAddress:
    """A URL's parts. `name` is for messages: queries may hold secrets."""

    is_tls: bool
    host: str
    port: int
    target: str = field(repr=False)

    @property
    def name(self) -> str:
        """Without what may be secret."""
        return f"{'https' if self.is_tls else 'http'}://{self.authority}{self.target.partition('?')[0]}"

    @property
    def authority(self) -> str:
        """As the Host header has it."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == (443 if self.is_tls else 80) else f"{host}:{self.port}"


def web_address(url: str) -> WebAddress:
    """Raises UrlInvalid."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise UrlInvalid("it is no URL") from None
    if parts.scheme not in ("https", "http") or not parts.hostname:
        raise UrlInvalid("expected https://HOST/PATH, or http://HOST/PATH on this machine")
    if parts.username is not None or not url.isascii() or any(letter <= " " for letter in url):
        raise UrlInvalid("it has a user, blanks or letters that no URL has")
    is_tls = parts.scheme == "https"
    if not is_tls and not _is_this_machine(parts.hostname):
        raise UrlInvalid("http: is for this machine only: https: goes to others")
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return WebAddress(is_tls, parts.hostname, port or (443 if is_tls else 80), target)


def _is_this_machine(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def fetch(
    network: Network,
    address: WebAddress,
    *,
    headers: Mapping[str, str],
    body: bytes | None = None,
    tls: TlsContext | None = None,
    timeout_s: float = TIMEOUT_S,
) -> bytes:
    """The body of the answer, of a GET or, with `body`, a POST. Raises WebFailed for any status but 200."""
    request = _request(address, headers, body)
    exchange = _Exchange(request)
    try:
        async with asyncio.timeout(timeout_s):
            if address.is_tls:
                await network.connect(address.host, address.port, lambda: exchange, tls=tls)
            else:
                await network.connect(address.host, address.port, lambda: exchange)
            answer = await exchange.done
    except TimeoutError:
        raise WebFailed(f"{address.name}: no answer within {timeout_s:g} s") from None
    except NetworkFailed as error:
        raise WebFailed(f"{address.name}: {error}") from error
    except _Unreadable as error:
        raise WebFailed(f"{address.name}: {error}") from None
    finally:
        exchange.abort()
    if answer.status != 200:
        raise WebFailed(f"{address.name}: status {answer.status}", retriable=answer.status in RETRIABLE)
    return answer.body


def _request(address: WebAddress, headers: Mapping[str, str], body: bytes | None) -> bytes:
    lines = [f"{'GET' if body is None else 'POST'} {address.target} HTTP/1.1", f"Host: {address.authority}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    if body is not None:
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1") + (body or b"")


class _Unreadable(Exception):
    """What came is no answer."""


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    body: bytes


class _Exchange(asyncio.Protocol):
    """Sends a request, and takes in its answer."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._received = bytearray()
        self._transport: asyncio.Transport | None = None
        self._is_aborted = False
        self.done: asyncio.Future[_Answer] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        if self._is_aborted:
            self._transport.abort()
        else:
            self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self.done.done():
            return
        self._received += data
        self._look(is_end=False)
        if not self.done.done() and len(self._received) > HEAD_BYTES_MAX + ANSWER_BYTES_MAX:
            self.done.set_exception(_Unreadable(f"the answer is longer than {ANSWER_BYTES_MAX} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - what came decides
        self._look(is_end=True)

    def _look(self, *, is_end: bool) -> None:
        if self.done.done():
            return
        try:
            answer = _answer_in(bytes(self._received), is_end=is_end)
        except _Unreadable as error:
            self.done.set_exception(error)
            return
        if answer is not None:
            self.done.set_result(answer)
        elif is_end:
            self.done.set_exception(_Unreadable("the connection was closed before the answer had come"))

    def abort(self) -> None:
        """Nobody waits any more."""
        self._is_aborted = True
        self.done.cancel()
        if self._transport is not None:
            self._transport.abort()


def _answer_in(received: bytes, *, is_end: bool) -> _Answer | None:
    """The answer, None where it has not come whole."""
    head, separator, body = received.partition(b"\r\n\r\n")
    if not separator:
        if len(head) > HEAD_BYTES_MAX:
            raise _Unreadable(f"the answer's head is longer than {HEAD_BYTES_MAX} bytes")
        return None
    status_line, *lines = head.decode("latin-1").split("\r\n")
    words = status_line.split(" ", 2)
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not (len(words[1]) == 3 and words[1].isdecimal()):
        raise _Unreadable("it does not answer in HTTP/1.1")
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if "content-encoding" in fields:
        raise _Unreadable("the answer is encoded")
    if fields.get("transfer-encoding", "").lower() == "chunked":
        whole = _unchunked(body)
    elif "content-length" in fields:
        length = fields["content-length"]
        if not (length.isascii() and length.isdecimal() and len(length) < 10) or int(length) > ANSWER_BYTES_MAX:
            raise _Unreadable(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        whole = body[: int(length)] if len(body) >= int(length) else None
    else:
        whole = body if is_end else None
    if whole is not None and len(whole) > ANSWER_BYTES_MAX:
        raise _Unreadable(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
    return None if whole is None else _Answer(int(words[1]), whole)


def _unchunked(body: bytes) -> bytes | None:
    found, at = bytearray(), 0
    while True:
        end = body.find(b"\r\n", at)
        if end < 0:
            return None
        digits = body[at:end].partition(b";")[0].strip()
        try:
            size = int(digits, 16) if len(digits) < 9 else ANSWER_BYTES_MAX + 1
        except ValueError:
            raise _Unreadable("the answer's chunks cannot be read") from None
        if not 0 <= size <= ANSWER_BYTES_MAX:
            raise _Unreadable(f"the answer is longer than {ANSWER_BYTES_MAX} bytes")
        if size == 0:
            return bytes(found)
        if len(body) < end + 2 + size + 2:
            return None
        found += body[end + 2 : end + 2 + size]
        at = end + 2 + size + 2
