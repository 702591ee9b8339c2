"""The plugin's fixtures, used as its users do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from oncelog import Admin, Consumer, Producer, sync
from oncelog.testing import TestBroker, plugin


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


def report_of(*, failed: bool) -> list[tuple[str, str]]:
    """The sections that the plugin adds to a report."""
    report = pytest.TestReport("t", ("t.py", 1, "t"), {}, "failed" if failed else "passed", None, "call")
    hook = plugin.pytest_runtest_makereport(None, SimpleNamespace(when="call"))  # type: ignore[arg-type]
    next(hook)
    with pytest.raises(StopIteration) as ended:
        hook.send(report)
    assert ended.value.value is report
    return report.sections


def test_a_failed_test_is_told_what_is_open(
    oncelog_topic: str, oncelog_broker: TestBroker, oncelog_producer: Callable[..., sync.Producer]
) -> None:
    producer = oncelog_producer(transactional_id=oncelog_topic)
    producer.begin_transaction()
    producer.send(oncelog_topic, b"1").result()
    assert report_of(failed=False) == []
    ((title, text),) = report_of(failed=True)
    assert title == "oncelog: open transactions"
    assert oncelog_broker.bootstrap_servers in text
    assert f"'{oncelog_topic}' Ongoing" in text
    producer.abort_transaction()


def test_a_broker_of_a_tests_own(oncelog_new_broker: Callable[..., TestBroker]) -> None:
    broker = oncelog_new_broker({"num.partitions": "3"})
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics(["t"])
        assert len(admin.describe_topics(["t"])["t"].partitions) == 3


def test_async_clients_are_entered_in_the_tests_own_loop(
    oncelog_topic: str,
    oncelog_async_producer: Callable[..., Producer],
    oncelog_async_consumer: Callable[..., Consumer],
    oncelog_async_admin: Callable[..., Admin],
) -> None:
    async def work() -> None:
        async with oncelog_async_producer(transactional_id=oncelog_topic) as producer, producer.transaction():
            await producer.send(oncelog_topic, b"1")
        async with oncelog_async_consumer(oncelog_topic) as consumer:
            assert (await anext(consumer)).value == b"1"
        async with oncelog_async_admin() as admin:
            assert oncelog_topic in await admin.list_topics()

    asyncio.run(work())
