"""`oncelog`: the root command. Subcommands are imported only when they are used, so that start-up stays cheap."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

import click

import oncelog
from oncelog.cli.command import Group
from oncelog.cli.output import EXIT_FAILURE, EXIT_USAGE, Output, printable_lines
from oncelog.cli.standard_streams import stream_of

# name: (where it lives, what it does)
COMMANDS = {
    "serve": ("oncelog.cli.commands.serve_command:serve", "Run a broker."),
    "secure": ("oncelog.cli.commands.secure:secure", "Certificates, first users, a configuration for others to reach."),
    "topics": ("oncelog.cli.commands.topics:topics", "List, describe, create, delete topics."),
    "produce": ("oncelog.cli.commands.produce:produce", "Send records from stdin or files, in transactions if wanted."),
    "consume": ("oncelog.cli.commands.consume:consume", "Read records."),
    "groups": (
        "oncelog.cli.commands.groups:groups",
        "Groups: positions, lag under transactions, reset, delete.",
    ),
    "why": ("oncelog.cli.why.why:why", "Why a group, a topic or a transaction stands still, and what to type next."),
    "watch": ("oncelog.cli.watch.watch:watch", "Who holds readers back, look after look: a screen, lines, Prometheus."),
    "transactions": ("oncelog.cli.transactions.show:transactions", "See, explain and mend transactions."),
    "audit": ("oncelog.cli.audit:audit", "Who aborted, fenced, changed or deleted what."),
    "console": ("oncelog.cli.commands.console:console", "A web page: who holds readers back, why, what to type."),
    "features": ("oncelog.cli.commands.features:features", "Feature levels such as transaction.version."),
    "configs": ("oncelog.cli.commands.configs:configs", "Settings of topics, brokers and groups."),
    "acls": ("oncelog.cli.commands.acls:acls", "Access rules: who may do what."),
    "quotas": ("oncelog.cli.commands.quotas:quotas", "How much clients may send, read and ask for."),
    "credentials": ("oncelog.cli.commands.credentials:credentials", "SCRAM credentials of users."),
    "tokens": ("oncelog.cli.commands.tokens:tokens", "Delegation tokens: short-lived logins for jobs."),
    "dump-log": (
        "oncelog.cli.dump_log.dump_log:dump_log",
        "Decode segments, indexes, snapshots, internal topics on disk.",
    ),
    "reconcile": (
        "oncelog.cli.commands.reconcile:reconcile",
        "Compare the logs of directories: torn, hanging, damaged, with witnesses.",
    ),
    "migrate": ("oncelog.cli.migrate.migrate:migrate", "Topics and their groups to another broker, exactly once."),
    "recover": ("oncelog.cli.commands.recover:recover", "Finish a Spark query's transactions without Spark."),
    "spark": ("oncelog.cli.commands.spark:spark", "Take over checkpoints of Spark's own Kafka source."),
    "doctor": ("oncelog.cli.commands.doctor:doctor", "Look at this machine: what is fast, what is missing."),
    "support-bundle": (
        "oncelog.cli.commands.support_bundle:support_bundle",
        "What somebody who helps needs to see, in one file, without secrets.",
    ),
    "check-history": ("oncelog.cli.commands.check_history:check_history", "Check a workload's history for anomalies."),
    "completion": ("oncelog.cli.commands.completion:completion", "Print the completion script of a shell."),
}
# Named in the frozen list of commands, and not there yet: said in one line instead of half a command.
NOT_BUILT_YET: tuple[str, ...] = ()


class Root(Group):
    """Loads a subcommand when it is asked for; `--help` uses the table above and imports none."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The order of the table."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import the subcommand."""
        if cmd_name in NOT_BUILT_YET:
            return click.Command(cmd_name, callback=lambda: _not_built(cmd_name), context_settings=_TAKE_ANYTHING)
        if cmd_name not in COMMANDS:
            return None
        module, _, attribute = COMMANDS[cmd_name][0].partition(":")
        found = getattr(importlib.import_module(module), attribute)
        assert isinstance(found, click.Command)
        return found

    def make_context(self, *args: Any, **more: Any) -> click.Context:
        """As click's; an error's text is made harmless."""
        with _harmless():
            return super().make_context(*args, **more)

    def invoke(self, ctx: click.Context) -> Any:
        """As click's; an error's text is made harmless."""
        with _harmless():
            return super().invoke(ctx)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the nearest command where there is no such one."""
        name = args[0]
        if name not in COMMANDS and name not in NOT_BUILT_YET:
            import difflib

            if near := difflib.get_close_matches(name, COMMANDS, n=1):
                raise click.UsageError(f"No such command {name!r}. Did you mean {near[0]!r}?", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """From the table: nothing is imported."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Commands, then the options that every command takes."""
        self.format_commands(ctx, formatter)
        with formatter.section("Options of every command, before or after its name"):
            formatter.write_dl([record for param in self.get_params(ctx) if (record := param.get_help_record(ctx))])


@contextmanager
def _harmless() -> Iterator[None]:
    """click quotes what was typed: control characters in it are shown, never sent to the terminal."""
    try:
        yield
    except click.ClickException as error:
        quoted = {key: vars(error)[key] for key in ("message", "ui_filename") if key in vars(error)}
        vars(error).update({key: printable_lines(text) for key, text in quoted.items()})
        raise


_TAKE_ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


def _not_built(name: str) -> NoReturn:
    click.echo(f"error: `oncelog {name}` is not built yet", err=True)
    click.get_current_context().exit(EXIT_FAILURE)


@click.command(cls=Root, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(oncelog.__version__, "-V", "--version", message="oncelog %(version)s")
def root(**_: Any) -> None:
    """Kafka's transactions, end to end: a log server and its tools.

    Data goes to stdout, everything else to stderr. Exit status: 0 done, 1 failed, 2 wrong usage, 3 found something
    (with --exit-code), 130 interrupted, 143 terminated, 129 hung up.
    """


def refuse_without_assertions() -> None:
    """Invariants are assertions: with `python -O` a broken one would go on and write."""
    if not __debug__:
        click.echo("error: oncelog does not run under python -O: its invariants are assertions", err=True)
        sys.exit(EXIT_USAGE)


def main(arguments: Sequence[str] | None = None) -> None:
    """`oncelog`, also as a function: what ends a process is its entry point's."""
    refuse_without_assertions()
    try:
        root.main(args=list(arguments) if arguments is not None else None, prog_name="oncelog")
    except OSError as error:  # of what click itself writes: help, the version
        if not stream_of(error):
            raise
        Output().error(error)
        sys.exit(EXIT_FAILURE)
