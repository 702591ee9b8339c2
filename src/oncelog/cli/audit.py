"""`oncelog audit`: who aborted, fenced, changed or deleted what, and what timed out, from oncelog's `__oncelog_audit`."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import click

from oncelog.cli.clients import open_admin
from oncelog.cli.command import Settings, command
from oncelog.cli.durations import DURATION, moment_text
from oncelog.cli.output import Column, Failed, columns
from oncelog.cli.reading import records_since
from oncelog.client.admin.admin import Admin
from oncelog.client.records import ConsumerRecord
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC
from oncelog.errors import UnknownTopicOrPartition
from oncelog.host.clock import RealClock
from oncelog.types import TopicPartition

SINCE_MS = 86_400_000
EVENTS = (  # what a broker of ours writes; a test holds it against the broker
    *("abort", "fence", "timeout", "expiration", "markers"),
    *("delete-topics", "create-partitions", "delete-records", "alter-configs", "incremental-alter-configs"),
    *("delete-groups", "offset-delete", "update-features", "alter-client-quotas", "create-acls", "delete-acls"),
    *("alter-user-scram-credentials", "create-delegation-token", "renew-delegation-token", "expire-delegation-token"),
)
SHOWN = [
    Column("time_ms", "TIME", moment_text),
    *columns("event", "principal", "client_id", "address", "what", "outcome"),
]
KEYS = (
    *("time_ms", "event", "transactional_id", "producer_id", "producer_epoch", "what", "outcome"),
    *("principal", "client_id", "address"),
)


@command(name="audit")
@click.option("--since", "since_ms", type=DURATION, default=SINCE_MS, help="Of the last so long [default: 1d].")
@click.option(
    "--event",
    "events",
    multiple=True,
    type=click.Choice(EVENTS, case_sensitive=False),
    metavar="EVENT",
    help="Only these: abort, fence, timeout, delete-topics ...",
)
@click.option("--who", metavar="TEXT", help="Only where principal, client id or address contain this.")
@click.option("--what", metavar="TEXT", help="Only where what was done, or the transactional id, contains this.")
@click.pass_obj
async def audit(settings: Settings, since_ms: int, events: tuple[str, ...], who: str | None, what: str | None) -> None:
    """Who aborted, fenced, changed or deleted what, and what timed out, oldest first.

    Kept by an oncelog broker with oncelog.audit.topic=true; a principal of nothing is the broker's own decision.
    """
    async with open_admin(settings) as admin:
        try:
            found = [each async for each in audit_entries(settings, admin, max(0, RealClock().now_ms() - since_ms))]
        except UnknownTopicOrPartition:
            hint = "oncelog keeps it with oncelog.audit.topic=true; Apache Kafka has nothing like it"
            raise Failed(f"there is no {AUDIT_TOPIC}: nothing was kept", hint) from None
    rows = [
        each
        for each in found
        if (not events or each["event"] in events)
        and (who is None or any(who in str(each[key] or "") for key in ("principal", "client_id", "address")))
        and (what is None or any(what in str(each[key] or "") for key in ("what", "transactional_id")))
    ]
    settings.out.rows(SHOWN, rows, empty="nothing of that kind was kept")


async def audit_entries(settings: Settings, admin: Admin, from_ms: int | None) -> AsyncIterator[dict[str, Any]]:
    """What is kept, each with all of `KEYS`. Raises UnknownTopicOrPartition where nothing is."""
    await admin.describe_topics([AUDIT_TOPIC])
    async for record in records_since(settings, admin, TopicPartition(AUDIT_TOPIC, 0), from_ms):
        entry = _entry(record)
        if entry is not None:
            yield entry


def _entry(record: ConsumerRecord) -> dict[str, Any] | None:
    """None for what no broker of ours wrote."""
    try:
        found = json.loads(record.value or b"")
    except ValueError:
        return None
    if not isinstance(found, dict) or not isinstance(found.get("time_ms"), int):
        return None
    return {key: found.get(key) for key in KEYS}
