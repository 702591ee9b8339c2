"""Rows to a database and records to topics, together or not at all: the foreachBatch form of the sink.

The decision that commits a batch's records is a row of the same database transaction as the business rows, so there is one
commit point: the database's. Records become visible after it; a crash in between is completed by the next start or by
`oncelog recover --decision-url`. Of two drivers that run the same batch, one gets the decision row and the other neither
rows nor records.
"""

from __future__ import annotations

import inspect
import logging
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa

from oncelog import sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.errors import ConfigurationError, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.backend import Backend, DecisionsOutOfReach, LostTransaction, choose_backend
from oncelog.spark.committer import CommitRefused, Committer
from oncelog.spark.database_decisions import DatabaseDecisionStore, refuse_in_memory
from oncelog.spark.decision_store import check_lengths
from oncelog.spark.options import SinkOptions, client_arguments, sink_options
from oncelog.spark.plainly import plainly, told_first
from oncelog.spark.target_topic import look_at_the_target
from oncelog.spark.writer import check_columns, leased_id, write_attempt

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

logger = logging.getLogger("oncelog.spark")
ATTEMPTS_DDL = (
    "transactional_id string, prepared_state string, row_count bigint, acting_state string, byte_count bigint"
)

# (database, query_id) -> (Spark's run, batch) that was committed last here: a batch comes once in a run.
_committed: dict[tuple[str, str], tuple[str | None, int]] = {}


@dataclass
class _DualWrite:
    """The function that foreachBatch calls."""

    options: SinkOptions
    query_id: str
    database_url: str
    to_records: Callable[[DataFrame], DataFrame]
    to_database: Callable[[sa.Connection, DataFrame, int], None]

    def __post_init__(self) -> None:
        self._store: DatabaseDecisionStore | None = None
        self._backend: Backend | None = None
        self._run_id = ""  # of this process, as Spark's own is not known in every session
        self._claimed: tuple[str | None] | None = None  # by which Spark query

    @plainly
    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """One micro-batch; repeated after a crash, it completes what was decided and writes nothing twice."""
        with told_first():
            self._call(frame, batch_id)

    def _call(self, frame: DataFrame, batch_id: int) -> None:
        if self._store is None:
            self._store = DatabaseDecisionStore(self.database_url)
            self._run_id = uuid.uuid4().hex  # here: a Connect session hands the same object to each run
        if self._backend is None:
            self._backend = choose_backend(self.options)
            with sync.Admin.from_config(client_arguments(self.options.client)) as admin:
                look_at_the_target(self.options, admin)
        spark_query_id, spark_run_id = _names_of(frame)
        if self._claimed != (spark_query_id,):
            self._refuse_decided_elsewhere(self._store, batch_id)
            refusal = self._store.claim(self.query_id, spark_query_id, str(batch_id))
            if refusal is not None:
                raise ConfigurationError(refusal.reason)
            self._claimed = (spark_query_id,)
        key, this = (self.database_url, self.query_id), (spark_run_id, batch_id)
        if _committed.get(key) == this:
            raise ConfigurationError(
                f"query_id {self.query_id!r} has committed batch {batch_id} in this run: a second dual_write of a query needs "
                "a query_id of its own"
            )
        try:
            with Committer(self.options, self._store) as committer:
                self._write(frame, str(batch_id), committer, self._store, self._backend)
        except BaseException:
            # This one may be vetoed, and a later batch would not mean that this one is done.
            self._run_id = uuid.uuid4().hex
            self._backend = None  # the query that starts next may find that the broker can do something else
            raise
        _committed[key] = this

    def _refuse_decided_elsewhere(self, store: DatabaseDecisionStore, batch_id: int) -> None:
        """A query that goes on beside another database than before; one that begins beside an empty one may have any name."""
        known = store.known(self.query_id, str(batch_id))
        if batch_id > 0 and not known.has_history:
            with Committer(self.options, store) as committer:
                committer.refuse_decided_elsewhere(known, self.query_id)

    def _write(
        self, frame: DataFrame, batch_id: str, committer: Committer, store: DatabaseDecisionStore, backend: Backend
    ) -> None:
        known = store.known(self.query_id, batch_id)
        if known.is_superseded:
            raise CommitRefused(sink.superseded_reason(self.query_id, batch_id))
        decision = known.decision
        was_decided = committer.numbers.is_repeated = decision is not None
        if decision is None:
            run_id = self._run_id
            frame.persist()
            try:
                attempts = self._write_records(frame, batch_id, run_id, backend, store)
                committer.numbers.take(attempts)
                decision = self._decide(frame, batch_id, run_id, attempts, committer, store, backend)
            except BaseException:
                self._abort(committer, batch_id, run_id)
                raise
            finally:
                frame.unpersist()
        committer.finish(decision, is_done=known.is_done)
        if was_decided:
            # Nobody has read it: a stateful query's state for the next batch is made by reading (writer.read_to_the_end).
            frame.write.format("noop").mode("overwrite").save()

    def _abort(self, committer: Committer, batch_id: str, run_id: str) -> None:
        """End what this call's tasks left open, or complete it where it was decided after all; the cause is on its way up."""
        try:
            committer.abort(self.query_id, batch_id, run_id)
        except (KafkaError, DecisionsOutOfReach, LostTransaction, sa.exc.SQLAlchemyError, OSError) as error:
            logger.warning("batch %s of %s is settled when the query starts again: %s", batch_id, self.query_id, error)

    def _write_records(
        self, frame: DataFrame, batch_id: str, run_id: str, backend: Backend, store: DatabaseDecisionStore
    ) -> list[sink.Attempt]:
        records = self.to_records(frame)
        check_columns(records.schema, self.options)
        write = _TaskWriter(self.options, backend, self.query_id, batch_id, run_id, store.home)
        rows = records.mapInArrow(write, ATTEMPTS_DDL).collect()
        return [
            sink.Attempt(
                r["transactional_id"],
                r["prepared_state"],
                r["row_count"],
                acting_state=r["acting_state"],
                byte_count=r["byte_count"],
            )
            for r in rows
        ]

    def _decide(
        self,
        frame: DataFrame,
        batch_id: str,
        run_id: str,
        attempts: list[sink.Attempt],
        committer: Committer,
        store: DatabaseDecisionStore,
        backend: Backend,
    ) -> sink.BatchDecision:
        winners = tuple(attempt for attempt in attempts if not attempt.is_empty)
        committer.last_look(winners, backend, self.query_id)  # before the rows, which may take long; and after them
        proposed = sink.BatchDecision(self.query_id, batch_id, run_id, winners)
        with committer.numbers.step("decide"):
            known = store.decide(
                proposed,
                lambda connection: self.to_database(connection, frame, int(batch_id)),
                last_look=lambda: committer.last_look(winners, backend, self.query_id),
            )
        if known.decision is None:
            raise CommitRefused(sink.refusal(known, proposed).reason)
        return known.decision


@dataclass
class _TaskWriter:
    """What runs in the tasks: `mapInArrow` gives a partition's batches, one row goes back."""

    options: SinkOptions
    backend: Backend
    query_id: str
    batch_id: str
    run_id: str
    home: str

    @plainly
    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        name = leased_id(self.options, self.query_id, self.run_id, self.batch_id, self.home)
        attempt = write_attempt(self.options, self.backend, name, batches)
        yield pa.RecordBatch.from_pydict(
            {
                "transactional_id": [attempt.transactional_id],
                "prepared_state": [attempt.prepared_state],
                "row_count": [attempt.row_count],
                "acting_state": [attempt.acting_state],
                "byte_count": [attempt.byte_count],
            }
        )


def _names_of(frame: DataFrame) -> tuple[str | None, str | None]:
    """Spark's ids of the query (stable over restarts, in its checkpoint) and of its run; a Connect session does not tell."""
    try:
        context = frame.sparkSession.sparkContext
    except AttributeError:
        return None, None
    return context.getLocalProperty("sql.streaming.queryId"), context.getLocalProperty("spark.jobGroup.id")


def _check_url(database_url: str) -> None:
    """As far as that can be seen without the database, which only Spark's driver may reach. Raises ConfigurationError."""
    try:
        refuse_in_memory("database_url", database_url)
        sa.create_engine(database_url).dispose()
    except (sa.exc.ArgumentError, ValueError, ImportError, TypeError) as error:  # also a driver that is not installed
        raise ConfigurationError(
            f"database_url: {error} (wanted: sqlite:///file.db, postgresql+psycopg://...)"
        ) from error


def _check_function(name: str, given: object, *wanted: str) -> None:
    """A wrong one would be told in the first batch, in the middle of Spark's frames, and one that nobody awaits never. Raises
    ConfigurationError."""
    call = f"{name}({', '.join(wanted)})"
    if not callable(given):
        raise ConfigurationError(f"{name} is a function that is called as {call}: {given!r:.100}")
    if inspect.iscoroutinefunction(given) or inspect.isgeneratorfunction(given) or inspect.isasyncgenfunction(given):
        raise ConfigurationError(
            f"{name} is called as {call} and has to be a plain function: nobody would run this one's body"
        )
    try:
        signature = inspect.signature(given)
    except (TypeError, ValueError):  # of one written in C, which says nothing
        return
    try:
        signature.bind(*wanted)
    except TypeError as error:
        raise ConfigurationError(f"{name} is called as {call}, and this one takes {signature}: {error}") from None


def dual_write(
    *,
    query_id: str,
    database_url: str,
    to_records: Callable[[DataFrame], DataFrame],
    to_database: Callable[[sa.Connection, DataFrame, int], None],
    options: Mapping[str, str],
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that commits a micro-batch's rows and records together.

    Args:
        query_id: a name of your own for this query, stable over restarts (letters, digits, `-`, `_`); the decision's key. It
            belongs to the Spark query (the checkpoint) that uses it first: another one, a new checkpoint, is refused.
        database_url: SQLAlchemy's URL (sqlite:///file.db, postgresql+psycopg://...). Three tables are made there:
            oncelog_decisions, oncelog_vetoes, oncelog_queries.
        to_records: DataFrame -> DataFrame with the sink's columns (value, optionally key, topic, partition, headers,
            timestamp). May be evaluated again in a retried task.
        to_database: called with a connection inside the deciding transaction, the micro-batch and its id; writes the
            business rows and must not commit.
        options: the sink's options (bootstrap.servers, topic, transactionalIdPrefix, backend, kafka.*).

    Raises:
        ConfigurationError: a wrong argument or option, at once; a query_id of another query, a to_database that commits, in the
            batch, before any of its records is visible.
    """
    if not isinstance(query_id, str) or not query_id or not all(c.isalnum() or c in "-_" for c in query_id):
        raise ConfigurationError(f"query_id has letters, digits, '-' and '_': {query_id!r}")
    _check_url(database_url)
    check_lengths(database_url, query_id=(query_id, sink.QUERY_ID_LENGTH_MAX))
    _check_function("to_records", to_records, "DataFrame")
    _check_function("to_database", to_database, "connection", "DataFrame", "batch_id")
    if not isinstance(options, Mapping):
        raise ConfigurationError(
            f"options are a mapping of the sink's options (bootstrap.servers, topic): {options!r:.100}"
        )
    return _DualWrite(sink_options(options, "a dual write"), query_id, database_url, to_records, to_database)
