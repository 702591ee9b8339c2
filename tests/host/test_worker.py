"""Work beside the loop: results, errors, and an end when nobody waits any more."""

from __future__ import annotations

import asyncio
import resource
import threading

import pytest

from oncelog.host.limits import raise_open_files_limit
from oncelog.host.worker import InlineWorker, ThreadWorker, WorkCancelled


def test_results_and_errors_come_back() -> None:
    async def main(worker: ThreadWorker | InlineWorker) -> None:
        assert await worker.run(lambda pace: 6 * 7) == 42

        def fail(pace: object) -> None:
            raise KeyError("planted")

        with pytest.raises(KeyError, match="planted"):
            await worker.run(fail)

    for worker in (ThreadWorker(), InlineWorker()):
        asyncio.run(main(worker))


def test_work_of_a_cancelled_caller_has_ended_before_the_caller_goes_on() -> None:
    async def main() -> None:
        begun, ended = threading.Event(), []

        def work(pace) -> None:
            begun.set()
            try:
                while True:
                    pace(1)
            except WorkCancelled:
                ended.append(True)
                raise

        task = asyncio.get_running_loop().create_task(ThreadWorker().run(work))
        while not begun.is_set():  # noqa: ASYNC110 - set by the thread
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert ended == [True]

    asyncio.run(main())


def test_a_rate_is_kept() -> None:
    async def main() -> float:
        def work(pace) -> None:
            for _ in range(10):
                busy = sum(range(60_000))  # a slice of time
                assert busy
                pace(1000)

        loop = asyncio.get_running_loop()
        begun = loop.time()
        await ThreadWorker().run(work, bytes_per_second=50_000)
        return loop.time() - begun

    assert asyncio.run(main()) >= 0.1


def test_the_limit_of_open_files_is_the_systems() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        raise_open_files_limit()
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (before[1], before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
