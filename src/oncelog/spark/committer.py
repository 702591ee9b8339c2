"""The driver's side of the sink: decide, complete, sweep (docs/spark.md), on top of the pure rules of exactly_once_sink.

The order is the protocol: decision durable, then completions, then the sweep, then done. Each step may be repeated by any
later process.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Iterable
from dataclasses import replace
from typing import Self

from oncelog import errors, sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import LeasedName, leased_name
from oncelog.spark.backend import Backend, LostTransaction, abort_exactly, complete, winners_in_danger
from oncelog.spark.batch_numbers import BatchNumbers, keep
from oncelog.spark.blockers import as_utc
from oncelog.spark.decision_store import DecisionStore
from oncelog.spark.options import SinkOptions, client_arguments
from oncelog.types import PreparedTxnState

logger = logging.getLogger("oncelog.spark")
IDS_TOLD_MAX = 20  # in one line of the log
STALE_MS = 900_000  # an attempt of an earlier version of a batch write that is open for longer was left by a killed job
BEGINNING = "Empty"  # the state of an id that is registered, and has opened no transaction since


class CommitRefused(RuntimeError):
    """This run may not commit the batch; Spark runs it again."""


class Committer:
    """Carries out decisions for one set of options. `with Committer(...) as committer:`; the store is the caller's, and so is
    an admin client that is given."""

    def __init__(self, options: SinkOptions, store: DecisionStore, admin: sync.Admin | None = None) -> None:
        self._options, self._store = options, store
        self._owns_admin = admin is None
        self._admin = admin or sync.Admin.from_config(client_arguments(options.client))
        if self._owns_admin:
            self._admin.start()
        self.numbers = BatchNumbers()  # of the batch that is being committed

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def commit(
        self,
        query_id: str,
        batch_id: str,
        run_id: str,
        attempts: Iterable[sink.Attempt],
        backend: Backend,
        planned_ms: str = "",
    ) -> sink.BatchDecision:
        """Commit a batch: returns the decision that stands, whose winners are committed.

        Args:
            planned_ms: when Spark planned it, where that can be seen.

        Raises:
            CommitRefused: the run was vetoed, a winner could time out before it is completed, or what was decided is another
                batch of the same number.
            LostTransaction: a decided transaction is gone.
        """
        attempts = list(attempts)
        self.numbers.take(attempts)
        with self.numbers.step("look"):
            known = self._store.known(query_id, batch_id)
        what = sink.on_commit(known, query_id, batch_id, run_id, attempts)
        if isinstance(what, sink.Decide):
            self.refuse_decided_elsewhere(known, query_id)
            with self.numbers.step("decide"):
                what = self._decide(replace(what.decision, planned_ms=planned_ms), backend)
        else:
            self.numbers.is_repeated = known.decision is not None
        if isinstance(what, sink.Refuse):
            raise CommitRefused(what.reason)
        _refuse_another_plan(what.decision, planned_ms)
        self.finish(what.decision, is_done=known.is_done, run_id=run_id)
        return what.decision

    def refuse_decided_elsewhere(self, known: sink.KnownRecords, query_id: str) -> None:
        """Raises CommitRefused for a query that keeps its decisions in another store than this one."""
        if known.has_history or query_id.startswith(sink.JOB_PREFIX):  # a job's id is new
            return
        refused = sink.decided_elsewhere(self._options.transactional_id_prefix, query_id, self.transaction_states())
        if refused is not None:
            raise CommitRefused(refused.reason)

    def repeat(self, decision: sink.BatchDecision) -> None:
        """Finish a decision that was found before anything was written. Raises LostTransaction."""
        known = self._store.known(decision.query_id, decision.batch_id)
        self.finish(decision, is_done=known.is_done or known.is_superseded)

    def finish(self, decision: sink.BatchDecision, *, is_done: bool, run_id: str | None = None) -> None:
        """Carry out a decision. Of one that is done nothing is left but what ran again beside it; its winners' transactional
        ids may have expired since. Raises LostTransaction."""
        if is_done:
            self.sweep(decision, run_id)
        else:
            self.roll_forward(decision)

    def _decide(self, decision: sink.BatchDecision, backend: Backend) -> sink.RollForward | sink.Refuse:
        try:
            known = self._store.decide(
                decision, last_look=lambda: self.last_look(decision.winners, backend, decision.query_id)
            )
        except CommitRefused as refused:
            known = self._store.veto(decision.query_id, decision.batch_id, decision.run_id)
            if known.decision is not None:
                return sink.RollForward(known.decision)
            return sink.Refuse(str(refused))
        if known.decision is None:
            return sink.refusal(known, decision)
        return sink.RollForward(known.decision)

    def last_look(self, winners: tuple[sink.Attempt, ...], backend: Backend, query_id: str) -> int | None:
        """Asked right before the decision becomes durable: within how many ms it has to be; None where nothing times out.

        Half of the margin is left to complete the winners. Raises CommitRefused where one could time out before that.
        """
        margin_ms = self._options.completion_margin_ms
        danger, left_ms = winners_in_danger(self._admin, backend, winners, margin_ms)
        if danger:
            raise CommitRefused(_danger_reason(danger, query_id))
        return None if left_ms is None else left_ms - margin_ms // 2

    def abort(self, query_id: str | None, batch_id: str, run_id: str | None) -> None:
        """What Spark's abort means here: honour a decision, else forbid this run and end its transactions."""
        if query_id is None:
            return
        known = self._store.known(query_id, batch_id)
        what = sink.on_abort(known, run_id)
        if isinstance(what, sink.Veto):
            known = self._store.veto(query_id, batch_id, what.run_id)
            if known.decision is None:
                self._end_run(query_id, batch_id, what.run_id)
                return
            what = sink.RollForward(known.decision)
        if isinstance(what, sink.RollForward):
            self.finish(what.decision, is_done=known.is_done, run_id=run_id)

    def _end_run(self, query_id: str, batch_id: str, run_id: str) -> None:
        """End what a vetoed run has open in this batch, and fence those of its tasks that have not begun: one that Spark lets
        live a little longer, or kills, would open a transaction behind this look, and nobody would end it. Read now that the veto
        is durable: a task that registers its id later sees the veto (writer.py)."""
        prefix = self._options.transactional_id_prefix
        listed = self._admin.list_transactions(states=["Ongoing", BEGINNING])
        states = {each.transactional_id: each.state for each in listed}
        orphans = sink.orphans_after_veto(prefix, query_id, batch_id, run_id, states)
        self._end(orphans)
        vetoed = sink.BatchDecision(query_id, batch_id, run_id, ())
        opened = [orphan for orphan in orphans if states[orphan] != BEGINNING]
        _tell(vetoed, f"run {run_id} may not decide it any more; ended", opened)

    def roll_forward(self, decision: sink.BatchDecision, *, accepts_loss: bool = False) -> int:
        """Complete the winners, end the orphans, mark done; returns how many orphans were ended.

        Args:
            accepts_loss: mark it done also where decided transactions are gone.

        Raises:
            LostTransaction: decided transactions are gone. The others are completed, and it is not marked done.
        """
        lost: list[str] = []
        numbers, self.numbers = self.numbers, BatchNumbers()
        with numbers.step("complete"):
            for winner in decision.winners:
                try:
                    complete(self._admin, self._options.client, winner, lambda: self._is_over(decision))
                    numbers.completed += 1
                except LostTransaction as error:
                    lost.append(str(error))
        with numbers.step("sweep"):
            numbers.swept = self.sweep(decision)
        if lost and not accepts_loss and not self._is_over(decision):
            raise LostTransaction("\n".join(lost))
        self._store.done(decision, numbers.to_value())
        keep(decision.query_id, decision.batch_id, numbers)
        if numbers.is_repeated:
            _tell(decision, f"had been decided by run {decision.run_id} before: committed", _ids_of(decision))
        return numbers.swept

    def _is_over(self, decision: sink.BatchDecision) -> bool:
        """Whether somebody else has completed this decision; then its ids may be in use again, or forgotten."""
        known = self._store.known(decision.query_id, decision.batch_id)
        return known.is_done or known.decision is None

    def sweep(self, decision: sink.BatchDecision, run_id: str | None = None) -> int:
        """End what can no longer win after this decision; of a run that is at this batch itself also when it is done."""
        by_prefix: dict[str, list[str]] = {}
        for transactional_id in self.open_transactions(decision.query_id):
            by_prefix.setdefault(transactional_id.partition(".")[0], []).append(transactional_id)
        return sum(self._sweep(decision, run_id, prefix, open_ids) for prefix, open_ids in by_prefix.items())

    def _sweep(self, decision: sink.BatchDecision, run_id: str | None, prefix: str, open_ids: list[str]) -> int:
        query_id = decision.query_id
        open_states = self._states_of([i for i in open_ids if leased_name(prefix, i)])
        # Read now that this decision is durable: no older batch can be decided any more, but it may have been.
        decided = [each for each, _ in self._store.decided(query_id)]
        orphans = sink.orphans_after_decision(prefix, decision, open_ids, decided)
        self._end(orphans)
        _tell(decision, "ended what can no longer win:", orphans)
        spared = {*orphans, *(winner.transactional_id for each in decided for winner in each.winners)}
        stale = self._stale([i for i in sink.earlier_versions(prefix, decision, open_ids) if i not in spared])
        for transactional_id in stale:
            name = sink.attempt_name(prefix, transactional_id)
            assert name is not None, "it was found by its name"
            self.abandon(name, transactional_id)
        _tell(decision, "ended what earlier versions left open:", stale)
        leased = sink.leased_orphans(prefix, query_id, open_states, decided)
        if leased and self._is_over(decision):
            # Somebody is ahead: what is open may be of the batch after this one, unless its own run is here.
            mine = sink.orphans_after_veto(prefix, query_id, decision.batch_id, run_id, leased) if run_id else []
            leased = {i: leased[i] for i in mine}
        for transactional_id, state in leased.items():
            logger.info("ending orphan transaction %s %s", transactional_id, state)
            abort_exactly(self._admin, transactional_id, PreparedTxnState(state))
        _tell(decision, "ended what can no longer win:", leased)
        return len(orphans) + len(stale) + len(leased)

    def _states_of(self, transactional_ids: list[str]) -> dict[str, str]:
        if not transactional_ids:
            return {}
        described = self._admin.describe_transactions(transactional_ids)
        return {
            i: str(PreparedTxnState.of(each.producer_id, each.producer_epoch))
            for i, each in described.items()
            if each.state == "Ongoing"
        }

    def _stale(self, transactional_ids: list[str]) -> list[str]:
        """Those that have been open for so long that their job was killed, or takes the veto for a reason to begin anew."""
        if not transactional_ids:
            return []
        described = self._admin.describe_transactions(transactional_ids)
        opened = {i: each.now_ms - each.start_ms for i, each in described.items() if each.state == "Ongoing"}
        return [i for i, open_ms in opened.items() if open_ms >= STALE_MS]

    def transaction_states(self) -> dict[str, str]:
        """Of all transactional ids that the cluster knows."""
        return {each.transactional_id: each.state for each in self._admin.list_transactions()}

    def topics(self) -> list[str]:
        """The names of the cluster's, as far as they are to be seen."""
        return list(self._admin.list_topics(include_internal=True))

    def open_transactions(self, query_id: str | None) -> list[str]:
        """The ids of this prefix, or of a query under any prefix that it had, with an open transaction."""
        prefix = self._options.transactional_id_prefix
        listed = [each.transactional_id for each in self._admin.list_transactions(states=["Ongoing"])]
        if query_id is None:
            return [i for i in listed if i.startswith(f"{prefix}.")]
        return [i for i in listed if sink.is_of_query(prefix, query_id, i)]

    def abandon(self, name: sink.AttemptName, transactional_id: str) -> None:
        """End an undecided transaction of a query that will not come back; its run is kept from deciding first."""
        known = self._store.veto(name.query_id, name.batch_id, name.run_start)
        if known.decision is not None:
            self.roll_forward(known.decision)
        else:
            self._end([transactional_id])

    def abandon_leased(self, name: LeasedName, transactional_id: str) -> None:
        """As `abandon`, of an id that does not say of which batch it is: its run may decide nothing any more."""
        self._store.veto(name.query_id, sink.ANY_BATCH, name.run_start)
        for decision, is_done in self._store.decided(name.query_id):
            if not is_done and transactional_id in {winner.transactional_id for winner in decision.winners}:
                self.roll_forward(decision)
                return
        self._end([transactional_id])

    def _end(self, orphans: Iterable[str]) -> None:
        for orphan in orphans:
            logger.info("ending orphan transaction %s", orphan)
            with contextlib.suppress(errors.TransactionalIdNotFound):
                self._admin.force_terminate_transaction(orphan)

    def close(self) -> None:
        """Close the admin client where it is its own; the store is the caller's."""
        if self._owns_admin:
            self._admin.stop()


def _refuse_another_plan(decision: sink.BatchDecision, planned_ms: str) -> None:
    """A batch that runs again is the one that was planned. Planned anew it has other rows, which would count as written."""
    if planned_ms and decision.planned_ms and planned_ms != decision.planned_ms:
        was, now = (as_utc(int(each)) for each in (decision.planned_ms, planned_ms))
        raise CommitRefused(
            f"batch {decision.batch_id} of query {decision.query_id} was decided as it was planned at {was}, and this checkpoint "
            f"planned it anew at {now}: it is older than what the query has written (restored, copied, or its end was lost), and "
            "the rows of this batch would be taken for written; the way out is in docs/spark.md, 'A checkpoint that went back'"
        )


def _ids_of(decision: sink.BatchDecision) -> list[str]:
    return [winner.transactional_id for winner in decision.winners]


def _tell(decision: sink.BatchDecision, what: str, transactional_ids: Iterable[str]) -> None:
    """A line for the driver's log (a warning: a Python process of Spark's prints no less) of what a recovery did, if anything."""
    ids = list(transactional_ids)
    if ids:
        more = f" and {len(ids) - IDS_TOLD_MAX} more" if len(ids) > IDS_TOLD_MAX else ""
        named = f"{len(ids)} transaction{'s' * (len(ids) > 1)}: {', '.join(ids[:IDS_TOLD_MAX])}{more}"
        logger.warning("oncelog: query %s batch %s %s %s", decision.query_id, decision.batch_id, what, named)


def _danger_reason(danger: list[str], query_id: str) -> str:
    reason = f"{len(danger)} transactions could time out before they are committed ({', '.join(danger[:IDS_TOLD_MAX])})"
    if query_id.startswith(sink.JOB_PREFIX):
        reason += (
            "; a long job needs txnAppId and txnVersion, or backend=prepared, or a larger transaction.max.timeout.ms"
        )
    else:
        reason += (
            "; let tasks be shorter (more partitions), or raise the broker's transaction.max.timeout.ms, "
            "or use backend=prepared"
        )
    return reason
