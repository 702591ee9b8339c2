"""A producer's side of `tracing=`: which transaction is under way, and what became of it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from oncelog.client.config import ProducerConfig
from oncelog.client.delivery import Delivery
from oncelog.client.tracing import SendTrace, Tracing, TransactionTrace
from oncelog.core.producer.states import TransactionState

_OUTCOMES = {
    TransactionState.COMMITTING_TRANSACTION: "committed",
    TransactionState.ABORTING_TRANSACTION: "aborted",
}


class ProducerTracing:
    """Does nothing where nobody traces."""

    def __init__(self, config: ProducerConfig) -> None:
        self._tracing: Tracing | None = config.tracing
        self._client_id, self._transactional_id = config.client_id, config.transactional_id
        self._transaction: TransactionTrace | None = None
        self._outcome = self._left_as = "unknown"

    @property
    def is_on(self) -> bool:
        """Whether somebody traces."""
        return self._tracing is not None

    def begin_send(self, *record: Any) -> tuple[Any, SendTrace]:
        """The headers to send, and who is told of the end."""
        assert self._tracing is not None
        return self._tracing.begin_send(self._client_id, record, self._transaction)

    def follow(self, trace: SendTrace, delivery: Delivery) -> None:
        """Tell of its end."""
        delivery.look_on(lambda done: trace.ended(*done.seen()))

    def began(self) -> None:
        """A transaction began."""
        self.end()
        if self._tracing is not None and self._transactional_id is not None:
            self._transaction = self._tracing.begin_transaction(self._client_id, self._transactional_id)

    def prepared(self) -> None:
        """It waits for a decision."""
        self._left_as = "prepared"
        if self._transaction is not None:
            self._transaction.prepared()

    @contextmanager
    def ending(self, state: TransactionState) -> Iterator[None]:
        """Around the wait for its end; `state` says which one. It may be waited for again."""
        self._outcome = _OUTCOMES.get(state, self._outcome)
        try:
            yield
        except BaseException as error:
            if self._transaction is not None:
                self._transaction.failed(error)
            raise
        self.end(self._outcome)

    def end(self, outcome: str | None = None) -> None:
        """It ended, as far as this producer knows."""
        transaction, self._transaction = self._transaction, None
        if transaction is not None:
            transaction.ended(outcome or self._left_as)
        self._outcome = self._left_as = "unknown"
