"""What is in the topics afterwards, beside what the writers know; read by another client than ours."""

from __future__ import annotations

import confluent_kafka

READ_TIMEOUT_S = 60.0


def committed(bootstrap_servers: str, topic: str, partitions: int) -> list[list[bytes]]:
    """The values that readers of committed records see, by partition, in order."""
    found: list[list[bytes]] = []
    given: dict[str, str | int | bool] = {"bootstrap.servers": bootstrap_servers, "group.id": "judge"}
    given |= {"isolation.level": "read_committed", "fetch.wait.max.ms": 50}
    consumer = confluent_kafka.Consumer(given | {"enable.auto.commit": False, "enable.partition.eof": True})
    try:
        for partition in range(partitions):
            values: list[bytes] = []
            consumer.assign([confluent_kafka.TopicPartition(topic, partition, confluent_kafka.OFFSET_BEGINNING)])
            while True:
                message = consumer.poll(READ_TIMEOUT_S)
                if message is None:
                    raise TimeoutError(f"nothing came of {topic}-{partition} within {READ_TIMEOUT_S:g} s")
                error = message.error()
                if error is not None and error.code() == confluent_kafka.KafkaError._PARTITION_EOF:
                    break
                if error is not None:
                    raise confluent_kafka.KafkaException(error)
                values.append(message.value() or b"")
            found.append(values)
    finally:
        consumer.close()
    return found
