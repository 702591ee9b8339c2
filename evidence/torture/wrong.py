"""Values that are wrong somewhere: of every type, and at every edge; put in the place of a right one, or inside it."""

from __future__ import annotations

import copy
import dataclasses
import math
import random
from collections.abc import Mapping
from typing import Any

from oncelog.types import TopicPartition

WRONG: tuple[Any, ...] = (
    None,
    b"bytes",
    bytearray(b"bytes"),
    "text",
    "",
    "\ud800",
    "\0",
    "x" * 300,
    "x" * 40_000,
    "-1",
    0,
    -1,
    -(2**31) - 1,
    2**31,
    2**63,
    10**30,
    1.5,
    1e300,
    math.nan,
    math.inf,
    True,
    object(),
    print,
    int,
    (),
    [],
    {},
    set(),
    [None],
    [b"bytes"],
    ["\ud800"],
    [1],
    [[]],
    ("a",),
    ("a", "b", "c"),
    {"a": None},
    {None: 1},
    {b"a": b"b"},
    TopicPartition("", 0),
    TopicPartition("t", -1),
    TopicPartition("t", 2**31),
    TopicPartition("\ud800", 0),
    TopicPartition(None, None),  # type: ignore[arg-type]
    [TopicPartition("t", "0")],  # type: ignore[arg-type]
    {TopicPartition("t", 0): "5"},
    {TopicPartition("t", 0): -(2**70)},
)


def wrong_of(right: Any, rng: random.Random) -> Any:
    """Something wrong in the place of `right`: another value altogether, or the right one with a part of it wrong."""
    inside = _wrong_inside(right, rng) if rng.random() < 0.5 else None
    return rng.choice(WRONG) if inside is None else inside


def _wrong_inside(right: Any, rng: random.Random) -> Any:
    if isinstance(right, TopicPartition):
        return right._replace(**{rng.choice(right._fields): rng.choice(WRONG)})
    if isinstance(right, list | tuple) and right:
        at = rng.randrange(len(right))
        changed = [*right[:at], wrong_of(right[at], rng), *right[at + 1 :]]
        return changed if isinstance(right, list) else tuple(changed)
    if isinstance(right, Mapping) and right:
        key = rng.choice(list(right))
        if rng.random() < 0.5:
            return {**right, key: wrong_of(right[key], rng)}
        other = wrong_of(key, rng)
        return {other: right[key]} if _is_hashable(other) else None
    if dataclasses.is_dataclass(right) and not isinstance(right, type) and dataclasses.fields(right):
        changed, name = copy.copy(right), rng.choice([field.name for field in dataclasses.fields(right)])
        object.__setattr__(changed, name, wrong_of(getattr(right, name), rng))  # however frozen it is
        return changed
    return None


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


def told(value: Any) -> str:
    """For a finding: short."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"
