"""A bare client: frames that are ready go out of sockets, replies are counted by their sizes and thrown away.

It costs next to nothing beside what the system costs to move the bytes, so the broker decides the figure.
"""

from __future__ import annotations

import selectors
import socket
from collections import deque
from collections.abc import Iterable, Iterator, Sequence

from bench import frames
from bench.servers import Server

RECEIVED_BYTES = 1 << 20
TIMEOUT_S = 120


class WrongReply(Exception):
    """A reply has an error, or not the size that those before it had."""


def connected(server: Server) -> socket.socket:
    """A connection to a broker."""
    host, _, port = server.bootstrap.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=TIMEOUT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def ask(server: Server, *sent: bytes, may_fail: Sequence[int] = ()) -> list[object]:
    """The messages that answer these frames, one after another on a connection of their own. Raises WrongReply."""
    with connected(server) as connection:
        return [checked(frame, exchange(connection, frame), may_fail) for frame in sent]


def exchange(connection: socket.socket, frame: bytes) -> bytes:
    """One request's whole reply, its size included. Raises WrongReply when the broker hangs up."""
    connection.sendall(frame)
    size = _exactly(connection, 4)
    return size + _exactly(connection, int.from_bytes(size, "big"))


def _exactly(connection: socket.socket, count: int) -> bytes:
    parts = []
    while count:
        part = connection.recv(count)
        if not part:
            raise WrongReply("the broker closed the connection")
        parts.append(part)
        count -= len(part)
    return b"".join(parts)


def checked(frame: bytes, reply: bytes, may_fail: Sequence[int] = ()) -> object:
    """The reply's message. Raises WrongReply where it has an error that is not expected."""
    key, version = frames.request_of(frame)
    message = frames.reply_of(key, version, reply)
    codes = [code for code in frames.error_codes(message) if code and code not in may_fail]
    if codes:
        raise WrongReply(f"{key.name} v{version} was answered with {codes}")
    return message


class ReplyCounter:
    """Cuts a stream of bytes into replies, of which it keeps only whether each has the expected size."""

    def __init__(self, size_bytes: int | None = None) -> None:
        self.count = 0
        self._expected = size_bytes  # without the four bytes of the size itself
        self._head = b""
        self._left = 0

    def add(self, data: memoryview) -> int:
        """How many replies `data` completes. Raises WrongReply."""
        before, position, end = self.count, 0, len(data)
        while position < end:
            if self._left:
                step = min(self._left, end - position)
                self._left -= step
                position += step
            else:
                step = min(4 - len(self._head), end - position)
                self._head += bytes(data[position : position + step])
                position += step
                if len(self._head) < 4:
                    break
                self._left = int.from_bytes(self._head, "big")
                self._head = b""
                if self._expected is not None and self._left != self._expected:
                    raise WrongReply(f"a reply of {self._left} bytes among others of {self._expected}")
            if not self._left and not self._head:
                self.count += 1
        return self.count - before


class Pipe:
    """One connection with at most `depth` requests under way; what it sends comes from `waiting`."""

    def __init__(self, connection: socket.socket, sent: Iterable[bytes], depth: int, size_bytes: int | None) -> None:
        self.connection = connection
        self._waiting: Iterator[bytes] = iter(sent)
        self._counter = ReplyCounter(size_bytes)
        self._unsent: deque[memoryview] = deque()
        self._received = memoryview(bytearray(RECEIVED_BYTES))
        self._under_way = 0
        self.is_done = False
        connection.setblocking(False)
        self._fill(depth)

    @property
    def wants(self) -> int:
        """The selector's events to wait for."""
        return selectors.EVENT_READ | (selectors.EVENT_WRITE if self._unsent else 0)

    def _fill(self, count: int) -> None:
        for _ in range(count):
            frame = next(self._waiting, None)
            if frame is None:
                break
            self._unsent.append(memoryview(frame))
            self._under_way += 1
        self.is_done = not self._under_way
        self._flush()

    def _flush(self) -> None:
        while self._unsent:
            try:
                sent = self.connection.send(self._unsent[0])
            except BlockingIOError:
                return
            if sent < len(self._unsent[0]):
                self._unsent[0] = self._unsent[0][sent:]
            else:
                self._unsent.popleft()

    def turn(self, events: int) -> None:
        """Send and receive what can be. Raises WrongReply."""
        try:
            self._turn(events)
        except ConnectionError as error:
            raise WrongReply("the broker closed the connection") from error

    def _turn(self, events: int) -> None:
        if events & selectors.EVENT_WRITE:
            self._flush()
        if events & selectors.EVENT_READ:
            count = self.connection.recv_into(self._received)
            if not count:
                raise WrongReply("the broker closed the connection")
            done = self._counter.add(self._received[:count])
            if done:
                self._under_way -= done
                self._fill(done)


def run(pipes: Sequence[Pipe]) -> None:
    """Until every pipe has its last reply. Raises WrongReply, TimeoutError."""
    with selectors.DefaultSelector() as selector:
        wanted = {}
        for pipe in pipes:
            wanted[pipe] = pipe.wants
            selector.register(pipe.connection, pipe.wants, pipe)
        left = {pipe for pipe in pipes if not pipe.is_done}
        while left:
            ready = selector.select(TIMEOUT_S)
            if not ready:
                raise TimeoutError(f"nothing came for {TIMEOUT_S} s")
            for key, events in ready:
                pipe = key.data
                pipe.turn(events)
                if pipe.is_done:
                    left.discard(pipe)
                    selector.unregister(pipe.connection)
                elif pipe.wants != wanted[pipe]:
                    wanted[pipe] = pipe.wants
                    selector.modify(pipe.connection, pipe.wants, pipe)


def pump(server: Server, sent: Sequence[Iterable[bytes]], depth: int, size_bytes: int | None = None) -> None:
    """Send each sequence of frames on a connection of its own; every reply has `size_bytes`, where that is known."""
    connections = [connected(server) for _ in sent]
    try:
        run([Pipe(each, some, depth, size_bytes) for each, some in zip(connections, sent, strict=True)])
    finally:
        for each in connections:
            each.close()
