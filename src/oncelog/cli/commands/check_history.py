"""`oncelog check-history`: does what a workload's processes saw keep the promises (docs/history.md)?"""

from __future__ import annotations

import gc
from collections import Counter
from typing import IO

import click

from oncelog.checker.anomalies import Anomaly, Report, check
from oncelog.checker.history import UnreadableHistory, read_history
from oncelog.cli.command import Settings, command
from oncelog.cli.output import EXIT_FAILURE, Column, Output, counted, json_text
from oncelog.errors import ConfigurationError


@command(name="check-history")
@click.argument("file", type=click.File("r", encoding="utf-8"))
@click.pass_context
def check_history(ctx: click.Context, file: IO[str]) -> None:
    """Check a history (JSON lines; - is stdin) for anomalies.

    One line per class of anomaly with a minimal witness. Exit status: 0 valid, 1 anomalies, 2 unreadable.
    """
    out = ctx.ensure_object(Settings).out
    gc.disable()  # millions of small objects that all stay until the end: collections would look at them again and again
    try:
        report = check(read_history(file))
    except (UnreadableHistory, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file.name}: {error}") from error
    finally:
        gc.enable()
    _print(out, report)
    if not report.is_valid:
        ctx.exit(EXIT_FAILURE)


def _print(out: Output, report: Report) -> None:
    counts = Counter(anomaly.name for anomaly in report.anomalies)
    first: dict[str, Anomaly] = {}
    for anomaly in report.anomalies:
        first.setdefault(anomaly.name, anomaly)
    rows = [
        {"name": name, "count": counts[name], "fails": one.fails, "text": one.text, "witness": one.witness}
        for name, one in first.items()
    ]
    if out.format == "json":
        document = {"valid": report.is_valid, "operations": report.operation_count, "anomalies": rows}
        out.data(json_text(document, indent=2) + "\n")
        return
    out.rows([Column("name", "ANOMALY"), Column("count"), Column("fails"), Column("text", "WITNESS")], rows)
    verdict = "valid" if report.is_valid else "ANOMALIES FOUND"
    out.note(f"{counted(report.operation_count, 'operation')}: {verdict}")
