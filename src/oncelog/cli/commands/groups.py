"""`oncelog groups`: consumer groups, their positions and lags, and how to move or delete them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

import click

from oncelog.cli.clients import open_admin, open_admin_that_looks
from oncelog.cli.command import Group, Settings
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.durations import DURATION, record_time_from_text
from oncelog.cli.hidden import GROUPS, none_that_may_be_seen, nothing_seen
from oncelog.cli.numbers import WholeNumber, WholeNumberRange
from oncelog.cli.outcomes import each_of, found_of, found_of_each, name_missing, refused
from oncelog.cli.output import EXIT_FAILURE, Failed, columns, counted
from oncelog.cli.partitions import partitions_of
from oncelog.cli.positions_file import positions_of
from oncelog.cli.transactions.group_scope import SHARE, GroupScope, describe_group, group_scope, listed
from oncelog.cli.unreadable import coordinators_away, name_offline, name_unreachable, none_of_those_asked
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.groups import STATES, GroupDescription
from oncelog.client.admin.topics import OFFSETS_TOPIC
from oncelog.client.cluster.each_leader import Unreadable
from oncelog.client.cluster.view import TopicView
from oncelog.client.rights import next_step
from oncelog.core.migration.progress import is_of_migration
from oncelog.errors import ErrorCode, KafkaError, error_for
from oncelog.host.clock import RealClock
from oncelog.types import Node, TopicPartition

EMPTY_STATES = ("Empty", "Dead")


@click.group(cls=Group)
def groups() -> None:
    """Groups: positions, lag under transactions, reset, delete."""


@groups.command("list", watchable=True)
@click.option("--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False), help="Only these.")
@click.pass_context
async def list_groups(ctx: click.Context, states: tuple[str, ...]) -> None:
    """All groups."""
    settings = ctx.ensure_object(Settings)
    unreachable: dict[Node, KafkaError] = {}
    async with open_admin_that_looks(settings) as admin:
        found = await admin.list_groups(states=states, unreachable=unreachable)
        away = await coordinators_away(admin, settings, OFFSETS_TOPIC, "groups", unreachable)
        everything = partial(admin.list_groups, unreachable={}) if states else None
        is_hidden = not found and not away and await nothing_seen(admin, settings, GROUPS, everything)
    rows = [
        {
            "group": group.group_id,
            "state": group.state,
            "type": group.group_type,
            "protocol": group.protocol_type,
            "coordinator": group.coordinator_id,
        }
        for group in found
    ]
    settings.out.rows(
        columns("group", "state", "type", "protocol", "coordinator"),
        rows,
        empty=none_that_may_be_seen(none_of_those_asked("there are no groups", away, "coordinators"), is_hidden),
    )
    if away:
        ctx.exit(EXIT_FAILURE)


@groups.command("describe", watchable=True)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.option("--members", is_flag=True, help="The members instead of the positions.")
@click.pass_context
async def describe_groups(ctx: click.Context, names: tuple[str, ...], members: bool) -> None:
    """Positions, and three lags that stay right under transactions.

    \b
    LAG      offsets a read_committed reader can read now: position to last stable offset
    BLOCKED  offsets it cannot: last stable offset to high watermark, held back by open transactions
    RAW-LAG  position to high watermark: what tools that know of no transactions show
    Markers and aborted records have offsets, too: a lag counts offsets, not records. A share group's position is the
    first offset that is not done with, as it is stored (it may stand still for a while), its lag the offsets that are not,
    up to the end.
    """
    settings = ctx.ensure_object(Settings)
    unreadable: dict[TopicPartition, KafkaError] = {}
    async with open_admin_that_looks(settings) as admin:
        if members:
            unreachable: dict[Node, KafkaError] = {}
            found, missing = await found_of(names, partial(admin.describe_groups, unreachable=unreachable))
            rows = [row for group in found.values() for row in _member_rows(group)]
            shown = columns(
                "group", "member", "client", "host", "partitions", wide=["standby", "instance", "state", "assignor"]
            )
            settings.out.rows(shown, rows, empty=none_of_those_asked("no members", unreachable))
            name_unreachable(settings, "groups", unreachable)
            name_missing(settings, missing)
            if unreachable:
                ctx.exit(EXIT_FAILURE)
            return
        existing = await admin.list_topics(include_internal=True)
        by_name, absent = await found_of_each(names, lambda name: lag_rows(settings, admin, name, existing, unreadable))
    looked_at = list(by_name.values())
    rows = [row for lags, _ in looked_at for row in lags]
    shown = columns(
        "group",
        "topic",
        "partition",
        "position",
        "lag",
        "blocked",
        "raw_lag",
        "client",
        wide=["last_stable_offset", "high_watermark", "member", "metadata", "leader_epoch", "pending"],
    )
    settings.out.rows(shown, rows, empty="no positions are stored")
    for note in dict.fromkeys(note for _, notes in looked_at for note in notes):
        settings.out.note(note)
    blocked = next((row for row in rows if row["blocked"]), None)
    if blocked is not None:
        place = ("--topic", blocked["topic"], "--partition", blocked["partition"])
        way = settings.repair("transactions", "explain", *place)
        settings.out.note(f"hint: readers wait for open transactions: {way}")
    name_offline(
        settings, existing.values(), unreadable, within=[TopicPartition(r["topic"], r["partition"]) for r in rows]
    )
    name_missing(settings, absent, "group")
    if unreadable:
        ctx.exit(EXIT_FAILURE)


def _member_rows(group: GroupDescription) -> list[dict[str, Any]]:
    return [
        {
            "group": group.group_id,
            "member": member.member_id,
            "client": member.client_id,
            "host": member.client_host,
            "partitions": [str(where) for where in member.partitions],
            "standby": [str(where) for where in member.standby_partitions],
            "instance": member.group_instance_id,
            "state": group.state,
            "assignor": group.protocol_name,
        }
        for member in group.members
    ]


async def lag_rows(
    settings: Settings, admin: Admin, name: str, existing: Mapping[str, TopicView], unreadable: Unreadable
) -> tuple[list[dict[str, Any]], list[str]]:
    """A row for each partition that the group has a position of or reads, and what to say beside them."""
    scope = await group_scope(admin, name, existing)
    if scope.is_share:
        return await _share_rows(admin, name), []
    bounds = await partition_bounds(admin, list(scope.partitions), unreadable=unreadable)
    return rows_of_scope(settings, scope, bounds)


async def _share_rows(admin: Admin, name: str) -> list[dict[str, Any]]:
    """Of a share group: its position is the first offset that is not done with, its lag counts those that are not."""
    empty = dict.fromkeys(("blocked", "raw_lag", "client", "member", "metadata", "leader_epoch", "pending"))
    return [
        {"group": name, "topic": where.topic, "partition": where.partition, **empty}
        | {"position": found.start_offset, "lag": found.lag}
        for where, found in sorted((await admin.list_share_group_offsets(name)).items())
    ]


def rows_of_scope(
    settings: Settings, scope: GroupScope, bounds: Mapping[TopicPartition, dict[str, int]]
) -> tuple[list[dict[str, Any]], list[str]]:
    """As `lag_rows`, of what is known already."""
    members = scope.group.members if scope.group else ()
    readers = {where: member for member in members for where in member.partitions}
    rows = []
    for where in sorted({*scope.positions, *scope.partitions}):
        at, reader = scope.positions.get(where), readers.get(where)
        row: dict[str, Any] = {"group": scope.name, "topic": where.topic, "partition": where.partition}
        row |= {"position": at.offset if at else None, "lag": None, "blocked": None, "raw_lag": None}
        row |= {"client": reader.client_id if reader else None, "member": reader.member_id if reader else None}
        row |= {"metadata": at.metadata if at else None, "leader_epoch": at.leader_epoch if at else None}
        row |= {"pending": where in scope.pending}
        if where in bounds:
            row |= _lags(bounds[where], at.offset if at else None)
        rows.append(row)
    return rows, [*scope.notes, *_pending_hint(settings, scope)]


def _lags(bounds: dict[str, int], position: int | None) -> dict[str, int | None]:
    """Without a position no lag is known, but what is blocked is, wherever the reader begins."""
    stable, end = bounds["last_stable_offset"], bounds["high_watermark"]
    found: dict[str, int | None] = {"last_stable_offset": stable, "high_watermark": end}
    if position is None:
        return found | {"blocked": bounds["blocked"]}
    return found | {
        "lag": max(0, stable - position),
        "blocked": max(0, end - max(stable, position)),
        "raw_lag": max(0, end - position),
    }


def _pending_hint(settings: Settings, scope: GroupScope) -> list[str]:
    if not scope.pending:
        return []
    text = f"the position of {listed(scope.pending)} is pending in a transaction, and members that start wait for it"
    return [f"hint: {text}: {settings.repair('transactions', 'explain', '--group', scope.name)}"]


@groups.command("delete", changes=True)
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@click.pass_obj
async def delete_groups(settings: Settings, names: tuple[str, ...]) -> None:
    """Delete groups without members, with their positions."""
    async with open_admin_that_looks(settings) as admin:
        if settings.dry_run:
            await refused(settings, "group", names, "would be deleted", partial(_check_deletable, admin))
        plan = [{"group": name, "result": "would be deleted", "error": None, "message": None} for name in names]
        if settings.confirm(f"delete {', '.join(names)}, with all stored positions", names[0], plan=plan):
            await each_of(settings, "group", names, "deleted", lambda name: admin.delete_groups([name]))


async def _check_deletable(admin: Admin, name: str) -> None:
    """What a broker refuses to delete. Raises GroupIdNotFound, NonEmptyGroup."""
    group = await describe_group(admin, name)
    if (group is None or group.state == "Dead") and not await admin.list_consumer_group_offsets(name):
        raise error_for(ErrorCode.GROUP_ID_NOT_FOUND, f"group {name!r}{next_step(ErrorCode.GROUP_ID_NOT_FOUND)}")
    if group is not None and group.state not in EMPTY_STATES:
        has = f"has {counted(len(group.members), 'member')}{next_step(ErrorCode.NON_EMPTY_GROUP)}"
        raise error_for(ErrorCode.NON_EMPTY_GROUP, f"group {name!r} {has}")


async def _check_unread(admin: Admin, name: str, topics: Collection[str]) -> None:
    """A broker keeps the positions of what members read. Raises GroupSubscribedToTopic."""
    group = await describe_group(admin, name)
    read = sorted({at.topic for each in (group.members if group else ()) for at in each.partitions} & set(topics))
    if read:
        next_ = next_step(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
        raise error_for(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, f"group {name!r} reads {', '.join(read)}{next_}")


@groups.command("delete-offsets", changes=True)
@click.argument("name", metavar="GROUP")
@click.option("--topic", "topic_texts", multiple=True, required=True, metavar="TOPIC[:P[,P]]", help="Of which.")
@click.pass_obj
async def delete_offsets(settings: Settings, name: str, topic_texts: tuple[str, ...]) -> None:
    """Delete stored positions of a group that does not read these topics now.

    Whoever reads them for the group next begins where its auto.offset.reset says.
    """
    async with open_admin(settings) as admin:
        _refuse_migrations(name)
        is_share = await is_share_group(admin, name)
        before = await _positions_before(admin, name, is_share=is_share)
        wanted = [where for where in await partitions_of(admin, topic_texts) if where in before]
        if not wanted:
            raise Failed(f"group {name!r} has no position there", f"`{settings.repair('groups', 'describe', name)}`")
        rows = [{"group": name, "topic": w.topic, "partition": w.partition, "position": before[w]} for w in wanted]
        topics = {where.topic for where in wanted}
        if is_share:
            await _refuse_members(admin, name)
            if {where for where in before if where.topic in topics} - {*wanted}:
                raise Failed(f"share group {name!r} forgets whole topics", "name them without partitions")
        elif settings.dry_run:
            await _check_unread(admin, name, topics)
        if settings.confirm(f"delete {counted(len(rows), 'position')} of group {name}", name):
            if is_share:
                await admin.delete_share_group_offsets(name, sorted(topics))
            else:
                await admin.delete_consumer_group_offsets(name, wanted)
    settings.out.rows(columns("group", "topic", "partition", "position"), rows)


@groups.command("reset-offsets", changes=True)
@click.argument("name", metavar="GROUP")
@click.option("--topic", "topic_texts", multiple=True, metavar="TOPIC[:P[,P]]", help="Which; all its own without.")
@click.option("--to-earliest", is_flag=True, help="To the first record.")
@click.option("--to-latest", is_flag=True, help="Behind the last record that can be read committed.")
@click.option("--to-offset", type=WholeNumberRange(0), help="To this offset.")
@click.option("--to-time", metavar="ISO", help="To the first record at or after this moment (UTC).")
@click.option("--by-duration", type=DURATION, help="To the first record of the last 36h, 7d ...")
@click.option("--to-group", metavar="OTHER", help="To where another group stands.")
@click.option(
    "--to-file",
    metavar="FILE",
    help="To what a file says: TOPIC,PARTITION,OFFSET lines, or rows of `groups describe -o json`.",
)
@click.option("--shift-by", type=WholeNumber(), help="This many offsets forward, or back where negative.")
@click.pass_obj
async def reset_offsets(settings: Settings, /, name: str, topic_texts: tuple[str, ...], **targets: Any) -> None:
    """Move a group's positions. --dry-run shows where to; the group must have no members."""
    given = {key: value for key, value in targets.items() if value is not None and value is not False}
    if len(given) != 1:
        ways = "--to-earliest, --to-latest, --to-offset, --to-time, --by-duration, --to-group, --to-file, --shift-by"
        raise click.UsageError(f"say where to: one of {ways}")
    (target, value), out = next(iter(given.items())), settings.out
    async with open_admin(settings) as admin:
        rows, after = await planned_reset(admin, name, topic_texts, target, value)
        if settings.confirm(f"move {counted(len(rows), 'position')} of group {name}", name):
            if await is_share_group(admin, name):
                await admin.alter_share_group_offsets(name, after)
            else:
                await admin.alter_consumer_group_offsets(name, after)
    out.rows(columns("group", "topic", "partition", "from", "to"), rows)


async def planned_reset(
    admin: Admin, name: str, topic_texts: tuple[str, ...], target: str, value: Any
) -> tuple[list[dict[str, Any]], dict[TopicPartition, int]]:
    """What a reset would do, as rows, and the positions to store. Raises Failed where it must not be done."""
    _refuse_migrations(name)
    before = await _positions_before(admin, name, is_share=await is_share_group(admin, name))
    if target in ("to_group", "to_file"):
        target, value = "positions", await _named(admin, target, value)
    own = sorted(value) if target == "positions" else sorted(before)
    wanted = await partitions_of(admin, topic_texts) if topic_texts else own
    if not wanted:
        raise Failed(f"group {name!r} has no positions", "name topics with --topic")
    after = await _targets(admin, wanted, before, target, value)
    rows = [
        {"group": name, "topic": w.topic, "partition": w.partition, "from": before.get(w), "to": after[w]}
        for w in wanted
    ]
    await _refuse_members(admin, name)
    return rows, after


async def is_share_group(admin: Admin, name: str) -> bool:
    """Whether its positions are those of records that are shared, and not of a reader."""
    group = await describe_group(admin, name)
    return group is not None and group.group_type == SHARE


async def _positions_before(admin: Admin, name: str, *, is_share: bool) -> dict[TopicPartition, int]:
    if not is_share:
        return {where: at.offset for where, at in (await admin.list_consumer_group_offsets(name)).items()}
    found = await admin.list_share_group_offsets(name)
    return {where: at.start_offset for where, at in found.items() if at.start_offset is not None}


async def _refuse_members(admin: Admin, name: str) -> None:
    group = await describe_group(admin, name)
    if group is not None and group.state not in EMPTY_STATES:
        raise Failed(
            f"group {name!r} is {group.state}: it has {counted(len(group.members), 'member')}", "stop them first"
        )


def _refuse_migrations(name: str) -> None:
    if is_of_migration(name):
        raise Failed(
            f"group {name!r} is where `oncelog migrate` keeps how far it has copied: its positions are offsets of the source",
            "to go on, run the same `oncelog migrate` again; to begin anew, delete the copied topics and this group",
        )


async def _named(admin: Admin, target: str, value: str) -> dict[TopicPartition, int]:
    """Positions of another group, or of a file. Raises Failed where there are none, or of partitions that there are not."""
    if target == "to_group":
        found = await _positions_before(admin, value, is_share=await is_share_group(admin, value))
        whose = f"group {value!r}"
    else:
        found, whose = positions_of(value), value
    if not found:
        raise Failed(f"{whose} has no positions")
    topics = await admin.describe_topics(dict.fromkeys(where.topic for where in found))
    for where in found:
        if where.partition not in topics[where.topic].partitions:
            raise Failed(f"{whose} has a position of {where}, and there is no such partition")
    return found


async def _targets(
    admin: Admin, wanted: list[TopicPartition], before: dict[TopicPartition, int], target: str, value: Any
) -> dict[TopicPartition, int]:
    bounds = await partition_bounds(admin, wanted)
    if target == "to_earliest":
        return {where: bounds[where]["log_start"] for where in wanted}
    if target == "to_latest":
        return {where: bounds[where]["last_stable_offset"] for where in wanted}
    if target == "to_time":
        try:
            moment = record_time_from_text(value)
        except (ValueError, OverflowError) as error:
            raise click.UsageError(f"--to-time {value}: {error}") from error
        target, value = "to_moment", moment
    if target == "by_duration":
        target, value = "to_moment", max(RealClock().now_ms() - value, 0)
    if target == "to_moment":
        found = await admin.list_offsets(dict.fromkeys(wanted, value))
        ends = {where: bounds[where]["last_stable_offset"] for where in wanted}
        return {where: found[where].offset if found[where].offset >= 0 else ends[where] for where in wanted}
    offsets = dict.fromkeys(wanted, value) if target == "to_offset" else {}
    if target == "positions":
        missing = [str(where) for where in wanted if where not in value]
        if missing:
            raise Failed(f"it has no position of {', '.join(missing)}")
        offsets = {where: value[where] for where in wanted}
    if target == "shift_by":
        missing = [str(where) for where in wanted if where not in before]
        if missing:
            raise Failed(f"no position to shift from: {', '.join(missing)}")
        offsets = {where: before[where] + value for where in wanted}
    return {
        where: min(max(offset, bounds[where]["log_start"]), bounds[where]["high_watermark"])
        for where, offset in offsets.items()
    }
