"""What the assertions say of records and transactions that are not as they should be."""

from __future__ import annotations

import pytest

from oncelog import errors, sync
from oncelog.testing import assert_committed_once, committed_records


def test_each_key_is_there_once(oncelog_broker, oncelog_topic, oncelog_producer):
    producer = oncelog_producer(transactional_id=oncelog_topic)
    with producer.transaction():
        for key in (b"a", b"b", b"twice", b"twice"):
            producer.send(oncelog_topic, b"1", key=key)
    with pytest.raises(KeyError), producer.transaction():
        producer.send(oncelog_topic, b"1", key=b"aborted").result()
        raise KeyError
    assert_committed_once(oncelog_broker, oncelog_topic, ["a", b"b"])
    for keys, says in (
        (["a", "aborted"], r"3 committed|4 committed records: missing: b'aborted'"),
        (["twice"], rf"b'twice' is there 2 times: {oncelog_topic}-0@2, {oncelog_topic}-0@3"),
    ):
        with pytest.raises(AssertionError, match=says):
            assert_committed_once(oncelog_broker, oncelog_topic, keys)
    with pytest.raises(AssertionError, match="not expected: b'b', b'twice'"):
        assert_committed_once(oncelog_broker, oncelog_topic, ["a"], only=True)
    for wrong in ("a", b"a", ["a", b"a"]):
        with pytest.raises(errors.InvalidArgument, match="keys"):
            assert_committed_once(oncelog_broker, oncelog_topic, wrong)


def test_what_an_open_transaction_holds_back_is_named(oncelog_broker, oncelog_topic, oncelog_producer):
    producer = oncelog_producer(transactional_id=oncelog_topic)
    producer.begin_transaction()
    producer.send(oncelog_topic, b"1", key=b"a").result()
    with pytest.raises(AssertionError, match=rf"-0 at 0 of 1; open: .*'{oncelog_topic}' Ongoing"):
        committed_records(oncelog_broker, oncelog_topic, timeout_ms=3_000)
    producer.commit_transaction()
    assert [each.key for each in committed_records(oncelog_broker.bootstrap_servers, oncelog_topic)] == [b"a"]


def test_records_come_in_the_order_of_their_partitions(oncelog_broker, oncelog_topic):
    topic = f"{oncelog_topic}-many"
    with sync.Admin(bootstrap_servers=oncelog_broker.bootstrap_servers) as admin:
        admin.create_topics({topic: 3})
    with sync.Producer(bootstrap_servers=oncelog_broker.bootstrap_servers) as producer:
        for number in range(9):
            producer.send(topic, b"%d" % number, partition=number % 3)
    assert [each.value for each in committed_records(oncelog_broker, topic)] == [
        b"%d" % n for n in (0, 3, 6, 1, 4, 7, 2, 5, 8)
    ]


def test_a_broker_that_is_away_is_waited_for_as_long_as_was_said():
    """A killed one cost a test a minute, whatever its `timeout_ms`."""
    with pytest.raises(errors.RequestTimedOut, match="not done within 100 ms"):
        committed_records("127.0.0.1:1", "t", timeout_ms=100)
    with pytest.raises(errors.InvalidArgument, match="servers must be HOST:PORT, a TestBroker or a FaultyProxy, not 5"):
        committed_records(5, "t")
