"""`oncelog watch`: a screen, a stream of lines and an exporter in one, on any Kafka."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from oncelog.cli.clients import open_admin, patient
from oncelog.cli.command import Command, Settings, hint_for, pause
from oncelog.cli.durations import DURATION
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.output import EXIT_FAILURE, EXIT_FOUND, Failed, error_name, is_terminal, json_text
from oncelog.cli.watch.alarms import Alarms
from oncelog.cli.watch.exporter import Exporter
from oncelog.cli.watch.looks import Looks, Seen
from oncelog.cli.watch.screen import alert_lines, document, failed_document, screen
from oncelog.client.admin.admin import Admin
from oncelog.client.arguments import is_wire_text
from oncelog.core.diagnosis.watching import Watching
from oncelog.errors import AuthenticationFailed, ConfigurationError, InvalidArgument, OncelogError
from oncelog.host.clock import RealClock
from oncelog.host.http_endpoint import HttpEndpoint
from oncelog.host.network import NetworkFailed, RealNetwork

OLDER_THAN_MS = 10_000
ALERT_AFTER_MS = 30_000
REOPEN_AFTER = 3  # looks in a row without an answer: perhaps all brokers have new addresses
LOOPBACK = "127.0.0.1"


@click.command("watch", cls=Command, shows=False)
@click.argument("topics", nargs=-1, metavar="[TOPIC...]")
@click.option("--once", is_flag=True, help="One look. Exit status 1 where not everything could be read.")
@click.option(
    "--older-than",
    "older_than_ms",
    type=DURATION,
    default=OLDER_THAN_MS,
    help="Name causes that have lasted for longer [default: 10s].",
)
@click.option(
    "--alert-after",
    "alert_after_ms",
    type=DURATION,
    default=ALERT_AFTER_MS,
    help="A line on stderr for what is held back, offline or stuck for so long [default: 30s].",
)
@click.option(
    "--metrics-port", type=WholeNumberRange(0, 65535), help=f"Numbers for Prometheus at http://{LOOPBACK}:PORT/metrics."
)
@click.option("--exit-code", is_flag=True, help="With --once: exit status 3 where something rings.")
@click.pass_context
async def watch(
    ctx: click.Context,
    topics: tuple[str, ...],
    once: bool,
    older_than_ms: int,
    alert_after_ms: int,
    metrics_port: int | None,
    exit_code: bool,
) -> None:
    """Who holds readers back: partitions, transactions by age, groups, and the command to type. Look after look.

    On any Kafka. Ends with Ctrl-C; outlives restarts of brokers. -o json prints one line a look.
    """
    settings = ctx.ensure_object(Settings)
    if not all(each and is_wire_text(each) for each in topics):
        raise click.UsageError("say which topics: names that can be sent")
    if once and metrics_port is not None:
        raise click.UsageError("--once ends before anybody could scrape --metrics-port: leave out one of the two")
    if exit_code and not once:
        raise click.UsageError("--exit-code needs --once: what goes on has no exit status")
    watcher = _Watcher(
        patient(settings), topics, older_than_ms, Alarms(alert_after_ms, is_only_look=once), alert_after_ms
    )
    if once:
        seen = await watcher.look_once()
        if exit_code and (seen.picture.alerts or seen.ringing.now):
            ctx.exit(EXIT_FOUND)
        if seen.not_read:
            ctx.exit(EXIT_FAILURE)
        return
    async with _exported(settings, watcher.exporter, metrics_port):
        await watcher.look_on()


@asynccontextmanager
async def _exported(settings: Settings, exporter: Exporter, port: int | None) -> AsyncIterator[None]:
    if port is None:
        yield
        return
    try:
        listener = await RealNetwork().listen(LOOPBACK, port, HttpEndpoint(exporter.answer))
    except NetworkFailed as error:
        raise Failed(str(error), "give another with --metrics-port") from error
    settings.out.note(f"metrics: http://{LOOPBACK}:{listener.port}/metrics")
    try:
        yield
    finally:
        listener.close()


class _Watcher:
    """Looks, and tells what was seen."""

    def __init__(
        self, settings: Settings, topics: tuple[str, ...], older_than_ms: int, alarms: Alarms, alert_after_ms: int
    ) -> None:
        self.exporter = Exporter()
        self._settings = settings
        self._older_than_ms = older_than_ms
        self._looks = Looks(topics, Watching(alert_after_ms), alarms)
        self._has_looked = False
        self._is_printing = False

    async def look_once(self) -> Seen:
        async with open_admin(self._settings) as admin:
            seen = await self._looks.look(admin, self._now_ms())
        self._tell(seen, is_only=True)
        return seen

    async def look_on(self) -> None:
        """Until it is interrupted."""
        while True:
            try:
                async with open_admin(self._settings) as admin:
                    await self._look_with(admin)
            except (OncelogError, OSError) as error:
                self._tell_failure(error)
                await pause(self._settings.interval_ms / 1000)

    async def _look_with(self, admin: Admin) -> None:
        """Until it answers no more."""
        failures = 0
        while failures < REOPEN_AFTER:
            try:
                seen = await self._looks.look(admin, self._now_ms())
            except (OncelogError, OSError) as error:
                self._tell_failure(error)
                failures += 1
            else:
                failures, self._has_looked = 0, True
                self.exporter.looked(seen)
                self._tell(seen)
            await pause(self._settings.interval_ms / 1000)

    def _tell(self, seen: Seen, *, is_only: bool = False) -> None:
        out, self._is_printing = self._settings.out, True
        if out.is_machine:
            is_indented = is_only and out.format == "json"
            out.data(json_text(document(self._settings, seen, self._older_than_ms), 2 if is_indented else None) + "\n")
        else:
            if is_terminal(sys.stdout) and not is_only:
                click.clear()
            out.data(screen(self._settings, seen, self._older_than_ms) + ("\n" if is_only else "\n\n"))
        out.flush()
        for line in alert_lines(self._settings, seen, self._older_than_ms):
            out.note(line)
        self._is_printing = False

    def _tell_failure(self, error: OncelogError | OSError) -> None:
        """Nobody answered: said, and tried again. Raises what no later look would mend, and what stdout refuses."""
        is_hopeless = isinstance(error, ConfigurationError | InvalidArgument | AuthenticationFailed)
        if (is_hopeless and not self._has_looked) or self._is_printing:
            raise error
        self.exporter.failed()
        out, line = self._settings.out, " ".join((str(error) or type(error).__name__).split())
        hint = hint_for(error, self._settings)
        out.note(f"error: {line}" + (f" ({hint})" if hint else ""))
        if out.is_machine:
            self._is_printing = True
            out.data(json_text(failed_document(RealClock().now_ms(), error_name(error), line)) + "\n")
            out.flush()
            self._is_printing = False

    @staticmethod
    def _now_ms() -> int:
        return int(asyncio.get_running_loop().time() * 1000)
