"""Changing several things, one by one: every one is tried, each has its own row, one failure makes exit status 1."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click

from oncelog.cli.command import Settings, hint_for
from oncelog.cli.key_names import each_once
from oncelog.cli.output import EXIT_FAILURE, columns, error_name
from oncelog.errors import KafkaError, RequestTimedOut

T = TypeVar("T")


async def each_of(
    settings: Settings,
    kind: str,
    names: Iterable[str],
    done: str,
    change: Callable[[str], Awaitable[Any]],
) -> None:
    """Apply `change` to each name; rows say `done`, a text that `change` returns, or the error. `kind` heads the first column."""
    rows: list[dict[str, Any]] = []
    for name in names:
        row: dict[str, Any] = {kind: name, "result": done, "error": None, "message": None}
        try:
            if isinstance(told := await change(name), str):
                row["result"] = told
        except KafkaError as error:
            row |= {"result": "failed", "error": error_name(error), "message": error.message}
        rows.append(row)
    settings.out.rows(columns(kind, "result", "error", "message"), rows)
    failed = [row for row in rows if row["result"] == "failed"]
    for row in failed:  # stdout may be a file that nobody looks at
        settings.out.note(f"error: {kind} {row[kind]}: {row['error']}: {row['message'] or 'not done'}")
    if failed:
        click.get_current_context().exit(EXIT_FAILURE)


async def refused(
    settings: Settings, kind: str, names: Iterable[str], would: str, check: Callable[[str], Awaitable[Any]]
) -> None:
    """A dry run, where the broker has no way to check without doing: `check` raises what it would refuse. Nothing is printed
    where all would be done; else a row for each name, and the exit status is 1."""
    wanted = list(names)
    errors: dict[str, KafkaError] = {}
    for name in wanted:
        try:
            await check(name)
        except KafkaError as error:
            errors[name] = error

    async def tell(name: str) -> None:
        if name in errors:
            raise errors[name]

    if errors:
        await each_of(settings, kind, wanted, would, tell)


async def found_of(
    names: Sequence[str], ask: Callable[[Sequence[str]], Awaitable[dict[str, T]]]
) -> tuple[dict[str, T], dict[str, KafkaError]]:
    """What `ask` finds of several things, and the errors of those that hide none of the others. Raises where nothing is found."""
    try:
        return await ask(names), {}
    except RequestTimedOut:
        raise
    except KafkaError:
        if len(set(names)) == 1:
            raise
    found: dict[str, T] = {}
    errors: dict[str, KafkaError] = {}
    for name in dict.fromkeys(names):
        try:
            found |= await ask([name])
        except KafkaError as error:
            errors[name] = error
    if not found:
        raise next(iter(errors.values()))
    return found, errors


async def found_of_each(
    names: Sequence[str], ask: Callable[[str], Awaitable[T]]
) -> tuple[dict[str, T], dict[str, KafkaError]]:
    """The same, where each is asked for by itself, side by side: one whose broker says nothing hides none of the others."""

    async def one(name: str) -> T | KafkaError:
        try:
            return await ask(name)
        except KafkaError as error:
            return error

    wanted = list(dict.fromkeys(names))
    answers = dict(zip(wanted, await asyncio.gather(*map(one, wanted)), strict=True))
    errors = {name: each for name, each in answers.items() if isinstance(each, KafkaError)}
    if len(errors) == len(wanted):
        raise next(iter(errors.values()))
    return {name: each for name, each in answers.items() if not isinstance(each, KafkaError)}, errors


def name_missing(settings: Settings, errors: Mapping[str, KafkaError], kind: str = "") -> None:
    """Behind what was found: a line for each that was not; the exit status is 1. `kind`: what they are, where the error of a
    broker that says nothing does not tell."""
    for name, error in errors.items():
        hint = hint_for(error, settings)
        of = f"{kind} {name!r}: " if kind and isinstance(error, RequestTimedOut) else ""
        settings.out.note(f"error: {of}{error_name(error)}: {error.message}" + (f" ({hint})" if hint else ""))
    if errors:
        click.get_current_context().exit(EXIT_FAILURE)


def pairs_of(texts: Iterable[str], what: str) -> dict[str, str]:
    """`key=value` arguments. Raises a usage error."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            raise click.UsageError(f"{text!r}: {what} are written as key=value")
        each_once((*found, key))
        found[key] = value
    return found
