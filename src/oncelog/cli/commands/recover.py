"""`oncelog recover`: finish what a Spark query decided and end what it left behind, without Spark."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from oncelog.cli.command import Settings, command
from oncelog.cli.output import EXIT_FAILURE, columns


@command(name="recover", changes=True)
@click.option("--prefix", default="oncelog-spark", show_default=True, help="The query's transactionalIdPrefix.")
@click.option("--query", "query_id", metavar="ID", help="Only this query: the id in <checkpoint>/metadata.")
@click.option("--abandon", is_flag=True, help="Also end what no decision covers: the query is never started again.")
@click.option("--decision-topic", metavar="TOPIC", help="Where its decisions are [default: __oncelog_decisions].")
@click.option("--decision-url", metavar="URL", help="The database its decisions are in, instead of a topic.")
@click.pass_context
def recover(
    ctx: click.Context,
    prefix: str,
    query_id: str | None,
    abandon: bool,
    decision_topic: str | None,
    decision_url: str | None,
) -> None:
    """Commit a query's decided transactions, end its orphans.

    Harmless to repeat, and beside a running query. Exit status 1 when a decided transaction is lost, with its ids.
    """
    from oncelog.spark.options import sink_options
    from oncelog.spark.recovery import RecoveryReport
    from oncelog.spark.recovery import recover as run

    settings = ctx.ensure_object(Settings)
    given = {"transactionalIdPrefix": prefix}
    given |= {"decisionTopic": decision_topic} if decision_topic else {}
    given |= {"decisionUrl": decision_url} if decision_url else {}
    client = {f"kafka.{key}": str(value) for key, value in settings.client_config().items()}
    options = sink_options({**client, **given})
    whose = f"query {query_id}" if query_id else f"all queries of prefix {prefix!r}"
    what = "commit decided transactions and end orphans of " + whose
    if abandon:
        what += "; end their undecided transactions as well: their records are lost unless the batch runs again"
    if not settings.confirm(what, query_id or prefix):
        _show_open(settings, options.client, prefix, query_id)
        return
    with _progress(settings):
        report: RecoveryReport = run(options, query_id, abandon=abandon)
    _print(settings, report)
    if report.lost:
        ctx.exit(EXIT_FAILURE)


class _Notes(logging.Handler):
    """What the recovery logs, as progress on stderr."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(logging.INFO)
        self._out = settings.out

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        self._out.note(record.getMessage())


@contextmanager
def _progress(settings: Settings) -> Iterator[None]:
    logger, handler = logging.getLogger("oncelog.spark"), _Notes(settings)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


def _print(settings: Settings, report: Any) -> None:
    row = {
        "completed": report.completed,
        "ended": report.ended,
        "lost": report.lost,
        "undecided": report.undecided,
        "abandoned": report.abandoned,
    }
    settings.out.item(columns(*row), row)
    if report.undecided:
        settings.out.note("undecided ones are settled when the query starts again; if it never will: add --abandon")


def _show_open(settings: Settings, client: dict[str, str], prefix: str, query_id: str | None) -> None:
    from oncelog import sync

    with sync.Admin.from_config(client) as admin:
        found = admin.list_transactions(states=["Ongoing"])
    start = f"{prefix}." + (f"{query_id}." if query_id else "")
    rows = [
        {"transactional_id": each.transactional_id, "producer_id": each.producer_id, "state": each.state}
        for each in found
        if each.transactional_id.startswith(start)
    ]
    settings.out.rows(columns("transactional_id", "producer_id", "state"), rows, empty="no open transactions")
