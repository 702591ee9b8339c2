"""`oncelog quotas`: how much clients may send, read and ask for."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.key_names import check_known, each_once, outcome_of
from oncelog.cli.outcomes import pairs_of
from oncelog.cli.output import columns
from oncelog.cli.quota_text import DEFAULT, entity_text, number_text
from oncelog.core.number_text import number
from oncelog.errors import ErrorCode

KNOWN = (
    *("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"),
    "connection_creation_rate",
)


@click.group(cls=Group)
def quotas() -> None:
    """Client quotas: list, set, delete.

    \b
    producer_byte_rate, consumer_byte_rate   bytes a second
    request_percentage                       share of one processor's time, in percent
    controller_mutation_rate                 partitions created or deleted a second
    connection_creation_rate                 new connections a second, of an --ip
    """


def _of_an_entity(body: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--ip", metavar="ADDRESS", help="An address; 'default' is every one without its own."),
        click.option("--client-id", metavar="ID", help="A client id; 'default' is every one without its own."),
        click.option("--user", metavar="NAME", help="A user; 'default' is every one without its own."),
    ):
        body = option(body)
    return body


def _entity(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    given = {"user": user, "client-id": client_id, "ip": ip}
    return {kind: None if name == DEFAULT else name for kind, name in given.items() if name is not None}


def _wanted(user: str | None, client_id: str | None, ip: str | None) -> dict[str, str | None]:
    entity = _entity(user, client_id, ip)
    if not entity:
        raise click.UsageError("say whose: --user, --client-id (or both), or --ip")
    return entity


@quotas.command("list", watchable=True)
@_of_an_entity
@click.pass_obj
async def list_quotas(settings: Settings, user: str | None, client_id: str | None, ip: str | None) -> None:
    """All quotas, or those of one user, client or address."""
    async with open_admin(settings) as admin:
        found = await admin.describe_client_quotas(_entity(user, client_id, ip))
    rows = [
        {
            **{kind.replace("-", "_"): _shown(each.entity, kind) for kind in ("user", "client-id", "ip")},
            "quota": key,
            "value": value,
        }
        for each in found
        for key, value in each.values.items()
    ]
    settings.out.rows(columns("user", "client_id", "ip", "quota", "value"), rows, empty="there are no quotas")


def _shown(entity: dict[str, str | None], kind: str) -> str | None:
    if kind not in entity:
        return None
    name = entity[kind]
    return DEFAULT if name is None else name


@quotas.command("set", changes=True)
@_of_an_entity
@click.argument("values", nargs=-1, required=True, metavar="QUOTA=VALUE...")
@click.pass_obj
async def set_quotas(
    settings: Settings, user: str | None, client_id: str | None, ip: str | None, values: tuple[str, ...]
) -> None:
    """Set quotas; the others stay as they are."""
    wanted: dict[str, float | None] = {}
    for key, text in pairs_of(values, "quotas").items():
        try:
            wanted[key] = number(text)
        except ValueError:
            raise click.UsageError(f"{key}={text}: a quota is a number") from None
        if not isfinite(wanted[key] or 0):
            raise click.UsageError(f"{key}={text}: a quota is a number")
    await _alter(settings, _wanted(user, client_id, ip), wanted)


@quotas.command("delete", changes=True)
@_of_an_entity
@click.argument("keys", nargs=-1, required=True, metavar="QUOTA...")
@click.pass_obj
async def delete_quotas(
    settings: Settings, user: str | None, client_id: str | None, ip: str | None, keys: tuple[str, ...]
) -> None:
    """Remove quotas."""
    await _alter(settings, _wanted(user, client_id, ip), dict.fromkeys(each_once(keys)))


async def _alter(settings: Settings, entity: dict[str, str | None], changes: dict[str, float | None]) -> None:
    check_known("quota", changes, KNOWN, ErrorCode.INVALID_REQUEST)
    whose = entity_text(entity)
    what = ", ".join(
        f"delete {key}" if value is None else f"set {key} to {number_text(value)}" for key, value in changes.items()
    )
    settings.confirm(f"{what} of {whose}", next((name for name in entity.values() if name), DEFAULT))
    now: set[str] = set()
    async with open_admin(settings) as admin:
        if None in changes.values():
            found = await admin.describe_client_quotas(entity, strict=True)
            now = {key for each in found if each.entity == entity for key in each.values}
        await admin.alter_client_quotas(entity, changes, validate_only=settings.dry_run)
    rows = [
        {"quota": key, "value": value, "result": outcome_of(value, was_set=key in now, is_dry_run=settings.dry_run)}
        for key, value in changes.items()
    ]
    settings.out.rows(columns("quota", "value", "result"), rows)
