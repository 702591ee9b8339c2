"""Numbers of indexes, against the plain loop over them."""

from __future__ import annotations

from array import array
from operator import le, lt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.log.ascending import first_that_does_not_follow


@pytest.mark.parametrize("follows", [lt, le])
@given(numbers=st.lists(st.integers(-3, 3), max_size=8))
def test_the_first_that_does_not_follow_is_found(follows, numbers):
    wrong = [place for place in range(1, len(numbers)) if not follows(numbers[place - 1], numbers[place])]
    assert first_that_does_not_follow(array("q", numbers), follows) == (wrong[0] if wrong else None)
