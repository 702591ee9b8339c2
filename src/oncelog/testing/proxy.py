"""A proxy that understands Kafka's protocol: between any client and any broker, it refuses, delays, loses, repeats."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Self

from oncelog.client import arguments
from oncelog.client.config import ClientConfig
from oncelog.core.metadata.features import SUPPORTED
from oncelog.errors import IllegalState, MalformedMessage
from oncelog.host.listening_sockets import stop_listening
from oncelog.host.tasks import Tasks
from oncelog.lazy_dataclass import dataclass
from oncelog.testing.faults import API_KEYS, REFUSALS, Fault, Faults, Kind, put_error
from oncelog.testing.loop_thread import LoopThread
from oncelog.testing.told_addresses import APIS_WITH_ADDRESSES, told_addresses
from oncelog.wire.api import APIS
from oncelog.wire.frame import (
    RequestHeader,
    decode_request,
    decode_request_header,
    decode_response,
    encode_response,
)
from oncelog.wire.messages.api_versions import FinalizedFeatureKey

_PRODUCE, _API_VERSIONS = API_KEYS["Produce"], API_KEYS["ApiVersions"]
FEATURES = (*SUPPORTED, "eligible.leader.replicas.version", "kraft.version")  # the last two are Apache Kafka's alone
Address = tuple[str, int]
_TURNS_TO_ACCEPT = 3  # of asyncio's loop: the socket, its transport, its protocol
_TURNS_TO_CLOSE = 2


class _Broken(Exception):
    """This connection ends here."""


@dataclass
class _Expected:
    """The next answer on a connection: what was asked, and what becomes of it."""

    header: RequestHeader
    fault: Fault | None = None
    reply: bytes | None = None
    is_second: bool = False


class FaultyProxy(Faults):
    """`async with FaultyProxy("HOST:PORT") as proxy:` or, in a thread of its own, `with`; clients use its `bootstrap_servers`.

    Every broker's address in an answer is replaced, so clients stay with it. Plain connections only.
    """

    def __init__(self, bootstrap_servers: str) -> None:
        super().__init__()
        addresses = ClientConfig(bootstrap_servers=arguments.text("bootstrap_servers", bootstrap_servers))
        self._broker: Address = addresses.bootstrap_addresses()[0]
        self._address = ""
        self._features: dict[str, int] = {}

    @property
    def bootstrap_servers(self) -> str:
        """Where it listens. Raises IllegalState where it was never started."""
        if not self._address:
            raise IllegalState("this proxy was not started: use `with` or `async with`")
        return self._address

    def report_feature(self, name: str, level: int) -> None:
        """Let ApiVersions report another level of a feature: `transaction.version` 1 makes clients use the old
        protocol. Level 0: as if the broker had never heard of it. Raises InvalidArgument for a name that no broker has."""
        level = arguments.integer("level", level, high=arguments.INT16_MAX)
        self._features[arguments.one_of("name", name, FEATURES)] = level

    def clear(self) -> None:
        """Forget all faults and levels, and what was seen."""
        super().clear()
        self._features.clear()

    # -- life

    async def __aenter__(self) -> Self:
        self._tasks = Tasks()
        self._listeners: dict[Address, asyncio.Server] = {}
        self._opening = asyncio.Lock()
        self._address = "{}:{}".format(*await self._in_front_of(self._broker))
        return self

    async def __aexit__(self, *_: object) -> None:
        for listener in self._listeners.values():
            stop_listening(listener)
        await _turns(_TURNS_TO_ACCEPT)  # who was accepted just now is served, so that what follows ends it
        await self._tasks.close()
        await _turns(_TURNS_TO_CLOSE)

    def __enter__(self) -> Self:
        self._thread = LoopThread("proxy", lambda: self)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.stop()

    async def _in_front_of(self, broker: Address) -> Address:
        """Where this proxy listens for a broker."""
        async with self._opening:
            if broker not in self._listeners:
                self._listeners[broker] = await asyncio.start_server(
                    lambda reader, writer: self._accepted(reader, writer, broker), "127.0.0.1", 0
                )
        port: int = self._listeners[broker].sockets[0].getsockname()[1]
        return "127.0.0.1", port

    def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: Address) -> None:
        if self._tasks.is_closed:
            writer.close()
            return
        task = self._tasks.start(self._serve(reader, writer, broker), name="oncelog-proxy-connection")
        task.add_done_callback(lambda _: writer.close())  # also of one that the stop ends before its first step

    # -- one connection

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, broker: Address) -> None:
        with contextlib.ExitStack() as stack:
            stack.callback(writer.close)
            try:
                from_broker, to_broker = await asyncio.open_connection(*broker)
            except OSError:
                return
            stack.callback(to_broker.close)
            order: asyncio.Queue[_Expected] = asyncio.Queue()
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._pass_requests(reader, to_broker, order))
                    group.create_task(self._pass_answers(from_broker, writer, order))
            except* (_Broken, OSError, EOFError):
                pass

    async def _pass_requests(
        self, reader: asyncio.StreamReader, to_broker: asyncio.StreamWriter, order: asyncio.Queue[_Expected]
    ) -> None:
        while True:
            frame = await _read_frame(reader)
            header, pos = decode_request_header(memoryview(frame))
            fault = self.strikes(header.api_key)
            kind = None if fault is None else fault.kind
            if fault is not None and kind is Kind.DELAY:
                await asyncio.sleep(fault.seconds)
            if kind is Kind.LOSE_REQUEST:
                raise _Broken
            if fault is not None and kind is Kind.REFUSE:
                order.put_nowait(_Expected(header, reply=_refusal(header, frame, pos, fault.error_code)))
                continue
            is_answered = header.api_key != _PRODUCE or _request(header, frame, pos).acks != 0
            for is_second in (False, True) if kind is Kind.DUPLICATE else (False,):
                if is_answered:
                    order.put_nowait(_Expected(header, fault, is_second=is_second))
                to_broker.write(len(frame).to_bytes(4, "big") + frame)
            await to_broker.drain()

    async def _pass_answers(
        self, from_broker: asyncio.StreamReader, writer: asyncio.StreamWriter, order: asyncio.Queue[_Expected]
    ) -> None:
        while True:
            expected = await order.get()
            answer = expected.reply
            if answer is None:
                frame = await _read_frame(from_broker)
                if expected.is_second:
                    continue
                if expected.fault is not None and expected.fault.kind is Kind.LOSE_ANSWER:
                    raise _Broken
                answer = await self._changed(expected, frame)
            writer.write(answer)
            await writer.drain()

    async def _changed(self, expected: _Expected, frame: bytes) -> bytes:
        api_key, api_version = expected.header.api_key, expected.header.api_version
        fault = expected.fault if expected.fault and expected.fault.kind is Kind.MISREPORT else None
        is_about_features = api_key == _API_VERSIONS and bool(self._features)
        if fault or is_about_features or api_key in APIS_WITH_ADDRESSES:
            # What a newer broker says in a way that we do not know is passed as it is.
            with contextlib.suppress(MalformedMessage):
                correlation_id, response = decode_response(api_key, api_version, memoryview(frame))
                await self._replace_addresses(response)
                if is_about_features:
                    self._replace_features(response)
                if fault is not None:
                    put_error(response, fault.error_code, api_version)
                return b"".join(encode_response(api_key, api_version, correlation_id, response))
        return len(frame).to_bytes(4, "big") + frame

    async def _replace_addresses(self, response: Any) -> None:
        for place in told_addresses(response):
            place.host, place.port = await self._in_front_of((place.host, place.port))

    def _replace_features(self, response: Any) -> None:
        told = {feature.name: feature for feature in response.finalized_features}
        for name, level in self._features.items():
            told[name] = FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
        response.finalized_features = list(told.values())
        unknown = {name for name, level in self._features.items() if not level}
        response.supported_features = [each for each in response.supported_features if each.name not in unknown]


async def _turns(count: int) -> None:
    for _turn in range(count):
        await asyncio.sleep(0)


async def _read_frame(reader: asyncio.StreamReader) -> bytes:
    return await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))


def _request(header: RequestHeader, frame: bytes, pos: int) -> Any:
    return decode_request(header, memoryview(frame), pos)


def _refusal(header: RequestHeader, frame: bytes, pos: int, error_code: int) -> bytes:
    response = REFUSALS[header.api_key](_request(header, frame, pos), error_code)
    assert isinstance(response, APIS[header.api_key].response)
    return b"".join(encode_response(header.api_key, header.api_version, header.correlation_id, response))
