"""`python -m evidence.processing.member BOOTSTRAP ROUND INDEX PROTOCOL`: one member, until it is killed or told to end.

The index says how it works: in an event loop, with oncelog.sync, with batches and a transactional id of its own, as a
static member, or as an application of FastStream. One call of the transform in a hundred fails once. It says a JSON line
for every report.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from typing import Any

import oncelog
from evidence.processing.rule import is_poison, key_of, number_of, outputs_of
from oncelog import Producer, sync
from oncelog.client.metrics import ProcessMetrics
from oncelog.client.records import ConsumerRecord
from oncelog.errors import FencedInstanceId, ProducerFenced

PROTOCOLS: dict[str, dict[str, Any]] = {
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "eager": {"partition_assignment_strategy": "range"},
    "consumer": {"group_protocol": "consumer"},
}
SESSION_TIMEOUT_MS = 2000
TRANSACTION_TIMEOUT_MS = 4000
KINDS, FASTSTREAM = 5, 4
ENDED_BY_A_FENCE = 3  # the exit status of one that a newer life of the same name took over from

chance = random.Random()


class Later(Exception):
    """It works the next time."""


def copies(record: ConsumerRecord) -> list[tuple[bytes, bytes]]:
    """By the rule, with the troubles of the world."""
    number = number_of(record.value)
    if is_poison(number):
        raise ValueError(f"{number} cannot be transformed")
    if chance.random() < 0.01:
        raise Later
    return [(key_of(number), value) for value in outputs_of(number)]


async def slow_copies(record: ConsumerRecord) -> list[tuple[bytes, bytes]]:
    """As of a service that is asked."""
    await asyncio.sleep(chance.random() * 0.002)
    return copies(record)


def blocking_copies(record: ConsumerRecord) -> list[tuple[bytes, bytes]]:
    """As of a library that blocks."""
    time.sleep(chance.random() * 0.002)
    return copies(record)


def all_copies(records: list[ConsumerRecord]) -> list[tuple[bytes, bytes]]:
    """Several at once."""
    return [copy for record in records for copy in copies(record)]


def options(bootstrap: str, name: str, index: int, protocol: str) -> dict[str, Any]:
    """What this member is given."""
    common: dict[str, Any] = {
        "into": f"{name}-out",
        "dead_letter_topic": f"{name}-dead",
        "group_id": f"{name}-group",
        "bootstrap_servers": bootstrap,
        "transform_backoff_ms": 5,
        "permanent_errors": (ValueError,),
        "transaction_timeout_ms": TRANSACTION_TIMEOUT_MS,
        "session_timeout_ms": SESSION_TIMEOUT_MS,
        "heartbeat_interval_ms": 300,
        "transaction_records_max": 100,
        "stop_timeout_ms": 10_000,
        "statistics_interval_ms": 100,
        **PROTOCOLS[protocol],
    }
    own: list[dict[str, Any]] = [
        {"transform": slow_copies, "concurrency": 4},
        {"transform": blocking_copies},
        {"transform_batch": all_copies, "transactional_id": f"{name}-member-{index}"},
        {"transform": slow_copies, "group_instance_id": f"{name}-member-{index}"},
        {},  # with FastStream
    ]
    assert len(own) == KINDS
    return common | own[index % KINDS]


class Teller:
    """Says how it goes; asked by the member's own callback."""

    def __init__(self) -> None:
        self.processor: Any = None

    def __call__(self, metrics: ProcessMetrics) -> None:
        generation_id = self.processor._consumer.group_metadata().generation_id if self.processor is not None else -1
        print(json.dumps({"generation": generation_id, **metrics.as_dict()}), flush=True)


def linger_in_transactions() -> None:
    """Before and behind the positions, so that many a kill, and many a pause, comes while a transaction is open."""
    send_offsets = Producer.send_offsets_to_transaction

    async def send_slowly(self: Producer, offsets: Any, group: Any) -> None:
        await asyncio.sleep(chance.random() * 0.05)
        await send_offsets(self, offsets, group)
        await asyncio.sleep(chance.random() * 0.05)

    Producer.send_offsets_to_transaction = send_slowly  # type: ignore[method-assign]


def main(bootstrap: str, name: str, index: str, protocol: str) -> int:
    """The exit status."""
    linger_in_transactions()
    teller, given = Teller(), options(bootstrap, name, int(index), protocol)
    try:
        if int(index) % KINDS == 1:
            blocking = sync.Processor(f"{name}-in", stats_cb=teller, **given)
            teller.processor = blocking._processor
            metrics = blocking.run()
        elif int(index) % KINDS == FASTSTREAM:
            from evidence.processing.application import run_application

            metrics = asyncio.run(run_application(f"{name}-in", slow_copies, teller, given))
        else:
            metrics = asyncio.run(in_loop(name, teller, given))
    except (ProducerFenced, FencedInstanceId) as error:
        print(json.dumps({"fenced": str(error)}), flush=True)
        return ENDED_BY_A_FENCE
    teller(metrics)
    return 0


async def in_loop(name: str, teller: Teller, given: dict[str, Any]) -> ProcessMetrics:
    """With asyncio."""
    processor = oncelog.Processor(f"{name}-in", stats_cb=teller, **given)
    teller.processor = processor
    return await processor.run()


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
