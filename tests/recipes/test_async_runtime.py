"""What goes on without its caller is done once, whoever comes again."""

from __future__ import annotations

import asyncio

import pytest

from oncelog.recipes.async_runtime import AsyncRuntime


class Work:
    """A rollback that waits for `gate`."""

    def __init__(self) -> None:
        self.begun_count = self.ended_count = 0
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def roll_back(self) -> None:
        self.begun_count += 1
        await self.gate.wait()
        self.ended_count += 1
        if self.error is not None:
            raise self.error


async def interrupted(runtime: AsyncRuntime, work: Work) -> None:
    task = asyncio.ensure_future(runtime.to_its_end(work.roll_back))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("ends_between", [False, True])
def test_work_whose_caller_is_interrupted_again_and_again_is_done_once(ends_between: bool) -> None:
    """A second rollback beside the first tore psycopg's transaction, and no later one began: each failed with RuntimeError."""

    async def main() -> None:
        runtime, work = AsyncRuntime(), Work()
        for _ in range(3):
            await interrupted(runtime, work)
        if ends_between:
            work.gate.set()
            await runtime.all_at_their_end()
        else:
            asyncio.get_running_loop().call_soon(work.gate.set)
        await runtime.to_its_end(work.roll_back)
        assert (work.begun_count, work.ended_count) == (1, 1)
        other = Work()
        other.gate.set()
        await runtime.to_its_end(other.roll_back)
        assert other.ended_count == 1

    asyncio.run(main())


def test_what_it_raises_is_raised_and_the_next_attempt_is_made() -> None:
    async def main() -> None:
        runtime, work = AsyncRuntime(), Work()
        work.gate.set()
        work.error = ValueError("not now")
        for count in (1, 2):
            with pytest.raises(ValueError, match="not now"):
                await runtime.to_its_end(work.roll_back)
            assert work.begun_count == count

    asyncio.run(main())
