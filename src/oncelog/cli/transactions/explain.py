"""`oncelog transactions explain`: who holds a partition's last stable offset, why, and what to do about it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import click

from oncelog.cli.clients import open_admin_that_looks, patient
from oncelog.cli.command import Command, Name, Settings
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.durations import DURATION, duration_text
from oncelog.cli.hidden import OWNERS, TOPICS, not_answered, nothing_seen
from oncelog.cli.numbers import WholeNumberRange
from oncelog.cli.output import EXIT_FAILURE, EXIT_FOUND, Failed, counted, error_name, printable
from oncelog.cli.transactions.group_scope import GroupScope, group_scope, listed
from oncelog.cli.transactions.verdicts import Verdict, verdict_of
from oncelog.cli.unreadable import WAY_ON, WHY_OFFLINE, name_unreachable, why
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.owners import hanging_of, owners_of, seen
from oncelog.client.admin.session import Unreachable
from oncelog.client.admin.transaction_listing import HangingTransaction, ProducerDescription, TransactionDescription
from oncelog.client.cluster.each_leader import Unreadable
from oncelog.client.cluster.view import TopicView, offline_partitions
from oncelog.errors import ErrorCode, KafkaError, Network, RequestTimedOut, error_for
from oncelog.host.clock import RealClock
from oncelog.lazy_dataclass import dataclass
from oncelog.types import Node, TopicPartition

OFFLINE_ADVICE = f"read the broker's log: {WAY_ON}; `oncelog dump-log` shows the damage"
SILENT_ADVICE = "see whether its broker runs, and can be reached from here; more time with --timeout"
ROW_KEYS = (
    *("topic", "partition", "last_stable_offset", "high_watermark", "blocked", "producer_id", "producer_epoch"),
    *("start_offset", "last_timestamp_ms", "quiet_ms", "transactional_id", "coordinator", "state", "duration_ms"),
    *("open_behind", "verdict", "why", "advice", "repair", "group", "pending"),
)


@dataclass(frozen=True)
class Holder:
    """The transaction that holds a partition's last stable offset."""

    where: TopicPartition
    bounds: dict[str, int]
    producer: ProducerDescription
    behind: list[ProducerDescription]
    owner: TransactionDescription | None
    hanging: HangingTransaction | None
    now_ms: int
    pending_group: GroupScope | None = None  # the group whose positions wait in this transaction
    pending_count: int = 1  # or in one of so many
    hidden: tuple[str, ...] = ()  # why it may have an owner that we are not shown

    @property
    def age_ms(self) -> int:
        """For how long it has been open, as its coordinator says; of a hanging one: since its last record."""
        known = self.owner.duration_ms if self.owner is not None and self.hanging is None else None
        return known if known is not None else max(0, self.now_ms - self.producer.last_timestamp_ms)


@click.command("explain", cls=Command, watchable=True)
@click.option("--topic", help="Only this topic [default: all, internal ones too].")
@click.option("--partition", type=WholeNumberRange(0), help="Only this partition; needs --topic.")
@click.option("--group", help="Only what this consumer group reads, and its pending offset commits.")
@click.option("--older-than", "older_than_ms", type=DURATION, default=0, help="Only what has been open for longer.")
@click.option("--exit-code", is_flag=True, help="Exit status 3 when readers are held back anywhere.")
@click.pass_context
async def explain(
    ctx: click.Context,
    topic: str | None,
    partition: int | None,
    group: str | None,
    older_than_ms: int,
    exit_code: bool,
) -> None:
    """Who holds back readers of committed records: which transaction, whose, why, and what to do.

    A read_committed reader stops at a partition's last stable offset: where its first open transaction begins.
    """
    settings = ctx.ensure_object(Settings)
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    unreachable: dict[Node, KafkaError] = {}
    async with open_admin_that_looks(patient(settings)) as admin:
        topics = await (admin.describe_topics([topic]) if topic else admin.list_topics(include_internal=True))
        where = _partitions(topics, partition)
        scope = None
        if group is not None:
            scope = await group_scope(admin, group, topics)
            where = [at for at in where if at in scope.partitions]
        unreadable: dict[TopicPartition, KafkaError] = {}
        holders = await _pending(admin, scope) + await _holders(admin, where, unreadable, unreachable)
        young = [holder for holder in holders if holder.age_ms <= older_than_ms and older_than_ms > 0]
        holders = [holder for holder in holders if holder not in young]
        looked_at = set(where)
        offline = sorted({*unreadable, *(at for at in offline_partitions(topics.values()) if at in looked_at)})
        is_blind = not topics and await nothing_seen(admin, settings, TOPICS)
    if scope is not None:
        _note_scope(settings, scope, where)
    with settings.out.stream() as emit:
        for holder in holders:
            verdict = judge(settings, holder)
            emit(_row(holder, verdict), _text(holder, verdict))
        for at in offline:
            emit(_offline_row(at, unreadable.get(at)), _offline_text(at, unreadable.get(at)))
    name_unreachable(settings, "transactional ids", unreachable)
    silent = [] if unreachable else list(dict.fromkeys(why for each in holders for why in not_answered(each.hidden)))
    for reason in silent:
        settings.out.note(f"error: {OWNERS} could not be read: {reason}")
    if holders or offline:
        if exit_code:
            ctx.exit(EXIT_FOUND)
        if unreadable or unreachable or silent:
            ctx.exit(EXIT_FAILURE)
    elif young:
        text = f"nothing is held back for longer than {duration_text(older_than_ms)}"
        settings.out.note(f"{text}: {counted(len(young), 'open transaction')} on {counted(len(where), 'partition')}")
    elif is_blind:
        settings.out.note("nothing was looked at: there are no topics that you may see")
        if exit_code:
            ctx.exit(EXIT_FAILURE)
    else:
        settings.out.note(f"nothing is held back: no open transactions on {counted(len(where), 'partition')}")


def _partitions(topics: Mapping[str, TopicView], partition: int | None) -> list[TopicPartition]:
    where = [TopicPartition(view.name, number) for view in topics.values() for number in sorted(view.partitions)]
    if partition is not None:
        where = [at for at in where if at.partition == partition]
        if not where:
            text = f"topic {next(iter(topics))!r} has no partition {partition}"
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text)
    return where


def _note_scope(settings: Settings, scope: GroupScope, where: list[TopicPartition]) -> None:
    """Raises Failed where there is nothing to look at: that is no all-clear."""
    if not where:
        states = f"it is {scope.group.state}, " if scope.group is not None else ""
        members = counted(len(scope.group.members) if scope.group is not None else 0, "member")
        raise Failed(
            f"group {scope.name!r} reads nothing there: {states}{members}, no position is stored",
            f"look with {settings.repair('groups', 'describe', Name(scope.name))}",
        )
    for note in scope.notes:
        settings.out.note(note)


async def _pending(admin: Admin, scope: GroupScope | None) -> list[Holder]:
    """Every open transaction where the group's pending positions lie: no broker says which of them has them."""
    if scope is None or scope.offsets_partition is None:
        return []
    found = await _holders(admin, [scope.offsets_partition])
    if not found:
        raise Failed(
            f"the position of {listed(scope.pending)} is pending in a transaction that has just ended or is not on "
            f"{scope.offsets_partition}",
            "look again",
        )
    first = dataclasses.replace(found[0], behind=[], pending_group=scope, pending_count=1 + len(found[0].behind))
    rest = [dataclasses.replace(first, producer=producer, owner=None) for producer in found[0].behind]
    owners = await owners_of(admin, {each.producer.producer_id for each in rest})
    hanging = await hanging_of(admin, [first.where])
    hidden = (
        tuple(await admin.why_owners_may_be_hidden())
        if any(p.producer_id not in owners for p in found[0].behind)
        else ()
    )
    return [first] + [
        dataclasses.replace(
            each,
            owner=owners.get(each.producer.producer_id),
            hanging=hanging.get((each.where, each.producer.producer_id)),
            hidden=hidden,
        )
        for each in rest
    ]


async def _holders(
    admin: Admin,
    where: list[TopicPartition],
    unreadable: Unreadable | None = None,
    unreachable: Unreachable | None = None,
) -> list[Holder]:
    """The first open transaction of each partition that has one. `unreadable` takes what cannot be asked, `unreachable` the
    coordinators that do not answer: whatever has no owner then may be theirs."""
    producers = await admin.describe_producers(where, unreadable=unreadable)
    opened = {
        at: sorted((p for p in producers[at] if p.transaction_start_offset is not None), key=_start)
        for at in where
        if at in producers
    }
    bounds = await partition_bounds(admin, [at for at in opened if opened[at]], unreadable=unreadable)
    blocked = list(bounds)
    if not blocked:
        return []
    owners = await owners_of(admin, {opened[at][0].producer_id for at in blocked}, unreachable=unreachable)
    if unreachable:
        hanging, hidden = {}, tuple(f"broker {node.node_id} does not answer" for node in sorted(unreachable))
        owners = {key: each for key, each in owners.items() if each.is_open}
    else:
        hanging, hidden = await hanging_of(admin, blocked), ()
        if any(opened[at][0].producer_id not in owners for at in blocked):
            hidden = tuple(await admin.why_owners_may_be_hidden())
    now_ms = RealClock().now_ms()
    return [
        Holder(
            at,
            bounds[at],
            opened[at][0],
            opened[at][1:],
            owners.get(opened[at][0].producer_id),
            hanging.get((at, opened[at][0].producer_id)),
            now_ms,
            hidden=hidden,
        )
        for at in blocked
    ]


def _start(producer: ProducerDescription) -> int:
    assert producer.transaction_start_offset is not None
    return producer.transaction_start_offset


def judge(settings: Settings, holder: Holder) -> Verdict:
    """Why the transaction is open, and what to do."""
    return verdict_of(
        settings, seen(holder.where, holder.producer, holder.owner, holder.hanging, holder.now_ms), holder.hidden
    )


def _row(holder: Holder, verdict: Verdict) -> dict[str, Any]:
    owner, producer = holder.owner, holder.producer
    return {
        "topic": holder.where.topic,
        "partition": holder.where.partition,
        **{key: holder.bounds[key] for key in ("last_stable_offset", "high_watermark", "blocked")},
        "producer_id": producer.producer_id,
        "producer_epoch": producer.producer_epoch,
        "start_offset": producer.transaction_start_offset,
        "last_timestamp_ms": producer.last_timestamp_ms,
        "quiet_ms": max(0, holder.now_ms - producer.last_timestamp_ms),
        "transactional_id": owner.transactional_id if owner else None,
        "coordinator": owner.coordinator_id if owner else None,
        "state": owner.state if owner else None,
        "duration_ms": owner.duration_ms if owner else None,
        "open_behind": len(holder.behind),
        "verdict": verdict.kind,
        "why": verdict.why,
        "advice": verdict.advice,
        "repair": verdict.repair or None,
        "group": holder.pending_group.name if holder.pending_group else None,
        "pending": [str(where) for where in sorted(holder.pending_group.pending)] if holder.pending_group else [],
    }


def _offline_row(where: TopicPartition, error: KafkaError | None) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(ROW_KEYS)
    row |= {"topic": where.topic, "partition": where.partition, "verdict": "offline", "pending": []}
    return row | {"why": WHY_OFFLINE if error is None else why(error), "advice": _offline_advice(error)}


def _offline_text(where: TopicPartition, error: KafkaError | None) -> str:
    what = "takes nothing more, and gives what it can" if error is None else f"gives nothing ({error_name(error)})"
    return f"{where}: {what}\n  why   {WHY_OFFLINE if error is None else why(error)}\n  do    {_offline_advice(error)}"


def _offline_advice(error: KafkaError | None) -> str:
    return SILENT_ADVICE if isinstance(error, RequestTimedOut | Network) else OFFLINE_ADVICE


def _text(holder: Holder, verdict: Verdict) -> str:
    owner, producer, bounds = holder.owner, holder.producer, holder.bounds
    quiet = duration_text(max(0, holder.now_ms - producer.last_timestamp_ms))
    identity = f"{producer.producer_id}:{producer.producer_epoch}"
    are = "is" if bounds["blocked"] == 1 else "are"
    held = f"{counted(bounds['blocked'], 'offset')} up to {bounds['high_watermark']} {are} held back"
    lines = [f"{holder.where}: read_committed readers wait at offset {bounds['last_stable_offset']}; {held}"]
    if holder.pending_group is not None:
        scope, count = holder.pending_group, holder.pending_count
        which = f"the transaction that commits it, open on {holder.where}"
        which += f": one of {count}, this or another" if count > 1 else ""
        lines = [
            f"group {scope.name}: members that start wait for their position of {listed(scope.pending)}",
            f"  for   {which}",
        ]
    lines += [
        f"  by    producer {identity}, open since offset {_start(producer)}, last record {quiet} ago",
    ]
    if owner is not None:
        lasting = f" for {duration_text(owner.duration_ms)}" if owner.duration_ms is not None else ""
        lines.append(
            f"  id    {owner.transactional_id}: {owner.state}{lasting} at producer epoch {owner.producer_epoch}, "
            f"coordinator {owner.coordinator_id}"
        )
    lines.append(f"  why   {verdict.why}")
    lines.append(f"  do    {verdict.advice}")
    if verdict.repair:
        lines.append(f"        {verdict.repair}")
    if holder.behind:
        later = ", ".join(f"{p.producer_id}:{p.producer_epoch} at {p.transaction_start_offset}" for p in holder.behind)
        lines.append(f"  also  {len(holder.behind)} more behind it: {later}")
    return "\n".join(map(printable, lines))  # a line break in a name begins no line
