"""A batch's records, made into what the application gets when the first of them is asked for, and handed out in parts."""

from __future__ import annotations

from typing import Protocol

from oncelog.client.consumer.deserializing import Decode
from oncelog.client.records import ConsumerRecord


class BeingHandedOut(Protocol):
    """Where the batch in hand is kept: its records, and how many of them are done with."""

    decoded: list[ConsumerRecord] | None
    decoded_index: int


def hand_out(
    place: BeingHandedOut, from_offset: int, taken: list[ConsumerRecord], count_max: int, decode: Decode | None
) -> None:
    """Add records from `from_offset` on until `taken` has `count_max`. What `decode` raises ends it; those before it are in."""
    records, index = place.decoded or [], place.decoded_index
    while index < len(records) and records[index].offset < from_offset:
        index += 1
    end = min(len(records), index + count_max - len(taken))
    try:
        if decode is None:
            taken += records[index:end]
            index = end
        while index < end:
            taken.append(decode(records[index]))  # type: ignore[misc]
            index += 1
    finally:
        place.decoded_index = index


def reached(place: BeingHandedOut, from_offset: int) -> int:
    """The offset behind what was handed out."""
    if not place.decoded or not place.decoded_index:
        return from_offset
    return max(from_offset, place.decoded[place.decoded_index - 1].offset + 1)
