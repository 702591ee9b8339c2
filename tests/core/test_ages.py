"""Ages as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from oncelog.core.ages import LAST_MS, age_text, clock_text, moment_text


def test_ages() -> None:
    assert [age_text(n * 1000) for n in (-1, 59, 252, 11_100, 187_200)] == ["0s", "59s", "4m12s", "3h05m", "2d04h"]


def test_times_whatever_a_producer_says() -> None:
    at_ms = 1_769_864_920_123
    assert (clock_text(at_ms), moment_text(at_ms)) == ("13:08:40", "2026-01-31 13:08:40")
    assert [moment_text(each)[:10] for each in (-5, 1 << 62)] == ["1970-01-01", "9999-12-31"]


@given(st.integers(0, LAST_MS))
def test_dates_are_those_of_the_calendar(at_ms: int) -> None:
    assert moment_text(at_ms) == f"{datetime.fromtimestamp(at_ms // 1000, UTC):%Y-%m-%d %H:%M:%S}"


def test_leap_days() -> None:
    for text in ("2000-02-28", "2000-02-29", "2024-02-29", "2024-12-31", "2100-02-28", "2100-03-01"):
        at = datetime.fromisoformat(f"{text}T00:00:00+00:00")
        assert moment_text(int(at.timestamp()) * 1000) == f"{text} 00:00:00"
