"""Ages as people read them."""

from __future__ import annotations

from oncelog.core.ages import age_text, clock_text, moment_text


def test_ages() -> None:
    assert [age_text(n * 1000) for n in (-1, 59, 252, 11_100, 187_200)] == ["0s", "59s", "4m12s", "3h05m", "2d04h"]


def test_times_whatever_a_producer_says() -> None:
    at_ms = 1_769_864_920_123
    assert (clock_text(at_ms), moment_text(at_ms)) == ("13:08:40", "2026-01-31 13:08:40")
    assert [moment_text(each)[:10] for each in (-5, 1 << 62)] == ["1970-01-01", "9999-12-31"]
