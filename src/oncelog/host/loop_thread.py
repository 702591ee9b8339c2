"""The thread that the clients of `oncelog.sync` live in: an event loop in a daemon thread, one for the process (and another
one, by its name, for whom those clients wait for in their own thread: a schema registry).

A client belongs to the process that made it: after a fork the thread is not there, and a new one is made for new clients.
At interpreter exit (atexit: when no other thread runs any more but daemons) those that have something to send are waited
for, not for long; so nothing that was buffered is lost without a word.
"""

from __future__ import annotations

import asyncio
import atexit
import concurrent.futures
import contextlib
import contextvars
import logging
import os
import threading
import time
import weakref
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Generic, ParamSpec, Protocol, TypeVar

from oncelog.errors import IllegalState

log = logging.getLogger("oncelog.client")

P = ParamSpec("P")
T = TypeVar("T")

EXIT_TIMEOUT_S = 5.0
INTERRUPTED_TIMEOUT_S = 5.0
LAST_WORDS_TIMEOUT_MS = 5_000  # for what is buffered when the interpreter ends
LAST_WORDS_GRACE_S = 2.0  # for closing connections behind it
CLIENTS = "oncelog-sync"
BEFORE_A_FORK = "this client was made before a fork: make a new one in this process"


class LastWords(Protocol):
    """What is waited for at interpreter exit."""

    @property
    def has_last_words(self) -> bool:
        """Whether it was not ended before."""
        ...

    async def say_last_words(self, timeout_ms: int) -> None:
        """End, and say what could not be done; in the thread's loop. Raises nothing."""
        ...

    def was_heard(self) -> None:
        """Behind that, in the main thread: it may not have ended in time, or at all."""
        ...


class _End:
    """The end of something, which the loop tells and threads wait for.

    There is no Condition in it (no Future, no Event): an interrupt of a thread that has just taken one's lock may leave it
    taken, and the loop would wait for it for ever; or become a RuntimeError, "cannot release un-acquired lock".
    """

    def __init__(self) -> None:
        self.has_come, self._lock = False, threading.Lock()
        self._lock.acquire()

    def come(self) -> None:
        """It is over; once, in the loop's thread."""
        self.has_come = True
        self._lock.release()

    def wait(self, timeout_s: float = -1) -> bool:
        """Whether it has come within `timeout_s` (negative: until it has)."""
        if not self.has_come and self._lock.acquire(timeout=timeout_s):
            self._lock.release()  # where an interrupt keeps it taken, `has_come` is true: nobody takes it again
        return self.has_come


class Call(Generic[T]):
    """A coroutine function for another thread's loop. `wait` waits until it has really ended, then `result` is there.

    It is called in that loop: a coroutine that the waiting thread made would be awaited by nobody where an interrupt comes
    before it is handed over. (What `asyncio.run_coroutine_threadsafe` gives is cancelled at once, its coroutine some time
    later, or before it began.)
    """

    def __init__(self, function: Callable[[], Coroutine[Any, Any, T]], loop: asyncio.AbstractEventLoop) -> None:
        self._end = _End()
        self._function, self._loop = function, loop
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        """Begin it, in the loop's own time."""
        self._loop.call_soon_threadsafe(self._begin)

    def cancel(self) -> None:
        """Cancel it where it waits. What it does before its first wait is done in any case: that may be what ends something."""
        self._loop.call_soon_threadsafe(self._cancel)

    def wait(self, timeout_s: float = -1) -> None:
        """Until it has ended."""
        self._end.wait(timeout_s)

    def result(self) -> T:
        """What it gave, once it has ended. Raises what it raised."""
        assert self._task is not None
        if self._task.cancelled():
            raise concurrent.futures.CancelledError
        return self._task.result()

    def _begin(self) -> asyncio.Task[T]:
        if self._task is None:
            self._task = self._loop.create_task(_called(self._function))
            self._task.add_done_callback(self._ended)
        return self._task

    def _cancel(self) -> None:
        self._loop.call_soon(self._begin().cancel)  # behind its first step

    def _ended(self, task: asyncio.Task[T]) -> None:
        if not task.cancelled():
            task.exception()  # it is asked for, perhaps by nobody else: who waited was interrupted
        self._end.come()


class BegunCall:
    """A call that its caller does not wait for, or later, in any thread."""

    def __init__(self, when_ended: Callable[[BaseException | None], None]) -> None:
        self._when_ended = when_ended
        self._error: BaseException | None = None
        self._end = _End()

    @property
    def has_ended(self) -> bool:
        """Whether `error` says how."""
        return self._end.has_come

    def wait(self, timeout_s: float = -1) -> bool:
        """Whether it has ended within `timeout_s` (negative: until it has)."""
        return self._end.wait(timeout_s)

    def error(self) -> BaseException | None:
        """What it raised. Raises TimeoutError where it has not ended."""
        if not self._end.has_come:
            raise TimeoutError("it has not ended")
        return self._error

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Its task is over; `when_ended` is told, in the loop's thread."""
        self._error = concurrent.futures.CancelledError() if task.cancelled() else task.exception()
        self._end.come()
        self._when_ended(self._error)


async def _called(function: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """What it raises before it gives a coroutine (wrong arguments) is told like what that raises."""
    return await function()


class LoopThread:
    """An event loop in a daemon thread of this process."""

    def __init__(self, name: str = CLIENTS) -> None:
        self.process_id = os.getpid()
        self.is_here = True  # not in a child, once it is forked
        self.loop = asyncio.new_event_loop()
        self._is_over = False
        self._begun: set[BegunCall] = set()
        self._last_words: weakref.WeakSet[LastWords] = weakref.WeakSet()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        self.thread_id = self._thread.ident
        atexit.register(self.stop)

    def _run(self) -> None:
        asyncio.set_event_loop(self.loop)
        while not self._is_over:
            try:
                self.loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                # raised by an application's own code that is called here (a deserializer, a callback): asyncio ends its loop with
                # it, and nobody would answer any more. Who called hears of it.
                log.exception("code of the application tried to end the clients' thread, which goes on")

    def call(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run `function` there and wait. An interrupt of the waiting thread cancels it, and waits until it has ended."""
        self.check_thread()
        call = Call(partial(function, *args, **kwargs), self.loop)
        try:
            call.begin()
            call.wait()
        except (KeyboardInterrupt, SystemExit):
            call.cancel()
            call.wait(INTERRUPTED_TIMEOUT_S)
            raise
        return call.result()

    def begin(
        self, function: Callable[[], Coroutine[Any, Any, Any]], when_ended: Callable[[BaseException | None], None]
    ) -> BegunCall:
        """Run `function` there; nobody waits but the interpreter's exit, and that not for long."""
        begun = BegunCall(when_ended)
        try:
            self._begun.add(begun)
            self.loop.call_soon_threadsafe(self._begin, begun, function)
        except BaseException:  # an interrupt, too: nobody will end it
            self._begun.discard(begun)
            raise
        return begun

    def _begin(self, begun: BegunCall, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        def ended(task: asyncio.Task[Any]) -> None:
            self._begun.discard(begun)
            begun.ended(task)

        self.loop.create_task(_called(function)).add_done_callback(ended)

    def is_this_thread(self) -> bool:
        """Whether this is asked in the thread itself."""
        return threading.get_ident() == self.thread_id

    def check_thread(self) -> None:
        """Raise IllegalState in the thread itself."""
        if self.is_this_thread():
            raise IllegalState("a blocking call inside the clients' own thread (a callback?) would wait for itself")

    def hear_at_exit(self, one: LastWords) -> None:
        """`one` is asked for its last words when the interpreter ends, if it is still there."""
        self._last_words.add(one)

    def stop(self) -> None:
        """End the thread at interpreter exit; what has last words says them first, for a bounded time."""
        if os.getpid() == self.process_id and self._thread.is_alive():
            until_s = time.monotonic() + EXIT_TIMEOUT_S
            for each in tuple(self._begun):
                each.wait(max(0.0, until_s - time.monotonic()))
            self._hear_last_words()
            self.loop.call_soon_threadsafe(self._end)
            self._thread.join(timeout=EXIT_TIMEOUT_S)

    def _end(self) -> None:
        self._is_over = True
        self.loop.stop()

    def _hear_last_words(self) -> None:
        silent = [each for each in tuple(self._last_words) if each.has_last_words]
        if not silent:
            return

        async def all_of_them() -> None:
            await asyncio.gather(*(each.say_last_words(LAST_WORDS_TIMEOUT_MS) for each in silent))

        call = Call(all_of_them, self.loop)
        call.begin()
        try:
            call.wait(LAST_WORDS_TIMEOUT_MS / 1000 + LAST_WORDS_GRACE_S)
        except KeyboardInterrupt:
            log.warning("interrupted while the interpreter ended")
        for each in silent:
            each.was_heard()


_lock = threading.Lock()
_threads: dict[str, LoopThread] = {}


def loop_thread(name: str = CLIENTS) -> LoopThread:
    """This process's thread of that name."""
    with _lock:
        found = _threads.get(name)
        if found is None or found.process_id != os.getpid():
            found = _threads[name] = LoopThread(name)
        return found


def _after_fork() -> None:
    """The child has neither the threads nor, if another thread held it, a lock that anybody will release."""
    global _lock, _threads
    for each in _threads.values():
        each.is_here = False
    _lock, _threads = threading.Lock(), {}


os.register_at_fork(after_in_child=_after_fork)


def settle(ended: asyncio.Future[T], result: T | None, error: BaseException | None) -> None:
    """In the loop of `ended`: what another thread's call gave, or raised, unless nobody waits any more."""
    if ended.done():
        return
    if error is not None:
        ended.set_exception(error)
    else:
        ended.set_result(result)  # type: ignore[arg-type]


async def called_beside(function: Callable[[], T], *, name: str) -> T:
    """Call it in a thread of its own and wait: it may block, also for calls of the clients' thread, in whose loop this waits.

    A daemon, so that one that never ends does not keep the interpreter from ending. Raises what it raises. Who is cancelled
    meanwhile waits no more; it goes on.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[T] = loop.create_future()
    context = contextvars.copy_context()

    def tell(result: T | None, error: BaseException | None) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits
            loop.call_soon_threadsafe(settle, ended, result, error)

    def work() -> None:
        try:
            result = context.run(function)
        except BaseException as error:  # noqa: BLE001 - whatever it is, it is raised where the call is awaited
            if isinstance(error, Exception) and not isinstance(error, StopIteration):
                tell(None, error)
            else:  # no future takes the one, others would end the loop, and with it all clients
                told = RuntimeError(f"a callback raised {error!r}")
                told.__cause__ = error  # with its traceback, which a thread that dies of it would print beside
                tell(None, told)
        else:
            tell(result, None)

    threading.Thread(target=work, name=name, daemon=True).start()
    return await ended
