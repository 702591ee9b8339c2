"""A copy that is not the whole: records left out by their key, parts of others replaced by digests. Pure.

A digest depends on a secret and on what it replaces only, so that equal parts stay equal: keys still compact and join.
"""

from __future__ import annotations

import hmac
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from oncelog.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import pyarrow as pa

DIGITS = 32
SECRET_BYTES_MIN = 16


@dataclass(frozen=True)
class Mask:
    """One part of each record: `column` is key, value or headers; `name` a header's, or a path into a JSON value."""

    column: str
    name: str = ""


def mask_of(text: str) -> Mask:
    """`key`, `value`, `value:FIELD.FIELD` or `header:NAME`. Raises ValueError."""
    column, _, name = text.partition(":")
    if text in ("key", "value"):
        return Mask(column)
    if column == "value" and name and all(name.split(".")):
        return Mask(column, name)
    if column == "header" and name:
        return Mask("headers", name)
    raise ValueError(f"{text!r} is none of key, value, value:FIELD.FIELD, header:NAME")


@dataclass(frozen=True)
class Change:
    """What becomes of each record on its way. `key_pattern` is searched in keys; records without a key do not match."""

    key_pattern: str = ""
    masks: tuple[Mask, ...] = ()
    secret: bytes = b""

    @property
    def tag(self) -> str:
        """Other for every other change, so that a copy is not gone on with differently; empty where nothing changes."""
        if not self.key_pattern and not self.masks:
            return ""
        text = repr((self.key_pattern, sorted({(each.column, each.name) for each in self.masks})))
        return hmac.digest(self.secret, text.encode(), "sha256").hex()[:16]

    def notes(self) -> list[str]:
        """What is done, in words."""
        parts = [f"{each.column} {each.name}".strip() for each in self.masks]
        found = [f"only records whose key has {self.key_pattern!r} are copied"] if self.key_pattern else []
        return found + ([f"digests replace {', '.join(parts)}"] if parts else [])

    def apply(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """The records that are copied, as they are copied."""
        import pyarrow as pa

        if self.key_pattern and rows.num_rows:
            wanted = re.compile(self.key_pattern.encode())
            keys = rows.column("key").to_pylist()
            rows = rows.filter(pa.array([key is not None and bool(wanted.search(key)) for key in keys], pa.bool_()))
        if not self.masks or not rows.num_rows:
            return rows
        columns = dict(zip(rows.schema.names, rows.columns, strict=True))
        for name in dict.fromkeys(each.column for each in self.masks):
            masked = [self._replacement(name)(each) for each in columns[name].to_pylist()]
            columns[name] = pa.array(masked, rows.schema.field(name).type)
        return pa.RecordBatch.from_arrays(list(columns.values()), schema=rows.schema)

    def _replacement(self, column: str) -> Callable[[Any], Any]:
        names = [each.name for each in self.masks if each.column == column]
        if column == "headers":
            return lambda headers: self._headers(headers, names)
        if "" in names:
            return self._whole
        paths = [name.split(".") for name in names]
        return lambda value: self._fields(value, paths)

    def _digest(self, data: bytes) -> str:
        return hmac.digest(self.secret, data, "sha256").hex()[:DIGITS]

    def _whole(self, data: bytes | None) -> bytes | None:
        return None if data is None else self._digest(data).encode()

    def _headers(self, headers: list[dict[str, Any]] | None, names: list[str]) -> list[dict[str, Any]] | None:
        if headers is None:
            return None
        return [each | {"value": self._whole(each["value"])} if each["key"] in names else each for each in headers]

    def _fields(self, value: bytes | None, paths: list[list[str]]) -> bytes | None:
        """What is no JSON object is replaced as a whole: nothing of it may be what was to be hidden."""
        if value is None:
            return None
        try:
            document = json.loads(value)
        except (ValueError, RecursionError):
            return self._whole(value)
        if not isinstance(document, dict):
            return self._whole(value)
        for path in paths:
            self._field(document, path)
        return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")

    def _field(self, inside: Any, path: list[str]) -> Any:
        """In lists on the way, in each element; a text or a number on the way is replaced, it may be the thing itself."""
        if isinstance(inside, list):
            inside[:] = [self._field(each, path) for each in inside]
        elif isinstance(inside, dict):
            if path and path[0] in inside:
                inside[path[0]] = self._below(inside[path[0]], path[1:])
            return inside
        return inside if isinstance(inside, list) else self._below(inside, [])

    def _below(self, found: Any, path: list[str]) -> Any:
        if path and isinstance(found, dict | list):
            return self._field(found, path)
        text = json.dumps(found, sort_keys=True, separators=(",", ":"))
        return None if found is None else self._digest(text.encode())
