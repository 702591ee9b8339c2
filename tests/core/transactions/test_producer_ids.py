"""Producer ids come from reserved blocks, each once, in order."""

from __future__ import annotations

import pytest

from oncelog.core.transactions.producer_ids import ProducerIds


def test_every_id_is_handed_out_once() -> None:
    ids = ProducerIds()
    assert ids.take() is None
    ids.give_block(1000, 3)
    ids.give_block(5000, 2)
    assert [ids.take() for _ in range(6)] == [1000, 1001, 1002, 5000, 5001, None]


def test_a_block_is_wanted_in_time() -> None:
    ids = ProducerIds()
    assert ids.wants_block()
    ids.give_block(0, 1000)
    for _ in range(899):
        ids.take()
    assert not ids.wants_block()
    ids.take()
    assert ids.wants_block()
    ids.give_block(1000, 1000)
    assert not ids.wants_block()


@pytest.mark.parametrize(("first", "count"), [(999, 10), (-1, 10), (2000, 0)])
def test_a_block_that_was_given_is_not_given_again(first: int, count: int) -> None:
    ids = ProducerIds()
    ids.give_block(0, 1000)
    with pytest.raises(AssertionError):
        ids.give_block(first, count)
