"""aiokafka: an event loop of its own, called from outside, so that its background tasks run on between the calls."""

from __future__ import annotations

import asyncio
import sys
import threading

import aiokafka
import aiokafka.errors
from aiokafka import TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from evidence.compat.clients.checks import CODECS
from evidence.compat.clients.scenario import WAIT_S, Absent, Record, Refused, main

LOOP = asyncio.new_event_loop()


def run(work):
    return asyncio.run_coroutine_threadsafe(work, LOOP).result(WAIT_S)


async def make(what, *arguments, **config):
    """Clients want to be made inside the loop."""
    made = what(*arguments, **config)
    await made.start()
    return made


class Producer:
    def __init__(self, config):
        self._producer = run(make(aiokafka.AIOKafkaProducer, **config))

    def send(self, topic, partition, value, *, key=None, headers=(), timestamp_ms=None):
        more = {"key": key, "headers": list(headers), "timestamp_ms": timestamp_ms}
        return run(self._producer.send_and_wait(topic, value, partition=partition, **more)).offset

    def send_many(self, topic, values):
        async def send():
            sent = [await self._producer.send(topic, value, partition=partition) for partition, value in values]
            await asyncio.gather(*sent)

        run(send())

    def begin(self):
        run(self._producer.begin_transaction())

    def commit(self):
        run(self._producer.commit_transaction())

    def abort(self):
        run(self._producer.abort_transaction())

    def send_offsets(self, consumer):
        async def send():
            inner = consumer.inner
            offsets = {where: await inner.position(where) for where in inner.assignment()}
            await self._producer.send_offsets_to_transaction(offsets, consumer.group)

        run(send())

    def close(self):
        run(self._producer.stop())


class Consumer:
    def __init__(self, topics, config):
        self.group = config.get("group_id")
        self.inner = run(make(aiokafka.AIOKafkaConsumer, *topics, **config))

    def poll(self, seconds):
        return [
            Record(each.partition, each.offset, each.key, each.value, list(each.headers), each.timestamp)
            for records in run(self.inner.getmany(timeout_ms=int(seconds * 1000))).values()
            for each in records
        ]

    def assignment(self):
        return {each.partition for each in self.inner.assignment()}

    def seek(self, topic, partition, offset):
        async def seek():
            self.inner.seek(TopicPartition(topic, partition), offset)

        run(seek())

    def begin_end(self, topic, partition):
        where = TopicPartition(topic, partition)
        return run(self.inner.beginning_offsets([where]))[where], run(self.inner.end_offsets([where]))[where]

    def offset_at(self, topic, partition, timestamp_ms):
        where = TopicPartition(topic, partition)
        return run(self.inner.offsets_for_times({where: timestamp_ms}))[where].offset

    def commit(self):
        run(self.inner.commit())

    def committed(self, topic, partition):
        return run(self.inner.committed(TopicPartition(topic, partition)))

    def close(self):
        run(self.inner.stop())


class Client:
    codecs = CODECS

    def __init__(self, bootstrap):
        threading.Thread(target=LOOP.run_forever, daemon=True).start()
        self._bootstrap = {"bootstrap_servers": bootstrap}
        self._admin = run(make(AIOKafkaAdminClient, **self._bootstrap))

    def producer(self, transactional_id=None, codec="none"):
        config = {"enable_idempotence": True, "compression_type": None if codec == "none" else codec}
        if transactional_id is not None:
            config["transactional_id"] = transactional_id
        return Producer(self._bootstrap | config)

    def _consumer(self, topics=(), **config):
        default = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        return Consumer(topics, self._bootstrap | default | config)

    def assigned(self, topic, partitions, isolation_level):
        consumer = self._consumer(isolation_level=isolation_level)

        async def assign():
            consumer.inner.assign([TopicPartition(topic, index) for index in range(partitions)])

        run(assign())
        return consumer

    def member(self, topic, group, protocol="classic"):
        if protocol != "classic":
            raise Absent("no KIP-848 in this client")
        config = {"session_timeout_ms": 6000, "heartbeat_interval_ms": 300, "isolation_level": "read_committed"}
        return self._consumer([topic], group_id=group, metadata_max_age_ms=1000, **config)

    def create_topic(self, topic, partitions, configs):
        response = run(self._admin.create_topics([NewTopic(topic, partitions, 1, topic_configs=configs)]))
        ((_, code, *_),) = response.topic_errors
        if code:
            raise Refused(code)

    def list_topics(self):
        return set(run(self._admin.list_topics()))

    def partition_count(self, topic):
        return len(run(self._admin.describe_topics([topic]))[0]["partitions"])

    def create_partitions(self, topic, count):
        run(self._admin.create_partitions({topic: NewPartitions(count)}))

    def delete_topic(self, topic):
        run(self._admin.delete_topics([topic]))

    def _configs(self, kind, name):
        (response,) = run(self._admin.describe_configs([ConfigResource(kind, name)]))
        (resource,) = response.resources
        return {entry[0]: entry[1] for entry in resource[4]}

    def topic_configs(self, topic):
        return self._configs(ConfigResourceType.TOPIC, topic)

    def broker_configs(self):
        broker = run(self._admin.describe_cluster())["brokers"][0]["node_id"]
        return self._configs(ConfigResourceType.BROKER, str(broker))

    def alter_topic_config(self, topic, name, value):
        """AlterConfigs sets all of a topic's configs: what is not named is back at its default."""
        run(self._admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, {name: value})]))

    def list_groups(self):
        return {each[0] for each in run(self._admin.list_consumer_groups())}

    def group_state(self, group):
        (response,) = run(self._admin.describe_consumer_groups([group]))
        return response.groups[0][2]

    def delete_group(self, group):
        raise Absent("groups are listed and described; there is no call to delete one")

    def delete_records(self, topic, partition, before_offset):
        run(self._admin.delete_records({TopicPartition(topic, partition): RecordsToDelete(before_offset)}))

    def close(self):
        run(self._admin.close())


if __name__ == "__main__":
    sys.exit(main(Client))
