"""The error codes inside a response, wherever its schema has them: one flat function per response class.

Like Kafka's `AbstractResponse.errorCounts`, but only of what is an error: most responses have none, and looking for it
must cost next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import cast

from oncelog.wire.wire_types import Encoded, Fixed, Sized, Struct, may_stand_alone, run_source

ErrorsOf = Callable[[Struct], list[int]]


def _errors_of(cls: type[Struct]) -> ErrorsOf:
    """A function that lists the non-zero error codes of a message of `cls`, in their order."""
    lines: list[str] = []
    _look(cls, "message", 1, lines)
    if not lines:
        return lambda _: []
    text = "\n".join(["def errors_of(message):", "    found = []", *lines, "    return found"]) + "\n"
    return cast("ErrorsOf", run_source(f"<errors of {cls.__name__}>", text, {"Encoded": Encoded})["errors_of"])


errors_of = cast("Callable[[type[Struct]], ErrorsOf]", cache(_errors_of))


def _look(cls: type[Struct], local: str, depth: int, lines: list[str]) -> None:
    indent = "    " * depth
    for field in cls.FIELDS:
        value, wire = f"{local}.{field.name}", field.wire
        if isinstance(wire, Fixed):
            if wire.layout == "h" and field.name.endswith("error_code"):
                lines.append(f"{indent}if {value}: found.append({value})")
            continue
        inner = wire.item if isinstance(wire, Sized) and wire.kind == "array" else wire
        if not isinstance(inner, type):
            continue
        below: list[str] = []
        _look(inner, f"item_{depth}", depth + 1, below)
        if below:
            each = f"{value} or ()" if inner is not wire else f"(() if {value} is None else ({value},))"
            lines.append(f"{indent}for item_{depth} in {each}:")
            if may_stand_alone(inner):
                lines.append(f"{indent}    if item_{depth}.__class__ is Encoded: item_{depth} = item_{depth}.struct")
            lines += below
