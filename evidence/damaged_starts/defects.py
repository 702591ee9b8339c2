"""Faults planted into a broker, each of which the drill must find: else it would find none of their kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

from oncelog.broker.broker import Broker
from oncelog.broker.partitions.checkpoint_file import CheckpointFile
from oncelog.errors import CorruptIndex, DamagedLog, StorageError
from oncelog.log import producer_snapshot, recovery
from oncelog.types import TopicPartition


@contextmanager
def foreign_snapshots_are_believed() -> Iterator[None]:
    """Another log's producers come with a checksum that fits."""

    def snapshot(_self: object, data: bytes, _offset: int) -> object:
        return producer_snapshot.snapshot_from_bytes(data)

    with patch.object(recovery._Opening, "_snapshot", snapshot):
        yield


@contextmanager
def a_damaged_checkpoint_counts_as_empty() -> Iterator[None]:
    """What was deleted is there again, in silence."""
    read = CheckpointFile.read

    def lenient(self: CheckpointFile) -> Mapping[TopicPartition, int]:
        try:
            return read(self)
        except StorageError:
            return {}

    with patch.object(CheckpointFile, "read", lenient):
        yield


@contextmanager
def lost_transaction_indexes_are_believed() -> Iterator[None]:
    """Aborted records are handed out as committed ones."""

    def compare(*_: object) -> None:
        return None

    with patch.object(recovery._Opening, "_compare", compare):
        yield


@contextmanager
def _refusals_become(told: Callable[[Exception], Exception]) -> Iterator[None]:
    start = Broker.start

    async def changed(self: Broker) -> None:
        try:
            await start(self)
        except (DamagedLog, StorageError) as error:
            raise told(error) from error

    with patch.object(Broker, "start", changed):
        yield


def refusals_name_nothing() -> AbstractContextManager[None]:
    """The start is refused with words that help nobody."""
    return _refusals_become(lambda _: StorageError("the start failed"))


def a_refusal_is_a_bug() -> AbstractContextManager[None]:
    """An error that nobody expected: `oncelog serve` would show its traceback."""
    return _refusals_become(lambda error: CorruptIndex(str(error)))


DEFECTS: dict[str, Callable[[], Any]] = {
    each.__name__: each
    for each in (
        foreign_snapshots_are_believed,
        a_damaged_checkpoint_counts_as_empty,
        lost_transaction_indexes_are_believed,
        refusals_name_nothing,
        a_refusal_is_a_bug,
    )
}
