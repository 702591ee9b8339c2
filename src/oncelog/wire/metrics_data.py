"""OpenTelemetry's MetricsData v1 (protobuf), as far as clients push it: numbers, as gauges and sums (KIP-714).

Histograms and summaries are read over. The compressed size says little about the work: `fields_max` and `points_max`
bound what reading may cost, and `pace` is called all the while, so that it may rest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sized
from enum import IntEnum

from oncelog.errors import MalformedMessage
from oncelog.lazy_dataclass import dataclass

Attributes = tuple[tuple[str, str], ...]
Pace = Callable[[int], object]  # called after each piece of work, with the bytes that it read
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5  # protobuf's wire types
_double = struct.Struct("<d")
_fixed64 = struct.Struct("<Q")
_sfixed64 = struct.Struct("<q")
_DELTA, _CUMULATIVE = 1, 2  # AggregationTemporality
_VARINT_BYTES_MAX = 10
ATTRIBUTES_MAX = 64  # of a resource, and of a number: each number carries both
_FIELDS_PER_PIECE = 128


class MetricKind(IntEnum):
    """What a number says: its value now, a sum that only grows, or what was added to such a sum."""

    GAUGE = 0
    CUMULATIVE = 1
    DELTA = 2


@dataclass(frozen=True, slots=True)
class DataPoint:
    """One number. `attributes` tell it from others of the same name, those of its resource first."""

    name: str
    value: float
    kind: MetricKind = MetricKind.GAUGE
    attributes: Attributes = ()


class TooMuchTelemetry(MalformedMessage):
    """More than the reader takes."""


class _Reader:
    """Fields of protobuf messages, counted."""

    def __init__(self, data: bytes, fields_max: int, pace: Pace) -> None:
        self._data = data
        self._left_count = self._count_max = fields_max
        self._pace = pace

    def fields(self, start: int, end: int) -> Iterator[tuple[int, int, int, int]]:
        """Number, wire type, and where the content lies; of a varint the second is its value, the third no place."""
        position = start
        while position < end:
            self._left_count -= 1
            if self._left_count < 0:
                raise TooMuchTelemetry(f"metrics of more than {self._count_max} fields")
            if self._left_count % _FIELDS_PER_PIECE == 0:
                self._pace(0)
            key, position = self.varint(position, end)
            number, wire_type = key >> 3, key & 7
            if not number:
                raise MalformedMessage("metrics: a field without a number")
            if wire_type == _VARINT:
                value, position = self.varint(position, end)
                yield number, wire_type, value, 0
                continue
            if wire_type == _BYTES:
                size_bytes, position = self.varint(position, end)
            elif wire_type in (_FIXED64, _FIXED32):
                size_bytes = 8 if wire_type == _FIXED64 else 4
            else:
                raise MalformedMessage(f"metrics: wire type {wire_type}")
            if size_bytes > end - position:
                raise MalformedMessage("metrics: a field passes the end of its message")
            yield number, wire_type, position, position + size_bytes
            position += size_bytes

    def varint(self, position: int, end: int) -> tuple[int, int]:
        """An unsigned number of 64 bits and the position after it."""
        value = 0
        for index in range(_VARINT_BYTES_MAX):
            if position >= end:
                raise MalformedMessage("metrics: a number is cut short")
            byte = self._data[position]
            position += 1
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value & 0xFFFFFFFFFFFFFFFF, position
        raise MalformedMessage("metrics: a number is too long")

    def text(self, start: int, end: int) -> str:
        """A string."""
        try:
            return self._data[start:end].decode()
        except UnicodeDecodeError:
            raise MalformedMessage("metrics: a text is no UTF-8") from None

    def double(self, start: int) -> float:
        """A double."""
        value: float = _double.unpack_from(self._data, start)[0]
        return value

    def integer(self, start: int) -> int:
        """A signed number of 64 bits."""
        value: int = _sfixed64.unpack_from(self._data, start)[0]
        return value


def no_pace(_size_bytes: int) -> None:
    """Of reading that need not rest."""


def decode_metrics(data: bytes, *, points_max: int, fields_max: int, pace: Pace = no_pace) -> list[DataPoint]:
    """Every number in `data`. Raises MalformedMessage, and TooMuchTelemetry past a bound."""
    reader = _Reader(data, fields_max, pace)
    points: list[DataPoint] = []
    for number, wire_type, start, end in reader.fields(0, len(data)):
        if number == 1 and wire_type == _BYTES:
            for point in _resource_metrics(reader, start, end):
                if len(points) >= points_max:
                    raise TooMuchTelemetry(f"more than {points_max} numbers")
                points.append(point)
    return points


def _resource_metrics(reader: _Reader, start: int, end: int) -> Iterator[DataPoint]:
    attributes: list[tuple[str, str]] = []
    scopes = []
    for number, wire_type, begin, stop in reader.fields(start, end):
        if wire_type == _BYTES and number == 1:
            for attribute in _attributes(reader, begin, stop, 1):
                attributes.append(attribute)
                _check_count(attributes)
        elif wire_type == _BYTES and number == 2:
            scopes.append((begin, stop))
    resource = tuple(attributes)
    for scope in scopes:
        for number, wire_type, begin, stop in reader.fields(*scope):
            if number == 2 and wire_type == _BYTES:
                yield from _metric(reader, begin, stop, resource)


def _metric(reader: _Reader, start: int, end: int, resource: Attributes) -> Iterator[DataPoint]:
    name = ""
    found: list[tuple[int, int, int]] = []
    for number, wire_type, begin, stop in reader.fields(start, end):
        if wire_type != _BYTES:
            continue
        if number == 1:
            name = reader.text(begin, stop)
        elif number in (5, 7):  # gauge, sum
            found.append((number, begin, stop))
    for number, begin, stop in found:
        yield from _numbers(reader, begin, stop, name, resource, is_sum=number == 7)


def _numbers(
    reader: _Reader, start: int, end: int, name: str, resource: Attributes, *, is_sum: bool
) -> Iterator[DataPoint]:
    temporality, is_monotonic, places = 0, False, []
    for number, wire_type, begin, stop in reader.fields(start, end):
        if number == 1 and wire_type == _BYTES:
            places.append((begin, stop))
        elif is_sum and number == 2 and wire_type == _VARINT:
            temporality = begin
        elif is_sum and number == 3 and wire_type == _VARINT:
            is_monotonic = bool(begin)
    kind = MetricKind.GAUGE
    if is_sum and is_monotonic:
        kind = MetricKind.DELTA if temporality == _DELTA else MetricKind.CUMULATIVE
    for place in places:
        value, attributes = _number(reader, *place)
        if value is not None:
            yield DataPoint(name, value, kind, resource + attributes)


def _number(reader: _Reader, start: int, end: int) -> tuple[float | None, Attributes]:
    value: float | None = None
    attributes: list[tuple[int, int]] = []
    for number, wire_type, begin, stop in reader.fields(start, end):
        if number == 4 and wire_type == _FIXED64:
            value = reader.double(begin)
        elif number == 6 and wire_type == _FIXED64:
            value = reader.integer(begin)
        elif number == 7 and wire_type == _BYTES:
            attributes.append((begin, stop))
    _check_count(attributes)
    return value, tuple(_key_value(reader, *place) for place in attributes)


def _check_count(attributes: Sized) -> None:
    if len(attributes) > ATTRIBUTES_MAX:
        raise TooMuchTelemetry(f"a resource or number with more than {ATTRIBUTES_MAX} attributes")


def _attributes(reader: _Reader, start: int, end: int, wanted: int) -> Iterator[tuple[str, str]]:
    for number, wire_type, begin, stop in reader.fields(start, end):
        if number == wanted and wire_type == _BYTES:
            yield _key_value(reader, begin, stop)


def _key_value(reader: _Reader, start: int, end: int) -> tuple[str, str]:
    key = text = ""
    for number, wire_type, begin, stop in reader.fields(start, end):
        if number == 1 and wire_type == _BYTES:
            key = reader.text(begin, stop)
        elif number == 2 and wire_type == _BYTES:
            text = _any_value(reader, begin, stop)
    return key, text


def _any_value(reader: _Reader, start: int, end: int) -> str:
    """Texts, numbers and truths; lists, maps and bytes are left empty."""
    text = ""
    for number, wire_type, begin, stop in reader.fields(start, end):
        if number == 1 and wire_type == _BYTES:
            text = reader.text(begin, stop)
        elif number == 2 and wire_type == _VARINT:
            text = "true" if begin else "false"
        elif number == 3 and wire_type == _VARINT:
            text = str(begin - (1 << 64) if begin >> 63 else begin)
        elif number == 4 and wire_type == _FIXED64:
            text = repr(reader.double(begin))
    return text


# writing


def encode_metrics(points: Iterable[DataPoint], resource: Attributes, started_ms: int, now_ms: int) -> bytes:
    """One resource's numbers at `now_ms`; sums began at `started_ms`: where they count from, or the push before."""
    times = _fixed(2, started_ms * 1_000_000) + _fixed(3, now_ms * 1_000_000)
    scope = b"".join(_message(2, _encoded_metric(point, times)) for point in points)
    whole = _message(1, b"".join(_message(1, _encoded_attribute(each)) for each in resource)) + _message(2, scope)
    return _message(1, whole)


def _encoded_metric(point: DataPoint, times: bytes) -> bytes:
    value = (
        _key(6, _FIXED64) + _sfixed64.pack(point.value)
        if isinstance(point.value, int)
        else _key(4, _FIXED64) + _double.pack(point.value)
    )
    attributes = b"".join(_message(7, _encoded_attribute(each)) for each in point.attributes)
    number = _message(1, times + value + attributes)
    named = _message(1, point.name.encode())
    if point.kind is MetricKind.GAUGE:
        return named + _message(5, number)
    temporality = _DELTA if point.kind is MetricKind.DELTA else _CUMULATIVE
    return named + _message(7, number + _key(2, _VARINT) + bytes((temporality,)) + _key(3, _VARINT) + b"\x01")


def _encoded_attribute(attribute: tuple[str, str]) -> bytes:
    key, text = attribute
    return _message(1, key.encode()) + _message(2, _message(1, text.encode()))


def _key(number: int, wire_type: int) -> bytes:
    return bytes((number << 3 | wire_type,))


def _fixed(number: int, value: int) -> bytes:
    return _key(number, _FIXED64) + _fixed64.pack(value)


def _message(number: int, content: bytes) -> bytes:
    return _key(number, _BYTES) + _size(len(content)) + content


def _size(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
