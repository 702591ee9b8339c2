"""Where groups go on: positions out of the log, deleted and compacted sides, transactions that may still move them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from oncelog import TopicPartition, sync
from oncelog.testing import TestBroker
from tests.cli.migrate.test_migrate import migrate, read, topic_of, write

switching = pytest.importorskip("oncelog.cli.migrate.switching", reason="needs pyarrow")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(switching, "STILL_MS", 50)


@pytest.fixture(scope="module")
def brokers() -> Iterator[tuple[str, str]]:
    quick = {"log.cleaner.backoff.ms": "5"}
    with TestBroker(config=quick) as source, TestBroker() as destination:
        yield source.bootstrap_servers, destination.bootstrap_servers


def positions(bootstrap: str, group: str, topic: str) -> dict[int, int]:
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        found = admin.list_consumer_group_offsets(group)
    return {tp.partition: at.offset for tp, at in found.items() if tp.topic == topic}


def stand(bootstrap: str, group: str, topic: str, *offsets: int) -> None:
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        admin.alter_consumer_group_offsets(group, {TopicPartition(topic, i): at for i, at in enumerate(offsets)})


def delete_below(bootstrap: str, topic: str, *offsets: int) -> None:
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        admin.delete_records({TopicPartition(topic, i): at for i, at in enumerate(offsets)})


def next_values(bootstrap: str, topic: str, at: dict[int, int], timeout_ms: int = 10_000) -> dict[int, bytes | None]:
    found: dict[int, bytes | None] = {}
    with sync.Consumer(bootstrap_servers=bootstrap, isolation_level="read_committed") as consumer:
        for partition, offset in at.items():
            consumer.assign([TopicPartition(topic, partition)])
            consumer.seek(TopicPartition(topic, partition), offset)
            records = consumer.poll(timeout_ms=timeout_ms)
            found[partition] = records[0].value if records else None
    return found


def test_positions_that_are_not_in_the_log_any_more(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    topic_of(source, "trimmed")
    write(source, "trimmed", 40)  # 20 in each partition, and a marker
    stand(source, "behind", "trimmed", 3, 12)
    stand(source, "beyond", "trimmed", 20, 900)
    delete_below(source, "trimmed", 10, 10)
    status, found, said = migrate(source, destination, "trimmed", "--switch")
    assert (status, found["verdict"]) == (0, "exact"), said
    assert next_values(destination, "trimmed", positions(destination, "behind", "trimmed")) == {0: b"v20", 1: b"v25"}
    assert next_values(destination, "trimmed", positions(destination, "beyond", "trimmed"), 200) == {0: None, 1: None}
    words = {(each["group"], each["partition"]): each["why"] for each in found["groups"]}
    assert words["behind", 0] == "the source deleted records below 10"
    assert words["beyond", 1] == "it stood beyond the source's end, 21"


def test_a_group_that_comes_after_either_side_deleted_records(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    topic_of(source, "later")
    write(source, "later", 40)
    stand(source, "in-time", "later", 15, 15)
    with sync.Consumer("later", bootstrap_servers=source, group_id="slow", enable_auto_commit=False) as consumer:
        consumer.poll(timeout_ms=2000)
        consumer.commit({TopicPartition("later", 0): 1, TopicPartition("later", 1): 1})
        status, found, said = migrate(source, destination, "later", "--switch", "--group-timeout", "0s")
        assert (status, found["verdict"]) == (1, "groups wait"), said
        consumer.commit({TopicPartition("later", 0): 12, TopicPartition("later", 1): 4})
    delete_below(source, "later", 2, 2)
    delete_below(destination, "later", 6, 6)
    status, found, said = migrate(source, destination, "later", "--switch")
    assert (status, found["verdict"]) == (0, "exact"), said
    assert next_values(destination, "later", positions(destination, "slow", "later")) == {0: b"v24", 1: b"v13"}
    assert [(each["source_records"], each["deleted_records"]) for each in found["partitions"]] == [(14, 4), (14, 4)]
    assert "4 records deleted at one side since, not compared" in said
    words = {(each["group"], each["partition"]): each["why"] for each in found["groups"]}
    assert (
        words["slow", 1] == "moved before"
        or words["slow", 1] == "the destination deleted 2 records that it had not read"
    )


def test_a_topic_that_the_source_compacted_since_is_moved(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    compact = {"cleanup.policy": "compact", "segment.ms": "1", "min.cleanable.dirty.ratio": "0.0"}
    topic_of(source, "table", 1, **compact)
    with sync.Producer(bootstrap_servers=source) as producer:
        for at in range(60):
            producer.send("table", b"v%d" % at, b"k%d" % (at % 4), partition=0)
    stand(source, "readers", "table", 20)
    assert migrate(source, destination, "table")[0] == 0
    with sync.Producer(bootstrap_servers=source) as producer:
        for at in range(60, 100):
            producer.send_and_wait("table", b"v%d" % at, b"other", partition=0)
            seen = [each[1] for each in read(source, "table")[0]]
            if seen and seen[-1] == b"v%d" % at and len(seen) < 10:
                break
    status, found, said = migrate(source, destination, "table", "--switch")
    assert (status, found["verdict"]) == (0, "exact"), said
    assert found["partitions"][0]["is_same_table"] is True
    assert "compared is the last record of each key" in said
    assert next_values(destination, "table", positions(destination, "readers", "table")) == {0: b"v56"}


def test_a_transaction_that_may_move_a_position_holds_its_group_only(brokers: tuple[str, str]) -> None:
    source, destination = brokers
    for name in ("input", "output"):
        topic_of(source, name)
    write(source, "input", 10)
    stand(source, "settled", "input", 2, 2)
    with sync.Producer(bootstrap_servers=source, transactional_id="copier") as producer:
        producer.begin_transaction()
        producer.send("output", b"1", partition=0)
        producer.send_offsets_to_transaction({TopicPartition("input", 0): 3}, "copiers")
        assert migrate(source, destination, "input", "--dry-run")[0] == 0
        status, found, said = migrate(source, destination, "input", "--switch", "--group-timeout", "0s")
        assert (status, found["verdict"], found["switched"]) == (1, "groups wait", True), said
        assert "group copiers is not moved yet: an open transaction may still move its position in input-0" in said
        assert positions(destination, "settled", "input") == {0: 2, 1: 2}
        producer.commit_transaction()
    status, found, said = migrate(source, destination, "input", "--switch")
    assert (status, found["verdict"]) == (0, "exact"), said
    assert positions(destination, "copiers", "input") == {0: 3}
