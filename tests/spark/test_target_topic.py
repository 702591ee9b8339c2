"""A topic that a sink's first record makes is told of, and one that was made anew."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType

from oncelog import sync
from oncelog.host.recently_used import RecentlyUsed
from oncelog.spark import data_source, target_topic
from oncelog.spark.data_source import DefaultSource
from oncelog.spark.kept_admins import close_admins
from oncelog.spark.options import sink_options
from oncelog.spark.target_topic import look_at_the_target
from oncelog.testing import TestBroker


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker({"num.partitions": "3"}) as broker:
        yield broker


@pytest.fixture
def admin(broker: TestBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[sync.Admin]:
    monkeypatch.setattr(target_topic, "_seen", RecentlyUsed(256))
    monkeypatch.setattr(target_topic, "_absent", RecentlyUsed(256))
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        yield admin


def test_a_topic_that_is_not_there_is_named_once_with_its_partitions(
    broker: TestBroker, admin: sync.Admin, caplog: pytest.LogCaptureFixture
) -> None:
    """A mistyped name made a topic of one partition, and nobody was told."""
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "mistyped"})
    for _ in range(2):
        look_at_the_target(options, admin)
    (line,) = caplog.messages
    assert "the topic 'mistyped' is not there: the first record makes it, with 3 partitions" in line
    admin.create_topics({"mistyped": 1})
    look_at_the_target(options, admin)
    assert len(caplog.messages) == 1
    admin.delete_topics(["mistyped"])
    look_at_the_target(options, admin)
    assert len(caplog.messages) == 2


def test_a_topic_that_was_made_anew_is_told(
    broker: TestBroker, admin: sync.Admin, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream went on into a topic that its own record had made, with other settings."""
    admin.create_topics({"anew": 2})
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "anew"})
    look_at_the_target(options, admin)
    admin.delete_topics(["anew"])
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
        producer.send_and_wait("anew", b"1")
    for _ in range(2):
        look_at_the_target(options, admin)
    (line,) = caplog.messages
    assert "the topic 'anew' was deleted and made anew" in line
    assert "it has 3 partitions (before: 2 partitions)" in line


def test_where_the_broker_makes_none_that_is_told(
    admin: sync.Admin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sync.Admin, "describe_broker_configs", lambda _: {"auto.create.topics.enable": "false"})
    look_at_the_target(sink_options({"bootstrap.servers": "h:1", "topic": "none"}), admin)
    assert "is not there, and the broker makes none" in caplog.text


@pytest.mark.parametrize("given", [{"topic": "bad name"}, {}])
def test_what_cannot_be_looked_at_is_left_to_who_writes(
    admin: sync.Admin, caplog: pytest.LogCaptureFixture, given: dict[str, str]
) -> None:
    look_at_the_target(sink_options({"bootstrap.servers": "h:1", **given}), admin)
    assert caplog.messages == []


@pytest.mark.parametrize("kind", ["writer", "streamWriter"])
def test_a_write_looks_when_it_is_planned_and_not_for_each_batch(
    broker: TestBroker, admin: sync.Admin, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, kind: str
) -> None:
    monkeypatch.setattr(data_source, "_looked_s", RecentlyUsed(256))
    own = {"checkpointLocation": "c"} if kind == "streamWriter" else {}
    source = DefaultSource({"topic": f"planned-{kind}", "kafka.bootstrap.servers": broker.bootstrap_servers, **own})
    looks: list[str] = []
    describe = sync.Admin.describe_topics
    monkeypatch.setattr(sync.Admin, "describe_topics", lambda *of: (looks.append(kind), describe(*of))[1])
    for _ in range(2):
        getattr(source, kind)(StructType([StructField("value", BinaryType())]), False)
    close_admins()
    assert (looks, caplog.text.count(f"the topic 'planned-{kind}' is not there")) == ([kind], 1)
    assert f"planned-{kind}" not in admin.list_topics(), "looking makes none"
