"""Cycles between operations: strongly connected components, and a short cycle to show as the witness."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TypeVar

Node = TypeVar("Node", bound=Hashable)
Graph = dict[Node, set[Node]]


def components(graph: Graph[Node]) -> list[list[Node]]:
    """The strongly connected components of two nodes or more (Tarjan's algorithm, without recursion)."""
    number: dict[Node, int] = {}
    low: dict[Node, int] = {}
    on_path: set[Node] = set()
    path: list[Node] = []
    found: list[list[Node]] = []
    for root in graph:
        if root in number:
            continue
        number[root] = low[root] = len(number)
        path.append(root)
        on_path.add(root)
        work = [(root, iter(graph.get(root, ())))]
        while work:
            node, successors = work[-1]
            for successor in successors:
                if successor not in number:
                    number[successor] = low[successor] = len(number)
                    path.append(successor)
                    on_path.add(successor)
                    work.append((successor, iter(graph.get(successor, ()))))
                    break
                if successor in on_path:
                    low[node] = min(low[node], number[successor])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == number[node]:
                    component = _take(path, on_path, node)
                    if len(component) > 1:
                        found.append(component)
    return found


def _take(path: list[Node], on_path: set[Node], root: Node) -> list[Node]:
    component: list[Node] = []
    while True:
        node = path.pop()
        on_path.discard(node)
        component.append(node)
        if node == root:
            return component


def shortest_cycle(graph: Graph[Node], component: list[Node]) -> list[Node]:
    """The shortest cycle through the first node of a component that has one; the start stands at both ends."""
    members = set(component)
    start = component[0]
    came_from: dict[Node, Node] = {}
    waiting = deque([start])
    while waiting:
        node = waiting.popleft()
        for successor in graph.get(node, ()):
            if successor == start:
                return _walk_back(came_from, start, node)
            if successor in members and successor not in came_from:
                came_from[successor] = node
                waiting.append(successor)
    raise AssertionError("a strongly connected component has a cycle")


def _walk_back(came_from: dict[Node, Node], start: Node, node: Node) -> list[Node]:
    cycle = [start, node]
    while node != start:
        node = came_from[node]
        cycle.append(node)
    return cycle[::-1] if cycle[0] != cycle[1] else cycle
