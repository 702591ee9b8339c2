"""What a read_committed reader sees of a topic."""

from __future__ import annotations

import contextlib
import threading

from oncelog import TopicPartition, sync
from oncelog.errors import TransactionalIdNotFound


def values_of(broker: str, topic: str, partition: int = 0) -> list[int]:
    """The values of a partition up to its last stable offset, as integers; the transactional id is the topic's name."""
    with contextlib.suppress(TransactionalIdNotFound):
        wait_for_markers(broker, topic)
    with sync.Consumer(
        bootstrap_servers=broker,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
    ) as consumer:
        where = TopicPartition(topic, partition)
        consumer.assign([where])
        end = consumer.end_offsets([where])[where]
        found: list[int] = []
        while consumer.position(where) < end:
            found += [int(record.value or b"-1") for record in consumer.poll(timeout_ms=1000)]
        return found


def wait_for_markers(broker: str, transactional_id: str) -> None:
    """A transaction is decided when EndTxn is answered, and visible when its markers are written."""
    pause = threading.Event()
    for _ in range(1000):
        if not open_transaction(broker, transactional_id).startswith("Prepare"):
            return
        pause.wait(0.005)
    raise AssertionError("the markers do not come")


def open_transaction(broker: str, transactional_id: str) -> str:
    """The state of a transactional id: Ongoing, CompleteCommit ..."""
    with sync.Admin(bootstrap_servers=broker) as admin:
        return admin.describe_transactions([transactional_id])[transactional_id].state
