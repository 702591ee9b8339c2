"""Writes the flights into the topic, transaction by transaction; a process of its own, so that it can be killed.

Its position travels with each transaction, as the metadata of a group offset: whoever resumes it asks the log, and what the
killed transaction wrote was never there. Now and then a transaction is aborted on purpose, with records that say so.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import time

import pyarrow as pa

from oncelog import OffsetAndMetadata, TopicPartition, sync
from oncelog.demo.flights import as_records, read_flights

GROUP = "flights-loader"
TOPIC = "flights"
ABORT_EVERY = 9


def say(**event: object) -> None:
    print(json.dumps({"time_ms": int(time.time_ns() // 1_000_000), **event}), flush=True)


def next_row(bootstrap: str) -> int:
    """Where the last committed transaction ended."""
    with sync.Admin(bootstrap_servers=bootstrap) as admin:
        offsets = admin.list_consumer_group_offsets(GROUP)
    position = offsets.get(TopicPartition(TOPIC, 0))
    return int(position.metadata) if position is not None and position.metadata else 0


def load(bootstrap: str, row_count: int | None, transaction_rows: int, pause_ms: int, die_at: int | None) -> None:
    flights = read_flights(row_count)
    with sync.Producer(
        bootstrap_servers=bootstrap, transactional_id="flights-loader", compression_type="lz4"
    ) as producer:
        row = next_row(bootstrap)
        say(event="loader", row=row)
        while row < flights.num_rows:
            part = flights.slice(row, transaction_rows)
            number = row // transaction_rows
            if number % ABORT_EVERY == ABORT_EVERY - 1:
                write_aborted(producer, part)
            write(producer, part, row, dies=number == die_at)
            row += part.num_rows
            time.sleep(pause_ms / 1000)  # a loader that lasts, so that there is something to kill
    say(event="loaded", row=row)


def write(producer: sync.Producer, part: pa.Table, row: int, *, dies: bool) -> None:
    begun = time.time_ns() // 1_000_000
    producer.begin_transaction()
    if dies:
        producer.send_arrow(TOPIC, as_records(part.slice(0, part.num_rows // 2), note="killed in mid-transaction"))
        producer.flush()
        say(event="transaction", begun_ms=begun, outcome="killed", rows=part.num_rows // 2)
        os.kill(os.getpid(), signal.SIGKILL)
    producer.send_arrow(TOPIC, as_records(part))
    position = OffsetAndMetadata(0, str(row + part.num_rows))
    producer.send_offsets_to_transaction({TopicPartition(TOPIC, 0): position}, GROUP)
    producer.commit_transaction()
    say(event="transaction", begun_ms=begun, outcome="committed", rows=part.num_rows)


def write_aborted(producer: sync.Producer, part: pa.Table) -> None:
    begun = time.time_ns() // 1_000_000
    producer.begin_transaction()
    producer.send_arrow(TOPIC, as_records(part, note="aborted on purpose"))
    producer.flush()
    producer.abort_transaction()
    say(event="transaction", begun_ms=begun, outcome="aborted", rows=part.num_rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="oncelog.demo.loader")
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--rows", type=int)
    parser.add_argument("--transaction-rows", type=int, default=2500)
    parser.add_argument("--pause-ms", type=int, default=0)
    parser.add_argument("--die-at", type=int, help="number of the transaction to be killed in")
    options = parser.parse_args()
    load(options.bootstrap_server, options.rows, options.transaction_rows, options.pause_ms, options.die_at)


if __name__ == "__main__":
    main()
