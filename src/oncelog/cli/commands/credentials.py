"""`oncelog credentials`: SCRAM credentials of users; passwords never appear on the command line."""

from __future__ import annotations

import sys

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.interruption import asked
from oncelog.cli.output import columns, is_terminal, printable
from oncelog.client.admin.clients import MECHANISMS

MECHANISM = click.option(
    "--mechanism",
    type=click.Choice(list(MECHANISMS)),
    default="SCRAM-SHA-256",
    show_default=True,
    help="Of which kind.",
)


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
@click.option("--iterations", type=click.IntRange(4096, 16384), default=8192, show_default=True, help="Work per login.")
@click.pass_obj
async def set_credential(settings: Settings, user: str, mechanism: str, iterations: int) -> None:
    """Set a user's password, asked for on a terminal, else the first line of stdin. Only its salted form is sent."""
    if not settings.dry_run:
        settings.confirm(f"set the {mechanism} password of {user}; one that is there stops working", user)
    password = _password(user)
    if not settings.dry_run:
        async with open_admin(settings) as admin:
            await admin.alter_user_scram_credential(user, mechanism, password, iterations=iterations)
    row = {"user": user, "mechanism": mechanism, "result": "would be set" if settings.dry_run else "set"}
    settings.out.rows(columns("user", "mechanism", "result"), [row])


def _password(user: str) -> str:
    if is_terminal(sys.stdin):
        return _typed_password(user)
    password = "" if sys.stdin is None else sys.stdin.readline().rstrip("\r\n")
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
async def remove_credential(settings: Settings, user: str, mechanism: str) -> None:
    """Remove a user's credential."""
    if not settings.dry_run:
        settings.confirm(f"remove the {mechanism} credential of {user}: it cannot log in with it any more", user)
        async with open_admin(settings) as admin:
            await admin.alter_user_scram_credential(user, mechanism, None)
    row = {"user": user, "mechanism": mechanism, "result": "would be removed" if settings.dry_run else "removed"}
    settings.out.rows(columns("user", "mechanism", "result"), [row])
