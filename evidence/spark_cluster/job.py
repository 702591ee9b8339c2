"""What is submitted: a batch write, a batch read and a stream from topic to topic; prints one line of JSON for each."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from typing import Any

COUNT = 10


def main() -> None:
    from pyspark.sql import SparkSession

    bootstrap_servers, topic, registers, package = sys.argv[1:5]
    spark = SparkSession.builder.getOrCreate()
    if package != "-":
        spark.sparkContext.addPyFile(package)
    if registers == "registers":
        from oncelog.spark import register

        register(spark)
    where = {"bootstrap.servers": bootstrap_servers}

    def write() -> int:
        rows = spark.range(COUNT).selectExpr("cast(id as string) as value")
        rows.write.format("oncelog").mode("append").options(**where).option("topic", topic).save()
        return COUNT

    def source(reader: Any) -> Any:
        return reader.format("oncelog").options(**where).option("subscribe", topic).load()

    def read() -> int:
        return int(source(spark.read).count())

    def copy() -> int:
        with tempfile.TemporaryDirectory() as checkpoint:
            rows = source(spark.readStream.option("startingOffsets", "earliest")).select("value")
            writer = rows.writeStream.format("oncelog").options(**where).option("topic", f"{topic}-out")
            query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
            query.awaitTermination()
            return sum(progress["numInputRows"] for progress in query.recentProgress)

    for name, work in (("batch write", write), ("batch read", read), ("stream", copy)):
        print("STEP " + json.dumps({"step": name, **outcome(work)}), flush=True)
    spark.stop()


def outcome(work: Callable[[], int]) -> dict[str, Any]:
    try:
        return {"rows": work()}
    except Exception as error:  # noqa: BLE001 - the line says which step failed, and how
        return {"error": " ".join(str(error).split())[:600]}


if __name__ == "__main__":
    main()
