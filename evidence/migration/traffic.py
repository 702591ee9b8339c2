"""Who writes and reads meanwhile: foreign clients, so that nothing under test vouches for itself."""

from __future__ import annotations

import random
import threading
import time
from collections import defaultdict

from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

RECORDS_PER_TRANSACTION = 500
Place = tuple[int, bytes]  # partition and value


class Writer(threading.Thread):
    """Transactions of records with a number each; every seventh is aborted. `count_max` None: until it is stopped."""

    def __init__(
        self, bootstrap: str, topic: str, name: str, partitions: int, pace_per_s: float, first: int = 0
    ) -> None:
        super().__init__(name=name)
        self.committed = self.number = 0
        self.number = first
        self.first_s = self.last_s = 0.0
        self.problem = ""
        self._stopped = threading.Event()
        self._topic, self._partitions, self._pace_per_s = topic, partitions, pace_per_s
        self._chance = random.Random(name)
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "transactional.id": name,
                "linger.ms": 5,
                "queue.buffering.max.messages": 50_000,
            }
        )

    def stop(self) -> None:
        """After the transaction in hand."""
        self._stopped.set()

    def run(self) -> None:
        """Until it is stopped."""
        try:
            self._producer.init_transactions(60)
            began_s, written = time.monotonic(), 0
            while not self._stopped.is_set():
                self._transaction()
                written += RECORDS_PER_TRANSACTION
                ahead_s = written / self._pace_per_s - (time.monotonic() - began_s)
                if ahead_s > 0:
                    self._stopped.wait(ahead_s)
        except (KafkaException, BufferError) as error:
            self.problem = f"writer {self.name}: {error}"

    def _transaction(self) -> None:
        self._producer.begin_transaction()
        for _ in range(RECORDS_PER_TRANSACTION):
            self.number += 1
            number = self.number
            self._producer.produce(
                self._topic,
                None if number % 11 == 0 else f"{self.name}:{number}:{'x' * (number % 40)}".encode(),
                None if number % 7 == 0 else f"{self.name}/{number}",
                self._chance.randrange(self._partitions),
                headers=[("n", str(number)), ("n", None)] if number % 3 == 0 else None,
                timestamp=1_500_000_000_000 + number,
            )
            self._producer.poll(0)
        if self._chance.randrange(7) == 0:
            self._producer.flush(60)  # an abort throws away what waits, and the sequence numbers with it
            self._producer.abort_transaction(60)
            return
        self._producer.commit_transaction(60)
        self.last_s = time.monotonic()
        self.first_s = self.first_s or self.last_s
        self.committed += RECORDS_PER_TRANSACTION


class Reader(threading.Thread):
    """One member of a group. What it read counts once its position is committed."""

    def __init__(self, bootstrap: str, topic: str, group: str) -> None:
        super().__init__(name=group)
        self.problem = ""
        self.offsets: dict[int, list[int]] = defaultdict(list)
        self._stopped = threading.Event()
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": group,
                "isolation.level": "read_committed",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            }
        )
        self._consumer.subscribe([topic])

    def stop(self) -> None:
        """And leave the group."""
        self._stopped.set()

    def run(self) -> None:
        """Until it is stopped."""
        try:
            while not self._stopped.is_set():
                records = self._consumer.consume(5000, 0.2)
                if not records:
                    continue
                after: dict[int, TopicPartition] = {}
                for each in records:
                    if each.error() is not None:
                        raise KafkaException(each.error())
                    after[each.partition()] = TopicPartition(each.topic(), each.partition(), each.offset() + 1)
                self._consumer.commit(offsets=list(after.values()), asynchronous=False)
                for each in records:
                    self.offsets[each.partition()].append(each.offset())
        except KafkaException as error:
            self.problem = f"reader {self.name}: {error}"
        finally:
            self._consumer.close()
