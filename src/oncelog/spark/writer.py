"""The sink of format `oncelog`: tasks write in transactions of their own, the driver decides which of them count.

Columns: `value` (binary or string), optionally `key`, `topic`, `partition`, `headers`, `timestamp`. The protocol and its crash
table: docs/spark.md. A task never commits anything.
"""

from __future__ import annotations

import collections
import contextlib
import difflib
import itertools
import json
import logging
import os
import pathlib
import re
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from oncelog import sync
from oncelog.core.two_phase import exactly_once_sink as sink
from oncelog.core.two_phase.transactional_ids import TransactionalIds
from oncelog.core.two_phase.version_spellings import spelt_otherwise
from oncelog.errors import ConfigurationError, KafkaError
from oncelog.lazy_dataclass import dataclass
from oncelog.spark.backend import PREPARED, RESUMED, Backend, abort_exactly, promote, task_producer
from oncelog.spark.committer import CommitRefused, Committer
from oncelog.spark.decision_store import check_lengths, decision_store, home_of
from oncelog.spark.kept_admins import admin_of
from oncelog.spark.options import SinkOptions, client_arguments
from oncelog.spark.plainly import plainly
from oncelog.spark.rights import right_to_ids_named
from oncelog.types import PreparedTxnState

logger = logging.getLogger("oncelog.spark")
COLUMN_TYPES = {
    "key": {"binary", "string"},
    "value": {"binary", "string"},
    "topic": {"string"},
    "partition": {"int"},
    "timestamp": {"timestamp"},
    "headers": {"array<struct<key:string,value:binary>>"},
}


@dataclass
class TaskMessage(WriterCommitMessage):
    """What a task tells the driver."""

    query_id: str
    batch_id: str
    run_id: str
    attempt: sink.Attempt


def check_columns(schema: StructType, options: SinkOptions) -> None:
    """Refuse a wrong DataFrame before anything is written. Raises ConfigurationError."""
    found = {field.name: field.dataType.simpleString() for field in schema.fields}
    for name, type_name in found.items():
        if name not in COLUMN_TYPES:
            near = difflib.get_close_matches(name.lower(), COLUMN_TYPES, n=1)
            hint = f": did you mean {near[0]!r}?" if near else ""
            raise ConfigurationError(f"column {name!r} has no meaning here; known are {', '.join(COLUMN_TYPES)}{hint}")
        if type_name not in COLUMN_TYPES[name]:
            raise ConfigurationError(
                f"column {name!r} is {type_name}, wanted {' or '.join(sorted(COLUMN_TYPES[name]))}"
            )
    if "value" not in found:
        raise ConfigurationError("the column 'value' is missing")
    if options.include_headers is not None and options.include_headers != ("headers" in found):
        raise ConfigurationError(
            f"includeHeaders={str(options.include_headers).lower()}, and the column 'headers' is "
            f"{'not ' if options.include_headers else ''}there: the column alone says whether headers are written"
        )
    if options.topic is None and "topic" not in found:
        raise ConfigurationError("say where to write: the option 'topic' or a column 'topic'")


_ids: dict[int, TransactionalIds] = {}  # of this process, by its number: a fork has none of its parent's


def leased_id(options: SinkOptions, query_id: str, run_id: str, batch_id: str, home: str) -> str:
    """A transactional id of this process for one attempt of a stream, whose batches are numbers that grow."""
    process = os.getpid()
    if process not in _ids:
        _ids.clear()
        _ids[process] = TransactionalIds(uuid.uuid4().hex)
    return _ids[process].lease(options.transactional_id_prefix, query_id, sink.run_start(run_id), int(batch_id), home)


def write_attempt(
    options: SinkOptions,
    backend: Backend,
    transactional_id: str,
    batches: Iterator[pa.RecordBatch],
    before_it_begins: Callable[[], None] = lambda: None,
) -> sink.Attempt:
    """Write a task's rows in one transaction and leave it open, prepared; nothing for a task without rows.

    Args:
        before_it_begins: called when the coordinator knows the id; what it raises keeps the transaction from being opened.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return sink.Attempt("", "", 0)
    producer = task_producer(options.client | options.producer, backend, transactional_id)
    with right_to_ids_named(options.transactional_id_prefix, prepares=backend.kind == PREPARED):
        producer.start()
    try:
        if not producer.prepared_state.is_none:
            # Of an earlier batch of this run, which is done: it can no longer win. The id gets its clock back.
            producer.abort_transaction()
            producer.init_transactions(keep_prepared_txn=True)
        before_it_begins()
        producer.begin_transaction()
        row_count = byte_count = 0
        topics: set[str] = set()
        for batch in itertools.chain([first], batches):
            topics |= _topics_of(options, batch)
            row_count += _send(producer, options, batch)
            byte_count += _bytes_of(batch)
        state = producer.detach_transaction()
    finally:
        producer.stop()  # aborts what was not detached
    acting_state = _promoted(options, transactional_id, state) if backend.kind == PREPARED else ""
    return sink.Attempt(transactional_id, str(state), row_count, frozenset(topics), acting_state, byte_count)


def _promoted(options: SinkOptions, transactional_id: str, state: PreparedTxnState) -> str:
    try:
        with right_to_ids_named(options.transactional_id_prefix, prepares=True):
            return promote(options.client, transactional_id, state)
    except BaseException:
        # Nobody was told of this attempt, so it can never win; promoted without our knowing, it would stay for ever.
        with contextlib.suppress(KafkaError), sync.Admin.from_config(client_arguments(options.client)) as admin:
            admin.force_terminate_transaction(transactional_id)
        raise


def _refuse_a_run_that_is_over(options: SinkOptions, query_id: str, batch_id: str, run_id: str) -> None:
    """Asked by a batch write's task between the registration of its id and its transaction. Raises CommitRefused.

    Spark tells the driver of a failed task while its siblings still run, and kills those soon after: what one of them opened
    behind the abort would have nobody to end it. Either the veto is seen here, or the id is seen by who wrote the veto and then
    looks, and is fenced before it opens anything (Committer.abort).
    """
    known = decision_store(options).known(query_id, batch_id)
    if known.decision is None and (known.is_superseded or sink.run_start(run_id) in known.vetoed_runs):
        raise CommitRefused(sink.refusal(known, sink.BatchDecision(query_id, batch_id, run_id, ())).reason)


def _report(options: SinkOptions, query_id: str, batch_id: str, run_id: str, attempt: sink.Attempt) -> TaskMessage:
    """What a task tells of its attempt, which ends itself here where it has come too late.

    A task that Spark has given up (an executor that it lost and that lives, a twin) may prepare its transaction behind the
    sweep of its batch: without a clock it would hold up all readers until a later batch sweeps, and one of a batch write until
    its clock ends it. Read now, behind the preparation, the decision is seen here, or its sweep sees the transaction.
    """
    if attempt.is_empty:
        return TaskMessage(query_id, batch_id, run_id, attempt)
    known = decision_store(options).known(query_id, batch_id)
    decision = known.decision
    is_open = decision is None and not known.is_superseded and sink.run_start(run_id) not in known.vetoed_runs
    if is_open or (decision is not None and attempt in decision.winners):
        return TaskMessage(query_id, batch_id, run_id, attempt)
    logger.warning("oncelog: batch %s of %s is over: ended what this task wrote too late", batch_id, query_id)
    abort_exactly(admin_of(options.client), attempt.transactional_id, PreparedTxnState(attempt.prepared_state))
    if decision is None:
        raise CommitRefused(sink.refusal(known, sink.BatchDecision(query_id, batch_id, run_id, ())).reason)
    return TaskMessage(query_id, batch_id, run_id, sink.Attempt("", "", 0, attempt.topics))


def read_to_the_end(batches: Iterator[pa.RecordBatch]) -> None:
    """Of rows that were written before. Spark commits the state of a stateful query where its last row is taken, and a state
    that was left in the middle is not there for the next batch (RocksDB, checkpoint format 2)."""
    collections.deque(batches, maxlen=0)


def _bytes_of(batch: pa.RecordBatch) -> int:
    """Of keys and values."""
    columns = [batch.column(name) for name in ("key", "value") if name in batch.schema.names]
    return sum(int(pc.sum(pc.binary_length(column)).as_py() or 0) for column in columns)


def _topics_of(options: SinkOptions, batch: pa.RecordBatch) -> set[str]:
    """Where a column sends the rows; empty where the option names one topic for all."""
    return (
        set() if options.topic is not None else {str(topic) for topic in pc.unique(batch.column("topic")).to_pylist()}
    )


def _send(producer: sync.Producer, options: SinkOptions, batch: pa.RecordBatch) -> int:
    if options.topic is None and batch.column("topic").null_count:
        raise ConfigurationError("a row has no topic: its column 'topic' is null, and the option 'topic' is not set")
    if options.decision_topic in _topics_of(options, batch):
        raise ConfigurationError(f"a row is for {options.decision_topic!r}, where decisions live: take another topic")
    producer.send_arrow(options.topic, batch)  # the option overrides the column, as in Spark's Kafka sink
    return int(batch.num_rows)


class StreamWriter(DataSourceStreamArrowWriter):
    """Exactly once per micro-batch."""

    def __init__(self, options: SinkOptions, backend: Backend, *, looks_first: bool) -> None:
        self._options, self._backend, self._looks_first = options, backend, looks_first
        self._home = home_of(options)

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """One task attempt. A batch that was decided in an earlier life is not written again."""
        context = TaskContext.get()
        assert context is not None, "tasks run with a TaskContext"
        query_id = context.getLocalProperty("sql.streaming.queryId")
        batch_id = context.getLocalProperty("streaming.sql.batchId")
        run_id = context.getLocalProperty("spark.jobGroup.id")
        assert query_id and batch_id and run_id, "Spark names query, batch and run"  # noqa: PT018
        if self._looks_first:
            known = decision_store(self._options).known(query_id, batch_id)
            if known.is_superseded:
                raise CommitRefused(sink.superseded_reason(query_id, batch_id))
            if known.decision is not None:
                read_to_the_end(iterator)
                return TaskMessage(query_id, batch_id, run_id, sink.Attempt("", "", 0))
        name = leased_id(self._options, query_id, run_id, batch_id, self._home)
        attempt = write_attempt(self._options, self._backend, name, iterator)
        if self._backend.kind != PREPARED:  # it has a clock, and the next batch's sweep ends it before that
            return TaskMessage(query_id, batch_id, run_id, attempt)
        return _report(self._options, query_id, batch_id, run_id, attempt)

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803, ARG002
        """The driver, after all tasks: decide, complete, sweep."""
        reports = _reports(messages)
        first = reports[0]
        with _committer(self._options) as committer:
            attempts = [report.attempt for report in reports]
            planned_ms = _planned_ms(self._options.checkpoint_location, first.batch_id)
            committer.commit(first.query_id, first.batch_id, first.run_id, attempts, self._backend, planned_ms)

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """The driver, after a failed task or a failed commit (then with the messages of decided transactions)."""
        reports = _reports(messages)
        query_id = reports[0].query_id if reports else _query_id_of(self._options.checkpoint_location)
        run_id = reports[0].run_id if reports else None
        with _committer(self._options) as committer:
            committer.abort(query_id, str(batchId), run_id)


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("oncelog")`: exactly once over re-submission with txnAppId and txnVersion. Without them all or nothing,
    but where its driver dies while it completes what it decided: `oncelog recover` goes on, as long as the clocks allow."""

    def __init__(self, options: SinkOptions, backend: Backend, run_id: str) -> None:
        self._options, self._backend, self._run_id = options, backend, run_id
        self._batch_id = options.application_version or "0"
        self._decided: sink.BatchDecision | None = None  # before anything was written
        if any("." in name for name in (options.application_id or "", self._batch_id)):
            raise ConfigurationError("txnAppId and txnVersion have no dots")
        if options.decision_url:
            check_lengths(options.decision_url, txnVersion=(self._batch_id, sink.DIGITS_MAX))
        self._home = home_of(options)
        if options.application_id:
            cluster_id = backend.cluster_id if options.decision_url else ""  # a topic's decisions are of one cluster
            self._query_id = sink.batch_write_query_id(options.application_id, options.topic, cluster_id)
            self._decided = self._decided_before(options.application_id)
        else:
            self._query_id = f"{sink.JOB_PREFIX}{run_id}"
            if options.backend != PREPARED:
                # Nobody comes back for what it leaves when it is killed: its transactions keep their clock.
                self._backend = Backend(RESUMED, backend.timeout_ms, backend.cluster_id)
            logger.info("batch write without txnAppId and txnVersion: a re-submitted job writes again")

    def _decided_before(self, application_id: str) -> sink.BatchDecision | None:
        """Asked on the driver before any task runs. Raises CommitRefused for a version that may not be written."""
        store = decision_store(self._options)
        known = store.known(self._query_id, self._batch_id)
        if known.is_superseded:
            raise CommitRefused(sink.superseded_reason(self._query_id, self._batch_id))
        legacy_id = sink.legacy_batch_write_query_id(application_id)
        found = known.decision or store.known(legacy_id, self._batch_id).decision
        if found is None:
            decided = (each.batch_id for i in (self._query_id, legacy_id) for each, _ in store.decided(i))
            other = spelt_otherwise(self._batch_id, decided)
            if other is not None:
                raise CommitRefused(
                    f"txnVersion {self._batch_id!r} of txnAppId {application_id!r} is the same number as {other!r}, which was "
                    "written before, and versions are compared as texts: nothing is written; spell it as it was, or take another"
                )
        return found

    @plainly
    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        """One task attempt."""
        context = TaskContext.get()
        assert context is not None, "tasks run with a TaskContext"
        if self._decided is not None:
            # Rows are looked at only where they say where they go; with the option all of them are written.
            for batch in iterator:
                if self._decided.topics:
                    self._refuse_other_topics(self._decided, _topics_of(self._options, batch))
            return TaskMessage(self._query_id, self._batch_id, self._run_id, sink.Attempt("", "", 0))
        name = sink.transactional_id_for(
            self._options.transactional_id_prefix,
            self._query_id,
            self._batch_id,
            context.partitionId(),
            self._run_id,
            context.taskAttemptId(),
            self._home,
        )
        of_this = self._options, self._query_id, self._batch_id, self._run_id
        attempt = write_attempt(
            self._options, self._backend, name, iterator, lambda: _refuse_a_run_that_is_over(*of_this)
        )
        return _report(*of_this, attempt)

    def _tell_of_the_skip(self) -> None:
        """Else a second write of the same version, which is another one by mistake, would be missed in silence."""
        logger.warning(
            "oncelog: txnVersion %s of txnAppId %r was written before, to %s: nothing is written now",
            self._batch_id,
            self._options.application_id,
            self._options.topic or "the topics of its rows",
        )

    def _refuse_other_topics(self, decision: sink.BatchDecision, topics: Iterable[str]) -> None:
        others = sink.unwritten_topics(decision, topics)
        if others:
            raise CommitRefused(
                f"txnVersion {self._batch_id} of txnAppId {self._options.application_id!r} was written before, to "
                f"{', '.join(decision.topics)}, and these rows are for {', '.join(others)}: a second write of the same "
                "version needs a txnAppId of its own, or the option 'topic'"
            )

    @plainly
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """The driver, after all tasks."""
        attempts = [report.attempt for report in _reports(messages)]
        with _committer(self._options) as committer:
            if self._decided is not None:
                committer.repeat(self._decided)
                self._tell_of_the_skip()
                return
            decision = committer.commit(self._query_id, self._batch_id, self._run_id, attempts, self._backend)
        self._refuse_other_topics(decision, {topic for attempt in attempts for topic in attempt.topics})

    @plainly
    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002
        """The driver, after a failure."""
        with _committer(self._options) as committer:
            if self._decided is not None:
                committer.repeat(self._decided)
            else:
                committer.abort(self._query_id, self._batch_id, self._run_id)


def _committer(options: SinkOptions) -> Committer:
    """With the store and the admin client that this process keeps from one batch to the next."""
    return Committer(options, decision_store(options), admin_of(options.client))


def _reports(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [message for message in messages if isinstance(message, TaskMessage)]


def _query_id_of(checkpoint_location: str | None) -> str | None:
    """The query's id from its checkpoint, where that is a local path: all messages of a failed stage can be None."""
    try:
        return str(json.loads(_read(checkpoint_location, "metadata"))["id"])
    except (ValueError, KeyError):
        return None


def _planned_ms(checkpoint_location: str | None, batch_id: str) -> str:
    """When Spark planned the batch, from its checkpoint where that is a local path, else empty. Spark writes it before the
    batch runs, once: a batch that has another time is not the one that ran before."""
    found = re.search(r'"batchTimestampMs":\s*([0-9]{1,15})\b', _read(checkpoint_location, f"offsets/{batch_id}"))
    return found[1] if found else ""


def _read(checkpoint_location: str | None, name: str) -> str:
    """A file of a checkpoint; empty where it cannot be read."""
    try:
        path = pathlib.Path((checkpoint_location or "").removeprefix("file:")) / name
        return path.read_text() if checkpoint_location else ""
    except (OSError, ValueError):
        return ""
