"""A proxy in a process of its own, between an instance and its database or broker, that acts inside a commit.

It knows a request by its bytes: PostgreSQL's COMMIT, Kafka's by API key. When the armed one comes, the instance is killed or
the connection cut, before the request is passed on, right after, or when the answer has come; or the server is killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
from dataclasses import dataclass, field
from typing import Any

KILL_BEFORE, KILL_INSIDE, KILL_AFTER = "kill before", "kill inside", "kill after"
CUT_BEFORE, CUT_AFTER = "cut before", "cut after"
KILL_SERVER = "kill server"


@dataclass
class Rule:
    """What to do at the next matching request: `api_key` of Kafka, or None for PostgreSQL's COMMIT."""

    action: str
    api_key: int | None
    process_id: int


@dataclass
class _State:
    rule: Rule | None = None
    waits_for: dict[int, Rule] = field(default_factory=dict)  # connection -> rule whose answer is on its way


class Proxy:
    """The parent's side: `arm` before the request, `fired` afterwards."""

    def __init__(self, kind: str, listen: Any, upstream: Any) -> None:
        mine, theirs = socket.socketpair()
        self._control = mine
        self.process_id = os.fork()
        if self.process_id == 0:
            mine.close()
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            with contextlib.suppress(BaseException):
                asyncio.run(_serve(kind, listen, upstream, theirs))
            os._exit(0)
        theirs.close()
        assert self._control.recv(2) == b"ok"

    def arm(self, action: str, api_key: int | None, process_id: int) -> None:
        self._control.sendall(json.dumps([action, api_key, process_id]).encode() + b"\n")
        assert self._control.recv(2) == b"ok"

    def disarm(self) -> bool:
        """Whether the rule has fired."""
        self._control.sendall(b"null\n")
        return self._control.recv(2) == b"no"

    def close(self) -> None:
        self._control.close()
        os.kill(self.process_id, signal.SIGKILL)
        os.waitpid(self.process_id, 0)


async def _serve(kind: str, listen: Any, upstream: Any, control: socket.socket) -> None:
    state = _State()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if kind == "kafka":
                up_reader, up_writer = await asyncio.open_connection(*upstream)
            else:
                up_reader, up_writer = await asyncio.open_unix_connection(upstream)
        except OSError:
            writer.close()
            return
        number = id(writer)
        requests = _requests(kind, reader, writer, up_writer, state, number)
        answers = _answers(up_reader, writer, up_writer, state, number)
        await asyncio.gather(requests, answers, return_exceptions=True)

    if kind == "kafka":
        server = await asyncio.start_server(connected, *listen)
    else:
        server = await asyncio.start_unix_server(connected, listen)
        os.chmod(listen, 0o777)
    async with server:
        control.sendall(b"ok")
        reader, writer = await asyncio.open_connection(sock=control)
        while line := await reader.readline():
            told = json.loads(line)
            if told is None:
                writer.write(b"ok" if state.rule is not None else b"no")
                state.rule = None
            else:
                state.rule = Rule(*told)
                writer.write(b"ok")
            await writer.drain()


async def _requests(
    kind: str,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    up_writer: asyncio.StreamWriter,
    state: _State,
    number: int,
) -> None:
    try:
        while True:
            data = await _frame(reader) if kind == "kafka" else await reader.read(65536)
            if not data:
                break
            rule = state.rule
            if rule is not None and _matches(rule, data):
                state.rule = None
                if not await _act(rule, data, writer, up_writer, state, number):
                    return
                continue
            up_writer.write(data)
            await up_writer.drain()
    except (OSError, asyncio.IncompleteReadError):
        pass
    finally:
        up_writer.close()


async def _act(
    rule: Rule,
    data: bytes,
    writer: asyncio.StreamWriter,
    up_writer: asyncio.StreamWriter,
    state: _State,
    number: int,
) -> bool:
    """Whether the connection goes on."""
    if rule.action in (KILL_BEFORE, CUT_BEFORE):
        if rule.action == KILL_BEFORE:
            os.kill(rule.process_id, signal.SIGKILL)
        _cut(writer, up_writer)
        return False
    if rule.action in (KILL_AFTER, CUT_AFTER):
        state.waits_for[number] = rule
    up_writer.write(data)
    await up_writer.drain()
    if rule.action in (KILL_INSIDE, KILL_SERVER):
        os.kill(rule.process_id, signal.SIGKILL)
    return True


async def _answers(
    up_reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    up_writer: asyncio.StreamWriter,
    state: _State,
    number: int,
) -> None:
    try:
        while data := await up_reader.read(65536):
            rule = state.waits_for.pop(number, None)
            if rule is not None:  # one request of this connection is on its way: this is its answer
                if rule.action == KILL_AFTER:
                    os.kill(rule.process_id, signal.SIGKILL)
                _cut(writer, up_writer)
                return
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


def _cut(writer: asyncio.StreamWriter, up_writer: asyncio.StreamWriter) -> None:
    writer.transport.abort()
    up_writer.transport.abort()


async def _frame(reader: asyncio.StreamReader) -> bytes:
    try:
        size = await reader.readexactly(4)
    except asyncio.IncompleteReadError:
        return b""
    return size + await reader.readexactly(int.from_bytes(size, "big"))


def _matches(rule: Rule, data: bytes) -> bool:
    if rule.api_key is None:
        return b"COMMIT" in data
    return int.from_bytes(data[4:6], "big") == rule.api_key
