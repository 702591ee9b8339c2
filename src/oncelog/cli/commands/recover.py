"""`oncelog recover`: finish what a Spark query decided and end what it left behind, without Spark; or, with a directory, bring
what a broker left behind to the form that a clean stop leaves, without a broker."""

from __future__ import annotations

import asyncio
from typing import Any

import click

from oncelog.cli.clients import admin_arguments, open_admin_that_looks
from oncelog.cli.command import Settings, command
from oncelog.cli.hidden import TRANSACTIONAL_IDS, why_not_all
from oncelog.cli.output import EXIT_FAILURE, columns
from oncelog.cli.progress import progress
from oncelog.cli.unreadable import coordinators_away, none_of_those_asked
from oncelog.client.admin.hanging import PROBE_ID
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC
from oncelog.client.config import HAS_NO_MEANING
from oncelog.core.two_phase.sink_names import TRANSACTIONAL_ID_PREFIX


@command(name="recover", changes=True)
@click.argument("directory", required=False, type=click.Path(exists=True, file_okay=False))
@click.option(
    "--to-kafka", is_flag=True, help="With DIRECTORY: say that Apache Kafka, or an older oncelog, is to read it."
)
@click.option("--prefix", default=TRANSACTIONAL_ID_PREFIX, show_default=True, help="The query's transactionalIdPrefix.")
@click.option(
    "--query", "query_id", metavar="ID", help="Only this: the id in <checkpoint>/metadata, or a batch write's txnAppId."
)
@click.option("--abandon", is_flag=True, help="Also end what no decision covers: the query is never started again.")
@click.option(
    "--accept-loss",
    is_flag=True,
    help="With --query: go on behind a decided batch that is lost. What is missing is yours to write again.",
)
@click.option("--decision-topic", metavar="TOPIC", help="Where its decisions are [default: __oncelog_decisions].")
@click.option("--decision-url", metavar="URL", help="The database its decisions are in, instead of a topic.")
@click.pass_context
def recover(
    ctx: click.Context,
    directory: str | None,
    to_kafka: bool,
    prefix: str,
    query_id: str | None,
    abandon: bool,
    accept_loss: bool,
    decision_topic: str | None,
    decision_url: str | None,
) -> None:
    """Commit a query's decided transactions, end its orphans; or make a data DIRECTORY whole.

    Harmless to repeat, and beside a running query. Exit status 1 when a decided transaction is lost, with its ids, where
    a query keeps its decisions somewhere else than it was told, and where --abandon found nothing of the query that it names.

    With DIRECTORY, of a broker that is not running: what its journal holds is put back into the logs, torn ends are cut and kept
    beside them, everything is synced; the files are then Kafka's, as after a clean stop, which is also the way back to an
    oncelog without a journal. Exit status 1 when a partition is damaged, with its name.
    """
    if directory is not None:
        ours = ("--query", query_id), ("--abandon", abandon), ("--accept-loss", accept_loss)
        given_options = [name for name, value in ours if value]
        if given_options:
            raise click.UsageError(f"{given_options[0]} is about a Spark query, and DIRECTORY about a broker's files")
        from oncelog.cli.commands.recover_directory import recover_directory

        recover_directory(ctx, directory)
        return
    if query_id == "":
        raise click.UsageError("--query is empty, which names no query: leave it out for all of the prefix")
    if accept_loss and query_id is None:
        raise click.UsageError("--accept-loss is about one query: say which, with --query")
    if to_kafka:
        raise click.UsageError("--to-kafka needs the DIRECTORY of a broker that is not running")
    from oncelog.spark.options import sink_options
    from oncelog.spark.recovery import RecoveryReport
    from oncelog.spark.recovery import recover as run

    settings = ctx.ensure_object(Settings)
    given = {"transactionalIdPrefix": prefix}
    given |= {"decisionTopic": decision_topic} if decision_topic else {}
    given |= {"decisionUrl": decision_url} if decision_url else {}
    named = admin_arguments(settings)  # without what is another kind of client's in the same file
    client = {f"kafka.{key.replace('_', '.')}": str(named[key]) for key in named.keys() - HAS_NO_MEANING}
    options = sink_options({**client, **given})
    whose = f"query {query_id}" if query_id else f"all queries of prefix {prefix!r}"
    what = "commit decided transactions and end orphans of " + whose
    if abandon:
        what += "; end their undecided transactions as well: their records are lost unless the batch runs again"
    if accept_loss:
        what += "; go on behind what is lost, which nobody brings back"
    away = asyncio.run(
        _reached(settings, f"{prefix}.{query_id}" if query_id else prefix)
    )  # who is not there is given up sooner than the recovery would
    if not settings.confirm(what, query_id or prefix):
        _show_open(settings, options.client, prefix, query_id, away)
        if away:
            ctx.exit(EXIT_FAILURE)
        return
    with progress(settings, "oncelog.spark"):
        more = {"accept_loss": accept_loss, "place_is_named": bool(decision_topic or decision_url)}
        report: RecoveryReport = run(options, query_id, abandon=abandon, **more)
    _print(settings, report)
    if report.nobody is not None:
        settings.out.note(report.nobody)
    is_missed = report.nobody is not None and (abandon or accept_loss)
    if away or report.lost or report.elsewhere or is_missed or (abandon and report.unsure):
        ctx.exit(EXIT_FAILURE)


async def _reached(settings: Settings, names: str) -> list[str]:
    """Coordinators that are away, after they were named, and what may not be seen: what they have is not recovered."""
    async with open_admin_that_looks(settings) as admin:
        away = await coordinators_away(admin, settings, TRANSACTIONS_TOPIC, "transactional ids", {})
        if not away and (reason := await why_not_all(admin, TRANSACTIONAL_IDS, f"{names}.{PROBE_ID}")):
            settings.out.note(f"error: {reason}: there may be some that are not shown")
            away.append(reason)
        return away


def _print(settings: Settings, report: Any) -> None:
    row = {
        "completed": report.completed,
        "ended": report.ended,
        "lost": report.lost,
        "undecided": report.undecided,
        "abandoned": report.abandoned,
    }
    more = {"undecided_jobs": report.undecided_jobs, "elsewhere": report.elsewhere, "unsure": report.unsure}
    settings.out.item(columns(*row), {**row, **more})
    for reason in (*report.elsewhere, *report.unsure):
        settings.out.note(reason)
    for job in report.undecided_jobs:
        settings.out.note(
            f"{job}: settled when the same version is submitted again; if its job is over for good: add --abandon"
        )
    if report.undecided and not report.undecided_jobs and not report.elsewhere and not report.unsure:
        settings.out.note("undecided ones are settled when the query starts again; if it never will: add --abandon")


def _show_open(settings: Settings, client: dict[str, str], prefix: str, query_id: str | None, away: list[str]) -> None:
    from oncelog import sync
    from oncelog.core.two_phase import exactly_once_sink as sink
    from oncelog.core.two_phase.decision_homes import NOT_SAID, in_words
    from oncelog.core.two_phase.transactional_ids import leased_name

    with sync.Admin.from_config(client) as admin:
        found = admin.list_transactions(states=["Ongoing"])
        topics = admin.list_topics(include_internal=True)
    rows = []
    for each in found:
        name = leased_name(prefix, each.transactional_id) or sink.attempt_name(prefix, each.transactional_id)
        if query_id is None:
            is_meant = each.transactional_id.startswith(f"{prefix}.")
        else:
            is_meant = name is not None and sink.is_named(name.query_id, query_id)
        if is_meant:
            row = {"transactional_id": each.transactional_id, "producer_id": each.producer_id, "state": each.state}
            rows.append(row | {"decisions": in_words(NOT_SAID if name is None else name.decision_home, topics)})
    none = none_of_those_asked("no open transactions", away, "coordinators")
    settings.out.rows(columns("transactional_id", "producer_id", "state", "decisions"), rows, empty=none)
