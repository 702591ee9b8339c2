"""What is drawn from the operating system."""

from __future__ import annotations

import random

from oncelog.host.randomness import RealRandom, random_uuid


def test_the_generator_of_whoever_uses_us_is_left_alone():
    """A program that seeds it can be repeated, also where a client's back-off draws jitter in another thread."""
    random.seed(7)
    before = random.getstate()
    drawn = RealRandom()
    assert all(0.8 <= drawn.uniform(0.8, 1.2) <= 1.2 for _ in range(100))
    assert {drawn.below(3) for _ in range(100)} == {0, 1, 2}
    assert len({drawn.token_bytes(16) for _ in range(100)} | {random_uuid(drawn) for _ in range(100)}) == 200
    assert random.getstate() == before
