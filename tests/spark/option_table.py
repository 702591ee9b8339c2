"""The tables of options in docs/spark.md, which test shows which line, and the format as Spark uses it, without Spark."""

from __future__ import annotations

import itertools
import json
import pathlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from evidence.world.committed import committed_values
from pyspark import TaskContext
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from oncelog import sync
from oncelog.spark import data_source, decision_store
from oncelog.spark.data_source import DefaultSource
from oncelog.spark.source import BatchReader, RangePartition, StreamReader
from oncelog.spark.writer import BatchWriter, TaskMessage
from tests.spark.conftest import OptionBroker
from tests.spark.fakes import FakeContext

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "spark.md"
READ, WRITE = "Reading", "Writing"
HEADING = "| option | default | |\n|---|---|---|\n"
T = TypeVar("T", bound=Callable[..., None])


# --- the tables, and who shows what


@dataclass(frozen=True)
class Line:
    """A line of a table: all that its first cell says, the options in it, the default."""

    text: str
    options: frozenset[str]
    default: str


@dataclass(frozen=True)
class Shown:
    """What a test shows: a line by its first cell, of it these options, and its default."""

    section: str
    line: str
    options: frozenset[str]
    default: str | None
    test: str


SHOWN: list[Shown] = []


def lines_of(page: str, section: str) -> dict[str, Line]:
    """The lines of the one table of options in a section, by their first cells without backticks."""
    _, text = page.split(f"\n## {section}\n")
    _, table = text.split("\n## ")[0].split(HEADING)
    found: dict[str, Line] = {}
    for row in table.split("\n\n")[0].splitlines():
        names, default, claim = (cell.strip() for cell in row.strip("|").split("|"))
        assert claim, f"a line that claims nothing: {row}"
        line = Line(names.replace("`", ""), frozenset(names.split("`")[1::2]), default.replace("`", ""))
        assert line.text not in found, f"two lines for {line.text}"
        found[line.text] = line
    return found


def shows(section: str, line: str, *options: str, default: str | None = None) -> Callable[[T], T]:
    """Marks a test: it shows this line, and gives each of these options (of the line; `*` ends a name that stands for many) to a
    reader or writer, which is checked. Without options: all of the line."""
    wanted = frozenset(options) or lines_of(PAGE.read_text(), section).get(line, Line("", frozenset(), "")).options

    def mark(test: T) -> T:
        shown = Shown(section, line, wanted, default, test.__name__)
        SHOWN.append(shown)
        test.__dict__.setdefault("shown", []).append(shown)
        return test

    return mark


def differences(page: str, shown: Sequence[Shown]) -> list[str]:
    """Lines, options and defaults of the page that no test shows, and what tests show and the page has not."""
    found = []
    for section in (READ, WRITE):
        lines = lines_of(page, section)
        for line in lines.values():
            of_it = [each for each in shown if (each.section, each.line) == (section, line.text)]
            options = frozenset().union(*(each.options for each in of_it))
            if not of_it:
                found.append(f"{section}: no test shows the line {line.text!r}")
            elif options != line.options:
                found.append(
                    f"{section}: {line.text!r}: tests show {sorted(options)}, there are {sorted(line.options)}"
                )
            elif line.default and line.default not in {each.default for each in of_it}:
                found.append(f"{section}: {line.text!r}: no test shows the default {line.default!r}")
        found += [
            f"{section}: {each.test} shows the line {each.line!r}, which is not there"
            for each in shown
            if each.section == section and each.line not in lines
        ]
        found += [
            f"{section}: {each.test} shows the default {each.default!r} of {each.line!r}, which has {default!r}"
            for each in shown
            if each.section == section
            and each.line in lines
            and each.default not in (None, default := lines[each.line].default)
        ]
    return found


# --- the format, as Spark uses it

TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "string": StringType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "array<struct<key:string,value:binary>>": ArrayType(
        StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    ),
}
ARROW = {
    "key": ("binary", pa.binary()),
    "value": ("binary", pa.binary()),
    "topic": ("string", pa.string()),
    "headers": (
        "array<struct<key:string,value:binary>>",
        pa.list_(pa.struct({"key": pa.string(), "value": pa.binary()})),
    ),
}
_numbers = itertools.count(1)


def schema_of(ddl: str) -> StructType:
    """As Spark parses what a format says of its columns."""
    return StructType([StructField(name, TYPES[kind]) for name, kind in (each.split(" ") for each in ddl.split(", "))])


class Pipelines:
    """Readers and writers on a broker, made of options as a user writes them; `given` notes every one of those."""

    def __init__(self, broker: OptionBroker, admin: sync.Admin, producer: sync.Producer) -> None:
        self.broker, self.admin, self.producer = broker, admin, producer
        self.servers = broker.bootstrap_servers
        self.given: set[str] = set()

    def topic(self, *partitions: Sequence[int], name: str = "lines") -> str:
        """A new topic with these values, each record in a batch of its own; it keeps records of any time."""
        topic = f"{name}-{next(_numbers)}"
        self.admin.create_topics({topic: {"partitions": max(len(partitions), 1), "configs": {"retention.ms": "-1"}}})
        for partition, values in enumerate(partitions):
            self.fill(topic, *values, partition=partition)
        return topic

    def fill(self, topic: str, *values: int, partition: int = 0, are_times: bool = False) -> None:
        for value in values:
            timestamp_ms = value if are_times else None
            self.producer.send(topic, b"%d" % value, partition=partition, timestamp_ms=timestamp_ms)
            self.producer.flush()

    def delete(self, topic: str) -> None:
        self.admin.delete_topics([topic])
        while topic in self.admin.list_topics():
            pass  # Apache Kafka answers before it is gone

    def format(self, options: Mapping[str, str | None]) -> DefaultSource:
        """Spark hands keys over in lower case; the servers are those of the broker unless they are given (or None)."""
        all_options = {"bootstrap.servers": self.servers, **options}
        kept = {name: value for name, value in all_options.items() if value is not None}
        self.given |= {name.lower() for name in kept}
        return DefaultSource({name.lower(): value for name, value in kept.items()})

    # reading

    def batch(self, schema: str | None = None, **options: str | None) -> BatchReader:
        made = self.format(options)
        return made.reader(schema_of(schema or made.schema()))

    def rows(self, schema: str | None = None, **options: str | None) -> list[dict[str, Any]]:
        """What a batch read reads."""
        reader = self.batch(schema, **options)
        return rows_of(reader, reader.partitions())

    def values(self, **options: str | None) -> list[int]:
        return [int(row["value"]) for row in self.rows(**options)]

    def sizes(self, **options: str | None) -> list[int]:
        """How many offsets each task of a batch read has."""
        return [part.range.size for part in self.batch(**options).partitions() if isinstance(part, RangePartition)]

    def stream(self, **options: str | None) -> Stream:
        made = self.format(options)
        return Stream(made.streamReader(schema_of(made.schema())))

    # writing

    def writer(self, columns: Mapping[str, Any], **options: str | None) -> BatchWriter:
        """Planned on the driver."""
        return self.format(options).writer(_columns_schema(columns), False)

    def task(self, writer: BatchWriter, *batches: Mapping[str, Any]) -> TaskMessage:
        """One task of a batch write, with rows in Arrow batches of these columns."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TaskContext, "get", FakeContext)
            return writer.write(iter([_record_batch(columns) for columns in batches]))

    def write(self, columns: Mapping[str, Any], **options: str | None) -> None:
        """A batch write of one task."""
        writer = self.writer(columns, **options)
        writer.commit([self.task(writer, columns)])

    def write_batch(self, query: str, number: int, columns: Mapping[str, Any], **options: str | None) -> None:
        """A micro-batch of a streaming write, of one task."""
        of_task = {"sql.streaming.queryId": query, "streaming.sql.batchId": str(number), "spark.jobGroup.id": "run"}
        writer = self.format({"checkpointLocation": query, **options}).streamWriter(_columns_schema(columns), False)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(TaskContext, "get", lambda: FakeContext(**of_task))
            message = writer.write(iter([_record_batch(columns)]))
        writer.commit([message], number)

    def visible(self, topic: str) -> list[int]:
        return [int(value) for value in committed_values(self.servers, topic)]

    def open_transactions(self, start: str) -> list[str]:
        listed = self.admin.list_transactions(states=["Ongoing"])
        return [each.transactional_id for each in listed if each.transactional_id.startswith(start)]

    def forget(self) -> None:
        """As a new driver: it has asked for nothing yet."""
        for store in decision_store._stores.values():
            store.close()
        decision_store._stores.clear()
        data_source._backends.clear()
        data_source._planned.clear()


class Stream:
    """What Spark does with a streaming reader: positions as JSON, one micro-batch after another."""

    def __init__(self, reader: StreamReader) -> None:
        self.reader = reader
        self.stands: dict[str, Any] = reader.initialOffset()

    def plan(self) -> list[Any]:
        """The tasks of the next micro-batch."""
        start, limit = self.stands, self.reader.getDefaultReadLimit()
        self.stands = json.loads(json.dumps(self.reader.latestOffset(start, limit)))
        return [] if start == self.stands else self.reader.partitions(start, self.stands)

    def batch(self) -> list[int]:
        """The values of the next micro-batch, which is then done."""
        found = [int(row["value"]) for row in rows_of(self.reader, self.plan())]
        self.reader.commit(self.stands)
        return found


def rows_of(reader: BatchReader | StreamReader, parts: Sequence[Any]) -> list[dict[str, Any]]:
    """What tasks read; timestamps as numbers (pyarrow would import pandas to make them of Python, which takes a second)."""
    return [row for part in parts for batch in reader.read(part) for row in _with_numbers(batch).to_pylist()]


def _with_numbers(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = [each.cast(pa.int64()) if pa.types.is_timestamp(each.type) else each for each in batch.columns]
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names)


def _record_batch(columns: Mapping[str, Any]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({name: pa.array(values, ARROW[name][1]) for name, values in columns.items()})


def _columns_schema(columns: Mapping[str, Any]) -> StructType:
    return schema_of(", ".join(f"{name} {ARROW[name][0]}" for name in columns))
