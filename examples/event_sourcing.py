"""Event sourcing without an outbox: the topic is the truth, a table is its present state, and both are written at once.

A command is checked against the table (read-after-write consistent), its event goes to the topic, the table follows in the
same dual write. The table can be thrown away: `replay` makes it again from the topic.

    python event_sourcing.py BROKER FILE
"""

import json
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from oncelog import TopicPartition, sync
from oncelog.recipes import SqliteDatabase
from oncelog.recipes.sync import DualWriter

SCHEMA = "CREATE TABLE IF NOT EXISTS accounts (name TEXT PRIMARY KEY, balance INTEGER NOT NULL)"
TOPIC = "account-events"


class NotEnough(Exception):
    """The command is refused: no event, no change."""


def apply(database: sqlite3.Connection, event: dict[str, str | int]) -> None:
    """What an event does to the table. The only place that knows: commands and replay both come here."""
    database.execute(
        "INSERT INTO accounts VALUES (:name, :change) ON CONFLICT (name) DO UPDATE SET balance = balance + :change",
        event,
    )


class Accounts:
    """Commands."""

    def __init__(self, writer: DualWriter[sqlite3.Connection]) -> None:
        self._writer = writer

    def move(self, source: str, target: str, amount: int) -> None:
        """Two events, one decision."""
        with self._writer.transaction() as tx:
            row = tx.database.execute("SELECT balance FROM accounts WHERE name = ?", (source,)).fetchone()
            if row is None or row[0] < amount:
                raise NotEnough(source)
            for name, change in ((source, -amount), (target, amount)):
                event: dict[str, str | int] = {"name": name, "change": change}
                tx.send(TOPIC, json.dumps(event).encode(), key=name.encode())
                apply(tx.database, event)

    def deposit(self, name: str, amount: int) -> None:
        with self._writer.transaction() as tx:
            event: dict[str, str | int] = {"name": name, "change": amount}
            tx.send(TOPIC, json.dumps(event).encode(), key=name.encode())
            apply(tx.database, event)


@contextmanager
def accounts(bootstrap_servers: str, file: str) -> Iterator[Accounts]:
    with SqliteDatabase(file) as database:
        database.migrate()
        with sqlite3.connect(file) as connection:
            connection.execute(SCHEMA)
        with DualWriter(database, transactional_id="accounts", bootstrap_servers=bootstrap_servers) as writer:
            yield Accounts(writer)


def balances(file: str) -> dict[str, int]:
    with sqlite3.connect(file) as connection:
        return dict(connection.execute("SELECT name, balance FROM accounts ORDER BY name"))


def replay(bootstrap_servers: str) -> dict[str, int]:
    """The table as the topic has it."""
    database = sqlite3.connect(":memory:")
    database.execute(SCHEMA)
    with sync.Consumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed") as consumer:
        partitions = [TopicPartition(TOPIC, number) for number in consumer.partitions_for_topic(TOPIC)]
        consumer.assign(partitions)
        consumer.seek_to_beginning(*partitions)
        ends = consumer.end_offsets(partitions)
        while any(consumer.position(where) < ends[where] for where in partitions):
            for record in consumer.poll(timeout_ms=1000):
                apply(database, json.loads(record.value or b"{}"))
    found = dict(database.execute("SELECT name, balance FROM accounts ORDER BY name"))
    database.close()
    return found


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit("usage: python examples/event_sourcing.py BOOTSTRAP_SERVERS DATABASE_FILE")
    with accounts(*sys.argv[1:3]) as commands:
        commands.deposit("ann", 100)
        commands.move("ann", "bob", 30)
    print("table", balances(sys.argv[2]))
    print("topic", replay(sys.argv[1]))
