"""S18: what is read from the files is what lived: partitions, coordinators, groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oncelog.broker.broker import Broker
from oncelog.log.partition_log import PartitionLog
from oncelog.types import AbortedTransaction
from oncelog.wire.log_records.transaction_state import TransactionRecord, record_from_key_value, record_to_key_value

State = Mapping[str, Any]


def state_of(broker: Broker) -> dict[str, Any]:
    """Everything that must survive a restart, under readable names."""
    state: dict[str, Any] = {}
    for topic_name in broker.metadata.topics:
        broker.partitions.of_topic(topic_name)  # opens what nobody has asked for yet
    for partition in broker.partitions:
        rules, name = partition.rules, partition.name
        if rules.log_end_offset == 0:
            continue  # opened and never written
        state[f"{name} offsets"] = (
            rules.log_start_offset,
            rules.last_stable_offset,
            rules.high_watermark,
            rules.log_end_offset,
        )
        for entry in rules.snapshot_entries():
            state[f"{name} producer {entry.producer_id}"] = entry
        aborted = partition.log.aborted_between(rules.log_start_offset, rules.log_end_offset)
        state[f"{name} aborted"] = sorted(hides for each in aborted if (hides := hidden_by(partition.log, each))[2])
    for holder in broker.transactions.loaded():
        table = holder.machine.table
        for name, transaction in table.transactions.items():
            state[f"transactional id {name}"] = _as_stored(transaction)
        state[f"coordinator {holder.machine.partition_index} on its way"] = (
            sorted(table.pending),
            sorted(name for name, left in table.unwritten.items() if left),
        )
    for group in broker.groups.loaded():
        offsets = group.machine.offsets
        for group_id in offsets.groups():
            for partition_name, commit in offsets.of_group(group_id).items():
                state[f"{group_id} {partition_name}"] = (commit.offset, commit.metadata)
                state[f"{group_id} {partition_name} is unstable"] = offsets.is_unstable(group_id, partition_name)
    for shares in broker.node.share_partitions.coordinators.loaded():
        for key, stored in shares.machine.by_key.items():
            state[f"share partition {key}"] = (stored.state_epoch, stored.start_offset, stored.batches())
    return state


def hidden_by(log: PartitionLog, entry: AbortedTransaction) -> tuple[int, int, tuple[int, ...]]:
    """Producer, marker, and the batches that the entry keeps from readers. The cleaner keeps the entry of a marker whose
    records it removed, and a replay of what is left makes none: there is nothing that it would hide."""
    batches = [batch for segment in log.segments for batch in segment.scan(0, check_crc=False)]
    hidden = [
        batch.base_offset
        for batch in batches
        if batch.producer_id == entry.producer_id
        and batch.is_transactional
        and not batch.is_control
        and entry.first_offset <= batch.base_offset < entry.last_offset
    ]
    return entry.producer_id, entry.last_offset, tuple(hidden)


def _as_stored(transaction: TransactionRecord) -> Any:
    """Value version 0 has no room for what KIP-360 and KIP-890 remember."""
    return record_from_key_value(*record_to_key_value(transaction))


def check_recovery(live: State, recovered: State) -> Iterator[str]:
    """Differences."""
    for name in sorted({*live, *recovered}):
        if name.endswith("on its way") and name not in recovered:
            continue
        if live.get(name) != recovered.get(name):
            yield f"{name}: {live.get(name)} lived, {recovered.get(name)} was read from the files"
