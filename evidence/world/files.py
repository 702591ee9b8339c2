"""A disk in memory that loses power: the `Files` of `oncelog.log.files`, with everything a real disk may do.

What was written but not synced survives `crash()` as any subset of the writes, each torn at 512 bytes; names created,
renamed or removed survive without `sync_directory` of their directory or do not. `kill()` is a process killed: the page cache
stays. `fail_at` makes an operation fail (disk full, I/O error; a failed sync drops what it should have saved, and a later
one "succeeds"), `cut_power_at` stops everything at an operation. All choices come from the seed.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any

from oncelog.errors import StorageError

SECTOR_BYTES = 512
MISDIRECTED_SECTORS = 8
GROWING = ("write", "create", "make_directory")


class PowerCut(Exception):
    """The machine is off; `crash()` switches it on again."""


class Keep(Enum):
    """What of the unsynced writes survives a crash."""

    ALL = auto()
    NONE = auto()
    RANDOM = auto()  # each write is kept, lost, or torn at sector bounds; each name change is kept or lost
    LAST_TORN = auto()  # everything, but of each file's last write only some sectors


class Fault(Enum):
    """How an operation fails."""

    DISK_FULL = auto()  # a write leaves its first half
    IO_ERROR = auto()
    SYNC_ERROR = auto()  # only syncs fail; what was unsynced is partly lost for good


@dataclass(eq=False)
class _Inode:
    content: bytearray = field(default_factory=bytearray)
    durable: bytearray = field(default_factory=bytearray)
    pending: list[tuple[int, bytes | None]] = field(
        default_factory=list
    )  # (position, data), or (size, None): truncated


def _apply(content: bytearray, position: int, data: bytes | None) -> None:
    if data is None:
        if position <= len(content):
            del content[position:]
        else:
            content.extend(bytes(position - len(content)))
        return
    if position > len(content):
        content.extend(bytes(position - len(content)))
    content[position : position + len(data)] = data


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


class SimFile:
    """One handle; useless after a crash or close."""

    def __init__(self, files: SimFiles, path: str, inode: _Inode) -> None:
        self.path = path
        self._files = files
        self._inode = inode
        self._boot = files.boot_count
        self._is_closed = False

    def _check(self) -> _Inode:
        if self._boot != self._files.boot_count:
            raise PowerCut(f"{self.path}: a handle from before the crash")
        assert not self._is_closed, f"{self.path} is closed"
        return self._inode

    def append(self, data: Any) -> None:
        self.write_at(len(self._check().content), data)

    def read_at(self, position: int, size_bytes: int) -> bytes:
        self._files.read("read", self.path)
        return bytes(self._check().content[position : position + size_bytes])

    def write_at(self, position: int, data: Any) -> None:
        inode, data = self._check(), bytes(data)
        fault = self._files.operation("write", self.path)
        if fault is Fault.DISK_FULL:
            data = data[: len(data) // 2]
        if fault is not Fault.IO_ERROR and data:
            _apply(inode.content, position, data)
            inode.pending.append((position, data))
        self._files.finish(fault, "write", self.path)

    def size(self) -> int:
        return len(self._check().content)

    def truncate(self, size_bytes: int) -> None:
        inode = self._check()
        fault = self._files.operation("truncate", self.path)
        if fault is None and size_bytes != len(inode.content):
            _apply(inode.content, size_bytes, None)
            inode.pending.append((size_bytes, None))
        self._files.finish(fault, "truncate", self.path)

    def sync(self) -> None:
        if self._is_closed:
            return
        inode = self._check()
        fault = self._files.operation("sync", self.path)
        if not self._files.is_off:
            for position, data in inode.pending:
                # After a failed sync the kernel calls the pages clean: what did not reach the disk never will.
                if fault is None or self._files.random.random() < 0.5:
                    _apply(inode.durable, position, data)
            inode.pending.clear()
        self._files.finish(fault, "sync", self.path)

    def close(self) -> None:
        self._is_closed = True


class SimLock:
    """A held lock."""

    def __init__(self, files: SimFiles, path: str) -> None:
        self._files = files
        self._path = path

    def close(self) -> None:
        self._files.locks.discard(self._path)


class SimFiles:
    """The disk of one simulated machine. `operation_count` counts what could fail: writes, syncs, changes of names."""

    def __init__(self, seed: int | str = 0) -> None:
        self.random = random.Random(f"files {seed}")
        self.boot_count = 0
        self.power_count = 0
        self.operation_count = 0
        self.read_count = 0
        self.is_off = False
        self.locks: set[str] = set()
        self.trace: list[tuple[str, str]] | None = None
        self._names: dict[str, _Inode | None] = {"": None}  # None: a directory
        self._durable_names: dict[str, _Inode | None] = {"": None}
        self._pending_names: dict[str, list[tuple[Any, ...]]] = {}
        self._faults: list[tuple[int, Fault, bool]] = []
        self._power_cut_at: int | None = None
        self._fail_reads_from: int | None = None
        self.is_full = False  # nothing can grow or be created
        self.misdirected_share = 0.0  # of the unsynced writes that a crash leaves: they land among others of theirs
        self.misdirected_count = 0

    # Faults

    def fail_at(self, operation: int, fault: Fault, *, is_sticky: bool = False) -> None:
        """Let the `operation`-th operation from now (1 is the next; for SYNC_ERROR the first sync from there) fail."""
        self._faults.append((self.operation_count + operation, fault, is_sticky))

    def fail_reads_from(self, read: int | None) -> None:
        """Let every read from the `read`-th from now on fail; None heals."""
        self._fail_reads_from = None if read is None else self.read_count + read

    def cut_power_at(self, operation: int) -> None:
        """Raise PowerCut in the `operation`-th operation from now and in all that follow, until `crash()`."""
        self._power_cut_at = self.operation_count + operation

    def heal(self) -> None:
        """No more faults."""
        self._faults.clear()
        self._power_cut_at = self._fail_reads_from = None
        self.is_full = False

    def flip_bit(self, path: str, bit: int) -> None:
        """Bit rot: invert one bit of a file, on the disk and in memory."""
        inode = self._names[path]
        assert inode is not None
        for content in (inode.content, inode.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << (bit % 8)

    def holds(self, path: str, position: int, data: bytes) -> bool:
        """Whether a process would read `data` there."""
        inode = self._names.get(path)
        return inode is not None and inode.content[position : position + len(data)] == data

    def overwrite(self, path: str, position: int, expected: bytes, data: bytes) -> None:
        """Damage, or its repair: change bytes of a file, on the disk and in memory, where they are as expected."""
        inode = self._names.get(path)
        for content in (inode.content, inode.durable) if inode is not None else ():
            if content[position : position + len(expected)] == expected:
                content[position : position + len(data)] = data

    def read(self, what: str, path: str) -> None:
        """Count a read."""
        self.read_count += 1
        if self.is_off:
            raise PowerCut(what)
        if self._fail_reads_from is not None and self.read_count >= self._fail_reads_from:
            raise StorageError(f"cannot {what} {path}: Input/output error")

    def operation(self, what: str, path: str) -> Fault | None:
        """Count an operation: which fault it meets. The power goes while it is under way, so it is still recorded."""
        if self.is_off:
            raise PowerCut(what)
        self.operation_count += 1
        if self.trace is not None:
            self.trace.append((what, path))
        if self._power_cut_at is not None and self.operation_count >= self._power_cut_at:
            self.is_off = True
        for fault_at, fault, is_sticky in self._faults:
            is_due = self.operation_count == fault_at or (is_sticky and self.operation_count > fault_at)
            if fault is Fault.SYNC_ERROR:
                if self.operation_count >= fault_at and what in ("sync", "sync_directory"):
                    if not is_sticky:
                        self._faults.remove((fault_at, fault, is_sticky))
                    return fault
            elif is_due and not (fault is Fault.DISK_FULL and what in ("sync", "sync_directory", "remove", "truncate")):
                return fault
        if self.is_full and what in GROWING:
            return Fault.DISK_FULL
        return None

    def finish(self, fault: Fault | None, what: str, path: str) -> None:
        """Raise what the operation ended with."""
        if self.is_off:
            raise PowerCut(f"{what} {path}")
        if fault is not None:
            raise StorageError(f"cannot {what} {path}: {fault.name}")

    # Ends of a process or of power

    def kill(self) -> None:
        """The process is killed: handles and locks are gone, the page cache (and planned faults) stay."""
        self.boot_count += 1
        self.locks.clear()

    def crash(self, keep: Keep = Keep.RANDOM) -> None:
        """The power goes and comes back; what was not synced survives as `keep` says. Ends all faults."""
        self.power_count += 1
        names = dict(self._durable_names)
        for directory in sorted(self._pending_names):
            for change in self._pending_names[directory]:
                if keep in (Keep.ALL, Keep.LAST_TORN) or (keep is Keep.RANDOM and self.random.random() < 0.5):
                    self._change(names, change)
        inodes = {id(inode): inode for inode in names.values() if inode is not None}
        for inode in inodes.values():
            synced_bytes = len(inode.durable)
            for index, (position, data) in enumerate(inode.pending):
                if keep is Keep.RANDOM:
                    position = self._landed(position, data, synced_bytes)
                self._survive(inode, position, data, keep, is_last=index == len(inode.pending) - 1)
            inode.pending.clear()
            inode.content = bytearray(inode.durable)
        self._names = {path: inode for path, inode in names.items() if self._is_reachable(path, names)}
        self._durable_names = dict(self._names)
        self._pending_names.clear()
        self.is_off = False
        self.heal()
        self.kill()

    @staticmethod
    def _is_reachable(path: str, names: dict[str, _Inode | None]) -> bool:
        while path:
            path = _parent(path)
            if names.get(path, path) is not None:
                return False
        return True

    def _landed(self, position: int, data: bytes | None, synced_bytes: int) -> int:
        """Where an unsynced write went: to its place, or to a sector near it that was never synced."""
        if data is None or position < synced_bytes or not self.misdirected_share:
            return position
        if self.random.random() >= self.misdirected_share:
            return position
        self.misdirected_count += 1
        first = -(-synced_bytes // SECTOR_BYTES)
        return (first + self.random.randrange(MISDIRECTED_SECTORS)) * SECTOR_BYTES

    def _survive(self, inode: _Inode, position: int, data: bytes | None, keep: Keep, *, is_last: bool) -> None:
        if keep is Keep.NONE:
            return
        is_torn = data is not None and ((keep is Keep.LAST_TORN and is_last) or keep is Keep.RANDOM)
        if keep is Keep.RANDOM:
            choice = self.random.randrange(3)
            if choice == 0:
                return
            is_torn &= choice == 1
        if not is_torn or data is None:
            _apply(inode.durable, position, data)
            return
        start = 0
        while start < len(data):
            end = min(len(data), (position + start) // SECTOR_BYTES * SECTOR_BYTES + SECTOR_BYTES - position)
            if self.random.random() < 0.5:
                _apply(inode.durable, position + start, data[start:end])
            start = end

    # Names

    @staticmethod
    def _change(names: dict[str, _Inode | None], change: tuple[Any, ...]) -> None:
        """Of a file it is one name; of a directory (no inode) those in it as well."""
        if change[0] == "link":
            names[change[1]] = change[2]
        elif change[0] == "unlink" and change[2] is not None:
            names.pop(change[1], None)
        elif change[0] == "rename" and change[3] is not None:
            names.pop(change[1], None)
            names[change[2]] = change[3]
        elif change[0] == "unlink":
            for path in [path for path in names if path == change[1] or path.startswith(f"{change[1]}/")]:
                del names[path]
        else:
            _, old, new, inode = change
            moved = {path: names.pop(path) for path in [p for p in names if p == old or p.startswith(f"{old}/")]}
            names[new] = inode
            names.update({new + path[len(old) :]: found for path, found in moved.items() if path != old})

    def _change_names(self, what: str, path: str, change: tuple[Any, ...]) -> None:
        fault = self.operation(what, path)
        if fault is None:
            self._change(self._names, change)
            self._pending_names.setdefault(_parent(path), []).append(change)
        self.finish(fault, what, path)

    def _require(self, path: str) -> _Inode:
        inode = self._names.get(path)
        if inode is None:
            raise StorageError(f"cannot open {path}: No such file or directory")
        return inode

    def open(self, path: str, create: bool = True) -> SimFile:
        if self.is_off:
            raise PowerCut(path)
        if create and path not in self._names:
            if self._names.get(_parent(path), path) is not None:
                raise StorageError(f"cannot open {path}: No such directory")
            self._change_names("create", path, ("link", path, _Inode()))
        return SimFile(self, path, self._require(path))

    def read_synced(self, path: str) -> bytes | None:
        """What a power cut would leave of a file if nothing unsynced survived it."""
        inode = self._durable_names.get(path)
        return None if inode is None else bytes(inode.durable)

    def exists(self, path: str) -> bool:
        return path in self._names

    def size_of(self, path: str) -> int:
        return len(self._require(path).content)

    def modified_ms(self, path: str) -> int:
        self._require(path)
        return 0  # this disk has no clock

    def list(self, directory: str) -> list[str]:
        if self._names.get(directory, directory) is not None:
            raise StorageError(f"cannot list {directory}: No such directory")
        prefix = f"{directory}/" if directory else ""
        found = [path[len(prefix) :] for path in self._names if path.startswith(prefix) and path != directory]
        return sorted(name for name in found if name and "/" not in name)

    def make_directory(self, path: str) -> None:
        if path in self._names:
            return
        if _parent(path) not in self._names:
            self.make_directory(_parent(path))
        self._change_names("make_directory", path, ("link", path, None))

    def remove(self, path: str) -> None:
        if path in self._names:
            self._change_names("remove", path, ("unlink", path, self._names[path]))

    def remove_directory(self, path: str) -> None:
        self.remove(path)

    def rename(self, path: str, new_path: str) -> None:
        if path not in self._names:
            raise StorageError(f"cannot rename {path}: No such file or directory")
        if self._names[path] is None:
            for directory in [d for d in self._pending_names if d == path or d.startswith(f"{path}/")]:
                for change in self._pending_names.pop(
                    directory
                ):  # simplification: what lies in a renamed one is durable
                    self._change(self._durable_names, change)
        self._change_names("rename", new_path, ("rename", path, new_path, self._names[path]))

    def sync_directory(self, path: str) -> None:
        fault = self.operation("sync_directory", path)
        if not self.is_off:
            for change in self._pending_names.pop(path, []):
                if fault is None or self.random.random() < 0.5:
                    self._change(self._durable_names, change)
        self.finish(fault, "sync", path)

    def read_whole(self, path: str) -> bytes:
        self.read("read", path)
        return bytes(self._require(path).content)

    def replace_whole(self, path: str, data: Any) -> None:
        temporary = self.open(f"{path}.tmp")
        temporary.truncate(0)
        temporary.write_at(0, data)
        temporary.sync()
        self.rename(f"{path}.tmp", path)
        self.sync_directory(_parent(path))

    def lock(self, path: str) -> SimLock:
        if path in self.locks:
            raise StorageError(f"{path} is locked: another server uses this directory")
        self.open(path)
        self.locks.add(path)
        return SimLock(self, path)

    # For tests

    def snapshot(self, directory: str = "") -> dict[str, bytes]:
        """Every file's content as a process sees it now."""
        prefix = f"{directory}/" if directory else ""
        return {p: bytes(i.content) for p, i in sorted(self._names.items()) if i is not None and p.startswith(prefix)}


class SimSyncer:
    """Syncs at once, in the loop; the simulator's own adds a delay."""

    async def sync(self, files: Any) -> None:
        failed = None
        for file in files:
            try:
                file.sync()
            except StorageError as error:
                failed = failed or error
        if failed:
            raise failed
