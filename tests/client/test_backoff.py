"""Waits grow, are bounded and end with the deadline, which says what was waited for."""

import asyncio

import pytest
from evidence.world.client import run

from oncelog.client.backoff import Backoff, Deadline, one_deadline
from oncelog.errors import LeaderNotAvailable, RequestTimedOut


class Draw:
    def __init__(self, share):
        self.share = share

    def uniform(self, low, high):
        return low + (high - low) * self.share


@pytest.mark.parametrize(("share", "factor"), [(0.0, 0.8), (0.5, 1.0), (1.0, 1.2)])
def test_growth_and_jitter(share, factor):
    backoff = Backoff(100, 1000, Draw(share))
    assert [backoff.next_ms() for _ in range(6)] == pytest.approx(
        [factor * ms for ms in (100, 200, 400, 800, 1000, 1000)]
    )
    backoff.reset()
    assert backoff.next_ms() == pytest.approx(100 * factor)


def test_deadline():
    async def work(loop):
        deadline = Deadline(1000, "find the treasure")
        backoff = Backoff(400, 400, Draw(0.5))
        for _ in range(2):
            await deadline.wait(backoff, None)
        assert deadline.left_ms in (199, 200)
        assert deadline.request_timeout_ms(30_000) in (199, 200)
        with pytest.raises(
            RequestTimedOut, match=r"find the treasure: not done within 1000 ms; last error: LEADER_NOT"
        ):
            await deadline.wait(backoff, LeaderNotAvailable())
        assert loop.time() == pytest.approx(0.8)

    run(work)


def test_the_steps_of_a_call_share_its_time():
    async def work(loop):
        with one_deadline(1000, "the whole") as whole:
            assert Deadline(400, "a step").left_ms in (399, 400)
            await asyncio.sleep(0.7)
            step = Deadline(60_000, "a step")
            assert step.left_ms == whole.left_ms in (299, 300)
            assert "a step: not done within 1000 ms" in str(step.passed())
            behind = asyncio.create_task(left_after(0.5))
        assert Deadline(60_000, "another call").left_ms in (59_999, 60_000)
        assert await behind in (59_999, 60_000), "a task that goes on behind the call is no step of it"

    async def left_after(seconds):
        await asyncio.sleep(seconds)
        return Deadline(60_000, "it goes on").left_ms

    run(work)
