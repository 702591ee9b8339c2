"""Sequence numbers of an idempotent producer, per partition, and what is outstanding under them.

Each partition keeps the identity it began with until nothing is outstanding, then moves to the producer's current one
and starts at 0. So a bump after a failed batch never renumbers what may already be stored elsewhere. What follows the
failed one under its identity is behind a gap: the leader refuses it; it is numbered anew once that is certain.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import field

from oncelog.core.producer.batch import SEQUENCE_COUNT, ProducerBatch
from oncelog.lazy_dataclass import dataclass
from oncelog.types import NO_SEQUENCE, ProducerIdAndEpoch, TopicPartition


@dataclass(slots=True)
class PartitionSequences:
    """One partition's numbering."""

    identity: ProducerIdAndEpoch
    next_sequence: int = 0
    outstanding: list[ProducerBatch] = field(default_factory=list)  # in the order of their sequences
    is_known: bool = False  # whether the leader has acknowledged something of this identity


class ProducerSequences:
    """Numbers batches; knows which may be sent next without leaving a gap."""

    def __init__(self) -> None:
        self.identity = ProducerIdAndEpoch()
        self._partitions: dict[TopicPartition, PartitionSequences] = {}

    def begin_identity(self, identity: ProducerIdAndEpoch) -> None:
        """The producer's identity from now on; partitions move over when nothing is outstanding there."""
        self.identity = identity

    def reset(self) -> None:
        """A new epoch begins with nothing outstanding anywhere (after EndTxn v5, or InitProducerId): all start at 0."""
        self._partitions.clear()

    def forget(self, topics: Collection[str]) -> bool:
        """Nothing was sent to these topics for long. Whether leaders remember sequences of the present identity: nothing may be
        numbered anew under that one."""
        gone = {tp: each for tp, each in self._partitions.items() if tp.topic in topics and not each.outstanding}
        for topic_partition in gone:
            del self._partitions[topic_partition]
        return any(each.identity == self.identity for each in gone.values())

    def may_send(self, batch: ProducerBatch) -> bool:
        """Whether the batch can leave now without overtaking what must come before it."""
        partition = self._partitions.get(batch.topic_partition)
        if batch.has_sequence:
            # A retry goes out only when it is the oldest: whatever is behind it would be refused again.
            return partition is None or not partition.outstanding or partition.outstanding[0] is batch
        if partition is None or not partition.outstanding:
            return True
        # A leader that knows nothing of an identity takes any sequence: where the first batch is refused (the topic was
        # just created), one behind it would be stored in its place, and the first one never.
        return partition.identity == self.identity and partition.is_known

    def assign(self, batch: ProducerBatch) -> None:
        """Give the batch its identity and sequence, for good; a batch that has them keeps them."""
        partition = self._partitions.setdefault(batch.topic_partition, PartitionSequences(self.identity))
        if not batch.has_sequence:
            if not partition.outstanding and partition.identity != self.identity:
                partition.identity, partition.next_sequence, partition.is_known = self.identity, 0, False
            batch.identity, batch.sequence = partition.identity, partition.next_sequence
            partition.next_sequence = (partition.next_sequence + batch.record_count) % SEQUENCE_COUNT
            partition.outstanding.append(batch)
        batch.was_first_when_sent = bool(partition.outstanding) and partition.outstanding[0] is batch

    def take_back(self, batch: ProducerBatch) -> None:
        """The batch that was numbered last was never sent: the next one gets its sequence."""
        partition = self._partitions[batch.topic_partition]
        assert partition.outstanding[-1] is batch
        partition.outstanding.pop()
        partition.next_sequence = batch.sequence
        batch.identity, batch.sequence = ProducerIdAndEpoch(), NO_SEQUENCE

    def resolved(self, batch: ProducerBatch, *, is_acknowledged: bool = False) -> None:
        """The batch ended, well or badly."""
        partition = self._partitions.get(batch.topic_partition)
        if partition is not None and batch in partition.outstanding:
            position = partition.outstanding.index(batch)
            del partition.outstanding[position]
            partition.is_known |= is_acknowledged
            if not is_acknowledged:
                for behind in partition.outstanding[position:]:
                    behind.is_behind_gap = True

    def was_split(self, batch: ProducerBatch, parts: Sequence[ProducerBatch]) -> None:
        """The parts, which have its sequences, take the batch's place."""
        partition = self._partitions.get(batch.topic_partition)
        if partition is not None and batch in partition.outstanding:
            position = partition.outstanding.index(batch)
            partition.outstanding[position : position + 1] = parts

    def renumber(self, batch: ProducerBatch) -> bool:
        """Give up the sequence of a batch that is not on its way, so that it gets one of a later identity; whether that may be.

        Only behind a gap, as nothing fills it, and only what each attempt's answer says is not stored.
        """
        partition = self._partitions.get(batch.topic_partition)
        if not batch.is_behind_gap or batch.may_be_stored or partition is None or partition.identity == self.identity:
            return False
        if batch in partition.outstanding:
            partition.outstanding.remove(batch)
        batch.identity, batch.sequence, batch.encoded, batch.is_behind_gap = (
            ProducerIdAndEpoch(),
            NO_SEQUENCE,
            None,
            False,
        )
        return True

    def next_sequence(self, topic_partition: TopicPartition) -> int:
        """The sequence the next new batch of this partition gets (0 where nothing was sent)."""
        partition = self._partitions.get(topic_partition)
        return partition.next_sequence if partition and partition.identity == self.identity else 0
