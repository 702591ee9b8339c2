"""One record as a Python value. Kept apart from the compiled codec, so that its class is the same object either way."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

NO_TIMESTAMP = -1
INT64_MAX = 0x7FFFFFFFFFFFFFFF

Headers: TypeAlias = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """A record read from a batch. `timestamp` is in ms since 1970, -1 where the producer gave none."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def new_placed(kind: Any, *fields: Any) -> Any:
    """A named tuple of `kind` from all of its fields, without a call of its own constructor."""
    return tuple.__new__(kind, fields)
