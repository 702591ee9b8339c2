"""A host whose files are in memory and whose network is a function call: a broker in it costs CPU and nothing else."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable, Sequence
from typing import Any

from evidence.world.network import feed

from oncelog.errors import StorageError
from oncelog.host.host import Host
from oncelog.host.network import ConnectFailed

START_MS = 1_750_000_000_000
IDLE_MAX = 10_000  # times that everybody waits: starting and stopping a broker takes a few


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


class MemoryFile:
    """A handle of a file's bytes."""

    def __init__(self, path: str, content: bytearray) -> None:
        self.path = path
        self._content = content

    def append(self, data: Any) -> None:
        self._content += data

    def read_at(self, position: int, size_bytes: int) -> bytes:
        return bytes(self._content[position : position + size_bytes])

    def write_at(self, position: int, data: Any) -> None:
        content = self._content
        if position > len(content):
            content.extend(bytes(position - len(content)))
        content[position : position + len(data)] = data

    def size(self) -> int:
        return len(self._content)

    def truncate(self, size_bytes: int) -> None:
        content = self._content
        del content[size_bytes:]
        content.extend(bytes(size_bytes - len(content)))

    def sync(self) -> None:
        pass

    def close(self) -> None:
        pass


class MemoryLock:
    """Nobody else is here to lock out."""

    def close(self) -> None:
        pass


class MemoryFiles:
    """`oncelog.log.files.Files`: names and bytes; None is a directory."""

    def __init__(self) -> None:
        self._names: dict[str, bytearray | None] = {"": None}

    def _content(self, path: str) -> bytearray:
        content = self._names.get(path)
        if content is None:
            raise StorageError(f"cannot open {path}: No such file or directory")
        return content

    def open(self, path: str, create: bool = True) -> MemoryFile:
        if create and path not in self._names:
            if self._names.get(_parent(path), path) is not None:
                raise StorageError(f"cannot open {path}: No such directory")
            self._names[path] = bytearray()
        return MemoryFile(path, self._content(path))

    def exists(self, path: str) -> bool:
        return path in self._names

    def size_of(self, path: str) -> int:
        return len(self._content(path))

    def modified_ms(self, path: str) -> int:
        self._content(path)
        return START_MS

    def list(self, directory: str) -> list[str]:
        if self._names.get(directory, directory) is not None:
            raise StorageError(f"cannot list {directory}: No such directory")
        return sorted(path.rpartition("/")[2] for path in self._names if path and _parent(path) == directory)

    def make_directory(self, path: str) -> None:
        while path and path not in self._names:
            self._names[path] = None
            path = _parent(path)

    def remove(self, path: str) -> None:
        self._names.pop(path, None)

    def remove_directory(self, path: str) -> None:
        for name in [name for name in self._names if name == path or name.startswith(f"{path}/")]:
            del self._names[name]

    def rename(self, path: str, new_path: str) -> None:
        if path not in self._names:
            raise StorageError(f"cannot rename {path}: No such file or directory")
        for name in [name for name in self._names if name == path or name.startswith(f"{path}/")]:
            self._names[new_path + name[len(path) :]] = self._names.pop(name)

    def sync_directory(self, path: str) -> None:
        pass

    def read_whole(self, path: str) -> bytes:
        return bytes(self._content(path))

    def replace_whole(self, path: str, data: Any) -> None:
        self._names[path] = bytearray(data)

    def lock(self, path: str) -> MemoryLock:
        self.open(path)
        return MemoryLock()


class MemorySyncer:
    """Every sync is over in the next turn of the loop, where a real one wakes it too."""

    def sync(self, _files: Sequence[object]) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        done: asyncio.Future[None] = loop.create_future()
        loop.call_soon(done.set_result, None)
        return done

    def close(self) -> None:
        pass


class Exchange(asyncio.Transport):
    """The broker's end of a connection: each frame goes in when the one before it has its reply."""

    def __init__(self, protocol: asyncio.BaseProtocol, port: int) -> None:
        super().__init__()
        self._protocol = protocol
        self._names = {"peername": ("127.0.0.1", port), "sockname": ("127.0.0.1", 9092)}
        self._waiting: list[bytes] = []
        self._done: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()
        self.replies: list[bytes] = []
        protocol.connection_made(self)

    def begin(self, frames: list[bytes]) -> asyncio.Future[None]:
        """Send `frames` one after another; done with the last reply, or failed when the broker hangs up."""
        self._waiting = frames[::-1]
        self._done = self._loop.create_future()
        self.replies = []
        self._loop.call_soon(feed, self._protocol, self._waiting.pop())
        return self._done

    def write(self, data: Any) -> None:
        self.replies.append(data)
        if self._waiting:
            self._loop.call_soon(feed, self._protocol, self._waiting.pop())
        elif self._done is not None:
            self._done.set_result(None)

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._names.get(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass

    def close(self) -> None:
        self._loop.call_soon(self._protocol.connection_lost, None)

    def abort(self) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError("the broker closed the connection instead of answering"))
        self.close()


class MemoryNetwork:
    """What the broker listens on; `connect_client` is the other side's call."""

    has_shortcut = True
    host, port = "127.0.0.1", 9092

    def __init__(self) -> None:
        self._accept: Callable[[], Any] | None = None
        self._connected = 0

    async def listen(self, _host: str, _port: int, protocol_factory: Callable[[], Any]) -> MemoryNetwork:
        self._accept = protocol_factory
        return self

    def close(self) -> None:
        self._accept = None

    async def connect(self, _host: str, _port: int, _protocol_factory: Callable[[], Any]) -> Any:
        raise ConnectFailed("a broker in memory asks nobody")

    def connect_client(self) -> Exchange:
        """A new connection to the broker."""
        assert self._accept is not None, "the broker listens"
        self._connected += 1
        return Exchange(self._accept(), 40_000 + self._connected)


class _Clock:
    """Stands still: nothing expires while something is measured."""

    def now_ms(self) -> int:
        return START_MS


class _Random:
    def __init__(self) -> None:
        self._random = random.Random(0)

    def token_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def uniform(self, low: float, high: float) -> float:
        return self._random.uniform(low, high)

    def below(self, bound: int) -> int:
        return self._random.randrange(bound)


def memory_host() -> tuple[Host, MemoryNetwork]:
    """Doors to nowhere, and the one that clients come through."""
    network = MemoryNetwork()
    return Host(_Clock(), network, MemoryFiles(), MemorySyncer(), _Random()), network  # type: ignore[arg-type]


class _NoSelector(selectors.SelectSelector):
    """No descriptor is ever ready, so the system is not asked."""

    seconds = 0.0
    idle_count = 0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout > 0:
            self.idle_count += 1
            assert timeout is not None, "a reply that does not come: nobody waits for a time"
            assert self.idle_count < IDLE_MAX, "a reply that does not come"
            self.seconds += timeout
        return []


class MemoryLoop(asyncio.SelectorEventLoop):
    """Makes no system call while there is something to do; its time moves only when there is nothing.

    So no timer interferes with what is measured: on a busy machine a request would else be held for too long.
    """

    def __init__(self) -> None:
        self._none_ready = _NoSelector()
        super().__init__(self._none_ready)

    def time(self) -> float:
        return self._none_ready.seconds
