"""`auto.offset.reset`: which durations are taken, and how long they are, as java.time.Duration.parse (Java 17) says."""

from __future__ import annotations

import pytest

from oncelog.core.offset_reset import check_strategy, duration_ms_of, first_time_ms

# What Java 17 printed for each: seconds and nanoseconds.
TAKEN = {
    "PT1H": (3600, 0),
    "P1D": (86400, 0),
    "P1DT2H3M4.5S": (93784, 500_000_000),
    "pt15m": (900, 0),
    "PT0S": (0, 0),
    "-PT-1H": (3600, 0),
    "PT1H-30M": (1800, 0),
    "PT1.5S": (1, 500_000_000),
    "PT1,5S": (1, 500_000_000),
    "PT1.S": (1, 0),
    "PT+1H": (3600, 0),
    "+PT1H": (3600, 0),
    "P-1DT36H": (43200, 0),
    "PT9223372036854775807S": (9223372036854775807, 0),
    "P106751991167300D": (9223372036854720000, 0),
    "PT0.0005S": (0, 500_000),
    "-PT-0.5S": (0, 500_000_000),
}
REFUSED = (
    *(
        "PT",
        "P",
        "PT1H2",
        "P1W",
        "P1Y",
        "PT.5S",
        "PT1.1234567890S",
        " PT1H",
        "PT1H ",
        "P1DT",
        "PT1S2M",
        "PT1.5H",
        "1h",
        "",
    ),
    *("PT1H\n", "PT\u0661S", "PT99999999999999999999S", "PT9223372036854775807M", "P106751991167301D"),
)


@pytest.mark.parametrize("text", TAKEN)
def test_a_duration_is_as_long_as_java_says(text):
    seconds, nanoseconds = TAKEN[text]
    assert duration_ms_of(text) == seconds * 1000 + nanoseconds // 1_000_000


@pytest.mark.parametrize("text", REFUSED)
def test_what_java_refuses_is_refused(text):
    with pytest.raises(ValueError, match=r"expected|longer"):
        duration_ms_of(text)


@pytest.mark.parametrize("text", ["-PT1H", "PT-1H", "PT-0.5S"])
def test_less_than_nothing_is_refused(text):
    with pytest.raises(ValueError, match="less than nothing"):
        duration_ms_of(text)


def test_a_strategy_is_a_word_or_a_duration():
    for strategy in ("earliest", "latest", "none", "by_duration:PT1H"):
        check_strategy(strategy)
    for strategy in ("Earliest", "by_duration", "by_duration:", "by-duration:PT1H", "first"):
        with pytest.raises(ValueError, match="expected"):
            check_strategy(strategy)


def test_the_first_time_lies_before_now_and_not_before_1970():
    assert first_time_ms("by_duration:PT1H", 10_000_000) == 6_400_000
    assert first_time_ms("by_duration:P30000D", 10_000_000) == 0
    assert first_time_ms("earliest", 10_000_000) is None
