"""Frames and headers: where one message ends and the next begins, and what it is.

A frame is an int32 size and that many bytes. Requests and responses begin with a header whose version follows from API
and version (KIP-482); the client id in it keeps its two-byte length in every version.
"""

from struct import Struct as Layout
from struct import error as layout_error
from typing import NamedTuple

from oncelog.errors import MalformedFrame, MalformedMessage, UnsupportedVersion
from oncelog.wire.api import APIS, Api
from oncelog.wire.codec_source import skip_tags
from oncelog.wire.schema import Buffer, InvalidField, Struct, decode_message, encode_parts

SIZE_BYTES_MAX = 104857600  # Kafka's socket.request.max.bytes

KEPT_SHARE = 4  # a frame's beginning that is at least this part of what came is kept as a view of all of it

OWN_MEMORY_SIZE_BYTES_MIN = 32_768  # of a Produce request: below it a copy costs less than another call of `recv`
OWN_MEMORY_FACTOR = 16  # more than this times what has come is not taken for a frame: a size alone is not believed

OTHER_PROTOCOLS = {
    b"HTTP": "HTTP (the port of a web server)",
    b"GET ": "HTTP",
    b"POST": "HTTP",
    b"\x15\x03": "TLS (the port wants security_protocol=SSL)",
    b"\x16\x03": "TLS (of a client with security_protocol=SSL)",
}
"""What stands where a frame's size belongs, and whose mistake that usually is: each would be far too large a size."""

_SIZE = Layout(">i")
_PRODUCE = b"\0\0"  # the API key that a request begins with
_REQUEST_START = Layout(">hhih")  # API key, version, correlation id, length of the client id
_REQUEST_PREFIX = Layout(">ihhih")  # the same behind the frame's size
_RESPONSE_PREFIX = Layout(">ii")


class FrameTooLarge(MalformedFrame):
    """A frame's size is above what its reader takes."""


class FrameReader:
    """Cuts a stream of bytes into frames. Nothing is allocated for a size before its bytes have come.

    With `has_own_memory` a large Produce request is received into memory of its own (`room`, `filled`), sixteen times what
    has come of it at most, and its frame is a writable view that belongs to whoever gets it: the log may place the batches in it.
    """

    def __init__(
        self,
        size_bytes_max: int = SIZE_BYTES_MAX,
        *,
        first_size_bytes_max: int | None = None,
        has_own_memory: bool = False,
    ) -> None:
        self._size_bytes_max = size_bytes_max
        self._first_size_bytes_max = first_size_bytes_max  # until one frame has come whole
        self._has_own_memory = has_own_memory
        self._frame: bytearray | None = None  # of the frame that has its own memory and is not whole yet
        self._frame_size_bytes = self._filled = 0  # its size; what of it has come
        self._chunks: list[Buffer] = []  # of the frame that is not whole yet, its size included
        self.partial_size_bytes = 0  # bytes in _chunks: of a frame that is not whole yet
        self._wanted = 4  # bytes that _chunks must have before there is anything to do

    @property
    def is_first(self) -> bool:
        """Whether no frame has come whole yet, and a smaller limit holds for the first one."""
        return self._first_size_bytes_max is not None

    @property
    def has_room(self) -> bool:
        """Whether a large frame is coming into memory of its own."""
        return self._frame is not None

    def allow(self, size_bytes_max: int) -> None:
        """From now on frames of this size may come, and large ones have memory of their own: who sends them is known."""
        self._size_bytes_max, self._first_size_bytes_max, self._has_own_memory = size_bytes_max, None, True

    def receive(self, data: Buffer) -> list[memoryview]:
        """The frames that `data` completes, without their sizes. Not while there is `room` for it.

        Frames are views of `data` where it holds them whole, so it must not be changed afterwards. After MalformedFrame
        the connection must be closed: further calls raise it again.
        """
        assert self._frame is None, "the next bytes belong into `room`"
        if self._chunks:
            self._chunks.append(data)
            self.partial_size_bytes += len(data)
            if self.partial_size_bytes < self._wanted:
                return []
            data = b"".join(self._chunks)
            self._chunks.clear()
            self.partial_size_bytes = 0
        view = memoryview(data)
        frames: list[memoryview] = []
        pos, end = 0, len(view)
        while end - pos >= 4:
            size_bytes = self._checked_size(view, pos)
            if end - pos - 4 < size_bytes:
                if (
                    self._has_own_memory
                    and size_bytes >= OWN_MEMORY_SIZE_BYTES_MIN
                    and view[pos + 4 : pos + 6] == _PRODUCE
                ):
                    self._begin(size_bytes, view[pos + 4 :])
                    return frames
                self._wanted = 4 + size_bytes
                break
            frames.append(view[pos + 4 : pos + 4 + size_bytes])
            self._first_size_bytes_max = None
            pos += 4 + size_bytes
        else:
            self._wanted = 4
        if pos < end:
            rest = view[pos:]
            # What is much of what came is not copied twice; what is little must not keep all of it in memory.
            self._chunks.append(rest if (end - pos) * KEPT_SHARE >= end else bytes(rest))
            self.partial_size_bytes = end - pos
        return frames

    def room(self) -> memoryview | None:
        """Where the next bytes belong, which `filled` is to be told of; None where they go to `receive`. Not empty."""
        frame = self._frame
        return None if frame is None else memoryview(frame)[self._filled : self._frame_size_bytes]

    def filled(self, count: int) -> list[memoryview]:
        """The frame that `count` more bytes in `room` complete, or none."""
        frame, filled = self._frame, self._filled + count
        assert frame is not None, "nothing was given room"
        if filled == self._frame_size_bytes:
            self._frame, self._first_size_bytes_max, self.partial_size_bytes = None, None, 0
            return [memoryview(frame)]
        self._filled = self.partial_size_bytes = filled
        if filled == len(frame):
            self._frame = grown = bytearray(min(filled * OWN_MEMORY_FACTOR, self._frame_size_bytes))
            grown[:filled] = frame
        return []

    def _begin(self, size_bytes: int, begun: memoryview) -> None:
        self._filled = self.partial_size_bytes = len(begun)
        self._frame_size_bytes, self._wanted = size_bytes, 4
        self._frame = frame = bytearray(min(len(begun) * OWN_MEMORY_FACTOR, size_bytes))
        frame[: len(begun)] = begun

    def _checked_size(self, view: memoryview, pos: int) -> int:
        first_max = self._first_size_bytes_max
        try:
            return frame_size(view, pos, self._size_bytes_max if first_max is None else first_max)
        except MalformedFrame:
            self._chunks, self.partial_size_bytes, self._wanted = [bytes(view[pos : pos + 4])], 4, 4
            raise


def frame_size(view: memoryview, pos: int, size_bytes_max: int) -> int:
    """The size that stands at `pos`. Raises MalformedFrame, FrameTooLarge."""
    (size_bytes,) = _SIZE.unpack_from(view, pos)
    if 0 < size_bytes <= size_bytes_max:
        return int(size_bytes)
    kind = MalformedFrame if size_bytes <= 0 else FrameTooLarge
    other = next(
        (what for prefix, what in OTHER_PROTOCOLS.items() if bytes(view[pos : pos + 4]).startswith(prefix)), None
    )
    if other is not None:
        raise kind(f"this is {other}, not Kafka's protocol")
    raise kind(f"a frame of {size_bytes} bytes is not between 1 and {size_bytes_max}")


class RequestHeader(NamedTuple):
    """What every request begins with."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def decode_request_header(frame: memoryview) -> tuple[RequestHeader, int]:
    """The header and the position of the body. Does not ask whether the API and version exist.

    Raises MalformedMessage.
    """
    try:
        api_key, api_version, correlation_id, length = _REQUEST_START.unpack_from(frame)
        pos, client_id = _REQUEST_START.size, None
        if length >= 0:
            if length > len(frame) - pos:
                raise MalformedMessage(f"client id of {length} bytes in a request of {len(frame)}")
            client_id = str(frame[pos : pos + length], "utf-8", "replace")
            pos += length
        api = APIS.get(api_key)
        if api is not None and api.request_header_version(api_version) == 2:
            pos = skip_tags(frame, pos, len(frame))
    except (layout_error, IndexError) as error:
        raise MalformedMessage(f"a request of {len(frame)} bytes ends within its header") from error
    return RequestHeader(api_key, api_version, correlation_id, client_id), pos


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, message: Struct
) -> list[Buffer]:
    """A whole request, size included, in parts; record bytes are not copied.

    Raises UnsupportedVersion and InvalidField as `encode_parts`.
    """
    api = _api(api_key)
    assert isinstance(message, api.request), f"{type(message).__name__} is not a request of {api.name}"
    name = b"" if client_id is None else client_id.encode()
    if len(name) > 32767:
        raise InvalidField(f"a client id of {len(name)} bytes is longer than 32767")
    parts: list[Buffer] = [b""]
    if name:
        parts.append(name)
    if api.request_header_version(api_version) == 2:
        parts.append(b"\0")
    encode_parts(message, api_version, parts)
    length = -1 if client_id is None else len(name)
    size_bytes = sum(map(len, parts)) + _REQUEST_PREFIX.size - _SIZE.size
    parts[0] = _REQUEST_PREFIX.pack(size_bytes, api_key, api_version, correlation_id, length)
    return parts


def encode_response(api_key: int, api_version: int, correlation_id: int, message: Struct) -> list[Buffer]:
    """A whole response, size included, in parts; record bytes are not copied. Errors as in `encode_request`."""
    api = _api(api_key)
    assert isinstance(message, api.response), f"{type(message).__name__} is not a response of {api.name}"
    parts: list[Buffer] = [b""]
    if api.response_header_version(api_version) == 1:
        parts.append(b"\0")
    encode_parts(message, api_version, parts)
    parts[0] = _RESPONSE_PREFIX.pack(sum(map(len, parts)) + _RESPONSE_PREFIX.size - _SIZE.size, correlation_id)
    return parts


def decode_request(header: RequestHeader, frame: memoryview, pos: int) -> Struct:
    """The body of a request whose header has been read; bytes after it are ignored, as Kafka's broker does.

    Raises MalformedMessage, UnsupportedVersion where the API is unknown.
    """
    return decode_message(_api(header.api_key).request, header.api_version, frame[pos:], trailing="ignore")


def decode_response(api_key: int, api_version: int, frame: memoryview) -> tuple[int, Struct]:
    """Correlation id and message. Raises MalformedMessage."""
    api = _api(api_key)
    try:
        (correlation_id,) = _SIZE.unpack_from(frame)
        pos = _SIZE.size
        if api.response_header_version(api_version) == 1:
            pos = skip_tags(frame, pos, len(frame))
    except (layout_error, IndexError) as error:
        raise MalformedMessage(f"a response of {len(frame)} bytes ends within its header") from error
    return correlation_id, decode_message(api.response, api_version, frame[pos:])


def response_correlation_id(frame: memoryview) -> int:
    """Which request a response belongs to. Raises MalformedMessage."""
    if len(frame) < 4:
        raise MalformedMessage(f"a response of {len(frame)} bytes has no correlation id")
    return int(_SIZE.unpack_from(frame)[0])


def _api(api_key: int) -> Api:
    api = APIS.get(api_key)
    if api is None:
        raise UnsupportedVersion(f"there is no API with key {api_key}")
    return api
