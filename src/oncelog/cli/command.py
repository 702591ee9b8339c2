"""What every command shares: the global options before and after its name, async bodies, errors as exit statuses."""

from __future__ import annotations

import asyncio
import errno
import inspect
import re
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from typing import Any, NoReturn

import click
from click.core import ParameterSource

from oncelog.cli.durations import DURATION
from oncelog.cli.interruption import asked, run
from oncelog.cli.output import EXIT_FAILURE, EXIT_USAGE, FORMATS, Failed, Output, Row, is_terminal, printable
from oncelog.cli.properties_file import property_from_text, read_properties
from oncelog.cli.refused_by_disk import way_out
from oncelog.cli.signals import heard_by, line_of, raise_signalled, status_of
from oncelog.core.shell_words import shell_text
from oncelog.errors import ConfigurationError, InvalidArgument, KafkaError, OncelogError, RequestTimedOut, StorageError
from oncelog.lazy_dataclass import dataclass
from oncelog.wire.schema import InvalidField

NOBODY_READS = "send it somewhere: `> FILE`, or `> /dev/null` where nobody wants it"
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
TIMEOUT_DEFAULT_MS = 30_000
_NO_SUCH_BROKER = re.compile(r"broker \d+ is not known")
_SILENT = re.compile(r"no connection to (\S+) within")


class Name(str):
    """In a command to copy: an argument, which is no option whatever it begins with."""

    __slots__ = ()


@dataclass
class Settings:
    """The global options as given so far; what stands after a command's name wins over what stands before it."""

    bootstrap_servers: str | None = None
    command_config: str | None = None
    properties: dict[str, str] = field(default_factory=dict, repr=False)  # passwords may be among them
    output: str = "table"
    no_header: bool = False
    watch: bool = False
    interval_ms: int = 2000
    yes: bool = False
    dry_run: bool = False
    timeout_ms: int = TIMEOUT_DEFAULT_MS
    _out: Output | None = None

    @property
    def out(self) -> Output:
        """The printer for these options."""
        if self._out is None or (self._out.format, self._out.header) != (self.output, not self.no_header):
            self._out = Output(self.output, header=not self.no_header)
        return self._out

    def client_config(self, **more: Any) -> dict[str, Any]:
        """Kafka's dotted keys for a client: the file, then -X, then the options. Raises ConfigurationError."""
        config: dict[str, Any] = read_properties(self.command_config) if self.command_config else {}
        config.setdefault("default.api.timeout.ms", self.timeout_ms)
        config.update(self.properties)
        if (
            self.bootstrap_servers is not None
        ):  # an empty one (a variable that is not set) is refused, not another broker
            config["bootstrap.servers"] = self.bootstrap_servers
        config.setdefault("bootstrap.servers", DEFAULT_BOOTSTRAP)
        config.setdefault("client.id", "oncelog-cli")
        return {**config, **{key.replace("_", "."): value for key, value in more.items()}}

    @property
    def brokers_asked(self) -> str:
        """Whom a client asks first."""
        try:
            return str(self.client_config()["bootstrap.servers"])
        except ConfigurationError:
            return self.bootstrap_servers or DEFAULT_BOOTSTRAP

    def repair(self, *words: object) -> str:
        """A command line to copy, that goes to the same brokers."""
        brokers = ["-b", self.bootstrap_servers] if self.bootstrap_servers else []
        config = ["--command-config", self.command_config] if self.command_config else []
        if any(isinstance(each, Name) and each.startswith("-") for each in words):
            options = [each for each in words if not isinstance(each, Name)]
            words = (*options, "--", *(each for each in words if isinstance(each, Name)))
        return shell_text(["oncelog", *brokers, *config, *map(str, words)])

    def confirm(self, what: str, word: str, *, more: Sequence[str] = (), plan: Sequence[Row] = ()) -> bool:
        """Say on stderr what will happen (`more`: lines below it), then ask. False: a dry run, nothing is to be done; machines
        get `plan`.

        On a terminal the user types `word`; without one `--yes` is needed.
        """
        out = self.out
        out.note(("dry run, would: " if self.dry_run else "") + what, *more)
        if self.dry_run:
            if plan and out.is_machine:
                out.rows((), plan)
            return False
        if self.yes:
            return True
        if not is_terminal(sys.stdin):
            raise click.UsageError("this changes something and stdin is no terminal: add --yes (or --dry-run to look)")
        if asked(f"type {printable(word)} to go on") not in (word, printable(word)):
            raise Failed("not confirmed, nothing was changed")
        return True


def _store(ctx: click.Context, param: click.Parameter, value: Any) -> None:
    assert param.name is not None
    source, settings = ctx.get_parameter_source(param.name), ctx.ensure_object(Settings)
    # The environment is asked at every level of a command; what was given at an outer one is nearer than it.
    if source is ParameterSource.DEFAULT or (source is ParameterSource.ENVIRONMENT and getattr(settings, param.name)):
        return
    if param.name == "properties":
        try:
            for key, text in map(property_from_text, value):
                if key in settings.properties:
                    raise click.BadParameter(f"{key} is given twice", ctx, param)
                settings.properties[key] = text
        except ConfigurationError as error:
            raise click.BadParameter(str(error), ctx, param) from error
    elif value == 0 and param.type is DURATION:
        raise click.BadParameter("must be more than 0", ctx, param)
    else:
        setattr(settings, param.name, value)


def global_options() -> list[click.Option]:
    """A new set of the global options."""

    def option(*names: str, **more: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_store, **more)

    return [
        option(
            "-b",
            "--bootstrap-server",
            "--bootstrap-servers",
            "bootstrap_servers",
            metavar="HOST:PORT",
            envvar="ONCELOG_BOOTSTRAP_SERVERS",
            help=f"The brokers to ask first [default: {DEFAULT_BOOTSTRAP}; env ONCELOG_BOOTSTRAP_SERVERS].",
        ),
        option("--command-config", metavar="FILE", help="A properties file with client settings."),
        option("-X", "properties", multiple=True, metavar="KEY=VALUE", help="A client setting, by Kafka's name."),
        option("-o", "--output", type=click.Choice(FORMATS), help="How to print [default: table]."),
        option("--no-header", is_flag=True, help="Tables without their first line."),
        option("--watch", is_flag=True, help="Again and again, until Ctrl-C."),
        option("--interval", "interval_ms", type=DURATION, help="How often with --watch [default: 2s]."),
        option("-y", "--yes", is_flag=True, help="Do not ask before changing something."),
        option("--dry-run", is_flag=True, help="Only say what would be done."),
        option("--timeout", "timeout_ms", type=DURATION, help="How long to try [default: 30s]."),
    ]


class Command(click.Command):
    """A command with the global options. `changes`: it honours --dry-run; `watchable`: it honours --watch; `shows`: what it
    writes to stdout is what it is for, as of all that change nothing."""

    def __init__(
        self, *args: Any, changes: bool = False, watchable: bool = False, shows: bool | None = None, **more: Any
    ) -> None:
        super().__init__(*args, **more)
        self.changes = changes
        self.shows = not changes if shows is None else shows
        self.watchable = watchable
        self.own_option_count = len(self.params)
        self.params += global_options()

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does; half a surrogate pair in a file's name is a usage error, too."""
        try:
            return super().parse_args(ctx, args)
        except UnicodeEncodeError as error:
            raise click.UsageError(f"{error.object!r} can be no file's name", ctx) from None

    def invoke(self, ctx: click.Context) -> Any:
        """Run the body; an async one in a loop of its own, again and again with --watch."""
        settings = ctx.ensure_object(Settings)
        with reported(ctx, settings), heard_by(raise_signalled):
            if settings.dry_run and not self.changes:
                raise click.UsageError(f"{ctx.command_path} changes nothing: --dry-run has no meaning here", ctx)
            if settings.watch and not self.watchable:
                raise click.UsageError(f"--watch has no meaning for {ctx.command_path}", ctx)
            if sys.stdout is None and (self.shows or settings.dry_run):
                raise Failed("standard output is closed: nobody would get what this command writes", NOBODY_READS)
            if settings.watch:
                return run(_watch(settings, lambda: super(Command, self).invoke(ctx)))
            result = super().invoke(ctx)
            return run(result) if inspect.iscoroutine(result) else result

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The command's own options first, the global ones after them."""
        shared = {option.name for option in global_options()}
        for title, wanted in (("Options", False), ("Global options", True)):
            records = [
                record
                for param in self.get_params(ctx)
                if (param.name in shared) is wanted
                and isinstance(param, click.Option)
                and (record := param.get_help_record(ctx)) is not None
            ]
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class Group(click.Group):
    """A group of commands that takes the global options, too."""

    command_class = Command

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params += global_options()

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Only the commands: the options are those of every command."""
        self.format_commands(ctx, formatter)


async def _watch(settings: Settings, body: Callable[[], Awaitable[Any]]) -> None:
    while True:
        if is_terminal(sys.stdout):
            click.clear()
        try:
            await body()
        except click.exceptions.Exit as end:
            settings.out.note(f"exit status {end.exit_code}")
        except ConfigurationError:
            raise
        except (OncelogError, OSError) as error:  # a broker that restarts: what is watched comes back with it
            if isinstance(error, OSError) and error.errno == errno.EPIPE:
                raise
            settings.out.error(error, hint=hint_for(error, settings))
        await pause(settings.interval_ms / 1000)


async def pause(seconds: float) -> None:
    """Between two looks of --watch."""
    await asyncio.sleep(seconds)


@contextmanager
def reported(ctx: click.Context, settings: Settings) -> Iterator[None]:
    """Errors a user can meet become one line and an exit status; our own bugs stay tracebacks."""
    try:
        yield
    except KeyboardInterrupt as error:
        settings.out.note(line_of(error))
        ctx.exit(status_of(error))
    except InvalidField as error:
        _report(ctx, settings, ConfigurationError(f"this cannot be said in Kafka's protocol: {error}"))
    except (OncelogError, OSError, ExceptionGroup) as error:
        _report(ctx, settings, error)


def _report(ctx: click.Context, settings: Settings, error: BaseException) -> NoReturn:
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, OSError) and error.errno == errno.EPIPE:
        raise error
    if not isinstance(error, OncelogError | OSError):
        raise error
    if isinstance(error, ConfigurationError | InvalidArgument):
        settings.out.wrong_usage(error, hint=hint_for(error, settings))
        ctx.exit(EXIT_USAGE)
    settings.out.error(error, hint=hint_for(error, settings))
    ctx.exit(EXIT_FAILURE)


def hint_for(error: BaseException, settings: Settings) -> str:
    """The way out, where one is known."""
    if isinstance(error, Failed):
        return error.hint
    if (
        isinstance(error, RequestTimedOut)
        and isinstance(error.__cause__, KafkaError)
        and str(error.__cause__) in str(error)
    ):
        error = error.__cause__  # what it waited for says more than that it waited
    if isinstance(error, StorageError):
        return way_out(error, "run the same again")
    name = type(error).__name__
    where = settings.brokers_asked
    if silent := _SILENT.search(str(error)):
        return f"the broker at {silent[1]} does not answer, which others may do: does it run?"
    describe = f"`{settings.repair('topics', 'describe')} TOPIC`"
    if _NO_SUCH_BROKER.search(str(error)):
        return f"is its id right? {describe} names the brokers that lead partitions"
    hints = {
        "TimeoutError": f"is a broker listening at {where}? give another with -b HOST:PORT, or more time with --timeout",
        "ConnectionRefusedError": f"no broker listens at {where}: give another with -b HOST:PORT",
        "Network": f"is a broker listening at {where}? give another with -b HOST:PORT",
        "RequestTimedOut": f"is a broker listening at {where}? give another with -b HOST:PORT, or more time with --timeout",
        "KafkaStorage": f"its disk failed or a batch is damaged; the broker's log says why, and {describe} where",
        "CorruptRecord": f"read on behind it with --from OFFSET; the broker's log says why, and {describe} where",
        "SecurityDisabled": "start it with authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer, "
        "or by what `oncelog secure` writes",
        "UnsupportedByAuthentication": "tokens are for who has logged in with a password or a certificate, not with a token: "
        "--command-config FILE with security.protocol and sasl.* (docs/security.md, delegation tokens)",
        "DelegationTokenDisabled": "start the broker with delegation.token.secret.key",
        "LeaderNotAvailable": f"{describe} names the partitions that no broker serves now",
        "UnknownTopicOrPartition": "`oncelog topics list` shows what is there",
        "TransactionalIdNotFound": "`oncelog transactions list` shows the known ids",
        "GroupIdNotFound": "`oncelog groups list` shows the known groups",
        "NonEmptyGroup": "stop its members first: `oncelog groups describe` names them",
    }
    return hints.get(name, "")


def command(*, name: str | None = None, **more: Any) -> Callable[[Callable[..., Any]], Command]:
    """A stand-alone command (of no group)."""

    def decorated(body: Callable[..., Any]) -> Command:
        made = click.command(name, cls=Command, **more)(body)
        assert isinstance(made, Command)
        return made

    return decorated
