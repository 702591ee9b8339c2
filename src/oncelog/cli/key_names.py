"""Keys named on a command line: none twice, and none that there is not."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable

import click

from oncelog.errors import ErrorCode, error_for

NOT_SET = "was not set"


def each_once(keys: Iterable[str]) -> list[str]:
    """These keys. Raises a usage error where one is given twice: which value was meant nobody can tell."""
    found: list[str] = []
    for key in keys:
        if key in found:
            raise click.UsageError(f"{key} is given twice")
        found.append(key)
    return found


def check_known(what: str, keys: Iterable[str], known: Collection[str], code: ErrorCode) -> None:
    """Raises the error of `code` for the first key that is not known, with the nearest name."""
    for key in keys:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            raise error_for(code, f"Unknown {what}: {key}" + (f" (did you mean {near[0]}?)" if near else ""))


def outcome_of(value: object, *, was_set: bool, is_dry_run: bool) -> str:
    """What became of one key; a `value` of None takes it away."""
    if value is None and not was_set:
        return NOT_SET
    return "would be " * is_dry_run + ("deleted" if value is None else "set")
