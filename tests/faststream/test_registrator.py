"""What is wrong with a declaration is told where it is made."""

from __future__ import annotations

import pytest

from oncelog.errors import ConfigurationError, InvalidArgument
from tests.faststream.world import new_broker


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"group_id": 1}, InvalidArgument, "group_id must be text"),
        ({"max_workers": 0}, InvalidArgument, "max_workers must be from 1"),
        ({"batch": "yes"}, InvalidArgument, "batch must be True or False"),
        ({"value_deserializer": bytes.decode}, ConfigurationError, "bodies are FastStream's"),
    ],
)
def test_a_subscriber(options, error, says):
    with pytest.raises(error, match=says):
        new_broker("127.0.0.1:1").subscriber("in", **{"group_id": "g", **options})


@pytest.mark.parametrize(
    ("topic", "options", "says"),
    [(b"out", {}, "topic must be text"), ("out", {"partition": -1}, "partition"), ("out", {"batch": 1}, "batch")],
)
def test_a_publisher(topic, options, says):
    with pytest.raises(InvalidArgument, match=says):
        new_broker("127.0.0.1:1").publisher(topic, **options)


def test_what_nobody_holds_is_forgotten_unless_it_is_persistent():
    broker = new_broker("127.0.0.1:1")
    broker.subscriber("in", group_id="g")
    broker.subscriber("in", group_id="h", persistent=False)
    broker.publisher("out")
    broker.publisher("out", persistent=False)
    assert [each.group_id for each in broker.subscribers] == ["g"]
    assert len(broker.publishers) == 1
