"""Subscriptions and assignments: round trips and versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog.errors import MalformedMessage
from oncelog.types import TopicPartition
from oncelog.wire.consumer_protocol import (
    Assignment,
    Subscription,
    assignment_from_bytes,
    assignment_to_bytes,
    subscription_from_bytes,
    subscription_to_bytes,
)

topics = st.text(min_size=1, max_size=8)
partitions = st.dictionaries(topics, st.lists(st.integers(0, 99), min_size=1, unique=True), max_size=3).map(
    lambda found: tuple(TopicPartition(topic, index) for topic, indexes in found.items() for index in indexes)
)
user_data = st.none() | st.binary(max_size=9)
subscriptions = st.builds(
    Subscription,
    st.lists(topics, max_size=4).map(tuple),
    user_data,
    partitions,
    st.integers(-1, 99),
    st.none() | topics,
)


@given(subscriptions)
def test_a_subscription_is_read_back(subscription):
    assert subscription_from_bytes(subscription_to_bytes(subscription)) == subscription


@given(st.builds(Assignment, partitions, user_data), st.integers(0, 3))
def test_an_assignment_is_read_back(assignment, version):
    assert assignment_from_bytes(assignment_to_bytes(assignment, version=version)) == assignment


@pytest.mark.parametrize(
    ("version", "kept"),
    [
        (0, Subscription(("t",), b"u")),
        (1, Subscription(("t",), b"u", (TopicPartition("t", 1),))),
        (2, Subscription(("t",), b"u", (TopicPartition("t", 1),), 4)),
        (3, Subscription(("t",), b"u", (TopicPartition("t", 1),), 4, "r")),
    ],
)
def test_each_version_carries_more(version, kept):
    full = Subscription(("t",), b"u", (TopicPartition("t", 1),), 4, "r")
    assert subscription_from_bytes(subscription_to_bytes(full, version=version)) == kept


def test_a_newer_version_is_read_as_the_newest_known():
    data = subscription_to_bytes(Subscription(("t",), rack_id="r"))
    assert subscription_from_bytes(b"\x00\x09" + data[2:] + b"more") == Subscription(("t",), rack_id="r")


def test_a_subscription_in_bytes():
    data = subscription_to_bytes(Subscription(("ab",), None), version=0)
    assert data.hex() == "0000" + "00000001" + "00026162" + "ffffffff"


def test_nothing_is_an_empty_assignment():
    assert assignment_from_bytes(b"") == Assignment()


@pytest.mark.parametrize("data", [b"", b"\x00", b"\xff\xff", b"\x00\x00", b"\x00\x00\x00\x00\x00\x01"])
def test_bytes_that_are_no_subscription(data):
    with pytest.raises(MalformedMessage):
        subscription_from_bytes(data)
