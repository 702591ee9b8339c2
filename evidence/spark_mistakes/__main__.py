"""`make spark-mistakes`: what Spark itself tells, and how our lines arrive, in one session."""

from __future__ import annotations

import pathlib
import sys
import tempfile
import warnings

from evidence.spark_mistakes.pushing import counts
from evidence.spark_mistakes.spark_itself import OURS, SPARKS, Make
from oncelog import sync
from oncelog.spark.java import prepare_java
from oncelog.testing import TestBroker


def main() -> int:
    """0 where every text is as the page says."""
    prepare_java()
    warnings.simplefilter("ignore")  # pyspark's own deprecations
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory() as place, TestBroker() as broker:
        builder = SparkSession.builder.master("local[2]")
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.log.level": "OFF",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.warehouse.dir": f"{place}/warehouse",
        }.items():
            builder = builder.config(key, value)
        spark = builder.getOrCreate()
        with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
            admin.create_topics({"in": 1, "out": 1})
        with sync.Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            producer.send("in", b"1")

        def told(make: Make) -> str:
            try:
                make(spark, broker.bootstrap_servers, pathlib.Path(place))
            except Exception as error:  # noqa: BLE001 - whatever Spark makes of it is what the user sees
                return str(error)
            return "nothing was told"

        wrong = 0
        for what, text, _, make in SPARKS:
            found = told(make)
            wrong += _judged(what, text in found, found)
        for what, text, make in OURS:
            found = told(make)
            wrong += _judged(f"ours in {what}", text in found and "Traceback" not in found, found)
        found_rows = counts(spark)
        wrong += _judged("pushed filters stay with a frame, which loses rows", found_rows == (1, 1, 4), str(found_rows))
        spark.stop()
    print(
        f"{len(SPARKS)} of Spark's own mistakes, {len(OURS)} of ours in a session, {wrong} told otherwise than the page says"
    )
    return min(wrong, 1)


def _judged(what: str, is_right: bool, found: str) -> int:
    print(f"{'ok' if is_right else 'WRONG'}  {what}" + ("" if is_right else f": {found}"))
    return 0 if is_right else 1


if __name__ == "__main__":
    sys.exit(main())
