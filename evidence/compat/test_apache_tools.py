"""Apache Kafka's own tools and Java clients against a running oncelog: administration, transactions of TV2, groups."""

from __future__ import annotations

import json

import pytest

from evidence.compat.apache import ApacheTools, find_launcher
from oncelog import sync

pytestmark = [pytest.mark.compat, pytest.mark.slow]


@pytest.fixture(scope="module")
def tools(bootstrap_servers):
    return ApacheTools(find_launcher(), bootstrap_servers)


@pytest.fixture
def topic(tools, name):
    tools("TopicCommand", "--create", "--topic", name, "--partitions", 2, "--replication-factor", 1)
    return name


def read(tools, topic, count, *options):
    """`count` records by the console consumer, which must then find no more."""
    lines = tools(
        "consumer.ConsoleConsumer", "--topic", topic, "--from-beginning", "--isolation-level", "read_committed",
        "--timeout-ms", 5000, *options,
    )  # fmt: skip
    assert len(lines) == count
    return lines


def columns(lines):
    """A table as dictionaries."""
    heads, *rows = [line.split() for line in lines if line.strip()]
    return [dict(zip(heads, row, strict=False)) for row in rows]


def test_topics(tools, name):
    config = ("--config", "cleanup.policy=compact")
    tools("TopicCommand", "--create", "--topic", name, "--partitions", 3, "--replication-factor", 1, *config)
    tools("TopicCommand", "--create", "--topic", name, "--partitions", 3, status=1)
    assert name in tools("TopicCommand", "--list")
    tools("TopicCommand", "--alter", "--topic", name, "--partitions", 5)
    described = tools("TopicCommand", "--describe", "--topic", name)
    assert "PartitionCount: 5" in described[0]
    assert "cleanup.policy=compact" in described[0]
    assert len(described) == 6
    tools("TopicCommand", "--delete", "--topic", name)
    assert name not in tools("TopicCommand", "--list")


def test_configs(tools, topic):
    where = ("--entity-type", "topics", "--entity-name", topic)
    tools("kafka.admin.ConfigCommand", "--alter", *where, "--add-config", "retention.ms=123456")
    described = tools("kafka.admin.ConfigCommand", "--describe", *where)
    assert any("retention.ms=123456" in line for line in described)
    tools("kafka.admin.ConfigCommand", "--alter", *where, "--delete-config", "retention.ms")
    assert not any("retention.ms" in line for line in tools("kafka.admin.ConfigCommand", "--describe", *where))
    broker = tools("kafka.admin.ConfigCommand", "--describe", "--entity-type", "brokers", "--entity-name", 1, "--all")
    assert any("transactional.id.expiration.ms" in line for line in broker)


def test_features(tools):
    described = {line.split()[1]: line for line in tools("FeatureCommand", "describe") if line.startswith("Feature:")}
    assert "FinalizedVersionLevel: 3" in described["transaction.version"]
    tools("FeatureCommand", "downgrade", "--feature", "transaction.version=2")
    tools("FeatureCommand", "upgrade", "--feature", "transaction.version=3")
    tools("FeatureCommand", "upgrade", "--feature", "transaction.version=9", status=1)


def test_console_producer_and_consumer(tools, topic):
    tools("ConsoleProducer", "--topic", topic, text="one\ntwo\nthree\n")
    assert sorted(read(tools, topic, 3)) == ["one", "three", "two"]
    offsets = [line.rsplit(":", 1)[1] for line in tools("GetOffsetShell", "--topic", topic)]
    assert sum(map(int, offsets)) == 3


def test_idempotent_producer_in_java(tools, topic):
    said = [json.loads(line) for line in tools("VerifiableProducer", "--topic", topic, "--max-messages", 50)]
    assert sum(each["name"] == "producer_send_success" for each in said) == 50
    assert len(read(tools, topic, 50)) == 50


def test_transactions_of_the_newest_protocol_in_java(tools, topic):
    """The performance producer commits every 50 ms: Produce v13, EndTxn v5, an epoch per transaction (KIP-890)."""
    options = ("--transaction-duration-ms", 50, "--throughput", 20000)
    tools("ProducerPerformance", "--topic", topic, "--num-records", 4000, "--record-size", 100, "--transactional-id",
          topic, *options)  # fmt: skip
    read(tools, topic, 4000)
    (described,) = columns(tools("TransactionsCommand", "describe", "--transactional-id", topic))
    assert described["TransactionState"] == "CompleteCommit"
    assert int(described["ProducerEpoch"]) >= 2, "each transaction has its own epoch"


def test_consume_transform_produce_in_java_with_aborts(tools, bootstrap_servers, topic):
    """Kafka's own copier: offsets in transactions, a third of them aborted; everything arrives exactly once."""
    tools("VerifiableProducer", "--topic", topic, "--max-messages", 400)
    copied = f"{topic}-copied"
    tools("TopicCommand", "--create", "--topic", copied, "--partitions", 2)
    copier = ApacheTools(find_launcher())
    said = copier(
        "TransactionalMessageCopier", "--broker-list", bootstrap_servers, "--input-topic", topic, "--input-partition",
        0, "--output-topic", copied, "--max-messages", 400, "--consumer-group", f"{topic}-copier",
        "--transaction-size", 20, "--transactional-id", f"{topic}-copier", "--enable-random-aborts", "--group-mode",
    )  # fmt: skip
    assert json.loads(said[-1])["remaining"] == 0
    assert sorted(map(int, read(tools, copied, 400))) == list(range(400))
    group = columns(tools("consumer.group.ConsumerGroupCommand", "--describe", "--group", f"{topic}-copier")[1:])
    assert {row["LAG"] for row in group if row.get("TOPIC") == topic} == {"0"}


def test_groups(tools, topic):
    tools("VerifiableProducer", "--topic", topic, "--max-messages", 20)
    group = f"{topic}-g"
    read(tools, topic, 20, "--group", group)
    assert group in tools("consumer.group.ConsumerGroupCommand", "--list")
    command = ("consumer.group.ConsumerGroupCommand", "--group", group)
    assert any("Empty" in line for line in tools(*command, "--describe", "--state"))
    tools(*command, "--reset-offsets", "--topic", topic, "--to-earliest", "--execute")
    rows = [line.split() for line in tools(*command, "--describe") if line.startswith(group)]
    assert sorted(row[3] for row in rows) == ["0", "0"]
    tools(*command, "--delete-offsets", "--topic", topic)
    tools(*command, "--delete")
    assert group not in tools("consumer.group.ConsumerGroupCommand", "--list")


def test_transactions_command(tools, bootstrap_servers, topic):
    """KIP-664: see an open transaction, end it, find and abort one that hangs."""
    with sync.Producer(bootstrap_servers=bootstrap_servers, transactional_id=topic) as producer:
        producer.begin_transaction()
        producer.send_and_wait(topic, b"open", partition=1)
        listed = columns(tools("TransactionsCommand", "list"))
        assert {"TransactionalId": topic, "TransactionState": "Ongoing"}.items() <= next(
            row.items() for row in listed if row["TransactionalId"] == topic
        )
        (described,) = columns(tools("TransactionsCommand", "describe", "--transactional-id", topic))
        assert described["TopicPartitions"] == f"{topic}-1"
        partition = ("--topic", topic, "--partition", 1)
        (row,) = columns(tools("TransactionsCommand", "describe-producers", *partition))
        assert row["CurrentTransactionStartOffset"] == "0"
        assert columns(tools("TransactionsCommand", "find-hanging", "--topic", topic)) == []
        tools("TransactionsCommand", "abort", *partition, "--start-offset", 0)
        (row,) = columns(tools("TransactionsCommand", "describe-producers", *partition))
        assert row["CurrentTransactionStartOffset"] == "None"
        tools("TransactionsCommand", "forceTerminateTransaction", "--transactionalId", topic)
    assert read(tools, topic, 0) == []


def test_records_are_deleted(tools, topic, tmp_path):
    tools("ConsoleProducer", "--topic", topic, text="".join(f"{index}\n" for index in range(10)))
    ends = {line.split(":")[1]: int(line.split(":")[2]) for line in tools("GetOffsetShell", "--topic", topic)}
    partition = next(index for index, end in ends.items() if end)
    wanted = {"partitions": [{"topic": topic, "partition": int(partition), "offset": -1}], "version": 1}
    (tmp_path / "offsets.json").write_text(json.dumps(wanted))
    tools("DeleteRecordsCommand", "--offset-json-file", tmp_path / "offsets.json")
    earliest = tools("GetOffsetShell", "--topic", topic, "--time", "earliest")
    assert f"{topic}:{partition}:{ends[partition]}" in earliest


def test_cluster_and_versions(tools):
    assert any(line.startswith("Cluster ID:") for line in tools("ClusterTool", "cluster-id"))
    versions = tools("BrokerApiVersionsCommand")
    assert any("InitProducerId(22)" in line for line in versions)
    assert any("Produce(0): 0 to 13" in line for line in versions)
    assert any(line.strip().startswith('{"') for line in tools("LogDirsCommand", "--describe"))
