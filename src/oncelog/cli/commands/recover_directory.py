"""`oncelog recover DIRECTORY`: the form that a clean stop leaves, without serving anybody."""

from __future__ import annotations

import os

import click

from oncelog.broker.broker import Broker
from oncelog.broker.config.config import ConfigInvalid
from oncelog.broker.startup import meta_properties
from oncelog.cli.command import Settings
from oncelog.cli.interruption import run
from oncelog.cli.output import EXIT_FAILURE, Failed, columns
from oncelog.cli.progress import progress
from oncelog.errors import StorageError
from oncelog.host.files import RealFiles


def recover_directory(ctx: click.Context, directory: str) -> None:
    """Recover it, and print what was found; exit status 1 where a partition is damaged."""
    settings = ctx.ensure_object(Settings)
    path = os.path.join(directory, "meta.properties")
    if not RealFiles().exists(path):
        raise Failed(f"{directory} is no data directory of a broker: it has no meta.properties")
    try:
        node_id = meta_properties(RealFiles(), path).get("node.id", "1")
    except (ConfigInvalid, StorageError) as error:
        raise Failed(str(error)) from error
    if not settings.confirm("recover the directory of a broker that is not running", directory):
        return
    broker = Broker(directory, {"node.id": node_id})
    with progress(settings, "oncelog"):
        damaged = run(broker.recover_directory())
    row = {"directory": directory, "was_clean": broker.is_clean_start, "damaged": damaged}
    settings.out.item(columns(*row), row)
    if damaged:
        ctx.exit(EXIT_FAILURE)
