"""Whole numbers as a command line takes them: ASCII digits, and no more of them than any number of Kafka's has.

`str.isdigit` is no test: it takes `²`, which `int` does not, and `int` refuses what has thousands of digits. `int` is none
either: it takes `1_0`, a slip of the hand, for 10.
"""

from __future__ import annotations

import re
from typing import Any

import click

INT64_MAX = 2**63 - 1
_NUMBER = re.compile(r"[0-9]{1,19}")
_SIGNED = re.compile(r"[+-]?[0-9]{1,19}")


def is_number(text: str) -> bool:
    """Whether it is a whole number from 0 to 2^63 - 1."""
    return _NUMBER.fullmatch(text) is not None and int(text) <= INT64_MAX


def whole_number(text: str) -> int:
    """The number, from -2^63 to 2^63 - 1. Raises ValueError."""
    if _SIGNED.fullmatch(text) is None or not -INT64_MAX - 1 <= int(text) <= INT64_MAX:
        raise ValueError(f"{text!r} is not a whole number")
    return int(text)


def _checked(
    kind: click.types.IntParamType, value: Any, param: click.Parameter | None, ctx: click.Context | None
) -> Any:
    if not isinstance(value, str):
        return value
    try:
        return whole_number(value)
    except ValueError as error:
        kind.fail(str(error), param, ctx)


class WholeNumber(click.types.IntParamType):
    """An option's value, from -2^63 to 2^63 - 1."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises click.BadParameter."""
        return super().convert(_checked(self, value, param, ctx), param, ctx)


class WholeNumberRange(click.IntRange):
    """An option's value within bounds, both inclusive."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Raises click.BadParameter."""
        return super().convert(_checked(self, value, param, ctx), param, ctx)
