"""Numbers of the command line: digits, and what a Kafka number can hold."""

from __future__ import annotations

import click
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.cli.numbers import INT64_MAX, WholeNumber, WholeNumberRange, is_number, whole_number


@given(st.integers(-(2**64), 2**64))
def test_a_number_is_taken_where_it_fits_into_64_bits(number: int) -> None:
    assert is_number(str(number)) == (0 <= number <= INT64_MAX)
    if -INT64_MAX - 1 <= number <= INT64_MAX:
        assert whole_number(str(number)) == number
    else:
        with pytest.raises(ValueError, match="is not a whole number"):
            whole_number(str(number))


@pytest.mark.parametrize("text", ["1_0", "", " 5", "5 ", "1e3", "1.0", "0x10", "٣", "²", "--1", "+", "9" * 5000])
def test_what_only_looks_like_a_number_is_refused(text: str) -> None:
    assert not is_number(text)
    for kind in (WholeNumber(), WholeNumberRange(0)):
        with pytest.raises(click.BadParameter, match="is not a whole number"):
            kind.convert(text, None, None)


def test_a_range_has_its_bounds() -> None:
    kind = WholeNumberRange(1, 5)
    assert [kind.convert(text, None, None) for text in ("1", "+3", "5")] == [1, 3, 5]
    assert WholeNumber().convert("-7", None, None) == -7
    for text in ("0", "6", "-1"):
        with pytest.raises(click.BadParameter, match="is not in the range 1<=x<=5"):
            kind.convert(text, None, None)


def test_a_default_that_is_a_number_stays() -> None:
    assert WholeNumberRange(4096, 16384).convert(8192, None, None) == 8192
