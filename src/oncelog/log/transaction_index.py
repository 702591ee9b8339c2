"""`.txnindex`: the aborted transactions that ended in a segment, so that readers know the outcome ahead (KIP-98).

An entry is 34 bytes, big endian: version int16 = 0, producer id, first offset, last offset (of the ABORT marker), last
stable offset, each int64. The file appears with the first abort. `last_offset` strictly ascends. Entries are
written through at once: aborts are rare.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from operator import attrgetter
from struct import Struct

from oncelog.errors import CorruptIndex
from oncelog.types import AbortedTransaction

ENTRY_SIZE_BYTES = 34
_ENTRY = Struct(">hqqqq")
_last_offset = attrgetter("last_offset")


def aborted_to_bytes(entry: AbortedTransaction) -> bytes:
    """The 34 bytes of one entry."""
    return _ENTRY.pack(0, entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)


def aborted_from_bytes(data: bytes, base_offset: int) -> list[AbortedTransaction]:
    """Read a file. Raises CorruptIndex on a cut entry, an unknown version, or offsets that do not ascend.

    `base_offset` is the segment's: a transaction that ended here has its marker at or above it.
    """
    if len(data) % ENTRY_SIZE_BYTES:
        raise CorruptIndex(f"transaction index of {base_offset}: {len(data)} bytes are no whole entries")
    entries = []
    before = base_offset - 1
    for version, producer_id, first_offset, last_offset, last_stable_offset in _ENTRY.iter_unpack(data):
        if version != 0:
            raise CorruptIndex(f"transaction index of {base_offset}: version {version} is unknown")
        if last_offset <= before:
            raise CorruptIndex(f"transaction index of {base_offset}: last offset {last_offset} does not ascend")
        if first_offset >= last_offset:
            # The marker lies behind the data. Zeros, where a write did not reach the disk, are no entry either.
            raise CorruptIndex(f"transaction index of {base_offset}: offsets {first_offset} to {last_offset} are none")
        entries.append(AbortedTransaction(producer_id, first_offset, last_offset, last_stable_offset))
        before = last_offset
    return entries


def collect_aborted(
    entries: Sequence[AbortedTransaction], fetch_offset: int, upper_bound_offset: int
) -> tuple[list[AbortedTransaction], bool]:
    """One segment's aborted transactions that overlap [fetch_offset, upper_bound_offset), in marker order.

    The second value is True when later segments need no look: an entry's last stable offset reached the bound, so all
    transactions that began below it have ended up to that entry (KIP-98; Kafka's `TransactionIndex.collectAbortedTxns`).
    """
    found = []
    # An entry that ended below fetch_offset never has a last stable offset above it, so skipping cannot miss the stop.
    for i in range(bisect_left(entries, fetch_offset, key=_last_offset), len(entries)):
        entry = entries[i]
        if entry.first_offset < upper_bound_offset:
            found.append(entry)
        if entry.last_stable_offset >= upper_bound_offset:
            return found, True
    return found, False
