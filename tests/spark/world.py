"""A query of the sink without Spark: lives of its driver, attempts of its tasks, and what must hold when all is over."""

from __future__ import annotations

import contextlib
import itertools
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest
import sqlalchemy as sa

from oncelog import TopicPartition, sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import TransactionalIds
from oncelog.spark import recovery
from oncelog.spark.backend import Backend, choose_backend
from oncelog.spark.committer import Committer
from oncelog.spark.database_decisions import DatabaseDecisionStore
from oncelog.spark.decision_store import DecisionStore, TopicDecisionStore
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.recovery import RecoveryReport
from oncelog.spark.writer import write_attempt
from tests.recipes.steps import Cancelled, Died, Steps

TASKS = (0, 1)
_numbers = itertools.count(1)


class Cluster:
    """A broker's address with clients that only look."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = sync.Admin(bootstrap_servers=bootstrap_servers)
        self.admin.start()
        self.consumer = sync.Consumer(
            bootstrap_servers=bootstrap_servers,
            isolation_level="read_committed",
            auto_offset_reset="earliest",
            fetch_max_wait_ms=5,
        )
        self.consumer.start()
        self.backends: dict[str, Backend] = {}
        self.watchers: dict[str | None, DecisionStore] = {}

    def watcher(self, options: SinkOptions) -> DecisionStore:
        """A store that only looks."""
        if options.decision_url not in self.watchers:
            self.watchers[options.decision_url] = new_store(options)
        return self.watchers[options.decision_url]

    def backend(self, options: SinkOptions) -> Backend:
        if options.backend not in self.backends:
            self.backends[options.backend] = choose_backend(options)
        return self.backends[options.backend]

    def committed(self, topic: str) -> list[tuple[bytes | None, bytes | None]]:
        """Keys and values up to the last stable offset."""
        where = TopicPartition(topic, 0)
        self.consumer.assign([where])
        end, found = self.consumer.end_offsets([where])[where], []
        while self.consumer.position(where) < end:
            found += [(record.key, record.value) for record in self.consumer.poll(timeout_ms=1000)]
        return found

    def close(self) -> None:
        for watcher in self.watchers.values():
            watcher.close()
        self.consumer.stop()
        self.admin.stop()


def new_store(options: SinkOptions) -> DecisionStore:
    """As a new process makes it."""
    if options.decision_url is not None:
        return DatabaseDecisionStore(options.decision_url)
    from_config = sync.Consumer.from_config
    with pytest.MonkeyPatch.context() as patch:  # a case takes less time than one fetch that waits for records
        patch.setattr(sync.Consumer, "from_config", lambda config: from_config(config, fetch_max_wait_ms=5))
        return TopicDecisionStore(options.client, options.decision_topic)


class Query:
    """One query, with an output topic and a decision store of its own kind; its rows are the same in every run."""

    def __init__(self, cluster: Cluster, store_kind: str, backend: str, database_url: str, steps: Steps) -> None:
        self.cluster, self.steps = cluster, steps
        number = next(_numbers)
        self.query_id, self.topic = f"q-{number}", f"out-{number}"
        with steps.off():
            cluster.admin.create_topics({self.topic: 1})
        given = {"bootstrap.servers": cluster.bootstrap_servers, "topic": self.topic, "backend": backend}
        if store_kind == "database":
            given["decisionUrl"] = database_url
        self.options = sink_options(given)
        with steps.off():
            self.backend = cluster.backend(self.options)
            self.watcher = cluster.watcher(self.options)
        self.ids = TransactionalIds(uuid.uuid4().hex)
        self.uses: dict[str, sink.AttemptName] = {}  # id -> of what it is now
        self.reported: set[str] = set()  # ids of attempts that a driver can hear of
        self.findings: list[str] = []

    # what a process of it has

    @contextlib.contextmanager
    def process(self) -> Iterator[DecisionStore]:
        """A process's decision store. It is there already when the steps begin; a new process reads from the beginning."""
        with self.steps.off():
            store = new_store(self.options)
        end: Callable[[], None] = lambda: None  # noqa: E731
        if isinstance(store, DatabaseDecisionStore):
            end = step_database(store.engine, self.steps)
        try:
            yield store
        finally:
            with self.steps.off():
                end()
                store.close()

    def attempt(self, batch: str, run: str, task: int, *, steps: bool = False) -> sink.Attempt:
        """A task attempt: its row is (batch/task, run)."""
        home = self.watcher.home
        name = self.ids.lease("oncelog-spark", self.query_id, sink.run_start(run), int(batch), home)
        self.uses[name] = sink.AttemptName(self.query_id, batch, task, sink.run_start(run), 0)
        self.reported.discard(name)
        key, value = f"{batch}/{task}".encode(), run.encode()
        rows = pa.RecordBatch.from_pydict(
            {"key": pa.array([key], pa.binary()), "value": pa.array([value], pa.binary())}
        )
        with contextlib.nullcontext() if steps else self.steps.off():
            attempt = write_attempt(self.options, self.backend, name, iter([rows]))
            self.reported.add(name)
            return attempt

    def attempts(self, batch: str, run: str) -> list[sink.Attempt]:
        return [self.attempt(batch, run, task) for task in TASKS]

    def decision(self, batch: str, run: str, attempts: list[sink.Attempt]) -> sink.BatchDecision:
        return sink.BatchDecision(self.query_id, batch, run, tuple(attempts))

    def run_batch(self, store: DecisionStore, batch: str, run: str) -> None:
        """As Spark runs a batch (again): the tasks, then the commit."""
        known = store.known(self.query_id, batch)
        attempts = self.attempts(batch, run) if known.decision is None else []
        committer = Committer(self.options, store)
        try:
            committer.commit(self.query_id, batch, run, attempts, self.backend)
        finally:
            committer.close()

    def abort(self, store: DecisionStore, batch: str, run: str | None) -> None:
        committer = Committer(self.options, store)
        try:
            committer.abort(self.query_id, batch, run)
        finally:
            committer.close()

    def recover(self, store: DecisionStore, *, abandon: bool = False) -> RecoveryReport:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(recovery, "decision_store", lambda _: store)
            patch.setattr(recovery, "has_decisions", lambda _: True)
            return recovery.recover(self.options, self.query_id, abandon=abandon)

    # what must hold

    def open_transactions(self) -> list[str]:
        mine = f"oncelog-spark.{self.query_id}."
        listed = self.cluster.admin.list_transactions(states=["Ongoing"])
        return [each.transactional_id for each in listed if each.transactional_id.startswith(mine)]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """The rules of order are looked at whenever a transaction is ended and a batch marked done."""
        terminate, complete = sync.Admin.force_terminate_transaction, sync.Admin.end_transaction
        known = self.watcher

        def checked_terminate(admin: sync.Admin, transactional_id: str) -> Any:
            with self.steps.off():
                self._may_be_ended(transactional_id)
            return terminate(admin, transactional_id)

        def checked_complete(admin: sync.Admin, transactional_id: str, *arguments: Any, **more: Any) -> Any:
            if not more["commit"]:
                with self.steps.off():
                    self._may_be_ended(transactional_id)
                return complete(admin, transactional_id, *arguments, **more)
            with self.steps.off():
                name = self.uses[transactional_id]
                decision = known.known(name.query_id, name.batch_id).decision
                if decision is None or transactional_id not in {w.transactional_id for w in decision.winners}:
                    self.findings.append(f"{transactional_id} is committed, and no durable decision names it")
            return complete(admin, transactional_id, *arguments, **more)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sync.Admin, "force_terminate_transaction", checked_terminate)
            patch.setattr(sync.Admin, "end_transaction", checked_complete)
            for store in (TopicDecisionStore, DatabaseDecisionStore):
                patch.setattr(store, "done", self._checked_done(store.done))
            yield

    def _checked_done(self, done: Callable[..., None]) -> Callable[..., None]:
        def checked(store: Any, decision: sink.BatchDecision, *note: bytes) -> None:
            with self.steps.off():
                ids = [winner.transactional_id for winner in decision.winners]
                described = self.cluster.admin.describe_transactions(ids) if ids else {}
                for transactional_id, found in described.items():
                    if not found.state.endswith("Commit"):
                        self.findings.append(f"done, and {transactional_id} is {found.state}")
            done(store, decision, *note)

        return checked

    def _may_be_ended(self, transactional_id: str) -> None:
        name = self.uses[transactional_id]
        known = self.watcher.known(name.query_id, name.batch_id)
        if known.decision is not None:
            if transactional_id in {winner.transactional_id for winner in known.decision.winners}:
                self.findings.append(f"the winner {transactional_id} is ended")
        elif transactional_id not in self.reported:
            pass  # a task ends its own, which it never told of
        elif name.run_start not in known.vetoed_runs and not known.is_superseded:
            self.findings.append(f"{transactional_id} is ended, and neither a decision nor a veto is durable")

    def judge(self, batches: list[str], *, may_be_absent: bool = False) -> list[str]:
        """What is wrong now that everything is over."""
        with self.steps.off():
            found = list(self.findings)
            while any(each.state.startswith("Prepare") for each in self.cluster.admin.list_transactions()):
                pass
            left = self.open_transactions()
            if left:
                found.append(f"open at the end: {left}")
            seen = Counter(self.cluster.committed(self.topic))
            expected: Counter[tuple[bytes | None, bytes | None]] = Counter()
            for batch in batches:
                known = self.watcher.known(self.query_id, batch)
                if known.decision is not None:
                    if not known.is_done:
                        found.append(f"batch {batch} is decided and not done")
                    run = known.decision.run_id.encode()
                    expected.update((f"{batch}/{task}".encode(), run) for task in TASKS)
                elif known.is_superseded:  # its record was forgotten: of exactly one run
                    runs = {value for key, value in seen if (key or b"").startswith(f"{batch}/".encode())}
                    if len(runs) != 1:
                        found.append(f"batch {batch} has rows of {runs}")
                    expected.update((f"{batch}/{task}".encode(), run) for task in TASKS for run in runs)
                elif not may_be_absent:
                    found.append(f"batch {batch} is not decided")
            if seen != expected:
                found.append(f"rows {dict(seen)}, expected {dict(expected)}")
            return found


def step_database(engine: sa.Engine, steps: Steps) -> Callable[[], None]:
    """Every statement and commit of an engine is a step. Gives what the end of its process does."""
    cursors: list[Any] = []
    dialect: Any = engine.dialect
    execute, commit = dialect.do_execute, dialect.do_commit

    class Gone(dialect.loaded_dbapi.OperationalError):  # type: ignore[name-defined, misc]
        """The server is gone."""

    def end() -> None:
        """SQLite's connection would live on, with its lock, for as long as a cursor does (in a traceback)."""
        for cursor in cursors:
            cursor.close()
        cursors.clear()

    def stepped(name: str, work: Callable[[], Any]) -> None:
        try:
            steps.around(name, work, lambda: Gone(name))
        except (Died, Cancelled):
            end()
            raise

    def do_execute(cursor: Any, statement: str, parameters: Any, context: Any = None) -> None:
        cursors.append(cursor)
        words = " ".join(statement.split()[:3])
        stepped(f"execute {words}", lambda: execute(cursor, statement, parameters, context))

    dialect.do_execute = do_execute
    dialect.do_commit = lambda connection: stepped("commit", lambda: commit(connection))
    return end
