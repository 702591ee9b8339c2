"""A plan that ends what is in doubt as its database says: `oncelog transactions resolve --from database`, by the same functions.

Only with a database: without one nobody knows an outcome, and none is suggested. What the database has never seen is another's
and is left alone. When the plan is done the database and the coordinators are asked again, and only what is as it was shown is
ended; each by the recipe's own recovery, which asks once more. One that fails keeps no other from being tried.
"""

from __future__ import annotations

import asyncio

from oncelog.cli.command import Settings
from oncelog.cli.durations import duration_text
from oncelog.cli.output import Failed
from oncelog.cli.transactions.plan import ABORT, COMMIT, LEAVE, Planned
from oncelog.cli.transactions.plan import Plan as Found
from oncelog.cli.transactions.resolve import DATABASE, Sources, carried_out, planned_from
from oncelog.console.planned import Cells, Plan, Wanted
from oncelog.errors import InvalidArgument

RESOLVE = "resolve"
COLUMNS = ("transactional id", "database says", "will be", "transaction", "open for")
BECAME = ("transactional id", "transaction", "became", "why")
DATABASE_TIMEOUT_S = 30.0
RESOLVED_S = 300.0  # a database that hangs must not keep its answer for ever
DONE = ("committed", "aborted")
SAYS = {COMMIT: "commit", ABORT: "abort", LEAVE: "not-here"}  # as `transactions in-doubt` does
WILL_BE = {COMMIT: "committed", ABORT: "aborted", LEAVE: "left as it is"}
CHANGED = "it has changed since you looked"


async def look_at_doubt(settings: Settings, database_url: str | None, wanted: Wanted, ends_s: float) -> Plan:
    """Everything that is in doubt, or one. Raises InvalidArgument without a database, Failed where it decides nothing."""
    if database_url is None:
        raise InvalidArgument(
            "nobody here knows what was decided: start the console with --database URL, or ask the owner"
        )
    only = (wanted.transactional_id,) if wanted.transactional_id else ()
    sources = Sources(database_url, only=only)
    try:
        async with asyncio.timeout(DATABASE_TIMEOUT_S):
            found, hidden = await asyncio.to_thread(planned_from, settings, sources)
    except TimeoutError as error:
        raise Failed(f"the database has not answered in {DATABASE_TIMEOUT_S:g} s", "look again") from error
    decided = found.decided()
    if not decided:
        raise Failed(
            "this database decides nothing that is in doubt: it has never seen its transactional id", "ask the owner"
        )
    counts = [f"{verb} {sum(each.decision == verb for each in decided)}" for verb in (COMMIT, ABORT)]
    left = len(found.rows) - len(decided)
    text = (
        f"{', '.join(counts)} as the database says, leave {left} as they are",
        "an instance that still lives is fenced, and the database is asked once more before each is ended",
        *(f"there may be more that is in doubt: {why}" for why in hidden),
    )
    rows = [
        (each.transactional_id, SAYS[each.decision], WILL_BE[each.decision], each.state, _age(each))
        for each in found.rows
    ]
    command = resolve_command(settings, *(("--transactional-id", only[0]) if only else ()))
    word = only[0] if only else RESOLVE
    seen = tuple(map(_seen, decided))
    return Plan(wanted, seen, word, text, command, ends_s, COLUMNS, tuple(rows), decided=tuple(decided))


def resolve_command(settings: Settings, *more: str) -> str:
    """The same to type. A database's URL may hold a password: it is never shown."""
    return settings.repair("transactions", RESOLVE, "--from", DATABASE, "--database", "URL", *more)


def _age(each: Planned) -> str:
    return duration_text(each.found.duration_ms)


def _seen(each: Planned) -> tuple[str, str, str]:
    return each.transactional_id, str(each.state), each.decision


async def resolve(settings: Settings, database_url: str, plan: Plan, now: Plan) -> Cells:
    """What became of each of the plan, as rows of `BECAME`. What is not as it was shown is left as it is."""
    unchanged = [each for each in now.decided if _seen(each) in plan.seen]
    try:
        async with asyncio.timeout(RESOLVED_S):
            results = await carried_out(settings, Sources(database_url), Found(unchanged))
    except TimeoutError as error:
        text = f"the database takes longer than {RESOLVED_S:g} s: what has been ended is not known here"
        raise Failed(text, "look again; to do it once more is harmless") from error
    return tuple((name, state, *_became(decision, results.get(name))) for name, state, decision in plan.seen)


def _became(decision: str, result: str | None) -> tuple[str, str]:
    if result is None:
        return "left as it is", CHANGED
    if result not in DONE:
        return "failed", result.removeprefix("failed: ")
    return result, "" if result == WILL_BE[decision] else "that is what the database said when it was asked once more"
