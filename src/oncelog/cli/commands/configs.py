"""`oncelog configs`: settings of topics, brokers and groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.commands.shrinking import may_shrink, shrinking
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.key_names import check_known, each_once, outcome_of
from oncelog.cli.numbers import is_number
from oncelog.cli.outcomes import pairs_of
from oncelog.cli.output import columns
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.configs import ConfigResource, Configs
from oncelog.errors import ErrorCode, KafkaError
from oncelog.types import TopicPartition

_EVERY_BROKER = ConfigResource("broker", "")
_INVALID = ErrorCode.INVALID_REQUEST  # as the broker says it of its own keys


@click.group(cls=Group)
def configs() -> None:
    """Settings of topics, brokers and groups."""


def _of_a_resource(body: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option("--client-metrics", metavar="NAME", help="Of a client-metrics subscription."),
        click.option("--group", metavar="NAME", help="Of a group, of whatever type."),
        click.option("--broker", metavar="ID", help="Of a broker; 'default' is every broker's."),
        click.option("--topic", metavar="NAME", help="Of a topic."),
    ):
        body = option(body)
    return body


def _resource(topic: str | None, broker: str | None, group: str | None, client_metrics: str | None) -> ConfigResource:
    given = [
        (kind, name)
        for kind, name in (("topic", topic), ("broker", broker), ("group", group), ("client-metrics", client_metrics))
        if name
    ]
    if len(given) != 1:
        raise click.UsageError(
            "say whose settings: one of --topic NAME, --broker ID, --group NAME, --client-metrics NAME"
        )
    kind, name = given[0]
    if kind == "broker" and name != "default" and not is_number(name):
        raise click.UsageError(f"--broker {name}: a broker's id is a number, or 'default'")
    return _EVERY_BROKER if (kind, name) == ("broker", "default") else ConfigResource(kind, name)


@configs.command("describe", watchable=True)
@_of_a_resource
@click.option("--all", "everything", is_flag=True, help="Also what is at its default.")
@click.pass_obj
async def describe_configs(
    settings: Settings,
    topic: str | None,
    broker: str | None,
    group: str | None,
    client_metrics: str | None,
    everything: bool,
) -> None:
    """What is set, and where; with --all every key."""
    resource = _resource(topic, broker, group, client_metrics)
    async with open_admin(settings) as admin:
        if resource.kind == "topic":
            await admin.describe_topics([resource.name])
        entries = (await admin.describe_configs([resource]))[resource]
    rows = [
        {
            "key": entry.name,
            "value": entry.value,
            "source": entry.source,
            "read_only": entry.is_read_only,
            "sensitive": entry.is_sensitive,
        }
        for entry in entries.values()
        if everything or not entry.is_default
    ]
    settings.out.rows(
        columns("key", "value", "source", wide=["read_only", "sensitive"]),
        rows,
        empty="everything is at its default; --all shows it",
    )


@configs.command("set", changes=True)
@_of_a_resource
@click.argument("values", nargs=-1, required=True, metavar="KEY=VALUE...")
@click.pass_obj
async def set_configs(
    settings: Settings,
    topic: str | None,
    broker: str | None,
    group: str | None,
    client_metrics: str | None,
    values: tuple[str, ...],
) -> None:
    """Set keys; the others stay as they are. What lets the broker delete records that it keeps now is asked about."""
    await _alter(settings, _resource(topic, broker, group, client_metrics), dict(pairs_of(values, "settings")))


@configs.command("delete", changes=True)
@_of_a_resource
@click.argument("keys", nargs=-1, required=True, metavar="KEY...")
@click.pass_obj
async def delete_configs(
    settings: Settings,
    topic: str | None,
    broker: str | None,
    group: str | None,
    client_metrics: str | None,
    keys: tuple[str, ...],
) -> None:
    """Put keys back to their defaults. What lets the broker delete records that it keeps now is asked about."""
    resource = _resource(topic, broker, group, client_metrics)
    await _alter(settings, resource, dict.fromkeys(each_once(keys)))


async def _is_empty(admin: Admin, topic: str) -> bool:
    """Whether a topic keeps no record now; what cannot be looked at may have some."""
    partitions = [TopicPartition(topic, index) for index in (await admin.describe_topics([topic]))[topic].partitions]
    unreadable: dict[TopicPartition, KafkaError] = {}
    bounds = await partition_bounds(admin, partitions, unreadable=unreadable)
    return not unreadable and all(each["log_start"] == each["high_watermark"] for each in bounds.values())


async def _confirm_shrinking(
    settings: Settings, admin: Admin, resource: ConfigResource, entries: Configs, changes: dict[str, Any]
) -> dict[str, str]:
    """Ask where a change lets the broker delete what it keeps now; what it does of each key. Raises Failed where it is not
    confirmed."""
    elsewhere: Configs = {}
    if resource == _EVERY_BROKER and any(changes[key] is not None and may_shrink(key) for key in changes):
        elsewhere = await _of_any_broker(admin)  # of all brokers only what is set is told
    found = shrinking(changes, entries, elsewhere)
    if not found or (resource.kind == "topic" and await _is_empty(admin, resource.name)):
        return {}
    whose = f"{resource.kind} {resource.name or 'default'}"
    told = {key: f"let the broker delete records of {whose} for good: {each}" for key, each in found.items()}
    what = f"let the broker delete records of {whose} for good: {'; '.join(found.values())}"
    settings.confirm(what, resource.name or "default")
    return told


async def _of_any_broker(admin: Admin) -> Configs:
    first = min(node.node_id for node in (await admin.describe_cluster()).nodes)
    resource = ConfigResource("broker", str(first))
    return (await admin.describe_configs([resource]))[resource]


def _own_source(resource: ConfigResource) -> str:
    """Where a value comes from that was set for this very one."""
    if resource.kind == "broker":
        return "dynamic broker" if resource.name else "dynamic default broker"
    return {"topic": "dynamic topic", "group": "group"}.get(resource.kind, "client metrics")


async def _check_known(admin: Admin, resource: ConfigResource, entries: Configs, changes: dict[str, Any]) -> None:
    """Raises the broker's error, with the nearest name, for a key that there is not. A broker lists only what is set of keys
    that it does not honour, and for all brokers only what is set: it is asked whether it would take such a key."""
    known = set(entries)
    if resource.kind == "broker":
        for key in changes.keys() - known:
            if changes[key] is None and not await _is_unknown_to_broker(admin, resource, key):
                known.add(key)
        if unknown := [key for key in changes if key not in known and changes[key] is None]:
            check_known("broker config name", unknown, {*known, *await admin.describe_broker_configs()}, _INVALID)
    elif entries:  # a subscription that there is not has none
        check_known(f"{resource.kind} config name", changes, known, ErrorCode.INVALID_CONFIG)


async def _is_unknown_to_broker(admin: Admin, resource: ConfigResource, key: str) -> bool:
    try:
        await admin.alter_configs({resource: {key: ""}}, validate_only=True)
    except KafkaError as error:
        return "Unknown broker config name" in (error.message or "")
    return False


async def _alter(settings: Settings, resource: ConfigResource, changes: dict[str, Any]) -> None:
    consequences: dict[str, str] = {}
    async with open_admin(settings) as admin:
        entries: Configs = {}
        if None in changes.values() or resource.kind in ("topic", "broker"):
            entries = (await admin.describe_configs([resource]))[resource]
            await _check_known(admin, resource, entries, changes)
        if resource.kind in ("topic", "broker"):
            consequences = await _confirm_shrinking(settings, admin, resource, entries, changes)
        await admin.alter_configs({resource: changes}, validate_only=settings.dry_run)
    own = {key for key, entry in entries.items() if entry.source == _own_source(resource)}
    rows = [
        {"key": key, "value": value, "result": outcome_of(value, was_set=key in own, is_dry_run=settings.dry_run)}
        | {"consequence": consequences.get(key)}
        for key, value in changes.items()
    ]
    settings.out.rows(columns("key", "value", "result"), rows)
