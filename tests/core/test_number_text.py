"""Numbers as Java reads them."""

from __future__ import annotations

import pytest

from oncelog.core.number_text import number, whole_number


def test_numbers() -> None:
    assert [whole_number(text) for text in ("0", "-7", "+7", "9223372036854775808")] == [0, -7, 7, 2**63]
    assert [number(text) for text in ("0.5", "-1", "1e3")] == [0.5, -1.0, 1000.0]


@pytest.mark.parametrize("text", ["1_0", "_1", "", "ten", "1.5.2"])
def test_what_is_none(text: str) -> None:
    for read in (whole_number, number):
        with pytest.raises(ValueError, match=r".+"):
            read(text)
