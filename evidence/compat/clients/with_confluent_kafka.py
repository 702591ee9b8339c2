"""confluent-kafka (librdkafka)."""

from __future__ import annotations

import contextlib
import sys

import confluent_kafka
from confluent_kafka import KafkaException, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
    ResourceType,
)

from evidence.compat.clients.checks import CODECS
from evidence.compat.clients.scenario import WAIT_S, Record, Refused, main


def refusing(future):
    """The result of a future; the broker's error as Refused."""
    try:
        return future.result(WAIT_S)
    except KafkaException as error:
        raise Refused(error.args[0].code()) from error


class Producer:
    def __init__(self, config):
        self._producer = confluent_kafka.Producer(config)
        if "transactional.id" in config:
            self._producer.init_transactions(WAIT_S)

    def _flush(self, deliveries):
        assert self._producer.flush(WAIT_S) == 0, "not everything was delivered"
        errors = [error for error, _ in deliveries if error]
        if errors:
            raise KafkaException(errors[0])

    def send(self, topic, partition, value, *, key=None, headers=(), timestamp_ms=None):
        deliveries = []
        more = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
        self._producer.produce(
            topic, value, key, partition, on_delivery=lambda *d: deliveries.append(d), headers=list(headers), **more
        )
        self._flush(deliveries)
        return deliveries[0][1].offset()

    def send_many(self, topic, values):
        deliveries = []
        for partition, value in values:
            self._producer.produce(topic, value, partition=partition, on_delivery=lambda *d: deliveries.append(d))
        self._flush(deliveries)

    def begin(self):
        self._producer.begin_transaction()

    def commit(self):
        self._producer.commit_transaction(WAIT_S)

    def abort(self):
        self._producer.abort_transaction(WAIT_S)

    def send_offsets(self, consumer):
        inner = consumer.inner
        self._producer.send_offsets_to_transaction(
            inner.position(inner.assignment()), inner.consumer_group_metadata(), WAIT_S
        )

    def close(self):
        with contextlib.suppress(KafkaException):  # a fenced one says so once more
            self._producer.close()


class Consumer:
    def __init__(self, config):
        self.inner = confluent_kafka.Consumer(config)

    def poll(self, seconds):
        records, message = [], self.inner.poll(seconds)
        while message is not None:
            if message.error():
                raise KafkaException(message.error())
            records.append(
                Record(
                    message.partition(),
                    message.offset(),
                    message.key(),
                    message.value(),
                    message.headers() or [],
                    message.timestamp()[1],
                )
            )
            message = self.inner.poll(0)
        return records

    def assignment(self):
        return {each.partition for each in self.inner.assignment()}

    def seek(self, topic, partition, offset):
        self.inner.assign([TopicPartition(topic, partition, offset)])

    def begin_end(self, topic, partition):
        return self.inner.get_watermark_offsets(TopicPartition(topic, partition), WAIT_S, cached=False)

    def offset_at(self, topic, partition, timestamp_ms):
        return self.inner.offsets_for_times([TopicPartition(topic, partition, timestamp_ms)], WAIT_S)[0].offset

    def commit(self):
        self.inner.commit(asynchronous=False)

    def committed(self, topic, partition):
        return self.inner.committed([TopicPartition(topic, partition)], WAIT_S)[0].offset

    def close(self):
        self.inner.close()


class Client:
    codecs = CODECS

    def __init__(self, bootstrap):
        self._bootstrap = {"bootstrap.servers": bootstrap}
        self._admin = AdminClient(self._bootstrap)

    def producer(self, transactional_id=None, codec="none"):
        config = {"enable.idempotence": True, "compression.type": codec, "linger.ms": 5}
        if transactional_id is not None:
            config["transactional.id"] = transactional_id
        return Producer(self._bootstrap | config)

    def _consumer(self, **config):
        default = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "group.id": "unused"}
        return Consumer(self._bootstrap | default | {key.replace("_", "."): value for key, value in config.items()})

    def assigned(self, topic, partitions, isolation_level):
        consumer = self._consumer(isolation_level=isolation_level)
        consumer.inner.assign([TopicPartition(topic, index, 0) for index in range(partitions)])
        return consumer

    def member(self, topic, group, protocol="classic"):
        config = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300} if protocol == "classic" else {}
        consumer = self._consumer(group_id=group, group_protocol=protocol, isolation_level="read_committed", **config)
        consumer.inner.subscribe([topic])
        return consumer

    def create_topic(self, topic, partitions, configs):
        refusing(self._admin.create_topics([NewTopic(topic, partitions, 1, config=configs)])[topic])

    def list_topics(self):
        return set(self._admin.list_topics(timeout=WAIT_S).topics)

    def partition_count(self, topic):
        return len(self._admin.list_topics(topic, WAIT_S).topics[topic].partitions)

    def create_partitions(self, topic, count):
        refusing(self._admin.create_partitions([NewPartitions(topic, count)])[topic])

    def delete_topic(self, topic):
        refusing(self._admin.delete_topics([topic])[topic])

    def _configs(self, kind, name):
        (future,) = self._admin.describe_configs([ConfigResource(kind, name)]).values()
        return {name: entry.value for name, entry in refusing(future).items()}

    def topic_configs(self, topic):
        return self._configs(ResourceType.TOPIC, topic)

    def broker_configs(self):
        return self._configs(ResourceType.BROKER, str(next(iter(self._admin.list_topics(timeout=WAIT_S).brokers))))

    def alter_topic_config(self, topic, name, value):
        entry = ConfigEntry(name, value, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        (future,) = self._admin.incremental_alter_configs([resource]).values()
        refusing(future)

    def list_groups(self):
        return {each.group_id for each in refusing(self._admin.list_consumer_groups()).valid}

    def group_state(self, group):
        return refusing(self._admin.describe_consumer_groups([group])[group]).state.name.capitalize()

    def delete_group(self, group):
        refusing(self._admin.delete_consumer_groups([group])[group])

    def delete_records(self, topic, partition, before_offset):
        (future,) = self._admin.delete_records([TopicPartition(topic, partition, before_offset)]).values()
        refusing(future)

    def close(self):
        pass


if __name__ == "__main__":
    sys.exit(main(Client))
