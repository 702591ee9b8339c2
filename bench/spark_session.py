"""One Spark session that both formats share: reads a job from each line of stdin (JSON), does it, prints the figure (JSON).

It runs with the Python of build/bench/spark-jvm, whose Spark is the one that its Kafka connector was built for. More settings of
Spark's: BENCH_SPARK_SETTINGS="key=value key=value".
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time
from typing import Any

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.log.level": "ERROR",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
}
VALUE = "cast(lpad(cast(id as string), 100, 'x') as binary) as value"


def options(job: dict[str, Any]) -> dict[str, str]:
    """Where to connect, in the words of the format."""
    if job["format"] == "oncelog":
        return {"bootstrap.servers": job["bootstrap"]}
    return {"kafka.bootstrap.servers": job["bootstrap"], "kafka.fetch.max.wait.ms": "10"}


def source(spark: Any, job: dict[str, Any]) -> Any:
    reader = spark.read.format(job["format"]).options(**options(job)).option("subscribe", job["topic"])
    return reader.option("startingOffsets", "earliest").load()


def read_into_noop(spark: Any, job: dict[str, Any]) -> float:
    started = time.perf_counter()
    source(spark, job).write.format("noop").mode("overwrite").save()
    return float(job["rows"]) / (time.perf_counter() - started)


def read_into_python(spark: Any, job: dict[str, Any]) -> float:
    def count(batches: Any) -> Any:
        import pyarrow as pa

        rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"n": [rows]})

    started = time.perf_counter()
    found = sum(row.n for row in source(spark, job).mapInArrow(count, "n bigint").collect())
    assert found == job["rows"], found
    return float(job["rows"]) / (time.perf_counter() - started)


def write(spark: Any, job: dict[str, Any]) -> float:
    rows = spark.range(0, job["rows"], 1, 2).selectExpr(VALUE)
    started = time.perf_counter()
    rows.write.format(job["format"]).options(**options(job)).option("topic", job["topic"]).mode("append").save()
    return float(job["rows"]) / (time.perf_counter() - started)


def stream(spark: Any, job: dict[str, Any]) -> float:
    """The median time of a trigger of 20 rows, in ms; what Spark itself reports."""
    where = {} if job["format"] == "nothing" else {**options(job), "topic": job["topic"]}
    twenty = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 20).option("numPartitions", 2).load()
    return trigger_ms(twenty.selectExpr("cast(lpad(cast(value as string), 100, 'x') as binary) as value"), job, where)


def copy(spark: Any, job: dict[str, Any]) -> float:
    """The same from topic to topic: source and sink of one format."""
    if job["format"] == "nothing":
        return trigger_ms(spark.readStream.format("nothing").load(), job, {})
    source = spark.readStream.format(job["format"]).options(**options(job)).option("subscribe", "read")
    twenty = source.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 20).load()
    return trigger_ms(twenty.select("key", "value"), job, {**options(job), "topic": job["topic"]})


def trigger_ms(rows: Any, job: dict[str, Any], where: dict[str, str]) -> float:
    """The median of triggers of 20 rows, without the first ones."""
    with tempfile.TemporaryDirectory() as checkpoint:
        query = (
            rows.writeStream.format(job["format"])
            .options(**where)
            .option("checkpointLocation", checkpoint)
            .trigger(processingTime="0 seconds")
            .start()
        )
        while (query.lastProgress or {"batchId": -1})["batchId"] < job["batches"]:
            if query.exception() is not None:
                raise RuntimeError(str(query.exception())[:500])
            time.sleep(0.2)
        taken = [p["durationMs"]["triggerExecution"] for p in query.recentProgress[5:] if p["numInputRows"] == 20]
        query.stop()
    return float(statistics.median(taken))


def nothing() -> Any:
    """A format whose source gives 20 rows a batch and whose sink takes them: what Spark takes for any format in Python."""
    import pyarrow as pa
    from pyspark.sql.datasource import (
        DataSource,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        InputPartition,
        WriterCommitMessage,
    )

    class Reader(DataSourceStreamReader):  # type: ignore[misc, unused-ignore]
        def initialOffset(self) -> Any:  # noqa: N802
            return {"rows": 0}

        def latestOffset(self, start: Any, limit: Any) -> Any:  # noqa: ARG002, N802
            return {"rows": start["rows"] + 20}

        def partitions(self, start: Any, end: Any) -> Any:  # noqa: ARG002
            return [InputPartition(0), InputPartition(1)]

        def read(self, partition: Any) -> Any:  # noqa: ARG002
            yield pa.RecordBatch.from_pydict({"key": pa.nulls(10, pa.binary()), "value": pa.array([b"x" * 100] * 10)})

        def commit(self, end: Any) -> None:
            pass

    class Writer(DataSourceStreamArrowWriter):  # type: ignore[misc, unused-ignore]
        def write(self, iterator: Any) -> WriterCommitMessage:
            for _ in iterator:
                pass
            return WriterCommitMessage()

        def commit(self, messages: Any, batchId: int) -> None:  # noqa: N803
            pass

    class Nothing(DataSource):  # type: ignore[misc, unused-ignore]
        @classmethod
        def name(cls) -> str:
            return "nothing"

        def schema(self) -> str:
            return "key binary, value binary"

        def streamReader(self, schema: Any) -> Reader:  # noqa: ARG002, N802
            return Reader()

        def streamWriter(self, schema: Any, overwrite: bool) -> Writer:  # noqa: ARG002, N802
            return Writer()

    return Nothing


JOBS = {
    "read_into_noop": read_into_noop,
    "read_into_python": read_into_python,
    "write": write,
    "stream": stream,
    "copy": copy,
}


def main() -> None:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").config("spark.jars", sys.argv[1])
    more = dict(each.split("=", 1) for each in os.environ.get("BENCH_SPARK_SETTINGS", "").split())
    for key, value in (SETTINGS | more).items():
        builder = builder.config(key, value)
    answers = os.fdopen(os.dup(1), "w", buffering=1)  # Spark prints to stdout as well
    os.dup2(2, 1)
    spark = builder.getOrCreate()
    from oncelog.spark.data_source import DefaultSource

    spark.dataSource.register(DefaultSource)
    spark.dataSource.register(nothing())
    answers.write(json.dumps({"spark": spark.version}) + "\n")
    for line in sys.stdin:
        job = json.loads(line)
        try:
            answer: dict[str, Any] = {"figure": JOBS[job["job"]](spark, job)}
        except Exception as error:  # noqa: BLE001 - reported to the bench, which goes on with the other format
            answer = {"error": f"{type(error).__name__}: {error}"[:1500]}
        answers.write(json.dumps(answer) + "\n")
    with contextlib.suppress(OSError):
        spark.stop()


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "src"))
    main()
