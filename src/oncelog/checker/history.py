"""The history format: JSON lines of what a workload's processes did, and when (docs/history.md).

An operation is an invocation and its completion: `ok` (the commit was acknowledged), `fail` (certainly without effect)
An operation is an invocation and its completion: `ok` (the commit was acknowledged), `fail` (certainly no effect)
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import Any

from oncelog.lazy_dataclass import dataclass

TYPES = ("invoke", "ok", "fail", "info")
FUNCTIONS = ("txn", "assign", "subscribe", "crash")


class UnreadableHistory(ValueError):
    """A line that does not follow the format; the message names the line."""


@dataclass(frozen=True, slots=True)
class Send:
    """A record sent: `offset` is None where no acknowledgement told it."""

    key: str
    offset: int | None
    value: int


@dataclass(frozen=True, slots=True)
class Poll:
    """Records delivered by one poll: per key (offset, value) in the order of delivery."""

    records: dict[str, list[tuple[int, int]]]


@dataclass(slots=True)
class Operation:
    """One completed operation of a process; `keys` is the new assignment of an assign or subscribe."""

    index: int
    process: int
    type: str
    function: str
    invoked_ns: int
    completed_ns: int
    steps: list[Send | Poll] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)
    rebalanced: set[str] = field(default_factory=set)
    _sends: list[Send] | None = field(default=None, repr=False, compare=False)

    @property
    def sends(self) -> list[Send]:
        """The records it sent; `steps` no longer changes when this is asked for."""
        if self._sends is None:
            self._sends = [step for step in self.steps if isinstance(step, Send)]
        return self._sends

    def polled(self) -> dict[str, list[tuple[int, int]]]:
        """Everything the operation polled, per key, in order."""
        together: dict[str, list[tuple[int, int]]] = {}
        for step in self.steps:
            if isinstance(step, Poll):
                for key, records in step.records.items():
                    together.setdefault(key, []).extend(records)
        return together


def read_history(lines: Iterable[str]) -> list[Operation]:
    """The operations of a history in the order of their completion. Raises UnreadableHistory."""
    operations: list[Operation] = []
    open_invocations: dict[int, tuple[int, dict[str, Any]]] = {}
    for number, event in _events(lines):
        process = event["process"]
        if event["type"] == "invoke":
            if process in open_invocations:
                raise UnreadableHistory(f"line {number}: process {process} invokes before its last operation ended")
            open_invocations[process] = (number, event)
            continue
        _, invocation = open_invocations.pop(process, (number, event))
        operations.append(_operation(number, invocation, event))
    for number, invocation in open_invocations.values():
        operations.append(_operation(number, invocation, {**invocation, "type": "info"}, never_ended=True))
    return operations


def _events(lines: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            event = json.loads(line)
        except (ValueError, RecursionError) as error:  # RecursionError: brackets in brackets, a thousand deep
            raise UnreadableHistory(f"line {number}: not JSON: {error}") from error
        if not isinstance(event, dict) or not isinstance(event.get("process"), int):
            raise UnreadableHistory(f"line {number}: an event is an object with an integer 'process'")
        if event.get("type") not in TYPES or event.get("f") not in FUNCTIONS:
            raise UnreadableHistory(f"line {number}: 'type' is one of {TYPES} and 'f' one of {FUNCTIONS}")
        yield number, event


def _operation(
    number: int, invocation: dict[str, Any], event: dict[str, Any], *, never_ended: bool = False
) -> Operation:
    try:
        invoked = int(invocation.get("time", 0))
        completed = 2**63 - 1 if never_ended else int(event.get("time", invoked))
        operation = Operation(
            int(event.get("index", number - 1)), event["process"], event["type"], event["f"], invoked, completed
        )
        value = event.get("value")
        if value is None:
            value = invocation.get("value") or []
        if event["f"] == "txn":
            operation.steps = [_step(step) for step in value]
        elif event["f"] in ("assign", "subscribe"):
            operation.keys = [str(key) for key in value]
        operation.rebalanced = {str(key) for change in event.get("rebalance", []) for key in _changed_keys(change)}
    except (TypeError, ValueError, KeyError, IndexError, AttributeError) as error:
        raise UnreadableHistory(f"line {number}: {error}") from error
    return operation


def _changed_keys(change: Any) -> list[Any]:
    if isinstance(change, dict):
        return list(change.get("keys", []))
    return list(change) if isinstance(change, list) else [change]


def _step(step: list[Any]) -> Send | Poll:
    kind = step[0]
    if kind == "send":
        key, (offset, value) = step[1], step[2] if isinstance(step[2], list) else (None, step[2])
        return Send(str(key), None if offset is None else int(offset), int(value))
    if kind == "poll":
        records = step[1] if len(step) > 1 and step[1] is not None else {}
        return Poll({str(key): [(int(o), int(v)) for o, v in pairs] for key, pairs in records.items()})
    raise ValueError(f"a step is a send or a poll, not {kind!r}")
