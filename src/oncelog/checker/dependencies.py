"""Cycles of dependencies: no order of the transactions can explain them.

Almost every edge goes forward in time: who wrote what I read ended before I did. A cycle needs an edge that goes back, and lies
within the stretch of operations that its backward edges span (every gap between two of its operations is crossed back by one of
them). So edges are looked at once; graphs are built of the suspect stretches only, which in most histories are none.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, pairwise
from typing import Any

from oncelog.checker.cycles import Graph, components, shortest_cycle
from oncelog.checker.findings import Anomaly
from oncelog.checker.history import Operation
from oncelog.checker.versions import KeyPoll, Versions

Span = tuple[int, int]


def dependency_cycles(versions: Versions) -> Iterator[Anomaly]:
    """wr: the writer of a value comes before who read it; no order of transactions allows a cycle of these."""
    in_time = sorted(versions.operations, key=_moment)
    rank = {id(operation): position for position, operation in enumerate(in_time)}
    spans = [*_backward_reads(versions, rank), *_backward_processes(versions.operations, rank)]
    if any(o.completed_ns < o.invoked_ns for o in versions.operations):
        spans = [(0, len(in_time))]  # times that cannot be: nothing is known of the order
    polls: dict[int, list[KeyPoll]] = {}  # by operation: a reader that is quick makes thousands of small stretches
    for poll in versions.polls:
        polls.setdefault(id(poll.operation), []).append(poll)
    place = {id(operation): position for position, operation in enumerate(versions.operations)}
    for first, last in _merged(spans):
        suspects = sorted(in_time[first : last + 1], key=lambda operation: place[id(operation)])
        yield from _read_cycles(versions, suspects, polls)
    yield from _write_cycles(versions, in_time, rank)


def _moment(operation: Operation) -> int:
    """When it counts as done; an operation of unknown outcome may have had its effect from its beginning on."""
    return operation.invoked_ns if operation.type == "info" else operation.completed_ns


def _backward_reads(versions: Versions, rank: dict[int, int]) -> Iterator[Span]:
    ranks = {
        key: dict(zip(writers, [rank[id(o)] for o in writers.values()], strict=True))
        for key, writers in versions.writers.items()
    }
    for poll in versions.polls:
        if poll.operation.type != "ok":
            continue
        own = rank[id(poll.operation)]
        of_writers = ranks.get(poll.key, {})
        last = max(map(of_writers.get, poll.values, (-1,) * len(poll.values)))
        if last is not None and last >= own:
            latest = [r for value in poll.values if (r := of_writers.get(value, -1)) > own]
            yield from ((own, r) for r in latest)


def _backward_processes(operations: list[Operation], rank: dict[int, int]) -> Iterator[Span]:
    last: dict[int, int] = {}
    for operation in operations:
        own = rank[id(operation)]
        before = last.get(operation.process, -1)
        if before > own:
            yield own, before
        last[operation.process] = own


def _merged(spans: list[Span]) -> list[Span]:
    merged: list[Span] = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(last, merged[-1][1]))
        else:
            merged.append((first, last))
    return merged


def _read_cycles(versions: Versions, suspects: list[Operation], polls: dict[int, list[KeyPoll]]) -> Iterator[Anomaly]:
    members = {id(operation) for operation in suspects}
    wr: Graph[Any] = {}
    for operation in suspects:
        if operation.type != "ok":
            continue
        for poll in polls.get(id(operation), ()):
            for writer in _writers(versions, poll):
                if writer is not operation and id(writer) in members:
                    wr.setdefault(writer.index, set()).add(operation.index)
    yield from _cycles("G1c", wr)
    session = _with_edges(wr, _process_edges(suspects))
    yield from _cycles("G1c-process", session, unlike=wr)
    yield from _cycles("G1c-realtime", _with_edges(wr, _realtime_edges(suspects)), unlike=session)


def _writers(versions: Versions, poll: KeyPoll) -> Iterator[Operation]:
    writers = versions.writers.get(poll.key, {})
    return (writers[value] for value in poll.values if value in writers)


def _write_cycles(versions: Versions, in_time: list[Operation], rank: dict[int, int]) -> Iterator[Anomaly]:
    """ww: the next value of a key was written by somebody later. Writes are not isolated: recorded, no failure."""
    backward: list[Span] = []
    edges: list[Span] = []
    for key, at in versions.values_at.items():
        writers, conflicts = versions.writers.get(key, {}), versions.conflicts.get(key, {})
        values = chain.from_iterable(conflicts.get(o, (at[o],)) for o in versions.sorted_offsets[key])
        ranks = [rank[id(writers[value])] for value in values if value in writers]
        for before, after in pairwise(ranks):
            if before != after:
                edges.append((before, after))
                if before > after:
                    backward.append((after, before))
    if not backward:
        return
    suspect = bytearray(len(in_time))
    for first, last in _merged(backward):
        suspect[first : last + 1] = b"\1" * (last + 1 - first)
    ww: Graph[Any] = {}
    for before, after in edges:
        if suspect[before] and suspect[after]:
            ww.setdefault(in_time[before].index, set()).add(in_time[after].index)
    yield from _cycles("G0", ww, fails=False)


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
