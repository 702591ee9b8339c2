"""Messages to bytes and back: what other rooms import.

`encoder(cls, version)` and `decoder(cls, version)` write one flat function (`codec_source.py`), compile it with the first
message of their direction, and register its source so that tracebacks show the line. `decode_message` is the one place
where running off the end of a buffer becomes MalformedMessage.
"""

from collections.abc import Callable
from functools import cache
from struct import error as layout_error
from typing import Any, Literal, NoReturn, TypeVar, cast

from oncelog.errors import InvalidArgument, MalformedMessage, UnsupportedVersion
from oncelog.wire.codec_source import ITEMS_MAX, STRING_SIZE_BYTES_MAX, DecodeSource, EncodeSource, TooManyItems
from oncelog.wire.wire_types import (
    EMPTY,
    FOREVER,
    ZERO_UUID,
    Bool,
    Bytes,
    Encoded,
    Field,
    Fixed,
    Float64,
    Int8,
    Int16,
    Int32,
    Int64,
    Records,
    Sized,
    String,
    Struct,
    Uint16,
    Uuid,
    field,
    run_source,
)

__all__ = [
    "EMPTY",
    "FOREVER",
    "ZERO_UUID",
    "Bool",
    "Buffer",
    "Bytes",
    "Encoded",
    "Field",
    "Fixed",
    "Float64",
    "Int8",
    "Int16",
    "Int32",
    "Int64",
    "InvalidField",
    "Records",
    "Sized",
    "String",
    "Struct",
    "TooManyItems",
    "Uint16",
    "Uuid",
    "decode_message",
    "decoder",
    "encode_message",
    "encode_parts",
    "encoder",
    "field",
]

Buffer = bytes | bytearray | memoryview
Message = TypeVar("Message", bound=Struct)
Encoder = Callable[[Any, Callable[[Buffer], object]], None]
Decoder = Callable[..., tuple[Any, int]]


class InvalidField(InvalidArgument):
    """A message cannot be encoded: the text names message, field and version."""


def _supported(cls: type[Struct], version: int) -> None:
    first, last = cls.VERSIONS
    if not first <= version <= last:
        raise UnsupportedVersion(f"{cls.__name__} has no version {version}, only {first} to {last}")


def _encoder(cls: type[Struct], version: int) -> Encoder:
    _supported(cls, version)
    source, names = encode_source(cls, version)
    return cast("Encoder", run_source(f"<encode {cls.__name__} v{version}>", source, names)["encode"])


def _decoder(cls: type[Struct], version: int) -> Decoder:
    _supported(cls, version)
    source, names = decode_source(cls, version)
    return cast("Decoder", run_source(f"<decode {cls.__name__} v{version}>", source, names)["decode"])


# Casts: type checkers take no classes as keys.
encoder = cast("Callable[[type[Struct], int], Encoder]", cache(_encoder))
"""`encoder(cls, version)(message, put)`. Use `encode_message` where errors matter. Raises UnsupportedVersion."""

decoder = cast("Callable[[type[Struct], int], Decoder]", cache(_decoder))
"""`decoder(cls, version)(memoryview, pos=0, left=ITEMS_MAX)` gives (message, pos). Use `decode_message` where errors matter.
Raises UnsupportedVersion."""


def encode_source(cls: type[Struct], version: int) -> tuple[str, dict[str, Any]]:
    """The source of an encoder and the names that it uses."""
    source = EncodeSource(cls, version)
    return source.text("def encode(message, put):") + ("" if source.lines else "    pass\n"), source.names


def decode_source(cls: type[Struct], version: int) -> tuple[str, dict[str, Any]]:
    """The source of a decoder and the names that it uses."""
    source = DecodeSource(cls, version)
    body = source.text(f"def decode(data, pos=0, left={ITEMS_MAX}):", "    return message, pos")
    return "\n".join([*source.functions, body]), source.names


def encode_parts(message: Struct, version: int, parts: list[Buffer]) -> None:
    """Append a message's bytes to `parts`; record bytes are appended as they are, without a copy.

    Raises InvalidField for a value that its field cannot carry, UnsupportedVersion for one that the version cannot.
    """
    encode = encoder(type(message), version)
    try:
        encode(message, parts.append)
    except (layout_error, TypeError, ValueError, AttributeError, OverflowError) as error:
        explain(message, version, error)


def encode_message(message: Struct, version: int) -> bytes:
    """A message's bytes, without header. Errors as in `encode_parts`."""
    parts: list[Buffer] = []
    encode_parts(message, version, parts)
    return b"".join(parts)


def decode_message(
    cls: type[Message],
    version: int,
    data: Buffer,
    *,
    trailing: Literal["refuse", "ignore"] = "refuse",
    items_max: int = ITEMS_MAX,
) -> Message:
    """The message in `data`; records fields are views of it. Raises MalformedMessage only.

    A broker passes `trailing="ignore"`, as Kafka's does. More than `items_max` items in all arrays together are
    TooManyItems, a MalformedMessage.
    """
    view = data if data.__class__ is memoryview else memoryview(data)
    try:
        message, pos = decoder(cls, version)(view, 0, items_max)
    except (layout_error, IndexError) as error:
        raise MalformedMessage(f"{cls.__name__} version {version} ends after {len(view)} bytes") from error
    except TooManyItems as error:
        raise TooManyItems(f"{cls.__name__} version {version}: {error}") from error
    except (MalformedMessage, UnsupportedVersion) as error:
        raise MalformedMessage(f"{cls.__name__} version {version}: {error}") from error
    if pos != len(view) and trailing == "refuse":
        raise MalformedMessage(f"{cls.__name__} version {version} has {len(view) - pos} bytes too many")
    return message  # type: ignore[no-any-return]


def explain(message: Struct, version: int, error: Exception) -> NoReturn:
    """Find the value on which an encoder stumbled; encoders themselves spend no time on checks."""
    for path, spec, value in _values(message, version, type(message).__name__):
        wrong = _what_is_wrong(spec, value, version)
        if wrong:
            raise InvalidField(f"{path} version {version}: {value!r} {wrong}") from error
    raise error


def _values(struct: Struct, version: int, path: str) -> list[tuple[str, Field, Any]]:
    found = []
    for spec in struct.FIELDS:
        if not spec.in_version(version):
            continue
        name = f"{path}.{spec.name}"
        value = getattr(struct, spec.name, "(missing)")
        found.append((name, spec, value))
        if isinstance(value, Struct):
            found += _values(value, version, name)
        elif spec.is_list and isinstance(value, list | tuple):
            for index, item in enumerate(value):
                if isinstance(item, Struct):
                    found += _values(item, version, f"{name}[{index}]")
    return found


def _what_is_wrong(spec: Field, value: Any, version: int) -> str:
    """What keeps a value from being encoded, or nothing."""
    if value is None:
        return "" if spec.nullable_in(version) else "is not allowed in a field that is not nullable"
    if isinstance(spec.wire, Sized) and spec.wire.kind == "array":
        if not isinstance(value, list | tuple):
            return "is not a list"
        reasons = (_what_is_wrong_with_item(spec.wire.item, item) for item in value)
        return next((f"has an item that {reason}" for reason in reasons if reason), "")
    return _what_is_wrong_with_item(spec.wire, value)


def _what_is_wrong_with_item(wire: Any, value: Any) -> str:
    if isinstance(wire, type):
        return "" if isinstance(value, wire) else f"is not a {wire.__name__}"
    if isinstance(wire, Fixed):
        if wire.layout == "16s":
            return "" if isinstance(value, bytes) and len(value) == 16 else "is not a UUID of 16 bytes"
        return _what_is_wrong_with_number(wire, value)
    if wire.kind == "string":
        return _what_is_wrong_with_string(value)
    return "" if isinstance(value, bytes | bytearray | memoryview) else "is not bytes"


def _what_is_wrong_with_number(wire: Fixed, value: Any) -> str:
    if wire.layout == "d":
        return "" if isinstance(value, int | float) else "is not a number"
    if not hasattr(value, "__index__"):
        return "is not an integer"
    bits = 8 * wire.size_bytes
    low, high = (0, 1 << bits) if wire.layout == "H" else (-1 << bits - 1, 1 << bits - 1)
    return "" if low <= value < high else f"does not fit into {bits} bits"


def _what_is_wrong_with_string(value: Any) -> str:
    if not isinstance(value, str):
        return "is not a string"
    try:
        size_bytes = len(value.encode())
    except UnicodeEncodeError:
        return "is not valid Unicode text"
    return "" if size_bytes <= STRING_SIZE_BYTES_MAX else f"is longer than {STRING_SIZE_BYTES_MAX} bytes"
