"""Format `oncelog` for Spark: what Spark looks up by name, and nothing else."""

from __future__ import annotations

import time
import uuid

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

from oncelog.errors import ConfigurationError
from oncelog.host.recently_used import RecentlyUsed
from oncelog.spark.backend import Backend, choose_backend
from oncelog.spark.decision_store import check_decision_store
from oncelog.spark.kept_admins import admin_of
from oncelog.spark.options import COLUMNS, SinkOptions, columns_of, sink_options, source_options
from oncelog.spark.plainly import plainly
from oncelog.spark.source import BatchReader, StreamReader
from oncelog.spark.target_topic import TARGETS_MAX, look_at_the_target
from oncelog.spark.writer import BatchWriter, StreamWriter, check_columns

BACKEND_KEPT_S = 10.0
"""For how long what the broker can do is not asked again. This process outlives a query: one that starts behind a change of the
broker's (two-phase commit switched off) must not go by what was true for the one before; one that runs asks for nothing else."""
_backends: RecentlyUsed[tuple[Backend, float]] = RecentlyUsed(TARGETS_MAX)  # and when it was asked (s)
_looked_s: RecentlyUsed[float] = RecentlyUsed(TARGETS_MAX)  # when a target was looked at
_planned: RecentlyUsed[bool] = RecentlyUsed(TARGETS_MAX)  # by checkpoint; one that was forgotten looks once more


class DefaultSource(DataSource):
    """`spark.read|readStream|write|writeStream.format("oncelog")`; options: docs/spark.md."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "oncelog"

    @plainly
    def schema(self) -> str:
        """Columns of Spark's own Kafka source, or those that the option `columns` names."""
        return ", ".join(f"{name} {COLUMNS[name]}" for name in columns_of(self.options))

    @plainly
    def reader(self, schema: StructType) -> BatchReader:
        """A batch read."""
        self._refuse_a_bare_table()
        return BatchReader(source_options(self.options, is_stream=False), _columns_of(schema))

    @plainly
    def streamReader(self, schema: StructType) -> StreamReader:  # noqa: N802
        """A streaming read."""
        self._refuse_a_bare_table()
        return StreamReader(source_options(self.options, is_stream=True), _columns_of(schema))

    @plainly
    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        """A batch write. Raises ConfigurationError before anything is written."""
        if overwrite:
            raise ConfigurationError("a log cannot be overwritten: use mode('append')")
        self._refuse_a_bare_table()
        options = sink_options(self.options, "a batch write")
        check_columns(schema, options)
        backend = _backend(options)
        _look_at_the_target(options)
        return BatchWriter(options, backend, uuid.uuid4().hex)

    @plainly
    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802, ARG002
        """A streaming write; Spark plans one for every micro-batch."""
        options = sink_options(self.options, "a streaming write")
        check_columns(schema, options)
        # Only the first batch after a start can have been decided before: later ones need not look.
        key = f"{options.checkpoint_location}"
        looks_first = not _planned.put(key, True)
        backend = _backend(options)
        _look_at_the_target(options)
        return StreamWriter(options, backend, looks_first=looks_first)

    def _refuse_a_bare_table(self) -> None:
        """A table made by `CREATE TABLE ... USING oncelog OPTIONS (...)` comes without any: Spark hands none on to Python."""
        if not dict(self.options):
            raise ConfigurationError(
                "no option was given: Spark hands the OPTIONS of CREATE TABLE to no format in Python; use CREATE TEMPORARY "
                "VIEW ... USING oncelog OPTIONS (...), or give them where the table is used: WITH (...) in SQL, .options(...) in "
                "Python"
            )


def _columns_of(schema: StructType) -> list[str]:
    """Of a read, whose schema may be the user's own. Raises ConfigurationError."""
    bound = [column.name for column in schema.fields if not column.nullable]
    if bound:
        raise ConfigurationError(
            f"the schema says NOT NULL of {', '.join(bound)}: a read gives columns that may be null, as Spark's own Kafka source "
            "does. Leave it out, and filter: where value is not null"
        )
    for column in schema.fields:
        wanted = COLUMNS.get(column.name)
        if wanted != column.dataType.simpleString():
            there = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
            raise ConfigurationError(
                f"the schema has a column {column.name} {column.dataType.simpleString()}; a read can give: {there}"
            )
    return list(schema.names)


def _look_at_the_target(options: SinkOptions) -> None:
    """As often as what the broker can do is asked for."""
    key, now_s = (tuple(sorted(options.client.items())), options.topic), time.monotonic()
    looked_s = _looked_s.get(key)
    if looked_s is None or now_s - looked_s >= BACKEND_KEPT_S:
        _looked_s.put(key, now_s)
        look_at_the_target(options, admin_of(options.client))


def _backend(options: SinkOptions) -> Backend:
    key = (tuple(sorted(options.client.items())), options.backend, options.decision_topic, options.decision_url)
    known = _backends.get(key)
    if known is None:
        backend = choose_backend(options)
        check_decision_store(options)
    else:
        backend, asked_s = known
        if time.monotonic() - asked_s < BACKEND_KEPT_S:
            return backend
        backend = choose_backend(options, admin_of(options.client))
    _backends.put(key, (backend, time.monotonic()))
    return backend
