"""What must not be, beside what the writers know."""

from __future__ import annotations

from collections import Counter

from evidence.cluster_kills.work import ABORTED, COMMITTED, Ledger


def problems(ledger: Ledger, written: list[list[bytes]], copied: list[list[bytes]]) -> list[str]:
    """Duplicates, losses, torn transactions, order; each a line."""
    found = [f"{name}: {line}" for name, topic in (("in", written), ("out", copied)) for line in _out_of_order(topic)]
    seen = Counter(value for values in written for value in values)
    found += [f"in: {value!r} {count} times" for value, count in seen.items() if count > 1]
    by_transaction = Counter((int(w), int(n)) for w, n, _ in (value.split(b":") for value in seen))
    for which, size in ledger.sizes.items():
        outcome, there = ledger.outcomes[which], by_transaction.pop(which, 0)
        wanted = {COMMITTED: {size}, ABORTED: {0}}.get(outcome, {0, size})
        if there not in wanted:
            found.append(f"in: transaction {which} is {outcome}, and {there} of its {size} records are there")
    found += [f"in: transaction {which} was never written" for which in by_transaction]
    again = Counter(value for values in copied for value in values)
    found += [f"out: {value!r} {again[value]} times" for value in seen if again[value] != 1]
    return found + [f"out: {value!r} is not in `in`" for value in again if value not in seen]


def _out_of_order(topic: list[list[bytes]]) -> list[str]:
    found = []
    for partition, values in enumerate(topic):
        last: dict[int, tuple[int, int]] = {}
        for value in values:
            writer, number, index = (int(word) for word in value.split(b":"))
            if (number, index) <= last.get(writer, (-1, -1)):
                found.append(f"partition {partition}: {value!r} behind {last[writer]}")
            last[writer] = number, index
    return found
