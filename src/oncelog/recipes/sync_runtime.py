"""What the blocking writer needs of its threads: turns, pauses, and a completion that runs behind its caller.

The twin of `async_runtime.py`, call for call; `sync.py`, which uses it, is generated.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from oncelog.client.producer.producer import Producer as AsyncProducer
from oncelog.errors import IllegalState
from oncelog.recipes.database import check_database
from oncelog.sync import Begun, Producer
from oncelog.types import PreparedTxnState

LEFT: tuple[type[BaseException], ...] = ()  # nobody stops while another waits: a cancelled completion is an error
Completion = Begun
SENDS = ("send", "send_many", "send_arrow")

P = ParamSpec("P")
T = TypeVar("T")


class EagerProducer(Producer):
    """Its records leave with the call that sends them, in the clients' thread, before that wakes its caller.

    (What is put into an open batch without that thread leaves with the rest of its batch: one that stays open behind a call
    waits for what is on its way.)
    """

    def _call(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        if function.__name__ in SENDS:
            function = _and_leaves(self._client, function)
        return super()._call(function, *args, **kwargs)


def _and_leaves(
    client: AsyncProducer, send: Callable[P, Coroutine[Any, Any, T]]
) -> Callable[P, Coroutine[Any, Any, T]]:
    @wraps(send)
    async def sent(*args: P.args, **kwargs: P.kwargs) -> T:
        result = await send(*args, **kwargs)
        client.send_soon()
        return result

    return sent


class SyncRuntime:
    """Of one writer."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # within one thread the machine refuses a second transaction
        self._process_id = os.getpid()

    def is_of_another_process(self) -> bool:
        """Whether this is a forked child: sockets, locks and transactions are its parent's."""
        return os.getpid() != self._process_id

    def check_database(self, database: Any) -> None:
        """Raise InvalidArgument for what is no adapter, or an asynchronous one."""
        check_database(database, is_async=False)

    def new_producer(self, config: Mapping[str, Any]) -> Producer:
        """Not started yet."""
        return Producer(**config) if "linger_ms" in config else EagerProducer(**config)

    def one_at_a_time(self) -> AbstractContextManager[object]:
        """A recovery, or a transaction with its block."""
        return self._lock

    def stopping(self) -> AbstractContextManager[object]:
        """`stop` waits for the transaction of another thread, and gives up one of its own."""
        return self._lock

    def is_another_at_work(self) -> bool:
        """Never: `stop` has waited for it."""
        return False

    def soon(self, work: Callable[[], None]) -> None:
        """Nothing: what is sent has left with its call."""

    def now_s(self) -> float:
        """Of a clock that never goes back."""
        return time.monotonic()

    def pause(self, pause_ms: int) -> None:
        """Let time pass."""
        threading.Event().wait(pause_ms / 1000)

    def to_its_end(self, work: Callable[[], None]) -> None:
        """Call it."""
        work()

    def all_at_their_end(self) -> None:
        """Nothing goes on without its caller."""

    def begin_completing(
        self, producer: Producer, state: PreparedTxnState, when_ended: Callable[[BaseException | None], None]
    ) -> Completion:
        """Complete without waiting for it; `when_ended` is called with what it raised, in the clients' thread."""
        return producer.begin_completing(state, when_ended)

    @contextmanager
    def at_most(self, timeout_ms: int) -> Iterator[int | None]:
        """Gives the timeout for what the block waits for. In a forked child a completion is the parent's: not waited for."""
        with suppress(IllegalState):
            yield timeout_ms

    def leave_completion(self) -> None:
        """Nobody waits for it any longer; it ends in the clients' thread, with the producer."""
