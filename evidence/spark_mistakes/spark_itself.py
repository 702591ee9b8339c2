"""The mistakes that Spark itself tells, in its own words: `make spark-mistakes` makes each in a session and looks for the text.

Also how ours arrive there: one line behind Spark's own words, without the frames of two languages.
"""

from __future__ import annotations

import concurrent.futures
import pathlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Make = Callable[["SparkSession", str, pathlib.Path], Any]


def _stream(spark: SparkSession, servers: str, topic: str = "in") -> Any:
    return spark.readStream.format("oncelog").options(**{"bootstrap.servers": servers, "subscribe": topic}).load()


def _sink(frame: Any, servers: str, **options: str) -> Any:
    given = {"bootstrap.servers": servers, "topic": "out", **options}
    return frame.select("value").writeStream.format("oncelog").options(**given)


def _write(spark: SparkSession, servers: str) -> Any:
    writer = spark.sql("select '1' as value").write.format("oncelog")
    return writer.options(**{"bootstrap.servers": servers, "topic": "out"})


def _in_a_thread(spark: SparkSession, servers: str, _: pathlib.Path) -> None:
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(lambda: _write(spark, servers).mode("append").save()).result()


SPARKS: list[tuple[str, str, str, Make]] = [
    ('`.write` without `.mode("append")`',
     'The data source "oncelog" cannot be written in the "ErrorIfExists" mode',
     '`.mode("append")`: a log can only be appended to',
     lambda spark, servers, _: _write(spark, servers).save()),
    ("a write from a thread of one's own", "[DATA_SOURCE_NOT_FOUND]",
     "`oncelog.spark.activate(spark)` in that thread; `oncelog.spark.register(spark)` where it came with `--py-files`",
     _in_a_thread),
    ("no checkpoint", "checkpointLocation must be specified",
     '`.option("checkpointLocation", ...)`: a directory of this query alone',
     lambda spark, servers, _: _sink(_stream(spark, servers), servers).start()),
    ("a continuous trigger", "does not support continuous processing",
     "`processingTime` or `availableNow`",
     lambda spark, servers, place: _sink(_stream(spark, servers), servers, checkpointLocation=str(place / "1"))
     .trigger(continuous="1 second").start()),
    ("`writeStream` of a batch read", "[WRITE_STREAM_NOT_ALLOWED]", "`spark.readStream`",
     lambda spark, servers, _: spark.read.format("oncelog").options(**{"bootstrap.servers": servers, "subscribe": "in"})
     .load().writeStream),
    ("a topic as a table: ``select * from oncelog.`in` ``", "[UNSUPPORTED_DATASOURCE_FOR_DIRECT_QUERY]",
     "`CREATE TEMPORARY VIEW ... USING oncelog OPTIONS (...)`",
     lambda spark, servers, _: spark.sql("select * from oncelog.`in`")),
    ("fewer columns in `INSERT INTO` than the table has", "[INSERT_COLUMN_ARITY_MISMATCH.NOT_ENOUGH_DATA_COLUMNS]",
     "a view with the columns that are written: `CREATE TEMPORARY VIEW out (key BINARY, value BINARY) USING oncelog ...`",
     lambda spark, servers, _: [
         spark.sql("create table if not exists narrow using oncelog"),
         spark.sql("insert into narrow select cast('1' as binary) as value")]),
]  # fmt: skip
OURS: list[tuple[str, str, Make]] = [
    ("a batch read", "ConfigurationError: unknown option 'subscribee' of format oncelog; did you mean 'subscribe'?",
     lambda spark, servers, _: spark.read.format("oncelog")
     .options(**{"bootstrap.servers": servers, "subscribee": "in"}).load().collect()),
    ("a table without options", "ConfigurationError: no option was given",
     lambda spark, servers, _: [spark.sql("create table if not exists bare using oncelog"), spark.table("bare").count()]),
    ("a task", "ConfigurationError: a row has no topic",
     lambda spark, servers, _: spark.sql("select '1' as value, cast(null as string) as topic").write.format("oncelog")
     .mode("append").option("bootstrap.servers", servers).save()),
    ("a stream's source", "UNKNOWN_TOPIC_OR_PARTITION: not there: inn; create it, or look at its name",
     lambda spark, servers, place: _sink(_stream(spark, servers, "inn"), servers, checkpointLocation=str(place / "2"))
     .trigger(availableNow=True).start().awaitTermination()),
    ("a stream's sink", "ConfigurationError: unknown option 'toppic' of format oncelog; did you mean 'topic'?",
     lambda spark, servers, place: _sink(_stream(spark, servers), servers, checkpointLocation=str(place / "3"), toppic="x")
     .trigger(availableNow=True).start().awaitTermination()),
]  # fmt: skip
