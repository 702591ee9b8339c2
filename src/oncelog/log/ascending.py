"""Whether numbers ascend, without a step of Python for each: an index has 262,144 of a gigabyte, and the loop waits for it."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import islice


def first_that_does_not_follow(numbers: array[int], follows: Callable[[int, int], bool]) -> int | None:
    """The place of the first number for which `follows(the one before, it)` is not so (`operator.lt`: they ascend strictly)."""
    found = bytes(map(follows, numbers, islice(numbers, 1, None))).find(0)
    return None if found < 0 else found + 1
