"""The pages Transactional id and Decisions: what became of an id, and what Spark queries decided.

The first is `oncelog transactions history` with the verdict of `oncelog why` for what is open now; the second replays the
decision topic as the sink's recovery does, and says of each winner whether its transaction is still there to be committed.
"""

from __future__ import annotations

import json
from collections import deque
from typing import Any

from starlette.requests import Request

from oncelog.cli.audit import audit_entries
from oncelog.cli.clients import open_admin
from oncelog.cli.commands.topics import NO_BOUNDS, partition_bounds
from oncelog.cli.hidden import TRANSACTIONAL_IDS
from oncelog.cli.output import error_name
from oncelog.cli.reading import records_since
from oncelog.cli.transactions.history import COMPACTED, WHO_IS_NOT_KEPT, audited, states
from oncelog.cli.transactions.show import transaction_row
from oncelog.cli.transactions.verdicts import verdict_of
from oncelog.cli.unreadable import unread_row
from oncelog.cli.why.looking import Looking
from oncelog.client.admin.admin import Admin
from oncelog.client.admin.hanging import PROBE_ID
from oncelog.client.admin.owners import described_if_known
from oncelog.client.admin.topics import TRANSACTIONS_TOPIC
from oncelog.client.arguments import is_wire_text
from oncelog.console.answers import exact
from oncelog.console.group_judging import rights_rows
from oncelog.console.judging import Judge
from oncelog.console.pages import admin_of
from oncelog.console.unseen import as_row, unseen
from oncelog.core.diagnosis.facts import PartitionFacts
from oncelog.core.metadata.topic_configs import AUDIT_TOPIC
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.sink_names import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX
from oncelog.errors import InvalidArgument, KafkaError, MalformedMessage, UnknownTopicOrPartition
from oncelog.host.clock import RealClock
from oncelog.types import TopicPartition

ROWS_MAX = 500
IDS_MAX = 200
DECISIONS_MAX = 500
DECISION_RECORDS_MAX = 200_000


async def history(request: Request) -> dict[str, Any]:
    """With `id` its life; without one the ids that contain `contains`, open ones first."""
    admin, asked = await admin_of(request), request.query_params
    name = asked.get("id", "")
    if not name:
        return await _listed(admin, asked.get("contains", ""))
    if not is_wire_text(name):
        raise InvalidArgument("that is no name that can be sent")
    settings = request.app.state.settings
    rows: deque[dict[str, Any]] = deque(maxlen=ROWS_MAX)
    notes, missing = [], []
    try:
        rows.extend(await states(settings, admin, name, None))
        notes += [COMPACTED] if rows else []
    except (KafkaError, MalformedMessage) as error:
        missing.append(_missing(TRANSACTIONS_TOPIC, error))
    try:
        async for each in audit_entries(settings, admin, None):
            if each.get("transactional_id") == name:
                rows.append(audited(each))
    except UnknownTopicOrPartition:
        notes.append(WHO_IS_NOT_KEPT)
    except KafkaError as error:
        missing.append(_missing(AUDIT_TOPIC, error))
    known = await described_if_known(admin, name)
    now = None if name not in known else transaction_row(known[name])
    causes, verdict, unseen = await _causes(request, admin, name, known)
    shown = sorted(rows, key=lambda each: each["time_ms"])
    for row in shown:
        row["producer_id"] = exact(row["producer_id"])
    if now is not None:
        now = {key: exact(value) if isinstance(value, int) else value for key, value in now.items()}
    more = {"rows": shown, "notes": notes, "not_read": [*missing, *unseen], "causes": causes, "verdict": verdict}
    return {"id": name, "now": now, "now_ms": RealClock().now_ms(), **more}


def _missing(what: str, error: KafkaError | MalformedMessage) -> dict[str, str]:
    if isinstance(error, KafkaError):
        return unread_row(what, error)
    return {"what": what, "error": error_name(error), "why": str(error)}


async def _listed(admin: Admin, part: str) -> dict[str, Any]:
    found = [each for each in await admin.list_transactions() if part in each.transactional_id]
    found.sort(key=lambda each: (each.state in ("Empty", "CompleteCommit", "CompleteAbort"), each.transactional_id))
    rows = [
        {"transactional_id": each.transactional_id, "producer_id": exact(each.producer_id), "state": each.state}
        for each in found[:IDS_MAX]
    ]
    hidden = await admin.why_owners_may_be_hidden()  # brokers leave out what one may not see, and say nothing of it
    missing = [{"what": "some transactional ids", "error": "HIDDEN", "why": each} for each in hidden]
    return {"id": None, "rows": rows, "count": len(found), "not_read": missing, "now_ms": RealClock().now_ms()}


async def _causes(
    request: Request, admin: Admin, name: str, known: dict[str, Any]
) -> tuple[list[dict[str, Any]], dict[str, Any] | None, list[dict[str, str]]]:
    """What `why` says of the partitions that its open transaction is on, where it holds somebody back there for long, and what
    `transactions explain` says of the transaction, however young."""
    where = list(known[name].partitions)[:IDS_MAX] if name in known and known[name].state == "Ongoing" else []
    if not where:
        return [], None, []
    state = request.app.state
    judge = getattr(state, "history_judge", None)
    if judge is None:
        judge = state.history_judge = Judge(state.settings)
    views = await request.app.state.watch.known_topics(admin)
    unreadable: dict[TopicPartition, KafkaError] = {}
    bounds = await partition_bounds(admin, where, unreadable=unreadable)
    facts = []
    for at in where:
        each = bounds.get(at, NO_BOUNDS)
        error = error_name(unreadable[at]) if at in unreadable else None
        facts.append(
            PartitionFacts(at, each["log_start"], each["last_stable_offset"], each["high_watermark"], error=error)
        )
    found = await judge.look(admin, views, facts, RealClock().now_ms())
    rows = [each for each in found.causes if each["transactional_id"] == name]
    told = [row | {key: exact(row[key]) for key in ("producer_id", "start_offset", "blocked")} for row in rows]
    mine = next((each for each in found.open if each.owner is not None and each.owner.transactional_id == name), None)
    if mine is None:
        return told, None, list(found.not_read)
    judged = verdict_of(state.settings, mine, found.hidden)
    verdict = {"verdict": judged.kind, "why": judged.why, "advice": judged.advice, "repair": judged.repair or None}
    return told, verdict, list(found.not_read)


async def decisions(request: Request) -> dict[str, Any]:
    """Batches in the order of their records: decided, done, what became of the winners; vetoes; orphans that are open."""
    asked, settings = request.query_params, request.app.state.settings
    topic, prefix = asked.get("topic", "") or DECISION_TOPIC, asked.get("prefix", "") or TRANSACTIONAL_ID_PREFIX
    admin = await admin_of(request)
    views = await request.app.state.watch.known_topics(admin)
    missing, causes = await unseen(admin, TRANSACTIONAL_IDS, probe_id=f"{prefix}.{PROBE_ID}"), []
    if topic not in views:
        asked_of = Looking(admin, views)
        await asked_of.ask(f"topic {topic}", admin.describe_topics([topic]), topic, absent=(UnknownTopicOrPartition,))
        missing, causes = asked_of.not_read + missing, rights_rows(settings, asked_of.not_read)
    answer: dict[str, Any] = {"topic": topic, "prefix": prefix, "has_topic": topic in views, "notes": []}
    answer |= {"not_read": [as_row(each) for each in missing], "causes": causes}
    if topic not in views:
        return answer | {"rows": [], "count": 0, "vetoes": [], "orphans": [], "now_ms": RealClock().now_ms()}
    log, vetoes, count = sink.DecisionLog(), dict[tuple[str, str, str], None](), 0
    async with open_admin(settings) as reader:
        for number in sorted(views[topic].partitions):
            async for record in records_since(settings, reader, TopicPartition(topic, number)):
                count += 1
                if count > DECISION_RECORDS_MAX:
                    answer["notes"].append(f"only the first {DECISION_RECORDS_MAX} records were read")
                    break
                _apply(log, vetoes, record.key or b"", record.value, answer["notes"])
    decided = log.decided()
    opened = [each.transactional_id for each in await admin.list_transactions(states=["Ongoing"])]
    everything = [each for each, _ in decided]
    orphans = {
        name: decision.query_id
        for decision in {each.query_id: each for each in everything}.values()
        for name in sink.orphans_after_decision(prefix, decision, opened, everything)
    }
    shown = decided[-DECISIONS_MAX:][::-1]
    waiting = [w.transactional_id for each, is_done in shown if not is_done for w in each.winners if not w.is_empty]
    states_now = await described_if_known(admin, *waiting[:IDS_MAX]) if waiting else {}
    rows = [_decision(each, states_now, is_done=is_done) for each, is_done in shown]
    answer |= {"rows": rows, "count": len(decided), "orphans": sorted(orphans.items())[:IDS_MAX]}
    answer["vetoes"] = list(vetoes)[-IDS_MAX:]
    answer["command"] = settings.repair("recover", "--prefix", prefix, "--dry-run")
    return answer | {"now_ms": RealClock().now_ms()}


def _apply(
    log: sink.DecisionLog, vetoes: dict[tuple[str, str, str], None], key: bytes, value: bytes | None, notes: list[str]
) -> None:
    try:
        log.apply(key, value)
        parts = json.loads(key)
    except (ValueError, TypeError, KeyError, RecursionError) as error:  # somebody else's record in that topic
        if len(notes) < 8:
            notes.append(f"a record that is no decision of ours: {error}")
        return
    if isinstance(parts, list) and len(parts) == 4 and parts[2] == sink.VETO:
        name = (str(parts[0]), str(parts[1]), str(parts[3]))
        if value is None:
            vetoes.pop(name, None)
        else:
            vetoes[name] = None


def _decision(decision: sink.BatchDecision, now: dict[str, Any], *, is_done: bool) -> dict[str, Any]:
    winners = [each for each in decision.winners if not each.is_empty]
    told = [
        (each.transactional_id, "done" if is_done else _fate(each, now.get(each.transactional_id))) for each in winners
    ]
    return {
        "query": decision.query_id,
        "batch": decision.batch_id,
        "run": decision.run_id,
        "state": "done" if is_done else "gone" if any(fate == "gone" for _, fate in told) else "decided",
        "winners": [[name, fate] for name, fate in told[:IDS_MAX]],
        "winner_count": len(winners),
        "records": sum(each.row_count for each in decision.winners),
    }


def _fate(winner: sink.Attempt, found: Any) -> str:
    """Of a decided winner that is not marked done: open (to be committed), committed, or gone, which recovery looks into."""
    if found is None:
        return "gone"
    now = f"{found.producer_id}:{found.producer_epoch}"
    if found.state == "Ongoing":
        return "open" if now in (winner.prepared_state, winner.acting_state) else "gone"
    return "committed" if found.state.endswith("Commit") else "gone"
