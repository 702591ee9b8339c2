"""A group coordinator's machine, made from its partition of `__consumer_offsets`: read through the `apply` that runs live.

Imported with the first coordinator that is loaded (`groups.py`), as it brings all protocols of groups along.
"""

from __future__ import annotations

from collections.abc import Iterable

from oncelog.broker.config.config import BrokerConfig
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.core.groups.config import KAFKA_KEYS, GroupConfig
from oncelog.core.groups.coordinator import GroupCoordinator
from oncelog.core.metadata.cluster import ClusterMetadata
from oncelog.log.newest_in_log import newest_in_log
from oncelog.types import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from oncelog.wire.log_records.consumer_offsets import record_from_key_value, record_to_key_value

__all__ = ["group_config", "machine_of", "record_to_key_value"]

NO_PRODUCER = (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)


def group_config(config: BrokerConfig) -> GroupConfig:
    """What is configured of groups."""
    return GroupConfig(**{name: getattr(config, name) for name in KAFKA_KEYS})


def machine_of(
    partition: LocalPartition, index: int, config: GroupConfig, metadata: ClusterMetadata
) -> GroupCoordinator:
    """What the partition's log says; `loaded` is still to be called."""
    machine = GroupCoordinator(
        index,
        config,
        topics=metadata,
        overrides=lambda group_id: metadata.group_configs.get(group_id, {}),
    )
    for part in newest_in_log(partition.log):
        if isinstance(part, dict):  # of several plain records of a key the last one counts, as after a cleaning
            _apply(machine, part.items())
            continue
        marker = part.end_txn_marker() if part.is_control else None
        if marker is not None:
            machine.apply_marker(part.producer_id, part.producer_epoch, marker.commit)
        if part.is_control:
            continue
        producer = (part.producer_id, part.producer_epoch) if part.is_transactional else NO_PRODUCER
        _apply(machine, ((stored.key, stored.value) for stored in part.records()), producer)
    return machine


def _apply(
    machine: GroupCoordinator,
    stored: Iterable[tuple[bytes | None, bytes | None]],
    producer: tuple[int, int] = NO_PRODUCER,
) -> None:
    """Take over keys and values of the log, of a transaction of `producer` where one is named."""
    for key, value in stored:
        record = record_from_key_value(key, value, producer_id=producer[0], producer_epoch=producer[1])
        if record is not None:
            machine.apply(record)
