"""Owned tasks: nothing outlives its owner, no failure vanishes."""

import asyncio

import pytest

from oncelog.host.tasks import Tasks


def test_close_cancels_and_waits():
    async def work():
        ended = []

        async def forever():
            try:
                await asyncio.Event().wait()
            finally:
                await asyncio.sleep(0)
                ended.append(True)

        tasks = Tasks()
        tasks.start(forever())
        tasks.start(forever())
        await asyncio.sleep(0)
        assert len(tasks) == 2
        await tasks.close()
        assert ended == [True, True]
        assert len(tasks) == 0
        with pytest.raises(RuntimeError):
            tasks.start(forever())

    asyncio.run(work())


def test_a_failure_is_told_once():
    async def work():
        told = []
        tasks = Tasks(told.append)

        async def fail():
            raise ValueError("x")

        tasks.start(fail())
        await tasks.finished()
        await asyncio.sleep(0)
        assert [str(error) for error in told] == ["x"]

    asyncio.run(work())
