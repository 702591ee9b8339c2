"""A disk that remembers how it looked after every operation, so that one run of a workload gives every power cut.

At each operation everything before it has happened, and the operation itself is one of the writes that may be lost. What
survives is chosen for each file, and each directory's names, on its own.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterator
from typing import Any

from evidence.world.files import Fault, Keep, SimFiles, _apply, _Inode

EXHAUSTIVE_UNITS_MAX = 4


class PowerDisk(SimFiles):
    """`on_operation(what, path)` is called once each operation is done, before anybody can act on it."""

    def __init__(self, seed: int | str = 0) -> None:
        super().__init__(seed)
        self.on_operation: Callable[[str, str], None] | None = None

    def finish(self, fault: Fault | None, what: str, path: str) -> None:
        super().finish(fault, what, path)
        if self.on_operation is not None:
            self.on_operation(what, path)

    def copy(self, seed: int | str) -> PowerDisk:
        """The same content, durable or not, without handles, locks and faults."""
        copies: dict[int, _Inode] = {}

        def inode_of(inode: _Inode | None) -> _Inode | None:
            if inode is None:
                return None
            if id(inode) not in copies:
                copies[id(inode)] = _Inode(bytearray(inode.content), bytearray(inode.durable), list(inode.pending))
            return copies[id(inode)]

        def change_of(change: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(inode_of(part) if isinstance(part, _Inode) else part for part in change)

        copy = PowerDisk(seed)
        copy._names = {path: inode_of(inode) for path, inode in self._names.items()}
        copy._durable_names = {path: inode_of(inode) for path, inode in self._durable_names.items()}
        copy._pending_names = {
            path: [change_of(change) for change in changes] for path, changes in self._pending_names.items()
        }
        return copy

    def unsynced(self) -> list[str]:
        """What may survive or not, each on its own: files with unsynced writes, and "DIRECTORY/" with unsynced names."""
        files = [path for path, inode in self._names.items() if inode is not None and inode.pending]
        return sorted(files) + sorted(f"{path}/" for path, changes in self._pending_names.items() if changes)

    def crash_keeping(self, kept: frozenset[str]) -> None:
        """The power goes and comes back; of what was not synced exactly these files and names survive."""
        for path in sorted(self._pending_names):
            if f"{path}/" in kept:
                for change in self._pending_names.pop(path):
                    self._change(self._durable_names, change)
        for path, inode in self._names.items():
            if inode is not None and path in kept:
                for position, data in inode.pending:
                    _apply(inode.durable, position, data)
                inode.pending.clear()
        self.crash(Keep.NONE)

    def crash_within(self, what: str, path: str) -> None:
        """The power goes in the middle of the operation: on the disk before a sync of a file or of names, of which a part
        arrives; after any other operation, of which a write arrives torn, and a change of names or of a size alone."""
        inode = self._names.get(path)
        if what == "sync_directory":
            for change in self._pending_names.pop(path, []):
                if self.random.random() < 0.5:
                    self._change(self._durable_names, change)
        elif what == "sync" and inode is not None:
            for position, data in inode.pending:
                self._survive(inode, position, data, Keep.RANDOM, is_last=False)
        elif what == "write" and inode is not None and inode.pending:
            *earlier, (position, data) = inode.pending
            for each in earlier:
                _apply(inode.durable, *each)
            if data is not None:
                _apply(inode.durable, position, data[: self.random.randrange(len(data))])
        elif what == "truncate" and inode is not None and inode.pending:
            _apply(inode.durable, *inode.pending[-1])
        elif what in ("create", "make_directory", "rename", "remove"):
            changes = self._pending_names.get(path.rpartition("/")[0])
            if changes:
                self._change(self._durable_names, changes[-1])
        self.crash(Keep.NONE)

    def drop_last_batch(self, path: str) -> None:
        """A planted defect: the last batch of a log that was synced is gone."""
        from oncelog.wire.record_batch import batches

        inode = self._names[path]
        assert inode is not None
        found = list(batches(bytes(inode.durable)))
        del inode.durable[sum(batch.size_bytes for batch in found[:-1]) :]
        inode.content = bytearray(inode.durable)


Survival = Callable[[PowerDisk], None]


def survivals(disk: PowerDisk, seed: int | str, random_count: int) -> Iterator[tuple[str, Survival]]:
    """Ways in which a cut may end: every subset where few files are dirty; else all, none, one kept, one lost, some;
    and `random_count` in which single writes of a file are lost, torn or kept."""
    units = disk.unsynced()
    for kept in _subsets(units, random.Random(f"survivals {seed}")):
        yield f"kept {sorted(kept)} of {units}", lambda each, kept=kept: each.crash_keeping(kept)
    if units:
        yield "last write torn", lambda each: each.crash(Keep.LAST_TORN)
    for index in range(random_count if units else 0):
        yield f"random {seed} {index}", lambda each: each.crash(Keep.RANDOM)


def _subsets(units: list[str], drawn: random.Random) -> list[frozenset[str]]:
    if len(units) <= EXHAUSTIVE_UNITS_MAX:
        sizes = range(len(units) + 1)
        return [frozenset(each) for size in sizes for each in itertools.combinations(units, size)]
    everything = frozenset(units)
    found = [everything, frozenset(), *(frozenset({unit}) for unit in units), *(everything - {unit} for unit in units)]
    found += [frozenset(unit for unit in units if drawn.random() < 0.5) for _ in range(4)]
    return list(dict.fromkeys(found))
