"""Options of broker and subscribers: whose is whose."""

from __future__ import annotations

import pytest

from oncelog.client.option_types import ProcessOptions, SendingOptions
from oncelog.errors import ConfigurationError, OncelogError
from oncelog.faststream.options import (
    BrokerOptions,
    SubscriberOptions,
    admin_options,
    checked_broker_options,
    checked_subscriber_options,
)

DECIDED_HERE = {  # of `oncelog.process`
    "group_id",
    "into",
    "transform",
    "transform_batch",
    "writer",
    "concurrency",
    "stop_timeout_ms",
    "handle_sigterm",
    "until_end",
    "max_records",
    "host",
}


def test_a_subscriber_takes_what_process_takes_but_what_is_decided_here():
    assert set(ProcessOptions.__annotations__) - set(SubscriberOptions.__annotations__) == DECIDED_HERE
    theirs = {name: each.__forward_arg__ for name, each in ProcessOptions.__annotations__.items()}
    mine = {name: each.__forward_arg__ for name, each in SubscriberOptions.__annotations__.items()}
    assert mine.items() <= theirs.items()
    assert set(BrokerOptions.__annotations__) == set(SendingOptions.__annotations__)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"linger_mss": 1}, "unknown option 'linger_mss'; did you mean 'linger_ms'"),
        ({"transactional_id": "t"}, "transactional_id is each subscriber's own"),
        ({"value_serializer": str.encode}, "bodies are FastStream's; give a codec"),
        ({"linger_ms": "soon"}, "linger_ms"),
        ({"acks": 0, "enable_idempotence": False}, "acknowledged by all replicas"),
    ],
)
def test_what_a_broker_does_not_take(options, says):
    with pytest.raises(ConfigurationError, match=says):
        checked_broker_options(options)


def test_what_a_subscriber_does_not_take():
    assert checked_subscriber_options(("in",), "g", {"transform_retries": 1}) == {"transform_retries": 1}
    for options, says in (
        ({"key_deserializer": bytes.decode}, "subscriber: key_deserializer is not taken"),
        ({"concurrency": 2}, "concurrency is not taken: it is called max_workers here"),
        ({"bootstrap_servers": "a:1"}, "bootstrap_servers is the broker's"),
        ({"security_protocol": "SSL"}, "security_protocol is the broker's"),
        ({"dead_leter_topic": "d"}, "unknown option 'dead_leter_topic'; did you mean 'dead_letter_topic'"),
        ({"transform_retries": -1}, "transform_retries"),
        ({"dead_letter_topic": "in"}, "is read, too"),
    ):
        with pytest.raises(OncelogError, match=says):
            checked_subscriber_options(("in",), "g", options)
    for name in DECIDED_HERE - {"group_id"}:
        with pytest.raises(ConfigurationError, match=f"subscriber: {name} is not taken"):
            checked_subscriber_options(("in",), "g", {name: 1})


def test_the_admin_gets_what_is_any_clients_and_the_shorter_patience():
    options = {"bootstrap_servers": "a:1", "linger_ms": 5, "sasl_plain_username": "u"}
    assert admin_options(options, 10_000) == {
        "bootstrap_servers": "a:1",
        "sasl_plain_username": "u",
        "default_api_timeout_ms": 10_000,
    }
    assert admin_options({"default_api_timeout_ms": 500}, 10_000)["default_api_timeout_ms"] == 500
