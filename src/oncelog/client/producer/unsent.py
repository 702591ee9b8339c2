"""What is said of a producer that ends with records on hand, because nobody stopped it: one line, with their number.

Its event loop may have ended (`asyncio.run` did), it may be collected as garbage, or the interpreter ends. The clients of
`oncelog.sync` are stopped at the interpreter's exit before this one looks (their thread begins later, so it ends first).
"""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import Protocol

from oncelog.core.producer.accumulator import RecordAccumulator
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager
from oncelog.core.producer.unheard import UnheardFailures

log = logging.getLogger("oncelog.client")

TOPICS_NAMED_MAX = 5
OPEN = (TransactionState.IN_TRANSACTION, TransactionState.ABORTABLE_ERROR, TransactionState.ABORTING_TRANSACTION)


class Unstopped(Protocol):
    """A producer that was started."""

    def say_unsent(self, why: str) -> None:
        """One line, if there is anything to say."""
        ...


_started: weakref.WeakSet[Unstopped] = weakref.WeakSet()


class Unsent:
    """What one producer has on hand."""

    def __init__(
        self, client_id: str, manager: TransactionManager, accumulator: RecordAccumulator, unheard: UnheardFailures
    ) -> None:
        self._client_id, self._manager, self._accumulator, self._unheard = client_id, manager, accumulator, unheard
        self._is_said = False

    def begin(self, producer: Unstopped) -> None:
        """It was started: somebody has to stop it."""
        _started.add(producer)

    def end(self, producer: Unstopped) -> None:
        """It was stopped."""
        _started.discard(producer)

    def take(self) -> str:
        """What is on hand, for the end of a line; "" where nothing is. Whoever asks tells it: failures that follow are
        not told one by one."""
        batches = self._accumulator.incomplete()
        said = ""
        if batches:
            topics = sorted({batch.topic_partition.topic for batch in batches})
            names = ", ".join(topics[:TOPICS_NAMED_MAX]) + (" ..." if len(topics) > TOPICS_NAMED_MAX else "")
            said = f": {sum(batch.record_count for batch in batches)} records for {names} were not acknowledged"
            self._unheard.be_quiet()
        if self._manager.state in OPEN:
            config = self._manager.config
            until = f"the broker aborts it, transaction_timeout_ms={config.transaction_timeout_ms} after its begin"
            if config.two_phase_commit_enable:
                until = "the next start with this id, or an operator (`oncelog transactions`), ends it"
            said += f"{';' if said else ':'} the transaction of {config.transactional_id!r} is open until {until}"
        return said

    def say(self, why: str) -> None:
        """One line, where there is something on hand."""
        said = "" if self._is_said else self.take()
        if said:
            self._is_said = True
            hint = "use `async with` (or `with`), or call stop()"
            log.warning("producer %r was not stopped, and %s%s; %s", self._client_id, why, said, hint)


def _say_all() -> None:
    for producer in tuple(_started):
        producer.say_unsent("the interpreter ended")


atexit.register(_say_all)


def waits_for(accumulator: RecordAccumulator, manager: TransactionManager) -> str:
    """What the end of a transaction is waiting for, for the text of a timeout."""
    batches = list(accumulator.incomplete())
    if not batches:
        return manager.describe_waiting()
    partitions = sorted({str(batch.topic_partition) for batch in batches})
    error = next((batch.last_error for batch in batches if batch.last_error is not None), None)
    because = "" if error is None else f"; last error: {error}"
    return f"{len(batches)} batches for {', '.join(partitions[:TOPICS_NAMED_MAX])}{because}"
