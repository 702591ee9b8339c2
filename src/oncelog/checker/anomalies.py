"""The anomalies: what a history may not show, each with a minimal witness (names and rules: docs/history.md).

`fails` says whether an anomaly makes the history invalid; the others are legal in Kafka's model and only recorded.
Rule: a poll may never return bad data, even inside a transaction that fails, so versions are taken from all polls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from oncelog.checker.dependencies import dependency_cycles
from oncelog.checker.findings import Anomaly
from oncelog.checker.history import Operation, Poll, Send
from oncelog.checker.versions import KeyPoll, Versions
from oncelog.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class Report:
    """What the checks found in `operation_count` operations."""

    operation_count: int
    anomalies: list[Anomaly]

    @property
    def is_valid(self) -> bool:
        return not any(anomaly.fails for anomaly in self.anomalies)


def check(operations: list[Operation]) -> Report:
    """All checks over a history."""
    versions = Versions(operations)
    found = [anomaly for rule in RULES for anomaly in rule(versions)]
    return Report(len(operations), found)


def inconsistent_offsets(versions: Versions) -> Iterator[Anomaly]:
    for key, at in versions.conflicts.items():
        for offset, values in at.items():
            text = f"{key}@{offset} held different values: {sorted(values)}"
            yield Anomaly("inconsistent-offsets", text, {"key": key, "offset": offset, "values": sorted(values)})


def duplicates(versions: Versions) -> Iterator[Anomaly]:
    for (key, value), offsets in versions.further_offsets.items():
        text = f"{key}: value {value} stands at offsets {offsets}"
        yield Anomaly("duplicate", text, {"key": key, "value": value, "offsets": offsets})


def phantoms(versions: Versions) -> Iterator[Anomaly]:
    for poll in versions.polls:
        writers = versions.writers.get(poll.key, {})
        if writers.keys() >= set(poll.values):
            continue
        for offset, value in zip(poll.offsets, poll.values, strict=True):
            if value not in writers:
                reader = poll.operation.index
                text = f"{poll.key}@{offset}: value {value} was read by operation {reader}, and nobody sent it"
                yield Anomaly("phantom", text, {"key": poll.key, "offset": offset, "value": value, "reader": reader})


def aborted_reads(versions: Versions) -> Iterator[Anomaly]:
    for key, writers in versions.writers.items():
        read = versions.ok_read.get(key, set())
        for value, writer in writers.items():
            if writer.type == "fail" and value in read:
                reader = versions.ok_reader(key, value).index
                text = f"{key}: value {value} of aborted operation {writer.index} was read by operation {reader}"
                yield Anomaly("G1a", text, {"key": key, "value": value, "writer": writer.index, "reader": reader})


def intermediate_reads(versions: Versions) -> Iterator[Anomaly]:
    """A reader that saw one value of a transaction and read past another of the same key without getting it."""
    for poll in versions.polls:
        reader, key = poll.operation, poll.key
        several = versions.several_sends.get(key)
        if several is None or reader.type != "ok" or key in reader.rebalanced:
            continue
        values = set(poll.values)
        first_offset, last_offset = min(poll.offsets), max(poll.offsets)
        for writer in _distinct(several[value] for value in several.keys() & values):
            if id(writer) not in versions.committed:
                continue
            for send in writer.sends:
                missed = send.key == key and send.value not in values
                if missed and any(first_offset < o < last_offset for o in versions.offsets_of(key, send.value)):
                    text = f"{key}: operation {reader.index} read part of operation {writer.index}, missed {send.value}"
                    witness = {"key": key, "value": send.value, "writer": writer.index, "reader": reader.index}
                    yield Anomaly("G1b", text, witness)


def _distinct(operations: Iterable[Operation]) -> list[Operation]:
    return list({id(o): o for o in operations}.values())


def precommitted_reads(versions: Versions) -> Iterator[Anomaly]:
    for poll in versions.polls:
        operation, key = poll.operation, poll.key
        own = [s.value for s in operation.sends if s.key == key and versions.writers[key][s.value] is operation]
        for value in own:
            if value in poll.values:
                text = f"{key}: operation {operation.index} read value {value}, its own before its commit"
                yield Anomaly("precommitted-read", text, {"key": key, "value": value, "operation": operation.index})


def lost_writes(versions: Versions) -> Iterator[Anomaly]:
    for key, writers in versions.writers.items():
        read, first_offset = versions.ok_read.get(key, set()), versions.first_offset.get(key, {})
        furthest = max(map(first_offset.__getitem__, read), default=-1)
        for value in writers.keys() - read:
            offsets = versions.offsets_of(key, value)
            writer = writers[value]
            if offsets and offsets[-1] <= furthest and id(writer) in versions.committed:
                text = f"{key}@{offsets[-1]}: value {value} of operation {writer.index} was passed over by every reader"
                witness = {"key": key, "value": value, "offset": offsets[-1], "writer": writer.index}
                yield Anomaly("lost-write", text, witness)


def unseen(versions: Versions) -> Iterator[Anomaly]:
    for key, writers in versions.writers.items():
        for value in writers.keys() - versions.ok_read.get(key, set()):
            writer = writers[value]
            if writer.type == "ok":
                text = f"{key}: value {value}, acknowledged to operation {writer.index}, was never read"
                end = max(versions.values_at.get(key, ()), default=None)
                yield Anomaly("unseen", text, {"key": key, "value": value, "writer": writer.index, "end": end})


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
    for poll in versions.polls:
        if poll.key in poll.operation.rebalanced or _is_next_to_each_other(versions, poll):
            continue
        for before, after in pairwise(poll.offsets):
            distance = versions.distance(poll.key, before, after)
            if distance != 1:
                name = "int-poll-skip" if distance > 1 else "int-nonmonotonic-poll"
                index = poll.operation.index
                text = f"{poll.key}: operation {index} reads {after} right after {before}"
                yield Anomaly(name, text, {"key": poll.key, "from": before, "to": after, "operation": index})


def _is_next_to_each_other(versions: Versions, poll: KeyPoll) -> bool:
    """Whether a poll delivered a run of known versions without a gap."""
    start = versions.rank[poll.key][poll.offsets[0]]
    return versions.sorted_offsets[poll.key][start : start + len(poll.offsets)] == list(poll.offsets)


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

__all__ = ["Anomaly", "Poll", "Report", "check"]
