"""`segments(spark, paths)`: data directories as Spark tables, and their reconciliation as a Spark job.

A task reads one log, its segments in order, a chunk at a time. Paths that every executor can open (no scheme, or `file:`) are
opened by the task. Others are read by Spark's own file systems (format binaryFile) and handed to the task segment by segment,
so that of a log one segment is in memory at a time.
"""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow as pa

from oncelog.client import arguments
from oncelog.core.reconciliation.findings import Finding
from oncelog.core.two_phase.sink_names import DECISION_TOPIC, TRANSACTIONAL_ID_PREFIX
from oncelog.errors import ConfigurationError, StorageError
from oncelog.host.given_paths import AnyPath, directory
from oncelog.host.read_only_files import ReadOnlyFiles, is_locked
from oncelog.host.spill import BucketFiles, read_bucket
from oncelog.segments.directory import DataDirectory, PartitionFiles
from oncelog.segments.reconciliation import Plan, Reconciliation, Report, plan_of, read_log
from oncelog.segments.source import BytesFile, Source
from oncelog.segments.tables import SCHEMAS, concerns, rows_of

_JOB_SCHEMA = "bucket int, rows binary"
_SUMMARY = -1  # in place of a bucket
TASKS_PER_CORE = 4


def segments(
    spark: Any,
    paths: AnyPath | Sequence[AnyPath],
    *,
    prefix: str = TRANSACTIONAL_ID_PREFIX,
    decision_topic: str = DECISION_TOPIC,
) -> Segments:
    """Data directories of oncelog or of Apache Kafka (or directories of single partitions) as tables.

    Args:
        spark: the SparkSession.
        paths: directories: local ones that every executor sees, or of any file system that Spark reads (s3a://, hdfs://).
        prefix: the Spark sink's transactionalIdPrefix; `decision_topic`: where its decisions are.
    Raises ConfigurationError, InvalidArgument, StorageError.
    """
    wanted = [paths] if isinstance(paths, str | os.PathLike) else arguments.items("paths", paths, of="directories")
    if not wanted or "" in wanted:
        raise ConfigurationError(f"name the directories to read, an empty path is none: {paths!r}")
    named = [directory(f"paths[{index}]", each) for index, each in enumerate(wanted)]
    return Segments(spark, [each.rstrip("/") for each in named], prefix, decision_topic)


class Segments:
    """Tables: `batches`, `records`, `markers`, `transactions`, `producers`, `aborted_index`, `coordinator_states`,
    `group_offsets`, `problems` (columns: `oncelog.segments.tables.SCHEMAS`). Nothing is read before a table is used."""

    def __init__(self, spark: Any, paths: list[str], prefix: str, decision_topic: str) -> None:
        self._spark, self._paths, self._prefix = spark, paths, prefix
        remote = [each for each in paths if "://" in each]
        if remote and len(remote) < len(paths):
            raise ConfigurationError("paths with and without a scheme cannot be read together")
        self._paths = [each.removeprefix("file:") for each in paths]
        self.is_remote = bool(remote) and not all(each.startswith("file:") for each in remote)
        if not self.is_remote:
            self._paths = ["/" + each.lstrip("/") if each.startswith("//") else each for each in self._paths]
        self._source: Source = HadoopFiles(spark) if self.is_remote else ReadOnlyFiles()
        self.plan: Plan = plan_of(
            self._source,
            self._paths,
            decision_topic=decision_topic,
            is_running=self._is_running,
        )

    def _is_running(self, path: str) -> bool:
        return not self.is_remote and is_locked(f"{path}/.lock")

    def __getattr__(self, name: str) -> Any:
        if name in SCHEMAS:
            return self.table(name)
        raise AttributeError(f"there is no table {name!r}: there are {', '.join(SCHEMAS)}")

    def table(self, name: str) -> Any:
        """A table as a DataFrame. Raises ConfigurationError for a name that is none."""
        if name not in SCHEMAS:
            raise ConfigurationError(f"there is no table {name!r}: there are {', '.join(SCHEMAS)}")
        logs = [each for each in (*self.plan.first, *self.plan.rest) if concerns(name, each)]
        if name != "transactions" and not self.is_remote:  # that one needs the log from its beginning
            logs = [part for each in logs for part in _by_segment(each)]
        from pyspark.sql.pandas.types import from_arrow_schema

        schema = from_arrow_schema(SCHEMAS[name])
        found = self._mapped(logs, partial(_table_rows, name), schema)
        more = beside_logs(self.plan.directories) if name == "problems" else []
        return found.union(self._spark.createDataFrame(more, schema)) if more else found

    def create_views(self, prefix: str = "segments_") -> list[str]:
        """Temporary views of all tables for SQL; their names."""
        for name in SCHEMAS:
            self.table(name).createOrReplaceTempView(prefix + name)
        return [prefix + name for name in SCHEMAS]

    def reconcile(self) -> Report:
        """`oncelog reconcile` as a Spark job: tasks read and replay the logs, the driver joins what they found.

        The driver reads the coordinators' logs, and keeps markers and decisions in temporary files.
        """
        with tempfile.TemporaryDirectory(prefix="oncelog-reconcile-") as spill:
            rows, decided = BucketFiles(spill, "ended"), BucketFiles(spill, "decided")
            work = Reconciliation(self._source, self.plan, rows, decided, prefix=self._prefix)
            work.read_first(lambda size_bytes: None)  # noqa: ARG005
            first = len(self.plan.first)
            places = {each.path: first + number for number, each in enumerate(self.plan.rest)}
            for row in self._mapped(self.plan.rest, partial(_job_rows, places), _JOB_SCHEMA).toLocalIterator():
                if row.bucket == _SUMMARY:
                    work.add(pickle.loads(row.rows))  # noqa: S301 - made by our own task
                else:
                    rows.append(row.bucket, bytes(row.rows))
            work.follow()
            rows.flush()
            decided.flush()
            return work.conclude(
                work.judged_buckets(
                    lambda bucket: (read_bucket(spill, "ended", bucket), read_bucket(spill, "decided", bucket))
                )
            )

    def findings(self, report: Report) -> Any:
        """A report's findings as a DataFrame."""
        columns = ", ".join(f"{each.name} {_SQL_TYPES[str(each.type)]}" for each in fields(Finding))
        names = [each.name for each in fields(Finding)]
        rows = [tuple(getattr(each, name) for name in names) for each in report.findings]
        return self._spark.createDataFrame(rows, columns)

    def _mapped(self, logs: Sequence[PartitionFiles], work: Any, schema: Any) -> Any:
        """`work` done to each log, by tasks."""
        if self.is_remote:
            return self._contents(logs).mapInArrow(
                partial(_remote, {_plain(each.path): each for each in logs}, work), schema
            )
        units = [(number, pickle.dumps(each)) for number, each in enumerate(logs)]
        tasks = max(min(len(units), TASKS_PER_CORE * self._spark.sparkContext.defaultParallelism), 1)
        frame = self._spark.createDataFrame(units, "number int, unit binary").repartitionByRange(tasks, "number")
        return frame.mapInArrow(partial(_local, work), schema)

    def _contents(self, logs: Sequence[PartitionFiles]) -> Any:
        """The files of logs, those of one log in one task: what lies beside it, then its segments in their order."""
        from pyspark.sql import functions as f

        self._spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", 1)  # a segment at a time
        paths = [path for each in logs for path in _paths_of(each)]
        # A session may pass over what cannot be read: a segment that does not come is taken for an empty one.
        strict = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
        frame = self._spark.read.format("binaryFile").options(**strict).load(paths)
        number = f.when(f.col("path").endswith(".log"), 1).otherwise(0)
        placed = frame.select(_folder(f).alias("log"), number.alias("number"), f.col("path").alias("file"), "content")
        return placed.repartition("log").sortWithinPartitions("log", "number", "file").select("log", "file", "content")


def beside_logs(directories: Sequence[DataDirectory]) -> list[tuple[Any, ...]]:
    """Rows of `problems` about what is no log that can be listed: checkpoints, directories of partitions."""
    unread = [each for on in directories for each in on.unread]
    rows = [(each.directory, each.topic, each.partition, each.file, 0, 0, each.text) for each in unread]
    return rows + [(on.path, "", -1, file, 0, 0, text) for on in directories for file, text in on.problems]


def _paths_of(files: PartitionFiles) -> list[str]:
    beside = [path for _, path in files.snapshots] + list(files.transaction_indexes.values())
    return [*beside, *(path for _, path in files.segments)]


def _folder(functions: Any) -> Any:
    return functions.regexp_replace("path", "/[^/]*$", "")


_SQL_TYPES = {"str": "string", "int": "bigint"}


def _by_segment(files: PartitionFiles) -> Iterator[PartitionFiles]:
    """Each segment as a log of its own, and what lies beside the log with the first."""
    for number, segment in enumerate(files.segments):
        beside = (files.snapshots, files.transaction_indexes) if number == 0 else ((), {})
        yield replace(files, segments=(segment,), snapshots=beside[0], transaction_indexes=beside[1])


# In tasks


def _local(work: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    source = ReadOnlyFiles()
    for batch in batches:
        for unit in batch.column("unit").to_pylist():
            yield from work(source, pickle.loads(unit))  # noqa: S301 - made by our own driver


def _remote(logs: dict[str, PartitionFiles], work: Any, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    source = _Streamed(batches)
    while (log := source.next_log()) is not None:
        if log in logs:
            yield from work(source, logs[log])


def _table_rows(table: str, source: Source, files: PartitionFiles) -> Iterator[pa.RecordBatch]:
    return rows_of(source, files, table)


class _Collected:
    """Rows of markers, given on when they are many."""

    def __init__(self) -> None:
        self.buckets: dict[int, bytearray] = {}

    def append(self, bucket: int, data: bytes) -> None:
        self.buckets.setdefault(bucket, bytearray()).extend(data)


def _job_rows(places: dict[str, int], source: Source, files: PartitionFiles) -> Iterator[pa.RecordBatch]:
    collected = _Collected()
    summary = read_log(source, files, places[files.path], collected, lambda size_bytes: None)  # noqa: ARG005
    rows = [(bucket, bytes(data)) for bucket, data in collected.buckets.items()]
    rows.append((_SUMMARY, pickle.dumps(summary)))
    yield pa.RecordBatch.from_arrays(
        [pa.array([each[0] for each in rows], pa.int32()), pa.array([each[1] for each in rows], pa.binary())],
        names=["bucket", "rows"],
    )


class _Streamed:
    """The files of logs as they come: of each log first the small ones, which are kept, then segments, each read once."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._rows = chain.from_iterable(_rows_of(each) for each in batches)
        self._row: tuple[str, str, bytes] | None = next(self._rows, None)
        self._log = ""
        self._small: dict[str, bytes] = {}

    def next_log(self) -> str | None:
        """The next log's path; what was left of the last one is passed over."""
        while self._row is not None and self._row[0] == self._log:
            self._row = next(self._rows, None)
        if self._row is None:
            return None
        self._log, self._small = self._row[0], {}
        while self._row is not None and self._row[0] == self._log and not self._row[1].endswith(".log"):
            self._small[self._row[1]] = self._row[2]
            self._row = next(self._rows, None)
        return self._log

    def list(self, directory: str) -> list[str]:
        """Not needed here."""
        raise StorageError(f"{directory} is not listed in a task")

    def exists(self, path: str) -> bool:
        """Whether it is one of the small ones."""
        return _plain(path) in self._small

    def open(self, path: str) -> BytesFile:
        """A segment; those before it are passed over. Spark hands over no empty file: one that does not come is empty."""
        path = _plain(path)
        while self._row is not None and self._row[0] == self._log and self._row[1] < path:
            self._row = next(self._rows, None)
        if self._row is None or self._row[0] != self._log or self._row[1] != path:
            return BytesFile(b"")
        data, self._row = self._row[2], next(self._rows, None)
        return BytesFile(data)

    def read_whole(self, path: str) -> bytes:
        """A small file, which may be empty, too."""
        return self._small.get(_plain(path), b"")


def _rows_of(batch: pa.RecordBatch) -> Iterator[tuple[str, str, bytes]]:
    for row in range(batch.num_rows):
        log, file, content = (batch.column(name)[row].as_py() for name in ("log", "file", "content"))
        yield _plain(log), _plain(file), content


def _plain(path: str) -> str:
    """A path whose scheme is written in one way: `viewfs:/a` and `viewfs:///a` are the same."""
    scheme, colon, rest = path.partition(":/")
    return f"{scheme}:/{rest.lstrip('/')}" if colon else path


# In the driver


class HadoopFiles:
    """Files of any file system that Spark reads, in the driver: Hadoop's FileSystem, a chunk at a time.

    Format binaryFile lists nothing whose name begins with `_` or `.`, such as `__transaction_state-0`.
    """

    def __init__(self, spark: Any) -> None:
        jvm = getattr(spark, "_jvm", None)
        if jvm is None:
            raise ConfigurationError(
                "paths with a scheme need a Spark session of this process: Spark Connect has no way to list them"
            )
        self._path = jvm.org.apache.hadoop.fs.Path
        self._configuration = spark._jsc.hadoopConfiguration()

    def list(self, directory: str) -> list[str]:
        """The names in a directory, sorted. Raises StorageError."""
        path = self._path(directory)
        return sorted(
            each.getPath().getName() for each in _asked(directory, lambda: self._system(path).listStatus(path))
        )

    def exists(self, path: str) -> bool:
        """True for a file or directory."""
        where = self._path(path)
        return bool(_asked(path, lambda: self._system(where).exists(where)))

    def open(self, path: str) -> HadoopFile:
        """Open for reading. Raises StorageError."""
        where = self._path(path)
        stream = _asked(path, lambda: self._system(where).open(where))
        size_bytes = _asked(path, lambda: self._system(where).getFileStatus(where).getLen())
        return HadoopFile(path, stream, int(size_bytes))

    def read_whole(self, path: str) -> bytes:
        """A small file's content. Raises StorageError."""
        file = self.open(path)
        try:
            return file.read_at(0, file.size())
        finally:
            file.close()

    def _system(self, path: Any) -> Any:
        return path.getFileSystem(self._configuration)


class HadoopFile:
    """One open file."""

    def __init__(self, path: str, stream: Any, size_bytes: int) -> None:
        self._path, self._stream, self._size_bytes = path, stream, size_bytes

    def read_at(self, position: int, size_bytes: int) -> bytes:
        """Up to `size_bytes` from `position`. Raises StorageError."""
        if position >= self._size_bytes:
            return b""
        _asked(self._path, lambda: self._stream.seek(position))
        return bytes(_asked(self._path, lambda: self._stream.readNBytes(size_bytes)))

    def size(self) -> int:
        """Its length when it was opened."""
        return self._size_bytes

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


def _asked(path: str, question: Callable[[], Any]) -> Any:
    from py4j.protocol import Py4JJavaError

    try:
        return question()
    except Py4JJavaError as error:
        raise StorageError(f"{path} cannot be read: {error.java_exception.toString()}") from error
