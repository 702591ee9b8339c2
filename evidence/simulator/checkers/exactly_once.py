"""Every acknowledged commit is read exactly once, nothing of an abort is read, an unknown transaction is whole or absent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from evidence.simulator.history import Outcome, Transaction

Read = Mapping[str, Sequence[tuple[int, int]]]


def check_exactly_once(transactions: Sequence[Transaction], read: Read) -> Iterator[str]:
    """`read`: key -> (offset, value) of everything a read_committed reader got from the beginning to the end."""
    counts = Counter((key, value) for key, records in read.items() for _, value in records)
    sent = {pair for transaction in transactions for pair in transaction.sends}
    for key, records in read.items():
        offsets = [offset for offset, _ in records]
        if offsets != sorted(set(offsets)):
            yield f"{key}: offsets are not increasing: {offsets}"
    for pair, count in sorted(counts.items()):
        if count > 1:
            yield f"{pair} was read {count} times"
        if pair not in sent:
            yield f"{pair} was read and never sent"
    for number, transaction in enumerate(transactions):
        if transaction.may_be_part:
            continue
        got = [pair for pair in transaction.sends if counts[pair]]
        missing = [pair for pair in transaction.sends if not counts[pair]]
        where = f"transaction {number} of process {transaction.process}"
        if transaction.outcome is Outcome.OK and missing:
            yield f"{where} is committed, and {missing} was not read"
        if transaction.outcome is Outcome.FAIL and got:
            yield f"{where} is aborted, and {got} was read"
        if transaction.outcome is Outcome.INFO and got and missing:
            yield f"{where} is torn: {got} was read, {missing} was not"


def check_same_reads(first: Read, second: Read) -> Iterator[str]:
    """A reader after a restart sees what one before it saw."""
    for key in sorted({*first, *second}):
        if list(first.get(key, ())) != list(second.get(key, ())):
            yield f"{key}: {first.get(key)} before the restart, {second.get(key)} after it"
