"""What processes of one machine say to one another about the cluster's metadata (`oncelog serve --processes N`).

The *follower* says Hello, asks for its turn (Change), says what is to be written in it (Append) and gives it back (Done). The
*controller* answers Welcome, sends the metadata's log from where the follower is (Batches; Anew where that is gone), and says
CaughtUp once, MayChange, Appended or Refused. Both say which partitions are Offline: the follower of its own, the controller of
its own and of each other process.

A frame is a length (4 bytes, big endian, of what follows), a kind (1 byte) and the message's fields. Both ends are of one version
of oncelog: they are started together, and another version is refused.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import ClassVar

from oncelog.errors import MalformedFrame
from oncelog.lazy_dataclass import dataclass
from oncelog.types import TopicPartition

LINK_VERSION = 2
FRAME_SIZE_BYTES_MAX = 64 * 1024 * 1024
_LENGTH = struct.Struct(">i")
_HELLO = struct.Struct(">hiiq")
_OFFSET = struct.Struct(">q")
_NODE = struct.Struct(">i")


@dataclass(frozen=True, slots=True)
class Hello:
    """Who follows: one of `process_count`, and the first offset that it does not have (0: it has nothing)."""

    kind: ClassVar[int] = 1
    version: int
    node_id: int
    process_count: int
    from_offset: int

    def body(self) -> bytes:
        """As it is sent."""
        return _HELLO.pack(self.version, self.node_id, self.process_count, self.from_offset)


@dataclass(frozen=True, slots=True)
class _Text:
    text: str

    def body(self) -> bytes:
        """As it is sent."""
        return self.text.encode("utf-8", "replace")


@dataclass(frozen=True, slots=True)
class _Data:
    data: bytes

    def body(self) -> bytes:
        """As it is sent."""
        return self.data


@dataclass(frozen=True, slots=True)
class _Offset:
    end_offset: int

    def body(self) -> bytes:
        """As it is sent."""
        return _OFFSET.pack(self.end_offset)


@dataclass(frozen=True, slots=True)
class _Bare:
    def body(self) -> bytes:
        """As it is sent."""
        return b""


class Change(_Bare):
    """The follower wants to change the metadata: nobody else may meanwhile."""

    kind: ClassVar[int] = 2


class Append(_Data):
    """Write these record batches."""

    kind: ClassVar[int] = 3


class Done(_Bare):
    """The follower's turn is over."""

    kind: ClassVar[int] = 4


class Welcome(_Text):
    """The cluster's id."""

    kind: ClassVar[int] = 5


class Anew(_Bare):
    """What the follower has is older than what is kept: everything comes again."""

    kind: ClassVar[int] = 6


class Batches(_Data):
    """Whole batches of the metadata's log, committed, the next in its order."""

    kind: ClassVar[int] = 7


class CaughtUp(_Offset):
    """Everything below this offset was sent."""

    kind: ClassVar[int] = 8


class MayChange(_Bare):
    """It is the follower's turn, and it has been sent everything."""

    kind: ClassVar[int] = 9


class Appended(_Bare):
    """What was to be written is, and was sent as Batches."""

    kind: ClassVar[int] = 10


class Refused(_Text):
    """Nothing was written: why."""

    kind: ClassVar[int] = 11


@dataclass(frozen=True, slots=True)
class Offline:
    """All partitions that process `node_id` leads and cannot serve."""

    kind: ClassVar[int] = 12
    node_id: int
    partitions: tuple[TopicPartition, ...]

    def body(self) -> bytes:
        """As it is sent: a partition is a line, its number and its topic."""
        return _NODE.pack(self.node_id) + "\n".join(f"{at.partition} {at.topic}" for at in self.partitions).encode()


def _offline(body: bytes) -> Offline:
    """Raises MalformedFrame."""
    try:
        (node_id,) = _NODE.unpack_from(body)
        lines = [line.split(" ", 1) for line in body[_NODE.size :].decode().split("\n") if line]
        return Offline(node_id, tuple(TopicPartition(topic, int(number)) for number, topic in lines))
    except (struct.error, ValueError) as error:
        raise MalformedFrame(f"offline partitions that cannot be read: {error}") from error


LinkMessage = (
    Hello | Change | Append | Done | Welcome | Anew | Batches | CaughtUp | MayChange | Appended | Refused | Offline
)
_BARE = {each.kind: each for each in (Change, Done, Anew, MayChange, Appended)}
_TEXT = {each.kind: each for each in (Welcome, Refused)}
_DATA = {each.kind: each for each in (Append, Batches)}


def encode(message: LinkMessage) -> bytes:
    """A message as a frame."""
    body = message.body()
    return _LENGTH.pack(len(body) + 1) + bytes((message.kind,)) + body


def decode(kind: int, body: bytes) -> LinkMessage:
    """The message of a frame. Raises MalformedFrame."""
    if kind in _BARE and not body:
        return _BARE[kind]()
    if kind in _DATA:
        return _DATA[kind](body)
    if kind in _TEXT:
        return _TEXT[kind](body.decode("utf-8", "replace"))
    if kind == Hello.kind and len(body) == _HELLO.size:
        return Hello(*_HELLO.unpack(body))
    if kind == CaughtUp.kind and len(body) == _OFFSET.size:
        return CaughtUp(*_OFFSET.unpack(body))
    if kind == Offline.kind:
        return _offline(body)
    raise MalformedFrame(f"a message of kind {kind} with {len(body)} bytes between processes")


class LinkReader:
    """Cuts what comes into messages."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def receive(self, data: bytes) -> Iterator[LinkMessage]:
        """The messages that are whole with this. Raises MalformedFrame."""
        buffer = self._buffer
        buffer += data
        while len(buffer) > _LENGTH.size:
            (size_bytes,) = _LENGTH.unpack_from(buffer)
            if not 1 <= size_bytes <= FRAME_SIZE_BYTES_MAX:
                raise MalformedFrame(f"a message of {size_bytes} bytes between processes")
            end = _LENGTH.size + size_bytes
            if len(buffer) < end:
                return
            kind, body = buffer[_LENGTH.size], bytes(buffer[_LENGTH.size + 1 : end])
            del buffer[:end]
            yield decode(kind, body)
