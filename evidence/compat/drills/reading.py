"""A read_committed reader that is not ours (librdkafka): beside the work from its beginning, and once more when all is over."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

Row = tuple[int, bytes, bytes]  # partition, key, value
CALL_S = 30.0


def create_topics(bootstrap: str, **partitions: int) -> None:
    """Topics that are there when it returns."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    for future in admin.create_topics([NewTopic(name, count, 1) for name, count in partitions.items()]).values():
        future.result(CALL_S)
    deadline = time.monotonic() + CALL_S
    while not set(partitions) <= set(admin.list_topics(timeout=CALL_S).topics):
        assert time.monotonic() < deadline, "the topics never came"
        time.sleep(0.05)


def produce(
    bootstrap: str, topic: str, rows: list[Row], pace_per_s: int = 0, stopped: threading.Event | None = None
) -> int:
    """Idempotent; at most so many a second (0: as fast as they go). How many; raises KafkaException when one is refused."""
    failures: list[KafkaError] = []
    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 5})
    began, sent = time.monotonic(), 0
    for index, (partition, key, value) in enumerate(rows):
        if pace_per_s and index % 100 == 0:
            time.sleep(max(0.0, began + index / pace_per_s - time.monotonic()))
        if stopped is not None and stopped.is_set():
            break
        while True:
            try:
                producer.produce(
                    topic, value, key, partition, on_delivery=lambda error, _: failures.append(error) if error else None
                )
                break
            except BufferError:
                producer.poll(0.1)
        producer.poll(0)
        sent += 1
    assert producer.flush(CALL_S) == 0
    if failures:
        raise KafkaException(failures[0])
    return sent


class CommittedReader:
    """Collects the committed records of a topic in a thread, each as it comes."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.rows: list[Row] = []
        self._config = {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "reconnect.backoff.max.ms": 200,
        }
        self._where = [TopicPartition(topic, index, 0) for index in range(partitions)]
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="reader", daemon=True)
        self.error: KafkaError | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _follow(self) -> None:
        self._read(lambda ends: self._is_over.is_set())

    def _read(self, is_over: Callable[[set[int]], bool]) -> None:
        consumer = Consumer(self._config)
        consumer.assign(self._where)
        ends: set[int] = set()  # partitions whose end has been met
        try:
            while not is_over(ends):
                message = consumer.poll(0.2)
                if message is None:
                    continue
                error = message.error()
                if error is None:
                    self.rows.append((message.partition(), message.key() or b"", message.value() or b""))
                elif error.code() == KafkaError._PARTITION_EOF:
                    ends.add(message.partition())
                elif not error.retriable() and error.code() != KafkaError._TRANSPORT:
                    self.error = error
                    return
        finally:
            consumer.close()

    def wait_for(self, count: int, seconds: float) -> bool:
        """Whether so many records came in time."""
        deadline = time.monotonic() + seconds
        while len(self.rows) < count and time.monotonic() < deadline and self.error is None:
            time.sleep(0.05)
        return len(self.rows) >= count


def read_all(bootstrap: str, topic: str, partitions: int) -> list[Row]:
    """The late reader: from the beginning to the end of each partition."""
    reader = CommittedReader(bootstrap, topic, partitions)
    reader._read(lambda ends: len(ends) == partitions)
    assert reader.error is None, reader.error
    return reader.rows
