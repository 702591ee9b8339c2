"""`python -m evidence.reconcile.spark_job`: the Spark job and the command line say the same of what `evidence.reconcile`
left, healthy and with a fault planted, opened by tasks and through Hadoop's file systems (viewfs). One line; exit 1 where not."""

from __future__ import annotations

import pathlib
import random
import shutil
import sys
from typing import Any

from evidence.reconcile.planting import FAULTS, Impossible, Place
from oncelog.cli.commands.reconcile import reconciled
from oncelog.core.reconciliation.findings import Finding
from oncelog.spark import segments
from oncelog.spark.java import NoJava, prepare_java

FOLDER = pathlib.Path("build/reconcile").absolute()
FAULT_COUNT = 4


def main() -> int:
    try:
        prepare_java()
    except NoJava as error:
        print(f"reconcile in Spark: left out: {error}")
        return 0
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false").config("spark.sql.shuffle.partitions", "2")
    builder = builder.config("spark.hadoop.fs.viewfs.mounttable.default.link./reconcile", FOLDER.as_uri())
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    differing, compared, faults = [], 0, 0
    for data in _directories():
        plain = _comparable(reconciled([str(data)]).findings, str(data))
        faults += len(plain)
        for path in (str(data), f"viewfs:///reconcile/{data.relative_to(FOLDER)}"):
            compared += 1
            if _in_spark(spark, path) != plain:
                differing.append(path)
    spark.stop()
    for path in differing:
        print(f"{path}: other verdicts than the command's", file=sys.stderr)
    print(
        f"reconcile in Spark: {compared} jobs, {faults} findings of the command line, {len(differing)} jobs found other ones"
    )
    return 1 if differing else 0


def _directories() -> list[pathlib.Path]:
    """A stopped directory of each broker, and copies of the first with faults."""
    healthy = [path for path in (FOLDER / "clean" / "data", FOLDER / "Kafka-clean" / "node" / "data") if path.exists()]
    assert healthy, "run `python -m evidence.reconcile` first"
    found = list(healthy)
    drawn = random.Random(1)
    for number, plant in enumerate(drawn.sample(FAULTS, FAULT_COUNT)):
        copy = FOLDER / f"planted-{number}"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(healthy[0], copy)
        try:
            plant(Place(copy, drawn))
        except Impossible:
            continue
        found.append(copy)
    return found


def _in_spark(spark: Any, path: str) -> set[tuple[object, ...]]:
    tables = segments(spark, path)
    report = tables.reconcile()
    assert tables.findings(report).count() == len(report.findings)
    return _comparable(report.findings, path)


def _comparable(findings: list[Finding], path: str) -> set[tuple[object, ...]]:
    """Without the directory's own name, which differs."""
    return {
        (
            each.kind,
            each.topic,
            each.partition,
            each.first_offset,
            each.last_offset,
            each.producer_id,
            each.text.replace(path, ""),
        )
        for each in findings
    }


if __name__ == "__main__":
    sys.exit(main())
