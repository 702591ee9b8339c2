"""The exactly-once sink's decisions (docs/spark.md): what a driver may do with the transactions of a micro-batch.

Every task attempt writes in a transaction of its own, under an id that no other process ever has (transactional_ids.py). One
decision per (query, batch) names the winners: the first such record in the log of decisions stands, whatever follows it.
Three rules must hold: nothing is completed before the decision is durable; once it is durable everything only rolls
forward; orphans are ended only after the decision or a veto (from then on no other process, however late, can make
those ids win).
"""

from __future__ import annotations

import hashlib
import heapq
import json
import re
from bisect import insort
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace

from oncelog.core.two_phase.decision_homes import NOT_SAID, attempt_and_home, attempt_text
from oncelog.core.two_phase.transactional_ids import leased_name
from oncelog.lazy_dataclass import dataclass

DECISION, VETO, DONE = "decision", "veto", "done"
ANY_BATCH = "*"  # a veto of a run in all batches that are not decided
BATCH_WRITE_PREFIX = "app@"  # query ids of batch writes with txnAppId: application and destination
LEGACY_BATCH_WRITE_PREFIX = "app-"  # the same as earlier versions named them: the application alone
JOB_PREFIX = "job-"  # query ids of batch writes without txnAppId
VERSIONS_KEPT = 1000  # decisions of one txnAppId and destination that are remembered one by one
TOPICS_REMEMBERED_MAX = 1000  # in a decision of rows that a column sends to topics; of more none is
QUERY_ID_LENGTH_MAX = 200  # of the column in a database
DIGITS_MAX = 40  # of a batch's number: the length of that column
SPARK_QUERY_ID = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
COMMITTED_STATES = ("PrepareCommit", "CompleteCommit")


@dataclass(frozen=True, slots=True)
class Attempt:
    """What a task attempt reports: its transaction, prepared as `prepared_state` ("producerId:epoch"), and its size."""

    transactional_id: str
    prepared_state: str
    row_count: int = 0
    topics: frozenset[str] = field(default=frozenset(), compare=False)  # of its rows, where a column names them
    # What ends it ("producerId:epoch"), where it was kept (KIP-939) and `prepared_state` only names it; else empty.
    acting_state: str = ""
    byte_count: int = field(default=0, compare=False)  # of keys and values; told, not decided by

    @property
    def is_empty(self) -> bool:
        """An attempt without records opened no transaction."""
        return not self.transactional_id


@dataclass(frozen=True, slots=True)
class BatchDecision:
    """The record that decides a batch: these attempts win, whatever happens to the process that wrote it."""

    query_id: str
    batch_id: str
    run_id: str
    winners: tuple[Attempt, ...]
    # Where the winners' rows went, in a write whose topics come from a column; empty where the option names the topic.
    topics: tuple[str, ...] = ()
    # When Spark planned the batch (ms), which is the same however often it runs; empty where that cannot be seen.
    planned_ms: str = ""


@dataclass(frozen=True, slots=True)
class KnownRecords:
    """What the decision store holds of one (query, batch). Vetoed runs are known by the start of their id, as attempts are;
    two runs that share it are refused together, which costs a rerun and loses nothing."""

    decision: BatchDecision | None = None
    vetoed_runs: frozenset[str] = frozenset()
    is_done: bool = False
    # Later batches of the query are decided, and this one's record may be forgotten: nobody may decide it (anew).
    is_superseded: bool = False
    # Whether any batch of the query is decided here.
    has_history: bool = False


@dataclass(frozen=True, slots=True)
class Decide:
    """Append this decision; the first of its batch in the log stands, and its winners are completed."""

    decision: BatchDecision


@dataclass(frozen=True, slots=True)
class RollForward:
    """The batch was decided before: complete the winners of that decision, not the ones just reported."""

    decision: BatchDecision


@dataclass(frozen=True, slots=True)
class Veto:
    """Forbid this run to decide the batch; afterwards its own attempts may be ended."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Refuse:
    """This run may not decide; the caller fails, and the engine runs the batch again."""

    reason: str


@dataclass(frozen=True, slots=True)
class LeaveToSweep:
    """Nothing is known of the run that failed: the next decision's sweep ends what it left."""


def transactional_id_for(
    prefix: str,
    query_id: str,
    batch_id: str,
    partition: int,
    run_id: str,
    task_attempt_id: int,
    home: str = NOT_SAID,
) -> str:
    """The id of one task attempt; unique, as task attempt ids are within a run and run ids are by themselves.

    Args:
        prefix: the option transactionalIdPrefix, without a dot.
        query_id: the whole id: a sweep goes by it, and a shortened one could end another query's transactions.
        home: where it is decided (decision_homes.py).
    """
    attempt = attempt_text(task_attempt_id, home)
    return f"{prefix}.{query_id}.{batch_id}.{partition}.{run_start(run_id)}.{attempt}"


def run_start(run_id: str) -> str:
    """The part of a run's id that its attempts carry."""
    return run_id[:8]


@dataclass(frozen=True, slots=True)
class AttemptName:
    """What a transactional id of the sink says of its attempt."""

    query_id: str
    batch_id: str
    partition: int
    run_start: str
    task_attempt_id: int
    decision_home: str = NOT_SAID


def attempt_name(prefix: str, transactional_id: str) -> AttemptName | None:
    """The parts of an id made by `transactional_id_for`, or None where it is not one of this prefix."""
    parts = transactional_id.split(".")
    if len(parts) != 6 or parts[0] != prefix:
        return None
    partition = batch_number(parts[3])
    if partition is None or batch_number(parts[5]) is None:
        return None
    return AttemptName(parts[1], parts[2], partition, parts[4], *attempt_and_home(parts[5]))


def batch_write_query_id(application_id: str, topic: str | None, cluster_id: str = "") -> str:
    """What the decisions of a batch write with txnAppId are kept under: one write is one version *to one destination*.

    Args:
        topic: the option's; None where topics come from a column. What topics these are is known only from the rows, so
            they are one destination, and `unwritten_topics` finds a second write of a version to others.
        cluster_id: the destination's, where decisions of several clusters can meet (in a database); else empty.
    """
    parts = [application_id, topic or "", *([cluster_id] if cluster_id else [])]
    name = BATCH_WRITE_PREFIX + "@".join(_escaped(part) for part in parts)
    if len(name) <= QUERY_ID_LENGTH_MAX:
        return name
    return f"{BATCH_WRITE_PREFIX}{hashlib.sha256(name.encode()).hexdigest()}"  # has one '@': like no name from above


def legacy_batch_write_query_id(application_id: str) -> str:
    """What earlier versions kept them under, whatever the destination. Such a decision is honoured for all of them."""
    return f"{LEGACY_BATCH_WRITE_PREFIX}{application_id}"


def is_named(query_id: str, wanted: str) -> bool:
    """Whether somebody who says `wanted` means this query: its id, or the txnAppId of a batch write to any destination."""
    batch_write = f"{BATCH_WRITE_PREFIX}{_escaped(wanted)}@"
    return query_id in (wanted, legacy_batch_write_query_id(wanted)) or query_id.startswith(batch_write)


def described_batch_write(query_id: str, batch_id: str) -> str | None:
    """A batch write in words, by the names that its user gave it; None for a query."""
    if query_id.startswith(JOB_PREFIX):
        return f"a batch write without txnAppId ({query_id})"
    words = _batch_write_in_words(query_id)
    return None if words is None else f"version {batch_id} of {words}"


def _batch_write_in_words(query_id: str) -> str | None:
    if query_id.startswith(LEGACY_BATCH_WRITE_PREFIX):
        return f"batch write {query_id.removeprefix(LEGACY_BATCH_WRITE_PREFIX)!r}"
    if not query_id.startswith(BATCH_WRITE_PREFIX):
        return None
    application, *where = [
        part.replace("%2E", ".").replace("%40", "@").replace("%25", "%")
        for part in query_id.removeprefix(BATCH_WRITE_PREFIX).split("@")
    ]
    topic = f" to topic {where[0]!r}" if where and where[0] else ""
    return f"batch write {application!r}{topic}"


def _escaped(part: str) -> str:
    return part.replace("%", "%25").replace("@", "%40").replace(".", "%2E")  # dots separate the parts of an id


def unwritten_topics(decision: BatchDecision, topics: Iterable[str]) -> list[str]:
    """Topics of rows that would be taken for written by a decision that never wrote to them."""
    return sorted(set(topics) - set(decision.topics)) if decision.topics else []


def on_commit(
    known: KnownRecords, query_id: str, batch_id: str, run_id: str, attempts: Iterable[Attempt]
) -> Decide | RollForward | Refuse:
    """What `commit(batch)` does: the first decision stands; a run that was vetoed may not make one."""
    if known.decision is not None:
        return RollForward(known.decision)
    winners = tuple(attempt for attempt in attempts if not attempt.is_empty)
    decision = BatchDecision(query_id, batch_id, run_id, winners, _topics(query_id, winners))
    if known.is_superseded or run_start(run_id) in known.vetoed_runs:
        return refusal(known, decision)
    return Decide(decision)


def is_of_query(prefix: str, query_id: str, transactional_id: str) -> bool:
    """Whether an id of the sink belongs to a query. Spark makes the ids of queries, unique, so whatever prefix one had before,
    that id is its own; a name that somebody chose may be another application's, under another prefix."""
    its_prefix = transactional_id.partition(".")[0]
    name = leased_name(its_prefix, transactional_id) or attempt_name(its_prefix, transactional_id)
    is_its_prefix = its_prefix == prefix or re.fullmatch(SPARK_QUERY_ID, query_id) is not None
    return name is not None and name.query_id == query_id and is_its_prefix


def decided_elsewhere(prefix: str, query_id: str, states: Mapping[str, str]) -> Refuse | None:
    """Whether a query of which nothing is decided here (`has_history`) decides somewhere else: with another decisionTopic or
    decisionUrl than before. The batch that comes may be one that it decided there, and would be written twice.

    Args:
        states: of transactions, by id. Only a decision commits one of the sink's.
    """
    committed = committed_ids(prefix, query_id, states)
    if not committed:
        return None
    return Refuse(
        f"{in_words(query_id)} has committed transactions on this cluster ({committed[0]}), and no decision of it is kept here: "
        "it keeps its decisions somewhere else, and this batch may be among them. Go on with the decisionTopic, decisionUrl or "
        "database of before, or begin a new query (a new checkpoint, txnAppId or query_id)"
    )


def committed_ids(prefix: str, query_id: str, states: Mapping[str, str]) -> list[str]:
    """Those of a query that were committed, which only a decision does; `states` are of transactions, by id."""
    return [i for i, state in states.items() if state in COMMITTED_STATES and is_of_query(prefix, query_id, i)]


def in_words(query_id: str) -> str:
    """A query, or a batch write by the names that its user gave it."""
    return _batch_write_in_words(query_id) or f"query {query_id}"


def refusal(known: KnownRecords, decision: BatchDecision) -> Refuse:
    """Why a decision that was proposed does not stand, nor any other."""
    if known.is_superseded:
        return Refuse(superseded_reason(decision.query_id, decision.batch_id))
    return Refuse(f"run {decision.run_id} was vetoed for batch {decision.batch_id}: its attempts may have been ended")


def _topics(query_id: str, winners: Iterable[Attempt]) -> tuple[str, ...]:
    if not query_id.startswith(BATCH_WRITE_PREFIX):
        return ()
    topics = sorted({topic for winner in winners for topic in winner.topics})
    return tuple(topics) if len(topics) <= TOPICS_REMEMBERED_MAX else ()


def superseded_reason(query_id: str, batch_id: str) -> str:
    """Why a batch that is superseded may not be decided, and the way out."""
    if query_id.startswith(BATCH_WRITE_PREFIX):
        return (
            f"txnVersion {batch_id} is older than the last {VERSIONS_KEPT} that were written, and whether it was one of those "
            "before them is not remembered: nothing is written; use another txnAppId if it never was"
        )
    return (
        f"batch {batch_id} was decided and forgotten long ago: another driver of this query is ahead "
        "(two queries may not share a checkpoint, nor a copy of one)"
    )


def on_claim(
    query_id: str, owner: str | None, spark_query_id: str | None, batch_id: str, decided_batch_ids: Iterable[str]
) -> Refuse | None:
    """Whether a query may use a `query_id` that somebody chose for it (a dual write); None: it may.

    Args:
        owner: the Spark query that used it first (Spark's id, kept in the checkpoint); None where nobody wrote it down.
        spark_query_id: the one that asks; None where Spark does not say (foreachBatch of a Connect session).
    """
    if owner is not None and spark_query_id is not None:
        if owner == spark_query_id:
            return None
        return Refuse(
            f"query_id {query_id!r} belongs to the Spark query {owner} (see `metadata` in its checkpoint); this one is "
            f"{spark_query_id}, with a checkpoint of its own, and its batches would be taken for that one's. Go on with that "
            "checkpoint, or give this query a query_id of its own"
        )
    newest = oldest_kept(query_id, decided_batch_ids)
    if not is_below(batch_id, newest):
        return None
    return Refuse(
        f"query_id {query_id!r} has decided batch {newest}, and this is batch {batch_id}: a query with a new checkpoint, or "
        "another driver of this query is ahead. Go on with the checkpoint of before, or give this query a query_id of its own"
    )


def on_abort(known: KnownRecords, run_id: str | None) -> RollForward | Veto | LeaveToSweep:
    """What `abort(batch)` does. Spark calls it after a failed commit with the very same messages, so a decision that is
    there is honoured: ending its transactions would lose a decided batch."""
    if known.decision is not None:
        return RollForward(known.decision)
    return Veto(run_id) if run_id else LeaveToSweep()


def orphans_after_decision(
    prefix: str, decision: BatchDecision, open_ids: Iterable[str], decided: Iterable[BatchDecision] = ()
) -> list[str]:
    """The open transactions of the query that can no longer win, now that this decision is durable.

    Args:
        decided: the query's other decisions, read after this one was durable. A batch write of an earlier version may be
            decided and not yet completed, its driver dead: its winners are no orphans. Undecided it can no longer win.
    """
    all_decided = [decision, *decided]
    winners = {attempt.transactional_id for each in all_decided for attempt in each.winners}
    mine = {each.batch_id for each in all_decided if each.query_id == decision.query_id}
    floor = oldest_kept(decision.query_id, mine)
    orphans = []
    for transactional_id in open_ids:
        name = attempt_name(prefix, transactional_id)
        if name is None or name.query_id != decision.query_id or transactional_id in winners:
            continue
        # A version that is neither may be a backfill that is being written now.
        if name.batch_id in mine or is_below(name.batch_id, floor):
            orphans.append(transactional_id)
    return orphans


def kept_count(query_id: str) -> int:
    """How many of a query's newest decisions always stay. A stream's batches are decided one after the other, and its newest
    decision tells a driver that slept through many batches that its own is over. Versions of a batch write come in any
    order (a backfill)."""
    return VERSIONS_KEPT if query_id.startswith(BATCH_WRITE_PREFIX) else 1


def leased_orphans(
    prefix: str, query_id: str, open_states: Mapping[str, str], decided: Iterable[BatchDecision]
) -> dict[str, str]:
    """Open transactions, under ids that are used again, that no decision names: id -> state ("producerId:epoch").

    Their ids do not say of which batch they are. Read `open_states` first, then `decided`, then whether the newest batch is
    still not done: in that case no later batch had begun when they were read, and each of them may be ended, *as this state*.
    """
    winners = {(w.transactional_id, w.prepared_state) for each in decided for w in each.winners}
    orphans = {}
    for transactional_id, state in open_states.items():
        name = leased_name(prefix, transactional_id)
        if name is not None and name.query_id == query_id and (transactional_id, state) not in winners:
            orphans[transactional_id] = state
    return orphans


def earlier_versions(prefix: str, decision: BatchDecision, open_ids: Iterable[str]) -> list[str]:
    """Open transactions of versions of the same batch write below the one that is decided. What is no orphan among them
    may still be written by a live job; where it is old, a job that was killed left it."""
    number = batch_number(decision.batch_id)
    if not decision.query_id.startswith(BATCH_WRITE_PREFIX) or number is None:
        return []
    names = [(i, attempt_name(prefix, i)) for i in open_ids]
    return [
        i
        for i, name in names
        if name is not None and name.query_id == decision.query_id and is_below(name.batch_id, number)
    ]


def batch_number(batch_id: str) -> int | None:
    """A batch's place among its query's; None for a version that is no number. A text of somebody's choice: digits of other
    scripts, and more digits than Python reads, are no number either."""
    is_number = batch_id.isascii() and batch_id.isdigit() and len(batch_id) <= DIGITS_MAX
    return int(batch_id) if is_number else None


def oldest_kept(query_id: str, decided_batch_ids: Iterable[str]) -> int | None:
    """The number below which the query's batches are over: undecided they can no longer be decided, decided they may be
    forgotten. None where all are remembered. Ids that are no numbers are never over."""
    count = kept_count(query_id)
    numbers = (batch_number(batch_id) for batch_id in decided_batch_ids)
    newest = heapq.nlargest(count, (number for number in numbers if number is not None))
    return newest[-1] if len(newest) == count else None


def is_below(batch_id: str, floor: int | None) -> bool:
    """Whether a batch is over, by `oldest_kept`."""
    number = batch_number(batch_id)
    return floor is not None and number is not None and number < floor


def may_be_forgotten(older: BatchDecision, is_done: bool, floor: int | None) -> bool:
    """Whether the record of `older` may go, `floor` being its query's `oldest_kept`. Batch writes of an earlier version of the
    sink keep theirs: they are honoured for any destination."""
    return is_done and is_below(older.batch_id, floor) and not older.query_id.startswith(LEGACY_BATCH_WRITE_PREFIX)


def orphans_after_veto(prefix: str, query_id: str, batch_id: str, run_id: str, open_ids: Iterable[str]) -> list[str]:
    """The open transactions of the vetoed run in this batch; other runs may still win. The run is at this batch, so its ids
    that it uses again have nothing of a later one."""
    orphans = []
    for transactional_id in open_ids:
        leased = leased_name(prefix, transactional_id)
        if leased is not None and (leased.query_id, leased.run_start) == (query_id, run_start(run_id)):
            orphans.append(transactional_id)
        name = attempt_name(prefix, transactional_id)
        if name is not None and (name.query_id, name.batch_id, name.run_start) == (
            query_id,
            batch_id,
            run_start(run_id),
        ):
            orphans.append(transactional_id)
    return orphans


def winners_at_risk(remaining_ms: dict[str, int | None], winners: Sequence[Attempt], margin_ms: int) -> list[str]:
    """The winners that could time out before they are completed (backend *resumed*).

    Args:
        remaining_ms: per transactional id how long its transaction stays open; None where it is no longer open.
    """
    risky = []
    for winner in winners:
        left = remaining_ms.get(winner.transactional_id)
        if left is None or left < margin_ms:
            risky.append(winner.transactional_id)
    return risky


# --- the records of the decision topic: compacted, key and value are JSON (docs/spark.md "Decision topic")


def record_key(query_id: str, batch_id: str, kind: str, run_id: str) -> bytes:
    """The key of one record. It carries the run, so that compaction never drops the first decision for a later one."""
    return json.dumps([query_id, batch_id, kind, run_id], separators=(",", ":")).encode()


def decision_value(decision: BatchDecision) -> bytes:
    """The value of a decision record."""
    winners = [[w.transactional_id, w.prepared_state, w.row_count] for w in decision.winners]
    content: dict[str, object] = {"v": 1, "run": decision.run_id, "winners": winners}
    if decision.topics:
        content["topics"] = decision.topics
    if decision.planned_ms:
        content["planned"] = decision.planned_ms
    # Apart: an earlier version, which does not know it, takes the transaction over instead, and commits it all the same.
    acting = {w.transactional_id: w.acting_state for w in decision.winners if w.acting_state}
    if acting:
        content["acting"] = acting
    return json.dumps(content, separators=(",", ":")).encode()


def decision_from_value(query_id: str, batch_id: str, value: bytes) -> BatchDecision:
    """Reads `decision_value`. Raises ValueError on another format."""
    content = json.loads(value)
    if not isinstance(content, dict) or content.get("v") != 1:
        raise ValueError(f"a decision of an unknown format for query {query_id} batch {batch_id}")
    acting = content.get("acting", {})
    winners = tuple(
        Attempt(str(i), str(state), int(count), acting_state=str(acting.get(i, "")))
        for i, state, count in content["winners"]
    )
    topics = tuple(str(topic) for topic in content.get("topics", ()))
    return BatchDecision(query_id, batch_id, str(content["run"]), winners, topics, str(content.get("planned", "")))


class DecisionLog:
    """The decision topic's content, record by record in log order. The first decision of a batch stands."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], KnownRecords] = {}
        self._decided: set[str] = set()  # queries
        self._newest: dict[str, list[int]] = {}  # query -> its newest decided batches that always stay, growing
        self._keys: dict[str, dict[str, dict[bytes, tuple[str, str]]]] = {}  # query -> batch -> key -> (kind, run)

    def knows(self, query_id: str) -> bool:
        """Whether there is any record of a query."""
        return bool(self._keys.get(query_id))

    def apply(self, key: bytes, value: bytes | None) -> str | None:
        """Take one record of the topic; gives its query. Records of other writers (keys not ours) are passed over: None."""
        try:
            query_id, batch_id, kind, run_id = json.loads(key)
        except (ValueError, TypeError, RecursionError):
            return None
        where = (str(query_id), str(batch_id))
        before = self._known.get(where, KnownRecords())
        if value is None:
            if kind == DECISION and before.decision is not None and before.decision.run_id == run_id:
                self._known.pop(where, None)
            self._drop_key(*where, key)
            return None
        self._keys.setdefault(where[0], {}).setdefault(where[1], {})[key] = (str(kind), str(run_id))
        self._apply(where, before, str(kind), str(run_id), value)
        return where[0]

    def _drop_key(self, query_id: str, batch_id: str, key: bytes) -> None:
        batches = self._keys.get(query_id, {})
        batches.get(batch_id, {}).pop(key, None)
        if not batches.get(batch_id):
            batches.pop(batch_id, None)
            self._known.pop((query_id, batch_id), None)

    def _apply(self, where: tuple[str, str], before: KnownRecords, kind: str, run_id: str, value: bytes) -> None:
        if kind == DECISION and before.decision is None:
            decision = decision_from_value(*where, value)
            # In the log behind a later batch's decision this one comes from a driver that slept: it counts for nothing.
            is_over = is_below(decision.batch_id, self._floor(decision.query_id))
            vetoed = before.vetoed_runs | self._vetoed_everywhere(decision.query_id)
            if run_start(decision.run_id) not in vetoed and not is_over:
                self._known[where] = KnownRecords(decision, before.vetoed_runs, before.is_done)
                self._decided.add(decision.query_id)
                self._take_number(decision)
        elif kind == VETO and before.decision is None:
            self._known[where] = KnownRecords(None, before.vetoed_runs | {run_start(run_id)}, before.is_done)
        elif kind == DONE:
            self._known[where] = KnownRecords(before.decision, before.vetoed_runs, True)

    def _take_number(self, decision: BatchDecision) -> None:
        number = batch_number(decision.batch_id)
        if number is not None:
            newest = self._newest.setdefault(decision.query_id, [])
            insort(newest, number)
            del newest[: -kept_count(decision.query_id)]

    def _floor(self, query_id: str) -> int | None:
        newest = self._newest.get(query_id, [])
        return newest[0] if len(newest) == kept_count(query_id) else None

    def known(self, query_id: str, batch_id: str) -> KnownRecords:
        """What stands of one batch."""
        known = self._known.get((query_id, batch_id), KnownRecords())
        is_superseded = known.decision is None and is_below(batch_id, self._floor(query_id))
        vetoed = known.vetoed_runs | self._vetoed_everywhere(query_id)
        has_history = query_id in self._decided
        return replace(known, is_superseded=is_superseded, vetoed_runs=vetoed, has_history=has_history)

    def _vetoed_everywhere(self, query_id: str) -> frozenset[str]:
        everywhere = self._known.get((query_id, ANY_BATCH))
        return everywhere.vetoed_runs if everywhere else frozenset()

    def to_be_forgotten(self, done: BatchDecision) -> list[bytes]:
        """The keys that may be dropped once `done` is: all records of older batches, in the order in which they go.

        A decision that did not stand goes before what kept it from standing (an earlier decision, a later batch's, a
        veto). Otherwise a reader of the compacted topic would find it as the first of its batch.
        """
        ranked: list[tuple[int, bytes]] = []
        floor = self._floor(done.query_id)
        for batch_id, keys in self._keys.get(done.query_id, {}).items():
            known = self._known.get((done.query_id, batch_id), KnownRecords())
            older = known.decision or BatchDecision(done.query_id, batch_id, "", ())
            if may_be_forgotten(older, known.is_done or known.decision is None, floor):
                ranked += [
                    (_rank(kind, is_standing=run_id == older.run_id), key) for key, (kind, run_id) in keys.items()
                ]
        return [key for _, key in sorted(ranked, key=lambda pair: pair[0])]

    def decided(self, query_id: str | None = None) -> list[tuple[BatchDecision, bool]]:
        """All decisions (of one query), each with whether it is marked done, in the order of their records."""
        return [
            (known.decision, known.is_done)
            for (query, _), known in self._known.items()
            if known.decision is not None and query_id in (None, query)
        ]


def _rank(kind: str, *, is_standing: bool) -> int:
    """When a record is dropped, among those of older batches. DONE is last: a decision without it would be completed again."""
    if kind == DECISION:
        return 2 if is_standing else 0
    return 1 if kind == VETO else 3
