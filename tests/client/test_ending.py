"""A client's end: once, whoever asks for it and whoever is cancelled."""

from __future__ import annotations

import asyncio

import pytest
from evidence.world.client import run

from oncelog.client.ending import Ending


class Goodbye:
    """Work of `duration_s`; whether it came to its end, and how often it was closed."""

    def __init__(self, duration_s: float) -> None:
        self.duration_s, self.is_said, self.closed = duration_s, False, 0

    async def work(self) -> None:
        try:
            await asyncio.sleep(self.duration_s)
            self.is_said = True
        finally:
            self.closed += 1


def test_who_is_cancelled_leaves_it_going_and_the_next_one_waits_for_it():
    async def main():
        goodbye, ending = Goodbye(3), Ending()
        first = asyncio.ensure_future(ending.come(goodbye.work, 10))
        await asyncio.sleep(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (goodbye.is_said, goodbye.closed) == (False, 0)
        await ending.come(goodbye.work, 10)
        assert (goodbye.is_said, goodbye.closed) == (True, 1)
        await ending.come(goodbye.work, 10)
        assert goodbye.closed == 1

    run(main)


def test_the_next_one_waits_for_its_own_time_then_it_is_cut_short_and_closed():
    async def main(loop):
        goodbye, ending = Goodbye(30), Ending()
        first = asyncio.ensure_future(ending.come(goodbye.work, 60))
        await asyncio.sleep(1)
        first.cancel()
        began = loop.time()
        await ending.come(goodbye.work, 5)
        assert loop.time() - began == pytest.approx(5, abs=0.1)
        assert (goodbye.is_said, goodbye.closed) == (False, 1)

    run(main)
