"""What becomes of each input record: known to the members, who do it, and to the judge, who says whether it was done."""

from __future__ import annotations

KEYS = 97
POISON_EVERY = 500  # one in so many records can never be transformed


def key_of(number: int) -> bytes:
    """Few keys, so that order within one can go wrong."""
    return b"key-%d" % (number % KEYS)


def is_poison(number: int) -> bool:
    """Whether it belongs into the dead-letter topic."""
    return number % POISON_EVERY == POISON_EVERY - 1


def outputs_of(number: int) -> list[bytes]:
    """Its outputs, in order: none, one or two."""
    if is_poison(number) or number % 10 == 3:
        return []
    if number % 10 == 7:
        return [b"%d:a" % number, b"%d:b" % number]
    return [b"%d" % number]


def number_of(value: bytes) -> int:
    """The record that an output was made of."""
    return int(value.partition(b":")[0])
