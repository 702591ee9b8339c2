"""Whether what is in the output and dead-letter topics is what the rule makes of the input: once, in order, nothing else."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from evidence.processing.rule import is_poison, key_of, number_of, outputs_of

Row = tuple[int, bytes, bytes]  # partition, key, value
Letter = tuple[bytes, Mapping[str, bytes]]  # value, headers


def wrong_outputs(count: int, rows: Sequence[Row]) -> list[str]:
    """Of the input 0..count-1: outputs that are missing, there twice, from nowhere, or behind a later one of their key."""
    expected = {value for number in range(count) for value in outputs_of(number)}
    problems = wrong_values("outputs", expected, (value for _, _, value in rows))
    problems += [f"{value!r} has the key {key!r}" for _, key, value in rows if key != key_of(number_of(value))][:3]
    last: dict[bytes, bytes] = {}
    for _, key, value in rows:
        before = last.get(key, b"-1")
        if (number_of(before), before) > (number_of(value), value):
            problems.append(f"{key!r}: {value!r} comes behind {before!r}")
        last[key] = value
    return problems


def wrong_letters(count: int, partitions: int, letters: Sequence[Letter]) -> list[str]:
    """Each poison record once, and each says where it was and what it failed of."""
    expected = {b"%d" % number for number in range(count) if is_poison(number)}
    problems = wrong_values("dead letters", expected, (value for value, _ in letters))
    for value, headers in letters:
        said = headers.get("__oncelog.errors.message", b"").decode()
        if said != f"{value.decode()} cannot be transformed":
            problems.append(f"the dead letter {value!r} says {said!r}")
        if headers.get("__oncelog.errors.partition") != b"%d" % partition_of(number_of(value), partitions):
            problems.append(f"the dead letter {value!r} names another partition")
    return problems


def partition_of(number: int, partitions: int) -> int:
    """Where an input record is put."""
    return number % 97 % partitions


def wrong_values(what: str, expected: set[bytes], found: Iterable[bytes]) -> list[str]:
    """Lost, doubled, or from nowhere."""
    times = Counter(found)
    problems = []
    if missing := expected - times.keys():
        problems.append(f"{len(missing)} {what} lost, such as {min(missing)!r}")
    if doubled := [value for value, count in times.items() if count > 1]:
        problems.append(f"{len(doubled)} {what} there twice, such as {min(doubled)!r}")
    if strange := times.keys() - expected:
        problems.append(f"{len(strange)} {what} from nowhere, such as {min(strange)!r}")
    return problems
