"""Every kind that `oncelog why` knows is planted, and a cause without its command, or with another one, is seen."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import pytest

from evidence.freezes.__main__ import problems_of
from evidence.freezes.planting import LOOK, PLANTS, open_transaction
from evidence.freezes.worlds import World
from oncelog import TopicPartition
from oncelog.core.diagnosis import causes as kinds
from oncelog.testing import TestBroker

# Who owns a transaction can only be hidden from somebody with few rights; nobody freezes who subscribed to nothing.
NOT_PLANTED = {kinds.UNKNOWN_OWNER, kinds.NO_PARTITIONS}
OPEN = next(each for each in PLANTS if each.kind == kinds.OPEN)


def test_every_kind_is_planted() -> None:
    assert {each.kind for each in PLANTS} == set(kinds.KINDS) - NOT_PLANTED


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({}, ""),
        ({"command": "groups describe"}, "expected groups describe"),
        ({"kind": kinds.QUOTA}, "quota is not named: open transaction"),
        ({"typed": LOOK}, "ended with 2"),
    ],
)
def test_what_is_wrong_is_seen(oncelog_broker: TestBroker, change: dict[str, Any], says: str) -> None:
    name = f"open-{len(says)}"
    world = World("oncelog", oncelog_broker.bootstrap_servers, TopicPartition("flip", 0))

    plant = functools.partial(open_transaction, name=name)
    found = problems_of(world, dataclasses.replace(OPEN, name=name, plant=plant, **change))
    assert bool(found) is bool(says)
    assert all(says in each for each in found)
