"""confluent-kafka (librdkafka): the transaction APIs in versions 0 to 4, from its own producer and consumer."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from evidence.differential.connection import Connection
from oncelog.wire.record_batch import batches

pytestmark = pytest.mark.compat
WAIT_S = 60  # for a hang


class Clients:
    """Makes clients of one broker and closes them."""

    def __init__(self, bootstrap_servers, name):
        self.common = {"bootstrap.servers": bootstrap_servers}
        self.name = name
        self.admin = AdminClient(self.common)

    def topic(self, partitions=1, **configs):
        asked = NewTopic(self.name, partitions, 1, config={k.replace("_", "."): v for k, v in configs.items()})
        self.admin.create_topics([asked])[self.name].result(WAIT_S)
        return self.name

    def producer(self, transactional_id=None, **config):
        if transactional_id:
            config["transactional.id"] = f"{self.name}-{transactional_id}"
        producer = confluent_kafka.Producer(self.common | {"linger.ms": 0} | config)
        if transactional_id:
            producer.init_transactions(WAIT_S)
        return producer

    def consumer(self, isolation_level="read_committed", **config):
        return confluent_kafka.Consumer(
            self.common
            | {
                "group.id": f"{self.name}-reader",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": isolation_level,
            }
            | config
        )

    def read(self, topic, count, isolation_level="read_committed", partitions=1):
        """Exactly `count` values come, and then the end of every partition."""
        consumer = self.consumer(isolation_level, **{"enable.partition.eof": True})
        consumer.assign([confluent_kafka.TopicPartition(topic, index, 0) for index in range(partitions)])
        values, at_end, deadline = [], set(), time.monotonic() + WAIT_S
        try:
            while (len(values) < count or len(at_end) < partitions) and time.monotonic() < deadline:
                message = consumer.poll(0.5)
                if message is None:
                    continue
                if message.error() is None:
                    values.append(message.value().decode())
                    at_end.discard(message.partition())
                    continue
                assert message.error().code() == confluent_kafka.KafkaError._PARTITION_EOF, message.error()
                at_end.add(message.partition())
        finally:
            consumer.close()
        return sorted(values) if partitions > 1 else values


@pytest.fixture
def clients(bootstrap_servers, name):
    return Clients(bootstrap_servers, name)


def send(producer, topic, *values, partition=0):
    failures = []
    for value in values:
        producer.produce(
            topic, value, partition=partition, on_delivery=lambda error, _: failures.append(error) if error else None
        )
    assert producer.flush(WAIT_S) == 0
    return failures


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_records_come_back_as_they_were_sent(clients, codec):
    topic = clients.topic()
    producer = clients.producer(**{"compression.type": codec, "enable.idempotence": True})
    headers = [("h", b"1"), ("none", None)]
    producer.produce(topic, b"v" * 2000, key=b"k", headers=headers, timestamp=1_700_000_000_000)
    producer.flush(WAIT_S)
    consumer = clients.consumer()
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    message = consumer.poll(WAIT_S)
    assert (message.key(), message.value(), message.headers()) == (b"k", b"v" * 2000, headers)
    assert message.timestamp() == (confluent_kafka.TIMESTAMP_CREATE_TIME, 1_700_000_000_000)
    consumer.close()


@pytest.mark.parametrize("wanted", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_a_topic_has_a_compression_of_its_own(clients, wanted):
    """librdkafka reads what the broker compressed anew, from every codec, in and out of transactions."""
    topic = clients.topic(compression_type=wanted)
    expected = []
    for codec in ("none", "gzip", "snappy", "lz4", "zstd"):
        producer = clients.producer(codec, **{"compression.type": codec})
        for verb in (producer.abort_transaction, producer.commit_transaction):
            producer.begin_transaction()
            values = [f"{codec}{index}" + "x" * 2000 for index in range(3)]
            assert send(producer, topic, *values) == []
            verb(WAIT_S)
        expected += values
    assert clients.read(topic, 15) == expected
    assert len(clients.read(topic, 30, "read_uncommitted")) == 30
    host, _, port = clients.common["bootstrap.servers"].rpartition(":")
    assert {batch.codec.name for batch in data_batches(host, int(port), topic)} == {
        "NONE" if wanted == "uncompressed" else wanted.upper()
    }


def data_batches(host, port, topic):
    """What the log has, markers left out."""
    connection = Connection(host, port)
    asked = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 24}
    fields = {"max_bytes": 1 << 24, "topics": [{"topic": topic, "partitions": [asked]}]}
    try:
        found = connection.call("Fetch", 12, fields).responses[0].partitions[0]
    finally:
        connection.close()
    return [batch for batch in batches(found.records) if not batch.is_control]


def test_commit_shows_records_and_abort_hides_them(clients):
    topic = clients.topic(2)
    producer = clients.producer("p")
    for index in range(6):
        producer.begin_transaction()
        for partition in (0, 1):
            assert send(producer, topic, str(index), partition=partition) == []
        if index % 3 == 1:
            producer.abort_transaction(WAIT_S)
        else:
            producer.commit_transaction(WAIT_S)
    assert clients.read(topic, 8, partitions=2) == ["0", "0", "2", "2", "3", "3", "5", "5"]
    assert len(clients.read(topic, 12, "read_uncommitted", partitions=2)) == 12


def test_interleaved_aborts_are_told_apart(clients):
    topic = clients.topic()
    a, b, plain = clients.producer("a"), clients.producer("b"), clients.producer()
    for index in range(4):
        a.begin_transaction()
        b.begin_transaction()
        for part in ("x", "y"):
            for producer, who in ((a, "a"), (b, "b"), (plain, "p")):
                assert send(producer, topic, f"{who}{index}{part}") == []
        (a.commit_transaction if index % 2 else a.abort_transaction)(WAIT_S)
        (b.abort_transaction if index % 2 else b.commit_transaction)(WAIT_S)
    expected = [f"{who}{i}{part}" for i in range(4) for part in "xy" for who in ("ap" if i % 2 else "bp")]
    assert clients.read(topic, 16) == expected


def test_a_newer_instance_fences_the_older(clients):
    topic = clients.topic()
    older = clients.producer("p")
    older.begin_transaction()
    assert send(older, topic, "older") == []
    newer = clients.producer("p")
    with pytest.raises(confluent_kafka.KafkaException) as failed:
        older.commit_transaction(WAIT_S)
    assert failed.value.args[0].fatal()
    newer.begin_transaction()
    assert send(newer, topic, "newer") == []
    newer.commit_transaction(WAIT_S)
    assert clients.read(topic, 1) == ["newer"]


def test_a_timed_out_transaction_is_aborted(clients):
    topic = clients.topic()
    producer = clients.producer("p", **{"transaction.timeout.ms": 1000, "message.timeout.ms": 1000})
    producer.begin_transaction()
    send(producer, topic, "late")  # on a busy machine its second may be over before it is delivered
    plain = clients.producer()
    assert send(plain, topic, "after") == []
    assert clients.read(topic, 1) == ["after"]
    with pytest.raises(confluent_kafka.KafkaException):
        producer.commit_transaction(WAIT_S)


def test_consume_transform_produce_moves_offsets_with_the_records(clients):
    """Offsets in the transaction: after an abort the next one reads the same records again (KIP-447)."""
    topic = clients.topic(2)
    assert send(clients.producer(), topic, *(str(index) for index in range(20))) == []
    consumer, producer = clients.consumer(), clients.producer("p")
    consumer.subscribe([topic])
    for commits in (False, True, True):
        taken = consumer.consume(10, WAIT_S)
        producer.begin_transaction()
        assert send(producer, topic, *(f"out {m.value().decode()}" for m in taken), partition=1) == []
        positions = consumer.position([confluent_kafka.TopicPartition(topic, 0)])
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), WAIT_S)
        if commits:
            producer.commit_transaction(WAIT_S)
        else:
            producer.abort_transaction(WAIT_S)
            consumer.seek(confluent_kafka.TopicPartition(topic, 0, 0))
    consumer.close()
    outputs = [value for value in clients.read(topic, 40, partitions=2) if value.startswith("out")]
    assert outputs == sorted(f"out {index}" for index in range(20))
    stored = clients.consumer().committed([confluent_kafka.TopicPartition(topic, 0)], WAIT_S)
    assert stored[0].offset == 20


def test_admin(clients):
    topic = clients.topic(2, cleanup_policy="compact")
    described = clients.admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)])
    (configs,) = [future.result(WAIT_S) for future in described.values()]
    assert configs["cleanup.policy"].value == "compact"
    metadata = clients.admin.list_topics(topic, WAIT_S)
    assert len(metadata.topics[topic].partitions) == 2
    clients.admin.delete_topics([topic])[topic].result(WAIT_S)
    with pytest.raises(confluent_kafka.KafkaException):
        clients.admin.create_topics([NewTopic("no such name!", 1, 1)])["no such name!"].result(WAIT_S)


def test_configs_of_a_topic_a_broker_and_a_group_are_altered(clients):
    """What librdkafka's admin test (0081) asks, in its order: the broker's key is one that has no effect here."""
    topic, unknown = clients.topic(), f"{clients.name}-unknown"
    key = "sasl.kerberos.min.time.before.relogin"
    wanted = {
        (ResourceType.TOPIC, topic): {"compression.type": "gzip", "flush.ms": "12345678"},
        (ResourceType.BROKER, "1"): {key: "58000"},
        (ResourceType.TOPIC, unknown): {"compression.type": "lz4", "flush.ms": "3600000"},
        (ResourceType.GROUP, f"{clients.name}-group"): {"consumer.session.timeout.ms": "50000"},
    }

    def outcomes(futures):
        found = {}
        for asked, future in futures.items():
            error = future.exception(WAIT_S)
            found[asked.restype, asked.name] = error and error.args[0].code()
        return found

    expected = dict.fromkeys(wanted) | {(ResourceType.TOPIC, unknown): confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART}
    whole = [ConfigResource(kind, name, set_config=configs) for (kind, name), configs in wanted.items()][:3]
    with pytest.warns(DeprecationWarning, match="alter_configs"):
        altered = clients.admin.alter_configs(whole)
    assert outcomes(altered) == dict(list(expected.items())[:3])
    each = [
        ConfigResource(
            kind,
            name,
            incremental_configs=[
                ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET)
                for config, value in configs.items()
            ],
        )
        for (kind, name), configs in wanted.items()
    ]
    assert outcomes(clients.admin.incremental_alter_configs(each)) == expected
    for (kind, name), configs in wanted.items():
        if name != unknown:
            asked = ConfigResource(kind, name)
            described = clients.admin.describe_configs([asked])[asked].result(WAIT_S)
            assert {config: described[config].value for config in configs} == configs
    gone = ConfigEntry(key, None, incremental_operation=AlterConfigOpType.DELETE)
    taken_back = [ConfigResource(ResourceType.BROKER, "1", incremental_configs=[gone])]
    assert outcomes(clients.admin.incremental_alter_configs(taken_back)) == {(ResourceType.BROKER, "1"): None}
