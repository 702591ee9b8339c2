"""Random messages of any class and version, and which classes and versions there are."""

from __future__ import annotations

from random import Random
from typing import Any

from oncelog.errors import ErrorCode
from oncelog.wire.api import APIS
from oncelog.wire.schema import Field, Fixed, Sized, Struct

MESSAGES = [cls for api in APIS.values() for cls in (api.request, api.response)]
MESSAGE_VERSIONS = [(cls, version) for cls in MESSAGES for version in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]
ALPHABET = "abc-._ \0ßλ中🐍"


OWN_TAGS_FROM = 10000  # tags that Kafka does not have


def message_of(cls: type[Struct], version: int, random: Random, *, depth: int = 0) -> Any:
    """A message with every field that Kafka has in this version set to something, null where chance wants it."""
    values = {
        field.name: field_value(field, version, random, depth)
        for field in cls.FIELDS
        if field.in_version(version) and (field.tag is None or (field.tag < OWN_TAGS_FROM and random.random() < 0.6))
    }
    return cls(**values)


def field_value(field: Field, version: int, random: Random, depth: int) -> Any:
    if field.nullable_in(version) and random.random() < 0.25:
        return None
    wire = field.wire
    if isinstance(wire, Sized) and wire.kind == "array":
        count = random.choice((0, 1, 1, 2, 3) if depth < 3 else (0, 1))
        if isinstance(wire.item, type):
            return [message_of(wire.item, version, random, depth=depth + 1) for _ in range(count)]
        return [plain_value(wire.item, "item", random) for _ in range(count)]
    if isinstance(wire, type):
        return message_of(wire, version, random, depth=depth + 1)
    return plain_value(wire, field.name, random)


def plain_value(wire: Any, name: str, random: Random) -> Any:
    if isinstance(wire, Sized):
        if wire.kind == "string":
            size = random.choice((0, 1, 5, 13, 140)) if random.random() < 0.3 else 6
            return "".join(random.choice(ALPHABET) for _ in range(size))
        return random.randbytes(random.choice((0, 1, 7, 130, 300)))
    assert isinstance(wire, Fixed)
    if wire.layout == "?":
        return random.random() < 0.5
    if wire.layout == "d":
        return random.choice((0.0, -1.5, 1e300, 3.25))
    if wire.layout == "16s":
        return random.randbytes(16)
    return number(wire, name, random)


def number(wire: Fixed, name: str, random: Random) -> int:
    if name.endswith("error_code"):
        return int(random.choice((ErrorCode.NONE, ErrorCode.UNKNOWN_SERVER_ERROR, ErrorCode.TRANSACTION_ABORTABLE)))
    if name.endswith("_ms") or "timestamp" in name:
        return random.randrange(0, 1 << (8 * wire.size_bytes - 1)) % 1_800_000_000_000
    bits = 8 * wire.size_bytes
    low, high = (0, (1 << bits) - 1) if wire.layout == "H" else (-1 << bits - 1, (1 << bits - 1) - 1)
    return random.choice((low, high, 0 if wire.layout == "H" else -1, 1, random.randint(low, high)))
