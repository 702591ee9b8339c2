"""What goes with a topic to which nothing was sent for long: a producer that lives long meets any number of them."""

from __future__ import annotations

from collections.abc import Collection

from oncelog.core.producer.accumulator import RecordAccumulator
from oncelog.core.producer.partitioner import StickyPartitioner
from oncelog.core.producer.states import TransactionState
from oncelog.core.producer.transaction_manager import TransactionManager


def forget_topics(
    topics: Collection[str], manager: TransactionManager, accumulator: RecordAccumulator, sticky: StickyPartitioner
) -> None:
    """Of none of them anything waits or is on its way.

    Sequences go as well, and what is sent next has another epoch: leaders remember them. In transactions they belong to the
    epoch, which the end of each transaction raises (with transaction.version 2).
    """
    accumulator.forget(topics)
    sticky.forget(topics)
    is_over = manager.is_transactional or manager.state is TransactionState.FATAL_ERROR
    if not is_over and manager.sequences.forget(topics):
        manager.begin_epoch()
