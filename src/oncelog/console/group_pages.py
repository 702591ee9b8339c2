"""Groups: positions with three lags, and why each stands still: `groups describe` and `why`."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any

from starlette.requests import Request

from oncelog.cli.command import Name, Settings
from oncelog.cli.commands.groups import rows_of_scope
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.hidden import GROUPS
from oncelog.cli.transactions.group_scope import GroupScope, scope_of
from oncelog.cli.unreadable import unread_row
from oncelog.cli.why.collecting import partition_facts
from oncelog.cli.why.looking import Looking
from oncelog.cli.why.why import document, look, rows_of
from oncelog.client.admin.groups import GroupListing
from oncelog.client.arguments import is_wire_text
from oncelog.console.answers import exact
from oncelog.console.group_judging import GroupJudge, described, positions_of, rights_rows
from oncelog.console.pages import admin_of, exact_cause
from oncelog.console.unseen import as_row, unseen
from oncelog.core.diagnosis.facts import GROUP, PartitionFacts
from oncelog.core.lanes.view import CALM_MS
from oncelog.errors import GroupIdNotFound, InvalidArgument, KafkaError
from oncelog.host.clock import RealClock
from oncelog.types import TopicPartition

GROUPS_MAX = 50


async def groups(request: Request) -> dict[str, Any]:
    """Every group with three lags for each partition, as `groups describe -o json` prints them, and what it stands still for."""
    admin, settings = await admin_of(request), request.app.state.settings
    listed = await admin.list_groups()
    looking = Looking(admin, await request.app.state.watch.known_topics(admin))
    only = request.query_params.get("group")
    shown = {each.group_id: each for each in listed if only is None or each.group_id == only}
    names = list(shown)[:GROUPS_MAX]
    scopes, gone = await _scopes(looking, names)
    unreadable: dict[TopicPartition, KafkaError] = {}
    everywhere = sorted({where for scope in scopes.values() for where in scope.partitions})
    bounds = await partition_bounds(admin, everywhere, unreadable=unreadable) if everywhere else {}
    now_ms = RealClock().now_ms()

    def facts_of(scope: GroupScope) -> tuple[PartitionFacts, ...]:
        return tuple(partition_facts(looking, scope, at, bounds.get(at), unreadable.get(at)) for at in scope.partitions)

    judge: GroupJudge = request.app.state.group_judge
    why_not = await judge.look(looking, scopes, facts_of, now_ms, {each.group_id for each in listed})
    found = []
    for name in (each for each in names if each in scopes or each in gone):
        rows, notes = ([], [gone[name]]) if name in gone else rows_of_scope(settings, scopes[name], bounds)
        reset = settings.repair("groups", "reset-offsets", Name(name), "--to-earliest", "--dry-run")
        found.append(_row(shown[name], rows, notes, why_not.get(name, [])) | {"reset": reset})
    return {
        "groups": found,
        "count": len(listed),
        "causes": rights_rows(settings, looking.not_read),
        "notes": looking.notes,
        "not_read": [
            *map(as_row, [*await unseen(admin, GROUPS), *looking.not_read]),
            *(unread_row(at, error) for at, error in unreadable.items()),
        ],
        "now_ms": now_ms,
    }


def _row(
    listed: GroupListing, rows: list[dict[str, Any]], notes: list[str], causes: list[dict[str, Any]]
) -> dict[str, Any]:
    return {
        "group": listed.group_id,
        "state": listed.state,
        "type": listed.group_type,
        "rows": [{key: _safe(value) for key, value in row.items()} for row in rows],
        "notes": notes,
        "causes": [exact_cause(each) for each in causes],
    }


async def _scopes(looking: Looking, names: list[str]) -> tuple[dict[str, GroupScope], dict[str, str]]:
    """What each group reads, and what is said of one that has nothing to read; one that may not be seen is in neither."""
    positions = await positions_of(looking, names)
    known = await described(looking.admin, list(positions))
    scopes: dict[str, GroupScope] = {}
    gone: dict[str, str] = {}
    for name, each in positions.items():
        asked = _scope_or_absence(scope_of(looking.admin, each, known.get(name), name, looking.topics))
        scope = await looking.ask(f"group {name}", asked, name)
        if isinstance(scope, GroupIdNotFound):
            gone[name] = scope.message or str(scope)
        elif scope is not None:
            scopes[name] = scope
    return scopes, gone


async def _scope_or_absence(scope: Awaitable[GroupScope]) -> GroupScope | GroupIdNotFound:
    try:
        return await scope
    except GroupIdNotFound as error:
        return error


async def why(request: Request) -> dict[str, Any]:
    """What `why GROUP -o json` prints of a group: members, positions, quota too, which no lane shows."""
    admin = await admin_of(request)
    settings: Settings = request.app.state.settings
    name = request.query_params.get("group", "")
    if not is_wire_text(name) or not name:
        raise InvalidArgument("say which group: group=NAME")
    looking = Looking(admin, await request.app.state.watch.known_topics(admin))
    facts, found, notes = await look(settings, looking, name, GROUP, CALM_MS)
    rows = [exact_cause(each) for each in rows_of(settings, facts, found)]
    return {**document(facts, found, rows, notes), "now_ms": RealClock().now_ms()}


def _safe(value: Any) -> Any:
    return exact(value) if isinstance(value, int) and not isinstance(value, bool) else value
