"""Waits grow, are bounded and end with the deadline, which says what was waited for."""

import pytest
from evidence.world.client import run

from oncelog.client.backoff import Backoff, Deadline
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
