"""`oncelog serve` as the root command knows it: the options; the broker itself is imported when it starts."""

from __future__ import annotations

import click

from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.plain_serve import LOG_LEVELS, load_and_serve


@click.command(name="serve")
@click.option("--data-dir", metavar="DIR", help="Where the log lives [default: ./oncelog-data].")
@click.option("--listen", multiple=True, metavar="HOST:PORT", help="Where to accept clients; port 0 picks a free one.")
@click.option("--config", "config_file", metavar="FILE", help="A server.properties file.")
@click.option(
    "-c", "config", multiple=True, metavar="KEY=VALUE", help="One setting by Kafka's name; wins over the file."
)
@click.option(
    "--insecure",
    is_flag=True,
    envvar="ONCELOG_INSECURE",
    help="Listen on addresses that others reach although nobody has to say who it is [env ONCELOG_INSECURE=1].",
)
@click.option("--ephemeral", is_flag=True, help="A temporary directory, removed at exit.")
@click.option(
    "--processes",
    type=WholeNumberRange(1),
    metavar="N",
    help="Share the work among N processes, each a broker for clients, on ports in a row [default: as the directory is, or 1].",
)
@click.option("--log-level", type=click.Choice(LOG_LEVELS), default="info", show_default=True)
@click.pass_context
def serve(
    ctx: click.Context,
    data_dir: str | None,
    listen: tuple[str, ...],
    config_file: str | None,
    config: tuple[str, ...],
    insecure: bool,
    ephemeral: bool,
    log_level: str,
    processes: int | None,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C.

    The first line on stdout, `ready HOST:PORT node=1 cluster=ID`, says that it accepts requests. Logs go to stderr.
    """
    status = load_and_serve(
        data_dir=data_dir,
        listen=listen,
        config_file=config_file,
        config=config,
        insecure=insecure,
        ephemeral=ephemeral,
        log_level=log_level,
        processes=processes,
    )
    ctx.exit(status)
