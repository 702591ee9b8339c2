"""What a read_committed reader sees. EndTxn is answered before the markers are written, and a poll may come back empty:
neither says that there is nothing more.
"""

from __future__ import annotations

from oncelog import TopicPartition, sync


def wait_for_markers(bootstrap_servers: str) -> None:
    """Until every transaction that was decided is complete."""
    with sync.Admin(bootstrap_servers=bootstrap_servers) as admin:
        while any(each.state.startswith("Prepare") for each in admin.list_transactions()):
            pass


def committed_values(bootstrap_servers: str, topic: str) -> list[bytes]:
    """The values up to the last stable offsets, once all that was decided is complete."""
    wait_for_markers(bootstrap_servers)
    with sync.Admin(bootstrap_servers=bootstrap_servers) as admin:
        if topic not in admin.list_topics():
            return []
    with sync.Consumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", auto_offset_reset="earliest"
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        ends, found = consumer.end_offsets(partitions), []
        while any(consumer.position(where) < ends[where] for where in partitions):
            found += [record.value or b"" for record in consumer.poll(timeout_ms=1000)]
        return found
