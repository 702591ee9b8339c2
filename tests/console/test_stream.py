"""Server-sent events without a socket: what comes back gets what it missed; who is gone is let go; rights that are missing."""

from __future__ import annotations

import asyncio
import json
import pathlib
from collections.abc import MutableMapping
from typing import Any

import pytest

pytest.importorskip("starlette", reason="the extra oncelog[console]")

from starlette.applications import Starlette
from starlette.requests import Request

from oncelog.cli.command import Settings
from oncelog.client.admin.acls import Acl
from oncelog.client.admin.topics import NewTopic
from oncelog.console.history import history
from oncelog.console.pages import overview
from oncelog.console.routes import application
from oncelog.console.security import STREAMS_MAX, Gate
from oncelog.testing import TestBroker
from tests.cli.world import Cli, cli_as

EVENT_S = 20.0


class Reader:
    """Reads a stream's events until it leaves."""

    def __init__(self, app: Starlette, query: str = "topic=orders&window_ms=600000", last: str = "") -> None:
        self.events: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self.status = 0
        self._gone = asyncio.Event()
        headers = [(b"host", b"console")] + ([(b"last-event-id", last.encode())] if last else [])
        scope = {"type": "http", "method": "GET", "path": "/api/v1/events", "query_string": query.encode()}
        scope |= {"headers": headers, "client": ("127.0.0.1", 1), "scheme": "http", "server": ("console", 80)}
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> MutableMapping[str, Any]:
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: MutableMapping[str, Any]) -> None:
        self.status = message.get("status", self.status)
        text = message.get("body", b"").decode()
        if text.startswith("id: "):
            fields = dict(line.partition(": ")[::2] for line in text.splitlines() if line)
            await self.events.put((fields["id"], json.loads(fields["data"])))

    async def next(self) -> tuple[str, Any]:
        return await asyncio.wait_for(self.events.get(), EVENT_S)

    async def leave(self) -> None:
        self._gone.set()
        await self.task


def console(settings: Settings) -> tuple[Starlette, Gate]:
    gate = Gate(None, is_open=True)
    return application(settings, gate), gate


def test_a_stream_that_comes_back_gets_what_it_missed(this_night: Cli) -> None:
    async def main() -> None:
        app, gate = console(Settings(bootstrap_servers=this_night.bootstrap_servers))
        async with app.router.lifespan_context(app):
            first = Reader(app)
            last, answer = await first.next()
            assert (answer["is_whole"], len(answer["partitions"][0]["spans"]["outcome"])) == (True, 4)
            assert gate._everybody.streams == 1
            await first.leave()
            assert gate._everybody.streams == 0
            again = Reader(app, last=last)
            _, answer = await again.next()
            assert answer["is_whole"] is False
            assert answer["partitions"][0]["spans"]["outcome"] == [0], "only what is open"
            await again.leave()
            nonce = last.partition("-")[0]
            for unknown in ("another-life-9", f"{nonce}-", f"{nonce}-\u00b2", f"{nonce}-{'9' * 5000}"):
                stranger = Reader(app, last=unknown)
                assert (await stranger.next())[1]["is_whole"] is True
                await stranger.leave()
            assert app.state.watch._views == []
            gate._everybody.streams = STREAMS_MAX
            refused = Reader(app)
            await refused.task
            assert refused.status == 429

    asyncio.run(main())


def test_without_rights_the_page_stays_and_says_what_is_missing(tmp_path: pathlib.Path) -> None:
    """A right to the topic and none to the transactional id: the picture is there, and nobody is called ownerless."""
    users = {"admin": "admin-secret", "viewer": "viewer-secret"}
    with TestBroker(
        {
            "super.users": "User:admin",
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        },
        security="SASL_PLAINTEXT",
        mechanism="PLAIN",
        users=users,
    ) as broker:
        admin = cli_as(broker, "admin", tmp_path)
        admin.create("orders")

        async def main() -> None:
            from oncelog import Admin, Producer

            async with Admin(**broker.client_options("admin")) as client:
                rights = ("read", "describe")
                await client.create_acls([Acl("topic", "orders", "User:viewer", each) for each in rights])
            producer = Producer(transactional_id="hidden", **broker.client_options("admin"))
            await producer.start()
            producer.begin_transaction()
            await producer.send("orders", b"x", partition=0)
            await producer.flush()
            cli_as(broker, "viewer", tmp_path)
            settings = Settings(
                bootstrap_servers=broker.bootstrap_servers, command_config=str(tmp_path / "viewer.properties")
            )
            app, _ = console(settings)
            async with app.router.lifespan_context(app):
                reader = Reader(app)
                while True:
                    _, answer = await reader.next()
                    if answer["now_ms"] - answer["open"][0]["begin_ms"] > 2_500:
                        break
                assert answer["partitions"][0]["blocked"] == 1
                assert answer["open"][0]["transactional_id"] is None
                assert answer["open"][0]["verdict"] == "unknown"
                await reader.leave()
                async with Admin(**broker.client_options("admin")) as client:
                    await client.create_topics([NewTopic("unreadable", 1, 1, {})])
                    await client.create_acls([Acl("topic", "unreadable", "User:viewer", "describe")])
                # The overview counts as looked at only what it could look at.
                found = await overview(Request({"type": "http", "app": app, "headers": []}))
                assert (found["partition_count"], found["word"]) == (1, "unknown")
                assert found["verdict"].startswith(
                    "Nobody that you may see is stopped: 1 partition looked at; 1 partition could not"
                )
                listed = await history(Request({"type": "http", "app": app, "headers": [], "query_string": b""}))
                assert [each["why"] for each in listed["not_read"]] == ["you may not see all transactional ids"]
            await producer.stop()

        asyncio.run(main())
