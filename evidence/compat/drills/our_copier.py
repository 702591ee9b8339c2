"""`python -m evidence.compat.drills.our_copier BOOTSTRAP INDEX`: our clients, from `input` to `output`, until SIGKILL.

A member of one group; each transaction takes the records of one poll and the offsets behind them. One in five is aborted
on purpose. It says a JSON line per transaction.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys

from oncelog import Consumer, Producer
from oncelog.errors import KafkaError

RECORDS_MAX = 100


async def main(bootstrap: str, index: str) -> None:
    """An abortable error ends the transaction, not the process; a fatal one ends both, and a new instance begins."""
    chance = random.Random()
    while True:
        async with (
            Consumer(
                "input",
                bootstrap_servers=bootstrap,
                group_id="our-copiers",
                partition_assignment_strategy="cooperative-sticky",
                isolation_level="read_committed",
                auto_offset_reset="earliest",
                enable_auto_commit=False,
                session_timeout_ms=6000,
                heartbeat_interval_ms=500,
            ) as consumer,
            Producer(
                bootstrap_servers=bootstrap, transactional_id=f"our-copier-{index}", transaction_timeout_ms=10_000
            ) as producer,
        ):
            try:
                while True:
                    await copy(consumer, producer, aborts=chance.random() < 0.2)
            except KafkaError as error:
                if not error.fatal:
                    raise
                print(json.dumps({"began again": str(error)}), flush=True)


async def copy(consumer: Consumer, producer: Producer, *, aborts: bool) -> None:
    """One transaction. Raises KafkaError when the producer is done for."""
    records = await consumer.poll(500, RECORDS_MAX)
    if not records:
        return
    outcome = "committed"
    producer.begin_transaction()
    try:
        for record in records:
            await producer.send("output", record.value, key=record.key, partition=record.partition)
        await producer.send_offsets_to_transaction(consumer.current_positions(), consumer.group_metadata())
        if aborts:
            outcome = "aborted"
        else:
            await producer.commit_transaction()
    except KafkaError as error:
        if error.fatal:
            raise
        outcome = f"aborted: {error}"
    if outcome != "committed":
        await producer.abort_transaction()
        stored = await consumer.committed(consumer.assignment())
        for where in consumer.assignment():
            if where in stored:
                consumer.seek(where, stored[where].offset)
            else:
                await consumer.seek_to_beginning(where)
    print(json.dumps({"records": len(records), "outcome": outcome}), flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
