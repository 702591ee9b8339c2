"""`oncelog topics`: list, describe, create, delete, add partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Group, Settings
from oncelog.cli.durations import record_time_from_text
from oncelog.cli.hidden import TOPICS, none_that_may_be_seen, nothing_seen
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.outcomes import each_of, found_of, name_missing, pairs_of, refused
from oncelog.cli.output import EXIT_FAILURE, Column, columns, counted, error_name
from oncelog.cli.partitions import partitions_of
from oncelog.cli.unreadable import name_offline
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.configs import ConfigResource
from oncelog.client.admin.topics import NewTopic
from oncelog.client.cluster.each_leader import Unreadable
from oncelog.client.cluster.offset_lookup import FoundOffset
from oncelog.client.cluster.view import TopicView
from oncelog.errors import ClusterAuthorization, ErrorCode, KafkaError, TopicAuthorization, TopicExists, error_for
from oncelog.types import TopicPartition

OWN_FEATURES = "oncelog."
POLICY = "cleanup.policy"


@click.group(cls=Group)
def topics() -> None:
    """List, describe, create, delete topics; add partitions."""


@topics.command("list", watchable=True)
@click.option("--internal", is_flag=True, help="Internal topics, too.")
@click.pass_obj
async def list_topics(settings: Settings, internal: bool) -> None:
    """All topics. A partition that is offline is named on stderr, also one of an internal topic."""
    async with open_admin(settings) as admin:
        everything = await admin.list_topics(include_internal=True)
        found = {name: topic for name, topic in everything.items() if internal or not topic.is_internal}
        is_hidden = not found and await nothing_seen(admin, settings, TOPICS)
    rows = [
        {
            "topic": topic.name,
            "partitions": len(topic.partitions),
            "replication": max((len(p.replica_nodes) for p in topic.partitions.values()), default=0),
            "internal": topic.is_internal,
            "topic_id": topic.topic_id.hex(),
            "offline": [number for number, each in sorted(topic.partitions.items()) if each.is_offline],
        }
        for topic in found.values()
    ]
    offline = Column("offline", wide=True, show=_numbered if settings.output == "wide" else str)
    settings.out.rows(
        [*columns("topic", "partitions", "replication", "internal", wide=["topic_id"]), offline],
        rows,
        empty=none_that_may_be_seen("there are no topics", is_hidden),
    )
    name_offline(settings, everything.values())  # without a coordinator groups and transactions stand still


def _numbered(value: Any) -> str:
    """`#0,#2`: the numbers of partitions, which are no count of them."""
    return ",".join(f"#{number}" for number in str(value).split(","))


@topics.command("describe", watchable=True)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.pass_context
async def describe_topics(ctx: click.Context, names: tuple[str, ...]) -> None:
    """Partitions, their leaders, and how far they can be read.

    \b
    LOG-START           first offset that is kept
    LAST-STABLE-OFFSET  read_committed readers get what lies below: everything above is after the first open transaction
    HIGH-WATERMARK      read_uncommitted readers get what lies below
    BLOCKED             offsets between the two: held back by open transactions (`oncelog transactions explain`)
    A partition that cannot be looked at has none of them: it is named with the reason, and the exit status is 1.
    """
    settings = ctx.ensure_object(Settings)
    unreadable: dict[TopicPartition, KafkaError] = {}
    async with open_admin(settings) as admin:
        found, missing = await found_of(names, admin.describe_topics)
        where = [TopicPartition(t.name, index) for t in found.values() for index in sorted(t.partitions)]
        bounds = await partition_bounds(admin, where, unreadable=unreadable)
    rows = []
    for topic, partition in where:
        view, at = found[topic].partitions[partition], TopicPartition(topic, partition)
        row = {"topic": topic, "partition": partition, "leader": view.leader_id, "leader_epoch": view.leader_epoch}
        row |= {"replicas": list(view.replica_nodes), "in_sync": list(view.isr_nodes)}
        row["topic_id"] = found[topic].topic_id.hex()
        row["state"] = "unreadable" if at in unreadable else "offline" if view.is_offline else "ok"
        rows.append({**row, **bounds.get(at, NO_BOUNDS)})
    if settings.output not in ("table", "wide"):  # a program reads what is printed, and no note beside it
        nothing = dict.fromkeys(("partition", "leader", "leader_epoch", "replicas", "in_sync", "topic_id"))
        rows += [{"topic": name, **nothing, "state": error_name(error), **NO_BOUNDS} for name, error in missing.items()]
    shown = ["topic", "partition", "leader", "log_start", "last_stable_offset", "high_watermark", "blocked"]
    settings.out.rows(columns(*shown, wide=["leader_epoch", "replicas", "in_sync", "topic_id", "state"]), rows)
    name_offline(settings, found.values(), unreadable)
    name_missing(settings, missing)
    if unreadable:
        ctx.exit(EXIT_FAILURE)


NO_BOUNDS: dict[str, Any] = {"log_start": None, "last_stable_offset": None, "high_watermark": None, "blocked": None}


async def partition_bounds(
    admin: Admin, partitions: list[TopicPartition], *, unreadable: Unreadable | None = None
) -> dict[TopicPartition, dict[str, int]]:
    """First kept offset, last stable offset, high watermark, and how many offsets lie between the latter two.

    `unreadable` takes the errors of partitions that cannot be asked; these are left out.
    """

    async def ask(at: str, isolation_level: str = "read_uncommitted") -> dict[TopicPartition, FoundOffset]:
        wanted = {tp: at for tp in partitions if tp not in (unreadable or ())}
        return await admin.list_offsets(wanted, isolation_level=isolation_level, unreadable=unreadable)

    starts = await ask("earliest")
    stable = await ask("latest", "read_committed")
    ends = await ask("latest")
    return {
        where: {
            "log_start": starts[where].offset,
            "last_stable_offset": stable[where].offset,
            "high_watermark": ends[where].offset,
            # Asked one after the other: what was written in between must not look blocked below zero.
            "blocked": max(0, ends[where].offset - stable[where].offset),
        }
        for where in partitions
        if where in starts and where in stable and where in ends
    }


@topics.command("create", changes=True)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.option("-p", "--partitions", type=WholeNumberRange(1), default=None, help="How many [default: the broker's].")
@click.option("-r", "--replication-factor", type=WholeNumberRange(1), default=None, help="[default: the broker's]")
@click.option("-c", "--config", "configs", multiple=True, metavar="KEY=VALUE", help="A setting of the topic.")
@click.option("--if-not-exists", is_flag=True, help="A topic that exists is fine.")
@click.pass_obj
async def create_topics(
    settings: Settings,
    names: tuple[str, ...],
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Create topics. With --dry-run the broker checks and creates nothing."""
    values = pairs_of(configs, "settings")
    async with open_admin(settings) as admin:
        known = await admin.list_topics(include_internal=True) if if_not_exists else {}

        async def create(name: str) -> str | None:
            if name in known:
                return "exists already"
            topic = NewTopic(name, partitions or -1, replication_factor or -1, values)
            try:
                await admin.create_topics([topic], validate_only=settings.dry_run)
            except TopicExists:  # somebody else made it meanwhile, or it is named twice
                if not if_not_exists:
                    raise
                return "exists already"
            return None

        await each_of(settings, "topic", names, "would be created" if settings.dry_run else "created", create)


@topics.command("delete", changes=True)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC...")
@click.pass_obj
async def delete_topics(settings: Settings, names: tuple[str, ...]) -> None:
    """Delete topics with all their records."""
    async with open_admin(settings) as admin:
        found = await admin.describe_topics(names)
        counts = ", ".join(f"{topic.name} ({counted(len(topic.partitions), 'partition')})" for topic in found.values())
        if settings.dry_run:
            disabled = await _deletion_is_disabled(admin)
            check = partial(_check_deletable, admin, found, disabled)
            await refused(settings, "topic", names, "would be deleted", check)
        plan = [{"topic": name, "result": "would be deleted", "error": None, "message": None} for name in names]
        if settings.confirm(f"delete {counts}, with all records", names[0], plan=plan):
            await each_of(settings, "topic", names, "deleted", lambda name: admin.delete_topics([name]))


async def _deletion_is_disabled(admin: Admin) -> bool:
    """Whether no topic can be deleted, as far as one may see it."""
    try:
        return (await admin.describe_broker_configs()).get("delete.topic.enable") == "false"
    except ClusterAuthorization:
        return False


async def _check_deletable(admin: Admin, found: Mapping[str, TopicView], disabled: bool, name: str) -> None:
    """What a broker refuses to delete; its internal topics an oncelog only. Raises TopicDeletionDisabled, InvalidRequest."""
    topic = found[name]
    if disabled:
        raise error_for(ErrorCode.TOPIC_DELETION_DISABLED, f"topic {name!r}: Topic deletion is disabled.")
    if topic.is_internal:
        features = await admin.describe_features()
        if any(name.startswith(OWN_FEATURES) for name in features.supported):
            text = f"topic {topic.name!r}: The internal topic {topic.name} cannot be deleted."
            raise error_for(ErrorCode.INVALID_REQUEST, text)


@topics.command("delete-records", changes=True)
@click.argument("names", nargs=-1, required=True, metavar="TOPIC[:P[,P]]...")
@click.option("--before", "offset", type=WholeNumberRange(0), help="What lies before this offset, in each partition.")
@click.option(
    "--before-time", "time_text", metavar="ISO", help="What lies before the first record at this moment (UTC) or later."
)
@click.option("--all", "is_all", is_flag=True, help="All that is decided.")
@click.pass_obj
async def delete_records(
    settings: Settings, names: tuple[str, ...], offset: int | None, time_text: str | None, is_all: bool
) -> None:
    """Delete records from the beginning of partitions, for good.

    Nothing of an open transaction: at most up to the last stable offset. A compacted topic refuses.
    """
    if sum((offset is not None, time_text is not None, is_all)) != 1:
        raise click.UsageError("say up to where: one of --before OFFSET, --before-time ISO, --all")
    async with open_admin(settings) as admin:
        where = await partitions_of(admin, names)
        bounds = await partition_bounds(admin, where)
        found = {} if time_text is None else await admin.list_offsets(dict.fromkeys(where, _moment(time_text)))
        until = {at: _until(bounds[at], offset, found.get(at)) for at in where}
        starts = {at: bounds[at]["log_start"] for at in where}
        deleted = {at: end for at, end in until.items() if end > starts[at]}
        count = counted(sum(end - starts[at] for at, end in deleted.items()), "offset")
        what = f"delete {count} at the beginning of {counted(len(deleted), 'partition')}, for good"
        now: dict[TopicPartition, int] = {}
        if settings.dry_run:
            await _check_records_deletable(admin, deleted)
        if deleted and settings.confirm(what, where[0].topic):
            now = await admin.delete_records(deleted)
    rows = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "log_start": starts[at],
            "before": until[at],
            "offsets": until[at] - starts[at],
            "result": now.get(at),
        }
        for at in where
    ]
    shown = [*columns("topic", "partition", "log_start", "before", "offsets"), Column("result", "LOG-START-NOW")]
    settings.out.rows(shown, rows)


async def _check_records_deletable(admin: Admin, deleted: Iterable[TopicPartition]) -> None:
    """What every broker refuses, as far as one may see it. Raises InvalidTopic, PolicyViolation."""
    first = {at.topic: at for at in sorted(deleted, reverse=True)}
    views = await admin.describe_topics(first) if first else {}
    for name, at in first.items():
        if views[name].is_internal:
            raise error_for(ErrorCode.INVALID_TOPIC_EXCEPTION, f"delete records of {at}")
        try:
            found = await admin.describe_configs([("topic", name)], keys=[POLICY])
        except TopicAuthorization:
            continue
        entry = found[ConfigResource("topic", name)].get(POLICY)
        ways = {way.strip() for way in ((entry.value if entry else None) or "").split(",")}
        if "compact" in ways and "delete" not in ways:
            raise error_for(ErrorCode.POLICY_VIOLATION, f"delete records of {at}")


def _until(bounds: dict[str, int], offset: int | None, found: FoundOffset | None) -> int:
    """Exclusive: what is asked for, and never into what may still be undecided."""
    start, stable = bounds["log_start"], bounds["last_stable_offset"]
    wanted = stable if offset is None else offset
    if found is not None and found.offset >= 0:
        wanted = found.offset
    return max(start, min(wanted, stable))


def _moment(text: str) -> int:
    try:
        return record_time_from_text(text)
    except ValueError as error:
        raise click.UsageError(f"--before-time {text}: {error}") from error


@topics.command("add-partitions", changes=True)
@click.argument("name", metavar="TOPIC")
@click.option("--total", type=WholeNumberRange(1), required=True, help="How many partitions there shall be.")
@click.pass_obj
async def add_partitions(settings: Settings, name: str, total: int) -> None:
    """Raise a topic's partition count. Keys then go to other partitions than before."""

    async def add(topic: str) -> Any:
        await admin.create_partitions({topic: total}, validate_only=settings.dry_run)

    async with open_admin(settings) as admin:
        # One that does not exist would be asked for again until --timeout.
        count = len((await admin.describe_topics([name]))[name].partitions)
        what = f"raise {name} from {counted(count, 'partition')} to {total}, for good: keys go to other partitions than before"
        if total > count:
            settings.confirm(what, name)
        await each_of(settings, "topic", [name], f"{'would have' if settings.dry_run else 'has'} {total}", add)
