"""Writes the Python source of encoders and decoders: one flat function per message class, version and direction.

The generated code is the clearest description of a format; `print(decode_source(EndTxnResponse, 5)[0])` shows it.
Fixed-width neighbours become one `struct` call, together with the length or the tag count that follows them. Every
length is compared with the rest of the frame before anything is made from it; running off the end otherwise raises
IndexError or struct.error, which `schema.decode_message` turns into MalformedMessage. All arrays of a message share one
budget of items, since an object takes a hundred times the bytes that it is read from (KAFKA-14063).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from struct import Struct as Layout
from struct import pack, unpack_from
from typing import Any, NoReturn

from oncelog.errors import MalformedMessage, UnsupportedVersion
from oncelog.wire.wire_types import Encoded, Field, Fixed, Sized, Struct, may_stand_alone, run_source

STRING_SIZE_BYTES_MAX = 32767
ITEMS_MAX = 4_000_000  # of all arrays of one message together, where the caller does not say
TAGS_MAX = 127  # tagged fields of one struct: nobody has ten


class TooManyItems(MalformedMessage):
    """The arrays of a message have more items together than its reader takes."""


def _uvarint(number: int) -> bytes:
    out = bytearray()
    while number > 127:
        out.append(number & 127 | 128)
        number >>= 7
    out.append(number)
    return bytes(out)


UVARINTS = [_uvarint(number) for number in range(4096)]


def put_uvarint(number: int) -> bytes:
    """An unsigned varint; sizes beyond int32 cannot be said."""
    if number < 4096:
        return UVARINTS[number]
    if number > 0x7FFFFFFF:
        raise OverflowError(f"a length of {number - 1} does not fit")
    return _uvarint(number)


def put_string_length(number: int) -> bytes:
    """A compact string's length + 1; Kafka refuses strings that the older two-byte length could not say."""
    if number > STRING_SIZE_BYTES_MAX + 1:
        raise OverflowError(f"a string of {number - 1} bytes is longer than {STRING_SIZE_BYTES_MAX}")
    return put_uvarint(number)


def read_uvarint(data: memoryview, pos: int) -> tuple[int, int]:
    """An unsigned varint of at most five bytes, as Java reads it: the upper half of uint32 is negative."""
    number = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        number |= (byte & 127) << shift
        if byte < 128:
            break
        shift += 7
        if shift > 28:
            raise MalformedMessage(f"varint before byte {pos} is longer than five bytes")
    number &= 0xFFFFFFFF
    return (number - 0x100000000 if number > 0x7FFFFFFF else number), pos


def read_length(data: memoryview, pos: int) -> tuple[int, int]:
    """A compact length + 1. Java takes one from it in 32 bits, so that 2^31 is no null but more than any frame holds."""
    number, pos = read_uvarint(data, pos)
    return (0x80000000 if number == -0x80000000 else number), pos


def skip_tags(data: memoryview, pos: int, end: int) -> int:
    """Pass over tagged fields that this class does not know (KIP-482: they may be ignored); a negative count is none."""
    count, pos = read_uvarint(data, pos)
    refuse_count_unless(count <= min(end - pos, TAGS_MAX), "tagged fields", count, pos, end)
    for _ in range(count):
        _, pos = read_uvarint(data, pos)
        size_bytes, pos = read_uvarint(data, pos)
        refuse_count_unless(0 <= size_bytes <= end - pos, "tagged field", size_bytes, pos, end)
        pos += size_bytes
    return pos


def refuse_count_unless(fits: bool, name: str, count: int, pos: int, end: int) -> None:
    if not fits:
        refuse_length(name, count, pos, end)


def refuse_length(name: str, count: int, pos: int, end: int) -> NoReturn:
    """Say which length is impossible."""
    if count < 0:
        raise MalformedMessage(f"{name} is null or negative ({count}) at byte {pos}, which this version does not allow")
    raise MalformedMessage(f"{name} of length {count} at byte {pos} does not fit into {end - pos} remaining bytes")


def refuse_items(name: str, pos: int) -> NoReturn:
    """Say that the message has more items than a reader makes objects of."""
    raise TooManyItems(f"{name} at byte {pos}: more items than one message may have")


def refuse_field(message: str, name: str, version: int, value: object) -> NoReturn:
    """KIP-482 `ignorable`: leaving out silently what the caller set would change the meaning of the message."""
    raise UnsupportedVersion(f"{message} version {version} cannot carry {name}={value!r}")


def refuse_uuid(value: object) -> NoReturn:
    raise ValueError(f"{value!r} is not a UUID of 16 bytes")


def as_buffer(value: Any) -> memoryview:
    """Bytes-like values other than bytes, so that len() is their size in bytes."""
    return memoryview(value).cast("B")


NAMES: dict[str, Any] = {
    "Encoded": Encoded,
    "UVARINTS": UVARINTS,
    "as_buffer": as_buffer,
    "new": object.__new__,
    "pack_items": pack,
    "put_string_length": put_string_length,
    "put_uvarint": put_uvarint,
    "read_length": read_length,
    "read_uvarint": read_uvarint,
    "refuse_field": refuse_field,
    "refuse_items": refuse_items,
    "refuse_length": refuse_length,
    "refuse_uuid": refuse_uuid,
    "skip_tags": skip_tags,
    "unpack_items": unpack_from,
}


class _Source(ABC):
    """Source under construction, the values it names, and the fixed-width items not yet written out."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        self.cls, self.version, self.flexible = cls, version, version >= cls.FLEXIBLE
        self.lines: list[str] = []
        self.names = dict(NAMES)
        self.depth = 1
        self.pending: list[tuple[str, str]] = []
        self.counter = 0

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, header: str) -> Iterator[None]:
        self.line(header)
        self.depth += 1
        length = len(self.lines)
        yield
        self.flush()
        if len(self.lines) == length:
            self.line("pass")
        self.depth -= 1

    def fresh(self, prefix: str) -> str:
        self.counter += 1
        return f"{prefix}_{self.counter}"

    def bind(self, prefix: str, value: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = value
        return name

    @abstractmethod
    def flush(self) -> None:
        """Write out the fixed-width items that wait."""

    def carries(self, field: Field) -> bool:
        """Whether the version has the field; there are no tagged fields before flexible versions."""
        return field.in_version(self.version) and (field.tag is None or self.flexible)

    def text(self, header: str, footer: str = "") -> str:
        return "\n".join([header, *self.lines, *([footer] if footer else [])]) + "\n"


class EncodeSource(_Source):
    """`encode(message, put)`: gives parts to `put`; record bytes are passed on, not copied."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        super().__init__(cls, version)
        self.put = "put"
        self.struct(cls, "message")
        self.flush()

    def flush(self) -> None:
        if not self.pending:
            return
        layout = Layout(">" + "".join(layout for layout, _ in self.pending))
        values = [value for _, value in self.pending if value]
        self.pending.clear()
        self.line(
            f"{self.put}({self.bind('pack', layout.pack)}({', '.join(values)}))"
            if values
            else f"{self.put}({bytes(layout.size)!r})"
        )

    def struct(self, cls: type[Struct], var: str) -> None:
        for field in cls.FIELDS:
            if not self.carries(field) and not field.ignorable:
                with self.block(f"if {self.is_set(field, f'{var}.{field.name}')}:"):
                    self.line(f"refuse_field({cls.__name__!r}, {field.name!r}, {self.version}, {var}.{field.name})")
        for field in cls.FIELDS:
            if field.in_version(self.version) and field.tag is None:
                self.value(field.wire, f"{var}.{field.name}", field.name, nullable=field.nullable_in(self.version))
        if self.flexible:
            self.tags(known_tags(cls, self.version), var)

    def is_set(self, field: Field, expression: str) -> str:
        """The question whether a field differs from its default."""
        if field.default is None:
            return f"{expression} is not None"
        if isinstance(field.default, Struct):
            default = self.bind("default", field.default)
            return f"{expression} is not {default} and {expression} != {default}"
        if field.is_list:
            return f"{expression} or {expression} is None"
        return f"{expression} != {field.default!r}"

    def tags(self, fields: list[Field], var: str) -> None:
        if not fields:
            self.pending.append(("x", ""))  # the count of tagged fields: zero
            return
        self.flush()
        tags = self.fresh("tags")
        self.line(f"{tags} = []")
        for field in fields:
            value, parts = self.fresh(field.name), self.fresh("parts")
            self.line(f"{value} = {var}.{field.name}")
            with self.block(f"if {self.is_set(field, value)}:"):
                self.line(f"{parts} = []")
                self.put, outer = f"{parts}.append", self.put
                self.value(field.wire, value, field.name, nullable=field.nullable_in(self.version), is_tagged=True)
                self.flush()
                self.put = outer
                self.line(f"{parts} = b''.join({parts})")
                self.line(f"{tags}.append({_uvarint(field.tag or 0)!r} + put_uvarint(len({parts})) + {parts})")
        with self.block(f"if {tags}:"):
            self.line(f"{self.put}(put_uvarint(len({tags})))")
            self.line(f"{self.put}(b''.join({tags}))")
        with self.block("else:"):
            self.line(f"{self.put}(b'\\0')")

    def value(self, wire: Any, expression: str, name: str, *, nullable: bool, is_tagged: bool = False) -> None:
        if isinstance(wire, Fixed):
            if wire.layout == "16s":
                self.line(f"if len({expression}) != 16: refuse_uuid({expression})")
            self.pending.append((wire.layout, expression))
            return
        local = self.fresh(name)
        self.line(f"{local} = {expression}")
        if not nullable:
            self.present(wire, local, nullable=False)
            return
        self.flush()
        if isinstance(wire, type):
            null = (
                b"\0" if is_tagged else b"\xff"
            )  # Kafka writes an unsigned varint in the one place, an int8 in the other
        else:
            null = b"\0" if self.flexible else Layout(">" + wire.legacy).pack(-1)
        self.line(f"if {local} is None: {self.put}({null!r})")
        with self.block("else:"):
            self.present(wire, local, nullable=True)

    def present(self, wire: Any, local: str, *, nullable: bool) -> None:
        """A value that is not null."""
        if isinstance(wire, type):
            if nullable:
                self.line(f"{self.put}(b'\\1')")
            self.struct(wire, local)
            return
        if wire.kind == "string":
            self.line(f"{local} = {local}.encode()")
        elif wire.kind != "array":
            self.line(f"if {local}.__class__ is not bytes: {local} = as_buffer({local})")
        self.length(wire, local)
        if wire.kind != "array":
            self.line(f"{self.put}({local})")
        else:
            self.items(wire.item, local)

    def length(self, wire: Sized, local: str) -> None:
        if not self.flexible:
            self.pending.append((wire.legacy, f"len({local})"))
            self.flush()
            return
        self.flush()
        put_length = "put_string_length" if wire.kind == "string" else "put_uvarint"
        self.line(f"length = len({local}) + 1")
        self.line(f"{self.put}(UVARINTS[length] if length < 4096 else {put_length}(length))")

    def items(self, wire: Any, local: str) -> None:
        if isinstance(wire, Fixed) and wire.layout != "16s":
            self.line(f"{self.put}(pack_items(f'>{{len({local})}}{wire.layout}', *{local}))")
            return
        item = self.fresh("item")
        with self.block(f"for {item} in {local}:"):
            if isinstance(wire, type):
                if may_stand_alone(wire):
                    self.kept(wire, item)
                self.struct(wire, item)
            else:
                self.value(wire, item, "value", nullable=False)

    def kept(self, wire: type[Struct], item: str) -> None:
        """An item whose bytes are kept: encoded the first time."""
        alone = EncodeSource(wire, self.version)
        text = alone.text("def encode(message, put):")
        encode = run_source(f"<encode {wire.__name__} v{self.version}>", text, alone.names)["encode"]

        def bytes_of(encoded: Encoded) -> bytes:
            parts: list[bytes] = []
            encode(encoded.struct, parts.append)
            return b"".join(parts)

        with self.block(f"if {item}.__class__ is Encoded:"):
            with self.block(f"if {self.version} not in {item}.in_version:"):
                self.line(f"{item}.in_version[{self.version}] = {self.bind('bytes_of', bytes_of)}({item})")
            self.line(f"{self.put}({item}.in_version[{self.version}])")
            self.line("continue")


class DecodeSource(_Source):
    """`decode(data, pos, left) -> (message, pos)`: attributes of new objects, straight from the buffer."""

    def __init__(self, cls: type[Struct], version: int) -> None:
        super().__init__(cls, version)
        self.functions: list[str] = []
        self.line("end = len(data)")
        self.struct(cls, "message")
        self.flush()

    def flush(self) -> None:
        if not self.pending:
            return
        if len(self.pending) == 1 and self.pending[0][0] == "B":
            self.line(f"{self.pending.pop()[1]} = data[pos]")
            self.line("pos += 1")
            return
        layout = Layout(">" + "".join(layout for layout, _ in self.pending))
        targets = ", ".join(target for _, target in self.pending) + ("," if len(self.pending) == 1 else "")
        self.pending.clear()
        self.line(f"{targets} = {self.bind('unpack', layout.unpack_from)}(data, pos)")
        self.line(f"pos += {layout.size}")

    def struct(self, cls: type[Struct], var: str) -> None:
        self.line(f"{var} = new({self.bind(cls.__name__, cls)})")
        for field in cls.FIELDS:
            if not field.in_version(self.version) or field.tag is not None:
                own_list = field.is_list and field.default is not None
                self.line(f"{var}.{field.name} = {'[]' if own_list else self.bind('default', field.default)}")
        for field in cls.FIELDS:
            if field.in_version(self.version) and field.tag is None:
                self.value(field, f"{var}.{field.name}", cls)
        if not self.flexible:
            return
        count = self.fresh("tag_count")
        self.pending.append(("B", count))
        self.flush()
        fields = known_tags(cls, self.version)
        if fields:
            self.line(f"if {count}: pos, left = {self.tags_function(fields, cls)}(data, pos - 1, end, {var}, left)")
            return
        with self.block(f"if {count}:"):
            self.line(f"left -= {count}")
            self.line(f"if left < 0: refuse_items('{cls.__name__} tagged fields', pos)")
            self.line("pos = skip_tags(data, pos - 1, end)")

    def tags_function(self, fields: list[Field], cls: type[Struct]) -> str:
        """Tagged fields are rare in practice, so they are read by a function of their own."""
        name = self.fresh(f"read_tags_of_{cls.__name__}")
        outer, self.lines, depth, self.depth = self.lines, [], self.depth, 1
        self.line("count, pos = read_uvarint(data, pos)")
        self.line(
            f"if count > end - pos or count > {TAGS_MAX}: "
            f"refuse_length('{cls.__name__} tagged fields', count, pos, end)"
        )
        self.line("left -= max(count, 0)")
        self.line(f"if left < 0: refuse_items('{cls.__name__} tagged fields', pos)")
        with self.block("for _ in range(count):"):
            self.line("tag, pos = read_uvarint(data, pos)")
            self.line("length, pos = read_uvarint(data, pos)")
            self.line("tag_end = pos + length")
            self.line(f"if not pos <= tag_end <= end: refuse_length('{cls.__name__} tag', length, pos, end)")
            for index, field in enumerate(fields):
                with self.block(f"{'elif' if index else 'if'} tag == {field.tag}:"):
                    self.value(field, f"message.{field.name}", cls)
                    self.flush()
                    self.line(f"if pos != tag_end: refuse_length('{cls.__name__}.{field.name}', length, pos, tag_end)")
            self.line("pos = tag_end")
        self.line("return pos, left")
        self.functions.append("\n".join([f"def {name}(data, pos, end, message, left):", *self.lines]) + "\n")
        self.lines, self.depth = outer, depth
        return name

    def value(self, field: Field, target: str, cls: type[Struct]) -> None:
        label, wire = f"{cls.__name__}.{field.name}", field.wire
        if isinstance(wire, Fixed):
            self.pending.append((wire.layout, target))
        elif not isinstance(wire, type):
            self.sized(wire, target, label, nullable=field.nullable_in(self.version))
        elif field.nullable_in(self.version):
            presence = self.fresh("presence")
            self.pending.append(("b", presence))
            self.flush()
            self.line(f"if {presence} {'<' if field.tag is None else '<='} 0: {target} = None")
            with self.block("else:"):
                self.nested(wire, target)
        else:
            self.nested(wire, target)

    def nested(self, cls: type[Struct], target: str) -> None:
        local = self.fresh("nested")
        self.struct(cls, local)
        self.flush()
        self.line(f"{target} = {local}")

    def sized(self, wire: Sized, target: str, label: str, *, nullable: bool) -> None:
        length = self.fresh("length")
        self.pending.append(("B" if self.flexible else wire.legacy, length))
        self.flush()
        if self.flexible:
            self.line(f"if {length} > 127: {length}, pos = read_length(data, pos - 1)")
        if nullable:
            self.line(f"if {length} <{'=' if self.flexible else ''} 0: {target} = None")
            with self.block("else:"):
                self.content(wire, target, label, length)
        else:
            self.content(wire, target, label, length)

    def content(self, wire: Sized, target: str, label: str, length: str) -> None:
        less_one = " - 1" if self.flexible else ""
        if wire.kind == "array":
            if self.flexible:
                self.line(f"{length} -= 1")
            self.items(wire.item, target, label, length)
            return
        self.line(f"stop = pos + {length}{less_one}")
        self.line(f"if not pos <= stop <= end: refuse_length({label!r}, {length}{less_one}, pos, end)")
        if wire.kind == "string" and self.flexible:
            limit = STRING_SIZE_BYTES_MAX + 1
            self.line(f"if {length} > {limit}: refuse_length({label!r}, {length} - 1, pos, pos + {limit - 1})")
        # Kafka takes strings that are not UTF-8, with the replacement character
        made = {"string": "str(data[pos:stop], 'utf-8', 'replace')", "bytes": "bytes(data[pos:stop])"}
        self.line(f"{target} = {made.get(wire.kind, 'data[pos:stop]')}")
        self.line("pos = stop")

    def items(self, wire: Any, target: str, label: str, count: str) -> None:
        size_bytes_min = wire_size_bytes_min(wire, self.version, flexible=self.flexible)
        self.line(f"if not 0 <= {count} * {size_bytes_min} <= end - pos: refuse_length({label!r}, {count}, pos, end)")
        self.line(f"left -= {count}")
        self.line(f"if left < 0: refuse_items({label!r}, pos)")
        if isinstance(wire, Fixed):
            if wire.layout == "16s":
                self.line(f"{target} = [bytes(data[i:i + 16]) for i in range(pos, pos + 16 * {count}, 16)]")
            else:
                self.line(f"{target} = list(unpack_items(f'>{{{count}}}{wire.layout}', data, pos))")
            self.line(f"pos += {wire.size_bytes} * {count}")
            return
        append, item = self.fresh("append"), self.fresh("item")
        self.line(f"{target} = []")
        self.line(f"{append} = {target}.append")
        with self.block(f"for _ in range({count}):"):
            if isinstance(wire, type):
                self.struct(wire, item)
            else:
                self.sized(wire, item, f"{label} item", nullable=False)
            self.flush()
            self.line(f"{append}({item})")


def known_tags(cls: type[Struct], version: int) -> list[Field]:
    """The tagged fields of a version in the order in which they are written."""
    fields = [field for field in cls.FIELDS if field.tag is not None and field.in_version(version)]
    return sorted(fields, key=lambda field: field.tag or 0)


def wire_size_bytes_min(wire: Any, version: int, *, flexible: bool) -> int:
    """The fewest bytes that one item of an array takes: what bounds the array's count."""
    if isinstance(wire, Fixed):
        return wire.size_bytes
    if isinstance(wire, Sized):
        return 1 if flexible else Layout(">" + wire.legacy).size
    size_bytes = 1 if flexible else 0
    for field in wire.FIELDS:
        if field.in_version(version) and field.tag is None:
            is_nullable_struct = isinstance(field.wire, type) and field.nullable_in(version)
            size_bytes += 1 if is_nullable_struct else wire_size_bytes_min(field.wire, version, flexible=flexible)
    return max(size_bytes, 1)
