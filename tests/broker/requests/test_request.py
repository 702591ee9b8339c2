"""What a handler waits for with `reply_of`."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.broker.requests.request import Later, reply_of


async def waiting_for(later):
    task = asyncio.ensure_future(reply_of(later))
    await asyncio.sleep(0)
    return task


def test_every_kind_of_outcome():
    async def work():
        return "of a coroutine"

    async def main():
        given, later = Later(), Later()
        given.give("given")
        task = await waiting_for(later)
        later.give("later")
        assert [await reply_of(each) for each in ("at once", work(), given)] == ["at once", "of a coroutine", "given"]
        assert await task == "later"

    asyncio.run(main())


def test_an_error_comes_back():
    async def main():
        later = Later()
        task = await waiting_for(later)
        later.fail(ValueError("planted"))
        with pytest.raises(ValueError, match="planted"):
            await task

    asyncio.run(main())


def test_who_is_cancelled_waits_for_nothing_any_more():
    """A request that is held for its turn is not decided for a client that is gone: it would fence a later one."""

    async def main():
        later, dropped = Later(), []
        later.on_drop = lambda: dropped.append(True)
        task = await waiting_for(later)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert dropped == [True]
        later.give("nobody hears it")

    asyncio.run(main())
