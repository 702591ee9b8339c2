"""Finish what a query decided, and end what it left, without Spark (`oncelog recover`)."""

from __future__ import annotations

from dataclasses import field

from oncelog import sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import LeasedName, leased_name
from oncelog.errors import ConfigurationError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.backend import LostTransaction
from oncelog.spark.committer import Committer
from oncelog.spark.decision_store import DecisionStore, decision_store, has_decisions
from oncelog.spark.options import SinkOptions, client_arguments


@dataclass
class RecoveryReport:
    """What `recover` did. `undecided` are open transactions that no decision covers: a restart of the query settles them."""

    completed: list[str] = field(default_factory=list)
    ended: int = 0
    lost: list[str] = field(default_factory=list)
    undecided: list[str] = field(default_factory=list)
    undecided_jobs: list[str] = field(default_factory=list)  # the batch writes among them, in words
    abandoned: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(
        default_factory=list
    )  # why some of `undecided` may be decided after all, and stay as they are


def recover(
    options: SinkOptions, query_id: str | None = None, *, abandon: bool = False, accept_loss: bool = False
) -> RecoveryReport:
    """Complete each decision that is not marked done, then sweep behind it.

    Args:
        query_id: only this query (Spark's id in <checkpoint>/metadata, a dual write's name, or the txnAppId of batch writes);
            None means all of the prefix.
        abandon: also end transactions that no decision covers (the query is never started again). A run that is still
            alive is kept from winning by a veto first.
        accept_loss: also mark decisions done whose transactions are lost, or forgotten by the broker: the query goes on behind
            them. They are in `lost` all the same: what is missing is for the caller to write. Wants a `query_id`.

    Raises:
        ConfigurationError: a loss cannot be accepted for all queries at once.
    """
    if accept_loss and query_id is None:
        raise ConfigurationError("accept_loss is about one query: say which, with query_id")
    if not has_decisions(options):
        return _without_decisions(options, query_id)
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
                if accept_loss:
                    report.ended += committer.roll_forward(decision, accepts_loss=True)
        _abandon_or_report(options, committer, store, report, query_id, abandon=abandon)
    return report


def _without_decisions(options: SinkOptions, query_id: str | None) -> RecoveryReport:
    """A sink makes its decision topic before it writes: where that is not there, what is open decides elsewhere."""
    with sync.Admin.from_config(client_arguments(options.client)) as admin:
        listed = [each.transactional_id for each in admin.list_transactions(states=["Ongoing"])]
    left = [i for i in listed if _name_of(options, i, query_id) is not None]
    if not left:
        return RecoveryReport()
    reason = (
        f"there is no topic {options.decision_topic!r}, so what is open is decided somewhere else, and is left as it is. Give "
        "the --decision-topic or --decision-url of the query"
    )
    return RecoveryReport(undecided=left, elsewhere=[reason])


def _name_of(options: SinkOptions, transactional_id: str, query_id: str | None) -> LeasedName | sink.AttemptName | None:
    """What an id of this prefix, and of this query where one is meant, says."""
    prefix = options.transactional_id_prefix
    name = leased_name(prefix, transactional_id) or sink.attempt_name(prefix, transactional_id)
    is_meant = name is not None and (query_id is None or sink.is_named(name.query_id, query_id))
    return name if is_meant else None


def _abandon_or_report(
    options: SinkOptions,
    committer: Committer,
    store: DecisionStore,
    report: RecoveryReport,
    query_id: str | None,
    *,
    abandon: bool,
) -> None:
    states = committer.transaction_states()
    for transactional_id in committer.open_transactions(None):
        name = _name_of(options, transactional_id, query_id)
        if name is None:
            continue
        reason = None
        if not store.known(name.query_id, sink.ANY_BATCH).has_history:
            reason = sink.recovery_elsewhere(options.transactional_id_prefix, name.query_id, states)
        if reason is not None and reason not in report.elsewhere:
            report.elsewhere.append(reason)
        if reason is not None or not abandon:
            report.undecided.append(transactional_id)
            job = None if isinstance(name, LeasedName) else sink.described_batch_write(name.query_id, name.batch_id)
            if job is not None and reason is None and job not in report.undecided_jobs:
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
