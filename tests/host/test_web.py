"""One HTTP request: answers of every form, and servers that are slow, wrong, endless or not believed."""

from __future__ import annotations

import asyncio
import contextlib
import ssl

import pytest
from evidence.world.identity_provider import provider

from oncelog.host.certificate_authority import Authority
from oncelog.host.network import RealNetwork
from oncelog.host.tls import TlsSettings, client_context
from oncelog.host.web import ANSWER_BYTES_MAX, UrlInvalid, WebFailed, fetch, web_address

HEADERS = {"Accept": "application/json"}
AUTHORITY = Authority()


async def said(raw, **options):
    async with provider() as found:
        found.raw = raw
        return await fetch(RealNetwork(), web_address(found.url("/p?q=secret")), headers=HEADERS, **options)


@pytest.mark.parametrize(
    "raw",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nbody",
        b"HTTP/1.1 200\r\nContent-Length: 4\r\n\r\nbody and more",
        b"HTTP/1.0 200 OK\r\n\r\nbody",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2;x=y\r\ndy\r\n0\r\n\r\n",
    ],
)
def test_forms_of_an_answer(raw):
    assert asyncio.run(said(raw)) == b"body"


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "closed before the answer"),
        (b"SSH-2.0-x\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 2x0 OK\r\n\r\n", "does not answer in HTTP"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nbody", "closed before the answer"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\nbody", "longer than"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\nbody", "longer than"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nbody", "encoded"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxx\r\n", "chunks cannot be read"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nffffff\r\n", "longer than"),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nbody\r\n", "closed before the answer"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + bytes(ANSWER_BYTES_MAX + 1), "longer than"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000, "longer than"),
    ],
)
def test_answers_that_are_refused(raw, says):
    with pytest.raises(WebFailed, match=says) as failed:
        asyncio.run(said(raw))
    assert "secret" not in str(failed.value)
    assert failed.value.retriable


@pytest.mark.parametrize(("status", "retriable"), [(302, False), (401, False), (404, False), (429, True), (503, True)])
def test_statuses(status, retriable):
    """A redirect is no answer: keys come from where the configuration says."""
    with pytest.raises(WebFailed, match=f"status {status}") as failed:
        asyncio.run(said(b"HTTP/1.1 %d x\r\nLocation: http://127.0.0.1/\r\n\r\n" % status))
    assert failed.value.retriable is retriable


def test_who_does_not_answer_is_not_waited_for():
    has_left = asyncio.Event()

    async def silent(reader, writer):
        writer.write(b"HTTP/1.1 200 OK\r\n")
        with contextlib.suppress(OSError):
            while await reader.read(100):
                pass
        writer.transport.abort()
        await asyncio.sleep(0)  # in which the loop closes it
        has_left.set()

    async def work():
        server = await asyncio.start_server(silent, "127.0.0.1", 0)
        address = web_address(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
        with pytest.raises(WebFailed, match="no answer within"):
            await fetch(RealNetwork(), address, headers={}, timeout_s=0.1)
        server.close()
        await has_left.wait()
        nobody = web_address("http://127.0.0.1:1/")
        with pytest.raises(WebFailed, match="cannot connect"):
            await fetch(RealNetwork(), nobody, headers={})

    asyncio.run(work())


def test_what_is_asked():
    async def work():
        async with provider() as found:
            found.answers["/token"] = b"t"
            address = web_address(found.url("/token"))
            assert await fetch(RealNetwork(), address, headers=HEADERS, body=b"a=b&c=%20") == b"t"
            path, headers, form = found.asked[0]
            assert (path, form) == ("/token", {"a": "b", "c": " "})
            assert headers["accept"] == "application/json"
            assert headers["host"] == f"127.0.0.1:{found.port}"

    asyncio.run(work())


def test_over_tls(tmp_path):
    async def work():
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(AUTHORITY.sign("idp", ["127.0.0.1"]).write(tmp_path, "idp"))
        async with provider(ssl=context) as found:
            found.answers["/keys"] = b"k"
            address = web_address(f"https://127.0.0.1:{found.port}/keys")
            believed = client_context(TlsSettings(trusted=AUTHORITY.pem))
            assert await fetch(RealNetwork(), address, headers={}, tls=believed) == b"k"
            other = client_context(TlsSettings(trusted=Authority("other").pem))
            with pytest.raises(WebFailed, match="not believed"):
                await fetch(RealNetwork(), address, headers={}, tls=other)

    asyncio.run(work())


@pytest.mark.parametrize(
    "url",
    [
        "",
        "x",
        "ftp://h/",
        "https://",
        "https:///p",
        "https://a:b@h/",
        "https://h:99999/",
        "https://h/ x",
        "https://h/\r\nX: y",
        "https://hé/",
        "http://h/",
        "http://10.0.0.1/",
        "file:/etc",
    ],
)
def test_urls_that_are_not_asked(url):
    with pytest.raises(UrlInvalid):
        web_address(url)


def test_addresses():
    found = web_address("https://h.example/a?b=c#d")
    assert (found.host, found.port, found.target, found.authority) == ("h.example", 443, "/a?b=c", "h.example")
    assert found.name == "https://h.example/a"
    assert web_address("http://[::1]:8080").authority == "[::1]:8080"
    assert web_address("http://localhost").name == "http://localhost/"
