"""S18: what is read from the files is what lived: partitions, coordinators, groups."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from oncelog.broker.broker import Broker
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
        state[f"{name} aborted"] = sorted(aborted, key=repr)
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
    return state


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
