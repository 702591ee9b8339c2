"""`oncelog recover DIRECTORY`: the form that a clean stop leaves, without serving anybody."""

from __future__ import annotations

import os

import click

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import properties_from
from oncelog.cli.command import Settings
from oncelog.cli.interruption import run
from oncelog.cli.output import EXIT_FAILURE, Failed, columns
from oncelog.cli.progress import progress


def recover_directory(ctx: click.Context, directory: str) -> None:
    """Recover it, and print what was found; exit status 1 where a partition is damaged."""
    settings = ctx.ensure_object(Settings)
    path = os.path.join(directory, "meta.properties")
    if not os.path.exists(path):
        raise Failed(f"{directory} is no data directory of a broker: it has no meta.properties")
    with open(path, encoding="utf-8", errors="replace") as file:
        node_id = properties_from(file.read()).get("node.id", "1")
    if not settings.confirm("recover the directory of a broker that is not running", directory):
        return
    broker = Broker(directory, {"node.id": node_id})
    with progress(settings, "oncelog"):
        damaged = run(broker.recover_directory())
    row = {"directory": directory, "was_clean": broker.is_clean_start, "damaged": damaged}
    settings.out.item(columns(*row), row)
    if damaged:
        ctx.exit(EXIT_FAILURE)
