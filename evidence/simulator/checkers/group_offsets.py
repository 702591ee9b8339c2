"""S12: positions sent with a transaction are a group's positions exactly when the transaction is committed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from evidence.simulator.history import Outcome, Transaction
from oncelog.types import TopicPartition

Positions = Mapping[TopicPartition, int]


def check_group_offsets(transactions: Sequence[Transaction], committed: Mapping[str, Positions]) -> Iterator[str]:
    """`committed`: group -> its positions at the end. Transactions of one group follow one another."""
    for group in sorted({transaction.group for transaction in transactions if transaction.group}):
        mine = [transaction for transaction in transactions if transaction.group == group]
        keys = sorted({key for transaction in mine for key in transaction.offsets})
        for key in keys:
            allowed: set[int | None] = {None}
            for transaction in mine:
                if key not in transaction.offsets:
                    continue
                if transaction.outcome is Outcome.OK:
                    allowed = {transaction.offsets[key]}
                elif transaction.is_unknown:
                    allowed.add(transaction.offsets[key])
            # An unknown transaction of an instance that was never fenced may still have committed afterwards.
            allowed |= {t.offsets[key] for t in mine if t.is_unknown and key in t.offsets}
            stored = committed.get(group, {}).get(key)
            if stored not in allowed:
                yield f"{group} stands at {stored} in {key}; allowed: {sorted(map(str, allowed))}"
