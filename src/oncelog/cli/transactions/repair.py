"""`oncelog transactions abort | force-terminate | complete`: three ways to end a transaction, each for its own case.

Each says first what it will do, asks, and does nothing with --dry-run. KIP-664: a transaction that its coordinator still
owns is not aborted on one partition, since the rest could commit: that would tear it apart.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from oncelog.cli.clients import open_admin, open_producer
from oncelog.cli.command import Command, Settings
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.durations import duration_text
from oncelog.cli.numbers import WholeNumber, WholeNumberRange
from oncelog.cli.output import Failed, columns, counted
from oncelog.cli.partitions import partitions_of
from oncelog.cli.transactions.verdicts import MAY_BE_COMMITTED
from oncelog.cli.transactions.visibility import wait_until_visible
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.owners import hanging_of, seen
from oncelog.client.admin.transaction_listing import NEVER_MS, ProducerDescription, TransactionDescription
from oncelog.core.diagnosis.transactions import may_be_committed
from oncelog.errors import (
    IllegalState,
    InvalidPidMapping,
    InvalidProducerEpoch,
    InvalidTxnState,
    ProducerFenced,
    UnsupportedVersion,
)
from oncelog.types import PreparedTxnState, TopicPartition

PRODUCER_EPOCH_MAX = 32_767


@click.command("abort", cls=Command, changes=True)
@click.option("--topic", required=True)
@click.option("--partition", type=WholeNumberRange(0), required=True)
@click.option("--start-offset", type=WholeNumberRange(0), help="Where the transaction begins on this partition.")
@click.option(
    "--producer-id", type=WholeNumber(), help="With the two below, instead of --start-offset (for old brokers)."
)
@click.option("--producer-epoch", type=WholeNumber())
@click.option("--coordinator-epoch", type=WholeNumber())
@click.option("--force", is_flag=True, help="Even where a coordinator still owns it: tears the transaction apart.")
@click.pass_obj
async def abort(
    settings: Settings,
    topic: str,
    partition: int,
    start_offset: int | None,
    producer_id: int | None,
    producer_epoch: int | None,
    coordinator_epoch: int | None,
    force: bool,
) -> None:
    """End a hanging transaction on one partition, by an ABORT marker.

    Only for transactions that no coordinator owns (`find-hanging`, `explain`). For one that is only slow or left
    behind use `force-terminate`; for a prepared one `complete`.
    """
    ids = {"producer_id": producer_id, "producer_epoch": producer_epoch, "coordinator_epoch": coordinator_epoch}
    given = {key: value for key, value in ids.items() if value is not None}
    if (start_offset is None) != (len(given) == 3) or (start_offset is not None and given):
        raise click.UsageError(
            "say which transaction: --start-offset, or all of --producer-id, --producer-epoch, --coordinator-epoch"
        )
    async with open_admin(settings) as admin:
        (where,) = await partitions_of(admin, [f"{topic}:{partition}"])
        producer = _as_written(
            where, await _open_producer_at(admin, where, start_offset, producer_id), given, force=force
        )
        owner = await _owner_of(admin, producer.producer_id)
        owned = await is_owned(admin, where, producer)
        hidden = await admin.why_owners_may_be_hidden() if owner is None else []
        text, *more = await _abort_text(admin, where, producer, owner, owned=owned, hidden=hidden)
        if hidden and not force:
            settings.out.note(text, *more)
            raise Failed(
                "refused: it may have an owner, who may have committed elsewhere",
                "ask as somebody who sees all transactional ids, once all coordinators answer; or use --force",
            )
        if owned and not force:
            settings.out.note(text, *more)
            assert owner is not None
            if is_prepared(owner):
                way = f"{complete_command(settings, owner)} --commit or --abort, as its database decided"
            else:
                way = settings.repair("transactions", "force-terminate", "--transactional-id", owner.transactional_id)
            raise Failed(
                f"refused: its coordinator still owns this transaction ({owner.transactional_id})", f"use {way}"
            )
        row: dict[str, Any] = {"topic": topic, "partition": partition, "producer_id": producer.producer_id}
        row |= {"producer_epoch": producer.producer_epoch, "start_offset": producer.transaction_start_offset}
        if not settings.confirm(text, str(where), more=more, plan=[{**row, "result": "would be aborted"}]):
            return
        arguments: dict[str, Any] = {"start_offset": start_offset} if start_offset is not None else given
        try:
            await admin.abort_transaction(where, **arguments, force=force)
        except IllegalState as error:
            raise Failed(str(error)) from error
    _said(settings, {**row, "result": "aborted"})


async def _open_producer_at(
    admin: Admin, where: TopicPartition, start_offset: int | None, producer_id: int | None
) -> ProducerDescription:
    producers = (await admin.describe_producers([where]))[where]
    opened = [p for p in producers if p.transaction_start_offset is not None]
    for producer in opened:
        if producer.transaction_start_offset == start_offset or producer.producer_id == producer_id:
            return producer
    known = ", ".join(str(p.transaction_start_offset) for p in opened)
    what = f"starts at offset {start_offset}" if start_offset is not None else f"is of producer {producer_id}"
    raise Failed(f"no open transaction of {where} {what}", f"open ones start at {known}" if opened else "none is open")


def _as_written(
    where: TopicPartition, producer: ProducerDescription, given: dict[str, int], *, force: bool
) -> ProducerDescription:
    """The producer as the marker will name it. Raises Failed where that is not the one whose transaction is open."""
    written = dataclasses.replace(producer, **given)
    if written.producer_epoch != producer.producer_epoch and not force:
        raise Failed(
            f"refused: the open transaction of {where} is of producer {producer.producer_id}:{producer.producer_epoch}, "
            f"not {written.producer_id}:{written.producer_epoch}",
            f"use --producer-epoch {producer.producer_epoch}, or --force to write another",
        )
    return written


async def _owner_of(admin: Admin, producer_id: int) -> TransactionDescription | None:
    for listing in await admin.list_transactions(producer_ids=[producer_id]):
        return (await admin.describe_transactions([listing.transactional_id]))[listing.transactional_id]
    return None


async def is_owned(admin: Admin, where: TopicPartition, producer: ProducerDescription) -> bool:
    """Whether a coordinator will end it, or may: it is not among those that certainly hang, however young."""
    return (where, producer.producer_id) not in await hanging_of(admin, [where])


async def _abort_text(
    admin: Admin,
    where: TopicPartition,
    producer: ProducerDescription,
    owner: TransactionDescription | None,
    *,
    owned: bool,
    hidden: list[str],
) -> list[str]:
    bounds = (await partition_bounds(admin, [where]))[where]
    leader = (await admin.describe_topics([where.topic]))[where.topic].partitions[where.partition].leader_id
    if hidden:
        opinion = f"no owner is seen, which does not mean that there is none: {'; '.join(hidden)}"
    elif owner is None:
        opinion = "knows no such producer: the transaction is hanging"
    else:
        relation = "owns this transaction" if owned else "does not own this transaction any more: it is hanging"
        opinion = f"{owner.transactional_id} is {owner.state} at epoch {owner.producer_epoch}, {relation}"
    whose = f"producer {producer.producer_id}:{producer.producer_epoch} on {where}"
    warning = []
    if owner is not None and owned:
        warning = ["its owner can still commit it: everywhere else its records then appear, and here they are gone"]
        if is_prepared(owner):
            warning.append("it is in two-phase commit: its database may have committed already")
    elif owner is not None:
        found = seen(where, producer, owner, None, 0)
        if may_be_committed(dataclasses.replace(found, hanging_reason=opinion)):
            warning = [f"{MAY_BE_COMMITTED}; where its other partitions show its records, this abort tears it apart"]
    return [
        f"write an ABORT marker for {whose} (leader {leader}, coordinator epoch {producer.coordinator_epoch})",
        f"its transaction began at offset {producer.transaction_start_offset}; its records stay hidden for ever",
        f"{counted(bounds['blocked'], 'offset')} up to {bounds['high_watermark']} held back by the first open transaction",
        f"coordinator: {opinion}",
        *warning,
    ]


@click.command("force-terminate", cls=Command, changes=True)
@click.option("--transactional-id", required=True)
@click.option(
    "--even-if-prepared", is_flag=True, help="Also one in two-phase commit, that a database may have decided."
)
@click.pass_obj
async def force_terminate(settings: Settings, transactional_id: str, even_if_prepared: bool) -> None:
    """Abort a transactional id's open transaction on all its partitions and fence its producer.

    One in two-phase commit is refused: if its database has committed, the two then disagree. `complete` ends it as it
    was decided; --even-if-prepared is for when nobody can decide any more.
    """
    async with open_admin(settings) as admin:
        found = (await admin.describe_transactions([transactional_id]))[transactional_id]
        if found.state == "Ongoing":
            what = f"abort its transaction, open for {duration_text(found.duration_ms)}, on {_listed(found)}"
        else:
            what = f"fence its producer; its state is {found.state}, no transaction is open to abort"
        producer = f"producer {found.producer_id}:{found.producer_epoch}"
        more: list[str] = []
        if is_prepared(found):
            more.append("it is in two-phase commit: if its database has committed, topic and database then disagree")
            if not even_if_prepared:
                settings.out.note(f"{transactional_id} ({producer}): {what}", *more)
                raise Failed(
                    refused_prepared(transactional_id), f"use {complete_command(settings, found)} --commit or --abort"
                )
        result = "aborted" if found.state == "Ongoing" else "fenced"
        row = {"transactional_id": transactional_id, "producer_id": found.producer_id, "result": result}
        plan = [{**row, "result": f"would be {result}"}]
        if not settings.confirm(f"{transactional_id} ({producer}): {what}", transactional_id, more=more, plan=plan):
            return
        await admin.force_terminate_transaction(transactional_id)
        await wait_until_visible(admin, transactional_id)
    _said(settings, row)


def is_prepared(found: TransactionDescription) -> bool:
    """Whether a database may have decided about its open transaction: two-phase commit has no timeout (KIP-939)."""
    return found.state == "Ongoing" and found.timeout_ms == NEVER_MS


def refused_prepared(transactional_id: str) -> str:
    """Why a prepared transaction is not ended without its decision."""
    return (
        f"refused: the transaction of {transactional_id} waits for what was decided elsewhere; look into its database, "
        "or give --even-if-prepared"
    )


def complete_command(settings: Settings, found: TransactionDescription) -> str:
    """The command that ends it as it was decided, without the decision."""
    state = f"{found.producer_id}:{found.producer_epoch}"
    return settings.repair("transactions", "complete", "--transactional-id", found.transactional_id, "--state", state)


def _listed(found: TransactionDescription) -> str:
    shown = ", ".join(str(where) for where in found.partitions[:5])
    more = len(found.partitions) - 5
    return (shown or "no partitions") + (f" and {more} more" if more > 0 else "")


@click.command("complete", cls=Command, changes=True)
@click.option("--transactional-id", required=True)
@click.option("--state", "state_text", required=True, metavar="PRODUCER-ID:EPOCH", help="What prepare gave, as stored.")
@click.option("--commit", is_flag=True, help="It was decided to commit.")
@click.option("--abort", is_flag=True, help="It was decided to abort.")
@click.pass_obj
async def complete(settings: Settings, transactional_id: str, state_text: str, commit: bool, abort: bool) -> None:
    """End a prepared or left-behind transaction as it was decided elsewhere (two-phase commit, KIP-939).

    Nothing happens unless the open transaction is the one of --state. Repeating it is harmless.
    """
    if commit == abort:
        raise click.UsageError("say what was decided: one of --commit and --abort")
    try:
        state = PreparedTxnState(state_text)
    except ValueError as error:
        raise click.UsageError(f"--state {state_text}: {error}") from error
    if state.is_none:
        raise click.UsageError("--state is empty: nothing was prepared, so there is nothing to complete")
    async with open_admin(settings) as admin:
        found = (await admin.describe_transactions([transactional_id]))[transactional_id]
        what = f"{'commit' if commit else 'abort'} transaction {state} of {transactional_id}"
        described = f"it is {found.state}, producer {found.producer_id}:{found.producer_epoch}, {_listed(found)}"
        objection = _objection(found, state, commit=commit)
        if settings.dry_run and objection:
            raise Failed(f"dry run, would be refused: {transactional_id}: {objection}: {described}")
        result = "committed" if commit else "aborted"
        row = {"transactional_id": transactional_id, "state": str(state), "result": result}
        plan = [{**row, "result": f"would be {result}"}]
        if not settings.confirm(f"{what}; {described}", transactional_id, plan=plan):
            return
        await end_as_decided(settings, admin, transactional_id, state, commit=commit, described=described)
    _said(settings, row)


async def end_as_decided(
    settings: Settings,
    admin: Admin,
    transactional_id: str,
    state: PreparedTxnState,
    *,
    commit: bool,
    described: str = "look at it with `oncelog transactions describe`",
) -> None:
    """End just this transaction, also where a newer instance keeps it. Raises KafkaError, Failed where it is another's turn."""
    try:
        await admin.end_transaction(transactional_id, state, commit)
    except (ProducerFenced, InvalidProducerEpoch):
        await _check_is_kept(admin, transactional_id, state)
        await _complete_kept(settings, transactional_id, state, commit=commit)
    except InvalidPidMapping as error:
        raise Failed(f"{transactional_id} has no transaction {state}: {described}") from error
    except InvalidTxnState as error:
        raise Failed(f"transaction {state} of {transactional_id} is over, and not that way: {described}") from error
    await wait_until_visible(admin, transactional_id)


def _objection(found: TransactionDescription, state: PreparedTxnState, *, commit: bool) -> str:
    """Why the coordinator would refuse, as far as its description tells; "" where nothing speaks against it."""
    if found.state == "Ongoing":
        return (
            ""
            if _is_identity(found, state)
            else f"its open transaction is {found.producer_id}:{found.producer_epoch}, not {state}"
        )
    # KIP-890: the end of a transaction raised the producer epoch by one, or gave a new id where that was the last one.
    is_next = (found.producer_id, found.producer_epoch) == (state.producer_id, state.producer_epoch + 1)
    if not is_next and state.producer_epoch < PRODUCER_EPOCH_MAX - 1:
        return f"it has no open transaction, and its last one was not {state}"
    if found.state.endswith("Abort" if commit else "Commit"):
        return f"transaction {state} is over, and not that way"
    return "" if found.state.endswith(("Commit", "Abort")) else "it has no open transaction"


def _is_identity(found: TransactionDescription, state: PreparedTxnState) -> bool:
    return (found.producer_id, found.producer_epoch) == (state.producer_id, state.producer_epoch)


async def _check_is_kept(admin: Admin, transactional_id: str, state: PreparedTxnState) -> None:
    """Raise Failed unless that one is still open. Taking over fences who has another one, which then has no timeout either."""
    found = (await admin.describe_transactions([transactional_id]))[transactional_id]
    if found.state != "Ongoing":
        text = f"it is {found.state}; how {state} ended `oncelog transactions history` tells"
    elif not _is_identity(found, state):
        text = f"its open transaction is {found.producer_id}:{found.producer_epoch}"
    else:
        return
    raise Failed(f"{transactional_id} was initialised since {state}, nothing was done: {text}")


async def _complete_kept(settings: Settings, transactional_id: str, state: PreparedTxnState, *, commit: bool) -> None:
    """Somebody initialised the id since and kept the transaction: take it over, and end it if it is the one meant."""
    more = {"transactional_id": transactional_id, "transaction_two_phase_commit_enable": True}
    try:
        async with open_producer(settings, **more, keep_prepared_txn=True) as producer:
            kept = producer.prepared_state
            if kept != state:
                text = f"its open transaction is {kept}" if not kept.is_none else "it has no open transaction"
                raise Failed(f"{transactional_id} was initialised since {state}: {text}")
            await producer.complete_transaction(state if commit else PreparedTxnState(""))
    except UnsupportedVersion as error:
        raise Failed(f"{transactional_id} was initialised since {state}; this broker keeps no transactions") from error


def _said(settings: Settings, row: dict[str, Any]) -> None:
    settings.out.rows(columns(*row), [row])
