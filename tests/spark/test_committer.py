"""The driver's side of the sink on a real broker, without Spark: decisions, completions, sweeps, repeated in every order."""

from __future__ import annotations

import contextlib
import itertools
import pathlib
import uuid
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
import sqlalchemy as sa
from evidence.world.committed import committed_values

from oncelog import errors, sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import TransactionalIds, leased_name
from oncelog.spark import recovery
from oncelog.spark.backend import Backend, LostTransaction, abort_exactly, choose_backend, complete
from oncelog.spark.committer import CommitRefused, Committer
from oncelog.spark.database_decisions import DatabaseDecisionStore
from oncelog.spark.decision_store import DecisionStore, TopicDecisionStore
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.recovery import RecoveryReport
from oncelog.spark.writer import write_attempt
from oncelog.testing import FaultyProxy, TestBroker
from oncelog.types import PreparedTxnState


@pytest.fixture(scope="module")
def broker() -> Iterator[TestBroker]:
    with TestBroker() as broker:
        yield broker


@pytest.fixture(params=["topic", "database"])
def store(request: pytest.FixtureRequest, broker: TestBroker, tmp_path: pathlib.Path) -> Iterator[DecisionStore]:
    made: DecisionStore
    if request.param == "topic":
        made = TopicDecisionStore({"bootstrap.servers": broker.bootstrap_servers}, "__oncelog_decisions")
    else:
        made = DatabaseDecisionStore(f"sqlite:///{tmp_path / 'decisions.db'}")
    yield made
    made.close()


@pytest.fixture(params=["prepared", "resumed"])
def world(request: pytest.FixtureRequest, broker: TestBroker, store: DecisionStore) -> Iterator[World]:
    made = World(broker.bootstrap_servers, store, request.param, f"q-{request.node.name.replace('[', '-').strip(']')}")
    yield made
    made.committer.close()


class World:
    """A query with its own output topic."""

    def __init__(self, bootstrap: str, store: DecisionStore, backend: str, query_id: str) -> None:
        self.bootstrap, self.store, self.query_id = bootstrap, store, query_id
        self.topic = f"out-{query_id}"
        options = {"bootstrap.servers": bootstrap, "topic": self.topic, "backend": backend}
        self.options: SinkOptions = sink_options(options)
        self.backend: Backend = choose_backend(self.options)
        self.committer = Committer(self.options, store)
        self.attempt_count = 0
        self.ids = TransactionalIds(uuid.uuid4().hex)

    def attempt(self, batch: str, run: str, *values: bytes, by_name: bool = False) -> sink.Attempt:
        """`by_name`: under an id of its own, as batch writes have it, and streams of an earlier oncelog."""
        self.attempt_count += 1
        if not by_name and sink.described_batch_write(self.query_id, batch) is None:
            home = self.store.home
            name = self.ids.lease("oncelog-spark", self.query_id, sink.run_start(run), int(batch), home)
        else:
            count, home = self.attempt_count, self.store.home
            name = sink.transactional_id_for("oncelog-spark", self.query_id, batch, 0, run, count, home)
        batches = iter([pa.RecordBatch.from_pydict({"value": pa.array(list(values), pa.binary())})])
        return write_attempt(self.options, self.backend, name, batches)

    def commit(self, batch: str, run: str, *attempts: sink.Attempt) -> sink.BatchDecision:
        return self.committer.commit(self.query_id, batch, run, attempts, self.backend)

    def visible(self) -> list[bytes]:
        return committed_values(self.bootstrap, self.topic)

    def open_transactions(self) -> list[str]:
        return self.committer.open_transactions(self.query_id)


def test_what_is_committed_is_visible_once_however_often_it_is_committed(world: World) -> None:
    attempt = world.attempt("0", "run-1", b"a", b"b")
    assert world.visible() == []
    for _ in range(3):
        decision = world.commit("0", "run-1", attempt)
        assert decision.winners == (attempt,)
    assert (world.visible(), world.open_transactions()) == ([b"a", b"b"], [])


def test_a_later_run_completes_the_first_decision_and_its_own_attempts_end(world: World) -> None:
    first = world.attempt("0", "run-1", b"first")
    decision = sink.BatchDecision(world.query_id, "0", "run-1", (first,))
    assert world.store.decide(decision).decision == decision  # then its driver dies
    second = world.attempt("0", "run-2", b"second")
    assert world.commit("0", "run-2", second).winners == (first,)
    assert (world.visible(), world.open_transactions()) == ([b"first"], [])


def test_a_failed_task_leaves_an_orphan_that_the_decision_sweeps(world: World) -> None:
    world.attempt("0", "run-1", b"orphan")
    world.commit("0", "run-1", world.attempt("0", "run-1", b"winner"))
    assert (world.visible(), world.open_transactions()) == ([b"winner"], [])


def test_an_abort_before_the_decision_forbids_the_run_and_ends_its_transactions(world: World) -> None:
    attempt = world.attempt("0", "run-1", b"never")
    world.committer.abort(world.query_id, "0", "run-1")
    assert world.open_transactions() == []
    with pytest.raises(CommitRefused, match="vetoed"):
        world.commit("0", "run-1", attempt)
    world.commit("0", "run-2", world.attempt("0", "run-2", b"again"))
    assert world.visible() == [b"again"]


def test_an_abort_after_the_decision_rolls_forward(world: World) -> None:
    attempt = world.attempt("0", "run-1", b"decided")
    world.store.decide(sink.BatchDecision(world.query_id, "0", "run-1", (attempt,)))
    world.committer.abort(world.query_id, "0", "run-1")
    assert (world.visible(), world.open_transactions()) == ([b"decided"], [])


def test_a_driver_that_slept_through_later_batches_is_refused(world: World) -> None:
    for batch in "012":
        world.commit(batch, "run-1", world.attempt(batch, "run-1", f"batch {batch}".encode()))
    late = world.attempt("0", "slept", b"batch 0 again")
    with pytest.raises(CommitRefused, match="another driver of this query is ahead"):
        world.commit("0", "slept", late)
    world.committer.abort(world.query_id, "0", "slept")
    assert (world.visible(), world.open_transactions()) == ([b"batch 0", b"batch 1", b"batch 2"], [])


def test_a_decided_transaction_that_is_gone_is_reported_loudly(world: World) -> None:
    attempt = world.attempt("0", "run-1", b"gone")
    world.store.decide(sink.BatchDecision(world.query_id, "0", "run-1", (attempt,)))
    with sync.Admin(bootstrap_servers=world.bootstrap) as admin:
        admin.force_terminate_transaction(attempt.transactional_id)
    with pytest.raises(LostTransaction, match=attempt.transactional_id):
        world.commit("0", "run-1", attempt)


def test_a_loss_that_is_accepted_lets_the_query_go_on(world: World) -> None:
    """It was reported for ever, and there was no way on but a new checkpoint."""
    gone, kept = world.attempt("0", "run-1", b"gone"), world.attempt("0", "run-1", b"kept")
    world.store.decide(sink.BatchDecision(world.query_id, "0", "run-1", (gone, kept)))
    with sync.Admin(bootstrap_servers=world.bootstrap) as admin:
        admin.force_terminate_transaction(gone.transactional_id)
    assert len(recovered(world).lost) == 1
    assert world.store.known(world.query_id, "0").is_done is False
    assert len(recovered(world, accept_loss=True).lost) == 1, "it is told once more"
    assert (recovered(world).lost, world.visible()) == ([], [b"kept"])
    world.commit("0", "run-2")  # Spark runs the batch again
    world.commit("1", "run-2", world.attempt("1", "run-2", b"next"))
    assert world.visible() == [b"kept", b"next"]


def test_a_loss_is_accepted_of_one_query_only(broker: TestBroker) -> None:
    options = sink_options({"bootstrap.servers": broker.bootstrap_servers, "topic": "x"})
    with pytest.raises(errors.ConfigurationError, match="about one query"):
        recovery.recover(options, accept_loss=True)


def test_one_that_is_gone_keeps_no_other_from_being_completed(world: World) -> None:
    """Otherwise the others wait for ever (and hold up every reader), or time out and are gone too."""
    gone, kept = world.attempt("0", "run-1", b"gone"), world.attempt("0", "run-1", b"kept")
    also_gone = world.attempt("0", "run-1", b"also gone")
    world.attempt("0", "run-1", b"orphan")
    world.store.decide(sink.BatchDecision(world.query_id, "0", "run-1", (gone, kept, also_gone)))
    with sync.Admin(bootstrap_servers=world.bootstrap) as admin:
        for each in (gone, also_gone):
            admin.force_terminate_transaction(each.transactional_id)
    with pytest.raises(LostTransaction) as raised:
        world.committer.abort(world.query_id, "0", "run-1")
    assert gone.transactional_id in str(raised.value)
    assert also_gone.transactional_id in str(raised.value)
    assert (world.visible(), world.open_transactions()) == ([b"kept"], [])
    assert world.store.known(world.query_id, "0").is_done is False, "it is reported until somebody has seen to it"
    world.attempt("0", "run-1", b"a zombie of that batch")
    report = recovered(world, abandon=True)
    assert (report.lost, report.undecided, world.open_transactions()) == ([str(raised.value)], [], [])


def test_a_later_version_spares_the_winners_of_an_earlier_one(world: World) -> None:
    """Batch writes of one txnAppId: the driver of version 1 died behind its decision, version 2 sweeps."""
    world.query_id = f"{sink.BATCH_WRITE_PREFIX}{world.query_id}"
    first, left = world.attempt("1", "run-1", b"version 1"), world.attempt("1", "run-0", b"left")
    world.store.decide(sink.BatchDecision(world.query_id, "1", "run-1", (first,)))
    world.commit("2", "run-2", world.attempt("2", "run-2", b"version 2"))
    assert world.open_transactions() == [first.transactional_id]
    assert left.transactional_id
    assert recovered(world).completed == [first.transactional_id]
    assert sorted(world.visible()) == [b"version 1", b"version 2"]


def test_a_stream_uses_its_ids_again(world: World) -> None:
    """Each batch took new ones, and the broker keeps them for days: at its limit it refuses everybody new ones."""
    names = set()
    for batch in range(4):
        for _ in range(2):
            world.attempt(f"{batch}", "run-1", b"orphan")
        winner = world.attempt(f"{batch}", "run-1", b"%d" % batch)
        world.commit(f"{batch}", "run-1", winner)
        names.add(winner.transactional_id)
    assert (world.visible(), world.open_transactions()) == ([b"0", b"1", b"2", b"3"], [])
    with sync.Admin(bootstrap_servers=world.bootstrap) as admin:
        known = [each for each in admin.list_transactions() if f".{world.query_id}." in each.transactional_id]
    assert len(known) == 3


@pytest.mark.parametrize("is_prepared", [False, True])
def test_a_driver_that_wakes_late_harms_no_later_use_of_an_id(world: World, is_prepared: bool) -> None:
    """It commits its winners again, sweeps, aborts, while the id has a transaction of the next batch."""
    first = world.attempt("0", "run-1", b"0")
    decision = world.commit("0", "run-1", first)
    second = world.attempt("1", "run-1", b"1")
    assert second.transactional_id == first.transactional_id
    if is_prepared:
        world.store.decide(sink.BatchDecision(world.query_id, "1", "run-1", (second,)))
    for late in (
        lambda: world.committer.roll_forward(decision),
        lambda: world.committer.sweep(decision),
        lambda: world.commit("0", "slept", first),
        lambda: abort_exactly(world.committer._admin, first.transactional_id, PreparedTxnState(first.prepared_state)),
    ):
        with contextlib.suppress(CommitRefused):  # once batch 1 is decided batch 0 is forgotten
            late()
        assert world.open_transactions() == [second.transactional_id]
    world.commit("1", "run-1", second)
    assert (world.visible(), world.open_transactions()) == ([b"0", b"1"], [])


def test_a_sweep_that_slept_ends_nothing_of_the_next_batch(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It listed an orphan; meanwhile another driver was done, and the next batch uses the very id."""
    orphan, winner = world.attempt("0", "run-1", b"orphan"), world.attempt("0", "run-1", b"0")
    decision = sink.BatchDecision(world.query_id, "0", "run-1", (winner,))
    states_of = Committer._states_of
    later: list[sink.Attempt] = []

    def and_sleeps(committer: Committer, ids: list[str]) -> dict[str, str]:
        monkeypatch.setattr(Committer, "_states_of", states_of)
        found = states_of(committer, ids)
        world.commit("0", "run-1", winner)
        later.extend(world.attempt("1", "run-1", b"%d" % i) for i in (1, 2))
        return found

    world.store.decide(decision)
    monkeypatch.setattr(Committer, "_states_of", and_sleeps)
    world.committer.sweep(decision)
    assert {each.transactional_id for each in later} == {orphan.transactional_id, winner.transactional_id}
    assert sorted(world.open_transactions()) == sorted(each.transactional_id for each in later)
    world.commit("1", "run-1", *later)
    assert sorted(world.visible()) == [b"0", b"1", b"2"]


def test_what_an_id_left_open_in_an_earlier_batch_ends_with_its_next_use(world: World) -> None:
    """A zombie's attempt behind the sweep; its id gets its clock back, too."""
    world.commit("0", "run-1", world.attempt("0", "run-1", b"0"))
    left = world.attempt("0", "run-1", b"left")  # the process's other id, behind the sweep of batch 0
    attempts = [world.attempt("1", "run-1", b"%d" % i) for i in (1, 2)]
    assert left.transactional_id in {each.transactional_id for each in attempts}
    world.commit("1", "run-1", *attempts)
    assert sorted(world.visible()) == [b"0", b"1", b"2"]
    assert world.open_transactions() == []


def test_what_ran_again_beside_a_batch_that_is_done_is_ended(world: World) -> None:
    world.commit("0", "run-1", world.attempt("0", "run-1", b"0"))
    world.commit("0", "run-2", world.attempt("0", "run-2", b"again"))
    assert (world.visible(), world.open_transactions()) == ([b"0"], [])


def test_abandoned_a_run_that_lives_can_decide_nothing_any_more(world: World) -> None:
    world.commit("0", "run-1", world.attempt("0", "run-1", b"0"))
    alive = world.attempt("1", "run-1", b"1")
    assert recovered(world).undecided == [alive.transactional_id]
    assert recovered(world, abandon=True).abandoned == [alive.transactional_id]
    assert world.open_transactions() == []
    for batch in "123":
        with pytest.raises(CommitRefused, match="was vetoed"):
            world.commit(batch, "run-1", alive)
    world.commit("1", "run-2", world.attempt("1", "run-2", b"again"))
    assert world.visible() == [b"0", b"again"]


def test_abandoned_a_winner_is_completed(world: World) -> None:
    """It was decided while the recovery looked."""
    winner = world.attempt("0", "run-1", b"0")
    name = leased_name("oncelog-spark", winner.transactional_id)
    assert name is not None
    world.store.decide(sink.BatchDecision(world.query_id, "0", "run-1", (winner,)))
    world.committer.abandon_leased(name, winner.transactional_id)
    assert (world.visible(), world.open_transactions()) == ([b"0"], [])


def test_a_batch_without_rows_is_decided_too(world: World) -> None:
    with sync.Admin(bootstrap_servers=world.bootstrap) as admin:
        admin.create_topics({world.topic: 1})
    assert world.commit("0", "run-1", world.attempt("0", "run-1")).winners == ()
    assert world.visible() == []


def test_recover_completes_what_was_decided_and_names_what_was_not(world: World) -> None:
    decided = world.attempt("0", "run-1", b"decided", by_name=True)
    undecided = world.attempt("1", "run-1", b"undecided", by_name=True)
    world.store.decide(sink.BatchDecision(world.query_id, "0", "run-1", (decided,)))
    report = recovered(world)
    assert (report.completed, report.undecided) == ([decided.transactional_id], [undecided.transactional_id])
    assert world.visible() == [b"decided"]
    assert recovered(world, abandon=True).abandoned == [undecided.transactional_id]
    assert (world.visible(), world.open_transactions()) == ([b"decided"], [])


@pytest.mark.parametrize("told", [{}, {"abandon": True}])
def test_recover_ends_nothing_unless_told_and_nothing_of_others(
    broker: TestBroker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, told: dict[str, bool]
) -> None:
    """A restart of the query may still decide what is undecided. An id that only begins like one of the sink's is
    somebody else's, and hides none that comes behind it."""
    store = DatabaseDecisionStore(f"sqlite:///{tmp_path / 'd.db'}")
    world = World(broker.bootstrap_servers, store, "resumed", f"q-told-{len(told)}")
    foreign, open_transactions = f"oncelog-spark.{world.query_id}.mine", Committer.open_transactions
    with sync.Producer(bootstrap_servers=world.bootstrap, transactional_id=foreign) as producer, producer.transaction():
        producer.send_and_wait(world.topic, b"foreign")
        mine = world.attempt("0", "run-1", b"mine").transactional_id
        monkeypatch.setattr(
            Committer, "open_transactions", lambda *of: sorted(open_transactions(*of), key=lambda each: each == mine)
        )

        def listed() -> list[str]:
            return [i for i in world.committer.open_transactions(None) if f".{world.query_id}." in i]

        assert (listed(), world.open_transactions()) == ([foreign, mine], [mine])
        report = recovered(world, **told)
        assert (report.undecided, report.abandoned) == (([], [mine]) if told else ([mine], []))
        assert listed() == ([foreign] if told else [foreign, mine])
    recovered(world, abandon=True)
    assert world.visible() == [b"foreign"]
    world.committer.close()
    store.close()


def test_recover_on_a_cluster_without_decisions_finds_nothing_and_makes_nothing() -> None:
    with TestBroker() as fresh:
        options = sink_options({"bootstrap.servers": fresh.bootstrap_servers, "topic": "x"})
        assert recovery.recover(options) == RecoveryReport()
        with sync.Admin(bootstrap_servers=fresh.bootstrap_servers) as admin:
            assert admin.list_topics(include_internal=True) == {}


def test_recover_goes_on_behind_a_lost_one_that_it_meets_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A zombie opened a transaction of a lost batch while the recovery ran: it is ended, the loss told once."""
    gone = world.attempt("0", "run-1", b"gone")
    world.store.decide(sink.BatchDecision(world.query_id, "0", "run-1", (gone,)))
    with sync.Admin(bootstrap_servers=world.bootstrap) as admin:
        admin.force_terminate_transaction(gone.transactional_id)
    roll_forward = Committer.roll_forward

    def beside_a_zombie(committer: Committer, decision: sink.BatchDecision) -> int:
        monkeypatch.setattr(Committer, "roll_forward", roll_forward)
        try:
            return roll_forward(committer, decision)
        finally:
            world.attempt("0", "run-1", b"a zombie", by_name=True)

    monkeypatch.setattr(Committer, "roll_forward", beside_a_zombie)
    report = recovered(world, abandon=True)
    assert (len(report.lost), report.abandoned, world.open_transactions()) == (1, [], [])


def recovered(world: World, **told: bool) -> RecoveryReport:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recovery, "decision_store", lambda _: world.store)
        patch.setattr(recovery, "has_decisions", lambda _: True)
        return recovery.recover(world.options, world.query_id, **told)


def test_a_transaction_near_its_timeout_does_not_win(broker: TestBroker, tmp_path: pathlib.Path) -> None:
    """*resumed*: the decider refuses rather than decide for a transaction that may be gone when it is completed."""
    store = DatabaseDecisionStore(f"sqlite:///{tmp_path / 'd.db'}")
    world = World(broker.bootstrap_servers, store, "resumed", "q-near-timeout")
    attempt = world.attempt("0", "run-1", b"late")
    impatient = Committer(
        sink_options({"bootstrap.servers": world.bootstrap, "topic": "x", "completionMarginMs": "900000"}), store
    )
    with pytest.raises(CommitRefused, match="could time out"):
        impatient.commit(world.query_id, "0", "run-1", [attempt], world.backend)
    assert store.known(world.query_id, "0").vetoed_runs == {"run-1"}
    impatient.close()
    world.committer.close()
    store.close()


@pytest.mark.parametrize("kind", ["topic", "database"])
def test_a_transaction_that_ends_while_its_decision_waits_does_not_win(
    broker: TestBroker, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """*resumed*: a locked database, a slow read of the decisions. Its batch was decided, and lost for ever."""
    made: DecisionStore
    if kind == "topic":
        made = TopicDecisionStore({"bootstrap.servers": broker.bootstrap_servers}, "__oncelog_decisions")
    else:
        made = DatabaseDecisionStore(f"sqlite:///{tmp_path / 'd.db'}")
    world = World(broker.bootstrap_servers, made, "resumed", f"q-waits-{kind}")
    attempt = world.attempt("0", "run-1", b"late")

    def times_out(*given: object) -> None:
        if kind == "topic" or str(given[2]).startswith("INSERT INTO oncelog_decisions"):
            with sync.Admin(bootstrap_servers=world.bootstrap) as admin:
                admin.force_terminate_transaction(attempt.transactional_id)

    with contextlib.closing(made), world.committer, monkeypatch.context() as patch:
        if isinstance(made, DatabaseDecisionStore):
            sa.event.listen(made.engine, "before_cursor_execute", times_out)
        else:
            find, reads = made._partition, itertools.count()
            # The first look is before the decision, the second one within it.
            patch.setattr(made, "_partition", lambda query_id: (next(reads) and times_out(), find(query_id))[1])
        with pytest.raises(CommitRefused, match="could time out"):
            world.commit("0", "run-1", attempt)
        patch.undo()
        if isinstance(made, DatabaseDecisionStore):
            sa.event.remove(made.engine, "before_cursor_execute", times_out)
        assert (made.known(world.query_id, "0").decision, world.visible()) == (None, [])
        world.commit("0", "run-2", world.attempt("0", "run-2", b"again"))
        assert world.visible() == [b"again"]


def test_a_backend_that_the_broker_lacks_is_refused_before_anything_is_written() -> None:
    with TestBroker({"transaction.two.phase.commit.enable": "false"}) as plain:
        options = {"bootstrap.servers": plain.bootstrap_servers, "topic": "x"}
        with pytest.raises(errors.ConfigurationError, match="use backend=resumed"):
            choose_backend(sink_options({**options, "backend": "prepared"}))
        assert choose_backend(sink_options(options)).kind == "resumed"


def test_what_the_decision_topic_refuses_is_not_taken_for_written(broker: TestBroker) -> None:
    """An abort that took its veto for durable would end transactions that may still win."""
    with FaultyProxy(broker.bootstrap_servers) as proxy:
        store = TopicDecisionStore({"bootstrap.servers": proxy.bootstrap_servers}, "__oncelog_decisions")
        world = World(broker.bootstrap_servers, store, "prepared", "q-refused")
        attempt = world.attempt("0", "run-1", b"a")
        decision = sink.BatchDecision(world.query_id, "0", "run-1", (attempt,))
        refused = errors.TopicAuthorization
        for call in (
            lambda: world.committer.abort(world.query_id, "0", "run-1"),
            lambda: world.commit("0", "run-1", attempt),
            lambda: store.done(decision),
        ):
            proxy.refuse("Produce", refused.code)
            with pytest.raises(refused):
                call()
        assert world.open_transactions() == [attempt.transactional_id]
        world.commit("0", "run-1", attempt)
        assert world.visible() == [b"a"]
        world.committer.close()
        store.close()


def test_database_rows_and_the_decision_are_one_transaction(tmp_path: pathlib.Path) -> None:
    store = DatabaseDecisionStore(f"sqlite:///{tmp_path / 'd.db'}")
    decision = sink.BatchDecision("q", "0", "run-1", ())

    def fails(_: object) -> None:
        raise RuntimeError("the business rows break a rule")

    with pytest.raises(RuntimeError, match="break a rule"):
        store.decide(decision, fails)
    assert store.known("q", "0").decision is None
    written: list[str] = []
    assert store.decide(decision, lambda _: written.append("rows")).decision == decision
    assert (
        store.decide(sink.BatchDecision("q", "0", "run-2", ()), lambda _: written.append("again")).decision == decision
    )
    assert written == ["rows"]
    store.close()


def test_rows_go_to_the_topic_of_their_column_unless_the_option_names_one(broker: TestBroker) -> None:
    given = {"bootstrap.servers": broker.bootstrap_servers}
    rows = pa.RecordBatch.from_pydict({"topic": ["by-a", "by-b", "by-a"], "value": pa.array([b"1", b"2", b"3"])})
    for number, options in enumerate((sink_options(given), sink_options({**given, "topic": "by-option"}))):
        attempt = write_attempt(options, Backend("resumed", 60_000), f"by-topic-{number}", iter([rows]))
        assert attempt.row_count == 3
        with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            complete(admin, options.client, attempt)
    found = {topic: committed_values(broker.bootstrap_servers, topic) for topic in ("by-a", "by-b", "by-option")}
    assert found == {"by-a": [b"1", b"3"], "by-b": [b"2"], "by-option": [b"1", b"2", b"3"]}
    nowhere = pa.RecordBatch.from_pydict({"topic": ["by-a", None], "value": pa.array([b"1", b"2"])})
    with pytest.raises(errors.ConfigurationError, match="its column 'topic' is null"):
        write_attempt(sink_options(given), Backend("resumed", 60_000), "by-topic-none", iter([nowhere]))
    decisions = pa.RecordBatch.from_pydict({"topic": ["by-a", "__oncelog_decisions"], "value": pa.array([b"1", b"2"])})
    with pytest.raises(errors.ConfigurationError, match="where decisions live"):
        write_attempt(sink_options(given), Backend("resumed", 60_000), "by-topic-own", iter([decisions]))


def test_a_veto_is_of_one_run_of_one_batch_of_one_query(tmp_path: pathlib.Path) -> None:
    with contextlib.closing(DatabaseDecisionStore(f"sqlite:///{tmp_path / 'd.db'}")) as store:
        assert store.veto("q", "0", "run-1").vetoed_runs == {"run-1"}
        for query_id, batch_id, run_id in (("other", "0", "run-1"), ("q", "0", "run-2"), ("q", "1", "run-1")):
            vetoed = {"run-1"} if (query_id, batch_id) == ("q", "0") else set()
            assert store.known(query_id, batch_id).vetoed_runs == vetoed
            decision = sink.BatchDecision(query_id, batch_id, run_id, ())
            assert store.decide(decision).decision == decision


def test_a_result_that_somebody_keeps_locks_nobody_out(tmp_path: pathlib.Path) -> None:
    """A tracer or a traceback keeps cursors; one with rows left would keep SQLite's shared lock, which stops every commit."""
    url = f"sqlite:///{tmp_path / 'd.db'}"
    with (
        contextlib.closing(DatabaseDecisionStore(url)) as traced,
        contextlib.closing(DatabaseDecisionStore(url)) as other,
    ):
        kept: list[object] = []
        sa.event.listen(traced.engine, "after_cursor_execute", lambda _connection, cursor, *_: kept.append(cursor))
        with other.engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA busy_timeout = 0")
        calls: list[Callable[[], object]] = [
            lambda: traced.decide(sink.BatchDecision("q", "0", "run-1", ())),
            lambda: traced.decide(sink.BatchDecision("q", "1", "run-1", ())),
            lambda: traced.known("q", "0"),
            lambda: traced.known("q", "2"),
            lambda: traced.veto("q", "3", "run-1"),
            lambda: traced.veto("q", "0", "run-2"),
            lambda: traced.decided(),
            lambda: traced.done(sink.BatchDecision("q", "1", "run-1", ())),
        ]
        for number, call in enumerate(calls):
            call()
            other.veto("other", f"{number}", "run-1")
        assert len(kept) > len(calls)


def other_store(world: World, tmp_path: pathlib.Path) -> DecisionStore:
    """Another one of the same kind."""
    if isinstance(world.store, DatabaseDecisionStore):
        return DatabaseDecisionStore(f"sqlite:///{tmp_path / 'others.db'}")
    return TopicDecisionStore({"bootstrap.servers": world.bootstrap}, f"decisions-{world.query_id}")


def test_a_query_whose_decisions_are_elsewhere_is_refused(world: World, tmp_path: pathlib.Path) -> None:
    world.commit("0", "run-1", world.attempt("0", "run-1", b"a"))  # the driver dies before Spark writes it down
    store = other_store(world, tmp_path)
    with contextlib.closing(store), Committer(world.options, store) as committer:
        again = world.attempt("0", "run-2", b"a")
        with pytest.raises(CommitRefused, match="keeps its decisions somewhere else"):
            committer.commit(world.query_id, "0", "run-2", [again], world.backend)
        committer.abort(world.query_id, "0", "run-2")
    assert (world.visible(), world.open_transactions()) == ([b"a"], [])
    world.commit("0", "run-3", world.attempt("0", "run-3", b"a"))  # with the store of before it goes on
    assert world.visible() == [b"a"]


def test_a_query_that_got_no_further_than_a_failed_attempt_may_take_another_store(
    world: World, tmp_path: pathlib.Path
) -> None:
    world.attempt("0", "run-1", b"never")
    store = other_store(world, tmp_path)
    with contextlib.closing(store), Committer(world.options, store) as committer:
        committer.commit(world.query_id, "0", "run-2", [world.attempt("0", "run-2", b"a")], world.backend)
    assert (world.visible(), world.open_transactions()) == ([b"a"], [])


def test_what_a_query_left_open_under_another_prefix_is_ended(world: World) -> None:
    spark_id = str(uuid.uuid4())
    name = TransactionalIds(uuid.uuid4().hex).lease("prefix-of-before", spark_id, "run-1", 0)
    batches = iter([pa.RecordBatch.from_pydict({"value": pa.array([b"orphan"], pa.binary())})])
    write_attempt(world.options, world.backend, name, batches)
    assert world.committer.open_transactions(spark_id) == [name]
    world.query_id = spark_id
    world.commit("0", "run-2", world.attempt("0", "run-2", b"a"))
    assert (world.visible(), world.open_transactions()) == ([b"a"], [])


def test_a_query_and_its_decisions_are_one_row_each(tmp_path):
    """Two processes that decide at once: the database says which was first."""
    url = f"sqlite:///{tmp_path / 'd.db'}"
    DatabaseDecisionStore(url)
    found = sa.inspect(sa.create_engine(url))
    keys = {name: found.get_pk_constraint(name)["constrained_columns"] for name in found.get_table_names()}
    assert keys["oncelog_queries"] == ["query_id"]
    assert keys["oncelog_vetoes"] == ["query_id", "batch_id", "run_start"]
    assert all(keys.values()), keys
