"""Finish what a query decided, and end what it left, without Spark (`oncelog recover`)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field

from oncelog import sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase import recovery_reasons as reasons
from oncelog.core.two_phase.decision_homes import topic_home
from oncelog.core.two_phase.sink_names import TRANSACTIONAL_ID_PREFIX
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
    unsure: list[str] = field(
        default_factory=list
    )  # the same, of an older oncelog's, which do not say where their decisions are
    nobody: str | None = None  # that the query, or the prefix, that was meant is not there, and which are


def recover(
    options: SinkOptions,
    query_id: str | None = None,
    *,
    abandon: bool = False,
    accept_loss: bool = False,
    place_is_named: bool = False,
) -> RecoveryReport:
    """Complete each decision that is not marked done, then sweep behind it.

    Args:
        query_id: only this query (Spark's id in <checkpoint>/metadata, a dual write's name, or the txnAppId of batch writes);
            None means all of the prefix.
        abandon: also end transactions that no decision covers (the query is never started again). A run that is still
            alive is kept from winning by a veto first. What says that it is decided somewhere else than in the store of `options`
            stays as it is.
        accept_loss: also mark decisions done whose transactions are lost, or forgotten by the broker: the query goes on behind
            them. They are in `lost` all the same: what is missing is for the caller to write. Wants a `query_id`.
        place_is_named: whether a user said that the query keeps its decisions in the store of `options`. It counts for
            transactions of an older oncelog, which do not say so themselves, and with a `query_id`: without both they are not
            abandoned where the store knows nothing of their query.

    Raises:
        ConfigurationError: a loss cannot be accepted for all queries at once; an empty `query_id`.
    """
    if query_id == "":
        raise ConfigurationError("query_id is empty, which names no query: None means all of them")
    if accept_loss and query_id is None:
        raise ConfigurationError("accept_loss is about one query: say which, with query_id")
    if not has_decisions(options):
        return _without_decisions(options, query_id)
    store = decision_store(options)
    report = RecoveryReport()
    with Committer(options, store) as committer:
        decided = store.decided()
        report.nobody = _nobody(
            options, query_id, [each.query_id for each, _ in decided], committer.transaction_states()
        )
        for decision, is_done in decided:
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
        more = {"abandon": abandon, "place_is_named": place_is_named}
        _abandon_or_report(options, committer, store, report, query_id, **more)
    return report


def _without_decisions(options: SinkOptions, query_id: str | None) -> RecoveryReport:
    """A sink makes its decision topic before it writes: where that is not there, what is open decides elsewhere."""
    with sync.Admin.from_config(client_arguments(options.client)) as admin:
        states = {each.transactional_id: each.state for each in admin.list_transactions()}
        topics = admin.list_topics(include_internal=True)
    names = {i: _name_of(options, i, query_id) for i, state in states.items() if state == "Ongoing"}
    left = [i for i, name in names.items() if name is not None]
    if not left:
        return RecoveryReport(nobody=_nobody(options, query_id, [], states))
    prefix, looked_at = options.transactional_id_prefix, topic_home(options.decision_topic)
    found = [reasons.decided_elsewhere(prefix, n, looked_at, {}, topics) for n in names.values() if n is not None]
    if None not in found:
        return RecoveryReport(undecided=left, elsewhere=[each for each in dict.fromkeys(found) if each is not None])
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
    place_is_named: bool,
) -> None:
    prefix = options.transactional_id_prefix
    states, topics = committer.transaction_states(), committer.topics()
    for transactional_id in committer.open_transactions(None):
        name = _name_of(options, transactional_id, query_id)
        if name is None:
            continue
        elsewhere = unsure = None
        if not store.known(name.query_id, sink.ANY_BATCH).has_history:
            elsewhere = reasons.decided_elsewhere(prefix, name, store.home, states, topics)
            if elsewhere is None and not (place_is_named and query_id is not None):
                unsure = reasons.decided_anywhere(name, _place(options))
        for reason, told in ((elsewhere, report.elsewhere), (unsure, report.unsure)):
            if reason is not None and reason not in told:
                told.append(reason)
        if abandon and elsewhere is None and unsure is None:
            _abandon(committer, name, transactional_id, report)
            continue
        report.undecided.append(transactional_id)
        job = None if isinstance(name, LeasedName) else sink.described_batch_write(name.query_id, name.batch_id)
        if job is not None and elsewhere is None and unsure is None and job not in report.undecided_jobs:
            report.undecided_jobs.append(job)


def _abandon(
    committer: Committer, name: LeasedName | sink.AttemptName, transactional_id: str, report: RecoveryReport
) -> None:
    try:
        if isinstance(name, LeasedName):
            committer.abandon_leased(name, transactional_id)
        else:
            committer.abandon(name, transactional_id)
        report.abandoned.append(transactional_id)
    except LostTransaction as error:  # one of a batch that was decided, and has lost a winner
        if str(error) not in report.lost:
            report.lost.append(str(error))


def _place(options: SinkOptions) -> str:
    return f"the topic {options.decision_topic!r}" if options.decision_url is None else "that database"


def _nobody(options: SinkOptions, query_id: str | None, decided: Iterable[str], states: Iterable[str]) -> str | None:
    """That nothing at all is of this query, or of this prefix, and what there is instead; None where something is."""
    prefix = options.transactional_id_prefix
    by_prefix: dict[str, set[str]] = {}
    for transactional_id in states:
        its_prefix = transactional_id.partition(".")[0]
        name = leased_name(its_prefix, transactional_id) or sink.attempt_name(its_prefix, transactional_id)
        if name is not None:
            by_prefix.setdefault(its_prefix, set()).add(name.query_id)
    queries = by_prefix.get(prefix, set())
    if query_id is None:
        is_chosen = prefix != TRANSACTIONAL_ID_PREFIX  # else nobody has mistyped it
        return reasons.none_is_meant(prefix, None, by_prefix) if is_chosen and not queries else None
    there = queries | set(decided)
    if any(sink.is_named(each, query_id) for each in there):
        return None
    return reasons.none_is_meant(prefix, query_id, map(sink.in_words, there))
