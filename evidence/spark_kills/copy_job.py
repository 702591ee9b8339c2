"""The job that is killed: copies topic `in` to topic `out` through format oncelog, in small micro-batches, until all is read.

With --fail-tasks some task attempts raise after they wrote and prepared everything: an orphan transaction each.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from oncelog.spark.data_source import DefaultSource
from oncelog.spark.java import prepare_java
from oncelog.spark.writer import StreamWriter, TaskMessage


class FailingWriter(StreamWriter):
    """Fails about one attempt in eight, after all was written."""

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskMessage:
        message = super().write(iterator)
        if os.urandom(1)[0] < 32:
            raise RuntimeError("planned: this attempt fails after it wrote everything")
        return message


class FailingSource(DefaultSource):
    @classmethod
    def name(cls) -> str:
        return "oncelog_failing"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:
        writer = super().streamWriter(schema, overwrite)
        return FailingWriter(writer._options, writer._backend, looks_first=writer._looks_first)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bootstrap-server", required=True)
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--records-per-batch", type=int, default=2000)
    parser.add_argument("--fail-tasks", action="store_true")
    options = parser.parse_args()
    prepare_java()
    builder = SparkSession.builder.master("local[2,6]").appName("copy")
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "ERROR",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "1g",
    }.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.dataSource.register(FailingSource)
    records = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", options.bootstrap_server)
        .option("subscribe", "in")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", options.records_per_batch)
        .load()
    )
    query = (
        records.select("key", "value")
        .writeStream.format("oncelog_failing" if options.fail_tasks else "oncelog")
        .option("bootstrap.servers", options.bootstrap_server)
        .option("topic", "out")
        .option("checkpointLocation", options.checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    main()
