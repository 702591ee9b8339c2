"""One call of a handler: what it publishes is collected here, and what it says of its message.

The handler, the tasks that it starts and the middlewares around it find their turn in a context variable. A turn ends with
the handler: what was collected is written with the position behind the message, or dropped if the handler failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from faststream.message import AckStatus

from oncelog.client.interceptors import ProducerRecord
from oncelog.client.processing.results import Collector
from oncelog.errors import IllegalState


class Turn:
    """From the call of a handler to its end. `home`: its broker's producer; others' take no part. `of`: its subscriber."""

    def __init__(self, home: object, of: object, collector: Collector) -> None:
        self.home, self.of = home, of
        self.verdict: AckStatus | None = None  # the first word counts, as FastStream's messages have it
        self.is_over = False
        self._collector = collector

    @property
    def records(self) -> Sequence[ProducerRecord]:
        """What is to be written, in order."""
        return self._collector.records

    def add(self, record: ProducerRecord) -> None:
        """Write this with the message's position. Raises InvalidArgument, TooMuch, IllegalState."""
        if self.is_over:
            raise IllegalState(
                "the handler that started this task has ended, and with it the transaction of what it publishes: await the "
                "task in the handler, or start it with `asyncio.create_task(..., context=contextvars.Context())`"
            )
        self._collector.take(record)

    def say(self, verdict: AckStatus) -> None:
        """What is to become of the message."""
        if self.verdict is None:
            self.verdict = verdict


_TURN: ContextVar[Turn | None] = ContextVar("oncelog_turn", default=None)


def current_turn() -> Turn | None:
    """The turn that this code runs in, or was started in."""
    return _TURN.get()


@contextmanager
def taking_turn(turn: Turn) -> Iterator[None]:
    """The turn is the current one inside, and over behind."""
    token = _TURN.set(turn)
    try:
        yield
    finally:
        turn.is_over = True
        _TURN.reset(token)
