"""Finish what a query decided, and end what it left, without Spark (`oncelog recover`)."""

from __future__ import annotations

from dataclasses import dataclass, field

from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import LeasedName, leased_name
from oncelog.spark.backend import LostTransaction
from oncelog.spark.committer import Committer
from oncelog.spark.decision_store import decision_store, has_decisions
from oncelog.spark.options import SinkOptions


@dataclass
class RecoveryReport:
    """What `recover` did. `undecided` are open transactions that no decision covers: a restart of the query settles them."""

    completed: list[str] = field(default_factory=list)
    ended: int = 0
    lost: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    undecided_jobs: list[str] = field(default_factory=list)  # the batch writes among them, in words
    abandoned: list[str] = field(default_factory=list)


def recover(options: SinkOptions, query_id: str | None = None, *, abandon: bool = False) -> RecoveryReport:
    """Complete each decision that is not marked done, then sweep behind it.

    Args:
        query_id: only this query (Spark's id in <checkpoint>/metadata, a dual write's name, or the txnAppId of batch writes);
            None means all of the prefix.
        abandon: also end transactions that no decision covers (the query is never started again). A run that is still
            alive is kept from winning by a veto first.
    """
    if not has_decisions(options):
        return RecoveryReport()
    store = decision_store(options)
    report = RecoveryReport()
    with Committer(options, store) as committer:
        for decision, is_done in store.decided():
            if query_id is not None and not sink.is_named(decision.query_id, query_id):
                continue
            if is_done:
                report.ended += committer.sweep(decision)
                continue
            try:
                report.ended += committer.roll_forward(decision)
                report.completed += [winner.transactional_id for winner in decision.winners]
            except LostTransaction as error:
                report.lost.append(str(error))
        _abandon_or_report(options, committer, report, query_id, abandon=abandon)
    return report


def _abandon_or_report(
    options: SinkOptions, committer: Committer, report: RecoveryReport, query_id: str | None, *, abandon: bool
) -> None:
    for transactional_id in committer.open_transactions(None):
        leased = leased_name(options.transactional_id_prefix, transactional_id)
        name = leased or sink.attempt_name(options.transactional_id_prefix, transactional_id)
        if name is None or (query_id is not None and not sink.is_named(name.query_id, query_id)):
            continue
        if not abandon:
            report.undecided.append(transactional_id)
            job = None if isinstance(name, LeasedName) else sink.described_batch_write(name.query_id, name.batch_id)
            if job is not None and job not in report.undecided_jobs:
                report.undecided_jobs.append(job)
            continue
        try:
            if isinstance(name, LeasedName):
                committer.abandon_leased(name, transactional_id)
            else:
                committer.abandon(name, transactional_id)
            report.abandoned.append(transactional_id)
        except LostTransaction as error:  # one of a batch that was decided, and has lost a winner
            if str(error) not in report.lost:
                report.lost.append(str(error))
