"""The job that is killed on a cluster: two stateful queries at once, until all that was in `events` at the start is read.

* `distinct`: each event once (it may stand twice in the input), through the format's sink.
* `windows`: distinct events counted and summed by window and bucket, rows and records together by `dual_write`.
* `joined`, with `--joins` in the place of `windows`: distinct events joined with their `answers`, each once to a topic.

Some task attempts sleep, so that Spark runs a second one beside them (speculation); with `--fail-tasks` some fail. `--release 2`
is the job after an upgrade: it may write otherwise, and goes on from the same checkpoints.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import sqlalchemy as sa
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from evidence.spark_cluster.events import ANSWERED_MS, BUCKETS, LATE_S, WINDOW_S
from oncelog.spark import dual_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

SLOW_ONE_IN, SLOW_S = 24, 3.0
FAILS_ONE_IN = 25
TABLE = sa.text(
    "CREATE TABLE IF NOT EXISTS windows (window_ms BIGINT, bucket INT, events BIGINT, total BIGINT, batch_id BIGINT)"
)
ROW = sa.text("INSERT INTO windows VALUES (:window_ms, :bucket, :events, :total, :batch_id)")


def dawdle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as they are; one task attempt in SLOW_ONE_IN takes its time first."""
    if int.from_bytes(os.urandom(2)) % SLOW_ONE_IN == 0:
        time.sleep(SLOW_S)
    yield from batches


def dawdle_or_fail(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One task attempt in FAILS_ONE_IN fails behind its last row."""
    yield from dawdle(batches)
    if int.from_bytes(os.urandom(2)) % FAILS_ONE_IN == 0:
        raise RuntimeError("drawn: this attempt fails")


def stream_of(spark: SparkSession, options: argparse.Namespace, topic: str) -> DataFrame:
    """All of a topic, with its number."""
    rows = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", options.bootstrap_server)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.records_per_batch // options.release)
        .load()
    )
    number = f.col("value").cast("string").cast("bigint").alias("number")
    return rows.select("key", "value", "timestamp", number).withWatermark("timestamp", f"{LATE_S} seconds")


def distinct_events(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Of `events`, each once."""
    return stream_of(spark, options, "events").dropDuplicates(["number", "timestamp"])


def start_distinct(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Each event once, to a topic."""
    return start_sink(distinct_events(spark, options).select("key", "value"), options, "distinct")


def start_joined(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Each event with its answer, to a topic."""
    events = distinct_events(spark, options).select("number", f.col("timestamp").alias("at"))
    answers = stream_of(spark, options, "answers")
    answers = answers.select(f.col("number").alias("answered"), f.col("timestamp").alias("answered_at"))
    near = f.expr(f"interval {ANSWERED_MS} milliseconds")
    joined = events.join(
        answers,
        (f.col("number") == f.col("answered"))
        & (f.col("answered_at") >= f.col("at") - near)
        & (f.col("answered_at") <= f.col("at") + near),
    )
    value = f.concat_ws(":", "number", "answered").alias("value")
    return start_sink(joined.select(f.lit(None).cast("string").alias("key"), value), options, "joined")


def start_sink(rows: DataFrame, options: argparse.Namespace, name: str) -> StreamingQuery:
    """A query of this name to the topic of this name; its second release writes what may be written otherwise."""
    changed = {"kafka.compression.type": "zstd", "transactionalIdPrefix": "second"} if options.release == 2 else {}
    return (
        rows.mapInArrow(dawdle_or_fail if options.fail_tasks else dawdle, rows.schema)
        .writeStream.format("oncelog")
        .queryName(name)
        .options(**changed)
        .option("bootstrap.servers", options.bootstrap_server)
        .option("topic", name)
        .option("checkpointLocation", f"{options.checkpoint}/{name}")
        .trigger(availableNow=True)
        .start()
    )


def start_windows(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Counts and sums of closed windows, to a topic and a table."""
    counted = (
        distinct_events(spark, options)
        .groupBy(f.window("timestamp", f"{WINDOW_S} seconds"), (f.col("number") % BUCKETS).alias("bucket"))
        .agg(f.count("*").alias("events"), f.sum("number").alias("total"))
        .select(f.unix_millis("window.start").alias("window_ms"), "bucket", "events", "total")
    )

    def to_records(frame: DataFrame) -> DataFrame:
        rows = frame.select(f.concat_ws(":", "window_ms", "bucket", "events", "total").alias("value"))
        return rows.mapInArrow(dawdle, rows.schema)

    def to_database(connection: sa.Connection, frame: DataFrame, batch_id: int) -> None:
        for row in frame.collect():
            connection.execute(ROW, {**row.asDict(), "batch_id": batch_id})

    write = dual_write(
        query_id="windows",
        database_url=options.database_url,
        to_records=to_records,
        to_database=to_database,
        options={"bootstrap.servers": options.bootstrap_server, "topic": "windows"},
    )
    return (
        counted.writeStream.foreachBatch(write)
        .queryName("windows")
        .option("checkpointLocation", f"{options.checkpoint}/windows")
        .trigger(availableNow=True)
        .start()
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--database-url", required=True)
    parser.add_argument("--records-per-batch", type=int, required=True)
    parser.add_argument("--joins", action="store_true")
    parser.add_argument("--fail-tasks", action="store_true")
    parser.add_argument("--release", type=int, choices=[1, 2], default=1)
    options = parser.parse_args()
    with sa.create_engine(options.database_url).begin() as connection:
        connection.execute(TABLE)
    spark = SparkSession.builder.appName("stateful").getOrCreate()
    distinct = start_distinct(spark, options)
    # Spark gives a Python process ten seconds to answer: on a small machine those of both queries had better not start at once.
    while distinct.isActive and not distinct.lastProgress:
        time.sleep(0.2)
    other = start_joined(spark, options) if options.joins else start_windows(spark, options)
    distinct.awaitTermination()
    other.awaitTermination()


if __name__ == "__main__":
    main()
