"""`oncelog transactions history`: what became of a transactional id, and who did it, as far as anybody kept it.

Two sources: the states that its coordinator logs in `__transaction_state` (any Kafka; compacted, and without a word on who
asked), and oncelog's `__oncelog_audit`, where `oncelog.audit.topic` is on.
"""

from __future__ import annotations

from typing import Any

import click

from oncelog.cli.audit import audit_entries
from oncelog.cli.clients import open_admin
from oncelog.cli.command import Command, Settings
from oncelog.cli.durations import DURATION, duration_text, moment_text
from oncelog.cli.output import EXIT_FAILURE, Column, Failed, columns, error_name
from oncelog.cli.reading import records_since
from oncelog.cli.transactions.group_scope import listed
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC
from oncelog.client.arguments import is_wire_text
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC
from oncelog.core.placement import coordinator_partition
from oncelog.errors import KafkaError, MalformedMessage, TopicAuthorization, UnknownTopicOrPartition
from oncelog.host.clock import RealClock
from oncelog.types import TopicPartition
from oncelog.wire.log_records.transaction_state import (
    TWO_PHASE_TIMEOUT_MS,
    TransactionRecord,
    TransactionState,
    TransactionTombstone,
    record_from_key_value,
    record_to_key_value,
)

SHOWN = [
    Column("time_ms", "TIME", moment_text),
    *columns("event", "producer_id", "producer_epoch", "principal", "client_id", "address", "what"),
]
WHO_IS_NOT_KEPT = (
    "who asked is not kept here: oncelog writes it with oncelog.audit.topic=true, Apache Kafka not at all. Whether its producer, "
    "a newer instance, an operator or the timeout ended a transaction cannot be told from its states"
)
COMPACTED = "__transaction_state is compacted: of what was before, only what cleaning left is shown"


@click.command("history", cls=Command)
@click.argument("transactional_id", metavar="ID")
@click.option("--since", "since_ms", type=DURATION, help="Only of the last so long [default: all that is kept].")
@click.pass_context
async def history(ctx: click.Context, transactional_id: str, since_ms: int | None) -> None:
    """What became of a transactional id, and who did it, oldest first.

    Reads the coordinator's states (READ on __transaction_state), and oncelog's __oncelog_audit where it is kept. What cannot
    be known is said.
    """
    settings = ctx.ensure_object(Settings)
    if not transactional_id or not is_wire_text(transactional_id):
        raise click.UsageError("say which transactional id: a name that can be sent")
    from_ms = None if since_ms is None else max(0, RealClock().now_ms() - since_ms)
    rows: list[dict[str, Any]] = []
    notes, failed = [], []
    async with open_admin(settings) as admin:
        try:
            rows += await states(settings, admin, transactional_id, from_ms)
            notes += [COMPACTED] if rows else []
        except (KafkaError, MalformedMessage) as error:
            failed.append(f"{TRANSACTIONS_TOPIC} could not be read: {_said(error)}")
        try:
            kept = [each async for each in audit_entries(settings, admin, from_ms)]
            rows += [audited(each) for each in kept if each.get("transactional_id") == transactional_id]
        except UnknownTopicOrPartition:
            notes.append(WHO_IS_NOT_KEPT)
        except KafkaError as error:
            failed.append(f"{AUDIT_TOPIC} could not be read: {_said(error)}")
    if not rows and not failed:
        raise Failed(
            f"nothing is kept of transactional id {transactional_id!r}",
            f"look with {settings.repair('transactions', 'list')}",
        )
    rows.sort(key=lambda each: each["time_ms"])
    settings.out.rows(SHOWN, rows, empty="nothing could be read")
    for note in notes:
        settings.out.note(note)
    for line in failed:
        settings.out.note(f"error: {line}")
    if failed:
        ctx.exit(EXIT_FAILURE)


def _said(error: KafkaError | MalformedMessage) -> str:
    takes = "; it takes READ on that topic" if isinstance(error, TopicAuthorization) else ""
    return f"{error_name(error)}: {error}{takes}"


async def states(settings: Settings, admin: Admin, transactional_id: str, from_ms: int | None) -> list[dict[str, Any]]:
    """A row for each state that its coordinator logged. Raises KafkaError, MalformedMessage."""
    try:
        view = (await admin.describe_topics([TRANSACTIONS_TOPIC]))[TRANSACTIONS_TOPIC]
    except UnknownTopicOrPartition:
        return []
    where = TopicPartition(TRANSACTIONS_TOPIC, coordinator_partition(transactional_id, len(view.partitions)))
    key, _ = record_to_key_value(TransactionTombstone(transactional_id))
    rows = []
    async for record in records_since(settings, admin, where, from_ms):
        if record.key == key:
            found = record_from_key_value(record.key, record.value)
            if found is not None:
                rows.append(_state(found, record.timestamp_ms))
    return rows


def _state(found: TransactionRecord | TransactionTombstone, time_ms: int) -> dict[str, Any]:
    row: dict[str, Any] = dict.fromkeys(
        (
            "time_ms",
            "source",
            "event",
            "producer_id",
            "producer_epoch",
            "what",
            "outcome",
            "principal",
            "client_id",
            "address",
        )
    )
    row |= {"time_ms": time_ms, "source": TRANSACTIONS_TOPIC}
    if isinstance(found, TransactionTombstone):
        return row | {"event": "Dead", "what": "its coordinator forgot it: it was not used"}
    row |= {"producer_id": found.producer_id, "producer_epoch": found.producer_epoch}
    return row | {"event": _name(found.state), "what": _what(found)}


def _name(state: TransactionState) -> str:
    """As Kafka's tools write it: PrepareCommit."""
    return state.name.title().replace("_", "")


def _what(found: TransactionRecord) -> str:
    where = listed(found.partitions) or "no partition yet"
    if found.state is TransactionState.ONGOING:
        return f"open on {where}"
    if found.state in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT):
        outcome = "committed" if found.state is TransactionState.PREPARE_COMMIT else "aborted"
        lasting = found.last_update_ms - found.start_ms
        late = ""
        if found.state is TransactionState.PREPARE_ABORT and found.timeout_ms not in (-1, TWO_PHASE_TIMEOUT_MS):
            late = f", its timeout of {duration_text(found.timeout_ms)} was over" if lasting >= found.timeout_ms else ""
        return f"{outcome} after {duration_text(max(0, lasting))}{late}: {where}"
    if found.state is TransactionState.EMPTY:
        return "a producer began with this identity"
    return "all its markers are written"


def audited(entry: dict[str, Any]) -> dict[str, Any]:
    """A row of what the audit topic kept."""
    keys = ("time_ms", "event", "producer_id", "producer_epoch", "what", "outcome", "principal", "client_id", "address")
    return {"source": AUDIT_TOPIC, **{key: entry.get(key) for key in keys}}
