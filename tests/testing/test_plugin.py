"""The plugin's fixtures, used as its users do."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from oncelog import sync
from oncelog.testing import TestBroker


def test_what_a_producer_commits_a_consumer_reads(
    oncelog_producer: Callable[..., sync.Producer], oncelog_consumer: Callable[..., sync.Consumer]
) -> None:
    producer = oncelog_producer(transactional_id="plugin")
    with producer.transaction():
        producer.send("plugin-topic", b"kept")
    producer.begin_transaction()
    producer.send("plugin-topic", b"dropped")
    producer.abort_transaction()
    consumer = oncelog_consumer("plugin-topic")
    assert [record.value for record in consumer.poll(timeout_ms=60_000)] == [b"kept"]


@pytest.mark.parametrize("what", ["a b/ü", "x" * 300])
def test_each_test_has_a_topic_of_its_own(
    what: str,
    oncelog_topic: str,
    oncelog_producer: Callable[..., sync.Producer],
    oncelog_consumer: Callable[..., sync.Consumer],
) -> None:
    """Twice the same test, on the broker of the session: the second one finds the topic empty."""
    assert oncelog_topic.startswith("test_plugin-test_each_test_has_a_topic_of_its_own-")
    assert len(f"{oncelog_topic}-payments") < 249
    oncelog_producer().send(oncelog_topic, what.encode()).result()
    consumer = oncelog_consumer(oncelog_topic)
    assert [record.value for record in consumer.poll(timeout_ms=60_000)] == [what.encode()]
    assert [each.raw for each in consumer.lag().values()] == [0]


def test_the_topic_is_there_before_anybody_writes(oncelog_topic: str, oncelog_broker: TestBroker) -> None:
    with sync.Admin(bootstrap_servers=oncelog_broker.bootstrap_servers) as admin:
        assert oncelog_topic in admin.list_topics()


def test_a_broker_keeps_its_data_where_it_is_told(tmp_path: object) -> None:
    with (
        TestBroker(data_dir=str(tmp_path)) as broker,
        sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        offset = producer.send("kept", b"1").result().offset
    with (
        TestBroker(data_dir=str(tmp_path)) as broker,
        sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer,
    ):
        assert producer.send("kept", b"2").result().offset == offset + 1
