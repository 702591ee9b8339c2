"""Records as text: format strings such as kcat's `%t [%p] %o %k %s\\n`, and rows for machines.

%t topic  %p partition  %o offset  %T timestamp in ms  %k key  %K its length, -1 for none  %s value  %S its length
%h headers as name=value,...  %% a percent sign. `\\n`, `\\t`, `\\0`, `\\xHH` stand for what they say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from oncelog.cli.output import bytes_value
from oncelog.client.records import ConsumerRecord

VALUE_LINE = "%s\\n"
WIDE_LINE = "%t-%p@%o  %T  %k  %s\\n"
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.)|\\x([0-9a-fA-F]{2})|\\(.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPED = re.compile(rb"\\x([0-9a-fA-F]{2})|\\(.)", re.DOTALL)
Part = Callable[[ConsumerRecord], bytes]


def _length(data: bytes | None) -> bytes:
    return str(-1 if data is None else len(data)).encode()


def _headers(record: ConsumerRecord) -> bytes:
    return b",".join(name.encode() + b"=" + (value if value is not None else b"NULL") for name, value in record.headers)


_FIELDS: dict[str, Part] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: str(record.partition).encode(),
    "o": lambda record: str(record.offset).encode(),
    "T": lambda record: str(record.timestamp_ms).encode(),
    "k": lambda record: record.key or b"",
    "s": lambda record: record.value or b"",
    "K": lambda record: _length(record.key),
    "S": lambda record: _length(record.value),
    "h": _headers,
    "%": lambda _: b"%",
}


def compile_format(text: str) -> Callable[[ConsumerRecord], bytes]:
    """A function that writes a record by a format string. Raises ValueError for an unknown sign."""
    parts: list[Part] = []
    for match in _TOKEN.finditer(text):
        field, hexadecimal, escape, literal, single = match.groups()
        if field is not None:
            if field not in _FIELDS:
                raise ValueError(f"%{field} is unknown; there are {' '.join('%' + name for name in _FIELDS)}")
            parts.append(_FIELDS[field])
        elif hexadecimal is not None:
            parts.append(_constant(bytes.fromhex(hexadecimal)))
        elif escape is not None:
            parts.append(_constant(_ESCAPES.get(escape, b"\\" + escape.encode())))
        else:
            parts.append(_constant((literal or single).encode()))
    return lambda record: b"".join([part(record) for part in parts])


def unescaped(text: str) -> bytes:
    """A separator as typed: UTF-8, in which `\\n`, `\\t`, `\\r`, `\\0`, `\\\\` and `\\xHH` stand for what they say."""
    return _ESCAPED.sub(_escape, text.encode())


def _escape(match: re.Match[bytes]) -> bytes:
    if match[1] is not None:
        return bytes.fromhex(match[1].decode())
    return _ESCAPES.get(match[2].decode("latin-1"), match[0])


def _constant(data: bytes) -> Part:
    return lambda _: data


def record_row(record: ConsumerRecord) -> dict[str, Any]:
    """A record as an object: bytes are text where they are UTF-8, else `{"base64": ...}`."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_ms": record.timestamp_ms,
        "timestamp_type": "LogAppendTime" if record.timestamp_type else "CreateTime",
        "key": bytes_value(record.key),
        "value": bytes_value(record.value),
        "headers": [[name, bytes_value(value)] for name, value in record.headers],
    }
