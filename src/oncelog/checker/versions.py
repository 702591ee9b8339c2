"""What a history says about each key's log: which values stand at which offset, who wrote and who read them.

Everything is kept per key and worked out poll by poll, not record by record: a history has many times more reads than
transactions, and a check that costs a step of Python for each of them is too slow to be run often.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from oncelog.checker.history import Operation
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class KeyPoll:
    """What one operation was given of one key: offsets and values side by side, in the order of delivery."""

    operation: Operation
    key: str
    offsets: tuple[int, ...]
    values: tuple[int, ...]


class Versions:
    """The facts that all rules share. A value is sent once per key (the workload's promise)."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations
        self.polls = [
            KeyPoll(operation, key, *zip(*records, strict=True))
            for operation in operations
            for key, records in operation.polled().items()
            if records
        ]
        self.writers: dict[str, dict[int, Operation]] = {}
        for operation in operations:
            for send in operation.sends:
                self.writers.setdefault(send.key, {}).setdefault(send.value, operation)
        self.ok_read = self._ok_read()
        self.committed = {id(o) for o in operations if self._is_committed(o)}
        self.values_at, self.conflicts = self._values_at()
        self.sorted_offsets = {key: sorted(at) for key, at in self.values_at.items()}
        self.rank = {
            key: dict(zip(offsets, range(len(offsets)), strict=True)) for key, offsets in self.sorted_offsets.items()
        }
        self.first_offset, self.further_offsets = self._offsets()
        self.several_sends = self._several_sends()

    def _ok_read(self) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for poll in self.polls:
            if poll.operation.type == "ok":
                found.setdefault(poll.key, set()).update(poll.values)
        return found

    def _is_committed(self, operation: Operation) -> bool:
        if operation.type == "ok":
            return True
        # One value of an unknown transaction that somebody read proves all of it (atomicity).
        return operation.type == "info" and any(s.value in self.ok_read.get(s.key, ()) for s in operation.sends)

    def _values_at(self) -> tuple[dict[str, dict[int, int]], dict[str, dict[int, set[int]]]]:
        """Per key the first known value of each offset; and apart, the offsets of several values with all of them."""
        at: dict[str, dict[int, int]] = {}
        conflicts: dict[str, dict[int, set[int]]] = {}
        for key, offsets, values in self._known():
            known = at.setdefault(key, {})
            before = tuple(map(known.get, offsets, values))  # the value itself where the offset is new
            known.update(zip(offsets, before, strict=True))
            if before != values or len(set(offsets)) != len(offsets):
                _note_conflicts(known, conflicts.setdefault(key, {}), offsets, values)
        return at, {key: found for key, found in conflicts.items() if found}

    def _known(self) -> Iterator[tuple[str, tuple[int, ...], tuple[int, ...]]]:
        """From all polls: a poll may never return bad data, even inside a transaction that fails. Then the sends."""
        for poll in self.polls:
            yield poll.key, poll.offsets, poll.values
        for operation in self.operations:
            if id(operation) in self.committed:
                for send in operation.sends:
                    if send.offset is not None:
                        yield send.key, (send.offset,), (send.value,)

    def _offsets(self) -> tuple[dict[str, dict[int, int]], dict[tuple[str, int], list[int]]]:
        """Per key the lowest offset of each value; and apart, the values that stand at several offsets with all."""
        first: dict[str, dict[int, int]] = {}
        further: dict[tuple[str, int], list[int]] = {}
        for key, at in self.values_at.items():
            conflicts = self.conflicts.get(key, {})
            lowest = first[key] = {}
            if not conflicts and len(set(at.values())) == len(at):
                lowest.update(zip(at.values(), at, strict=True))
                continue
            for offset in self.sorted_offsets[key]:
                for value in conflicts.get(offset, (at[offset],)):
                    if lowest.setdefault(value, offset) != offset:
                        further.setdefault((key, value), [lowest[value]]).append(offset)
        return first, further

    def _several_sends(self) -> dict[str, dict[int, Operation]]:
        """Per key and value the writer, where that sent more than this one value to the key."""
        found: dict[str, dict[int, Operation]] = {}
        for operation in self.operations:
            keys = [send.key for send in operation.sends]
            if len(set(keys)) == len(keys):
                continue
            counts = Counter(keys)
            for send in operation.sends:
                if counts[send.key] > 1 and self.writers[send.key][send.value] is operation:
                    found.setdefault(send.key, {})[send.value] = operation
        return found

    def offsets_of(self, key: str, value: int) -> list[int]:
        """Every known offset of a value, lowest first."""
        several = self.further_offsets.get((key, value))
        if several is not None:
            return several
        first = self.first_offset.get(key, {}).get(value)
        return [] if first is None else [first]

    def distance(self, key: str, from_offset: int, to_offset: int) -> int:
        """How many known versions lie between two offsets; 1 means next to each other."""
        rank = self.rank.get(key, {})
        if from_offset not in rank or to_offset not in rank:
            return 1
        return rank[to_offset] - rank[from_offset]

    def ok_reader(self, key: str, value: int) -> Operation:
        """The first acknowledged operation that read a value of `ok_read`."""
        return next(p.operation for p in self.polls if p.key == key and p.operation.type == "ok" and value in p.values)


def _note_conflicts(
    known: dict[int, int], conflicts: dict[int, set[int]], offsets: tuple[int, ...], values: tuple[int, ...]
) -> None:
    for offset, value in zip(offsets, values, strict=True):
        if known[offset] != value:
            conflicts.setdefault(offset, {known[offset]}).add(value)
