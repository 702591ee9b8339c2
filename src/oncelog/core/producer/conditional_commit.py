"""A commit that leaves right behind its last records, before their acknowledgement: a round trip and a sync less.

EndTxn then names them (`EndTxnRequest.needed`, feature `oncelog.conditional.commit`), and the coordinator does not attempt it
where they have not arrived. Until its answer is there, no bad answer of those batches counts: a repeated batch of a transaction
that is committed meanwhile is refused as one of an old epoch, and a batch whose answer was lost may be in a committed
transaction. Committed: all of them are stored, at offsets that nobody tells where their own answers were lost. Not attempted:
each answer means what it says, and the commit goes behind whatever is sent again. A record whose delivery timeout is over
meanwhile is told so; the commit may succeed all the same.

A commit whose answer was lost may still be on its way when it is asked for again. Each has a number (`EndTxnRequest.attempt`),
and a coordinator that did not attempt one refuses all those before it: "not attempted" is final for whatever was sent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from oncelog.core.producer.batch import Acknowledged, ProducerBatch
from oncelog.core.producer.requests import TxnRequest
from oncelog.types import ProducerIdAndEpoch
from oncelog.wire.messages.end_txn import EndTxnRequest, NeededPartition, NeededTopic

FEATURE = "oncelog.conditional.commit"
# Refusals in a row, of records that had arrived: this broker cannot do it (several processes, no journal).
FRUITLESS_MAX = 3
VERSION_MIN = 5  # of EndTxn: below it there is no room for what it needs


class ConditionalCommit:
    """The commit under way of one producer, if it is one; `batches` is what it rests on, empty where nothing is undecided."""

    def __init__(self) -> None:
        self.batches: tuple[ProducerBatch, ...] = ()
        self._put_off: dict[ProducerBatch, Callable[[], None]] = {}
        self._stored: tuple[ProducerBatch, ...] = ()
        self._released: list[Callable[[], None]] = []
        self._fruitless_count = 0
        self._attempt_count = 0  # of the commit of `_identity`
        self._identity = ProducerIdAndEpoch()

    @property
    def is_undecided(self) -> bool:
        """Whether the answer of a conditional commit is missing."""
        return bool(self.batches)

    @property
    def is_worth_it(self) -> bool:
        """Whether the broker has not shown that it always refuses."""
        return self._fruitless_count < FRUITLESS_MAX

    def begin(self, request: TxnRequest, batches: Iterable[ProducerBatch]) -> None:
        """`request` goes behind `batches`, all that is not acknowledged of the transaction, in any order."""
        self.batches, request.version_min = tuple(batches), VERSION_MIN
        # By their ordinals: the parts of a batch that was split come late to the accumulator, with early sequences.
        in_order = sorted(self.batches, key=lambda batch: batch.ordinal)
        last = {batch.topic_partition: batch.last_sequence for batch in in_order}
        topics: dict[str, list[NeededPartition]] = {}
        for (topic, partition), last_sequence in sorted(last.items()):
            needed = NeededPartition(partition_index=partition, last_sequence=last_sequence)
            topics.setdefault(topic, []).append(needed)
        message = _end_txn(request)
        message.needed = [NeededTopic(name=name, partitions=partitions) for name, partitions in topics.items()]

    def leaves(self, request: TxnRequest) -> None:
        """EndTxn is about to be sent, conditional or not, for the first time or again. Numbers begin anew with each identity."""
        if self.is_undecided:
            message = _end_txn(request)
            identity = ProducerIdAndEpoch(message.producer_id, message.producer_epoch)
            self._attempt_count = 1 if identity != self._identity else self._attempt_count + 1
            message.attempt, self._identity = self._attempt_count, identity

    def puts_off(self, batch: ProducerBatch, then: Callable[[], None]) -> bool:
        """Whether a bad answer of `batch` has to wait; then `then` is done once the commit was not attempted."""
        if batch not in self.batches:
            return False
        self._put_off[batch] = then
        return True

    def put_off(self) -> tuple[ProducerBatch, ...]:
        """The batches whose bad answers wait, without those that were given up."""
        return tuple(batch for batch in self._put_off if batch.outcome is None)

    def committed(self) -> None:
        """EndTxn succeeded, conditional or not: whatever it rested on is stored, acknowledged or not."""
        if self.batches:
            self._fruitless_count = 0
        self._stored, self.batches, self._put_off = self.batches, (), {}

    def not_attempted(self, request: TxnRequest) -> None:
        """The coordinator did not find them; the request may be sent again without the condition, or with another."""
        message, request.version_min = _end_txn(request), 0
        message.needed, message.attempt = [], 0
        is_fruitless = all(isinstance(batch.outcome, Acknowledged) for batch in self.batches)
        self._fruitless_count = self._fruitless_count + 1 if is_fruitless else 0
        self.over()

    def over(self) -> None:
        """No conditional commit is under way any more: what is put off counts."""
        self._released += self._put_off.values()
        self.batches, self._put_off = (), {}

    def take_stored(self) -> tuple[ProducerBatch, ...]:
        """What the commit has stored and no answer of its own has acknowledged; once."""
        stored, self._stored = self._stored, ()
        return tuple(batch for batch in stored if batch.outcome is None)

    def take_released(self) -> list[Callable[[], None]]:
        """What was put off and counts now; once."""
        released, self._released = self._released, []
        return released


def _end_txn(request: TxnRequest) -> EndTxnRequest:
    assert isinstance(request.message, EndTxnRequest)
    return request.message
