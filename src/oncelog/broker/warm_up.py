"""What the first clients will need, made ready while nobody asks.

A start loads what a broker needs to listen; handlers are imported, and the code of messages is written, with the first request
that has them: 25 ms of a producer's first transaction. A process that serves makes it ready as soon as it listens, in the order
in which a producer asks: the shortest possible step between two looks at the sockets, and none while somebody is being
answered. Who is quicker waits for one step at most, and needs it anyway; what is there already costs nothing.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from functools import partial

from oncelog.broker.handlers import handler_for, version_max
from oncelog.broker.metrics.error_counts import errors_of
from oncelog.broker.node import Node
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.wire.api import APIS, ApiKey
from oncelog.wire.schema import decoder, encoder
from oncelog.wire.wire_types import Sized, Struct

# What is asked until a first transaction is committed, and in which version by librdkafka 2. Apache Kafka's clients and ours
# ask in the newest one.
ASKED = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.METADATA: 13,
    ApiKey.CREATE_TOPICS: 4,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.INIT_PRODUCER_ID: 4,
    ApiKey.ADD_PARTITIONS_TO_TXN: 0,
    ApiKey.PRODUCE: 10,
    ApiKey.END_TXN: 1,
}
QUIET_S = 0.005  # a client on this machine asks its next question sooner, and on two cores its threads need the other one, too
QUIET_GROWTH = 1.1  # each time: a broker that is asked all the time has soon made everything ready with its requests


def warm_up(loop: AbstractEventLoop, node: Node) -> None:
    """Begin; it goes on in the loop by itself."""
    rest, seen, quiet_s = steps(node.metadata), node.metrics.answered_count(), QUIET_S

    def go_on() -> None:
        nonlocal seen, quiet_s
        answered = node.metrics.answered_count()
        if answered != seen:
            seen = answered
            loop.call_later(quiet_s, go_on)
            quiet_s *= QUIET_GROWTH
        elif (step := next(rest, None)) is not None:
            step()
            loop.call_soon(go_on)  # behind what the sockets have

    loop.call_soon(go_on)


def steps(metadata: ClusterMetadata) -> Iterator[Callable[[], object]]:
    """In the order in which they will be needed."""
    for key, version in ASKED.items():
        api = APIS[key]
        yield partial(decoder, api.request, version)
        yield partial(handler_for, key)
        yield partial(_write_inits, api.response)
        yield partial(errors_of, api.response)
        yield partial(encoder, api.response, version)
    for key in ASKED:
        api, version = APIS[key], version_max(metadata, key)
        yield partial(decoder, api.request, version)
        yield partial(encoder, api.response, version)


def _write_inits(cls: type[Struct]) -> None:
    """What makes a response's objects: each class gets its own with its first one."""
    cls()
    for field in cls.FIELDS:
        inner = field.wire.item if isinstance(field.wire, Sized) else field.wire
        if isinstance(inner, type):
            _write_inits(inner)
