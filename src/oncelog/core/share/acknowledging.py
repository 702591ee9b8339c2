"""What a request says became of records, checked before any partition is asked (KIP-932, KIP-1222)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from oncelog.core.share.window import GAP, REJECT, RENEW, Acknowledgement


class AcknowledgementBatch(Protocol):
    """A batch as ShareFetch and ShareAcknowledge carry it."""

    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def acknowledgements_of(
    batches: Sequence[AcknowledgementBatch], *, may_renew: bool
) -> tuple[Acknowledgement, ...] | None:
    """The acknowledgements of one partition in the order of the request; None where it is malformed."""
    type_max = RENEW if may_renew else REJECT
    before = -1
    found = []
    for batch in batches:
        first, last, types = batch.first_offset, batch.last_offset, batch.acknowledge_types
        if first > last or first < before or not types:
            return None
        if len(types) > 1 and len(types) != last - first + 1:
            return None
        if not all(GAP <= each <= type_max for each in types):
            return None
        before = last
        found.append(Acknowledgement(first, last, tuple(types)))
    return tuple(found)
