"""What a broker's parts share."""

from __future__ import annotations

import pytest

from oncelog.errors import InvalidArgument
from oncelog.faststream.config import OncelogBrokerConfig


def test_the_graceful_timeout_is_faststreams_and_in_seconds():
    assert OncelogBrokerConfig().stop_timeout_ms == 15_000
    assert OncelogBrokerConfig(graceful_timeout=0.25).stop_timeout_ms == 250
    assert OncelogBrokerConfig(graceful_timeout=0.0001).stop_timeout_ms == 1


@pytest.mark.parametrize("given", [None, 0, -1, True, "15", 1e9])
def test_a_stop_that_waits_for_nothing_could_abort_nothing(given):
    with pytest.raises(InvalidArgument, match="graceful_timeout must be seconds, more than 0"):
        OncelogBrokerConfig(graceful_timeout=given)


def test_a_start_waits():
    with pytest.raises(InvalidArgument, match="start_timeout_ms"):
        OncelogBrokerConfig(start_timeout_ms=0)
