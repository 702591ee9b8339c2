"""Rows to a database and records to topics, together or not at all: the foreachBatch form of the sink.

The decision that commits a batch's records is a row of the same database transaction as the business rows, so there is one
commit point: the database's. Records become visible after it; a crash in between is completed by the next start or by
`oncelog recover --decision-url`. Of two drivers that run the same batch, one gets the decision row and the other neither
rows nor records.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.errors import ConfigurationError
from oncelog.spark.backend import Backend, choose_backend
from oncelog.spark.committer import CommitRefused, Committer
from oncelog.spark.database_decisions import DatabaseDecisionStore
from oncelog.spark.options import SinkOptions, sink_options
from oncelog.spark.writer import check_columns, write_attempt

if TYPE_CHECKING:
    import sqlalchemy as sa
    from pyspark.sql import DataFrame

ATTEMPTS_DDL = "transactional_id string, prepared_state string, row_count bigint, run_id string"


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

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        """One micro-batch; repeated after a crash, it completes what was decided and writes nothing twice."""
        if self._store is None:
            self._store = DatabaseDecisionStore(self.database_url)
            self._backend = choose_backend(self.options)
        assert self._backend is not None
        with Committer(self.options, self._store) as committer:
            self._write(frame, str(batch_id), committer, self._store, self._backend)

    def _write(
        self, frame: DataFrame, batch_id: str, committer: Committer, store: DatabaseDecisionStore, backend: Backend
    ) -> None:
        decision = store.known(self.query_id, batch_id).decision
        if decision is None:
            frame.persist()
            try:
                attempts, run_id = self._write_records(frame, batch_id, backend)
                decision = self._decide(frame, batch_id, run_id, attempts, committer, store, backend)
            finally:
                frame.unpersist()
        committer.roll_forward(decision)

    def _write_records(self, frame: DataFrame, batch_id: str, backend: Backend) -> tuple[list[sink.Attempt], str]:
        records = self.to_records(frame)
        check_columns(records.schema, self.options)
        write = _TaskWriter(self.options, backend, self.query_id, batch_id)
        rows = records.mapInArrow(write, ATTEMPTS_DDL).collect()
        attempts = [sink.Attempt(r["transactional_id"], r["prepared_state"], r["row_count"]) for r in rows]
        return attempts, rows[0]["run_id"] if rows else f"empty-{batch_id}"

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
        committer.refuse_if_in_danger(winners, backend)
        proposed = sink.BatchDecision(self.query_id, batch_id, run_id, winners)
        known = store.decide(proposed, lambda connection: self.to_database(connection, frame, int(batch_id)))
        if known.decision is None:
            raise CommitRefused(f"run {run_id} was vetoed for batch {batch_id}")
        return known.decision


@dataclass
class _TaskWriter:
    """What runs in the tasks: `mapInArrow` gives a partition's batches, one row goes back."""

    options: SinkOptions
    backend: Backend
    query_id: str
    batch_id: str

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None, "tasks run with a TaskContext"
        run_id = context.getLocalProperty("spark.jobGroup.id") or f"{context.stageId()}"
        name = sink.transactional_id_for(
            self.options.transactional_id_prefix,
            self.query_id,
            self.batch_id,
            context.partitionId(),
            run_id,
            context.taskAttemptId(),
        )
        attempt = write_attempt(self.options, self.backend, name, batches)
        yield pa.RecordBatch.from_pydict(
            {
                "transactional_id": [attempt.transactional_id],
                "prepared_state": [attempt.prepared_state],
                "row_count": [attempt.row_count],
                "run_id": [run_id],
            }
        )


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
        query_id: a name of your own for this query, stable over restarts (letters, digits, `-`, `_`); the decision's key.
        database_url: SQLAlchemy's URL (sqlite:///file.db, postgresql+psycopg://...). Three tables are made there:
            oncelog_decisions, oncelog_vetoes, oncelog_queries.
        to_records: DataFrame -> DataFrame with the sink's columns (value, optionally key, topic, partition, headers,
            timestamp). May be evaluated again in a retried task.
        to_database: called with a connection inside the deciding transaction, the micro-batch and its id; writes the
            business rows and must not commit.
        options: the sink's options (bootstrap.servers, topic, transactionalIdPrefix, backend, kafka.*).

    Raises:
        ConfigurationError: a wrong option, before anything is written.
    """
    if not query_id or not all(c.isalnum() or c in "-_" for c in query_id):
        raise ConfigurationError(f"query_id has letters, digits, '-' and '_': {query_id!r}")
    return _DualWrite(sink_options(options, "a dual write"), query_id, database_url, to_records, to_database)
