"""Post-process a reply, ready or pending: a handler's outcome, whose reply goes through one more function."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from oncelog.broker.requests.request import Later, Reply

Finish = Callable[[Reply], Reply]


def finished(outcome: Any, finish: Finish) -> Any:
    """What a handler returned, whose reply will go through `finish`."""
    if isinstance(outcome, Later):
        return _later(outcome, finish)
    if isinstance(outcome, asyncio.Future):
        return _followed(outcome, finish)
    if inspect.iscoroutine(outcome):
        return _awaited(outcome, finish)
    return finish(outcome)


class _Forward:
    """Hands on what it hears of one `Later` to another."""

    def __init__(self, later: Later, finish: Finish) -> None:
        self._later = later
        self._finish = finish

    def given(self, reply: Reply) -> None:
        self._later.give(self._finish(reply))

    def turn_released(self) -> None:
        self._later.release_turn()


def _later(outcome: Later, finish: Finish) -> Any:
    if outcome.is_given:
        return finish(outcome.reply)
    later = Later(keeps_turn=outcome.keeps_turn)
    later.on_drop = outcome.drop
    outcome.listen(_Forward(later, finish))
    return later


def _followed(outcome: asyncio.Future[Reply], finish: Finish) -> asyncio.Future[Reply]:
    done: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()

    def ended(first: asyncio.Future[Reply]) -> None:
        if done.done():
            return
        if first.cancelled():
            done.cancel()
        elif (error := first.exception()) is not None:
            done.set_exception(error)
        else:
            done.set_result(finish(first.result()))

    outcome.add_done_callback(ended)
    done.add_done_callback(lambda last: outcome.cancel() if last.cancelled() else None)
    return done


async def _awaited(outcome: Coroutine[Any, Any, Any], finish: Finish) -> Any:
    reply = await outcome
    return _followed(reply, finish) if isinstance(reply, asyncio.Future) else finish(reply)
