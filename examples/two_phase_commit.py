"""A row and its event, together or not at all (KIP-939): the database decides, the topic follows, also after a crash.

Run it with a broker started as `oncelog serve -c transaction.two.phase.commit.enable=true`.
"""

import sqlite3
import sys

from oncelog import PreparedTxnState, sync

SCHEMA = """CREATE TABLE IF NOT EXISTS orders (id INTEGER PRIMARY KEY, what TEXT);
CREATE TABLE IF NOT EXISTS kafka_transaction_state (transactional_id TEXT PRIMARY KEY, state TEXT)"""
STORED = "SELECT state FROM kafka_transaction_state WHERE transactional_id = 'orders'"


def place_order(database: sqlite3.Connection, producer: sync.Producer, what: str) -> None:
    producer.begin_transaction()
    with database:  # one database transaction: the row, and which topic transaction belongs to it
        row = database.execute("INSERT INTO orders (what) VALUES (?)", (what,))
        producer.send("orders", key=str(row.lastrowid).encode(), value=what.encode())
        state = producer.prepare_transaction()
        database.execute("REPLACE INTO kafka_transaction_state VALUES ('orders', ?)", (str(state),))
    producer.complete_transaction(state)


def run(bootstrap_servers: str, file: str, orders: list[str]) -> int:
    database = sqlite3.connect(file)
    database.executescript(SCHEMA)
    with sync.Producer(
        bootstrap_servers=bootstrap_servers, transactional_id="orders", transaction_two_phase_commit_enable=True
    ) as producer:
        if producer.prepared_state:  # a crash left a prepared transaction: what does the database say?
            stored = database.execute(STORED).fetchone()
            producer.complete_transaction(PreparedTxnState(stored[0] if stored else ""))
        for what in orders:
            place_order(database, producer, what)
    count: int = database.execute("SELECT count(*) FROM orders").fetchone()[0]
    database.close()
    return count


if __name__ == "__main__":
    if len(sys.argv) < 4:
        sys.exit("usage: python examples/two_phase_commit.py BOOTSTRAP_SERVERS DATABASE_FILE ORDER...")
    print(run(sys.argv[1], sys.argv[2], sys.argv[3:]), "orders")
