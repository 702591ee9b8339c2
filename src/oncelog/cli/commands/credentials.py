"""`oncelog credentials`: SCRAM credentials of users; passwords never appear on the command line."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.interruption import asked, first_line
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.output import columns, is_terminal, printable
from oncelog.client.admin.clients import MECHANISMS
from oncelog.client.config import snake_case
from oncelog.errors import ClusterAuthorization, ResourceNotFound

MECHANISM = click.option(
    "--mechanism",
    type=click.Choice(list(MECHANISMS)),
    default=None,
    help="Of which kind; without it every kind that the user has.",
)
ENABLED = "sasl.enabled.mechanisms"


@click.group(cls=Group)
def credentials() -> None:
    """SCRAM credentials: list, set, remove."""


@credentials.command("list", watchable=True)
@click.argument("users", nargs=-1, metavar="[USER]...")
@click.pass_obj
async def list_credentials(settings: Settings, users: tuple[str, ...]) -> None:
    """Which users have which credentials; the secrets are never told."""
    async with open_admin(settings) as admin:
        found = await admin.describe_user_scram_credentials(users)
    rows = [{"user": each.user, "mechanism": each.mechanism, "iterations": each.iterations} for each in found]
    settings.out.rows(columns("user", "mechanism", "iterations"), rows, empty="there are no credentials")


@credentials.command("set", changes=True)
@click.argument("user", metavar="USER")
@MECHANISM
@click.option(
    "--iterations", type=WholeNumberRange(4096, 16384), default=8192, show_default=True, help="Work per login."
)
@click.pass_obj
async def set_credential(settings: Settings, user: str, mechanism: str | None, iterations: int) -> None:
    """Set a user's password, asked for on a terminal, else the first line of stdin. Only its salted form is sent.

    Without --mechanism it replaces every password that the user has; a user who has none gets those that the broker's
    listeners take, and both where that is not known.
    """
    try:
        mechanisms = await _mechanisms(settings, user, mechanism)
    except ResourceNotFound:
        mechanisms = await _taken_by_listeners(settings)
    # Our own way in comes last: the broker ends the session of a password that is replaced.
    own = snake_case(settings.client_config()).get("sasl_mechanism")
    mechanisms = sorted(mechanisms, key=lambda each: each == own)
    settings.confirm(f"set the {' and '.join(mechanisms)} password of {user}; one that is there stops working", user)
    password = _password(user)
    if not settings.dry_run:
        async with open_admin(settings) as admin:
            for each in mechanisms:
                await admin.alter_user_scram_credential(user, each, password, iterations=iterations)
    _show(settings, user, mechanisms, "set")


async def _mechanisms(settings: Settings, user: str, named: str | None) -> Sequence[str]:
    """The one that was named, else all that the user has: a password that is replaced or removed must not live on."""
    if named is not None:
        return (named,)
    async with open_admin(settings) as admin:
        return [each.mechanism for each in await admin.describe_user_scram_credentials([user])]


async def _taken_by_listeners(settings: Settings) -> Sequence[str]:
    """Of the kinds that there are those with which somebody can log in, as far as the broker tells and we know by ourselves."""
    async with open_admin(settings) as admin:
        try:
            enabled = (await admin.describe_broker_configs()).get(ENABLED) or ""
        except ClusterAuthorization:
            return tuple(MECHANISMS)
    listed = {name.strip() for name in enabled.split(",")} & MECHANISMS.keys()
    if not listed:
        return tuple(MECHANISMS)  # nothing is told of what single listeners take by keys of their own
    own = snake_case(settings.client_config()).get("sasl_mechanism")
    return [name for name in MECHANISMS if name in listed or name == own]


def _show(settings: Settings, user: str, mechanisms: Sequence[str], done: str) -> None:
    result = f"would be {done}" if settings.dry_run else done
    rows = [{"user": user, "mechanism": each, "result": result} for each in mechanisms]
    settings.out.rows(columns("user", "mechanism", "result"), rows)


def _password(user: str) -> str:
    if is_terminal(sys.stdin):
        return _typed_password(user)
    password = first_line()
    if not password:
        raise click.UsageError("no password: give it as the first line of stdin")
    return password


def _typed_password(user: str) -> str:
    while True:
        password = asked(f"password of {printable(user)}", is_hidden=True)
        if password and asked("once more", is_hidden=True) == password:
            return password
        click.echo("the two are not the same" if password else "it has no character", err=True)


@credentials.command("remove", changes=True)
@click.argument("user", metavar="USER")
@MECHANISM
@click.pass_obj
async def remove_credential(settings: Settings, user: str, mechanism: str | None) -> None:
    """Remove a user's credential: all of them, or with --mechanism one."""
    mechanisms = await _mechanisms(settings, user, mechanism)
    if settings.dry_run and mechanism is not None and mechanism not in await _mechanisms(settings, user, None):
        raise ResourceNotFound(f"{user}: Attempt to delete a user credential that does not exist")
    named = " and ".join(mechanisms)
    if settings.confirm(f"remove the {named} credential of {user}: it cannot log in with it any more", user):
        async with open_admin(settings) as admin:
            for each in mechanisms:
                await admin.alter_user_scram_credential(user, each, None)
    _show(settings, user, mechanisms, "removed")
