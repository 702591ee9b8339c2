"""A consumer that leaves its group by `stop` or `unsubscribe` tells its listener first (as Java: onLeavePrepare).

What the listener commits then is what the member had: `unsubscribe` does not wait, and has taken the partitions away before an
async listener comes to run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar

from oncelog.lazy_dataclass import dataclass
from oncelog.types import GroupMetadata, OffsetAndMetadata, TopicPartition


@dataclass(frozen=True, slots=True, eq=False)
class Farewell:
    """What a consumer had when it left. Without the record that `async for` handed out last: it may not be done with."""

    consumer: object
    positions: Mapping[TopicPartition, OffsetAndMetadata]
    group: GroupMetadata


_NOW: ContextVar[Farewell | None] = ContextVar("the farewell whose listener runs in this context", default=None)
_LISTENED_TO: ContextVar[object] = ContextVar("the consumer whose listener runs in this context", default=None)


def farewell_of(consumer: object) -> Farewell | None:
    """The farewell of this consumer whose listener asks."""
    found = _NOW.get()
    return found if found is not None and found.consumer is consumer else None


def begin(farewell: Farewell) -> None:
    """In the task that ends with the farewell's listener."""
    _NOW.set(farewell)


def end() -> None:
    """The listener has ended; what it began may go on."""
    _NOW.set(None)


def is_listener_of(consumer: object) -> bool:
    """Whether a listener of this consumer asks: one that leaves knows it."""
    return _LISTENED_TO.get() is consumer


class Listening:
    """Around a listener."""

    def __init__(self, consumer: object) -> None:
        self._consumer = consumer

    def __enter__(self) -> None:
        self._token = _LISTENED_TO.set(self._consumer)

    def __exit__(self, *_: object) -> None:
        _LISTENED_TO.reset(self._token)
