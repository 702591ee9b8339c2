"""`oncelog why`: what holds a group, a topic or a transaction back, who it is, and the command to type next."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import click

from oncelog.cli.clients import open_admin_that_looks, patient
from oncelog.cli.command import Command, Settings
from oncelog.cli.durations import DURATION
from oncelog.cli.output import EXIT_FAILURE, EXIT_FOUND, columns, counted
from oncelog.cli.transactions.group_scope import listed
from oncelog.cli.why.collecting import facts_of, positions_again
from oncelog.cli.why.damage import with_damage
from oncelog.cli.why.looking import Looking
from oncelog.cli.why.migrations import migration_notes
from oncelog.cli.why.quotas import QuotaReading
from oncelog.cli.why.subject import subject_of
from oncelog.cli.why.words import Told, id_text, row, told
from oncelog.client.arguments import is_wire_text
from oncelog.core.diagnosis.causes import NO_MEMBERS, OUT_OF_RANGE, Cause, causes, verdict, young_count
from oncelog.core.diagnosis.facts import GROUP, PARTITION, TOPIC, TRANSACTION, Facts

SHOWN_MAX = 20
OLDER_THAN_MS = 10_000


@click.command("why", cls=Command, watchable=True)
@click.argument("name", metavar="GROUP|TOPIC|TOPIC-PARTITION|TRANSACTIONAL-ID")
@click.option(
    "--as", "wanted", type=click.Choice([GROUP, TOPIC, TRANSACTION]), help="What the name is, where it is several."
)
@click.option(
    "--older-than",
    "older_than_ms",
    type=DURATION,
    default=OLDER_THAN_MS,
    help="Only what has lasted for longer [default: 10s]: a healthy system always has open transactions.",
)
@click.option("--exit-code", is_flag=True, help="Exit status 3 when a cause is found.")
@click.pass_context
async def why(ctx: click.Context, name: str, wanted: str | None, older_than_ms: int, exit_code: bool) -> None:
    """Why readers stand still: every cause with the command to type next, the first to mend first.

    Looks at transactions, positions, members, partitions, quotas and rights. What could not be read is said, with the
    reason; the exit status then is 1.
    """
    settings = ctx.ensure_object(Settings)
    if not name or not is_wire_text(name):
        raise click.UsageError("say which group, topic or transactional id: a name that can be sent")
    async with open_admin_that_looks(patient(settings)) as admin:
        looking = Looking(admin, await admin.list_topics(include_internal=True))
        facts, found, notes = await look(settings, looking, name, wanted, older_than_ms)
    _tell(settings, facts, found, notes)
    if found and exit_code:
        ctx.exit(EXIT_FOUND)
    if facts.not_read:
        ctx.exit(EXIT_FAILURE)


async def look(
    settings: Settings, looking: Looking, name: str, wanted: str | None, older_than_ms: int
) -> tuple[Facts, tuple[Cause, ...], list[str]]:
    """What was seen of a name, the causes, and what to say beside them. Raises Failed where there is nothing of that name."""
    subject = await subject_of(settings, looking, name, wanted)
    facts = await facts_of(looking, subject, older_than_ms)
    if facts.group is not None and subject.scope is not None:
        facts = await with_damage(patient(settings), looking, facts, subject.scope.positions)
        reading = QuotaReading(looking)
        facts = dataclasses.replace(facts, quotas=await reading.quotas_of(facts.partitions))
        if note := reading.note_of_users(settings, facts.partitions):
            looking.notes.append(note)
    elif facts.kind in (TOPIC, PARTITION) and (
        note := await QuotaReading(looking).note_of_topic(settings, facts.partitions)
    ):
        looking.notes.append(note)
    found = causes(facts, older_than_ms)
    if suspects := [where for cause in found if cause.kind == OUT_OF_RANGE for where in cause.partitions]:
        facts = await positions_again(looking, facts, suspects)
        found = causes(facts, older_than_ms)
    notes = [*looking.notes, *(subject.scope.position_notes if subject.scope else ())]
    return facts, found, [*notes, *_beside(settings, facts, found, young_count(facts, older_than_ms))]


def rows_of(settings: Settings, facts: Facts, found: Sequence[Cause]) -> list[dict[str, Any]]:
    """The causes for machines."""
    return [row(cause, told(settings, facts, cause)) for cause in found]


def _tell(settings: Settings, facts: Facts, found: Sequence[Cause], notes: Sequence[str]) -> None:
    out = settings.out
    if out.is_machine:
        out.item((), document(facts, found, rows_of(settings, facts, found), notes))
    elif out.format == "tsv":
        shown = ("kind", "verdict", "partitions", "blocked", "pending", "transactional_id", "age_ms", "what", "command")
        out.rows(columns(*shown), rows_of(settings, facts, found))
    else:
        for cause in found[:SHOWN_MAX]:
            _print(settings, told(settings, facts, cause))
    if len(found) > SHOWN_MAX and not out.is_machine and out.format != "tsv":
        out.note(f"and {len(found) - SHOWN_MAX} more causes: -o json shows all")
    elif len(found) > 1 and not out.is_machine:
        out.note(f"{len(found)} causes, the first to mend first")
    for note in notes:
        out.note(note)
    for missing in facts.not_read:
        out.note(f"error: {missing.what} could not be read: {missing.error}: {missing.why}")
    if not found:
        out.note(_all_clear(facts))


def _print(settings: Settings, words: Told) -> None:
    with settings.out.stream() as emit:
        emit({}, words.text)


def document(facts: Facts, found: Sequence[Cause], rows: list[dict[str, Any]], notes: Sequence[str]) -> dict[str, Any]:
    """What `-o json` prints; docs/cli.md names every key."""
    group = facts.group
    lags = [each for each in facts.partitions if each.lag is not None]
    return {
        "name": facts.name,
        "type": facts.kind,
        "verdict": verdict(facts, found),
        "causes": rows,
        "not_read": [{"what": each.what, "error": each.error, "why": each.why} for each in facts.not_read],
        "notes": list(notes),
        "partition_count": len(facts.partitions),
        "blocked": sum(each.blocked for each in facts.partitions),
        "lag": sum(each.lag or 0 for each in lags) if lags else None,
        "group_state": group.state if group else None,
        "member_count": group.member_count if group else None,
        "transaction_state": facts.owner.state if facts.owner else None,
    }


def _beside(settings: Settings, facts: Facts, found: Sequence[Cause], young: int) -> list[str]:
    """What is no cause and worth knowing."""
    notes = []
    if young:
        notes.append(f"left out, as they are young or just ending: {counted(young, 'open transaction')} (--older-than)")
    notes += migration_notes(facts)
    if facts.group is not None and facts.group.is_sparks:
        notes.append(
            f"a Spark query stores in {facts.name} how far it has come, after each batch, and joins no group: that it has no "
            "members is no fault. Whether it runs, and what it waits for, say its driver and `query.lastProgress`"
        )
    reads = facts.group is not None and not facts.group.is_migration and not facts.group.is_sparks
    if reads and facts.group and not facts.group.member_count and NO_MEMBERS not in {cause.kind for cause in found}:
        notes.append(f"group {facts.name} has no members now: nobody reads")
    unread = [each.where for each in facts.partitions if each.client_id is None and each.raw_lag]
    if facts.group is not None and facts.group.member_count and facts.group.looks[0].is_at_rest and unread:
        notes.append(f"no member reads {listed(unread)}, where its positions are behind: is it subscribed to that?")
    if facts.owner is not None and not any(cause.open for cause in found):
        notes.append(id_text(facts.owner))
    lag = sum(each.lag or 0 for each in facts.partitions)
    if facts.group is not None and facts.group.member_count and lag and not found:
        text = f"{counted(lag, 'offset')} can be read now: if its positions do not move, its members are slow or stuck"
        behind = next(each.where.topic for each in facts.partitions if each.lag)
        rules = f", or may not read: {settings.repair('acls', 'list', '--topic', behind, '--matching')}"
        notes.append(text + (rules if facts.is_guarded else ""))
    return notes


def _all_clear(facts: Facts) -> str:
    where = f"looked at {counted(len(facts.partitions), 'partition')}"
    if facts.not_read:
        return f"{facts.name}: nothing was found that holds it back, but not everything could be read: {where}"
    kind = {TRANSACTION: "transactional id"}.get(facts.kind or "", facts.kind)
    return f"{kind} {facts.name}: nothing holds it back: {where}"
