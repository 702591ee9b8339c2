"""`make spark-adoption`: queries begin with Spark's own Kafka source, are adopted, and go on with format oncelog.

Each case: records are written, the query runs with Spark's connector and stops (or fails in the middle of a batch), more
records are written, `oncelog spark adopt-checkpoint` changes the checkpoint (or nothing does), and the query goes on with
`format("oncelog")`. Every record has to come once. The connector's jars come from Maven; where they cannot be had this says so.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from bench.spark import Missing, jars

from evidence.spark_cluster.daemons import home_without_zip
from evidence.world.committed import wait_for_markers
from oncelog import sync
from oncelog.spark.java import prepare_java
from oncelog.testing import TestBroker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS, COUNT, PER_TRIGGER = 3, 300, 100
STARTS = 10
TOO_SLOW = ("Python worker failed to connect back", "CANNOT_OPEN_SOCKET")  # Spark's own patience, on a busy machine


@dataclass(frozen=True)
class Case:
    """What happens before the change. `fails_at`: the batch in which the old query fails, once it is planned."""

    name: str
    fails_at: int | None = None
    starting: str = "earliest"
    adopts: bool = True

    @property
    def topic(self) -> str:
        """Of its own."""
        return self.name.replace(" ", "-").replace(",", "")


CASES = (
    Case("finished batches"),
    Case("a batch in the middle", fails_at=1),
    Case("the first batch", fails_at=0),
    Case("the first batch, from latest", fails_at=0, starting="latest"),
    Case("as it is", fails_at=1, adopts=False),
)


class Planned(Exception):
    """The failure of the old query."""


def put(broker: TestBroker, topic: str, first: int, count: int) -> None:
    """Records `first` and following, and an aborted one."""
    with sync.Producer(bootstrap_servers=broker.bootstrap_servers, transactional_id=f"put-{topic}") as producer:
        with producer.transaction():
            for number in range(first, first + count):
                producer.send(topic, b"%d" % number, partition=number % PARTITIONS)
        producer.begin_transaction()
        producer.send(topic, b"aborted")
        producer.flush()
        producer.abort_transaction()
    wait_for_markers(broker.bootstrap_servers)  # one that comes later would be a batch of its own


def run(
    spark: SparkSession, source: str, case: Case, broker: TestBroker, checkpoint: pathlib.Path, seen: list[int]
) -> None:
    """Adds to `seen` the numbers that a run of the query was given, batches that failed left out."""
    for _ in range(STARTS):
        try:
            run_once(spark, source, case, broker, checkpoint, seen)
            return
        except Exception as error:
            if not any(each in str(error) for each in TOO_SLOW):
                raise
    raise SystemExit(f"spark-adoption: this machine is too busy: {STARTS} times one of {TOO_SLOW}")


def run_once(
    spark: SparkSession, source: str, case: Case, broker: TestBroker, checkpoint: pathlib.Path, seen: list[int]
) -> None:
    """As `run`, where Spark's processes find one another in time."""
    fails_at = case.fails_at if source == "kafka" else None

    def take(frame: DataFrame, batch_id: int) -> None:
        numbers = [int(row.value) for row in frame.collect()]
        if batch_id == fails_at:
            raise Planned(f"batch {batch_id} of {case.name}")
        seen.extend(numbers)

    isolation = {"kafka.isolation.level": "read_committed"} if source == "kafka" else {}
    rows = (
        spark.readStream.format(source)
        .option("kafka.bootstrap.servers", broker.bootstrap_servers)
        .option("subscribe", case.topic)
        .option("startingOffsets", case.starting)
        .option("maxOffsetsPerTrigger", PER_TRIGGER)
        .options(**isolation)
        .load()
    )
    query = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint)).start()
    try:
        query.processAllAvailable()
    except Exception as error:
        if fails_at is None or Planned.__name__ not in str(error):
            raise
    finally:
        query.stop()


def adopt(broker: TestBroker, checkpoint: pathlib.Path) -> list[dict[str, Any]]:
    """By the command; the rows that it tells."""
    command = [
        sys.executable,
        "-m",
        "oncelog",
        "-b",
        broker.bootstrap_servers,
        "spark",
        "adopt-checkpoint",
        str(checkpoint),
    ]
    done = subprocess.run([*command, "--yes", "-o", "json"], capture_output=True, text=True, check=True)
    rows: list[dict[str, Any]] = json.loads(done.stdout)
    return rows


def wrong_with(spark: SparkSession, case: Case, broker: TestBroker, folder: pathlib.Path) -> str:
    """What is wrong after a case; empty: nothing."""
    checkpoint = folder / case.topic
    with sync.Admin(bootstrap_servers=broker.bootstrap_servers) as admin:
        admin.create_topics({case.topic: PARTITIONS})
    seen: list[int] = []
    first = 0
    if case.starting == "latest":  # it begins behind these: its first batch is planned at once, without records
        first = 10
        put(broker, case.topic, 0, first)
        run(spark, "kafka", case, broker, checkpoint, seen)
        put(broker, case.topic, first, COUNT - first)
    else:
        put(broker, case.topic, 0, COUNT)
        run(spark, "kafka", case, broker, checkpoint, seen)
    if case.fails_at is not None and len(seen) >= COUNT - first:
        return "the old query did not fail"
    put(broker, case.topic, COUNT, COUNT)
    if case.adopts:
        adopt(broker, checkpoint)
    run(spark, "oncelog", case, broker, checkpoint, seen)
    expected = list(range(first, 2 * COUNT))
    return "" if sorted(seen) == expected else f"{len(seen)} records, {len(set(seen))} of {len(expected)} expected"


def session(jar_files: str) -> SparkSession:
    """One for all cases."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[2]").config("spark.jars", jar_files)
    for key, value in {
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "768m",
        "spark.python.authenticate.socketTimeout": "120s",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def main() -> int:
    prepare_java()
    try:
        jar_files = jars()
    except Missing as missing:
        print(f"spark-adoption: skipped: {missing}")
        return 0
    failed, wanted = 0, " ".join(sys.argv[1:])  # part of a case's name; nothing: all
    with tempfile.TemporaryDirectory(prefix="spark-adoption-") as name, TestBroker() as broker:
        os.environ["SPARK_HOME"] = str(home_without_zip(pathlib.Path(name)))
        spark = session(jar_files)
        try:
            for case in (each for each in CASES if wanted in each.name):
                wrong = wrong_with(spark, case, broker, pathlib.Path(name))
                failed += bool(wrong)
                how = "adopted" if case.adopts else "not adopted, gone on with"
                print(f"spark-adoption: {case.name}: {how}: {wrong or 'each record once'}", flush=True)
        finally:
            spark.stop()
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
