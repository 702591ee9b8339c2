"""A blocking connection that speaks any request in any version, and raw bytes: what a recorded conversation needs."""

from __future__ import annotations

import re
import socket
import struct
from typing import Any

from oncelog.wire.api import APIS, Api
from oncelog.wire.frame import decode_response, encode_request, response_correlation_id

TIMEOUT_S = 60.0  # for a hang
API_NAMED = {api.name: api for api in APIS.values()}


class ConnectionClosed(Exception):
    """The broker closed the connection instead of answering."""


class NoReply(Exception):
    """Nothing came within the time given."""


def message(api_name: str, fields: dict[str, Any]) -> Any:
    """A request from keyword arguments; nested structures may be dictionaries."""
    return _struct(API_NAMED[api_name].request, fields)


def _struct(kind: Any, fields: dict[str, Any]) -> Any:
    known = {each.name: each for each in kind.FIELDS}
    values = {}
    for name, value in fields.items():
        item = getattr(known[name].wire, "item", None)
        if isinstance(value, list) and value and isinstance(value[0], dict):
            values[name] = [_struct(item, each) for each in value]
        elif isinstance(value, dict):
            values[name] = _struct(known[name].wire, value)
        else:
            values[name] = value
    return kind(**values)


def json_name(name: str) -> str:
    """Kafka's spelling of a field's name."""
    return re.sub(r"(?:^|_)([a-z0-9])", lambda found: found[1].upper(), name)


def field_names(api_name: str, version: int) -> list[str]:
    """The fields a response has in a version, as Kafka spells them, sorted; tagged ones left out."""
    fields = API_NAMED[api_name].response.FIELDS
    return sorted(json_name(each.name) for each in fields if each.since <= version and each.tag is None)


class Connection:
    """One TCP connection; `call` is `send` and `receive`."""

    def __init__(self, host: str, port: int) -> None:
        self._socket = socket.create_connection((host, port), timeout=TIMEOUT_S)
        self._next = 0

    def close(self) -> None:
        self._socket.close()

    def frame(
        self,
        api_name: str,
        version: int,
        fields: dict[str, Any],
        correlation_id: int | None = None,
        client_id: str = "differential",
    ) -> bytes:
        """The bytes of a request, size included."""
        return self.frame_of(api_name, version, message(api_name, fields), correlation_id, client_id)

    def frame_of(
        self,
        api_name: str,
        version: int,
        request: Any,
        correlation_id: int | None = None,
        client_id: str = "differential",
    ) -> bytes:
        """The bytes of a request that is a message already."""
        if correlation_id is None:
            self._next += 1
            correlation_id = self._next
        api: Api = API_NAMED[api_name]
        return b"".join(encode_request(api.key, version, correlation_id, client_id, request))

    def send(self, api_name: str, version: int, fields: dict[str, Any]) -> None:
        self.send_bytes(self.frame(api_name, version, fields))

    def send_bytes(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive_frame(self, timeout_s: float = TIMEOUT_S) -> memoryview:
        """One response without its size. Raises ConnectionClosed, NoReply."""
        self._socket.settimeout(timeout_s)
        (size_bytes,) = struct.unpack(">i", self._exactly(4))
        return memoryview(self._exactly(size_bytes))

    def _exactly(self, size_bytes: int) -> bytes:
        data = bytearray()
        while len(data) < size_bytes:
            try:
                piece = self._socket.recv(size_bytes - len(data))
            except TimeoutError as error:
                raise NoReply from error
            except ConnectionError as error:
                raise ConnectionClosed from error
            if not piece:
                raise ConnectionClosed
            data += piece
        return bytes(data)

    def receive(self, api_name: str, version: int, timeout_s: float = TIMEOUT_S) -> tuple[int, Any]:
        """Correlation id and message."""
        frame = self.receive_frame(timeout_s)
        return response_correlation_id(frame), decode_response(API_NAMED[api_name].key, version, frame)[1]

    def call(self, api_name: str, version: int, fields: dict[str, Any]) -> Any:
        self.send(api_name, version, fields)
        return self.receive(api_name, version)[1]


def send_message(connection: Connection, api_name: str, version: int, request: Any) -> None:
    """Send a message that is built already."""
    connection.send_bytes(connection.frame_of(api_name, version, request))
