"""Plans: what an action would do, looked at now; done only when somebody types its name and nothing has changed since.

A console acts only with `--allow-writes`; without it there are no plans, only commands to copy. Each plan is valid for
`VALID_S`. Before it is done the coordinator and the partition are asked again: where producer id, epoch, state or start offset
differ, nothing is done, and the answer is a new plan (409). No outcome of a prepared transaction is ever suggested, and what a
coordinator owns is never aborted on one partition: there is no force here. Each deed is one line in the log.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from oncelog.cli.command import Settings
from oncelog.cli.commands.topics import partition_bounds
from oncelog.cli.durations import duration_text
from oncelog.cli.output import Failed, counted
from oncelog.cli.transactions.repair import end_as_decided, is_owned, is_prepared
from oncelog.cli.transactions.visibility import wait_until_visible
from oncelog.client.admin.admin import Admin
from oncelog.console.group_plans import RESET, look_at_reset
from oncelog.console.pages import admin_of
from oncelog.console.planned import VALID_S, Cells, Plan, Wanted, shown_table
from oncelog.console.resolve_plans import BECAME, DONE, RESOLVE, look_at_doubt, resolve
from oncelog.console.security import BODY_BYTES_MAX
from oncelog.errors import InvalidArgument, OncelogError, TransactionalIdNotFound, UnknownTopicOrPartition
from oncelog.types import PreparedTxnState, TopicPartition

log = logging.getLogger("oncelog.console")

FORCE_TERMINATE, COMPLETE, ABORT = "force-terminate", "complete", "abort"
ACTIONS = (FORCE_TERMINATE, COMPLETE, ABORT, RESET, RESOLVE)
OUTCOMES = ("commit", "abort")
# It is over, what it was about is gone, or an offset is out of range now.
GONE = (Failed, UnknownTopicOrPartition, TransactionalIdNotFound, InvalidArgument)


async def look(
    admin: Admin, settings: Settings, wanted: Wanted, ends_s: float, database_url: str | None = None
) -> Plan:
    """What it would do, as things are now. Raises Failed where it must not be done, KafkaError, InvalidArgument."""
    if wanted.action == ABORT:
        return await _abort(admin, settings, wanted, ends_s)
    if wanted.action == RESET:
        return await look_at_reset(admin, settings, wanted, ends_s)
    if wanted.action == RESOLVE:
        return await look_at_doubt(settings, database_url, wanted, ends_s)
    if wanted.action not in (FORCE_TERMINATE, COMPLETE) or not wanted.transactional_id:
        raise InvalidArgument(f"an action is one of {', '.join(ACTIONS)}, with what it is about")
    name = wanted.transactional_id
    found = (await admin.describe_transactions([name]))[name]
    state = f"{found.producer_id}:{found.producer_epoch}"
    if found.state != "Ongoing":
        raise Failed(f"{name} has no open transaction: it is {found.state}, producer {state}")
    seen = (found.state, found.producer_id, found.producer_epoch, found.start_ms)
    where = ", ".join(str(at) for at in found.partitions[:5]) + (", ..." if len(found.partitions) > 5 else "")
    told = f"transaction {state} of {name}, open for {duration_text(found.duration_ms)} on {where or 'no partition'}"
    if wanted.action == FORCE_TERMINATE:
        if is_prepared(found):
            raise Failed(f"refused: {name} waits for what was decided elsewhere", "complete it as its owner decided")
        text = (f"abort {told}", "its records stay hidden for ever; its producer is fenced; readers get on")
        command = settings.repair("transactions", FORCE_TERMINATE, "--transactional-id", name)
        return Plan(wanted, seen, name, text, command, ends_s)
    if not is_prepared(found):
        raise Failed(f"refused: {name} is not prepared: its producer is at work, or gone", "force-terminate ends it")
    if wanted.outcome not in OUTCOMES:
        raise InvalidArgument("say what was decided: outcome commit or abort")
    if wanted.state != state:
        raise Failed(f"the open transaction of {name} is {state}, not {wanted.state}", "look again")
    gain = "its records become readable" if wanted.outcome == "commit" else "its records stay hidden for ever"
    lines = (f"{wanted.outcome} {told}", gain, "if its database decided otherwise, topic and database then disagree")
    words = ("transactions", COMPLETE, "--transactional-id", name, "--state", state, f"--{wanted.outcome}")
    return Plan(wanted, seen, name, lines, settings.repair(*words), ends_s)


async def _abort(admin: Admin, settings: Settings, wanted: Wanted, ends_s: float) -> Plan:
    at = TopicPartition(wanted.topic, wanted.partition)
    if not wanted.topic or wanted.partition < 0:
        raise InvalidArgument("say which partition, and of which producer")
    if at.partition not in (await admin.describe_topics([at.topic]))[at.topic].partitions:
        raise InvalidArgument(f"there is no partition {at}")
    opened = [
        each
        for each in (await admin.describe_producers([at]))[at]
        if each.producer_id == wanted.producer_id and each.transaction_start_offset is not None
    ]
    if not opened:
        raise Failed(f"producer {wanted.producer_id} has no open transaction on {at}")
    hidden = await admin.why_owners_may_be_hidden()
    if hidden:
        raise Failed(f"refused: it may have an owner that is not seen: {'; '.join(hidden)}")
    if await is_owned(admin, at, opened[0]):
        raise Failed("refused: its coordinator still owns this transaction", "end it by its transactional id")
    producer = opened[0]
    bounds = (await partition_bounds(admin, [at]))[at]
    seen = (producer.producer_id, producer.producer_epoch, producer.transaction_start_offset)
    text = (
        f"write an ABORT marker for producer {producer.producer_id}:{producer.producer_epoch} on {at}",
        f"its transaction began at offset {producer.transaction_start_offset}; its records stay hidden for ever",
        f"{counted(bounds['blocked'], 'offset')} held back now by the first open transaction",
    )
    place = ("--topic", at.topic, "--partition", at.partition, "--start-offset", producer.transaction_start_offset)
    return Plan(wanted, seen, str(at), text, settings.repair("transactions", ABORT, *place), ends_s)


async def _do(admin: Admin, settings: Settings, plan: Plan) -> None:
    wanted = plan.wanted
    if wanted.action == ABORT:
        at = TopicPartition(wanted.topic, wanted.partition)
        await admin.abort_transaction(at, start_offset=plan.seen[2], force=False)
        return
    if wanted.action == RESET:
        await admin.alter_consumer_group_offsets(wanted.group, plan.positions)
        return
    if wanted.action == COMPLETE:
        state, commit = PreparedTxnState(wanted.state), wanted.outcome == "commit"
        await end_as_decided(settings, admin, wanted.transactional_id, state, commit=commit)
        return
    await admin.force_terminate_transaction(wanted.transactional_id)
    await wait_until_visible(admin, wanted.transactional_id)


async def plans(request: Request) -> Response | dict[str, Any]:
    """GET: whether it acts. POST: a plan."""
    state = request.app.state
    if request.method != "POST":
        return {"may_write": may_write(request)}
    if state.plans is None:
        return _read_only()
    wanted = await body_of(request, Wanted)
    plan = await look(
        await admin_of(request), state.settings, wanted, state.plans.clock() + VALID_S, state.database_url
    )
    state.plans.keep(plan)
    return plan.answer()


def may_write(request: Request) -> bool:
    """Whether this console acts, for whoever asks."""
    state = request.app.state
    return state.plans is not None and bool(state.gate.may_act(request.headers))


def _who(request: Request) -> str:
    """For the log: who, and from where."""
    user = request.app.state.gate.user_of(request.headers)
    return f"{'a session' if user is None else repr(user)} from {request.client.host if request.client else '?'}"


async def act(request: Request) -> Response | dict[str, Any]:
    """Do a plan, if its word was typed and nothing has changed; 409 with a new plan where something has."""
    state = request.app.state
    if state.plans is None:
        return _read_only()
    typed = await body_of(request, dict[str, str])
    plan: Plan = state.plans.take(request.path_params["plan_id"], typed.get("word", ""))
    admin = await admin_of(request)
    who = _who(request)
    now, why = None, ""
    try:
        now = await look(admin, state.settings, plan.wanted, state.plans.clock() + VALID_S, state.database_url)
    except GONE as error:
        why = str(error)
    if now is None or not plan.is_still_so(now):
        if now is None:  # it is over, or who knows of it does not say so now, as a database that is locked
            log.warning("%s wanted %r: nothing was done: %r", who, plan.text[0], why)
            return JSONResponse({"error": "stale", "message": f"nothing was done: {why}", "plan": None}, 409)
        state.plans.keep(now)
        log.warning("%s wanted %r, which had changed since: nothing was done", who, plan.text[0])
        message = "it has changed since you looked: nothing was done. This is what it would do now"
        return JSONResponse({"error": "stale", "message": message, "plan": now.answer()}, 409)
    try:
        if plan.wanted.action == RESOLVE:
            return _resolved(who, await resolve(state.settings, state.database_url, plan, now))
        await _do(admin, state.settings, plan)
    except (OncelogError, OSError) as error:
        log.warning("%s: %r failed: %r", who, plan.text[0], str(error))
        raise
    except (
        asyncio.CancelledError
    ):  # the console ends, and whoever asked is told so: nobody else is there to be cancelled
        message = "the console ended meanwhile: what became of it is not known here"
        log.warning("%s: %r was interrupted: %s", who, plan.text[0], message)
        return JSONResponse({"error": "interrupted", "message": message}, 503)
    log.warning("%s: done: %r", who, plan.text[0])
    return {"done": plan.text[0]}


def _resolved(who: str, rows: Cells) -> Response | dict[str, Any]:
    """What became of each, with a line in the log for each."""
    for name, state, became, why in rows:
        log.warning("%s: resolve: transaction %s of %r: %s %r", who, state, name, became, why)
    told = ", ".join(f"{became} {sum(each[2] == became for each in rows)}" for became in DONE)
    left = sum(each[2] not in DONE for each in rows)
    if not left:
        return {"done": told, **shown_table(BECAME, rows)}
    message = f"{told}; {counted(left, 'transaction')} not ended: each row says why"
    return JSONResponse({"error": "partial", "message": message, **shown_table(BECAME, rows)}, 502)


def _read_only() -> Response:
    message = "this console only reads: start it with --allow-writes, or copy the command"
    return JSONResponse({"error": "refused", "message": message}, 403)


async def body_of(request: Request, kind: type[Any]) -> Any:
    """A POST's JSON. Raises InvalidArgument."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_BYTES_MAX:
            raise InvalidArgument("too long")
    try:
        return msgspec.json.decode(bytes(body), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidArgument(f"that is not what is needed: {error}") from error
