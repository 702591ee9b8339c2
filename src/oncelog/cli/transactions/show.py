"""`oncelog transactions`: see them. Explaining and ending them is in the files beside."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import click

from oncelog.cli.clients import open_admin_that_looks, patient
from oncelog.cli.command import Group, Settings
from oncelog.cli.durations import DURATION, duration_text
from oncelog.cli.hidden import TOPICS, TRANSACTIONAL_IDS, none_that_may_be_seen, not_answered, nothing_seen
from oncelog.cli.numbers import WholeNumber, WholeNumberRange
from oncelog.cli.outcomes import found_of, name_missing
from oncelog.cli.output import EXIT_FAILURE, EXIT_FOUND, Column, columns, counted
from oncelog.cli.partitions import partitions_of
from oncelog.cli.transactions.explain import explain
from oncelog.cli.transactions.history import history
from oncelog.cli.transactions.in_doubt import in_doubt
from oncelog.cli.transactions.lanes import lanes
from oncelog.cli.transactions.repair import abort, complete, force_terminate
from oncelog.cli.transactions.resolve import resolve
from oncelog.cli.transactions.verdicts import verdict_of
from oncelog.cli.unreadable import coordinators_away, name_offline, name_unreachable, none_of_those_asked
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.owners import ANY_AGE_MS, owner_seen, owners_of
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC
from oncelog.client.admin.transaction_listing import NEVER_MS, STATES, HangingTransaction, TransactionDescription
from oncelog.core.diagnosis.facts import OpenTransaction
from oncelog.errors import BrokerNotAvailable, InvalidRegularExpression, KafkaError
from oncelog.types import Node, TopicPartition

OPEN_STATES = ("Ongoing", "PrepareCommit", "PrepareAbort")


@click.group(cls=Group)
def transactions() -> None:
    """See, explain and mend transactions.

    \b
    transactional id    the name a producer gives itself
    producer id, epoch  the number its coordinator gave it; a higher epoch fences lower ones
    coordinator         the broker that decides; coordinator epoch: how often that office changed hands
    last stable offset  read_committed readers get what lies below: the first open transaction holds it

    \b
    Three ways to end a transaction that does not end by itself:
      complete         a prepared one (two-phase commit), as its database decided (in-doubt asks the database itself,
                       resolve ends all that are in doubt, by one plan)
      force-terminate  a transactional id's: aborted everywhere, its producer fenced
      abort            one that no coordinator owns ("hanging"), on one partition
    """


@transactions.command("list", watchable=True)
@click.option("--state", "states", multiple=True, type=click.Choice(STATES, case_sensitive=False), help="Only these.")
@click.option("--producer-id", "producer_ids", multiple=True, type=WholeNumber(), help="Only of these producer ids.")
@click.option("--open-longer-than", type=DURATION, help="Only transactions that have been open for longer.")
@click.option("--pattern", metavar="REGEX", help="Only ids that match as a whole.")
@click.option("--exit-code", is_flag=True, help="Exit status 3 when there is any.")
@click.pass_context
async def list_transactions(
    ctx: click.Context,
    states: tuple[str, ...],
    producer_ids: tuple[int, ...],
    open_longer_than: int | None,
    pattern: str | None,
    exit_code: bool,
) -> None:
    """Transactional ids of all coordinators."""
    settings = ctx.ensure_object(Settings)
    if open_longer_than is not None and not states:
        states = OPEN_STATES  # the brokers' filter counts from the last start, of transactions that are over as well
    unreachable: dict[Node, KafkaError] = {}
    async with open_admin_that_looks(settings) as admin:
        try:
            found = await admin.list_transactions(
                states=states,
                producer_ids=producer_ids,
                duration_ms=open_longer_than,
                pattern=pattern,
                unreachable=unreachable,
            )
        except InvalidRegularExpression as error:
            raise click.UsageError(f"--pattern {pattern}: the broker takes it for no regular expression") from error
        away = await coordinators_away(admin, settings, TRANSACTIONS_TOPIC, "transactional ids", unreachable)
        is_filtered = bool(states or producer_ids or pattern)
        everything = partial(admin.list_transactions, unreachable={}) if is_filtered else None
        is_hidden = not found and not away and await nothing_seen(admin, settings, TRANSACTIONAL_IDS, everything)
    rows = [
        {
            "transactional_id": each.transactional_id,
            "coordinator": each.coordinator_id,
            "producer_id": each.producer_id,
            "state": each.state,
        }
        for each in found
    ]
    settings.out.rows(
        columns("transactional_id", "coordinator", "producer_id", "state"),
        rows,
        empty=none_that_may_be_seen(none_of_those_asked("no transactional ids", away, "coordinators"), is_hidden),
    )
    if away or (is_hidden and exit_code):
        ctx.exit(EXIT_FAILURE)
    if rows and exit_code:
        ctx.exit(EXIT_FOUND)


TRANSACTION_COLUMNS = (
    "transactional_id",
    "coordinator",
    "state",
    "producer_id",
    "producer_epoch",
    "timeout_ms",
    "two_phase",
    "start_time_ms",
    "duration_ms",
    "remaining_ms",
    "partitions",
)


def transaction_row(found: TransactionDescription) -> dict[str, Any]:
    """A described transaction; a two-phase one has no timeout."""
    return {
        "transactional_id": found.transactional_id,
        "coordinator": found.coordinator_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "timeout_ms": None if found.timeout_ms == NEVER_MS else found.timeout_ms,
        "two_phase": found.timeout_ms == NEVER_MS,
        "start_time_ms": found.start_ms if found.start_ms >= 0 else None,
        "duration_ms": found.duration_ms,
        "remaining_ms": found.remaining_ms,
        "partitions": [str(where) for where in found.partitions],
    }


@transactions.command("describe", watchable=True)
@click.argument("names", nargs=-1, metavar="TRANSACTIONAL-ID...")
@click.option("--transactional-id", "more_names", multiple=True, help="The same, in Apache's spelling.")
@click.pass_context
async def describe_transactions(ctx: click.Context, names: tuple[str, ...], more_names: tuple[str, ...]) -> None:
    """State, producer, timeout and partitions of transactional ids."""
    settings = ctx.ensure_object(Settings)
    wanted = [*names, *more_names]
    if not wanted:
        raise click.UsageError("say which transactional id")
    unreachable: dict[Node, KafkaError] = {}
    async with open_admin_that_looks(settings) as admin:
        found, missing = await found_of(wanted, partial(admin.describe_transactions, unreachable=unreachable))
    rows = [transaction_row(found[name]) for name in wanted if name in found]
    shown = columns(*TRANSACTION_COLUMNS)
    if len(wanted) == len(rows) == 1:
        settings.out.item(shown, rows[0])
    else:
        settings.out.rows(shown, rows, empty=none_of_those_asked("none of these transactional ids", unreachable))
    name_unreachable(settings, "transactional ids", unreachable)
    name_missing(settings, missing)
    if unreachable:
        ctx.exit(EXIT_FAILURE)


@transactions.command("describe-producers", watchable=True)
@click.option("--topic", required=True)
@click.option("--partition", type=WholeNumberRange(0), help="[default: all]")
@click.option("--broker-id", type=WholeNumber(), help="Ask this replica instead of the leader.")
@click.option("--open", "only_open", is_flag=True, help="Only producers with an open transaction.")
@click.pass_context
async def describe_producers(
    ctx: click.Context, topic: str, partition: int | None, broker_id: int | None, only_open: bool
) -> None:
    """What a partition's leader remembers of its producers, open transactions among it."""
    settings = ctx.ensure_object(Settings)
    unreadable: dict[TopicPartition, KafkaError] = {}
    async with open_admin_that_looks(settings) as admin:
        await _check_broker(admin, broker_id)
        where = await partitions_of(admin, [topic if partition is None else f"{topic}:{partition}"])
        found = await admin.describe_producers(where, broker_id=broker_id, unreadable=unreadable)
    rows = [
        {
            "topic": at.topic,
            "partition": at.partition,
            "producer_id": each.producer_id,
            "producer_epoch": each.producer_epoch,
            "coordinator_epoch": each.coordinator_epoch,
            "last_sequence": each.last_sequence,
            "last_timestamp_ms": each.last_timestamp_ms,
            "transaction_start_offset": each.transaction_start_offset,
        }
        for at in where
        for each in found.get(at, ())
        if not only_open or each.transaction_start_offset is not None
    ]
    shown = ["topic", "partition", "producer_id", "producer_epoch", "coordinator_epoch", "last_sequence"]
    settings.out.rows(
        columns(*shown, "last_timestamp_ms", "transaction_start_offset"),
        rows,
        empty=none_of_those_asked("no producers are remembered", unreadable, "partitions"),
    )
    name_offline(settings, (), unreadable)
    if unreadable:
        ctx.exit(EXIT_FAILURE)


async def _check_broker(admin: Admin, broker_id: int | None) -> None:
    """Nothing is led by a broker that is not there: that would look like an all-clear. Raises BrokerNotAvailable."""
    if broker_id is None:
        return
    known = [each.node_id for each in (await admin.describe_cluster()).nodes]
    if broker_id not in known:
        raise BrokerNotAvailable(f"broker {broker_id} is not there: there {_are(known)}")


def _are(known: Sequence[int]) -> str:
    return f"is broker {known[0]}" if len(known) == 1 else f"are brokers {', '.join(map(str, known))}"


def hanging_row(
    settings: Settings, found: HangingTransaction, owner: TransactionDescription | None, hidden: Sequence[str]
) -> dict[str, Any]:
    """A hanging transaction with the command that ends it; where that could tear one apart, with what is to be looked at."""
    topic, partition = found.topic_partition
    judged = OpenTransaction(
        found.topic_partition,
        found.producer_id,
        found.producer_epoch,
        found.start_offset,
        found.duration_ms,
        None if owner is None else owner_seen(owner),
        found.reason,
    )
    verdict = verdict_of(settings, judged, hidden)
    return {
        "topic": topic,
        "partition": partition,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator_epoch": found.coordinator_epoch,
        "start_offset": found.start_offset,
        "last_timestamp_ms": found.last_timestamp_ms,
        "duration_ms": found.duration_ms,
        "transactional_id": found.transactional_id,
        "reason": found.reason,
        "repair": verdict.repair,
    }


@transactions.command("find-hanging", watchable=True)
@click.option("--topic", help="Only of this topic [default: all, internal ones too].")
@click.option("--partition", type=WholeNumberRange(0), help="Only this partition; needs --topic.")
@click.option("--broker-id", type=WholeNumber(), help="Only partitions led by this broker.")
@click.option(
    "--max-transaction-timeout",
    "timeout",
    type=DURATION,
    default=900_000,
    help="Only what was quiet for longer [default: 15m, the broker's default limit].",
)
@click.option("--exit-code", is_flag=True, help="Exit status 3 when there is any.")
@click.pass_context
async def find_hanging(
    ctx: click.Context, topic: str | None, partition: int | None, broker_id: int | None, timeout: int, exit_code: bool
) -> None:
    """Transactions that are open on a partition and that no coordinator will end (KIP-664).

    Each row names the command that ends it: look with --dry-run first.
    """
    settings = ctx.ensure_object(Settings)
    if partition is not None and topic is None:
        raise click.UsageError("--partition needs --topic")
    unreadable: dict[TopicPartition, KafkaError] = {}
    unreachable: dict[Node, KafkaError] = {}
    hidden: list[str] = []
    async with open_admin_that_looks(patient(settings)) as admin:
        await _check_broker(admin, broker_id)
        all_ages = await admin.find_hanging_transactions(
            topic=topic,
            partition=partition,
            broker_id=broker_id,
            max_transaction_timeout_ms=ANY_AGE_MS,
            unreadable=unreadable,
            unreachable=unreachable,
            hidden=hidden,
        )
        found = [each for each in all_ages if each.duration_ms > timeout]
        away = await coordinators_away(admin, settings, TRANSACTIONS_TOPIC, "transactional ids", unreachable)
        owners = await owners_of(admin, {each.producer_id for each in found}, unreachable={})
        is_blind = (
            not found
            and topic is None
            and not await admin.list_topics(include_internal=True)
            and await nothing_seen(admin, settings, TOPICS)
        )
    rows = [hanging_row(settings, each, owners.get(each.producer_id), hidden) for each in found]
    for reason in hidden:
        settings.out.note(f"what has no owner here may have one: {reason}")
    names = ["topic", "partition", "producer_id", "producer_epoch", "start_offset", "last_timestamp_ms", "duration_ms"]
    wide = columns(wide=["coordinator_epoch", "transactional_id", "reason"])
    silent = [what for what, missing in (("partitions", unreadable), ("coordinators", away)) if missing]
    none = none_of_those_asked("no hanging transactions", silent, " and ".join(silent))
    none = none_that_may_be_seen(none, is_blind or bool(hidden))
    settings.out.rows([*columns(*names), *wide, Column("repair")], rows, empty=none)
    if young := len(all_ages) - len(found):
        text = f"left out, as it was quiet for no longer than {duration_text(timeout)}: {counted(young, 'transaction')}"
        whose = "that no coordinator will end"
        if away or hidden:
            whose = "without an owner on the coordinators that answered" if away else "without an owner that is seen"
        settings.out.note(f"{text} {whose} (--max-transaction-timeout)")
    name_offline(settings, (), unreadable)
    if rows and exit_code:
        ctx.exit(EXIT_FOUND)
    if unreadable or away or not_answered(hidden) or ((is_blind or hidden) and exit_code):
        ctx.exit(EXIT_FAILURE)


for _command in (explain, lanes, history, abort, force_terminate, complete, in_doubt, resolve):
    transactions.add_command(_command)
