"""What becomes of transactions in doubt: the open ones, and what each source that may decide says of them.

A source is asked without changing anything. What no source decides, and what two decide differently, is left as it is:
prepared transactions are never ended by default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from oncelog import sync
from oncelog.cli.output import Failed
from oncelog.cli.transactions.repair import is_prepared
from oncelog.client.admin.transaction_listing import TransactionDescription
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.errors import TransactionalIdNotFound
from oncelog.lazy_dataclass import dataclass
from oncelog.types import PreparedTxnState

if TYPE_CHECKING:
    from oncelog.recipes.database import Database
    from oncelog.spark.options import SinkOptions

COMMIT, ABORT, LEAVE = "commit", "abort", "leave"
NOBODY = "none of the sources that were asked decides about it"
FILE_BYTES_MAX = 64 << 20


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a source says of one open transaction, and why."""

    source: str
    decision: str
    why: str


@dataclass(frozen=True, slots=True)
class Planned:
    """One open transaction and what is to become of it."""

    found: TransactionDescription
    decision: str
    source: str | None
    why: str

    @property
    def transactional_id(self) -> str:
        """Whose."""
        return self.found.transactional_id

    @property
    def state(self) -> PreparedTxnState:
        """Which."""
        return PreparedTxnState.of(self.found.producer_id, self.found.producer_epoch)


@dataclass
class Plan:
    """All that is in doubt, the oldest first."""

    rows: list[Planned] = field(default_factory=list)

    def decided(self, source: str | None = None) -> list[Planned]:
        """Those that will be ended (by this source)."""
        return [each for each in self.rows if each.decision != LEAVE and source in (None, each.source)]


def open_transactions(admin: sync.Admin) -> dict[str, TransactionDescription]:
    """Every ongoing transaction as its coordinator tells; one that ends while we ask is left out."""
    names = [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
    return {name: each for name, each in _described(admin, names).items() if each.state == "Ongoing"}


def _described(admin: sync.Admin, names: list[str]) -> dict[str, TransactionDescription]:
    try:
        return admin.describe_transactions(names) if names else {}
    except TransactionalIdNotFound:
        if len(names) == 1:
            return {}
    return {key: each for name in names for key, each in _described(admin, [name]).items()}


def plan_of(opened: Mapping[str, TransactionDescription], opinions: Iterable[Mapping[str, Opinion]]) -> Plan:
    """One line for each that is prepared, or that a source knows."""
    asked = list(opinions)
    rows = []
    for name, found in opened.items():
        said = [each[name] for each in asked if name in each]
        if said or is_prepared(found):
            rows.append(_planned(found, said))
    return Plan(sorted(rows, key=lambda each: (-(each.found.duration_ms or 0), each.transactional_id)))


def _planned(found: TransactionDescription, said: list[Opinion]) -> Planned:
    deciding = [each for each in said if each.decision != LEAVE]
    if len({each.decision for each in deciding}) > 1:
        conflict = "; ".join(f"{each.source} says {each.decision}: {each.why}" for each in deciding)
        return Planned(found, LEAVE, None, f"the sources disagree: {conflict}")
    if deciding:
        return Planned(found, deciding[0].decision, deciding[0].source, deciding[0].why)
    if said:
        return Planned(found, LEAVE, said[0].source, "; ".join(each.why for each in said))
    return Planned(found, LEAVE, None, NOBODY)


def opinions_of_database(database: Database[Any], opened: Mapping[str, TransactionDescription]) -> dict[str, Opinion]:
    """The janitor's rule (docs/dual-writes.md): it holds this very transaction, or it does not. Ids that it has never seen
    are another's."""
    stored = database.read_all()
    found = {}
    for name, each in opened.items():
        if name in stored:
            is_it = stored[name].prepared_state == PreparedTxnState.of(each.producer_id, each.producer_epoch)
            why = "the database holds this very transaction" if is_it else "the database does not hold this transaction"
            found[name] = Opinion("database", COMMIT if is_it else ABORT, why)
    return found


def opinions_of_spark(
    options: SinkOptions, query_id: str | None, opened: Mapping[str, TransactionDescription]
) -> dict[str, Opinion]:
    """Winners of a decided batch are to be committed, what can no longer win is to be aborted (docs/spark.md)."""
    from oncelog.spark.decision_store import decision_store, has_decisions

    prefix = options.transactional_id_prefix
    names = {name: attempt for name in opened if (attempt := sink.attempt_name(prefix, name)) is not None}
    ours = [name for name, attempt in names.items() if query_id in (None, attempt.query_id)]
    if not ours:
        return {}
    decided = [each for each, _ in decision_store(options).decided(query_id)] if has_decisions(options) else []
    found = {}
    for name in ours:
        found[name] = Opinion("spark", LEAVE, "no decision covers it: a restart of the query settles it")
    for decision in decided:
        what = f"batch {decision.batch_id} of query {decision.query_id} was decided"
        for name in sink.orphans_after_decision(prefix, decision, ours, decided):
            found[name] = Opinion("spark", ABORT, f"{what} without it")
    for decision in decided:
        for winner in decision.winners:
            if winner.transactional_id in found:
                found[winner.transactional_id] = _of_winner(winner, decision, opened[winner.transactional_id])
    return found


def _of_winner(winner: sink.Attempt, decision: sink.BatchDecision, found: TransactionDescription) -> Opinion:
    what = f"batch {decision.batch_id} of query {decision.query_id} was decided with it"
    if winner.prepared_state == f"{found.producer_id}:{found.producer_epoch}":
        return Opinion("spark", COMMIT, what)
    return Opinion("spark", LEAVE, f"{what} as {winner.prepared_state}, and another transaction is open now")


def opinions_of_file(path: str, opened: Mapping[str, TransactionDescription]) -> dict[str, Opinion]:
    """A plan that somebody looked through: `--dry-run -o json` or `jsonl`, with decisions changed by hand. Raises Failed."""
    found: dict[str, Opinion] = {}
    named: set[str] = set()
    for number, row in enumerate(_rows(path), 1):
        name, state, decision = (row.get(key) for key in ("transactional_id", "state", "decision"))
        if not isinstance(name, str) or not isinstance(state, str) or decision not in (COMMIT, ABORT, LEAVE):
            wanted = "transactional_id, state (PRODUCER-ID:EPOCH) and decision (commit, abort, leave)"
            raise Failed(f"{path}: entry {number} has not {wanted}", "make one with --dry-run -o json")
        if name in named:
            raise Failed(f"{path}: entry {number}: {name!r} is there twice", "leave one of them")
        named.add(name)
        if name in opened:
            now = f"{opened[name].producer_id}:{opened[name].producer_epoch}"
            changed = Opinion(path, LEAVE, f"the file says {decision} of {state}, and {now} is open now")
            found[name] = Opinion(path, decision, "as the file says") if now == state else changed
    return found


def _rows(path: str) -> list[dict[str, Any]]:
    try:
        file = Path(path)
        if file.stat().st_size > FILE_BYTES_MAX:
            raise Failed(f"{path}: a plan has at most {FILE_BYTES_MAX} bytes")
        text = file.read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise Failed(f"{path}: {getattr(error, 'strerror', None) or 'it is no text'}") from error
    try:
        rows = (
            json.loads(text)
            if text.lstrip().startswith("[")
            else [json.loads(line) for line in text.splitlines() if line.strip()]
        )
    except (ValueError, RecursionError) as error:
        raise Failed(f"{path}: it is no JSON: {error}", "make one with --dry-run -o json") from error
    if not all(isinstance(each, dict) for each in rows):
        raise Failed(f"{path}: a plan is a list of objects", "make one with --dry-run -o json")
    found: list[dict[str, Any]] = rows
    return found
