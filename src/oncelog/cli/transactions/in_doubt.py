"""`oncelog transactions in-doubt`: the janitor of dual writes (docs/dual-writes.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from oncelog.cli.clients import arguments, open_admin
from oncelog.cli.command import Command, Settings
from oncelog.cli.durations import DURATION
from oncelog.cli.hidden import TRANSACTIONAL_IDS, nothing_seen
from oncelog.cli.output import EXIT_FAILURE, EXIT_FOUND, Failed, columns
from oncelog.cli.unreadable import coordinators_away, none_of_those_asked
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC
from oncelog.client.config import AdminConfig, ProducerConfig
from oncelog.errors import OncelogError

if TYPE_CHECKING:
    from oncelog.recipes.database import Database
    from oncelog.recipes.janitor import InDoubt

DATABASE_HINT = "is it up, does it let this user in, and has it a table kafka_transaction_state?"
RESULTS = {True: "committed", False: "aborted"}
SHOWN = ("transactional_id", "open_state", "duration_ms", "stored_state", "instance_version", "verdict", "result")


@click.command("in-doubt", cls=Command, changes=True, watchable=True)
@click.option(
    "--database", "url", required=True, metavar="URL", help="SQLAlchemy's URL, rocksdb:///DIR, zookeeper://HOST:PORT."
)
@click.option("--open-longer-than", "older_than_ms", type=DURATION, default=0, help="Only transactions that are older.")
@click.option(
    "--resolve", "resolves", is_flag=True, help="Complete each as the database says; fences a living instance."
)
@click.option("--metrics", is_flag=True, help="Print Prometheus's text format instead, e.g. for a textfile collector.")
@click.option("--exit-code", is_flag=True, help="Exit status 3 when there is any.")
@click.pass_context
async def in_doubt(
    ctx: click.Context, url: str, older_than_ms: int, resolves: bool, metrics: bool, exit_code: bool
) -> None:
    """Prepared transactions of dual writes, and what their database says of them.

    \b
    commit     the database holds this very transaction: its instance died before it completed the topic
    abort      it does not: its instance died before the database committed, or is still writing
    not-here   the database has never seen the id; another one decides, and --resolve leaves it alone
    """
    settings = ctx.ensure_object(Settings)
    if metrics and resolves:
        raise click.UsageError("--metrics only looks: leave --resolve away")
    if metrics and settings.output != "table":
        raise click.UsageError("--metrics is a form of its own: -o has no meaning beside it")
    async with open_admin(settings) as admin:
        away = await coordinators_away(admin, settings, TRANSACTIONS_TOPIC, "transactional ids", {})
    found, results = await asyncio.to_thread(look_for_doubt, settings, url, older_than_ms, resolves)
    is_hidden = False
    if not found and not away:
        async with open_admin(settings) as admin:
            is_hidden = await nothing_seen(
                admin, settings, TRANSACTIONAL_IDS, partial(admin.list_transactions, unreachable={})
            )
    if metrics:
        from oncelog.recipes.janitor import metrics_text

        click.echo(metrics_text(found), nl=False)
    else:
        _show(settings, found, results, away, is_hidden)
    if away or (is_hidden and exit_code) or any(each not in RESULTS.values() for each in results.values()):
        ctx.exit(EXIT_FAILURE)
    if found and exit_code:
        ctx.exit(EXIT_FOUND)


def look_for_doubt(
    settings: Settings, url: str, older_than_ms: int, resolves: bool
) -> tuple[list[InDoubt], dict[str, str]]:
    """Find, ask, resolve: blocking, as databases are. With what was found: what became of each that was to be resolved."""
    try:
        from oncelog.errors import MissingLibrary
        from oncelog.recipes.janitor import Verdict, in_doubt_of
        from oncelog.recipes.opening import open_existing_database
        from oncelog.sync import Admin
    except ImportError as error:  # pragma: no cover
        raise Failed(str(error)) from error
    try:
        with open_existing_database(url) as database:
            config = arguments(AdminConfig, settings)
            try:
                with Admin(**config) as admin:
                    found = in_doubt_of(admin, database, older_than_ms)
                if not (resolves and _confirmed(settings, found)):
                    return found, {}
                wanted = [each for each in found if each.verdict is not Verdict.NOT_HERE]
                return found, {each.transactional_id: recovered(settings, database, each) for each in wanted}
            except database.errors as error:
                raise Failed(f"the database: {first_line(error)}", DATABASE_HINT) from error
    except MissingLibrary as error:
        raise Failed(str(error)) from error


def recovered(settings: Settings, database: Database[Any], one: InDoubt) -> str:
    """End one by the recipe's recovery, and say what became of it: of `RESULTS`, or that it failed and of what.

    Whatever it fails of: the next one can be tried, and what became of those before is told.
    """
    from oncelog.recipes.janitor import resolve

    config = arguments(ProducerConfig, settings, max_block_ms=settings.timeout_ms)
    try:
        done = resolve(database, [one], **config)
    except (OncelogError, OSError) as error:
        return f"failed: {error}"
    except database.errors as error:
        return f"failed: the database: {first_line(error)}"
    return RESULTS[done[0].is_committed] if done else "failed: it is gone"


def first_line(error: BaseException) -> str:
    """What a database says at length, in short."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def _confirmed(settings: Settings, found: list[InDoubt]) -> bool:
    from oncelog.recipes.janitor import Verdict

    wanted = [each for each in found if each.verdict is not Verdict.NOT_HERE]
    if not wanted:
        return False
    what = "; ".join(f"{each.verdict.value} {each.open_state} of {each.transactional_id}" for each in wanted)
    return settings.confirm(f"as the database says, and fencing their instances: {what}", "resolve")


def _show(
    settings: Settings, found: list[InDoubt], results: Mapping[str, str], away: list[str], is_hidden: bool
) -> None:
    rows = in_doubt_rows(found, results)
    none = none_of_those_asked("no transaction is in doubt", away, "coordinators")
    none = f"{none}, of the ids that you may see" if is_hidden else none
    settings.out.rows(columns(*SHOWN, wide=["partitions"]), rows, empty=none)


def in_doubt_rows(found: list[InDoubt], results: Mapping[str, str]) -> list[dict[str, Any]]:
    """A row for each, as `-o json` prints them; `result` is null where nothing was to be done."""
    return [
        {
            "transactional_id": each.transactional_id,
            "open_state": str(each.open_state),
            "duration_ms": each.duration_ms,
            "stored_state": None if each.stored is None else str(each.stored.prepared_state),
            "instance_version": None if each.stored is None else each.stored.instance_version,
            "verdict": each.verdict.value,
            "result": results.get(each.transactional_id),
            "partitions": [str(where) for where in each.partitions],
        }
        for each in found
    ]
