"""The anomalies: what a history may not show, each with a minimal witness (names and rules: docs/history.md).

`fails` says whether an anomaly makes the history invalid; the others are legal in Kafka's model and only recorded.
Rule: a poll may never return bad data, even inside a transaction that fails, so versions are taken from all polls.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from oncelog.checker.cycles import Graph, components, shortest_cycle
from oncelog.checker.history import Operation, Poll, Send


@dataclass(frozen=True, slots=True)
class Anomaly:
    """One finding: `text` is for a person, `witness` (operation indexes, key, offsets, values) for a machine."""

    name: str
    text: str
    witness: dict[str, Any]
    fails: bool = True


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks found in `operation_count` operations."""

    operation_count: int
    anomalies: list[Anomaly]

    @property
    def is_valid(self) -> bool:
        return not any(anomaly.fails for anomaly in self.anomalies)


class Versions:
    """What is known of each key's log: which values stand at which offset, who wrote and who read them."""

    def __init__(self, operations: list[Operation]) -> None:
        self.operations = operations
        self.writer: dict[tuple[str, int], Operation] = {}
        self.ok_readers: dict[tuple[str, int], list[Operation]] = {}
        self.polls: list[tuple[Operation, str, list[tuple[int, int]]]] = []
        for operation in operations:
            for send in operation.sends:
                self.writer.setdefault((send.key, send.value), operation)
            for key, records in operation.polled().items():
                self.polls.append((operation, key, records))
                if operation.type == "ok":
                    for _, value in records:
                        self.ok_readers.setdefault((key, value), []).append(operation)
        self.several_sends = self._several_sends()
        self.committed = {id(o) for o in operations if self._is_committed(o)}
        self.values_at: dict[str, dict[int, set[int]]] = {}
        for _, key, records in self.polls:
            for offset, value in records:
                self.values_at.setdefault(key, {}).setdefault(offset, set()).add(value)
        for operation in operations:
            if id(operation) in self.committed:
                for send in operation.sends:
                    if send.offset is not None:
                        self.values_at.setdefault(send.key, {}).setdefault(send.offset, set()).add(send.value)
        self.rank: dict[str, dict[int, int]] = {
            key: {offset: rank for rank, offset in enumerate(sorted(at))} for key, at in self.values_at.items()
        }
        self.offsets: dict[tuple[str, int], list[int]] = {}
        for key, at in self.values_at.items():
            for offset in sorted(at):
                for value in at[offset]:
                    self.offsets.setdefault((key, value), []).append(offset)

    def _several_sends(self) -> dict[str, dict[int, Operation]]:
        """Per key and value the writer, where that sent more than this one value to the key."""
        found: dict[str, dict[int, Operation]] = {}
        for operation in self.operations:
            counts = Counter(send.key for send in operation.sends)
            for send in operation.sends:
                if counts[send.key] > 1 and self.writer[send.key, send.value] is operation:
                    found.setdefault(send.key, {})[send.value] = operation
        return found

    def _is_committed(self, operation: Operation) -> bool:
        if operation.type == "ok":
            return True
        # One value of an unknown transaction that somebody read proves all of it (atomicity).
        return operation.type == "info" and any((s.key, s.value) in self.ok_readers for s in operation.sends)

    def distance(self, key: str, from_offset: int, to_offset: int) -> int:
        """How many known versions lie between two offsets; 1 means next to each other."""
        rank = self.rank.get(key, {})
        if from_offset not in rank or to_offset not in rank:
            return 1
        return rank[to_offset] - rank[from_offset]


def check(operations: list[Operation]) -> Report:
    """All checks over a history."""
    versions = Versions(operations)
    found = [anomaly for rule in RULES for anomaly in rule(versions)]
    return Report(len(operations), found)


def inconsistent_offsets(versions: Versions) -> Iterator[Anomaly]:
    for key, at in versions.values_at.items():
        for offset, values in at.items():
            if len(values) > 1:
                text = f"{key}@{offset} held different values: {sorted(values)}"
                yield Anomaly("inconsistent-offsets", text, {"key": key, "offset": offset, "values": sorted(values)})


def duplicates(versions: Versions) -> Iterator[Anomaly]:
    for (key, value), offsets in versions.offsets.items():
        if len(offsets) > 1:
            text = f"{key}: value {value} stands at offsets {offsets}"
            yield Anomaly("duplicate", text, {"key": key, "value": value, "offsets": offsets})


def phantoms(versions: Versions) -> Iterator[Anomaly]:
    for operation, key, records in versions.polls:
        for offset, value in records:
            if (key, value) not in versions.writer:
                text = f"{key}@{offset}: value {value} was read by operation {operation.index}, and nobody sent it"
                yield Anomaly(
                    "phantom", text, {"key": key, "offset": offset, "value": value, "reader": operation.index}
                )


def aborted_reads(versions: Versions) -> Iterator[Anomaly]:
    for (key, value), readers in versions.ok_readers.items():
        writer = versions.writer.get((key, value))
        if writer is not None and writer.type == "fail":
            text = f"{key}: value {value} of aborted operation {writer.index} was read by operation {readers[0].index}"
            yield Anomaly("G1a", text, {"key": key, "value": value, "writer": writer.index, "reader": readers[0].index})


def intermediate_reads(versions: Versions) -> Iterator[Anomaly]:
    """A reader that saw one value of a transaction and read past another of the same key without getting it."""
    for reader, key, records in versions.polls:
        if reader.type != "ok" or key in reader.rebalanced or not records:
            continue
        values, last_offset = {value for _, value in records}, max(offset for offset, _ in records)
        first_offset = min(offset for offset, _ in records)
        several = versions.several_sends.get(key)
        if several is None:
            continue
        for writer in _distinct(several.get(value) for value in values):
            if id(writer) not in versions.committed:
                continue
            for send in writer.sends:
                missed = send.key == key and send.value not in values
                if missed and any(first_offset < o < last_offset for o in versions.offsets.get((key, send.value), [])):
                    text = f"{key}: operation {reader.index} read part of operation {writer.index}, missed {send.value}"
                    witness = {"key": key, "value": send.value, "writer": writer.index, "reader": reader.index}
                    yield Anomaly("G1b", text, witness)


def _distinct(operations: Iterable[Operation | None]) -> list[Operation]:
    return list({id(o): o for o in operations if o is not None}.values())


def precommitted_reads(versions: Versions) -> Iterator[Anomaly]:
    for operation, key, records in versions.polls:
        for _, value in records:
            if versions.writer.get((key, value)) is operation:
                text = f"{key}: operation {operation.index} read value {value}, its own before its commit"
                yield Anomaly("precommitted-read", text, {"key": key, "value": value, "operation": operation.index})


def lost_writes(versions: Versions) -> Iterator[Anomaly]:
    furthest: dict[str, int] = {}
    for key, value in versions.ok_readers:
        offsets = versions.offsets.get((key, value))
        if offsets:
            furthest[key] = max(furthest.get(key, -1), offsets[0])
    for (key, value), writer in versions.writer.items():
        if id(writer) not in versions.committed or (key, value) in versions.ok_readers:
            continue
        offsets = versions.offsets.get((key, value))
        if offsets and offsets[-1] <= furthest.get(key, -1):
            text = f"{key}@{offsets[-1]}: value {value} of operation {writer.index} was passed over by every reader"
            witness = {"key": key, "value": value, "offset": offsets[-1], "writer": writer.index}
            yield Anomaly("lost-write", text, witness)


def unseen(versions: Versions) -> Iterator[Anomaly]:
    ends = {key: max(at) for key, at in versions.values_at.items()}
    for (key, value), writer in versions.writer.items():
        if writer.type != "ok" or (key, value) in versions.ok_readers:
            continue
        text = f"{key}: value {value}, acknowledged to operation {writer.index}, was never read"
        yield Anomaly("unseen", text, {"key": key, "value": value, "writer": writer.index, "end": ends.get(key)})


def positions_between_operations(versions: Versions) -> Iterator[Anomaly]:
    """Successive polls of one process continue where its last acknowledged operation stopped."""
    last_polled: dict[tuple[int, str], tuple[int, Operation]] = {}
    subscribed: set[int] = set()
    for operation in versions.operations:
        process = operation.process
        if operation.function in ("assign", "subscribe"):
            subscribed.add(process) if operation.function == "subscribe" else subscribed.discard(process)
            for gone in [k for k in last_polled if k[0] == process and k[1] not in operation.keys]:
                del last_polled[gone]
        for key in operation.rebalanced:
            last_polled.pop((process, key), None)
        for key, records in operation.polled().items():
            if not records:
                continue
            before = last_polled.get((process, key))
            if before is not None and key not in operation.rebalanced:
                yield from _step_between(versions, key, before, operation, records[0][0], process in subscribed)
            if operation.type == "ok":
                last_polled[process, key] = (records[-1][0], operation)


def _step_between(
    versions: Versions, key: str, before: tuple[int, Operation], operation: Operation, offset: int, is_subscribed: bool
) -> Iterator[Anomaly]:
    distance = versions.distance(key, before[0], offset)
    if distance == 1:
        return
    name = "poll-skip" if distance > 1 else "nonmonotonic-poll"
    text = (
        f"{key}: operation {operation.index} reads from {offset} after operation {before[1].index} ended at {before[0]}"
    )
    witness = {"key": key, "from": before[0], "to": offset, "operations": [before[1].index, operation.index]}
    yield Anomaly(name, text, witness, fails=not is_subscribed)


def positions_inside_operations(versions: Versions) -> Iterator[Anomaly]:
    for operation, key, records in versions.polls:
        if key in operation.rebalanced:
            continue
        for (before, _), (after, _) in pairwise(records):
            distance = versions.distance(key, before, after)
            if distance != 1:
                name = "int-poll-skip" if distance > 1 else "int-nonmonotonic-poll"
                text = f"{key}: operation {operation.index} reads {after} right after {before}"
                yield Anomaly(name, text, {"key": key, "from": before, "to": after, "operation": operation.index})


def send_order(versions: Versions) -> Iterator[Anomaly]:
    last_sent: dict[tuple[int, str], int] = {}
    for operation in versions.operations:
        inside: dict[str, int] = {}
        for send in operation.sends:
            if send.offset is None:
                continue
            before = inside.get(send.key)
            if before is not None:
                distance = versions.distance(send.key, before, send.offset)
                if distance < 1:
                    yield _send_anomaly("int-nonmonotonic-send", operation, send, before)
                elif distance > 1:
                    yield _send_anomaly("int-send-skip", operation, send, before, fails=False)
            elif operation.type != "fail":
                earlier = last_sent.get((operation.process, send.key))
                if earlier is not None and versions.distance(send.key, earlier, send.offset) < 1:
                    yield _send_anomaly("nonmonotonic-send", operation, send, earlier)
            inside[send.key] = send.offset
        if operation.type != "fail":
            last_sent.update({(operation.process, key): offset for key, offset in inside.items()})


def _send_anomaly(name: str, operation: Operation, send: Send, before: int, *, fails: bool = True) -> Anomaly:
    text = f"{send.key}: operation {operation.index} was given offset {send.offset} after {before}"
    witness = {"key": send.key, "from": before, "to": send.offset, "operation": operation.index}
    return Anomaly(name, text, witness, fails)


def dependency_cycles(versions: Versions) -> Iterator[Anomaly]:
    """wr: the writer of a value comes before who read it; no order of transactions allows a cycle of these."""
    wr: Graph[Any] = {}
    for (key, value), readers in versions.ok_readers.items():
        writer = versions.writer.get((key, value))
        for reader in readers:
            if writer is not None and writer is not reader:
                wr.setdefault(writer.index, set()).add(reader.index)
    yield from _cycles("G1c", wr)
    session = _with_edges(wr, _process_edges(versions.operations))
    yield from _cycles("G1c-process", session, unlike=wr)
    yield from _cycles("G1c-realtime", _with_edges(wr, _realtime_edges(versions.operations)), unlike=session)
    yield from _cycles("G0", _ww_edges(versions), fails=False)


def _ww_edges(versions: Versions) -> Graph[Any]:
    graph: Graph[Any] = {}
    for key, at in versions.values_at.items():
        before: Operation | None = None
        for offset in sorted(at):
            for value in at[offset]:
                writer = versions.writer.get((key, value))
                if before is not None and writer is not None and writer is not before:
                    graph.setdefault(before.index, set()).add(writer.index)
                before = writer or before
    return graph


def _process_edges(operations: list[Operation]) -> Graph[Any]:
    graph: Graph[Any] = {}
    last: dict[int, Operation] = {}
    for operation in operations:
        if operation.process in last:
            graph.setdefault(last[operation.process].index, set()).add(operation.index)
        last[operation.process] = operation
    return graph


def _realtime_edges(operations: list[Operation]) -> Graph[Any]:
    """Who ended before whom began, as a chain of moments: to a moment, from moment to moment, to an operation."""
    graph: Graph[Any] = {}
    ends = sorted((o.completed_ns, o.index) for o in operations if o.type != "info")
    begins = sorted((o.invoked_ns, o.index) for o in operations)
    position = 0
    for time, index in begins:
        while position < len(ends) and ends[position][0] < time:
            graph.setdefault(ends[position][1], set()).add(("moment", position))
            if position:
                graph.setdefault(("moment", position - 1), set()).add(("moment", position))
            position += 1
        if position:
            graph.setdefault(("moment", position - 1), set()).add(index)
    return graph


def _with_edges(left: Graph[Any], right: Graph[Any]) -> Graph[Any]:
    return {
        node: left.get(node, set()) | right.get(node, set()) for node in [*left, *(n for n in right if n not in left)]
    }


def _cycles(name: str, graph: Graph[Any], *, fails: bool = True, unlike: Graph[Any] | None = None) -> Iterator[Anomaly]:
    known = {node for component in components(unlike) for node in component} if unlike is not None else set()
    for component in components(graph):
        if known.intersection(component):
            continue  # shown already by a stronger name
        cycle = [node for node in shortest_cycle(graph, component) if not isinstance(node, tuple)]
        yield Anomaly(name, "operations " + " -> ".join(map(str, cycle)), {"cycle": cycle}, fails)


RULES: tuple[Callable[[Versions], Iterator[Anomaly]], ...] = (
    inconsistent_offsets,
    duplicates,
    phantoms,
    aborted_reads,
    intermediate_reads,
    precommitted_reads,
    lost_writes,
    unseen,
    positions_between_operations,
    positions_inside_operations,
    send_order,
    dependency_cycles,
)

__all__ = ["Anomaly", "Poll", "Report", "Versions", "check"]
