"""`dataclass` of the standard library, whose methods are compiled when they are first called.

The standard library compiles up to six methods for each class at import, more than four hundred before a broker is ready:
a quarter of its start. A command or a worker calls few of them. Type checkers see `dataclasses.dataclass` itself. Here too
the standard library makes the class, without methods, and then `__repr__`, `__eq__` and `__hash__` of those classes that
are asked for them, from a class of the same fields. `__init__` is ours: it sets the slots of a frozen object directly,
in 60 % of the time. What differs: a mistake in the class (a field without a default behind one that has one) is raised by
the first call, and a frozen class that inherits from one that is not is seen by the type checker only.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import MISSING
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from dataclasses import dataclass as dataclass
    from dataclasses import replace as replace
else:

    def replace(instance: Any, /, **changes: Any) -> Any:
        """As `dataclasses.replace`, compiled for each class by its first call: in a third of the time."""
        cls = instance.__class__
        method = _REPLACES.get(cls)
        if method is None:
            method = _REPLACES[cls] = _replace(cls)
        return method(instance, **changes)

    def dataclass(cls: type | None = None, /, **options: bool) -> Any:
        """As `dataclasses.dataclass`, with the options init, repr, eq, frozen, slots and kw_only (another: TypeError)."""
        return _made(cls, **options) if cls is not None else lambda each: _made(each, **options)


def _made(
    cls: type,
    *,
    init: bool = True,
    repr: bool = True,  # noqa: A002 - the standard library's name
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
) -> type:
    own = cls.__dict__
    later = [name for name, on in (("__init__", init), ("__repr__", repr), ("__eq__", eq)) if on and name not in own]
    has_hash = own.get("__hash__") is not None or ("__hash__" in own and "__eq__" not in own)
    if eq and frozen and not has_hash:
        later.append("__hash__")
    keeps_state = "__getstate__" in own
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else the standard library writes the signature, and there is none yet
    made: Any = dataclasses.dataclass(init=False, repr=False, eq=False, slots=slots, kw_only=kw_only)(cls)
    for name in later:
        setattr(made, name, _first_call(made, name, frozen=frozen, slots=slots))
    if eq and not frozen and not has_hash:
        made.__hash__ = None
    if frozen:
        made.__setattr__, made.__delattr__ = _no_assignment, _no_deletion
        if slots and not keeps_state:
            made.__getstate__, made.__setstate__ = _get_state, _set_state
    made.__signature__ = _SIGNATURE
    return made  # type: ignore[no-any-return]


def _first_call(cls: type, name: str, **options: bool) -> Callable[..., Any]:
    """What stands in a method's place until somebody calls it."""

    def first_call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return _compiled(cls, name, **options)(self, *args, **kwargs)

    first_call.__dict__["compiled"] = lambda: _compiled(cls, name, **options)
    return first_call


def _compiled(cls: Any, name: str, *, frozen: bool, slots: bool) -> Callable[..., Any]:
    """The method, which is the class's from now on."""
    method = _init(cls, frozen, slots) if name == "__init__" else None
    method = method or _standard(cls, name, frozen=frozen, slots=slots)
    setattr(cls, name, method)
    return method


def _standard(cls: Any, name: str, **options: bool) -> Callable[..., Any]:
    """The method as the standard library makes it for a class of the same fields."""
    fields = cls.__dataclass_fields__
    twin: Any = type(cls.__name__, (), {each: copy(field) for each, field in fields.items()})
    twin.__annotations__ = {each: field.type for each, field in fields.items()}
    twin.__module__, twin.__qualname__, twin.__doc__ = cls.__module__, cls.__qualname__, cls.__name__
    if hasattr(cls, "__post_init__"):
        twin.__post_init__ = cls.__post_init__
    init, repr_, eq = name == "__init__", name == "__repr__", name in ("__eq__", "__hash__")
    method: Callable[..., Any] = getattr(dataclasses.dataclass(init=init, repr=repr_, eq=eq, **options)(twin), name)
    return method


class _Factory:
    """Stands for a default that a function makes."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()
_NAMES = ("_set", "_factory", "_default_", "_make_", "_made", "_same")


def _init(cls: Any, frozen: bool, slots: bool) -> Callable[..., Any] | None:
    """`__init__` of the fields; None where the standard library's is wanted: values for the start only, a wrong order."""
    fields = dataclasses.fields(cls)
    taken = [each for each in fields if each.init and not each.kw_only]
    by_name = [each for each in fields if each.init and each.kw_only]
    has_default = [_has_default(each) for each in taken]
    if has_default != sorted(has_default) or any(map(_is_unusual, cls.__dataclass_fields__.values())):
        return None
    known: dict[str, Any] = {"_set": object.__setattr__, "_factory": _FACTORY}
    parameters = ["self", *(_parameter(each, known) for each in taken)]
    if by_name:
        parameters += ["*", *(_parameter(each, known) for each in by_name)]
    body = list(_assignments(cls, frozen, slots, known))
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    source = f"def __init__({', '.join(parameters)}):\n " + "\n ".join(body or ["pass"])
    exec(source, known)  # noqa: S102 - names of fields, as in the standard library
    method: Any = known["__init__"]
    method.__module__, method.__qualname__ = cls.__module__, f"{cls.__qualname__}.__init__"
    method.__annotations__ = {each.name: each.type for each in (*taken, *by_name)} | {"return": None}
    method.__dict__["takes_fields"] = True
    return method  # type: ignore[no-any-return]


def _is_unusual(field: dataclasses.Field[Any]) -> bool:
    """A value for the start only, or a name that means something in what is compiled."""
    return "InitVar" in str(field.type) or field.name == "self" or field.name.startswith(_NAMES)


def _has_default(field: dataclasses.Field[Any]) -> bool:
    return field.default is not MISSING or field.default_factory is not MISSING


def _parameter(field: dataclasses.Field[Any], known: dict[str, Any]) -> str:
    if field.default_factory is not MISSING:
        return f"{field.name}=_factory"
    if field.default is MISSING:
        return field.name
    known[f"_default_{field.name}"] = field.default
    return f"{field.name}=_default_{field.name}"


def _assignments(cls: Any, frozen: bool, slots: bool, known: dict[str, Any]) -> Iterator[str]:
    for field in dataclasses.fields(cls):
        name = value = field.name
        if field.default_factory is not MISSING:
            known[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _factory else {name}" if field.init else f"_make_{name}()"
        elif not field.init:
            if not slots or field.default is MISSING:
                continue  # the class has its default, or nobody gave one
            known[f"_default_{name}"] = field.default
            value = f"_default_{name}"
        slot = cls.__dict__.get(name)
        if not frozen:
            yield f"self.{name} = {value}"
        elif isinstance(slot, MemberDescriptorType):
            known[f"_set_{name}"] = slot.__set__
            yield f"_set_{name}(self, {value})"
        else:
            yield f"_set(self, {name!r}, {value})"


_REPLACES: dict[type, Callable[..., Any]] = {}  # one for each class that was asked
_SAME = object()


def _replace(cls: Any) -> Callable[..., Any]:
    """What makes another one of the class, with all that is not said taken from `self`."""
    fields = dataclasses.fields(cls)
    init: Any = cls.__dict__.get("__init__")  # an inherited one takes others' fields
    if "compiled" in getattr(init, "__dict__", {}):
        init = init.compiled()
    if not all(each.init for each in fields) or "takes_fields" not in getattr(init, "__dict__", {}):
        return dataclasses.replace
    parameters = ", ".join(["self", "*", *(f"{each.name}=_same" for each in fields)] if fields else ["self"])
    values = ", ".join(
        f"{f'{each.name}=' if each.kw_only else ''}self.{each.name} if {each.name} is _same else {each.name}"
        for each in sorted(fields, key=lambda each: bool(each.kw_only))
    )
    known: dict[str, Any] = {"_made": cls, "_same": _SAME}
    exec(f"def replace({parameters}):\n return _made({values})", known)  # noqa: S102 - as in `_init`
    method: Any = known["replace"]
    method.__qualname__ = init.__qualname__  # whom an error of an unknown field names
    return method  # type: ignore[no-any-return]


def _no_assignment(_self: object, name: str, _value: object) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _no_deletion(_self: object, name: str) -> NoReturn:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _get_state(self: Any) -> list[Any]:
    """What pickle and copy take along of an object with slots."""
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)


class _Signature:
    """Who asks for a class's signature gets its `__init__`'s: compiled now, and found by `inspect` in its usual place."""

    def __get__(self, instance: object, owner: Any) -> NoReturn:
        compiled = getattr(owner.__init__, "__dict__", {}).get("compiled")
        if compiled is not None:
            compiled()
        raise AttributeError("__signature__")


_SIGNATURE = _Signature()
