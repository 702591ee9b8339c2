"""Look into a data directory with Spark, without a broker: `python examples/spark_segments.py DIRECTORY`."""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession

from oncelog.spark import segments
from oncelog.spark.java import prepare_java

BIGGEST_PRODUCERS = """
    SELECT producer_id, count(*) AS batches, sum(record_count) AS records, sum(size_bytes) AS bytes
    FROM segments_batches WHERE producer_id >= 0 GROUP BY producer_id ORDER BY bytes DESC LIMIT 5
"""
LONGEST_TRANSACTIONS = """
    SELECT topic, partition, producer_id, producer_epoch, outcome, marker_offset - first_offset AS offsets
    FROM segments_transactions WHERE first_offset IS NOT NULL ORDER BY offsets DESC NULLS FIRST LIMIT 5
"""


def main(directory: str) -> int:
    """Show who wrote most, and whether the logs agree: 1 where they do not."""
    prepare_java()
    spark = SparkSession.builder.master("local[2]").appName("segments").getOrCreate()
    tables = segments(spark, directory)
    tables.create_views()
    spark.sql(BIGGEST_PRODUCERS).show()
    spark.sql(LONGEST_TRANSACTIONS).show()
    report = tables.reconcile()
    for finding in report.faults:
        print(
            finding.kind, finding.topic, finding.partition, finding.first_offset, finding.text, finding.repair, sep="  "
        )
    print(f"{report.log_count} logs, {report.record_count} records, {len(report.faults)} faults")
    spark.stop()
    return 1 if report.faults else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python examples/spark_segments.py DATA_DIRECTORY")
    sys.exit(main(sys.argv[1]))
