"""What goes with a topic to which nothing was sent for long, and that nothing is numbered anew which leaders remember."""

from __future__ import annotations

import pytest

from oncelog.core.producer.accumulator import AccumulatorConfig, RecordAccumulator
from oncelog.core.producer.batch import record_size_bytes
from oncelog.core.producer.forgetting import forget_topics
from oncelog.core.producer.partitioner import StickyPartitioner
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import (
    PRODUCER_EPOCH_MAX,
    TransactionManager,
    TransactionManagerConfig,
)
from oncelog.errors import UnknownServer
from oncelog.types import ProducerIdAndEpoch, TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class World:
    """A producer's machines, which sent a record to `a` and one to `b`."""

    def __init__(self, *, transactional_id: str | None = None, epoch: int = 0) -> None:
        self.manager = TransactionManager(TransactionManagerConfig(transactional_id=transactional_id))
        self.accumulator = RecordAccumulator(AccumulatorConfig())
        self.sticky = StickyPartitioner(lambda _: 0, batch_size_bytes=100)
        self.manager.sequences.begin_identity(ProducerIdAndEpoch(7, epoch))
        for where in (A, B):
            self.send(where)

    def send(self, where: TopicPartition) -> int:
        """The sequence that a record got."""
        self.sticky.partition(where.topic, [0], 10)
        size_bytes = record_size_bytes(None, b"v", ())
        batch, _ = self.accumulator.append(where, (1, None, b"v", ()), size_bytes, 0.0)
        self.accumulator.take(batch)
        self.manager.sequences.assign(batch)
        self.accumulator.completed(batch)
        self.manager.sequences.resolved(batch, is_acknowledged=True)
        return batch.sequence

    def forget(self, *topics: str) -> None:
        forget_topics(set(topics), self.manager, self.accumulator, self.sticky)


def test_a_forgotten_topic_begins_anew_under_another_epoch_and_the_others_follow() -> None:
    world = World()
    world.forget("a")
    assert world.manager.identity == ProducerIdAndEpoch(7, 1)
    assert world.accumulator.topics_since(0.0) == {"b"}
    assert list(world.accumulator._queues) == [B]
    assert list(world.sticky._current) == ["b"]
    assert list(world.manager.sequences._partitions) == [B]
    assert [world.send(A), world.send(B), world.send(A), world.send(B)] == [0, 0, 1, 1]


def test_what_was_sent_under_a_former_epoch_only_needs_no_other() -> None:
    world = World()
    world.manager.begin_epoch()
    world.send(B)
    world.forget("a")
    assert world.manager.identity == ProducerIdAndEpoch(7, 1)


def test_where_epochs_are_used_up_another_producer_id_is_asked_for() -> None:
    world = World(epoch=PRODUCER_EPOCH_MAX - 1)
    world.manager.state = TransactionState.READY
    world.forget("a")
    assert world.manager.identity == ProducerIdAndEpoch()


@pytest.mark.parametrize("is_transactional", [True, False])
def test_in_transactions_and_behind_a_fatal_error_sequences_stay(is_transactional: bool) -> None:
    world = World(transactional_id="x" if is_transactional else None)
    if not is_transactional:
        world.manager.fatal_error(UnknownServer("over"))
    world.forget("a", "b")
    assert world.manager.identity == ProducerIdAndEpoch(7, 0)
    assert list(world.manager.sequences._partitions) == [A, B]
    assert world.accumulator._queues == {}
