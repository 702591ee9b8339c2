"""SIGTERM: who is told, and that the application's own handlers stay."""

from __future__ import annotations

import asyncio
import os
import signal
import threading

from oncelog.host.signals import terminating_in_loop, terminating_in_thread


def test_all_in_the_loop_are_told_and_nothing_is_left_behind():
    async def main():
        first, second = asyncio.Event(), asyncio.Event()
        with terminating_in_loop(first.set):
            with terminating_in_loop(second.set):
                os.kill(os.getpid(), signal.SIGTERM)
                await asyncio.gather(first.wait(), second.wait())
            first.clear()
            second.clear()
            os.kill(os.getpid(), signal.SIGTERM)
            await first.wait()
            assert not second.is_set()

    asyncio.run(main())
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_a_handler_of_the_applications_stays():
    told = []

    def its_own(*_):
        told.append("its own")

    signal.signal(signal.SIGTERM, its_own)
    try:

        async def main():
            with terminating_in_loop(lambda: told.append("ours")):
                os.kill(os.getpid(), signal.SIGTERM)

        asyncio.run(main())
        with terminating_in_thread(lambda: told.append("ours")):
            os.kill(os.getpid(), signal.SIGTERM)
        assert told == ["its own", "its own"]
        assert signal.getsignal(signal.SIGTERM) is its_own
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def test_a_thread_that_waits_is_told():
    told = threading.Event()
    with terminating_in_thread(told.set):
        os.kill(os.getpid(), signal.SIGTERM)
        assert told.wait(10)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL


def test_in_other_threads_nothing_is_handled():
    seen = []

    def work():
        async def main():
            with terminating_in_loop(seen.clear):
                seen.append(signal.getsignal(signal.SIGTERM))

        asyncio.run(main())
        with terminating_in_thread(seen.clear):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [signal.SIG_DFL, signal.SIG_DFL]
