"""The pages beside the lanes, each made by the functions of the command that shows the same: `why`, `transactions describe`,
`transactions in-doubt`. What cannot be read is said and hides nothing else."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
from typing import Any, NamedTuple

from starlette.requests import Request

from oncelog.cli.command import Settings, hint_for
from oncelog.cli.commands.topics import NO_BOUNDS, partition_bounds
from oncelog.cli.hidden import GROUPS, TOPICS, TRANSACTIONAL_IDS
from oncelog.cli.output import Failed, error_name, error_row
from oncelog.cli.transactions.in_doubt import in_doubt_rows, look_for_doubt
from oncelog.cli.transactions.show import transaction_row
from oncelog.cli.transactions.verdicts import verdict_of
from oncelog.cli.unreadable import unread_row
from oncelog.cli.why.looking import Looking, not_read
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.owners import described_if_known
from oncelog.client.cluster.view import offline_partitions
from oncelog.console.answers import exact
from oncelog.console.group_judging import rights_rows
from oncelog.console.group_rounds import EVERY_S, GroupsFound
from oncelog.console.judging import Judge, Judgement
from oncelog.console.long_look import BeingRead, Kept, LongLook, Progress
from oncelog.console.resolve_plans import resolve_command
from oncelog.console.unseen import as_row, unseen
from oncelog.console.watch import ASKED_AT_ONCE, KEPT_S, MANY, Watch
from oncelog.core.ages import age_text
from oncelog.core.diagnosis.causes import FREE, UNKNOWN
from oncelog.core.diagnosis.causes import OPEN as OPEN_KIND
from oncelog.core.diagnosis.facts import NotRead, OpenTransaction, PartitionFacts
from oncelog.core.diagnosis.transactions import HANGING, TWO_PHASE, transaction_verdict
from oncelog.core.lanes.view import THAT_YOU_SEE, could_not_be_read, counted, nobody_is_stopped
from oncelog.errors import KafkaError, OncelogError
from oncelog.host.clock import RealClock
from oncelog.types import TopicPartition

ROWS_MAX = 500
GROUP_ROWS_MAX = 40
CONNECTING_S = 5.0
DATABASE_TIMEOUT_S = 30.0
DECIDED = "its database says so; who still writes may change that: look again just before, or let resolve ask it anew"


async def admin_of(request: Request) -> Admin:
    """The console's own client, waited for a moment. Raises Failed while no broker answers."""
    watch: Watch = request.app.state.watch
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CONNECTING_S):
            while watch.admin is None and watch.error is None and not watch.is_stopping:
                await watch.changed.wait()
    if watch.admin is None:
        text = watch.error[1] if watch.error is not None else "the console is still connecting"
        raise Failed(text, "it tries again by itself")
    return watch.admin


async def overview(request: Request) -> dict[str, Any]:
    """One verdict over everything: who stands still anywhere, and what to do first."""
    admin = await admin_of(request)
    kept = await _everything(request, admin)
    groups, missing = await _groups(request, admin)
    partitions, count, found, offline, hidden = kept.value
    rows = list(found.causes)
    held = {where for row in rows if row["blocked"] for where in row["partitions"]}
    blocked = [each for each in partitions if each.blocked]
    unread = sum(each.error is not None and not each.is_offline for each in partitions)
    kinds = {(producer_id, each.kind) for (_, producer_id), each in found.judged.items()}
    return {
        "verdict": _headline(rows, held, count - unread, unread, offline, is_all=not hidden)
        + _standing(groups.standing),
        "word": UNKNOWN if found.verdict == FREE and found.not_read else found.verdict,
        "partition_count": count - unread,
        "stopped": len(held),
        "waiting": len([each for each in blocked if str(each.where) not in held]),
        "offline": offline,
        "open": len({(each.producer_id, each.producer_epoch) for each in found.open}),
        "in_doubt": sum(kind == TWO_PHASE for _, kind in kinds),
        "hanging": sum(kind == HANGING for _, kind in kinds),
        "causes": [
            *(exact_cause(each) for each in rows[:ROWS_MAX]),
            *rights_rows(request.app.state.settings, groups.not_read),
            *(exact_cause(each) for each in groups.causes[:GROUP_ROWS_MAX]),
        ],
        "rounds": {
            "standing": groups.standing,
            "shown": min(len(groups.causes), GROUP_ROWS_MAX),
            "causes": len(groups.causes),
            "looked_at": groups.looked_at,
            "count": groups.count,
        },
        "not_read": [*found.not_read, *missing],
        "age_ms": kept.age_ms,
        "now_ms": found.seen_ms,
    }


async def _groups(request: Request, admin: Admin) -> tuple[GroupsFound, list[dict[str, str]]]:
    """What groups stand still for, as of a few seconds ago at most; what was not read of them."""
    state = request.app.state

    async def read(_: Progress) -> GroupsFound:
        looking = Looking(admin, await state.watch.known_topics(admin))
        found: GroupsFound = await state.group_rounds.look(looking, RealClock().now_ms())
        return dataclasses.replace(found, not_read=(*await unseen(admin, GROUPS), *found.not_read))

    try:
        found = (await state.groups.get(read, lambda _: EVERY_S)).value
    except BeingRead as error:
        return GroupsFound(), [{"what": "every group", "error": error_name(error), "why": "asked again in a moment"}]
    except KafkaError as error:
        lost = not_read("the list of groups", error, "")
        return GroupsFound(), [as_row(lost)]
    return found, [as_row(each) for each in found.not_read[:ROWS_MAX]]


def _standing(count: int) -> str:
    return "" if not count else f"; {counted(count, 'group')} {'stands' if count == 1 else 'stand'} still"


def _headline(
    rows: list[dict[str, Any]], held: set[str], count: int, unread: int, offline: int, *, is_all: bool
) -> str:
    dead = f"; {counted(offline, 'partition')} offline" if offline else ""
    holding = [row for row in rows if row["blocked"]]
    if not holding:
        return f"{nobody_is_stopped(count, unread, is_all=is_all)}{dead}"
    oldest = max(holding, key=lambda row: row["age_ms"] or 0)
    name = oldest["transactional_id"] or f"producer {oldest['producer_id']}"
    share = f"{len(held)} of {counted(count, 'partition')}{'' if is_all else THAT_YOU_SEE}"
    since = age_text(oldest["age_ms"] or 0)
    return f"Stopped: {share}, oldest by {name} for {since}{could_not_be_read(unread)}{dead}"


class Everything(NamedTuple):
    """All partitions, looked at. `partitions`: those with an open transaction, that are offline or could not be asked; `hidden`:
    why there may be more topics."""

    partitions: tuple[PartitionFacts, ...]
    partition_count: int
    found: Judgement
    offline: int
    hidden: list[NotRead]


async def _everything(request: Request, admin: Admin) -> Kept[Everything]:
    """One look for all who ask meanwhile; at many partitions it is good for a while, however many pages are open.

    Raises BeingRead where it takes long and was never done.
    """
    look: LongLook[Everything] = request.app.state.everything
    return await look.get(
        lambda progress: _look_at_everything(request, admin, progress),
        lambda found: KEPT_S if found.partition_count > MANY else 0.0,
    )


async def _look_at_everything(request: Request, admin: Admin, progress: Progress) -> Everything:
    """All partitions, some at a time, with the bounds of those that have an open transaction."""
    state = request.app.state
    now_ms = RealClock().now_ms()
    watch: Watch = state.watch
    topics = await watch.known_topics(admin)
    progress.total = sum(len(view.partitions) for view in topics.values())
    everywhere = (TopicPartition(view.name, n) for view in topics.values() for n in sorted(view.partitions))
    offline = set(offline_partitions(topics.values()))
    unreadable: dict[TopicPartition, KafkaError] = {}
    opened: list[TopicPartition] = []
    while part := list(itertools.islice(everywhere, ASKED_AT_ONCE)):
        described = await admin.describe_producers(part, unreadable=unreadable)
        opened += [at for at, each in described.items() if any(p.transaction_start_offset is not None for p in each)]
        progress.advance(len(part), is_heard=bool(described))
    bounds = await partition_bounds(admin, opened, unreadable=unreadable) if opened else {}
    facts = tuple(
        PartitionFacts(
            at,
            each["log_start"],
            each["last_stable_offset"],
            each["high_watermark"],
            leader_id=topics[at.topic].partitions[at.partition].leader_id,
            is_offline=at in offline,
            error=error_name(unreadable[at]) if at in unreadable else None,
        )
        for at in sorted({*opened, *offline, *unreadable})
        for each in (bounds.get(at, NO_BOUNDS),)
    )
    judge = getattr(state, "judge", None)
    if judge is None:
        judge = state.judge = Judge(state.settings)
    found = await judge.look(admin, topics, facts, now_ms)
    missing = [unread_row(at, error) for at, error in list(unreadable.items())[:ROWS_MAX] if at not in offline]
    hidden, ids = await unseen(admin, TOPICS), await unseen(admin, TRANSACTIONAL_IDS)
    found = dataclasses.replace(found, not_read=[*map(as_row, [*hidden, *ids]), *found.not_read, *missing])
    return Everything(facts, progress.done, found, len(offline), hidden)


async def open_transactions(request: Request) -> dict[str, Any]:
    """Every open transaction, those first that hold back most: what `transactions describe` and `explain` say of each."""
    admin, settings = await admin_of(request), request.app.state.settings
    kept = await _everything(request, admin)
    partitions, found = kept.value.partitions, kept.value.found
    by_place = {each.where: each for each in partitions}
    groups: dict[tuple[int, str], list[OpenTransaction]] = {}
    for each in found.open:
        groups.setdefault((each.producer_id, transaction_verdict(each)), []).append(each)
    ids = [each[0].owner.transactional_id for each in groups.values() if each[0].owner is not None]
    described = await described_if_known(admin, *dict.fromkeys(ids)) if ids else {}
    rows = []
    for places in groups.values():
        first = places[0]
        verdict = verdict_of(settings, first, found.hidden)
        holds = [each for each in places if _holds(by_place.get(each.where), each)]
        owner = described.get(first.owner.transactional_id) if first.owner is not None else None
        row: dict[str, Any] = transaction_row(owner) if owner is not None else {"transactional_id": None}
        row |= {"producer_id": exact(first.producer_id), "producer_epoch": first.producer_epoch}
        kind = verdict.kind if (first.where, first.producer_id) in found.judged else OPEN_KIND
        row |= {"verdict": kind, "why": verdict.why, "advice": verdict.advice, "repair": verdict.repair or None}
        row |= {"age_ms": max(each.age_ms for each in places), "open_on": [str(each.where) for each in places]}
        row |= {"holds": [str(each.where) for each in holds]}
        is_known = any(each.start_offset is not None for each in places)  # else nobody serves what it is open on
        row["blocked"] = sum(by_place[each.where].blocked for each in holds) if is_known else None
        rows.append(row)
    rows.sort(key=lambda row: (-(row["blocked"] or 0), -row["age_ms"]))
    more = {"not_read": list(found.not_read), "age_ms": kept.age_ms, "now_ms": found.seen_ms}
    return {"rows": rows[:ROWS_MAX], "count": len(rows), **more}


def _holds(partition: PartitionFacts | None, found: OpenTransaction) -> bool:
    stable = None if partition is None else partition.last_stable_offset
    return stable is not None and found.start_offset is not None and found.start_offset <= stable


async def in_doubt(request: Request) -> dict[str, Any]:
    """Prepared transactions; with a database what it says of each, without one nothing is suggested."""
    settings: Settings = request.app.state.settings
    url: str | None = request.app.state.database_url
    opened = await open_transactions(request)
    waiting = [row for row in opened["rows"] if row["verdict"] == TWO_PHASE]
    decided: list[dict[str, Any]] = []
    fault: dict[str, Any] | None = None
    if url is not None:
        try:
            async with asyncio.timeout(DATABASE_TIMEOUT_S):
                found, _ = await asyncio.to_thread(look_for_doubt, settings, url, 0, False)
            decided = in_doubt_rows(found, {})
        except TimeoutError:
            fault = {"error": "TimeoutError", "message": f"the database has not answered in {DATABASE_TIMEOUT_S:g} s"}
        except (KafkaError, OncelogError, OSError) as error:  # what is in doubt is shown all the same
            fault = error_row(error, hint_for(error, settings))
    told = {(each["transactional_id"], each["open_state"]): each["verdict"] for each in decided}
    return {
        "rows": [_as_decided(settings, row, told) for row in waiting],
        "database": decided,
        "database_error": fault,
        "has_database": url is not None,
        "command": settings.repair("transactions", "in-doubt", "--database", "URL"),
        "resolve": resolve_command(settings),
        **{key: opened[key] for key in ("not_read", "age_ms", "now_ms")},
    }


def _as_decided(settings: Settings, row: dict[str, Any], told: dict[tuple[str, str], str]) -> dict[str, Any]:
    """The row with the command that ends it as its database says, where that decides about this very transaction."""
    state = f"{row['producer_id']}:{row['producer_epoch']}"
    verdict = told.get((row["transactional_id"], state))
    if verdict not in ("commit", "abort"):
        return row
    words = ("--transactional-id", row["transactional_id"], "--state", state, f"--{verdict}")
    command = settings.repair("transactions", "complete", *words)
    return row | {"repair": command, "advice": DECIDED}


def exact_cause(row: dict[str, Any]) -> dict[str, Any]:
    """A cause as JavaScript reads it without loss."""
    return row | {key: exact(row[key]) for key in ("producer_id", "start_offset", "blocked")}
