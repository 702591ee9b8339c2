"""The job that is killed on a cluster: two stateful queries at once, until all that was in `events` at the start is read.

* `distinct`: each event once (it may stand twice in the input), through the format's sink.
* `windows`: distinct events counted and summed by window and bucket, rows and records together by `dual_write`.

Some task attempts sleep, so that Spark runs a second one beside them (speculation).
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

from evidence.spark_cluster.events import BUCKETS, LATE_S, WINDOW_S
from oncelog.spark import dual_write

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming import StreamingQuery

SLOW_ONE_IN, SLOW_S = 24, 3.0
TABLE = sa.text(
    "CREATE TABLE IF NOT EXISTS windows (window_ms BIGINT, bucket INT, events BIGINT, total BIGINT, batch_id BIGINT)"
)
ROW = sa.text("INSERT INTO windows VALUES (:window_ms, :bucket, :events, :total, :batch_id)")


def dawdle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows as they are; one task attempt in SLOW_ONE_IN takes its time first."""
    if int.from_bytes(os.urandom(2)) % SLOW_ONE_IN == 0:
        time.sleep(SLOW_S)
    yield from batches


def distinct_events(spark: SparkSession, options: argparse.Namespace) -> DataFrame:
    """Of `events`, with bucket and number."""
    events = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", options.bootstrap_server)
        .option("subscribe", "events")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.records_per_batch)
        .load()
    )
    text = f.col("value").cast("string")
    return (
        events.select("key", "value", "timestamp", text.cast("bigint").alias("number"))
        .withWatermark("timestamp", f"{LATE_S} seconds")
        .dropDuplicates(["number", "timestamp"])
    )


def start_distinct(spark: SparkSession, options: argparse.Namespace) -> StreamingQuery:
    """Each event once, to a topic."""
    rows = distinct_events(spark, options).select("key", "value")
    return (
        rows.mapInArrow(dawdle, rows.schema)
        .writeStream.format("oncelog")
        .queryName("distinct")
        .option("bootstrap.servers", options.bootstrap_server)
        .option("topic", "distinct")
        .option("checkpointLocation", f"{options.checkpoint}/distinct")
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
    options = parser.parse_args()
    with sa.create_engine(options.database_url).begin() as connection:
        connection.execute(TABLE)
    spark = SparkSession.builder.appName("stateful").getOrCreate()
    distinct = start_distinct(spark, options)
    # Spark gives a Python process ten seconds to answer: on a small machine those of both queries had better not start at once.
    while distinct.isActive and not distinct.lastProgress:
        time.sleep(0.2)
    windows = start_windows(spark, options)
    distinct.awaitTermination()
    windows.awaitTermination()


if __name__ == "__main__":
    main()
