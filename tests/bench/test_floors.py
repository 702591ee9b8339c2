"""What no broker can beat: the relay passes on whole messages, the mock broker takes transactions."""

from __future__ import annotations

import asyncio

import pytest

from bench import floors


@pytest.mark.parametrize("what", ["relay", "synced-relay", "loop-relay"])
def test_every_message_comes_back_and_has_an_age(what):
    with floors._process(what) as port:
        ages = asyncio.run(floors.relayed_ms(int(port), messages=5, warm_up=2))
    assert len(ages) == 5
    assert ages == sorted(ages)
    assert ages[0] > 0


def test_the_mock_broker_takes_transactions():
    with floors._process("mock") as bootstrap:
        assert floors.transactions_per_second(bootstrap, 2, seconds=0.2) > 0
