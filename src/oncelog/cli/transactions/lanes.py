"""`oncelog transactions lanes`: the transactions of a topic as a picture, for incident reports."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from oncelog.cli.clients import open_admin_that_looks
from oncelog.cli.command import Command, Settings
from oncelog.cli.durations import DURATION
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.output import EXIT_FAILURE, Failed, columns
from oncelog.client.admin.lanes import WINDOW_MAX_MS, WINDOW_MS
from oncelog.core.lanes.lane import OPEN, Lane, Span
from oncelog.core.lanes.lanes import Lanes

SHOWN = ("topic", "partition", "transactional_id", "producer_id", "producer_epoch", "first_offset", "record_count")


@click.command("lanes", cls=Command)
@click.argument("topic")
@click.option("--partition", "partitions", type=WholeNumberRange(0), multiple=True, help="Only these [default: all].")
@click.option("--window", "window_ms", type=DURATION, default=WINDOW_MS, help="How far back [default: 90s].")
@click.option("--svg", metavar="FILE", help="Write the picture there; - is stdout, and then no table is printed.")
@click.pass_context
async def lanes(ctx: click.Context, topic: str, partitions: tuple[int, ...], window_ms: int, svg: str | None) -> None:
    """Transactions as spans: those of the last 90 seconds, and all that are open.

    One row for each transaction on a partition. --svg writes the console's picture: who held readers back, and since when.
    """
    settings = ctx.ensure_object(Settings)
    if not 1_000 <= window_ms <= WINDOW_MAX_MS:
        raise click.UsageError("--window must be between 1s and 7d")
    async with open_admin_that_looks(settings) as admin:
        found = await admin.lanes(topic, partitions=partitions or None, window_ms=window_ms)
    if svg is not None:
        _write(svg, found.to_svg() + "\n")
        settings.out.note(f"{found.verdict()}" + ("" if svg == "-" else f": drawn in {svg}"))
    if svg != "-":
        rows = [_row(found, lane, span) for lane in found.lanes for span in [*lane.done, *lane.open.values()]]
        shown = columns(
            *SHOWN, "begin_time_ms", "length_ms", "outcome", wide=["last_offset", "marker_offset", "verdict"]
        )
        settings.out.rows(shown, rows, empty="no transactions in this time")
    for note in found.notes:
        settings.out.note(f"error: {note}")
    if found.notes:  # each names what could not be read
        ctx.exit(EXIT_FAILURE)


def _write(svg: str, picture: str) -> None:
    """Whole or not at all: what was there before stays where this cannot be written."""
    try:
        with click.open_file(svg, "w", encoding="utf-8", atomic=svg != "-" and not _is_device(svg)) as file:
            file.write(picture)
            file.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        where = "standard output" if svg == "-" else svg
        raise Failed(
            f"the picture cannot be written to {where}: {error.strerror or error}", "say another --svg"
        ) from error


def _is_device(path: str) -> bool:
    return Path(path).exists() and not Path(path).is_file()


def _row(found: Lanes, lane: Lane, span: Span) -> dict[str, Any]:
    is_open = span.outcome == OPEN
    judged = found.judged.get((lane.where, span.producer_id)) if is_open else None
    end_ms = found.now_ms if is_open else span.end_ms
    return {
        "topic": lane.where.topic,
        "partition": lane.where.partition,
        "transactional_id": found.names.get(span.producer_id),
        "producer_id": span.producer_id,
        "producer_epoch": span.producer_epoch,
        "first_offset": span.first_offset,
        "last_offset": span.last_offset,
        "record_count": span.record_count if span.is_whole else None,
        "begin_time_ms": span.begin_ms,
        "length_ms": None if span.begin_ms is None or end_ms is None else max(0, end_ms - span.begin_ms),
        "marker_offset": span.marker_offset,
        "outcome": span.outcome,
        "verdict": None if judged is None else judged.kind,
    }
