"""What the asyncio writer needs of its event loop: turns, pauses, and a completion that runs behind its caller.

`sync_runtime.py` is its twin for threads. All that differs between the two writers is in these two files and in the table
of `tools/sync_recipes.py`, which writes `sync.py` from `dual_writer.py`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from typing import Any

from oncelog.client.producer.producer import Producer
from oncelog.errors import IllegalState
from oncelog.host.host import Host
from oncelog.host.tasks import Tasks
from oncelog.recipes.database import check_database
from oncelog.types import PreparedTxnState

# A completion that `stop` leaves to the next start is cancelled; another task that waits for it goes on with its recovery.
LEFT: tuple[type[BaseException], ...] = (asyncio.CancelledError,)


class Completion:
    """The topic's completion of a transaction whose block has ended."""

    def __init__(self, task: asyncio.Task[None]) -> None:
        self._task = task

    async def wait(self, timeout_ms: int | None = None) -> bool:
        """Whether it ends within `timeout_ms`. An interrupt ends the waiting only."""
        done, _ = await asyncio.wait((self._task,), timeout=None if timeout_ms is None else timeout_ms / 1000)
        return bool(done)

    def error(self) -> BaseException | None:
        """What it raised; to be asked when it has ended."""
        return asyncio.CancelledError() if self._task.cancelled() else self._task.exception()


class AsyncRuntime:
    """Of one writer. `host`: the doors to the outside (tests)."""

    def __init__(self, host: Host | None = None) -> None:
        self._host = host
        self._lock = asyncio.Lock()
        self._owner: asyncio.Task[Any] | None = None
        self._tasks = Tasks()
        self._ends = Tasks()  # of what is not cancelled with its caller
        self._ending: tuple[Callable[[], Any], asyncio.Task[None]] | None = None
        self._is_soon = False
        self._process_id = os.getpid()

    def is_of_another_process(self) -> bool:
        """Whether this is a forked child: sockets, locks and transactions are its parent's."""
        return os.getpid() != self._process_id

    def check_database(self, database: Any) -> None:
        """Raise InvalidArgument for what is no adapter, or a blocking one."""
        check_database(database, is_async=True)

    def new_producer(self, config: Mapping[str, Any]) -> Producer:
        """Not started yet."""
        return Producer(host=self._host, **config)

    @asynccontextmanager
    async def one_at_a_time(self) -> AsyncIterator[None]:
        """A recovery, or a transaction with its block. Raises IllegalState inside another one of this task."""
        me = asyncio.current_task()
        if self._owner is not None and self._owner is me:
            raise IllegalState("a transaction of this writer is open in this task")
        async with self._lock:
            self._owner = me
            try:
                yield
            finally:
                self._owner = None

    def stopping(self) -> AbstractAsyncContextManager[None]:
        """`stop` waits for nobody: it gives up an open transaction, which may be its own task's."""
        return nullcontext()

    def is_another_at_work(self) -> bool:
        """Whether another task is in its turn, which `stop` does not wait for."""
        return self._owner is not None and self._owner is not asyncio.current_task()

    def soon(self, work: Callable[[], None]) -> None:
        """Call it once the caller pauses: records that were sent without a pause in between leave together."""
        if not self._is_soon:
            self._is_soon = True
            loop = asyncio.get_running_loop()
            loop.call_soon(loop.call_soon, self._now, work)

    def _now(self, work: Callable[[], None]) -> None:
        self._is_soon = False
        work()

    def now_s(self) -> float:
        """Of the event loop's clock."""
        return asyncio.get_running_loop().time()

    async def pause(self, pause_ms: int) -> None:
        """Let time pass."""
        await asyncio.sleep(pause_ms / 1000)

    async def to_its_end(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait for it; where that is interrupted it goes on, and who comes with the same again waits for it: it is done once."""
        if self._ending is None or self._ending[0] != work:
            self._ending = work, self._ends.start(work(), name="oncelog-rollback")
        task = self._ending[1]
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            if task.cancelled():
                self._ending = None
            raise  # else it goes on, or has ended at the same moment, and nobody was told
        except BaseException:
            self._ending = None
            raise
        self._ending = None

    async def all_at_their_end(self) -> None:
        """Wait for what goes on without its caller."""
        await self._ends.finished()

    def begin_completing(
        self, producer: Producer, state: PreparedTxnState, when_ended: Callable[[BaseException | None], None]
    ) -> Completion:
        """Complete without waiting for it; `when_ended` is called with what it raised."""
        task = self._tasks.start(producer.complete_transaction(state), name="oncelog-completion")
        completion = Completion(task)
        task.add_done_callback(lambda _: when_ended(completion.error()))
        return completion

    @asynccontextmanager
    async def at_most(self, timeout_ms: int) -> AsyncIterator[int | None]:
        """Raises TimeoutError when the block takes longer; gives the timeout for what it waits for (None: needs none)."""
        async with asyncio.timeout(timeout_ms / 1000):
            yield None

    async def leave_completion(self) -> None:
        """Nobody waits for it any longer: it is cancelled, and has ended."""
        self._tasks.cancel()
        await self._tasks.finished()
