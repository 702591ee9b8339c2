"""Standard input, output and error of a process: they may be closed, what is written to them may not fit, and nobody may ever
read or write at their other end.

A read or write that stands holds up the event loop, and with it what a signal asks for. So what waits here asks `ENDING`: the
body of a command that has not heard of a signal yet is left by an exception; who ends already gets the time of `PATIENCE_S`
for its last words, and what then has no room is given up.
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
import threading
from typing import TYPE_CHECKING

from oncelog.cli.signals import ENDING, raise_signalled

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

PATIENCE_S = 1.0
LOOK_S = 1.0  # a signal that comes between a look and the wait does not end the wait
REST_S = 0.01  # where a terminal has room and then none
STDIN, STDOUT, STDERR = "<stdin>", "<stdout>", "<stderr>"


def occupy() -> None:
    """Open what a service manager or `<&-` has closed: the numbers would go to what is opened next, and libuv ends a process
    (SIGABRT) that closes one of them."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest number that is free: this one


def stand_no_longer_than_told() -> None:
    """From now on no signal waits for who is at the other end of a standard stream."""
    for name, number in ((STDIN, 0), (STDOUT, 1), (STDERR, 2)):
        stream = getattr(sys, name[1:-1])
        if not isinstance(stream, io.TextIOWrapper):  # None: closed before we began
            continue
        raw = _Raw(number, "r" if name == STDIN else "w", name)
        buffered = io.BufferedReader(raw) if name == STDIN else _Buffered(raw)
        text = io.TextIOWrapper(
            buffered,
            encoding=stream.encoding,
            errors=stream.errors,
            line_buffering=stream.line_buffering or stream.write_through,
        )
        setattr(sys, name[1:-1], text)


def given_to_stdout() -> int | None:
    """How many bytes it was given, out or not; None where it is not ours. What a write raised for was not given."""
    buffered = getattr(sys.stdout, "buffer", None)
    return buffered.given_bytes if isinstance(buffered, _Buffered) else None


def out_of_stdout() -> int:
    """How many bytes of those are out, where whoever reads gets them."""
    raw = getattr(sys.stdout.buffer, "raw", None)
    assert isinstance(raw, _Raw), "it is ours"
    return raw.out_bytes


def stream_of(error: OSError) -> str:
    """The standard stream that could not be written, by its name; "" where it is an error of something else."""
    return error.filename[1:-1] if error.filename in (STDOUT, STDERR) else ""


def _opened_anew(terminal: int) -> int:
    """A descriptor of the same terminal whose writes take what has room; -1 where it may not be opened. That of the stream itself
    is shared with whoever started us, and must not be made so."""
    try:
        return os.open(os.ttyname(terminal), os.O_WRONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1


class _Buffered(io.BufferedWriter):
    """Counts what it is given: whoever is told to end in the midst of it wants to know what came out."""

    def __init__(self, raw: io.RawIOBase) -> None:
        super().__init__(raw)
        self.given_bytes = 0

    def write(self, data: ReadableBuffer, /) -> int:
        """As any. Raises what the bytes' own stream does."""
        count = super().write(data)
        self.given_bytes += count
        return count


class _Raw(io.FileIO):
    """The bytes of a standard stream. Only the main thread is told of signals: in others it is a file like any."""

    def __init__(self, number: int, mode: str, name: str) -> None:
        super().__init__(number, mode, closefd=False)
        self.name = name
        self.out_bytes = 0
        self._may_wait = not stat.S_ISREG(os.fstat(number).st_mode)
        self._is_given_up = False
        # A terminal has room when a byte fits, and a write waits until all of it does.
        self._never_waiting = _opened_anew(number) if "w" in mode and self.isatty() else -1

    def write(self, data: ReadableBuffer, /) -> int:
        """As many bytes as there is room for. Raises Signalled; OSError, which names the stream."""
        view = memoryview(data).cast("B")
        try:
            if not self._has_to_wait():
                return self._counted(super().write(view))
            if not self._waited([], [self]):
                return len(view)
            part = view[: select.PIPE_BUF]  # as much is taken without waiting, where there is room
            if self._never_waiting < 0:
                return self._counted(super().write(part))
            try:
                return self._counted(os.write(self._never_waiting, part))
            except BlockingIOError:  # somebody else's took the room: whoever writes asks again
                if ENDING.is_unheard():
                    raise_signalled(ENDING.number)
                self._is_given_up = ENDING.number != 0
                select.select([], [], [], REST_S)
                return len(view) if self._is_given_up else 0
        except OSError as error:
            if error.errno != errno.EPIPE:  # whose meaning is known: nobody reads any more
                error.filename = self.name
            raise

    def _counted(self, count: int) -> int:
        self.out_bytes += count
        return count

    def readinto(self, buffer: WriteableBuffer, /) -> int:
        """What is there. Raises Signalled."""
        return super().readinto(buffer) if not self._has_to_wait() or self._waited([self], []) else 0

    def readall(self) -> bytes:
        """Up to the end. Raises Signalled."""
        found = bytearray()
        while chunk := self.read(io.DEFAULT_BUFFER_SIZE):
            found += chunk
        return bytes(found)

    def read(self, size: int | None = -1, /) -> bytes:
        """Raises Signalled."""
        if size is None or size < 0:
            return self.readall()
        buffer = bytearray(size)
        return bytes(buffer[: self.readinto(buffer)])

    def _has_to_wait(self) -> bool:
        return self._may_wait and threading.current_thread() is threading.main_thread()

    def _waited(self, reads: list[_Raw], writes: list[_Raw]) -> bool:
        """Until it can be read or written. False: given up, as the process is to end. Raises Signalled."""
        while not self._is_given_up:
            if any(select.select(reads, writes, [], 0)):
                return True
            if ENDING.is_unheard():
                raise_signalled(ENDING.number)
            is_last = ENDING.number != 0
            ENDING.is_standing = True  # only here: what was written must not look as if it were not
            try:
                found = select.select(reads, writes, [], PATIENCE_S if is_last else LOOK_S)
            finally:
                ENDING.is_standing = False
            if any(found):
                return True
            self._is_given_up = is_last
        return False
