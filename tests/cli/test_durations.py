"""Durations, moments and ages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.cli.durations import duration_from_text, duration_text, moment_from_text, moment_text


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("1h30m", 5_400_000), ("2d", 172_800_000), ("2", 2000)],
)
def test_durations_as_people_write_them(text: str, duration_ms: int) -> None:
    assert duration_from_text(text) == duration_ms


@pytest.mark.parametrize("text", ["", "soon", "5 parsecs", "-3s", "1m?", "s"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration_from_text(text)


@pytest.mark.parametrize(
    ("duration_ms", "text"),
    [
        (None, "-"),
        (-5, "-"),
        (850, "850ms"),
        (4200, "4.2s"),
        (59_999, "59s"),
        (1_264_000, "21m04s"),
        (11_100_000, "3h05m"),
        (187_200_000, "2d04h"),
    ],
)
def test_durations_for_people(duration_ms: int | None, text: str) -> None:
    assert duration_text(duration_ms) == text


@given(st.integers(0, 4_000_000_000_000))
def test_a_moment_survives_the_way_out_and_in(timestamp_ms: int) -> None:
    assert moment_from_text(moment_text(timestamp_ms).replace("Z", "+00:00")) == timestamp_ms
    assert moment_from_text(str(timestamp_ms)) == timestamp_ms


@given(st.integers())
def test_no_timestamp_breaks_the_display(timestamp_ms: int) -> None:
    assert moment_text(timestamp_ms)


def test_what_is_no_moment_is_told_how_one_is_written() -> None:
    with pytest.raises(ValueError, match=r"^a moment is written as 2026-01-31 or"):
        moment_from_text("x")
