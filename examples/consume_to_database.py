"""From a topic into a database, each record exactly once: the position is a row beside the rows it stands for.

`python consume_to_database.py BROKER TOPIC FILE`. No consumer group: the database knows best what the database has.
"""

import sqlite3
import sys

from oncelog import TopicPartition, sync

SCHEMA = """CREATE TABLE IF NOT EXISTS words (word TEXT PRIMARY KEY, seen INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS positions (topic TEXT, part INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, part))"""
COUNT = "INSERT INTO words VALUES (?, 1) ON CONFLICT (word) DO UPDATE SET seen = seen + 1"
MOVE = "UPDATE positions SET next = ? WHERE topic = ? AND part = ? AND next = ?"


class SomebodyElseConsumes(RuntimeError):
    """Another process has moved the position: of this batch nothing was written."""


def position_of(database: sqlite3.Connection, where: TopicPartition) -> int:
    database.execute("INSERT OR IGNORE INTO positions VALUES (?, ?, 0)", where)
    query = "SELECT next FROM positions WHERE topic = ? AND part = ?"
    return int(database.execute(query, where).fetchone()[0])


def consume(bootstrap_servers: str, topic: str, file: str) -> dict[str, int]:
    """Count the words of the topic up to its present end."""
    database = sqlite3.connect(file)
    database.executescript(SCHEMA)
    with sync.Consumer(
        bootstrap_servers=bootstrap_servers, isolation_level="read_committed", enable_auto_commit=False
    ) as consumer:
        partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic)]
        consumer.assign(partitions)
        positions = {where: position_of(database, where) for where in partitions}
        database.commit()
        for where, offset in positions.items():
            consumer.seek(where, offset)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(where) < ends[where] for where in partitions):
            records = consumer.poll(timeout_ms=1000)
            with database:  # one transaction: the rows and the positions after them
                for record in records:
                    database.execute(COUNT, ((record.value or b"").decode(),))
                for where in {record.topic_partition for record in records}:
                    after = consumer.position(where)
                    if not database.execute(MOVE, (after, *where, positions[where])).rowcount:
                        raise SomebodyElseConsumes(str(where))
                    positions[where] = after
    found = dict(database.execute("SELECT word, seen FROM words"))
    database.close()
    return found


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: python examples/consume_to_database.py BOOTSTRAP_SERVERS TOPIC DATABASE_FILE")
    print(consume(*sys.argv[1:4]))
