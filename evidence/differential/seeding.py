"""Transactional ids that have been used some thirty thousand times: the coordinator's log is told so.

Apache Kafka takes records of `__transaction_state` from the client id `__admin_client` and reads them when it starts
again; oncelog takes them from nobody, so its own coordinator writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from evidence.differential.connection import Connection
from oncelog.core.decision import Decision
from oncelog.core.placement import coordinator_partition
from oncelog.wire.log_records.transaction_state import TransactionRecord, record_to_key_value
from oncelog.wire.record_batch import build_batch

if TYPE_CHECKING:
    from oncelog.broker.broker import Broker

FIRST_PRODUCER_ID = 2_000_000_000  # far from those that a broker gives away
TIMEOUT_MS = 60_000
LAST_UPDATE_MS = 4_000_000_000_000  # in the future: they do not expire
TOPIC, PARTITION_COUNT = "__transaction_state", 50


def records_of(seeds: Mapping[str, int]) -> list[TransactionRecord]:
    """An idle id each, at its epoch."""
    return [
        TransactionRecord(transactional_id, FIRST_PRODUCER_ID + index, last, TIMEOUT_MS, last_update_ms=LAST_UPDATE_MS)
        for index, (transactional_id, last) in enumerate(sorted(seeds.items()))
    ]


async def tell_oncelog(broker: Broker, seeds: Mapping[str, int]) -> None:
    """Through the coordinators, as if they had decided it."""
    for record in records_of(seeds):
        holder = await broker.transactions.coordinator_of(record.transactional_id)
        await holder.perform(Decision(records=(record,)))


def tell_apache_kafka(address: tuple[str, int], seeds: Mapping[str, int]) -> None:
    """Through Produce; it has to be started again after that."""
    connection = Connection(*address)
    try:
        for record in records_of(seeds):
            key, value = record_to_key_value(record)
            batch = build_batch([(LAST_UPDATE_MS // 4, key, value, ())])
            index = coordinator_partition(record.transactional_id, PARTITION_COUNT)
            data = [{"name": TOPIC, "partition_data": [{"index": index, "records": bytes(batch)}]}]
            fields = {"transactional_id": None, "acks": -1, "timeout_ms": 5000, "topic_data": data}
            connection.send_bytes(connection.frame("Produce", 9, fields, client_id="__admin_client"))
            found = connection.receive("Produce", 9)[1].responses[0].partition_responses[0]
            assert found.error_code == 0, found
    finally:
        connection.close()
