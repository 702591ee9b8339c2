"""Our own clients, doing what the others do."""

from __future__ import annotations

import sys

from evidence.compat.clients.checks import CODECS
from evidence.compat.clients.scenario import Absent, Record, Refused, main
from oncelog import TopicPartition, sync
from oncelog.errors import ConfigurationError, KafkaError


class Producer:
    def __init__(self, config):
        self._producer = sync.Producer(**config)
        self._producer.start()

    def send(self, topic, partition, value, *, key=None, headers=(), timestamp_ms=None):
        more = {"key": key, "headers": list(headers), "timestamp_ms": timestamp_ms}
        return self._producer.send_and_wait(topic, value, partition=partition, **more).offset

    def send_many(self, topic, values):
        for sent in [self._producer.send(topic, value, partition=partition) for partition, value in values]:
            sent.result()

    def begin(self):
        self._producer.begin_transaction()

    def commit(self):
        self._producer.commit_transaction()

    def abort(self):
        self._producer.abort_transaction()

    def send_offsets(self, consumer):
        inner = consumer.inner
        self._producer.send_offsets_to_transaction(inner.current_positions(), inner.group_metadata())

    def close(self):
        self._producer.stop()


class Consumer:
    def __init__(self, topics, config):
        self.inner = sync.Consumer(*topics, **config)
        self.inner.start()

    def poll(self, seconds):
        return [
            Record(
                each.partition,
                each.offset,
                each.key,
                each.value,
                [(name, value or b"") for name, value in each.headers],
                each.timestamp_ms,
            )
            for each in self.inner.poll(int(seconds * 1000))
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
        found = self.inner.offsets_for_times({where: timestamp_ms})[where]
        return getattr(found, "offset", found)

    def commit(self):
        self.inner.commit()

    def committed(self, topic, partition):
        where = TopicPartition(topic, partition)
        found = self.inner.committed([where])[where]
        return getattr(found, "offset", found)

    def close(self):
        self.inner.stop()


class Client:
    codecs = CODECS

    def __init__(self, bootstrap):
        self._bootstrap = {"bootstrap_servers": bootstrap}
        self._admin = sync.Admin(**self._bootstrap)
        self._admin.start()

    def producer(self, transactional_id=None, codec="none"):
        return Producer(self._bootstrap | {"transactional_id": transactional_id, "compression_type": codec})

    def _consumer(self, topics=(), **config):
        default = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        return Consumer(topics, self._bootstrap | default | config)

    def assigned(self, topic, partitions, isolation_level):
        consumer = self._consumer(isolation_level=isolation_level)
        consumer.inner.assign([TopicPartition(topic, index) for index in range(partitions)])
        return consumer

    def member(self, topic, group, protocol="classic"):
        config = {"isolation_level": "read_committed"}
        if protocol == "classic":
            config |= {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300}
        else:
            config |= {"group_protocol": protocol}
        try:
            return self._consumer([topic], group_id=group, **config)
        except ConfigurationError as error:
            raise Absent("no KIP-848 in this client") from error

    def create_topic(self, topic, partitions, configs):
        try:
            self._admin.create_topics({topic: {"partitions": partitions, "configs": configs}})
        except KafkaError as error:
            raise Refused(int(error.code)) from error

    def list_topics(self):
        return set(self._admin.list_topics())

    def partition_count(self, topic):
        return len(self._admin.describe_topics([topic])[topic].partitions)

    def create_partitions(self, topic, count):
        self._admin.create_partitions({topic: count})

    def delete_topic(self, topic):
        self._admin.delete_topics([topic])

    def topic_configs(self, topic):
        ((_, configs),) = self._admin.describe_configs([("topic", topic)]).items()
        return {name: entry.value for name, entry in configs.items()}

    def broker_configs(self):
        return self._admin.describe_broker_configs()

    def alter_topic_config(self, topic, name, value):
        self._admin.alter_configs({("topic", topic): {name: value}})

    def list_groups(self):
        return {each.group_id for each in self._admin.list_groups()}

    def group_state(self, group):
        return self._admin.describe_groups([group])[group].state

    def delete_group(self, group):
        self._admin.delete_groups([group])

    def delete_records(self, topic, partition, before_offset):
        self._admin.delete_records({TopicPartition(topic, partition): before_offset})

    def close(self):
        self._admin.stop()


if __name__ == "__main__":
    sys.exit(main(Client))
