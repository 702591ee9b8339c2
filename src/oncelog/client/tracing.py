"""What a client tells about its work to who traces it (`tracing=`); `oncelog.opentelemetry` makes spans of it.

A client without it asks one question per long way of a record, per transaction and per poll with interceptors: none of the
short ways knows of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol, runtime_checkable

from oncelog.client.interceptors import ConsumerInterceptor
from oncelog.client.records import RecordMetadata


class SendTrace(Protocol):
    """One record on its way."""

    def ended(self, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        """It was acknowledged, or failed; without metadata it was refused before it was buffered."""
        ...


class TransactionTrace(Protocol):
    """One transaction of a producer."""

    def failed(self, error: BaseException) -> None:
        """A call that should have ended it raised; it may be ended yet."""
        ...

    def prepared(self) -> None:
        """It waits for an outside decision (KIP-939)."""
        ...

    def ended(self, outcome: str) -> None:
        """`committed`, `aborted`, `prepared` or `detached` (left so), or `unknown`: the producer ended first."""
        ...


@runtime_checkable
class Tracing(Protocol):
    """Nothing of it may raise or wait; it is called from the event loop, in the context of the application's call."""

    def begin_send(
        self, client_id: str, record: Sequence[Any], transaction: TransactionTrace | None
    ) -> tuple[Any, SendTrace]:
        """`record`: topic, value, key, headers, partition as `send` was given them. The headers to send instead."""
        ...

    def begin_transaction(self, client_id: str, transactional_id: str) -> TransactionTrace:
        """A transaction began."""
        ...

    def consumer(self, client_id: str, group_id: str | None) -> ConsumerInterceptor:
        """Who sees what a consumer hands out and commits, behind the application's own interceptors."""
        ...

    def dual_write(self, transactional_id: str) -> AbstractContextManager[Any]:
        """Entered around a DualWriter's transaction, from its begin to its decision."""
        ...
