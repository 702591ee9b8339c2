"""Questions that any broker can answer: who keeps silent is not waited for alone.

A broker whose process stands still, or whose network swallows everything, refuses nothing: a client that has asked it would
wait for the whole time that connecting or a request may take, beside brokers that know the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from oncelog.errors import IllegalState, KafkaError, RequestTimedOut
from oncelog.types import Node

T = TypeVar("T")
Address = tuple[str, int]
SILENCE_MS = 1_000
SILENT_FOR_MS = 10_000
SILENCES_OF_A_TIMEOUT = 8


class Anybody:
    """Asks one broker, after `SILENCE_MS` of silence the next one as well; the first answer counts.

    Where all of it may take little time, `timeout_ms`, after a share of that. Only for what may be asked twice. `pick` gives the
    best broker that is not among those that were asked already (None: no more); `start` runs a task that is cancelled where the
    client is closed.
    """

    def __init__(
        self,
        pick: Callable[[Sequence[Node]], Node | None],
        start: Callable[[Coroutine[Any, Any, Any]], asyncio.Task[Any]],
        *,
        timeout_ms: float,
    ) -> None:
        self._pick, self._start = pick, start
        # Who has little time must come to the others within it.
        self._silence_s = min(SILENCE_MS, timeout_ms / SILENCES_OF_A_TIMEOUT) / 1000
        self._silent_until: dict[Address, float] = {}  # loop time in seconds; as many as there are brokers
        self._given_up: dict[Address, RequestTimedOut] | None = None  # within `waited_for_once`

    def is_silent(self, node: Node) -> bool:
        """Whether it has not answered lately, so that others are asked first."""
        return self._silent_until.get((node.host, node.port), 0.0) > asyncio.get_running_loop().time()

    @contextmanager
    def waited_for_once(self) -> Iterator[None]:
        """Around several questions: a broker whose connection is not ready in time is waited for by the first, and not again."""
        if self._given_up is not None:
            yield
            return
        self._given_up = {}
        try:
            yield
        finally:
            self._given_up = None

    def check_not_given_up(self, node: Node) -> None:
        """Raise RequestTimedOut where it was waited for already, and once is enough."""
        if self._given_up and (error := self._given_up.get((node.host, node.port))) is not None:
            raise RequestTimedOut(error.message)

    def has_given_up(self, error: KafkaError) -> bool:
        """Whether it is of a broker that was waited for already, and once is enough: to try again would wait again."""
        return self._given_up is not None and error.message in {each.message for each in self._given_up.values()}

    def was_silent(self, node: Node, error: RequestTimedOut | None = None) -> None:
        """Others are asked first for a while. `error`: it did not even say who it is."""
        if self._given_up is not None and error is not None:
            self._given_up[node.host, node.port] = error
        now = asyncio.get_running_loop().time()
        self._silent_until = {address: until for address, until in self._silent_until.items() if until > now}
        self._silent_until[node.host, node.port] = now + SILENT_FOR_MS / 1000

    async def ask(self, question: Callable[[Node], Coroutine[Any, Any, T]]) -> T:
        """The first answer. Raises the first error once nobody is left who might still answer, IllegalState where the client is
        closed."""
        asked: list[Node] = []
        running: dict[asyncio.Task[T], Node] = {}  # in the order of their start: a run can be repeated
        first_error: BaseException | None = None
        is_silent = True  # nobody says anything, so one more is asked
        try:
            while True:
                node = self._pick(asked) if is_silent else None
                if node is not None:
                    asked.append(node)
                    task = self._start(question(node))
                    task.set_name("oncelog-question")
                    running[task] = node
                patience_s = None if self._pick(asked) is None else self._silence_s
                await asyncio.wait(running, timeout=patience_s, return_when=asyncio.FIRST_COMPLETED)
                ended = [task for task in running if task.done()]
                is_silent = not ended
                self._note(running, ended)
                for task in ended:
                    del running[task]
                    if task.cancelled():
                        raise IllegalState("this client was closed")
                    error = task.exception()
                    if error is None:
                        return task.result()
                    first_error = first_error or error
                if not running and first_error is not None:
                    raise first_error
        finally:
            for task in running:
                task.cancel()

    def _note(self, running: dict[asyncio.Task[T], Node], ended: list[asyncio.Task[T]]) -> None:
        for task, node in running.items():
            if task in ended:
                self._silent_until.pop((node.host, node.port), None)
            elif not ended:
                self.was_silent(node)
