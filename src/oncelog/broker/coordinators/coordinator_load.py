"""Reading a coordinator's partition at its load. One that cannot be read takes itself out of service, nothing else.

The others load, and clients of this one are told NOT_COORDINATOR until somebody has mended it and restarted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from oncelog.broker.coordinators.coordinator import CoordinatorFailed
from oncelog.broker.partitions.local_partition import LocalPartition
from oncelog.broker.partitions.partitions import Partitions
from oncelog.errors import CorruptBatch, ErrorCode, MalformedMessage, StorageError
from oncelog.types import TopicPartition


@contextmanager
def loading(partitions: Partitions, name: TopicPartition) -> Iterator[LocalPartition]:
    """The partition to read inside; whatever cannot be read there is CoordinatorFailed, and the partition offline."""
    try:
        partition = partitions.get(name)
    except StorageError as error:
        raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR) from error
    if partition is None or partition.is_offline:
        raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR)
    try:
        yield partition
    except (CorruptBatch, MalformedMessage, StorageError) as error:
        partition.go_offline(f"its coordinator cannot be loaded: {error}")
        raise CoordinatorFailed(ErrorCode.NOT_COORDINATOR) from error
