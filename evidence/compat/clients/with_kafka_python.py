"""kafka-python 3."""

from __future__ import annotations

import sys
import types

import cramjam
import kafka
import kafka.codec
import kafka.errors
from kafka import OffsetAndMetadata, TopicPartition
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from evidence.compat.clients.checks import CODECS
from evidence.compat.clients.scenario import WAIT_S, Absent, Record, Refused, main

# python-snappy, which kafka-python looks for, is a thin shell around cramjam
kafka.codec.snappy = types.SimpleNamespace(
    compress=lambda data: bytes(cramjam.snappy.compress_raw(data)),
    decompress=lambda data: bytes(cramjam.snappy.decompress_raw(data)),
)


class Producer:
    def __init__(self, config):
        self._producer = kafka.KafkaProducer(**config)
        if "transactional_id" in config:
            self._producer.init_transactions()

    def send(self, topic, partition, value, *, key=None, headers=(), timestamp_ms=None):
        sent = self._producer.send(
            topic, value, key=key, headers=list(headers), partition=partition, timestamp_ms=timestamp_ms
        )
        return sent.get(WAIT_S).offset

    def send_many(self, topic, values):
        for sent in [self._producer.send(topic, value, partition=partition) for partition, value in values]:
            sent.get(WAIT_S)

    def begin(self):
        self._producer.begin_transaction()

    def commit(self):
        self._producer.commit_transaction()

    def abort(self):
        self._producer.abort_transaction()

    def send_offsets(self, consumer):
        inner = consumer.inner
        offsets = {where: OffsetAndMetadata(inner.position(where), "", -1) for where in inner.assignment()}
        self._producer.send_offsets_to_transaction(offsets, inner.group_metadata())

    def close(self):
        self._producer.close(timeout=5)


class Consumer:
    def __init__(self, config, topics=()):
        self.inner = kafka.KafkaConsumer(*topics, **config)

    def poll(self, seconds):
        return [
            Record(each.partition, each.offset, each.key, each.value, list(each.headers), each.timestamp)
            for records in self.inner.poll(timeout_ms=int(seconds * 1000)).values()
            for each in records
        ]

    def assignment(self):
        return {each.partition for each in self.inner.assignment()}

    def seek(self, topic, partition, offset):
        self.inner.seek(TopicPartition(topic, partition), offset)

    def begin_end(self, topic, partition):
        where = TopicPartition(topic, partition)
        return self.inner.beginning_offsets([where])[where], self.inner.end_offsets([where])[where]

    def offset_at(self, topic, partition, timestamp_ms):
        where = TopicPartition(topic, partition)
        return self.inner.offsets_for_times({where: timestamp_ms})[where].offset

    def commit(self):
        self.inner.commit()

    def committed(self, topic, partition):
        return self.inner.committed(TopicPartition(topic, partition))

    def close(self):
        self.inner.close()


class Client:
    codecs = CODECS

    def __init__(self, bootstrap):
        self._bootstrap = {"bootstrap_servers": bootstrap}
        self._admin = KafkaAdminClient(**self._bootstrap)

    def producer(self, transactional_id=None, codec="none"):
        config = {"enable_idempotence": True, "compression_type": None if codec == "none" else codec}
        if transactional_id is not None:
            config["transactional_id"] = transactional_id
        return Producer(self._bootstrap | config)

    def _consumer(self, topics=(), **config):
        default = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        return Consumer(self._bootstrap | default | config, topics)

    def assigned(self, topic, partitions, isolation_level):
        consumer = self._consumer(isolation_level=isolation_level)
        consumer.inner.assign([TopicPartition(topic, index) for index in range(partitions)])
        return consumer

    def member(self, topic, group, protocol="classic"):
        if protocol != "classic":
            raise Absent("no KIP-848 in this client")
        config = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300, "isolation_level": "read_committed"}
        return self._consumer([topic], group_id=group, **config)

    def create_topic(self, topic, partitions, configs):
        options = {"num_partitions": partitions, "replication_factor": 1, "configs": configs}
        try:
            self._admin.create_topics({topic: options})
        except kafka.errors.BrokerResponseError as error:
            raise Refused(error.errno) from error

    def list_topics(self):
        return set(self._admin.list_topics())

    def partition_count(self, topic):
        return len(self._admin.describe_topics([topic])[0]["partitions"])

    def create_partitions(self, topic, count):
        self._admin.create_partitions({topic: count})

    def delete_topic(self, topic):
        self._admin.delete_topics([topic])

    def _configs(self, kind, name):
        described = self._admin.describe_configs([ConfigResource(kind, name)], config_filter="all")
        return {key: config["value"] for key, config in described[kind.name.lower()][name].items()}

    def topic_configs(self, topic):
        return self._configs(ConfigResourceType.TOPIC, topic)

    def broker_configs(self):
        return self._configs(ConfigResourceType.BROKER, str(self._admin.describe_cluster()["brokers"][0]["broker_id"]))

    def alter_topic_config(self, topic, name, value):
        self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})])

    def list_groups(self):
        return {each["group_id"] for each in self._admin.list_groups()}

    def group_state(self, group):
        return self._admin.describe_groups([group])[group]["group_state"]

    def delete_group(self, group):
        self._admin.delete_groups([group])

    def delete_records(self, topic, partition, before_offset):
        self._admin.delete_records({TopicPartition(topic, partition): before_offset})

    def close(self):
        self._admin.close()


if __name__ == "__main__":
    sys.exit(main(Client))
