"""Asking the leaders of many partitions: retried per partition, and, where wanted, without the ones that cannot be had.

One partition whose disk failed must not hide the others: who gives `unreadable` gets what can be read, and for each other
partition the last error. A leader that has just moved is found again first: three looks, the metadata fresh for each; one that
takes a connection and says nothing is asked once, as each more would cost the whole time that an answer may take.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import TypeVar

from oncelog.client.backoff import Deadline
from oncelog.client.cluster.cluster import Cluster
from oncelog.errors import KafkaError, RequestTimedOut
from oncelog.types import Node, TopicPartition
from oncelog.wire.schema import Struct

T = TypeVar("T")
Unreadable = MutableMapping[TopicPartition, KafkaError]
Ask = Callable[
    [Node, list[TopicPartition]], Awaitable[tuple[dict[TopicPartition, T], dict[TopicPartition, KafkaError]]]
]
LOOKS = 3


async def ask_leaders(
    cluster: Cluster,
    what: str,
    partitions: Iterable[TopicPartition],
    ask: Ask[T],
    *,
    unreadable: Unreadable | None = None,
    timeout_ms: int | None = None,
    broker_id: int | None = None,
    looks: int = LOOKS,
    request: type[Struct] | None = None,
) -> dict[TopicPartition, T]:
    """What `ask` finds at each leader. Raises the first error, those that no retry helps first; with `unreadable` an
    error of a partition goes there instead after so many `looks`, and nothing is raised. `broker_id`: this replica is asked
    instead. `request`: what is asked, for which rights may be missing."""
    wanted = list(partitions)
    found: dict[TopicPartition, T] = {}
    last: dict[TopicPartition, KafkaError] = {}
    silent: dict[Node, KafkaError] = {}
    asked_of: dict[TopicPartition, Node] = {}
    look_count = 0

    async def attempt(_: Deadline) -> None:
        nonlocal look_count
        look_count += 1
        last.clear()
        left = [tp for tp in wanted if tp not in found and tp not in (unreadable or ())]
        if broker_id is not None:
            by_node = {cluster.node(broker_id): left}
        else:
            by_node = await _by_leader(cluster, left, last, request)
        asked_of.update({tp: node for node, tps in by_node.items() for tp in tps})
        for node in by_node.keys() & silent.keys():
            last.update(dict.fromkeys(by_node.pop(node), silent[node]))
        asked = await asyncio.gather(*(_ask_one(node, tps, ask, found, last) for node, tps in by_node.items()))
        if unreadable is not None:
            silent.update({node: error for node, error in zip(by_node, asked, strict=True) if error is not None})
        if last:
            cluster.refresh_soon({tp.topic for tp in last})
            if unreadable is not None:
                unreadable.update({tp: e for tp, e in last.items() if look_count >= looks or not e.retriable})
            errors = [error for tp, error in last.items() if unreadable is None or tp not in unreadable]
            if errors:
                raise next((error for error in errors if not error.retriable), errors[0])

    if wanted:
        try:
            await cluster.retry(what, attempt, timeout_ms=timeout_ms)
        except RequestTimedOut as error:
            if unreadable is None:
                raise
            left = [tp for tp in wanted if tp not in found and tp not in unreadable]
            unreadable.update({tp: last.get(tp) or _unanswered(asked_of.get(tp), error) for tp in left})
    return found


async def _ask_one(
    node: Node,
    partitions: list[TopicPartition],
    ask: Ask[T],
    found: dict[TopicPartition, T],
    last: dict[TopicPartition, KafkaError],
) -> RequestTimedOut | None:
    """Each answer is noted as it comes: a broker that does not answer holds up nobody else's. Gives the error of one that said
    nothing for as long as an answer may take."""
    try:
        answer, errors = await ask(node, partitions)
    except RequestTimedOut as error:
        named = _unanswered(node, error)
        last.update(dict.fromkeys(partitions, named))
        return named
    except KafkaError as error:
        last.update(dict.fromkeys(partitions, error))
    else:
        found.update(answer)
        last.update(errors)
    return None


def _unanswered(node: Node | None, error: RequestTimedOut) -> RequestTimedOut:
    if node is None:
        return error
    named = RequestTimedOut(f"broker {node.node_id} does not answer: {error.message}")
    named.__cause__ = error
    return named


async def by_leader(
    cluster: Cluster, partitions: Iterable[TopicPartition], request: type[Struct]
) -> dict[Node, list[TopicPartition]]:
    """Partitions by the broker that leads them. Raises retriable errors where one has no leader."""
    found: dict[Node, list[TopicPartition]] = {}
    for topic_partition in partitions:
        found.setdefault(await cluster.leader(topic_partition, request), []).append(topic_partition)
    return found


async def _by_leader(
    cluster: Cluster,
    partitions: list[TopicPartition],
    errors: dict[TopicPartition, KafkaError],
    request: type[Struct] | None,
) -> dict[Node, list[TopicPartition]]:
    unknown = {tp.topic for tp in partitions if cluster.view.leader_of(tp) is None}
    if unknown:  # all in one question: each partition for itself would ask again
        await cluster.refresh(unknown)
    found: dict[Node, list[TopicPartition]] = {}
    for topic_partition in partitions:
        try:
            found.setdefault(cluster.known_leader(topic_partition, request), []).append(topic_partition)
        except KafkaError as error:
            errors[topic_partition] = error
    return found
