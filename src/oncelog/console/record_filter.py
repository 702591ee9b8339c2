"""Which records a search wants, and what of them may leave the server: filters and masks are data, never code.

A filter is a text that the record contains, a key, and comparisons of JSON fields such as `customer.id = 7`. No regular
expression and no script comes from outside. What is masked is masked before it is compared: a search must not tell it.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping
from typing import Any

from oncelog.errors import InvalidArgument
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.record import Record

HIDDEN = "•••"
FIELD_DEPTH_MAX = 16
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "!=": operator.ne,
    "=": operator.eq,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclass(frozen=True, slots=True)
class Mask:
    """What never leaves the server: JSON fields of these names at any depth, or all values."""

    fields: frozenset[str] = frozenset()
    hides_values: bool = False

    @property
    def is_on(self) -> bool:
        """Whether it hides anything."""
        return self.hides_values or bool(self.fields)

    def key(self, data: bytes | None) -> bytes | None:
        """A key: only its fields are masked, since it is what one looks for."""
        return self._masked(data, unreadable=data) if self.fields and data is not None else data

    def value(self, data: bytes | None) -> bytes | None:
        """A value; one that is no JSON is hidden whole where fields are masked: nobody knows what it holds."""
        if data is None or not self.is_on:
            return data
        return HIDDEN.encode() if self.hides_values else self._masked(data, unreadable=HIDDEN.encode())

    def header(self, name: str, data: bytes | None) -> bytes | None:
        """A header's value."""
        return HIDDEN.encode() if data is not None and (self.hides_values or name in self.fields) else data

    def of(self, record: Record) -> Record:
        """The record as it may leave."""
        if not self.is_on:
            return record
        headers = tuple((name, self.header(name, value)) for name, value in record.headers)
        return Record(record.offset, record.timestamp, self.key(record.key), self.value(record.value), headers)

    def _masked(self, data: bytes, *, unreadable: bytes | None) -> bytes | None:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            return unreadable
        if not isinstance(found, dict | list):
            return unreadable
        try:
            return json.dumps(self._walk(found), ensure_ascii=False).encode()
        except (ValueError, RecursionError):
            return HIDDEN.encode()

    def _walk(self, found: Any) -> Any:
        if isinstance(found, dict):
            return {key: HIDDEN if key in self.fields else self._walk(each) for key, each in found.items()}
        return [self._walk(each) for each in found] if isinstance(found, list) else found


@dataclass(frozen=True, slots=True)
class Comparison:
    """A JSON field against a literal; records that lack it, or hold another type there, do not match."""

    path: tuple[str, ...]
    sign: str
    literal: Any

    def matches(self, content: Any) -> bool:
        """Whether a decoded value matches."""
        for name in self.path:
            if not isinstance(content, dict) or name not in content:
                return False
            content = content[name]
        if isinstance(self.literal, str) and isinstance(content, int | float) and not isinstance(content, bool):
            content = json.dumps(content)
        try:
            return bool(COMPARISONS[self.sign](content, self.literal))
        except TypeError:
            return False


def comparison(text: str) -> Comparison:
    """`a.b >= 5`, `state = "open"`, `done = true`; what is no JSON is text. Raises InvalidArgument."""
    for at in range(len(text)):
        sign = next((each for each in COMPARISONS if text.startswith(each, at)), None)
        if sign is not None:
            path = tuple(part.strip() for part in text[:at].split("."))
            if not all(path) or len(path) > FIELD_DEPTH_MAX:
                break
            raw = text[at + len(sign) :].strip()
            try:
                literal = json.loads(raw)
            except (ValueError, RecursionError):
                literal = raw
            return Comparison(path, sign, literal)
    raise InvalidArgument(f"{text!r} compares nothing: write FIELD = VALUE, with one of = != < > <= >=")


@dataclass(frozen=True, slots=True)
class Filter:
    """What is looked for; all of it must hold. An empty one takes every record."""

    contains: bytes = b""
    key: bytes | None = None
    where: Comparison | None = None
    mask: Mask = Mask()

    def may_be_in(self, section: bytes) -> bool:
        """False where no record of a decompressed batch can match, which most batches of a search are: they are not parsed."""
        if self.mask.is_on:
            return True
        return self.contains in section and (self.key is None or self.key in section)

    def matches(self, record: Record) -> bool:
        """Whether it is one; `record` as the mask leaves it."""
        if self.key is not None and record.key != self.key:
            return False
        if self.contains and not self._contains(record):
            return False
        if self.where is None:
            return True
        try:
            return self.where.matches(json.loads(record.value or b""))
        except (ValueError, RecursionError):
            return False

    def _contains(self, record: Record) -> bool:
        fields = [record.key, record.value]
        fields += [part for name, value in record.headers for part in (name.encode(), value)]
        return any(self.contains in each for each in fields if each is not None)


def filter_of(asked: Mapping[str, str], mask: Mask) -> Filter:
    """From an address's parameters `contains`, `key`, `where`. Raises InvalidArgument."""
    where = asked.get("where", "").strip()
    return Filter(
        asked.get("contains", "").encode("utf-8", "surrogateescape"),
        asked["key"].encode("utf-8", "surrogateescape") if asked.get("key") else None,
        comparison(where) if where else None,
        mask,
    )
