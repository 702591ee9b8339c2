"""Names that no topic can have are told by `poll`. (Topics that may not be seen: tests/client/test_rights.py.)"""

from __future__ import annotations

import pytest

from oncelog import sync
from oncelog.errors import InvalidTopic
from oncelog.testing import TestBroker


@pytest.mark.parametrize("group", [{}, {"group_id": "refused"}], ids=["alone", "a member"])
@pytest.mark.parametrize("name", ["a b", "..", "x" * 250])
def test_a_name_that_no_topic_can_have_is_raised_by_poll(oncelog_broker: TestBroker, name: str, group: dict) -> None:
    with (
        sync.Consumer(name, bootstrap_servers=oncelog_broker.bootstrap_servers, **group) as consumer,
        pytest.raises(InvalidTopic, match="cannot be read: a name has 1 to 249 of the characters"),
    ):
        consumer.poll(20_000)
