"""Wire types and message classes: a class *is* its layout.

Fields stand in wire order; the annotation is the wire type (and, for mypy, the Python type); `field(since=..)` says
which versions carry it. One class serves all versions of a message, so a handler is written once. How a class becomes
code is `codec_source.py`; what to call is `schema.py`.
"""

import linecache
from dataclasses import replace
from inspect import get_annotations
from types import NoneType
from typing import Annotated, Any, ClassVar, Self, dataclass_transform, get_args, get_origin, get_type_hints

from oncelog.lazy_dataclass import dataclass

FOREVER = 32767
UNSET: Any = object()  # the default of an argument or a field that was not given
EMPTY: Any = []  # the default of a list field; every message gets a list of its own
ZERO_UUID = bytes(16)


@dataclass(frozen=True, slots=True)
class Fixed:
    """A value of fixed width: one character of the `struct` module's language."""

    layout: str
    size_bytes: int
    zero: Any


@dataclass(frozen=True, slots=True)
class Sized:
    """A value behind its length; `legacy` is the layout of that length before flexible versions (KIP-482)."""

    kind: str  # string, bytes, records or array
    legacy: str
    zero: Any
    item: Any = None  # of an array: Fixed, Sized or a Struct class


Bool = Annotated[bool, Fixed("?", 1, False)]
Int8 = Annotated[int, Fixed("b", 1, 0)]
Int16 = Annotated[int, Fixed("h", 2, 0)]
Uint16 = Annotated[int, Fixed("H", 2, 0)]
Int32 = Annotated[int, Fixed("i", 4, 0)]
Int64 = Annotated[int, Fixed("q", 8, 0)]
Float64 = Annotated[float, Fixed("d", 8, 0.0)]
Uuid = Annotated[bytes, Fixed("16s", 16, ZERO_UUID)]
String = Annotated[str, Sized("string", "h", "")]
Bytes = Annotated[bytes, Sized("bytes", "i", b"")]
Records = Annotated[bytes | bytearray | memoryview, Sized("records", "i", None)]


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message class, in the versions `since` to `until` (inclusive)."""

    since: int
    until: int
    default: Any
    tag: int | None
    nullable_since: int | None
    ignorable: bool
    name: str = ""
    wire: Any = None  # Fixed, Sized or a Struct class

    def in_version(self, version: int) -> bool:
        return self.since <= version <= self.until

    def nullable_in(self, version: int) -> bool:
        return self.nullable_since is not None and version >= self.nullable_since

    @property
    def is_list(self) -> bool:
        return isinstance(self.wire, Sized) and self.wire.kind == "array"


def field(
    *,
    since: int = 0,
    until: int = FOREVER,
    default: Any = UNSET,
    tag: int | None = None,
    nullable_since: int | None = None,
    ignorable: bool = False,
) -> Any:
    """Say what the annotation cannot: versions, default, tag.

    `nullable_since` is needed only where null came later than the field. An `ignorable` field is left out silently in
    versions that do not carry it; any other must have its default there.
    """
    return Field(since, until, default, tag, nullable_since, ignorable)


def wire_of(hint: Any) -> tuple[Any, bool]:
    """The wire type that an annotation stands for, and whether it may be null."""
    if get_origin(hint) is Annotated:
        return get_args(hint)[1], False
    if get_origin(hint) is list:
        return Sized("array", "i", EMPTY, item=wire_of(get_args(hint)[0])[0]), False
    if NoneType in get_args(hint):
        return wire_of(next(part for part in get_args(hint) if part is not NoneType))[0], True
    return hint, False


class _FieldsOnDemand:
    """`FIELDS` of a class that nobody has used yet: made from its annotations, then an attribute of the class itself.

    A program knows some three hundred of these classes and uses a few dozen; making all of them would be a quarter of its start.
    """

    def __get__(self, instance: object, owner: type["Struct"]) -> tuple[Field, ...]:
        cls = _described(owner)  # (in two threads at once: twice the same)
        hints = get_type_hints(cls, include_extras=True)
        cls.FIELDS = tuple(_bound_field(name, hints[name], cls.GIVEN.get(name, UNSET)) for name in get_annotations(cls))
        return cls.FIELDS


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
class Struct:
    """Base of messages and of the structs inside them. Keyword arguments only; what is not given has its default.

    Class arguments: `key` of the API, the `versions` (first, last) that exist, the first `flexible` version.
    """

    KEY: ClassVar[int] = -1
    VERSIONS: ClassVar[tuple[int, int]] = (-FOREVER, FOREVER)
    FLEXIBLE: ClassVar[int] = FOREVER
    FIELDS: ClassVar[tuple[Field, ...]] = _FieldsOnDemand()  # type: ignore[assignment]
    GIVEN: ClassVar[dict[str, Any]] = {}  # what stands behind the annotations, by field

    def __init_subclass__(
        cls,
        key: int = -1,
        versions: tuple[int, int] = (-FOREVER, FOREVER),
        flexible: int = FOREVER,
        is_shared_default: bool = False,
    ) -> None:
        if is_shared_default:
            return
        cls.KEY, cls.VERSIONS, cls.FLEXIBLE = key, versions, flexible
        cls.GIVEN = {name: cls.__dict__[name] for name in get_annotations(cls) if name in cls.__dict__}
        for name in cls.GIVEN:
            delattr(cls, name)

    def __init__(self, **values: Any) -> None:
        cls = _described(type(self))  # its first message: from now on it has one of its own
        cls.__init__ = _make_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __repr__(self) -> str:
        values = ", ".join(f"{bound.name}={getattr(self, bound.name)!r}" for bound in self.FIELDS)
        return f"{type(self).__name__}({values})"

    def __eq__(self, other: object) -> bool:
        if isinstance(other, type(self)) or isinstance(self, type(other)):  # a shared default is of a subclass
            return vars(self) == vars(other)
        return NotImplemented

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        copy = object.__new__(type(self))
        vars(copy).update(vars(self), **changes)
        assert len(vars(copy)) == len(self.FIELDS), f"{type(self).__name__} has no such field: {changes.keys()}"
        return copy


def may_stand_alone(cls: type[Struct]) -> bool:
    """Whether a struct's class names its own first `flexible` version: it can be encoded without its message."""
    return cls.FLEXIBLE != FOREVER


class Encoded:
    """A struct that many messages hold in a list and that nobody changes: its bytes are kept, by version."""

    __slots__ = ("in_version", "struct")

    def __init__(self, struct: Struct) -> None:
        assert may_stand_alone(type(struct)), f"{type(struct).__name__} names no flexible version"
        self.struct = struct
        self.in_version: dict[int, bytes] = {}


def _described(cls: type[Struct]) -> type[Struct]:
    """The class whose annotations say the layout: a shared default's class has none of its own."""
    return next(each for each in cls.__mro__ if "VERSIONS" in each.__dict__)


def _bound_field(name: str, hint: Any, given: Any) -> Field:
    wire, nullable = wire_of(hint)
    spec: Field = given if isinstance(given, Field) else field(default=given)
    default = spec.default
    if default is UNSET:
        default = wire() if isinstance(wire, type) else wire.zero
    if isinstance(default, Struct):
        default = _shared(default)
    nullable_since = spec.since if nullable and spec.nullable_since is None else spec.nullable_since
    return replace(spec, name=name, wire=wire, default=default, nullable_since=nullable_since)


def _shared(default: Struct) -> Struct:
    """Make a struct unchangeable, so that all messages can share it as the default of one of their fields."""
    cls = type(default)

    def refuse(*_: object) -> None:
        raise AttributeError(f"this {cls.__name__} is a shared default; assign a new {cls.__name__} instead")

    if "__setattr__" not in cls.__dict__:
        default.__class__ = type(cls.__name__, (cls,), {"__setattr__": refuse}, is_shared_default=True)
    return default


def _make_init(cls: type[Struct]) -> Any:
    names: dict[str, Any] = {"UNSET": UNSET}
    arguments, lines = [], []
    for bound in cls.FIELDS:
        if bound.is_list and bound.default is not None:
            arguments.append(f"{bound.name}=UNSET")
            lines.append(f"    self.{bound.name} = [] if {bound.name} is UNSET else {bound.name}")
        else:
            names[f"default_{bound.name}"] = bound.default
            arguments.append(f"{bound.name}=default_{bound.name}")
            lines.append(f"    self.{bound.name} = {bound.name}")
    header = f"def __init__(self{', *, ' if arguments else ''}{', '.join(arguments)}):"
    return run_source(f"<init {cls.__module__}.{cls.__name__}>", "\n".join([header, *(lines or ["    pass"])]), names)[
        "__init__"
    ]


def run_source(title: str, text: str, names: dict[str, Any]) -> dict[str, Any]:
    """Execute source that was made from a schema; `title` is its file name in tracebacks, which show its lines."""
    linecache.cache[title] = (len(text), None, text.splitlines(keepends=True), title)
    exec(compile(text, title, "exec"), names)  # noqa: S102 - made from our own classes, never from input
    return names
