"""Ages as people read them."""

from __future__ import annotations

from oncelog.core.ages import age_text


def test_ages() -> None:
    assert [age_text(n * 1000) for n in (-1, 59, 252, 11_100, 187_200)] == ["0s", "59s", "4m12s", "3h05m", "2d04h"]
