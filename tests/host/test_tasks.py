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


@pytest.mark.parametrize(
    ("error", "is_closed", "told"), [(None, False, 0), (ValueError, False, 1), (ValueError, True, 0)]
)
def test_a_step_of_its_own_is_told_of_like_a_task(error, is_closed, told):
    async def work():
        done, failures = [], []
        tasks = Tasks(failures.append)

        def act():
            done.append(True)
            if error is not None:
                raise error

        tasks.soon(act)
        assert not done
        if is_closed:
            await tasks.close()
        await asyncio.sleep(0)
        assert done == [True]
        assert len(failures) == told

    asyncio.run(work())


def test_a_step_that_nobody_hears_of_is_the_loops():
    heard = []

    async def work():
        asyncio.get_running_loop().set_exception_handler(lambda _, context: heard.append(context["exception"]))
        Tasks().soon(lambda: {}["missing"])
        await asyncio.sleep(0)

    asyncio.run(work())
    assert [type(error) for error in heard] == [KeyError]
