"""`oncelog transactions resolve`: everything that is in doubt in one plan, one confirmation, and done as the sources decided."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from oncelog import sync
from oncelog.cli.clients import arguments, open_admin
from oncelog.cli.command import Command, Settings
from oncelog.cli.output import EXIT_FAILURE, Failed, columns, counted
from oncelog.cli.transactions.in_doubt import DATABASE_HINT, first_line, recovered
from oncelog.cli.transactions.plan import (
    ABORT,
    COMMIT,
    LEAVE,
    Plan,
    Planned,
    open_transactions,
    opinions_of_database,
    opinions_of_file,
    opinions_of_spark,
    plan_of,
)
from oncelog.cli.transactions.repair import end_as_decided
from oncelog.client.config import AdminConfig
from oncelog.core.two_phase.sink_names import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX
from oncelog.errors import KafkaError, OncelogError
from oncelog.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from oncelog.recipes.database import Database

SHOWN = ("transactional_id", "state", "duration_ms", "source", "decision", "result", "why")
DATABASE, SPARK = "database", "spark"


@dataclass(frozen=True)
class Sources:
    """Who is asked: a database's URL, options of a Spark sink, plans in files; `only`: about these ids, all without."""

    database_url: str | None = None
    spark: Any = None  # SinkOptions
    query_id: str | None = None
    files: tuple[str, ...] = ()
    only: tuple[str, ...] = ()


@click.command("resolve", cls=Command, changes=True)
@click.option(
    "--from",
    "names",
    multiple=True,
    required=True,
    metavar="spark|database|FILE",
    help="Who decides; several may be asked.",
)
@click.option("--database", "url", metavar="URL", help="With --from database: as `in-doubt` takes it.")
@click.option(
    "--prefix", default=TRANSACTIONAL_ID_PREFIX, show_default=True, help="With --from spark: transactionalIdPrefix."
)
@click.option("--query", "query_id", metavar="ID", help="With --from spark: only this query.")
@click.option("--decision-topic", metavar="TOPIC", help=f"With --from spark [default: {DECISION_TOPIC}].")
@click.option("--decision-url", metavar="URL", help="With --from spark: the database its decisions are in.")
@click.option("--transactional-id", "only", multiple=True, metavar="ID", help="Only this one; not with --from spark.")
@click.pass_context
async def resolve(
    ctx: click.Context,
    names: tuple[str, ...],
    url: str | None,
    prefix: str,
    query_id: str | None,
    decision_topic: str | None,
    decision_url: str | None,
    only: tuple[str, ...],
) -> None:
    """End what is in doubt as it was decided: one plan, one confirmation.

    \b
    spark      what the sink's decisions say: winners are committed, what can no longer win is aborted
    database   what kafka_transaction_state says (dual writes): this very transaction is there, or it is not
    FILE       a plan of --dry-run -o json, looked through: its `decision` is commit, abort or leave

    What no source decides, what two decide differently, and what has changed since, is left as it is.
    """
    settings = ctx.ensure_object(Settings)
    if (DATABASE in names) != (url is not None):
        raise click.UsageError("--from database and --database URL go together")
    if SPARK not in names and any((query_id, decision_topic, decision_url)):
        raise click.UsageError("--query, --decision-topic and --decision-url need --from spark")
    if SPARK in names and only:
        raise click.UsageError(
            "--transactional-id and --from spark exclude each other: its recovery ends whole batches"
        )
    spark = _spark_options(settings, prefix, decision_topic, decision_url) if SPARK in names else None
    files = tuple(dict.fromkeys(name for name in names if name not in (DATABASE, SPARK)))
    sources = Sources(url, spark, query_id, files, only)
    for path in files:
        opinions_of_file(path, {})  # one that is no plan is said before anybody is asked
    async with open_admin(settings):
        pass  # where no broker answers, that is said as soon as by every other command
    plan, hidden = await asyncio.to_thread(planned_from, settings, sources)
    wanted = plan.decided()
    counts = [f"{verb} {sum(each.decision == verb for each in wanted)}" for verb in (COMMIT, ABORT)]
    left = counted(len(plan.rows) - len(wanted), "transaction")
    lines = [f"{each.decision} {each.state} of {each.transactional_id} ({each.source}): {each.why}" for each in wanted]
    what = f"{', '.join(counts)}, leave {left} as it is"
    results: dict[str, str] = {}
    if wanted and settings.confirm(what, "resolve", more=lines):
        results = await carried_out(settings, sources, plan)
    _show(settings, plan, results)
    for why in hidden:
        settings.out.note(f"error: there may be more that is in doubt: {why}")
    if hidden or any(each not in ("committed", "aborted") for each in results.values()):
        ctx.exit(EXIT_FAILURE)


def _spark_options(settings: Settings, prefix: str, decision_topic: str | None, decision_url: str | None) -> Any:
    from oncelog.spark.options import sink_options

    given = {"transactionalIdPrefix": prefix}
    given |= {"decisionTopic": decision_topic} if decision_topic else {}
    given |= {"decisionUrl": decision_url} if decision_url else {}
    return sink_options({f"kafka.{key}": str(value) for key, value in settings.client_config().items()} | given)


def planned_from(settings: Settings, sources: Sources) -> tuple[Plan, list[str]]:
    """Ask everybody: blocking, as databases are. With the plan: why it may not have everything.

    Raises Failed where one that was named has no open transaction.
    """
    with sync.Admin(**arguments(AdminConfig, settings)) as admin:
        opened, hidden = open_transactions(admin), admin.why_owners_may_be_hidden()
    if over := [each for each in sources.only if each not in opened]:
        raise Failed(f"{over[0]!r} has no open transaction", "`oncelog transactions list` shows the known ids")
    opened = {name: each for name, each in opened.items() if not sources.only or name in sources.only}
    opinions = [opinions_of_file(path, opened) for path in sources.files]
    if sources.database_url is not None:
        with _database(sources.database_url) as database:
            opinions.append(opinions_of_database(database, opened))
    if sources.spark is not None:
        opinions.append(opinions_of_spark(sources.spark, sources.query_id, opened))
    return plan_of(opened, opinions), hidden


@contextmanager
def _database(url: str) -> Iterator[Any]:
    try:
        from oncelog.errors import MissingLibrary
        from oncelog.recipes.opening import open_existing_database
    except ImportError as error:  # pragma: no cover
        raise Failed(str(error)) from error
    try:
        with open_existing_database(url) as database:
            try:
                yield database
            except database.errors as error:
                raise Failed(f"the database: {first_line(error)}", DATABASE_HINT) from error
    except MissingLibrary as error:
        raise Failed(str(error)) from error


async def carried_out(settings: Settings, sources: Sources, plan: Plan) -> dict[str, str]:
    """What became of each. One that fails keeps no other from being tried."""
    results: dict[str, str] = {}
    for path in sources.files:
        for each in plan.decided(path):
            results[each.transactional_id] = await _ended(settings, each)
    if sources.database_url is not None and (of_database := plan.decided(DATABASE)):
        results |= await asyncio.to_thread(_by_database, settings, sources.database_url, of_database)
    if of_spark := plan.decided(SPARK):
        results |= await asyncio.to_thread(_by_spark, settings, sources, of_spark)
    return results


async def _ended(settings: Settings, each: Planned) -> str:
    try:
        async with open_admin(settings) as admin:
            await end_as_decided(settings, admin, each.transactional_id, each.state, commit=each.decision == COMMIT)
    except (KafkaError, Failed) as error:
        return f"failed: {error}"
    return _result(each)


def _result(each: Planned) -> str:
    return "committed" if each.decision == COMMIT else "aborted"


def _by_database(settings: Settings, url: str, planned: list[Planned]) -> dict[str, str]:
    """By the recipe's recovery, which raises the version, and reads once more what the database says."""
    results: dict[str, str] = {}
    try:
        with _database(url) as database:
            for each in planned:
                results[each.transactional_id] = _recovered(settings, database, each)
    except (OncelogError, OSError) as error:  # it is gone since the plan was made
        results = {each.transactional_id: f"failed: {error}" for each in planned} | results
    return results


def _recovered(settings: Settings, database: Database[Any], each: Planned) -> str:
    from oncelog.recipes.janitor import InDoubt

    try:
        stored = database.read(each.transactional_id)
    except database.errors as error:
        return f"failed: the database: {first_line(error)}"
    one = InDoubt(each.transactional_id, each.state, each.found.duration_ms or 0, each.found.partitions, stored)
    return recovered(settings, database, one)


def _by_spark(settings: Settings, sources: Sources, planned: list[Planned]) -> dict[str, str]:
    """By the sink's own recovery; what is open afterwards was not ended."""
    from oncelog.spark.recovery import recover

    report = recover(sources.spark, sources.query_id)
    with sync.Admin(**arguments(AdminConfig, settings)) as admin:
        still = open_transactions(admin)
    results = {}
    for each in planned:
        lost = next((line for line in report.lost if each.transactional_id in line), None)
        now = still.get(each.transactional_id)
        is_open = now is not None and (now.producer_id, now.producer_epoch) == (
            each.found.producer_id,
            each.found.producer_epoch,
        )
        failed = lost or ("it is still open" if is_open else None)
        results[each.transactional_id] = f"failed: {failed}" if failed else _result(each)
    return results


def _show(settings: Settings, plan: Plan, results: dict[str, str]) -> None:
    rows = [
        {
            "transactional_id": each.transactional_id,
            "state": str(each.state),
            "duration_ms": each.found.duration_ms,
            "partitions": [str(where) for where in each.found.partitions],
            "source": each.source,
            "decision": each.decision,
            "why": each.why,
            "result": results.get(each.transactional_id, "left" if each.decision == LEAVE and results else None),
        }
        for each in plan.rows
    ]
    settings.out.rows(columns(*SHOWN, wide=["partitions"]), rows, empty="no transaction is in doubt")
